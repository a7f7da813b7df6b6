use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};
use proptest::prelude::*;

mod channels;
mod halves;
mod narrow;
mod pairs;
mod scattered;
mod slices;

/// Calls `f` with the positions of input, weight and output of every multiplication.
fn products(x: [usize; 5], w: [usize; 5], p: &ConvParams, mut f: impl FnMut(usize, usize, usize)) -> usize {
    let Some(out) = p.output_size([x[2], x[3], x[4]], [w[2], w[3], w[4]]) else { return 0 };
    let outputs: usize = out.iter().product();
    let split = |mut i: usize, s: [usize; 3]| {
        let c = i % s[2];
        i /= s[2];
        [i / s[1], i % s[1], c]
    };
    let kernel = [w[2], w[3], w[4]];
    for n in 0..x[0] {
        for o in 0..w[0] {
            let group = o / (w[0] / p.groups);
            for at in 0..outputs {
                for c in 0..w[1] {
                    for k in 0..kernel.iter().product() {
                        let (oi, ki) = (split(at, out), split(k, kernel));
                        let mut from = n * x[1] + group * w[1] + c;
                        let mut inside = true;
                        for d in 0..3 {
                            let i = (oi[d] * p.stride[d] + ki[d] * p.dilation[d]) as isize - p.padding[d].0 as isize;
                            inside &= 0 <= i && i < x[d + 2] as isize;
                            from = from.wrapping_mul(x[d + 2]).wrapping_add_signed(i);
                        }
                        if inside {
                            f(
                                from,
                                (o * w[1] + c) * kernel.iter().product::<usize>() + k,
                                (n * w[0] + o) * outputs + at,
                            );
                        }
                    }
                }
            }
        }
    }
    x[0] * w[0] * outputs
}

/// Compares the three functions with the definition.
fn check(seed: u64, x: [usize; 5], w: [usize; 5], p: &ConvParams) {
    let mut r = Random(seed);
    let (input, weight) = (r.f64s(x.iter().product()), r.f64s(w.iter().product()));
    let size = products(x, w, p, |_, _, _| {});
    let grad = r.f64s(size);
    let (mut y, mut dx, mut dw) = (vec![0.0; size], vec![0.0; input.len()], vec![0.0; weight.len()]);
    products(x, w, p, |i, k, o| {
        y[o] += input[i] * weight[k];
        dx[i] += grad[o] * weight[k];
        dw[k] += grad[o] * input[i];
    });
    let garbage = |n| vec![7.0; n];
    let mut out = garbage(size);
    conv_forward(&input, x, &weight, w, p, &mut out);
    close(&out, &y, 1e-12);
    let mut out = garbage(input.len());
    conv_input_grad(&grad, &weight, w, x, p, &mut out);
    close(&out, &dx, 1e-12);
    let mut out = garbage(weight.len());
    conv_weight_grad(&input, x, &grad, w, p, &mut out);
    close(&out, &dw, 1e-11);
}

prop_compose! {
    fn problem()(
        groups in 1usize..4,
        n in 0usize..4,
        c in 1usize..4,
        o in 1usize..4,
        size in [1usize..5, 1usize..8, 0usize..12],
        kernel in [1usize..3, 1usize..4, 1usize..5],
        stride in [1usize..3, 1usize..4, 1usize..4],
        front in [0usize..3, 0usize..4, 0usize..5],
        back in [0usize..3, 0usize..4, 0usize..5],
        dilation in [1usize..3, 1usize..3, 1usize..4],
    ) -> ([usize; 5], [usize; 5], ConvParams) {
        let padding = [0, 1, 2].map(|d| (front[d], back[d]));
        let x = [n, c * groups, size[0], size[1], size[2]];
        let w = [o * groups, c, kernel[0], kernel[1], kernel[2]];
        (x, w, ConvParams { stride, padding, dilation, groups })
    }
}

