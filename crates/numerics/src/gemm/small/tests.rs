use super::*;
use crate::gemm::{Operand, batched_gemm};
use crate::testing::{Random, bits, close, same_on_any_threads};

/// Sizes on both sides of every limit, by `B` as it lies and turned, against the definition and on any number of threads.
#[test]
fn products_at_the_limits_of_each_way() {
    let mut r = Random(31);
    let sizes = [(4, 1, 31), (4, 1, 32), (4, 6, 47), (4, 6, 48), (3, 7, 56), (9, 5, 1072), (8, 200, 39), (8, 200, 40)];
    let more =
        [(2, 48, 63), (2, 48, 64), (1, 900, 3), (1, 900, 4), (2, 20, 512), (2, 20, 513), (2, 32, 1100), (1, 63, 600)];
    for (m, n, k) in sizes.into_iter().chain(more).chain([(1, 64, 600), (5, 5, 1), (20, 20, 600)]) {
        let (count, gap) = (5, r.below(2) * 5);
        let d = Dims::new(m, n, k);
        let (a, b) = (r.f32s(count * m * (k + gap)), r.f32s(count * (k + gap) * (n + gap)));
        let la = Layout::row_major(k + gap);
        for lb in [(n + gap, 1), (1, k), (1, k + gap)].map(|(rs, cs)| Layout::new(0, rs as isize, cs as isize)) {
            let at = |i: usize| BatchOffset { a: i * m * (k + gap), b: i * (k + gap) * (n + gap), c: i * m * n };
            let batch: Vec<_> = (0..count).map(at).collect();
            let run = || {
                let mut c = vec![f32::NAN; count * m * n];
                let (a, b) = (Operand::new(&a[..], la), Operand::new(&b[..], lb));
                batched_gemm(d, 1.0, a, b, 0.0, &mut c, Layout::row_major(n), &batch);
                c
            };
            same_on_any_threads(|| bits(&run()));
            let expected = |at: usize| -> f64 {
                let (o, i, j) = (batch[at / (m * n)], at / n % m, at % n);
                let term = |p| f64::from(a[o.a + la.position(i, p)]) * f64::from(b[o.b + lb.position(p, j)]);
                (0..k).map(term).sum()
            };
            let got: Vec<f64> = run().into_iter().map(f64::from).collect();
            close(&got, &(0..got.len()).map(expected).collect::<Vec<_>>(), 1e-6 * (k as f64 + 8.0));
        }
    }
}

/// The ways that were measured to be the fastest.
#[test]
fn each_way_has_its_sizes() {
    let isa = Isa::detect();
    if isa.lanes() != 16 {
        return;
    }
    let of = |m, n, k, b| way(isa, Dims::new(m, n, k), (k + 5, 1), b);
    assert!(of(4, 1, 176, (1, 176)) == Some(Way::Dots) && of(4, 1, 31, (1, 31)) != Some(Way::Dots));
    assert!(of(4, 5, 1072, (1, 1072)) == Some(Way::Dots) && of(4, 5, 1072, (1, 1073)) != Some(Way::Dots));
    assert!(of(4, 6, 47, (1, 47)) != Some(Way::Dots) && of(4, 7, 560, (1, 560)) != Some(Way::Dots));
    assert!(of(2, 48, 63, (1, 63)) == Some(Way::Packed) && of(2, 48, 64, (1, 64)).is_none());
    assert!(of(1, 900, 3, (1, 3)) == Some(Way::Packed) && of(1, 900, 4, (1, 4)).is_none());
    assert!(of(8, 208, 39, (1, 39)) == Some(Way::Packed) && of(8, 208, 40, (1, 40)).is_none());
    assert!(of(2, 32, 512, (32, 1)) == Some(Way::Here) && of(2, 32, 513, (32, 1)) == Some(Way::Masked));
    assert!(of(1, 63, 600, (63, 1)) == Some(Way::Masked) && of(1, 64, 600, (64, 1)).is_none());
}
