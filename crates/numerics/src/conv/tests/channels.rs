//! A kernel for each channel in three dimensions, and channels that lie last.

use super::*;

#[test]
fn f32_depthwise_in_three_dimensions() {
    // Kernel, stride, dilation, padding, size: of cubes that are transposed, and of others.
    for (i, (k, s, d, pad, size, channels)) in [
        ([5, 5, 5], [1, 1, 1], [1, 1, 1], [2, 2, 2], [5, 5, 5], 37),
        ([5, 5, 5], [2, 2, 2], [1, 1, 1], [2, 2, 2], [10, 9, 10], 16),
        ([4, 4, 4], [2, 2, 2], [1, 1, 1], [2, 2, 2], [4, 4, 4], 20),
        ([3, 2, 3], [1, 2, 3], [2, 1, 1], [2, 0, 1], [7, 6, 8], 18),
        ([3, 3, 3], [3, 1, 2], [1, 2, 1], [1, 2, 4], [6, 7, 5], 9),
        ([1, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], [3, 6, 5], 16),
        ([3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], [6, 20, 40], 3),
        ([3, 5, 5], [2, 2, 2], [2, 1, 1], [2, 0, 1], [7, 12, 35], 2),
    ]
    .into_iter()
    .enumerate()
    {
        let p = ConvParams { padding: pad.map(|p| (p, p)), stride: s, dilation: d, groups: channels };
        let (x, w) = ([3, channels, size[0], size[1], size[2]], [channels, 1, k[0], k[1], k[2]]);
        check_f32(i as u64, x, w, &p);
    }
}

#[test]
fn f32_depthwise_of_one_element() {
    for (i, (channels, size)) in [(35, [4, 4, 5]), (3, [1, 1, 7]), (70, [1, 30, 31])].into_iter().enumerate() {
        let (p, [d, h, w]) = (ConvParams { groups: channels, ..ConvParams::default() }, size);
        check_f32(i as u64, [3, channels, d, h, w], [channels, 1, 1, 1, 1], &p);
    }
}

/// Slices of a cube that see different elements of the kernels along the depth.
#[test]
fn f32_of_padded_cubes() {
    let p = |pad: usize| ConvParams { padding: [(pad, pad); 3], ..ConvParams::default() };
    check_f32(1, [2, 40, 5, 6, 6], [33, 40, 5, 5, 5], &p(2));
    check_f32(2, [3, 20, 3, 7, 5], [150, 20, 3, 3, 3], &p(1));
    check_f32(3, [2, 20, 6, 6, 7], [5, 20, 5, 5, 5], &p(2));
    check_f32(4, [9, 40, 4, 4, 4], [250, 40, 3, 3, 3], &p(1));
}

/// Many outputs of few channels, whose lanes would be idle; several blocks of images; strides in three dimensions.
#[test]
fn f32_input_gradients_by_products() {
    let p = |pad: usize, stride: usize| ConvParams {
        padding: [(0, 0), (pad, pad), (pad, pad)],
        stride: [1, stride, stride],
        ..ConvParams::default()
    };
    let deep = ConvParams { padding: [(1, 1); 3], stride: [2; 3], ..ConvParams::default() };
    for (i, (x, w, p)) in [
        ([30, 10, 1, 7, 7], [130, 10, 1, 4, 4], p(1, 1)),
        ([2, 34, 1, 6, 9], [130, 34, 1, 4, 3], p(2, 1)),
        ([5, 11, 3, 4, 5], [128, 11, 1, 3, 3], p(1, 1)),
        ([3, 24, 6, 7, 8], [64, 24, 3, 3, 3], deep),
        ([2, 9, 1, 20, 20], [140, 9, 1, 4, 3], p(2, 1)),
        ([3, 27, 1, 16, 16], [140, 27, 1, 4, 4], p(0, 1)),
    ]
    .into_iter()
    .enumerate()
    {
        check_f32(i as u64, x, w, &p);
        let problem = Problem::new(x, w, &p).unwrap();
        assert!(adjoint::pays(Isa::detect(), &problem));
    }
}

/// Few channels of each group, by products where rows are short and by rows where they are long.
#[test]
fn f32_input_gradients_of_few_channels() {
    let p = |pad: usize, stride: usize, groups: usize| ConvParams {
        padding: [(pad, pad); 3],
        stride: [stride; 3],
        groups,
        ..ConvParams::default()
    };
    let flat = |groups: usize| ConvParams { padding: [(0, 0), (2, 2), (2, 2)], groups, ..ConvParams::default() };
    for (i, (x, w, p, few)) in [
        ([3, 2, 10, 10, 10], [64, 1, 2, 2, 2], p(1, 1, 2), true),
        ([5, 8, 1, 6, 6], [224, 2, 1, 4, 4], flat(4), true),
        ([2, 4, 6, 7, 5], [40, 2, 3, 3, 3], p(1, 2, 2), true),
        ([2, 8, 1, 40, 40], [32, 2, 1, 5, 5], flat(4), false),
        ([2, 3, 1, 64, 64], [16, 3, 1, 5, 5], flat(1), false),
    ]
    .into_iter()
    .enumerate()
    {
        check_f32(i as u64, x, w, &p);
        assert_eq!(adjoint::is_few(&Problem::new(x, w, &p).unwrap()), few, "{x:?} {w:?}");
    }
}