/// The `f32` functions under every width of vectors against `f64`.
fn check_f32(seed: u64, x: [usize; 5], w: [usize; 5], p: &ConvParams) {
    let mut r = Random(seed);
    let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
    let grad = r.f32s(products(x, w, p, |_, _, _| {}));
    let (mut y, mut dx, mut dw) = (vec![0.0; grad.len()], vec![0.0; input.len()], vec![0.0; weight.len()]);
    conv_forward(&wide(&input), x, &wide(&weight), w, p, &mut y);
    conv_input_grad(&wide(&grad), &wide(&weight), w, x, p, &mut dx);
    conv_weight_grad(&wide(&input), x, &wide(&grad), w, p, &mut dw);
    let Some(problem) = Problem::new(x, w, p) else { return };
    let bias = r.f32s(w[0]);
    let outputs = problem.outputs().max(1);
    let add = |row: usize, columns: std::ops::Range<usize>, part: &mut [f32]| {
        columns.zip(part).for_each(|(i, y)| *y += (row * outputs + i) as f32 * 1e-4);
    };
    let e = Epilogue { bias: Some(&bias), then: Some(crate::Then(&add)), ..Epilogue::default() };
    for isa in Isa::every() {
        let mut out = vec![f32::NAN; grad.len()];
        assert!(fast::forward(isa, &problem, &input, &weight, &mut out, &e));
        let add = |i: usize| f64::from(bias[i / outputs % w[0]]) + i as f64 * 1e-4;
        let biased: Vec<f64> = y.iter().enumerate().map(|(i, y)| y + add(i)).collect();
        close(&wide(&out), &biased, 1e-4);
        let mut out = vec![f32::NAN; input.len()];
        if fast::input_grad(isa, &problem, &grad, &weight, &mut out) {
            close(&wide(&out), &dx, 1e-4);
        }
        let mut out = vec![f32::NAN; weight.len()];
        if fast::weight_grad(isa, &problem, &input, &grad, &mut out) {
            close(&wide(&out), &dw, 1e-4);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn f32_depthwise_matches_f64(seed: u64, (x, w, p) in problem(), channels in 1usize..9) {
        let x = [x[0], channels, 1, x[3], x[4] + 14];
        let padding = [(0, 0), p.padding[1], p.padding[2]];
        check_f32(seed, x, [channels, 1, 1, w[3], w[4]], &ConvParams { groups: channels, padding, ..p });
    }

    #[test]
    fn f32_matches_f64(seed: u64, (x, w, p) in problem(), wider in 1usize..30) {
        // More channels than `problem` has, so that there are whole tiles of the kernels.
        check_f32(seed, [x[0], x[1] * wider, x[2], x[3], x[4]], [w[0] * wider, w[1] * wider, w[2], w[3], w[4]], &p);
    }

    #[test]
    fn all_three_match_the_definition(seed: u64, (x, w, p) in problem()) {
        check(seed, x, w, &p);
    }

    #[test]
    fn sizes_of_transposed_convolutions_invert(
        (x, w, p) in problem()
    ) {
        let (size, kernel) = ([x[2], x[3], x[4]], [w[2], w[3], w[4]]);
        if let Some(out) = p.output_size(size, kernel) {
            let extra = [0, 1, 2].map(|d| {
                let padded = size[d] + p.padding[d].0 + p.padding[d].1;
                (padded - (p.dilation[d] * (kernel[d] - 1) + 1)) % p.stride[d]
            });
            prop_assert_eq!(p.transposed_size(out, kernel, extra), Some(size));
        }
    }
}

#[test]
fn special_cases_match() {
    let pad = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
    check(1, [2, 5, 1, 1, 9], [4, 5, 1, 1, 1], &ConvParams::default()); // pointwise
    check(2, [3, 6, 1, 7, 9], [6, 1, 1, 3, 3], &ConvParams { groups: 6, ..pad }); // depthwise
    check(3, [1, 4, 1, 40, 50], [5, 4, 1, 3, 3], &pad); // several blocks
    check(4, [2, 300, 1, 3, 3], [4, 300, 1, 3, 3], &pad); // several channel parts
    check(5, [2, 300, 1, 3, 3], [4, 300, 1, 1, 1], &ConvParams::default());
    check(6, [2, 2, 1, 1, 3], [2, 2, 1, 1, 5], &ConvParams::default()); // kernel too large
    check(8, [5, 3, 1, 4, 3], [7, 3, 1, 4, 3], &ConvParams::default()); // as large as the image
    check(9, [0, 3, 1, 4, 3], [7, 3, 1, 4, 3], &ConvParams::default());
    check(7, [1, 1, 1, 1, 2], [1, 1, 1, 1, 2], &ConvParams { padding: [(0, 0), (0, 0), (9, 9)], ..pad });
}

#[test]
fn f32_of_long_sequences() {
    let pad = |n: usize| ConvParams { padding: [(0, 0), (0, 0), (n, n)], ..ConvParams::default() };
    check_f32(1, [1, 5, 1, 1, 1701], [40, 5, 1, 1, 9], &pad(4));
    check_f32(2, [2, 6, 1, 1, 1300], [10, 3, 1, 1, 3], &ConvParams { dilation: [1, 1, 4], groups: 2, ..pad(4) });
    check_f32(3, [3, 1, 1, 1, 2003], [20, 1, 1, 1, 25], &ConvParams { stride: [1, 1, 4], ..pad(12) });
    check_f32(4, [1, 3, 1, 2, 1100], [4, 3, 1, 1, 5], &pad(2));
}

#[test]
fn f32_in_groups() {
    let pad = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], groups: 3, ..ConvParams::default() };
    check_f32(1, [3, 48, 1, 20, 21], [60, 16, 1, 3, 3], &pad);
    check_f32(2, [2, 48, 1, 9, 9], [60, 16, 1, 3, 3], &ConvParams { stride: [1, 2, 2], ..pad });
}

