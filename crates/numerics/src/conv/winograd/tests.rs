use super::*;
use crate::Activation;
use crate::conv::{ConvParams, conv_forward, conv_input_grad, conv_weight_grad};
use crate::testing::{Random, bits, same_on_any_threads, wide};
use proptest::prelude::*;

/// The largest difference, in units of the expected values' root mean square.
fn error(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let rms = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len().max(1) as f64).sqrt();
    let worst = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    worst / rms.max(1e-3)
}

#[test]
fn weights_of_many_small_images_are_summed() {
    let plan = |images, inner, outer, side| Plan {
        images,
        inner,
        outer,
        input: (side, side),
        output: (side, side),
        pad: (1, 1),
        group: (0, 1),
    };
    assert!(!plan(64, 40, 40, 10).pays_for_weights() && !plan(20, 40, 80, 7).pays_for_weights());
    assert!(plan(2, 64, 64, 56).pays_for_weights() && plan(8, 64, 64, 28).pays_for_weights());
    assert!(!plan(40, 28, 64, 10).pays_for_weights_beside_pairs());
}

/// The three functions with this algorithm, whether it pays or not.
struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    dw: Vec<f32>,
}

fn run(isa: Isa, p: &Plan, x: &[f32], w: &[f32], g: &[f32], e: &Epilogue<'_>) -> Results {
    let mut r = Results { y: vec![f32::NAN; g.len()], dx: vec![f32::NAN; x.len()], dw: vec![f32::NAN; w.len()] };
    convolve(isa, p, x, &Weights { data: w, row: p.inner * 9, inner: 9, flip: false }, &mut r.y, e);
    let back = Plan {
        inner: p.outer,
        outer: p.inner,
        input: p.output,
        output: p.input,
        pad: (2 - p.pad.0, 2 - p.pad.1),
        ..*p
    };
    let turned = Weights { data: w, row: 9, inner: p.inner * 9, flip: true };
    convolve(isa, &back, g, &turned, &mut r.dx, &Epilogue::default());
    weight_grad(isa, p, x, g, &mut r.dw);
    r
}

