use crate::gemm::{BatchOffset, Dims, Gemm, Half, Layout, Operand, batched_gemm, gemm};
use ::half::{bf16, f16};
use proptest::prelude::*;

/// Small whole numbers: their products and sums are exact, in whatever order they are taken.
fn numbers<T: Half>(n: usize, seed: u64, most: i64) -> Vec<T> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut one = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        ((s >> 33) as i64 % (2 * most + 1) - most) as f32
    };
    let wide: Vec<f32> = (0..n).map(|_| one()).collect();
    let mut out = vec![T::ZERO; n];
    T::round_all(&wide, &mut out);
    out
}

fn wide<T: Half>(x: &[T]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    T::widen_all(x, &mut out);
    out
}

fn check<T: Half + Gemm + std::fmt::Debug + PartialEq>(d: Dims, turned: [bool; 3], gap: usize, seed: u64) {
    let layout = |m: usize, n: usize, turned: bool| {
        let (rs, cs) = if turned { (1, m + gap) } else { (n + gap, 1) };
        (Layout { offset: gap, rs: rs as isize, cs: cs as isize }, gap + (m + gap) * (n + gap))
    };
    let ((la, na), (lb, nb), (lc, nc)) =
        (layout(d.m, d.k, turned[0]), layout(d.k, d.n, turned[1]), layout(d.m, d.n, turned[2]));
    let (a, b) = (numbers::<T>(na, seed, 3), numbers::<T>(nb, seed + 1, 3));
    let mut c = vec![T::ONE; nc];
    gemm(d, T::ONE, Operand::new(&a, la), Operand::new(&b, lb), T::ZERO, &mut c, lc);
    let (wa, wb) = (wide(&a), wide(&b));
    let mut want = vec![1.0f32; nc];
    for i in 0..d.m {
        for j in 0..d.n {
            want[lc.position(i, j)] = (0..d.k).map(|p| wa[la.position(i, p)] * wb[lb.position(p, j)]).sum();
        }
    }
    let mut rounded = vec![T::ZERO; nc];
    T::round_all(&want, &mut rounded);
    assert_eq!(c, rounded, "{d:?} {turned:?} {gap}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn products_of_whole_numbers_are_exact(
        m in 1usize..70,
        n in 1usize..110,
        k in 1usize..40,
        turned in any::<[bool; 3]>(),
        gap in 0usize..3,
        seed in 0u64..1000,
    ) {
        check::<bf16>(Dims::new(m, n, k), turned, gap, seed);
        check::<f16>(Dims::new(m, n, k), turned, gap, seed);
    }
}

#[test]
fn sizes_beyond_a_block() {
    for (m, n, k) in [
        (9, 500, 2100),
        (130, 50, 4097),
        (1, 600, 3000),
        (700, 3, 70),
        (4, 300, 33),
        (65, 961, 5),
        (70, 512, 128),
        (1030, 20, 2101),
    ] {
        for turned in [[false; 3], [false, true, false], [true, false, false], [true, true, true]] {
            check::<bf16>(Dims::new(m, n, k), turned, 0, 7);
            check::<bf16>(Dims::new(m, n, k), turned, 1, 7);
        }
        check::<f16>(Dims::new(m, n, k), [false; 3], 0, 7);
    }
}

#[test]
fn sums_are_rounded_once_to_the_nearest() {
    // 1 + 2^-8 lies between two numbers of 8 bits; the even one is 1. A third term decides otherwise.
    let half = bf16::from_f32(2f32.powi(-8));
    for (third, want) in [(0.0, 1.0), (2f32.powi(-20), 1.0 + 2f32.powi(-7))] {
        for n in [1, 8] {
            let a: Vec<bf16> = [bf16::ONE, half, bf16::from_f32(third)].repeat(n);
            let b = vec![bf16::ONE; 3 * n];
            let mut c = vec![bf16::ZERO; n * n];
            let (la, lb) = (Layout::row_major(3), Layout::row_major(n));
            gemm(
                Dims::new(n, n, 3),
                bf16::ONE,
                Operand::new(&a, la),
                Operand::new(&b, lb),
                bf16::ZERO,
                &mut c,
                Layout::row_major(n),
            );
            assert!(c.iter().all(|x| x.to_f32() == want), "{third} {n}: {c:?}");
        }
    }
    // What is no number stays none, and what is too large becomes infinite.
    let a = [f32::NAN, f32::INFINITY, 3e38, -3e38].map(bf16::from_f32);
    let mut rows = [bf16::ZERO; 4 * 8];
    a.iter().zip(rows.chunks_mut(8)).for_each(|(x, row)| row.fill(*x));
    let b = [bf16::ONE; 8 * 8];
    let mut c = vec![bf16::ZERO; 4 * 8];
    let (la, lb) = (Layout::row_major(8), Layout::row_major(8));
    let (a, b) = (Operand::new(&rows[..], la), Operand::new(&b[..], lb));
    gemm(Dims::new(4, 8, 8), bf16::ONE, a, b, bf16::ZERO, &mut c, Layout::row_major(8));
    assert!(c[..8].iter().all(|x| x.is_nan()), "{c:?}");
    assert!(c[8..24].iter().all(|x| x.to_f32() == f32::INFINITY), "{c:?}");
    assert!(c[24..].iter().all(|x| x.to_f32() == f32::NEG_INFINITY), "{c:?}");
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let d = Dims::new(200, 300, 250);
    let (a, b) = (numbers::<bf16>(200 * 250, 3, 100), numbers::<bf16>(250 * 300, 4, 100));
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut c = vec![bf16::ZERO; 200 * 300];
        let batch = [BatchOffset { a: 0, b: 0, c: 0 }];
        let (x, y) = (Operand::new(&a[..], Layout::row_major(250)), Operand::new(&b[..], Layout::row_major(300)));
        pool.install(|| batched_gemm(d, bf16::ONE, x, y, bf16::ZERO, &mut c, Layout::row_major(300), &batch));
        c
    };
    assert_eq!(of(1), of(4));
}

/// Sums of one number, and those on both sides of what goes by pairs with few columns, in all layouts.
#[test]
fn the_shortest_sums() {
    for (m, n) in [(5, 7), (300, 33), (4, 90), (90, 2), (300, 1), (2, 90), (3, 3)] {
        for k in [1, 2, 7, 8, 9, 20, 21, 31, 33, 40, 60, 61] {
            for t in 0..8 {
                let turned = [t & 1 == 1, t & 2 == 2, t & 4 == 4];
                check::<bf16>(Dims::new(m, n, k), turned, t % 3, 5);
                check::<f16>(Dims::new(m, n, k), turned, t % 3, 5);
            }
        }
    }
}