/// Panels of weights that meet several blocks of outputs, in several parts of the sum.
#[test]
fn f32_of_many_weights() {
    let pad = |n: usize| ConvParams { padding: [(0, 0), (n, n), (n, n)], ..ConvParams::default() };
    check_f32(1, [5, 60, 1, 7, 7], [250, 60, 1, 3, 3], &pad(1));
    check_f32(2, [2, 40, 1, 13, 12], [135, 40, 1, 5, 5], &pad(2));
    check_f32(3, [4, 120, 1, 7, 9], [200, 60, 1, 3, 3], &ConvParams { groups: 2, ..pad(1) });
    check_f32(4, [3, 60, 1, 13, 13], [250, 60, 1, 3, 3], &ConvParams { stride: [1, 2, 2], ..pad(1) });
    check_f32(5, [3, 300, 1, 7, 7], [450, 300, 1, 1, 1], &ConvParams::default());
    check_f32(8, [2, 40, 1, 14, 14], [72, 20, 1, 1, 1], &ConvParams { groups: 2, ..ConvParams::default() });
    check_f32(7, [9, 140, 1, 14, 15], [240, 70, 1, 3, 3], &ConvParams { stride: [1, 2, 2], groups: 2, ..pad(1) });
    check_f32(6, [1, 20, 4, 6, 7], [250, 20, 3, 3, 3], &pad(1));
}

#[test]
fn f32_of_all_kernels_and_strides() {
    // Kernel, stride, dilation, front and back padding of height and width.
    let kernels = [
        ([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)]),
        ([3, 3], [2, 2], [1, 1], [(1, 1), (1, 1)]),
        ([3, 3], [2, 1], [1, 1], [(0, 2), (1, 0)]),
        ([5, 5], [1, 1], [1, 1], [(2, 2), (2, 2)]),
        ([5, 3], [2, 3], [1, 1], [(2, 1), (0, 1)]),
        ([7, 7], [2, 2], [1, 1], [(3, 3), (3, 3)]),
        ([3, 3], [1, 1], [2, 3], [(2, 2), (3, 3)]),
        ([1, 7], [1, 1], [1, 1], [(0, 0), (3, 3)]),
        ([4, 4], [4, 4], [1, 1], [(0, 0), (0, 0)]),
        ([1, 1], [2, 2], [1, 1], [(0, 0), (0, 0)]),
        // Windows that see nothing but zeros.
        ([2, 2], [1, 1], [1, 1], [(4, 0), (0, 5)]),
    ];
    // Images, height and width, groups, and channels of a group: few and many on either side, few
    // and many columns.
    let sizes = [
        (1, (13, 17), 1, 5, 33),
        (5, (9, 6), 1, 40, 20),
        (2, (20, 23), 3, 4, 4),
        (1, (6, 7), 2, 70, 48),
        (3, (16, 15), 1, 3, 64),
        (1, (8, 230), 1, 6, 17),
    ];
    for (i, (kernel, stride, dilation, padding)) in kernels.into_iter().enumerate() {
        for (j, (n, (h, w), groups, c, o)) in sizes.into_iter().enumerate() {
            let p = ConvParams {
                stride: [1, stride[0], stride[1]],
                padding: [(0, 0), padding[0], padding[1]],
                dilation: [1, dilation[0], dilation[1]],
                groups,
            };
            let weight = [o * groups, c, 1, kernel[0], kernel[1]];
            check_f32((i * 10 + j) as u64, [n, c * groups, 1, h, w], weight, &p);
        }
    }
}