/// Small images with large kernels, several of which are taken together: whole blocks and the rest of them.
#[test]
fn f32_strided_gradients_of_several_small_images() {
    let p = |pad: usize, groups: usize| ConvParams {
        padding: [(0, 0), (pad, pad), (pad, pad)],
        stride: [1, 2, 2],
        groups,
        ..ConvParams::default()
    };
    check_f32(1, [21, 64, 1, 7, 7], [40, 64, 1, 7, 7], &p(3, 1));
    check_f32(2, [11, 32, 1, 6, 8], [20, 16, 1, 5, 5], &p(2, 2));
    check_f32(3, [3, 48, 1, 14, 14], [17, 48, 1, 3, 3], &p(1, 1));
}

/// Weights whose sums threads keep for some images each, and add up.
#[test]
fn f32_weight_gradients_of_many_positions() {
    let p = |pad: usize, groups: usize| ConvParams {
        padding: [(0, 0), (pad, pad), (pad, pad)],
        groups,
        ..ConvParams::default()
    };
    check_f32(1, [7, 33, 1, 20, 20], [46, 33, 1, 4, 5], &p(1, 1));
    check_f32(2, [1, 48, 1, 50, 50], [50, 24, 1, 5, 5], &p(2, 2));
}

/// Windows that see all of an image.
#[test]
fn f32_of_whole_images() {
    check_f32(1, [40, 2, 1, 1, 3], [320, 2, 1, 1, 3], &ConvParams { stride: [1, 1, 2], ..ConvParams::default() });
    check_f32(2, [4, 6, 3, 4, 5], [33, 6, 3, 4, 5], &ConvParams::default());
}

/// Many weights, over several blocks of positions.
#[test]
fn f64_weight_gradients_in_place() {
    let p = ConvParams { padding: [(0, 0), (2, 2), (2, 2)], stride: [1, 2, 2], ..ConvParams::default() };
    check(1, [1, 50, 1, 9, 9], [100, 50, 1, 4, 4], &p);
    check(2, [3, 40, 1, 14, 14], [60, 40, 1, 6, 6], &ConvParams { stride: [1; 3], ..p });
    check(3, [3, 80, 1, 5, 5], [600, 40, 1, 4, 4], &ConvParams { groups: 2, ..p });
}

/// `[n, c, ..]` with the channels last, or (`back`) the reverse.
fn last(x: &[f32], shape: [usize; 5], back: bool) -> Vec<f32> {
    let [n, c, d, h, w] = shape;
    let rest = d * h * w;
    let mut y = vec![0.0; x.len()];
    for (i, k, r) in (0..n).flat_map(|i| (0..c).flat_map(move |k| (0..rest).map(move |r| (i, k, r)))) {
        let (first, last) = ((i * c + k) * rest + r, (i * rest + r) * c + k);
        let (from, to) = if back { (last, first) } else { (first, last) };
        y[to] = x[from];
    }
    y
}

/// Calls `f` with sizes and parameters for channels last.
fn cases(mut f: impl FnMut(u64, [usize; 5], [usize; 5], ConvParams)) {
    let pads = [(0, 0), (1, 2), (3, 0)];
    for (i, (kernel, stride, dilation, size)) in [
        ([1, 4, 4], 1, 1, [1, 20, 23]),
        ([1, 5, 5], 2, 1, [1, 15, 14]),
        ([1, 3, 3], 1, 2, [1, 17, 9]),
        ([3, 2, 3], 2, 2, [6, 7, 8]),
        ([1, 1, 1], 1, 1, [1, 4, 6]),
        ([2, 2, 2], 3, 1, [3, 4, 5]),
    ]
    .into_iter()
    .enumerate()
    {
        let [d, h, w] = size;
        for (j, pad) in pads.into_iter().enumerate() {
            let deep = if kernel[0] == 1 { (0, 0) } else { pad };
            let p = ConvParams { stride: [stride; 3], padding: [deep, pad, pad], dilation: [dilation; 3], groups: 1 };
            let weight = |o, c| [o, c, kernel[0], kernel[1], kernel[2]];
            for channels in [1, 10, 34, 64] {
                f(
                    (i * 10 + j) as u64,
                    [2, channels, d, h, w],
                    weight(channels, 1),
                    ConvParams { groups: channels, ..p },
                );
            }
            for o in 1..=4 {
                f((i * 10 + j) as u64, [2, 16 + 7 * o, d, h, w], weight(o, 16 + 7 * o), p);
            }
        }
    }
}

#[test]
fn f32_with_channels_last() {
    cases(|seed, x, w, p| {
        let Some(problem) = Problem::new(x, w, &p) else { return };
        let mut r = Random(seed);
        let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
        let out = problem.geometry.output;
        let shape = [x[0], w[0], out[0], out[1], out[2]];
        let mut y = vec![0.0; shape.iter().product()];
        conv_forward(&wide(&input), x, &wide(&weight), w, &p, &mut y);
        for isa in Isa::every() {
            let mut got = vec![f32::NAN; y.len()];
            super::last::forward(isa, &problem, &last(&input, x, false), &last(&weight, w, false), &mut got);
            close(&wide(&last(&got, shape, true)), &y, 1e-4);
        }
    });
}

#[test]
fn threads_do_not_change_a_bit_of_channels_last() {
    let mut r = Random(5);
    for (x, w, groups) in [([3, 34, 1, 30, 31], [34, 1, 1, 3, 3], 34), ([3, 40, 1, 30, 31], [2, 40, 1, 3, 3], 1)] {
        let p = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], groups, ..ConvParams::default() };
        let (input, weight) = (r.f32s(x.iter().product()), r.f32s(w.iter().product()));
        same_on_any_threads(|| {
            let mut y = vec![0.0; 3 * w[0] * 30 * 31];
            assert!(conv_forward_last(&input, x, &weight, w, &p, &mut y));
            bits(&y)
        });
    }
}
