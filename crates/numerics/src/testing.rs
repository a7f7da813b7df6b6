//! What the tests share: a random source and the thread-count check.

use rayon::ThreadPoolBuilder;

/// A small deterministic random source (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Uniform in `-1..1`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn f32s(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit() as f32).collect()
    }

    pub fn f64s(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Few distinct values, so that there are ties, and some NaN.
    pub fn ties(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| if self.below(9) == 0 { f32::NAN } else { self.below(5) as f32 - 2.0 }).collect()
    }
}

/// Asserts that `f` gives the same bits on 1, 2, 4 and 8 threads.
pub fn same_on_any_threads<T: PartialEq + Send>(f: impl Fn() -> T + Sync) {
    let run = |n| ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(&f);
    let one = run(1);
    for threads in [2, 4, 8] {
        assert!(run(threads) == one, "{threads} threads give another result than one");
    }
}

/// Asserts that all elements agree to `tolerance`.
#[track_caller]
pub fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance || a == b, "element {i}: {a} and {b} differ");
    }
}

/// The bits of a slice, in which NaNs compare.
pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}