#[test]
fn f32_in_three_dimensions() {
    let p = ConvParams { padding: [(1, 1), (1, 0), (2, 1)], stride: [1, 1, 2], ..ConvParams::default() };
    check_f32(1, [2, 6, 4, 9, 11], [33, 6, 3, 3, 3], &p);
    check_f32(2, [1, 40, 3, 8, 8], [16, 40, 2, 3, 5], &ConvParams { stride: [2, 2, 2], ..p });
    check_f32(3, [2, 12, 5, 9, 9], [12, 3, 3, 3, 3], &ConvParams { groups: 4, ..p });
}

#[test]
fn f32_depthwise_of_small_planes() {
    for (i, (k, stride, dilation, (h, w), channels)) in [
        (3, 1, 1, (7, 7), 40),
        (5, 1, 1, (7, 5), 16),
        (7, 1, 1, (7, 7), 17),
        (3, 2, 1, (14, 13), 33),
        (5, 2, 1, (8, 14), 9),
        (3, 1, 2, (6, 9), 20),
        (5, 3, 2, (13, 13), 19),
        (2, 2, 1, (4, 4), 16),
    ]
    .into_iter()
    .enumerate()
    {
        let pad = (k - 1) * dilation / 2;
        let p = ConvParams {
            padding: [(0, 0), (pad, pad), (pad, pad + 1)],
            stride: [1, stride, stride],
            dilation: [1, dilation, dilation],
            groups: channels,
        };
        check_f32(i as u64, [3, channels, 1, h, w], [channels, 1, 1, k, k], &p);
    }
}

#[test]
fn f32_depthwise_of_all_kernels() {
    for (i, (k, stride, dilation)) in
        [(3, 1, 1), (5, 1, 1), (7, 1, 1), (4, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2), (7, 2, 1), (3, 3, 1)]
            .into_iter()
            .enumerate()
    {
        let pad = (k - 1) * dilation / 2;
        let p = ConvParams {
            padding: [(0, 0), (pad, pad), (pad, pad)],
            stride: [1, stride, stride],
            dilation: [1, dilation, dilation],
            groups: 5,
        };
        check_f32(i as u64, [3, 5, 1, 22, 39], [5, 1, 1, k, k], &p);
        check_f32(i as u64, [2, 5, 1, 9, 7], [5, 1, 1, k, k], &p);
    }
}

#[test]
fn zero_strides_and_empty_kernels_have_no_output() {
    let p = ConvParams { stride: [1, 1, 0], ..ConvParams::default() };
    assert_eq!(p.output_size([1, 1, 4], [1, 1, 2]), None);
    assert_eq!(ConvParams::default().output_size([1, 1, 4], [1, 1, 0]), None);
}

