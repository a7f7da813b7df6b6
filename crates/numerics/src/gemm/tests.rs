use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};
use ::half::{bf16, f16};
use proptest::prelude::*;

/// A random layout of an `m` by `n` matrix and the length of slice it needs.
fn layout(r: &mut Random, m: usize, n: usize, input: bool) -> (Layout, usize) {
    let gap = 1 + r.below(3);
    let (mut rs, mut cs) = ((n.max(1) * gap + r.below(3)) as isize, gap as isize);
    if r.below(2) == 0 {
        (rs, cs) = (gap as isize, (m.max(1) * gap) as isize);
    }
    if input && r.below(4) == 0 {
        rs = 0;
    }
    if input && r.below(4) == 0 {
        cs = 0;
    }
    let mut offset = r.below(4);
    if r.below(3) == 0 {
        offset += rs as usize * m.saturating_sub(1);
        rs = -rs;
    }
    if r.below(3) == 0 {
        offset += cs as usize * n.saturating_sub(1);
        cs = -cs;
    }
    let l = Layout::new(offset, rs, cs);
    let len = if m == 0 || n == 0 { 0 } else { l.span(m, n).1 as usize + 1 + r.below(3) };
    (l, len)
}

fn naive(d: Dims, alpha: f64, a: (&[f64], Layout), b: (&[f64], Layout), beta: f64, c: &mut [f64], lc: Layout) {
    for i in 0..d.m {
        for j in 0..d.n {
            let sum: f64 = (0..d.k).map(|p| a.0[a.1.position(i, p)] * b.0[b.1.position(p, j)]).sum();
            let c = &mut c[lc.position(i, j)];
            *c = alpha * sum + if beta == 0.0 { 0.0 } else { beta * *c };
        }
    }
}

