//! A stream of random numbers of its own: the same on every machine, and independent of the engine's.

use gradus_core::kernel::rand::philox;

/// Counter-based random numbers (Philox 4x32-10) for shuffling and augmentation.
///
/// A seed and a stream name a sequence; streams of one seed are independent.
///
/// ```
/// use gradus_data::Rng;
/// let (mut a, mut b) = (Rng::new(7, 0), Rng::new(7, 0));
/// assert_eq!(a.permutation(10), b.permutation(10));
/// assert!(a.below(6) < 6 && (0.0..1.0).contains(&a.uniform()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
    stream: u64,
    counter: u64,
    words: [u32; 4],
    used: usize,
}

impl Rng {
    /// The start of a stream.
    pub fn new(seed: u64, stream: u64) -> Rng {
        Rng { seed, stream, counter: 0, words: [0; 4], used: 4 }
    }

    /// The numbers of the same stream from a far place on: 2^32 draws lie between two places.
    pub fn jumped(&self, place: u64) -> Rng {
        Rng { counter: place << 32, words: [0; 4], used: 4, ..*self }
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used >= self.words.len() {
            self.words = philox(self.counter, self.stream, self.seed);
            self.counter += 1;
            self.used = 0;
        }
        let [a, b, c, d] = self.words;
        self.used += 1;
        match self.used {
            1 => a,
            2 => b,
            3 => c,
            _ => d,
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }

    /// A number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number in `[low, high)`.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Whether an event of this probability happens.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// A whole number below `n` (0 when `n` is 0), each as likely as any other.
    pub fn below(&mut self, n: usize) -> usize {
        // The upper half of a 64x64-bit product, with the few values refused that would come once too often (Lemire 2019).
        let n = n as u64;
        let refused = if n == 0 { 0 } else { n.wrapping_neg() % n };
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= refused {
                return (product >> 64) as usize;
            }
        }
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i + 1);
            items.swap(i, j);
        }
    }

    /// The numbers below `n` in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_order_on_every_machine() {
        assert_eq!(Rng::new(0, 0).next_u32(), 0x6627_e8d5); // Random123's first vector
        assert_eq!(Rng::new(42, 3).permutation(10), [9, 7, 6, 2, 3, 8, 1, 0, 5, 4]);
        assert_ne!(Rng::new(42, 3).permutation(10), Rng::new(42, 4).permutation(10));
        assert_ne!(Rng::new(42, 3).permutation(10), Rng::new(43, 3).permutation(10));
    }

    #[test]
    fn below_is_fair() {
        let mut rng = Rng::new(1, 0);
        let mut counts = [0usize; 7];
        for _ in 0..70_000 {
            counts[rng.below(7)] += 1;
        }
        assert!(counts.iter().all(|c| (9_600..10_400).contains(c)), "{counts:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn every_order_comes_up() {
        let mut rng = Rng::new(5, 9);
        let seen: std::collections::BTreeSet<_> = (0..400).map(|_| rng.permutation(4)).collect();
        assert_eq!(seen.len(), 24);
    }
}
