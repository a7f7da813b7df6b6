//! Gradients of few channels a group, by each of the methods for them, against the definition.

use super::super::*;
use super::check;
use crate::testing::{Random, close, wide};

/// The gradients by one method against `f64`, for every width of vectors.
fn check_gradient(
    seed: u64,
    (x, w): ([usize; 5], [usize; 5]),
    p: &ConvParams,
    of_weights: bool,
    run: impl Fn(Isa, &Problem, &[f32], &[f32], &mut [f32]),
) {
    let problem = Problem::new(x, w, p).unwrap();
    let mut r = Random(seed);
    let grad = r.f32s(x[0] * w[0] * problem.outputs());
    let (known, n): (_, [usize; 5]) = if of_weights { (x, w) } else { (w, x) };
    let (known, n) = (r.f32s(known.iter().product()), n.iter().product());
    let mut expected = vec![0.0; n];
    if of_weights {
        conv_weight_grad(&wide(&known), x, &wide(&grad), w, p, &mut expected);
    } else {
        conv_input_grad(&wide(&grad), &wide(&known), w, x, p, &mut expected);
    }
    for isa in Isa::every() {
        let mut out = vec![f32::NAN; n];
        run(isa, &problem, &grad, &known, &mut out);
        close(&wide(&out), &expected, 1e-4);
    }
}

/// Shapes of few channels a group, with the strides, dilations and paddings that matter: images, groups, channels
/// in and out, size, kernel, stride, dilation, front and back padding.
fn narrow() -> Vec<([usize; 5], [usize; 5], ConvParams)> {
    [
        (3, 4, (8, 8), [1, 14, 15], [1, 3, 3], [1, 2, 2], [1, 1, 1], [(0, 0), (1, 1), (1, 1)]),
        (2, 3, (4, 5), [1, 21, 40], [1, 3, 3], [1, 2, 2], [1, 1, 1], [(0, 0), (1, 0), (0, 2)]),
        (2, 1, (3, 7), [1, 30, 33], [1, 7, 7], [1, 2, 2], [1, 1, 1], [(0, 0), (3, 3), (3, 3)]),
        (1, 2, (1, 2), [1, 9, 70], [1, 4, 5], [1, 3, 2], [1, 1, 1], [(0, 0), (2, 1), (4, 4)]),
        (5, 2, (11, 3), [1, 12, 13], [1, 3, 3], [1, 1, 1], [1, 2, 2], [(0, 0), (2, 2), (1, 3)]),
        (2, 5, (2, 1), [1, 16, 16], [1, 2, 2], [1, 2, 2], [1, 1, 1], [(0, 0), (0, 0), (0, 0)]),
        (1, 3, (5, 6), [1, 1, 200], [1, 1, 9], [1, 1, 2], [1, 1, 3], [(0, 0), (0, 0), (8, 8)]),
        (2, 2, (6, 4), [1, 18, 17], [1, 3, 3], [1, 2, 1], [1, 1, 1], [(0, 0), (1, 1), (1, 1)]),
        (1, 1, (9, 2), [1, 300, 20], [1, 3, 3], [1, 1, 1], [1, 1, 1], [(0, 0), (1, 1), (1, 1)]),
    ]
    .map(|(n, groups, (c, o), [d, h, w], [kd, kh, kw], stride, dilation, padding)| {
        let p = ConvParams { stride, padding, dilation, groups };
        ([n, c * groups, d, h, w], [o * groups, c, kd, kh, kw], p)
    })
    .to_vec()
}

#[test]
fn f32_input_gradients_with_positions_in_the_lanes() {
    for (i, (x, w, p)) in narrow().into_iter().enumerate() {
        check_gradient(i as u64, (x, w), &p, false, |isa, problem, grad, w, dx| {
            assert!(direct::woven_input_grad(isa, problem, grad, w, dx), "{x:?} {w:?} {p:?}");
        });
    }
}