/// Runs one random product in type `T` and compares every element, also those between the
/// matrix's elements, which must stay as they are.
fn check<T: Gemm>(seed: u64, d: Dims, make: impl Fn(f64) -> T, tolerance: f64) {
    let mut r = Random(seed);
    let (la, na) = layout(&mut r, d.m, d.k, true);
    let (lb, nb) = layout(&mut r, d.k, d.n, true);
    let (lc, nc) = layout(&mut r, d.m, d.n, false);
    let mut values = |n: usize| -> Vec<T> { (0..n).map(|_| make(r.unit() * 4.0)).collect() };
    let (a, b, mut c) = (values(na), values(nb), values(nc));
    let (alpha, beta) = [(1.0, 0.0), (1.0, 1.0), (2.0, -1.0), (-1.0, 0.0), (0.0, 2.0)][r.below(5)];
    let wide = |x: &[T]| -> Vec<f64> { x.iter().map(|x| x.to_f64()).collect() };
    let mut expected = wide(&c);
    naive(d, alpha, (&wide(&a), la), (&wide(&b), lb), beta, &mut expected, lc);
    gemm(d, make(alpha), Operand::new(&a, la), Operand::new(&b, lb), make(beta), &mut c, lc);
    close(&wide(&c), &expected, tolerance * (d.k as f64 + 1.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn products_match_the_definition(seed: u64, m in 0usize..40, n in 0usize..40, k in 0usize..40) {
        let d = Dims::new(m, n, k);
        check(seed, d, |x| x, 1e-13);
        check(seed, d, |x| x as f32, 3e-5);
        check(seed, d, |x| x.round() as i64, 0.0);
        check(seed, d, |x| x.round() as i32, 0.0);
        check(seed, d, f16::from_f64, 0.02);
        check(seed, d, bf16::from_f64, 0.2);
    }

    #[test]
    fn vectors_and_thin_matrices_match(seed: u64, m in 0usize..3, n in 0usize..70, k in 0usize..1100) {
        check(seed, Dims::new(m, n, k), |x| x, 1e-12);
        check(seed, Dims::new(n, m, k), |x| x, 1e-12);
        check(seed, Dims::new(k, n, m), |x| x, 1e-12);
    }
}

#[test]
fn large_products_of_any_layout_match() {
    for seed in 0..20 {
        let mut r = Random(seed);
        check(seed, Dims::new(60 + r.below(300), 60 + r.below(300), 1 + r.below(600)), |x| x, 1e-12);
    }
}

#[test]
fn integers_wrap() {
    let (a, b) = ([i32::MAX, 2], [2, 3]);
    let mut c = [1];
    let (a, b) = (Operand::new(&a, Layout::row_major(2)), Operand::new(&b, Layout::row_major(1)));
    gemm(Dims::new(1, 1, 2), 1, a, b, 1, &mut c, Layout::row_major(1));
    assert_eq!(c, [i32::MAX.wrapping_mul(2).wrapping_add(7)]);
}

#[test]
fn a_zero_beta_does_not_read_the_output() {
    for (m, n, k) in [(1, 1, 0), (3, 3, 1), (5, 1, 7), (1, 5, 7), (9, 9, 2), (40, 40, 40), (4, 4, 600)] {
        let (a, b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
        let mut c = vec![f32::NAN; m * n];
        let (a, b) = (Operand::new(&a, Layout::row_major(k)), Operand::new(&b, Layout::row_major(n)));
        gemm(Dims::new(m, n, k), 1.0, a, b, 0.0, &mut c, Layout::row_major(n));
        assert_eq!(c, vec![k as f32; m * n]);
    }
}

#[test]
fn coinciding_outputs_are_written_in_order() {
    let (a, b) = ([1.0, 2.0], [1.0]);
    let mut c = [0.0];
    let (a, b) = (Operand::new(&a, Layout::row_major(1)), Operand::new(&b, Layout::row_major(1)));
    gemm(Dims::new(2, 1, 1), 1.0, a, b, 0.0, &mut c, Layout::new(0, 0, 0));
    assert_eq!(c, [2.0]);
}

#[test]
fn batches_match_single_products() {
    let mut r = Random(1);
    for (count, m, n, k) in [(0, 2, 2, 2), (1, 3, 4, 5), (300, 9, 8, 33), (3, 130, 120, 110), (5, 0, 3, 2)] {
        let d = Dims::new(m, n, k);
        let (a, b) = (r.f32s(count * m * k), r.f32s(k * n));
        let (la, lb, lc) = (Layout::row_major(k), Layout::row_major(n), Layout::row_major(n));
        let batch: Vec<_> =
            (0..count).map(|i| BatchOffset { a: i * m * k, b: 0, c: (count - 1 - i) * m * n }).collect();
        let mut c = vec![0.0; count * m * n];
        batched_gemm(d, 1.0, Operand::new(&a, la), Operand::new(&b, lb), 0.0, &mut c, lc, &batch);
        let mut expected = vec![0.0; count * m * n];
        for o in &batch {
            naive(d, 1.0, (&wide(&a), la.at(o.a)), (&wide(&b), lb), 0.0, &mut expected, lc.at(o.c));
        }
        close(&wide(&c), &expected, 1e-4);
    }
}

#[test]
fn interleaved_batches_are_right() {
    // Outputs [m, batch, n]: their stretches of memory overlap.
    let (count, m, n, k) = (40, 30, 20, 25);
    let mut r = Random(2);
    let (a, b) = (r.f64s(count * m * k), r.f64s(count * k * n));
    let (la, lb, lc) = (Layout::row_major(k), Layout::row_major(n), Layout::row_major(count * n));
    let batch: Vec<_> = (0..count).map(|i| BatchOffset { a: i * m * k, b: i * k * n, c: i * n }).collect();
    let d = Dims::new(m, n, k);
    let (mut c, mut expected) = (vec![0.0; count * m * n], vec![0.0; count * m * n]);
    batched_gemm(d, 1.0, Operand::new(&a, la), Operand::new(&b, lb), 0.0, &mut c, lc, &batch);
    for o in &batch {
        naive(d, 1.0, (&a, la.at(o.a)), (&b, lb.at(o.b)), 0.0, &mut expected, lc.at(o.c));
    }
    close(&c, &expected, 1e-12);
}

#[test]
fn batches_into_one_output_accumulate() {
    // Many at once would race; they must run one after the other.
    let (count, n) = (64, 32);
    let a: Vec<i64> = (0..count as i64 * 1024).collect();
    let l = Layout::row_major(n);
    let batch: Vec<_> = (0..count).map(|i| BatchOffset { a: i * n * n, b: 0, c: 0 }).collect();
    let ones = vec![1; n * n];
    let mut c = vec![0; n * n];
    batched_gemm(Dims::new(n, n, n), 1, Operand::new(&a, l), Operand::new(&ones, l), 1, &mut c, l, &batch);
    let row = |i: usize| -> i64 { (0..count).map(|b| a[b * 1024 + i * n..][..n].iter().sum::<i64>()).sum() };
    assert!((0..n * n).all(|p| c[p] == row(p / n)));
}

#[test]
fn outputs_that_share_a_stretch_of_memory_are_found() {
    let batch = |c: &[usize]| -> Vec<_> { c.iter().map(|&c| BatchOffset { a: 0, b: 0, c }).collect() };
    let (d, l) = (Dims::new(2, 3, 1), Layout::row_major(3));
    assert!(disjoint(d, l, &batch(&[12, 0, 6])));
    assert!(!disjoint(d, l, &batch(&[12, 0, 5])));
    assert!(!disjoint(d, l, &batch(&[4, 4])));
    assert!(!disjoint(d, Layout::new(0, 6, 1), &batch(&[0, 3])));
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut r = Random(3);
    for (m, n, k) in [(257, 301, 530), (1024, 33, 700), (17, 2000, 999), (700, 700, 64), (1, 3000, 500)] {
        let (a, b) = (r.f32s(m * k), r.f32s(k * n));
        for (la, lb) in [
            (Layout::row_major(k), Layout::row_major(n)),
            (Layout::row_major(m).transposed(), Layout::row_major(k).transposed()),
        ] {
            same_on_any_threads(|| {
                let mut c = vec![0.5f32; m * n];
                let (a, b) = (Operand::new(&a[..], la), Operand::new(&b[..], lb));
                gemm(Dims::new(m, n, k), 1.0, a, b, 1.0, &mut c, Layout::row_major(n));
                bits(&c)
            });
        }
    }
}

#[test]
fn threads_do_not_change_a_batch() {
    let mut r = Random(4);
    for (count, m, n, k) in [(500, 12, 11, 64), (6, 150, 140, 300)] {
        let (a, b) = (r.f32s(count * m * k), r.f32s(count * k * n));
        let batch: Vec<_> = (0..count).map(|i| BatchOffset { a: i * m * k, b: i * k * n, c: i * m * n }).collect();
        same_on_any_threads(|| {
            let mut c = vec![0.0f32; count * m * n];
            let (a, b) = (Operand::new(&a[..], Layout::row_major(k)), Operand::new(&b[..], Layout::row_major(n)));
            batched_gemm(Dims::new(m, n, k), 1.0, a, b, 0.0, &mut c, Layout::row_major(n), &batch);
            bits(&c)
        });
    }
}

/// `a @ b` in f64.
fn definition<T: Copy + Into<f64>>(d: Dims, a: Operand<T>, b: Operand<T>) -> Vec<f64> {
    let at = |x: &Operand<T>, i, j| x.data[x.layout.position(i, j)].into();
    (0..d.m * d.n).map(|i| (0..d.k).map(|p| at(&a, i / d.n, p) * at(&b, p, i % d.n)).sum()).collect()
}

#[test]
fn short_sides_match_in_all_layouts() {
    short_sides(11, |x| x as f32, 1e-3);
    short_sides(12, |x| x, 1e-10);
}

fn short_sides<T: Gemm + Into<f64>>(seed: u64, of: fn(f64) -> T, tolerance: f64) {
    use crate::testing::{Random, close, same_on_any_threads};
    let mut r = Random(seed);
    let sizes = [
        (1, 300, 300),
        (300, 1, 300),
        (3, 700, 130),
        (900, 8, 77),
        (8, 1000, 70),
        (5, 64, 1100),
        (1, 1, 90_000),
        // Sums that stay in registers, and those that are one too many; rows that are shorter than a vector.
        (1, 10, 2771),
        (1, 48, 130),
        (1, 49, 130),
        (2, 16, 301),
        (2, 8, 302),
        (3, 7, 703),
        (20, 3, 403),
        (1, 30, 10_001),
        (1, 1586, 9),
        (2, 1001, 16),
        (1, 70, 3),
        (40, 100, 600),
        (17, 16, 16),
        (300, 97, 33),
        // Every number of vectors that meet rows at once, and rows that are no whole group.
        (2, 301, 300),
        (4, 303, 300),
        (6, 306, 300),
        (11, 309, 300),
        (16, 141, 520),
        // A few columns, and a few rows, of sums that are hardly long enough.
        (600, 2, 17),
        (401, 3, 24),
        (300, 4, 40),
        (255, 5, 41),
        (200, 6, 48),
        (3, 200, 64),
        // Columns that fill a vector, and sums that are long enough for dot products all the same.
        (800, 15, 92),
        (800, 16, 92),
        (300, 16, 255),
        (300, 16, 256),
    ];
    for (m, n, k) in sizes {
        let d = Dims::new(m, n, k);
        let mut numbers = |n: usize| r.f64s(n).into_iter().map(of).collect::<Vec<T>>();
        let (a, b) = (numbers(m * k), numbers(k * n));
        for (la, lb, lc) in [
            (Layout::row_major(k), Layout::row_major(n), Layout::row_major(n)),
            (Layout::row_major(m).transposed(), Layout::row_major(n), Layout::row_major(m).transposed()),
            (Layout::row_major(k), Layout::row_major(k).transposed(), Layout::row_major(n)),
            (Layout::row_major(m).transposed(), Layout::row_major(k).transposed(), Layout::row_major(m).transposed()),
        ] {
            let (a, b) = (Operand::new(&a[..], la), Operand::new(&b[..], lb));
            let run = || {
                let mut c = vec![of(f64::NAN); m * n];
                gemm(d, of(1.0), a, b, of(0.0), &mut c, lc);
                c.into_iter().map(|x| x.into().to_bits()).collect::<Vec<u64>>()
            };
            same_on_any_threads(run);
            let c: Vec<f64> = run().into_iter().map(f64::from_bits).collect();
            let sorted: Vec<f64> = (0..m * n).map(|i| c[lc.position(i / n, i % n)]).collect();
            close(&sorted, &definition(d, a, b), tolerance);
        }
    }
}

#[test]
fn epilogues_of_products() {
    use crate::testing::{Random, close, same_on_any_threads, wide};
    let mut r = Random(12);
    for (m, n, k) in
        [(1, 1, 1), (70, 50, 30), (3, 400, 300), (600, 1100, 20), (33, 2100, 9), (0, 5, 5), (5, 0, 5), (4, 4, 0)]
    {
        let d = Dims::new(m, n, k);
        let (a, b) = (r.f32s(m * k), r.f32s(k * n));
        let (scale, bias, residual) = (r.f32s(n), r.f32s(n), r.f32s(m * n));
        let (a, b) = (Operand::new(&a[..], Layout::row_major(k)), Operand::new(&b[..], Layout::row_major(n)));
        let then = |row: usize, columns: std::ops::Range<usize>, part: &mut [f32]| {
            assert_eq!(columns.len(), part.len());
            columns.zip(part).for_each(|(j, x)| *x += (row * n + j) as f32 * 1e-3);
        };
        let e = crate::Epilogue {
            scale: Some(&scale),
            bias: Some(&bias),
            residual: Some(&residual),
            activation: crate::Activation::Relu,
            then: Some(crate::Then(&then)),
        };
        let run = || {
            let mut c = vec![f32::NAN; m * n];
            gemm_fused(d, a, b, &mut c, &e);
            c
        };
        same_on_any_threads(|| run().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        let expected: Vec<f64> = definition(d, a, b)
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let (s, b) = (f64::from(scale[i % n]), f64::from(bias[i % n]));
                (x * s + b + f64::from(residual[i])).max(0.0) + i as f64 * 1e-3
            })
            .collect();
        close(&wide(&run()), &expected, 1e-3);
    }
}

/// Every element of a product is final when its block is handed on, and handed on once.
#[test]
fn blocks_are_handed_on_once_and_final() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let mut r = Random(21);
    let sizes = [(1, 1, 1), (1, 700, 300), (700, 1, 300), (64, 128, 784), (33, 65, 40), (257, 130, 129), (300, 40, 0)];
    for (m, n, k) in sizes.into_iter().chain([(5, 9, 3), (1000, 64, 1), (40, 1000, 70), (130, 515, 600)]) {
        let d = Dims::new(m, n, k);
        let (a, b) = (r.f32s(m * k), r.f32s(k * n));
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            let la = if ta { Layout::row_major(m).transposed() } else { Layout::row_major(k) };
            let lb = if tb { Layout::row_major(k).transposed() } else { Layout::row_major(n) };
            let mut expected = vec![0.0; m * n];
            naive(d, 1.0, (&wide(&a), la), (&wide(&b), lb), 0.0, &mut expected, Layout::row_major(n));
            let seen: Vec<AtomicU32> = (0..m * n).map(|_| AtomicU32::new(0)).collect();
            let mut c = vec![f32::NAN; m * n];
            let out = crate::tasks::Shared::new(&mut c);
            let double = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
                for i in rows {
                    for j in columns.clone() {
                        seen[i * n + j].fetch_add(1, Ordering::Relaxed);
                        // SAFETY: the block is ours during this call.
                        unsafe { *out.ptr().add(i * n + j) *= 2.0 };
                    }
                }
            };
            // SAFETY: `c` has this size, and is used by the function above alone.
            unsafe { product_then(d, Operand::new(&a, la), Operand::new(&b, lb), out.ptr(), &double) };
            assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1), "{m} {n} {k} {ta} {tb}");
            let doubled: Vec<f64> = expected.iter().map(|x| 2.0 * x).collect();
            close(&wide(&c), &doubled, 3e-5 * (k as f64 + 1.0));
            same_on_any_threads(|| {
                let mut c = vec![f32::NAN; m * n];
                gemm_then(d, Operand::new(&a, la), Operand::new(&b, lb), &mut c, &|_, _| {});
                bits(&c)
            });
        }
    }
}