fn check(seed: u64, n: usize, c: usize, o: usize, size: [usize; 2], pad: [(usize, usize); 2]) {
    let params = ConvParams { padding: [(0, 0), pad[0], pad[1]], ..ConvParams::default() };
    let Some([_, h, w]) = params.output_size([1, size[0], size[1]], [1, 3, 3]) else { return };
    let plan = Plan {
        images: n,
        inner: c,
        outer: o,
        input: (size[0], size[1]),
        output: (h, w),
        pad: (pad[0].0, pad[1].0),
        group: (0, 1),
    };
    let mut r = Random(seed);
    let (xs, ws) = ([n, c, 1, size[0], size[1]], [o, c, 1, 3, 3]);
    let (x, k, g) = (r.f32s(xs.iter().product()), r.f32s(ws.iter().product()), r.f32s(n * o * h * w));
    let (mut y, mut dx, mut dw) = (vec![0.0; g.len()], vec![0.0; x.len()], vec![0.0; k.len()]);
    conv_forward(&wide(&x), xs, &wide(&k), ws, &params, &mut y);
    conv_input_grad(&wide(&g), &wide(&k), ws, xs, &params, &mut dx);
    conv_weight_grad(&wide(&x), xs, &wide(&g), ws, &params, &mut dw);
    for isa in Isa::every() {
        let got = run(isa, &plan, &x, &k, &g, &Epilogue::default());
        assert!(error(&got.y, &y) < 3e-5, "{isa:?} {plan:?}: forward {}", error(&got.y, &y));
        assert!(error(&got.dx, &dx) < 3e-5, "{isa:?} {plan:?}: input {}", error(&got.dx, &dx));
        assert!(error(&got.dw, &dw) < 3e-5, "{isa:?} {plan:?}: weight {}", error(&got.dw, &dw));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_sizes_match_the_definition(
        seed: u64,
        n in 1usize..4,
        c in 1usize..40,
        o in 1usize..40,
        size in [1usize..40, 1usize..40],
        front in [0usize..3, 0usize..3],
        back in [0usize..5, 0usize..5],
    ) {
        check(seed, n, c, o, size, [(front[0], back[0]), (front[1], back[1])]);
    }
}

#[test]
fn many_images_and_channels() {
    // Both orders of work, several blocks of tiles and of channels, and tiles in several parts.
    check(1, 7, 24, 130, [4, 4], [(1, 1); 2]);
    check(2, 33, 16, 16, [2, 3], [(1, 1); 2]);
    check(3, 2, 70, 9, [60, 70], [(1, 1); 2]);
    check(4, 1, 17, 33, [3, 200], [(1, 1); 2]);
    check(5, 9, 130, 140, [18, 18], [(1, 1); 2]);
    // Two halves for the weights, of several parts each.
    check(6, 1, 8, 9, [430, 430], [(1, 1); 2]);
}

#[test]
fn the_error_is_near_that_of_direct_sums() {
    // 64 channels of normal numbers: the figure the module's documentation gives.
    let (n, c, s) = (2, 64, 28);
    let mut r = Random(3);
    let mut normal =
        |n: usize| -> Vec<f32> { (0..n).map(|_| (0..12).map(|_| r.unit()).sum::<f64>() as f32 / 2.0).collect() };
    let (x, k, g) = (normal(n * c * s * s), normal(c * c * 9), normal(n * c * s * s));
    let plan = Plan { images: n, inner: c, outer: c, input: (s, s), output: (s, s), pad: (1, 1), group: (0, 1) };
    let params = ConvParams { padding: [(0, 0), (1, 1), (1, 1)], ..ConvParams::default() };
    let (xs, ws) = ([n, c, 1, s, s], [c, c, 1, 3, 3]);
    let mut y = vec![0.0; g.len()];
    conv_forward(&wide(&x), xs, &wide(&k), ws, &params, &mut y);
    let got = run(Isa::detect(), &plan, &x, &k, &g, &Epilogue::default());
    assert!(error(&got.y, &y) < 1e-5, "{}", error(&got.y, &y));
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut r = Random(8);
    for (n, c, o, h, w) in [(6, 20, 24, 30, 31), (2, 40, 200, 9, 8), (9, 64, 64, 40, 40)] {
        let plan = Plan { images: n, inner: c, outer: o, input: (h, w), output: (h, w), pad: (1, 1), group: (0, 1) };
        let (x, k, g) = (r.f32s(n * c * h * w), r.f32s(o * c * 9), r.f32s(n * o * h * w));
        same_on_any_threads(|| {
            let got = run(Isa::detect(), &plan, &x, &k, &g, &Epilogue::default());
            (bits(&got.y), bits(&got.dx), bits(&got.dw))
        });
    }
}

#[test]
fn the_epilogue_is_applied_once() {
    let (n, c, o, s) = (2, 9, 13, 11);
    let mut r = Random(4);
    let (x, k, g) = (r.f32s(n * c * s * s), r.f32s(o * c * 9), r.f32s(n * o * s * s));
    let (scale, bias, residual) = (r.f32s(o), r.f32s(o), r.f32s(g.len()));
    let plan = Plan { images: n, inner: c, outer: o, input: (s, s), output: (s, s), pad: (1, 1), group: (0, 1) };
    for activation in [Activation::None, Activation::Relu, Activation::LeakyRelu(0.1)] {
        for isa in Isa::every() {
            let plain = run(isa, &plan, &x, &k, &g, &Epilogue::default()).y;
            let e =
                Epilogue { scale: Some(&scale), bias: Some(&bias), residual: Some(&residual), activation, then: None };
            let fused = run(isa, &plan, &x, &k, &g, &e).y;
            for (i, (&y, &p)) in fused.iter().zip(&plain).enumerate() {
                let channel = i / (s * s) % o;
                let v = p * scale[channel] + bias[channel] + residual[i];
                let expected = match activation {
                    Activation::None => v,
                    Activation::Relu => v.max(0.0),
                    Activation::LeakyRelu(slope) => {
                        if v > 0.0 {
                            v
                        } else {
                            v * slope
                        }
                    }
                };
                assert!((y - expected).abs() < 1e-5, "{isa:?} {activation:?} {i}: {y} {expected}");
            }
        }
    }
}

#[test]
fn what_comes_then_sees_every_element_once() {
    let (n, c, o, s) = (2, 9, 13, 11);
    let mut r = Random(4);
    let (x, k, g) = (r.f32s(n * c * s * s), r.f32s(o * c * 9), r.f32s(n * o * s * s));
    let plan = Plan { images: n, inner: c, outer: o, input: (s, s), output: (s, s), pad: (1, 1), group: (0, 1) };
    let plain = run(Isa::detect(), &plan, &x, &k, &g, &Epilogue::default()).y;
    let add = |row: usize, columns: std::ops::Range<usize>, part: &mut [f32]| {
        assert_eq!(columns.len(), part.len());
        columns.zip(part).for_each(|(i, y)| *y += (row * s * s + i) as f32);
    };
    let e = Epilogue { then: Some(crate::Then(&add)), ..Epilogue::default() };
    let got = run(Isa::detect(), &plan, &x, &k, &g, &e).y;
    for (i, (a, b)) in got.iter().zip(&plain).enumerate() {
        assert_eq!(*a, b + i as f32);
    }
}
