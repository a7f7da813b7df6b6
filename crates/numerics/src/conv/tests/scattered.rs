//! Few output channels by what pixels give, and gradients for weights of few positions, against the definition.

use super::super::*;
use super::{check, products};
use crate::testing::{Random, bits, close, same_on_any_threads, wide};

fn padded(padding: [(usize, usize); 3], dilation: [usize; 3]) -> ConvParams {
    ConvParams { padding, dilation, ..ConvParams::default() }
}

/// Images alone and side by side, a rest of them, even kernels, uneven padding, dilation.
fn few() -> Vec<([usize; 5], [usize; 5], ConvParams)> {
    vec![
        ([5, 9, 5, 5, 5], [2, 9, 5, 5, 5], padded([(2, 2); 3], [1; 3])),
        ([3, 7, 1, 7, 6], [1, 7, 1, 3, 3], padded([(0, 0), (1, 1), (1, 1)], [1; 3])),
        ([11, 4, 1, 5, 3], [4, 4, 1, 4, 2], padded([(0, 0), (2, 1), (0, 2)], [1; 3])),
        ([9, 3, 1, 4, 9], [3, 3, 1, 3, 3], padded([(0, 0), (3, 2), (2, 4)], [1, 2, 2])),
        ([33, 2, 2, 3, 3], [3, 2, 2, 2, 3], padded([(1, 0), (1, 1), (3, 3)], [1; 3])),
    ]
}

#[test]
fn few_output_channels_by_what_pixels_give() {
    for (seed, (x, w, p)) in few().into_iter().enumerate() {
        let mut r = Random(seed as u64);
        let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
        let mut expected = vec![0.0; products(x, w, &p, |_, _, _| {})];
        products(x, w, &p, |i, k, o| expected[o] += f64::from(input[i]) * f64::from(weight[k]));
        let problem = Problem::new(x, w, &p).unwrap();
        for isa in Isa::every() {
            let mut y = vec![f32::NAN; expected.len()];
            scattered::forward(isa, &problem, &input, &weight, &mut y);
            close(&wide(&y), &expected, 1e-4);
        }
    }
}

#[test]
fn few_output_channels_are_the_same_on_any_threads() {
    let (x, w, p) = ([9, 130, 1, 7, 7], [2, 130, 1, 3, 3], padded([(0, 0), (1, 1), (1, 1)], [1; 3]));
    assert!(scattered::pays(&Problem::new(x, w, &p).unwrap(), &Epilogue::default()));
    let mut r = Random(1);
    let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
    same_on_any_threads(|| {
        let mut y = vec![0.0f32; 9 * 2 * 49];
        conv_forward(&input, x, &weight, w, &p, &mut y);
        bits(&y)
    });
}

#[test]
fn weights_of_few_positions() {
    for (seed, stride, groups) in [(1, 2, 1), (2, 1, 1), (3, 2, 2)] {
        let padding = [(0, 0), (1, 1), (1, 0)];
        let p = ConvParams { stride: [1, stride, stride], padding, groups, ..ConvParams::default() };
        check(seed, [7, 9 * groups, 1, 3, 4], [67 * groups, 9, 1, 3, 3], &p);
    }
}