/// Batches of small products in random layouts, against the definition; what lies between the
/// outputs' elements stays as it is.
#[test]
fn batches_of_small_products_match_the_definition() {
    let mut r = Random(21);
    for case in 0..400 {
        let d = Dims::new(1 + r.below(40), 1 + r.below(70), 1 + r.below(if case % 8 == 0 { 90 } else { 20 }));
        let count = 1 + r.below(40);
        let mut side = |rows: usize, columns: usize| {
            let (gap, offset) = (r.below(3), r.below(4));
            let (rs, cs) = match r.below(4) {
                0 | 1 => (columns + gap, 1),
                2 => (1, rows + gap),
                _ => (2 * columns + gap, 2),
            };
            let size = (rs * rows).max(cs * columns);
            // A matrix of its own for each product, every other one, or the same for all.
            let (step, every) = ([size, 0][r.below(2)], 1 + r.below(2));
            let len = offset + count * size;
            (Layout::new(offset, rs as isize, cs as isize), r.f32s(len), step, every)
        };
        let ((la, a, step_a, every_a), (lb, b, step_b, every_b)) = (side(d.m, d.k), side(d.k, d.n));
        let lc = Layout::row_major(d.n + r.below(3));
        let size = lc.rs as usize * d.m;
        let batch: Vec<_> = (0..count)
            .map(|i| BatchOffset { a: i / every_a * step_a, b: i / every_b * step_b, c: (count - 1 - i) * size })
            .collect();
        let mut c = r.f32s(count * size);
        let mut expected = wide(&c);
        batched_gemm(d, 1.0, Operand::new(&a, la), Operand::new(&b, lb), 0.0, &mut c, lc, &batch);
        for o in &batch {
            naive(d, 1.0, (&wide(&a), la.at(o.a)), (&wide(&b), lb.at(o.b)), 0.0, &mut expected, lc.at(o.c));
        }
        close(&wide(&c), &expected, 1e-6 * (d.k as f64 + 8.0));
    }
}