#[test]
fn f32_weight_gradients_with_positions_in_the_lanes() {
    let deep = ConvParams { padding: [(1, 0), (1, 1), (2, 1)], stride: [1, 1, 2], groups: 2, ..ConvParams::default() };
    let wide = ConvParams { padding: [(0, 0), (3, 3), (3, 3)], ..ConvParams::default() };
    let more = [
        ([2, 6, 5, 9, 21], [8, 3, 3, 3, 3], deep),
        // More sums than are kept at once: several cuts of the channels, the last of which has fewer.
        ([3, 44, 1, 10, 15], [16, 22, 1, 7, 7], ConvParams { groups: 2, ..wide }),
        ([11, 25, 1, 9, 14], [7, 25, 1, 7, 7], wide),
    ];
    for (i, (x, w, p)) in narrow().into_iter().chain(more).enumerate() {
        check_gradient(i as u64, (x, w), &p, true, |isa, problem, grad, x, dw| {
            direct::row_weight_grad(isa, problem, x, grad, dw);
        });
    }
}

#[test]
fn f32_weight_gradients_of_turned_depthwise_planes() {
    for (i, (n, channels, [h, w], k, stride, dilation, padding)) in [
        (3, 40, [7, 7], [3, 3], 1, 1, [(1, 1), (1, 1)]),
        (20, 17, [14, 13], [3, 3], 2, 1, [(1, 1), (0, 2)]),
        (2, 16, [8, 9], [5, 5], 1, 1, [(2, 2), (2, 2)]),
        (1, 9, [7, 6], [7, 7], 1, 1, [(3, 3), (3, 3)]),
        (2, 5, [9, 12], [2, 4], 3, 2, [(0, 1), (3, 1)]),
        (1, 33, [1, 30], [1, 31], 1, 1, [(0, 0), (15, 15)]),
    ]
    .into_iter()
    .enumerate()
    {
        let p = ConvParams {
            padding: [(0, 0), padding[0], padding[1]],
            stride: [1, stride, stride],
            dilation: [1, dilation, dilation],
            groups: channels,
        };
        let shapes = ([n, channels, 1, h, w], [channels, 1, 1, k[0], k[1]]);
        check_gradient(i as u64, shapes, &p, true, |isa, problem, grad, x, dw| {
            depthwise::turned_weight_grad(isa, &problem.geometry, channels, x, grad, dw);
        });
    }
}

#[test]
fn a_nan_reaches_the_weights_that_meet_it_alone() {
    // The last column of an input without padding meets the last column of the kernel alone.
    let (x, w) = ([1, 8, 1, 20, 21], [8, 4, 1, 3, 3]);
    let p = ConvParams { groups: 2, ..ConvParams::default() };
    let mut r = Random(4);
    let (mut input, grad) = (r.f32s(8 * 20 * 21), r.f32s(8 * 18 * 19));
    input[3 * 21 + 20] = f32::NAN;
    let mut dw = vec![0.0; 8 * 4 * 9];
    conv_weight_grad(&input, x, &grad, w, &p, &mut dw);
    for (i, dw) in dw.iter().enumerate() {
        let (o, c, column) = (i / 36, i / 9 % 4, i % 3);
        assert_eq!(dw.is_nan(), o < 4 && c == 0 && column == 2, "weight {i}");
    }
}

#[test]
fn f64_input_gradients_of_few_outputs() {
    for (i, (x, w, mut p)) in narrow().into_iter().enumerate() {
        for o in [1, 3, 4, 5] {
            check(i as u64, x, [o * p.groups, w[1], w[2], w[3], w[4]], &p);
        }
        p.padding = [(0, 0); 3];
        check(i as u64, x, [2 * p.groups, w[1], w[2], w[3], w[4]], &p);
    }
    let cube = ConvParams { padding: [(1, 1); 3], stride: [2, 1, 2], groups: 2, ..ConvParams::default() };
    check(20, [2, 60, 7, 12, 9], [4, 30, 3, 3, 3], &cube);
}

#[test]
fn several_small_images_at_once() {
    let pad = ConvParams { padding: [(1, 1); 3], ..ConvParams::default() };
    check(1, [33, 4, 3, 3, 3], [6, 2, 3, 3, 3], &ConvParams { groups: 2, ..pad });
    check(2, [21, 5, 1, 1, 9], [4, 5, 1, 1, 1], &ConvParams::default());
    check(
        3,
        [40, 3, 1, 4, 5],
        [7, 3, 1, 2, 2],
        &ConvParams { stride: [1, 2, 2], padding: [(0, 0), (1, 1), (1, 0)], ..pad },
    );
    check(4, [19, 6, 1, 1, 10], [40, 6, 1, 1, 2], &ConvParams::default());
    check(5, [17, 2, 2, 2, 2], [5, 2, 2, 2, 2], &ConvParams { stride: [2; 3], ..pad });
}
