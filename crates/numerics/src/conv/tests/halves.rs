//! Convolutions of 16-bit numbers in `f32`.

use super::super::*;
use super::products;
use crate::gemm::Half;
use crate::testing::{Random, close, same_on_any_threads};
use half::{bf16, f16};

/// Cases of several tasks, whose last has fewer planes or images; one whose channels are together, too.
fn cases() -> Vec<([usize; 5], [usize; 5], ConvParams)> {
    let p = |stride: usize, pad: usize, groups: usize| ConvParams {
        stride: [1, stride, stride],
        padding: [(0, 0), (pad, pad), (pad, pad)],
        groups,
        ..ConvParams::default()
    };
    vec![
        ([2, 21, 1, 64, 64], [21, 1, 1, 2, 2], p(1, 1, 21)),
        ([3, 5, 1, 90, 90], [5, 1, 1, 3, 3], p(2, 1, 5)),
        ([37, 40, 1, 7, 7], [40, 1, 1, 5, 5], p(1, 2, 40)),
        ([3, 131, 1, 20, 20], [131, 1, 1, 3, 3], p(1, 1, 131)),
        ([19, 3, 1, 20, 20], [3, 1, 1, 3, 3], p(2, 0, 3)),
        ([2, 6, 1, 9, 9], [8, 3, 1, 3, 3], p(1, 1, 2)),
        ([0, 6, 1, 9, 9], [6, 1, 1, 3, 3], p(1, 1, 6)),
    ]
}

fn each<T: Half>(of: fn(f32) -> T, to: fn(T) -> f64, ulp: f64) {
    for (i, (x, w, p)) in cases().into_iter().enumerate() {
        let mut r = Random(i as u64);
        let mut numbers = |n: usize| r.f32s(n).into_iter().map(of).collect::<Vec<T>>();
        let (input, weight) = (numbers(x.iter().product()), numbers(w.iter().product()));
        let grad = numbers(products(x, w, &p, |_, _, _| {}));
        let all = |x: &[T]| x.iter().map(|&x| to(x)).collect::<Vec<f64>>();
        let near = |out: &[T], expected: &[f64]| {
            let most = expected.iter().fold(1.0, |a: f64, x| a.max(x.abs()));
            close(&all(out), expected, most * ulp);
        };
        let (mut y, mut dx, mut dw) = (vec![0.0; grad.len()], vec![0.0; input.len()], vec![0.0; weight.len()]);
        conv_forward(&all(&input), x, &all(&weight), w, &p, &mut y);
        conv_input_grad(&all(&grad), &all(&weight), w, x, &p, &mut dx);
        conv_weight_grad(&all(&input), x, &all(&grad), w, &p, &mut dw);
        let garbage = |n: usize| vec![of(f32::NAN); n];
        let mut out = garbage(grad.len());
        conv_forward_halves(&input, x, &weight, w, &p, &mut out);
        near(&out, &y);
        let mut out = garbage(input.len());
        conv_input_grad_halves(&grad, &weight, w, x, &p, &mut out);
        near(&out, &dx);
        let mut out = garbage(weight.len());
        conv_weight_grad_halves(&input, x, &grad, w, &p, &mut out);
        near(&out, &dw);
    }
}

#[test]
fn halves_match_f64() {
    each(bf16::from_f32, bf16::to_f64, 1.0 / 250.0);
    each(f16::from_f32, f16::to_f64, 1.0 / 2000.0);
}

#[test]
fn halves_on_any_threads() {
    for (x, w, p) in cases() {
        let mut r = Random(1);
        let mut numbers = |n: usize| r.f32s(n).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
        let (input, weight) = (numbers(x.iter().product()), numbers(w.iter().product()));
        let grad = numbers(products(x, w, &p, |_, _, _| {}));
        same_on_any_threads(|| {
            let zeros = |n: usize| vec![bf16::ZERO; n];
            let (mut y, mut dx, mut dw) = (zeros(grad.len()), zeros(input.len()), zeros(weight.len()));
            conv_forward_halves(&input, x, &weight, w, &p, &mut y);
            conv_input_grad_halves(&grad, &weight, w, x, &p, &mut dx);
            conv_weight_grad_halves(&input, x, &grad, w, &p, &mut dw);
            (y, dx, dw)
        });
    }
}