#[test]
fn threads_do_not_change_a_bit_of_small_products() {
    let mut r = Random(22);
    for (count, m, n, k) in [(512, 16, 16, 16), (300, 7, 13, 30), (100, 20, 50, 11)] {
        let (a, b) = (r.f32s(count * m * k), r.f32s(count * k * n));
        for lb in [Layout::row_major(n), Layout::row_major(k).transposed()] {
            let batch: Vec<_> = (0..count).map(|i| BatchOffset { a: i * m * k, b: i * k * n, c: i * m * n }).collect();
            same_on_any_threads(|| {
                let mut c = vec![0.0; count * m * n];
                let (a, b) = (Operand::new(&a, Layout::row_major(k)), Operand::new(&b, lb));
                batched_gemm(Dims::new(m, n, k), 1.0, a, b, 0.0, &mut c, Layout::row_major(n), &batch);
                bits(&c)
            });
        }
    }
}

#[test]
#[should_panic(expected = "B reaches outside its slice")]
fn small_products_outside_of_their_slice_are_refused() {
    let (a, b, mut c) = ([0.0f32; 64], [0.0f32; 63], [0.0f32; 64]);
    let l = Layout::row_major(4);
    let batch: Vec<_> = (0..4).map(|i| BatchOffset { a: i * 16, b: i * 16, c: i * 16 }).collect();
    batched_gemm(Dims::new(4, 4, 4), 1.0, Operand::new(&a, l), Operand::new(&b, l), 0.0, &mut c, l, &batch);
}
