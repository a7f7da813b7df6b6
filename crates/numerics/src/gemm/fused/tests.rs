use super::*;
use crate::gemm::gemm_biased;
use crate::testing::{Random, close, same_on_any_threads};

/// Sizes of every way that a product goes, alone and with a rectifier.
#[test]
fn biases_of_doubles() {
    let mut r = Random(41);
    for (m, n, k) in [(1, 1, 1), (3, 700, 5), (700, 3, 40), (112, 529, 6), (64, 40, 130), (33, 17, 0), (200, 130, 600)]
    {
        let d = Dims::new(m, n, k);
        let (a, b, bias) = (r.f64s(m * k), r.f64s(k * n), r.f64s(n));
        let (la, lb) = (Layout::row_major(k), Layout::row_major(k).transposed());
        for relu in [false, true] {
            let run = || {
                let mut c = vec![f64::NAN; m * n];
                gemm_biased(d, Operand::new(&a, la), Operand::new(&b, lb), &bias, relu, &mut c);
                c
            };
            same_on_any_threads(|| run().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            let expected = |at: usize| {
                let (i, j) = (at / n, at % n);
                let sum: f64 = (0..k).map(|p| a[i * k + p] * b[j * k + p]).sum::<f64>() + bias[j];
                if relu { sum.max(0.0) } else { sum }
            };
            close(&run(), &(0..m * n).map(expected).collect::<Vec<_>>(), 1e-11);
        }
    }
    let (mut c, none) = ([0.0; 3], Operand::new(&[], Layout::row_major(0)));
    gemm_biased(Dims::new(1, 3, 0), none, none, &[f64::NAN, -0.0, -1.0], true, &mut c);
    assert!(c[0].is_nan() && c[1..].iter().all(|x| x.to_bits() == 0), "{c:?}");
}
