//! Convolutions of pairs of `bf16` against the definition.

use super::super::*;
use super::{problem, products};
use crate::testing::{Random, close, same_on_any_threads};
use half::bf16;
use proptest::prelude::*;

fn wide(x: &[bf16]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

/// What is expected, and how far off a sum of `n` products of numbers below one may be that is rounded to `bf16`.
fn near(x: &[bf16], expected: &[f64]) {
    let most = expected.iter().fold(1.0, |a: f64, x| a.max(x.abs()));
    close(&wide(x), expected, most / 250.0);
}

fn numbers(r: &mut Random, n: usize) -> Vec<bf16> {
    r.f32s(n).into_iter().map(bf16::from_f32).collect()
}

/// The three functions, where there is a way for them; says for which there was.
fn check(seed: u64, x: [usize; 5], w: [usize; 5], p: &ConvParams) -> [bool; 3] {
    let mut r = Random(seed);
    let (input, weight) = (numbers(&mut r, x.iter().product()), numbers(&mut r, w.iter().product()));
    let grad = numbers(&mut r, products(x, w, p, |_, _, _| {}));
    let (mut y, mut dx, mut dw) = (vec![0.0; grad.len()], vec![0.0; input.len()], vec![0.0; weight.len()]);
    conv_forward(&wide(&input), x, &wide(&weight), w, p, &mut y);
    conv_input_grad(&wide(&grad), &wide(&weight), w, x, p, &mut dx);
    conv_weight_grad(&wide(&input), x, &wide(&grad), w, p, &mut dw);
    let mut done = [false; 3];
    let mut out = vec![bf16::NAN; grad.len()];
    done[0] = conv_forward_pairs(&input, x, &weight, w, p, &mut out);
    if done[0] {
        near(&out, &y);
    }
    let mut out = vec![bf16::NAN; input.len()];
    done[1] = conv_input_grad_pairs(&grad, &weight, w, x, p, &mut out);
    if done[1] {
        near(&out, &dx);
    }
    let mut out = vec![bf16::NAN; weight.len()];
    done[2] = conv_weight_grad_pairs(&input, x, &grad, w, p, &mut out);
    if done[2] {
        near(&out, &dw);
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pairs_match_f64(seed: u64, (x, w, p) in problem(), wider in 1usize..30) {
        // More channels than `problem` has, so that there are whole tiles of the kernels.
        check(seed, [x[0], x[1] * wider, x[2], x[3], x[4]], [w[0] * wider, w[1] * wider, w[2], w[3], w[4]], &p);
    }
}

#[test]
fn pairs_of_whole_layers() {
    let square = |n: usize| [(0, 0), (n, n), (n, n)];
    for (i, (x, w, stride, padding, groups)) in [
        ([2, 32, 1, 30, 30], [48, 32, 1, 3, 3], [1; 3], square(1), 1),
        ([3, 33, 1, 14, 14], [70, 33, 1, 1, 1], [1; 3], square(0), 1),
        ([3, 40, 1, 14, 14], [70, 40, 1, 1, 1], [1, 2, 2], square(0), 1),
        ([4, 16, 1, 31, 31], [32, 16, 1, 5, 5], [1; 3], square(2), 1),
        ([5, 24, 1, 20, 20], [36, 12, 1, 3, 3], [1, 2, 2], square(1), 2),
        ([4, 3, 1, 40, 40], [16, 3, 1, 7, 7], [1, 2, 2], square(3), 1),
        ([6, 8, 1, 5, 5], [12, 8, 1, 5, 5], [1; 3], square(0), 1),
    ]
    .into_iter()
    .enumerate()
    {
        let done = check(i as u64, x, w, &ConvParams { stride, padding, groups, ..ConvParams::default() });
        assert_eq!(done, [Isa::pairs().is_some(); 3], "{x:?} {w:?}");
    }
}

/// Pairs of rows of outputs; of an odd number, the last would meet rows that no output sees.
#[test]
fn pairs_of_a_single_image() {
    let p = |stride: usize, front: usize, back: usize| ConvParams {
        padding: [(0, 0), (front, back), (front, back)],
        stride: [1, stride, stride],
        ..ConvParams::default()
    };
    let cube = ConvParams { padding: [(1, 1); 3], dilation: [1, 2, 1], groups: 2, ..ConvParams::default() };
    for (i, (x, w, p, even)) in [
        ([1, 13, 1, 30, 30], [55, 13, 1, 7, 7], p(1, 0, 0), true),
        ([1, 9, 1, 14, 15], [20, 9, 1, 5, 5], p(1, 2, 2), true),
        ([1, 3, 1, 31, 20], [18, 3, 1, 7, 7], p(2, 3, 3), true),
        ([1, 5, 1, 4, 6], [33, 5, 1, 4, 4], p(3, 3, 2), true),
        ([1, 8, 5, 12, 7], [12, 4, 3, 3, 3], cube, true),
        ([1, 13, 1, 29, 30], [55, 13, 1, 7, 7], p(1, 0, 0), false),
    ]
    .into_iter()
    .enumerate()
    {
        let done = check(i as u64, x, w, &p);
        assert_eq!(done[2], even && Isa::pairs().is_some(), "{x:?} {w:?}");
    }
}

#[test]
fn pairs_on_any_threads() {
    let (x, w) = ([5, 24, 1, 20, 20], [36, 12, 1, 3, 3]);
    let p = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], groups: 2, ..ConvParams::default() };
    let mut r = Random(1);
    let (input, weight) = (numbers(&mut r, 5 * 24 * 400), numbers(&mut r, 36 * 12 * 9));
    let grad = numbers(&mut r, 5 * 36 * 400);
    same_on_any_threads(|| {
        let zeros = |n: usize| vec![bf16::ZERO; n];
        let (mut y, mut dx, mut dw) = (zeros(grad.len()), zeros(input.len()), zeros(weight.len()));
        conv_forward_pairs(&input, x, &weight, w, &p, &mut y);
        conv_input_grad_pairs(&grad, &weight, w, x, &p, &mut dx);
        conv_weight_grad_pairs(&input, x, &grad, w, &p, &mut dw);
        (y, dx, dw)
    });
}