#[test]
fn f64_of_several_tasks() {
    let pad = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
    // Images that share their sums, groups, channels that are cut, and kernels of one element.
    let cases = [
        ([5, 6, 1, 20, 21], [8, 3, 1, 3, 3], ConvParams { groups: 2, ..pad }),
        ([3, 4, 1, 70, 71], [7, 4, 1, 3, 3], ConvParams { stride: [1, 1, 2], ..pad }),
        ([2, 60, 1, 5, 6], [130, 60, 1, 3, 3], pad),
        ([3, 10, 1, 30, 30], [9, 10, 1, 1, 1], ConvParams::default()),
    ];
    for (x, w, p) in cases {
        check(3, x, w, &p);
        let mut r = Random(4);
        let out = p.output_size([x[2], x[3], x[4]], [w[2], w[3], w[4]]).unwrap();
        let (input, grad) = (r.f64s(x.iter().product()), r.f64s(x[0] * w[0] * out.iter().product::<usize>()));
        same_on_any_threads(|| {
            let mut dw = vec![0.0; w.iter().product()];
            conv_weight_grad(&input, x, &grad, w, &p, &mut dw);
            dw
        });
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let pad = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
    let cases = [
        ([4, 8, 1, 30, 31], [16, 8, 1, 3, 3], pad),
        ([1, 64, 1, 40, 40], [32, 64, 1, 3, 3], pad),
        ([4, 32, 1, 24, 24], [32, 1, 1, 3, 3], ConvParams { groups: 32, ..pad }),
        ([3, 64, 1, 24, 24], [64, 64, 1, 1, 1], ConvParams::default()),
        ([9, 32, 1, 15, 16], [40, 32, 1, 3, 3], ConvParams { stride: [1, 2, 2], ..pad }),
        ([9, 3, 1, 28, 28], [20, 3, 1, 5, 5], ConvParams::default()),
        ([2, 64, 1, 8, 8], [96, 64, 1, 1, 1], ConvParams { stride: [1, 2, 2], ..ConvParams::default() }),
        ([1, 32, 1, 8, 9], [200, 32, 1, 5, 5], ConvParams::default()),
        ([3, 24, 1, 40, 40], [24, 4, 1, 3, 3], ConvParams { groups: 6, ..pad }),
        ([9, 64, 1, 7, 7], [64, 1, 1, 3, 3], ConvParams { groups: 64, ..pad }),
        ([5, 32, 1, 28, 28], [32, 8, 1, 3, 3], ConvParams { stride: [1, 2, 2], groups: 4, ..pad }),
        ([1, 64, 1, 56, 56], [64, 64, 1, 1, 1], ConvParams::default()),
        ([1, 3, 1, 112, 112], [64, 3, 1, 7, 7], ConvParams { stride: [1, 2, 2], ..pad }),
        ([5, 60, 1, 7, 7], [250, 60, 1, 3, 3], pad),
        ([3, 64, 1, 13, 13], [130, 64, 1, 3, 3], ConvParams { stride: [1, 2, 2], ..pad }),
    ];
    let mut r = Random(9);
    for (x, w, p) in cases {
        let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
        let out = p.output_size([x[2], x[3], x[4]], [w[2], w[3], w[4]]).unwrap();
        let grad = r.f32s(x[0] * w[0] * out.iter().product::<usize>());
        same_on_any_threads(|| {
            let (mut y, mut dx, mut dw) = (grad.clone(), input.clone(), weight.clone());
            conv_forward(&input, x, &weight, w, &p, &mut y);
            conv_input_grad(&grad, &weight, w, x, &p, &mut dx);
            conv_weight_grad(&input, x, &grad, w, &p, &mut dw);
            (bits(&y), bits(&dx), bits(&dw))
        });
    }
}

#[test]
fn images_are_handed_on_once_and_final() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let pad = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
    let cases = [
        ([5, 8, 1, 30, 31], [16, 8, 1, 3, 3], pad),
        ([1, 64, 1, 40, 40], [32, 64, 1, 3, 3], pad),
        ([9, 32, 1, 15, 16], [40, 32, 1, 3, 3], ConvParams { stride: [1, 2, 2], ..pad }),
        ([6, 12, 1, 9, 9], [12, 1, 1, 3, 3], ConvParams { groups: 12, ..pad }),
        ([6, 12, 1, 9, 9], [24, 4, 1, 3, 3], ConvParams { groups: 3, ..pad }),
        ([4, 6, 3, 5, 5], [6, 1, 2, 3, 3], ConvParams { groups: 6, ..pad }),
        ([4, 64, 1, 8, 8], [48, 64, 1, 1, 1], ConvParams::default()),
        ([5, 60, 1, 7, 7], [250, 60, 1, 3, 3], pad),
        ([3, 64, 1, 13, 13], [130, 64, 1, 3, 3], ConvParams { stride: [1, 2, 2], ..pad }),
    ];
    let mut r = Random(10);
    for (x, w, p) in cases {
        let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
        let positions = p.output_size([x[2], x[3], x[4]], [w[2], w[3], w[4]]).unwrap().iter().product::<usize>();
        let mut expected = vec![0.0; x[0] * w[0] * positions];
        conv_forward(&input, x, &weight, w, &p, &mut expected);
        let seen: Vec<AtomicU32> = (0..x[0] * w[0]).map(|_| AtomicU32::new(0)).collect();
        let mut y = vec![f32::NAN; expected.len()];
        let out = crate::tasks::Shared::new(&mut y);
        let double = |image: usize, channels: std::ops::Range<usize>| {
            for channel in channels {
                let plane = image * w[0] + channel;
                seen[plane].fetch_add(1, Ordering::Relaxed);
                // SAFETY: the planes are ours during this call.
                (0..positions).for_each(|i| unsafe { *out.ptr().add(plane * positions + i) *= 2.0 });
            }
        };
        // SAFETY: `y` has this size, and is used by the function above alone.
        unsafe { conv_forward_then(&input, x, &weight, w, &p, out.ptr(), &double) };
        assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1), "{x:?} {w:?}");
        let doubled: Vec<f64> = expected.iter().map(|&x| 2.0 * f64::from(x)).collect();
        close(&wide(&y), &doubled, 1e-4);
    }
}
