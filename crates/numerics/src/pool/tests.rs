use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};
use proptest::prelude::*;

/// The definition: element by element, for one plane.
fn definition([h, w]: [&Window; 2], x: &[f32]) -> Vec<usize> {
    let mut out = Vec::new();
    for o in 0..h.out * w.out {
        let mut best = None;
        for r in 0..h.size * w.size {
            let row = (o / w.out * h.stride + r / w.size * h.dilation).checked_sub(h.padding);
            let column = (o % w.out * w.stride + r % w.size * w.dilation).checked_sub(w.padding);
            let (Some(row), Some(column)) = (row, column) else { continue };
            if row < h.n && column < w.n {
                let at = row * w.n + column;
                if best.is_none_or(|b: usize| x[at] > x[b] || x[at].is_nan()) {
                    best = Some(at);
                }
            }
        }
        out.push(best.unwrap());
    }
    out
}

fn window(n: usize, size: usize, stride: usize, padding: usize, dilation: usize) -> Option<Window> {
    let reach = (size - 1) * dilation + 1;
    let padding = padding.min(size / 2);
    let out = (n + 2 * padding).checked_sub(reach)? / stride + 1;
    // A dilated window may see nothing at the ends: not for these functions.
    (padding == 0 || dilation == 1).then_some(Window { n, size, stride, padding, dilation, out })
}

/// Few distinct values, zeros of both signs among them, and perhaps some NaN.
fn ties(r: &mut Random, n: usize, nans: bool) -> Vec<f32> {
    let mut x = r.ties(n);
    for v in &mut x {
        *v = if *v == 0.0 && r.below(2) == 0 { -0.0 } else { *v };
        *v = if v.is_nan() && !nans { -1.0 } else { *v };
    }
    x
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_windows_match_the_definition(
        seed: u64,
        planes in 1usize..4,
        n in [1usize..12, 1usize..150],
        size in [1usize..5, 1usize..5],
        stride in [1usize..4, 1usize..6],
        padding in [0usize..3, 0usize..3],
        dilation in [1usize..3, 1usize..3],
        pairs: bool,
    ) {
        let pick = |d: usize| {
            if pairs { window(n[d], 2, 2, 0, 1) } else { window(n[d], size[d], stride[d], padding[d], dilation[d]) }
        };
        let (Some(h), Some(w)) = (pick(0), pick(1)) else { return Ok(()) };
        let p = Pool { windows: [h.into(), w.into()], inner: 1 };
        let (plane, outputs) = (h.n * w.n, h.out * w.out);
        let mut r = Random(seed);
        let (mut x, values, grad) = (ties(&mut r, planes * plane, seed.is_multiple_of(2)), r.f32s(planes * plane), r.f32s(planes * outputs));
        let (mut y, mut picked, mut dx) = (vec![7.0; grad.len()], vec![7.0; grad.len()], vec![7.0; x.len()]);
        // Some windows of nothing but the least number.
        x.iter_mut().filter(|x| **x < 0.0).for_each(|x| *x = f32::NEG_INFINITY);
        let mut indices = vec![-1; grad.len()];
        max_pool(&p, &x, &mut y);
        max_pool_pick(&p, &x, &values, &mut picked);
        max_pool_grad(&p, &x, &grad, &mut dx);
        max_pool_indices(&p, &x, &mut indices);
        let mut expected = vec![0.0f32; x.len()];
        for i in 0..planes {
            for (o, at) in definition([&h, &w], &x[i * plane..][..plane]).into_iter().enumerate() {
                prop_assert_eq!(y[i * outputs + o].to_bits(), x[i * plane + at].to_bits());
                prop_assert_eq!(picked[i * outputs + o], values[i * plane + at]);
                prop_assert_eq!(indices[i * outputs + o], at as i64);
                expected[i * plane + at] += grad[i * outputs + o];
            }
        }
        prop_assert_eq!(&dx, &expected);
        // The other widths of vectors.
        for isa in Isa::every() {
            for i in 0..planes {
                let mut one = vec![7.0; outputs];
                // SAFETY: the plane and its outputs have the sizes of `p`.
                unsafe { forward(isa, &p, &x[i * plane..][..plane], &Framed::new(&p).fill(isa, &x[i * plane..][..plane]), &mut one) };
                prop_assert_eq!(bits(&one), bits(&y[i * outputs..][..outputs]));
                let mut row = vec![0.0; w.out];
                for oh in 0..h.out {
                    // SAFETY: as above.
                    unsafe { places(isa, &p, &x[i * plane..][..plane], &Framed::new(&p).fill(isa, &x[i * plane..][..plane]), oh, &mut row) };
                    for (ow, at) in row.iter().enumerate() {
                        let at = places::decode(*at).map(|at| at as i64);
                        prop_assert_eq!(at, Some(indices[i * outputs + oh * w.out + ow]));
                    }
                }
                if let Some(pairs) = p.pairs() {
                    // Over the plane itself.
                    let mut one = x[i * plane..][..plane].to_vec();
                    let at = one.as_mut_ptr();
                    // SAFETY: as above.
                    unsafe { pairs_grad(isa, pairs, at, &grad[i * outputs..][..outputs], at) };
                    prop_assert_eq!(&one, &expected[i * plane..][..plane]);
                }
            }
        }
        if p.is_pairs() {
            let mut over = x.clone();
            prop_assert!(max_pool_grad_over(&p, &mut over, &grad));
            prop_assert_eq!(&over, &expected);
        }
    }
}

/// The bins of an axis as lists of elements, and how many each counts.
fn bins_of(b: &Bins, divisor: Divisor) -> Vec<(Vec<usize>, f64)> {
    match b {
        Bins::Even(w) => (0..w.out)
            .map(|o| {
                let start = (o * w.stride) as isize - w.padding as isize;
                let all = start..(start + w.size as isize).min((w.n + w.padding) as isize);
                let inside: Vec<usize> =
                    all.clone().filter(|&i| i >= 0 && i < w.n as isize).map(|i| i as usize).collect();
                let count = if divisor == Divisor::Padded { all.count() } else { inside.len() };
                (inside, count as f64)
            })
            .collect(),
        Bins::Adaptive { n, out } => (0..*out)
            .map(|o| {
                let inside: Vec<usize> = (0..*n).filter(|i| i * out + out > o * n && i * out < (o + 1) * n).collect();
                let count = inside.len() as f64;
                (inside, count)
            })
            .collect(),
    }
}

fn any_bins() -> impl Strategy<Value = Bins> {
    let even = (1usize..100, 1usize..6, 1usize..7, 0usize..3, any::<bool>()).prop_filter_map(
        "fits",
        |(n, size, stride, padding, ceil)| {
            let mut w = window(n, size, stride, padding, 1)?;
            // A last window may hang over the end, if it starts inside.
            w.out += usize::from(ceil && w.out * stride < n + w.padding);
            Some(Bins::Even(w))
        },
    );
    prop_oneof![even, (1usize..60, 1usize..20).prop_map(|(n, out)| Bins::Adaptive { n, out })]
}

/// Those, or one bin of all elements.
fn any_windows() -> impl Strategy<Value = Bins> {
    let whole = |n| Window { n, size: n, stride: n, padding: 0, dilation: 1, out: 1 };
    prop_oneof![any_bins(), (1usize..150).prop_map(move |n| whole(n).into())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn means_match_the_definition(
        seed: u64,
        planes in 1usize..4,
        h in any_bins(),
        w in any_bins(),
        divisor in prop_oneof![Just(Divisor::Padded), Just(Divisor::Inside), Just(Divisor::Fixed(-3))],
    ) {
        let p = MeanPool { bins: [h, w], divisor, inner: 1 };
        let (plane, outputs) = (h.n() * w.n(), h.out() * w.out());
        let mut r = Random(seed);
        let (x, grad) = (r.f32s(planes * plane), r.f32s(planes * outputs));
        let (mut means, mut parts) = (vec![0.0; grad.len()], vec![0.0; x.len()]);
        for i in 0..planes {
            for (oh, (rows, high)) in bins_of(&h, divisor).into_iter().enumerate() {
                for (ow, (columns, wide)) in bins_of(&w, divisor).into_iter().enumerate() {
                    let count = if let Divisor::Fixed(n) = divisor { n as f64 } else { high * wide };
                    let o = i * outputs + oh * w.out() + ow;
                    for at in rows.iter().flat_map(|r| columns.iter().map(move |c| i * plane + r * w.n() + *c)) {
                        means[o] += f64::from(x[at]) / count;
                        parts[at] += f64::from(grad[o]) / count;
                    }
                }
            }
        }
        for isa in Isa::every() {
            let (mut y, mut dx) = (vec![f32::NAN; grad.len()], vec![f32::NAN; x.len()]);
            mean::mean_pool_with(isa, &p, &x, &mut y);
            mean::mean_pool_grad_with(isa, &p, &grad, &mut dx);
            close(&wide(&y), &means, 1e-5);
            close(&wide(&dx), &parts, 1e-5);
        }
    }

    #[test]
    fn maxima_of_adaptive_bins_match_the_definition(seed: u64, h in any_windows(), w in any_windows()) {
        let p = Pool { windows: [h, w], inner: 1 };
        let mut r = Random(seed);
        let (mut x, grad) = (ties(&mut r, h.n() * w.n(), seed.is_multiple_of(2)), r.f32s(h.out() * w.out()));
        if seed.is_multiple_of(3) {
            x.iter_mut().filter(|x| **x > 0.0).for_each(|x| *x = 0.0);
        }
        let (mut y, mut dx, mut expected) = (grad.clone(), x.clone(), vec![0.0; x.len()]);
        max_pool(&p, &x, &mut y);
        max_pool_grad(&p, &x, &grad, &mut dx);
        let all = [bins_of(&h, Divisor::Inside), bins_of(&w, Divisor::Inside)];
        for (o, y) in y.iter().enumerate() {
            let (rows, columns) = (&all[0][o / w.out()].0, &all[1][o % w.out()].0);
            let places = rows.iter().flat_map(|r| columns.iter().map(move |c| r * w.n() + *c));
            let best = places.reduce(|a, b| if x[b] > x[a] || x[b].is_nan() { b } else { a }).unwrap();
            prop_assert_eq!(y.to_bits(), x[best].to_bits());
            expected[best] += grad[o];
        }
        prop_assert_eq!(dx, expected);
    }
}

/// The numbers of images with their channels last, as planes.
fn planes_of<T: Copy>(x: &[T], places: usize, inner: usize) -> Vec<T> {
    let image = places * inner;
    (0..x.len()).map(|i| x[i / image * image + i % places * inner + i % image / places]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn channels_that_lie_last_have_the_bits_of_planes(
        seed: u64,
        images in 1usize..3,
        inner in 2usize..90,
        h in any_windows(),
        w in any_bins(),
        divisor in prop_oneof![Just(Divisor::Padded), Just(Divisor::Inside), Just(Divisor::Fixed(-3))],
    ) {
        let (plane, outputs) = (h.n() * w.n(), h.out() * w.out());
        let mut r = Random(seed);
        let (x, values) = (ties(&mut r, images * plane * inner, seed.is_multiple_of(2)), r.f32s(images * plane * inner));
        let grad = r.f32s(images * outputs * inner);
        let run = |inner: usize, x: &[f32], values: &[f32], grad: &[f32]| {
            let (max, mean) = (Pool { windows: [h, w], inner }, MeanPool { bins: [h, w], divisor, inner });
            let (mut y, mut picked, mut means) = (grad.to_vec(), grad.to_vec(), grad.to_vec());
            let (mut dx, mut parts, mut at) = (x.to_vec(), x.to_vec(), vec![-1; grad.len()]);
            max_pool(&max, x, &mut y);
            max_pool_pick(&max, x, values, &mut picked);
            max_pool_grad(&max, x, grad, &mut dx);
            max_pool_indices(&max, x, &mut at);
            mean_pool(&mean, values, &mut means);
            mean_pool_grad(&mean, grad, &mut parts);
            ([y, picked, means], [dx, parts], at)
        };
        let last = run(inner, &x, &values, &grad);
        let first = run(1, &planes_of(&x, plane, inner), &planes_of(&values, plane, inner), &planes_of(&grad, outputs, inner));
        for (last, first) in last.0.iter().zip(&first.0) {
            prop_assert_eq!(bits(&planes_of(last, outputs, inner)), bits(first));
        }
        for (last, first) in last.1.iter().zip(&first.1) {
            prop_assert_eq!(bits(&planes_of(last, plane, inner)), bits(first));
        }
        prop_assert_eq!(planes_of(&last.2, outputs, inner), first.2);
        // The other widths of vectors.
        for isa in Isa::every() {
            let mut y = grad.clone();
            last::max_pool(isa, &Pool { windows: [h, w], inner }, &x, &mut y);
            prop_assert_eq!(bits(&y), bits(&last.0[0]));
            let mean = MeanPool { bins: [h, w], divisor, inner };
            last::mean_pool(isa, &mean, &values, &mut y);
            prop_assert_eq!(bits(&y), bits(&last.0[2]));
            let mut dx = x.clone();
            back::max_pool_grad(isa, &Pool { windows: [h, w], inner }, &x, &grad, &mut dx);
            prop_assert_eq!(bits(&dx), bits(&last.1[0]));
            mean::mean_pool_grad_with(isa, &mean, &grad, &mut dx);
            prop_assert_eq!(bits(&dx), bits(&last.1[1]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn planes_that_are_turned_have_the_bits_of_others(
        seed: u64,
        planes in 1usize..50,
        h in any_windows(),
        w in any_bins(),
        divisor in prop_oneof![Just(Divisor::Padded), Just(Divisor::Inside), Just(Divisor::Fixed(-3))],
    ) {
        let (plane, outputs) = (h.n() * w.n(), h.out() * w.out());
        let mut r = Random(seed);
        let (x, grad) = (ties(&mut r, planes * plane, seed.is_multiple_of(2)), r.f32s(planes * outputs));
        let values = r.f32s(planes * plane);
        let (max, mean) = (Pool { windows: [h, w], inner: 1 }, MeanPool { bins: [h, w], divisor, inner: 1 });
        let counts = mean.counts();
        // Plane by plane: those that have rows of some length are not turned.
        let mut expected = [vec![7.0; grad.len()], vec![7.0; x.len()], vec![7.0; grad.len()], vec![7.0; x.len()]];
        for i in 0..planes {
            let (x, grad) = (&x[i * plane..][..plane], &grad[i * outputs..][..outputs]);
            let [y, dx, means, parts] = &mut expected;
            let (y, means) = (&mut y[i * outputs..][..outputs], &mut means[i * outputs..][..outputs]);
            let (dx, parts) = (&mut dx[i * plane..][..plane], &mut parts[i * plane..][..plane]);
            let isa = Isa::Base;
            max_pool(&max, x, y);
            max_pool_grad(&max, x, grad, dx);
            mean::mean_pool_with(isa, &mean, &values[i * plane..][..plane], means);
            mean::mean_pool_grad_with(isa, &mean, grad, parts);
        }
        for isa in Isa::every() {
            let mut all = [vec![7.0; grad.len()], vec![7.0; x.len()], vec![7.0; grad.len()], vec![7.0; x.len()]];
            Map::Max(&max).turned(isa, planes, [&x, &[]], &mut all[0]);
            Map::MaxGrad(&max).turned(isa, planes, [&x, &grad], &mut all[1]);
            Map::Mean(&mean, &counts).turned(isa, planes, [&values, &[]], &mut all[2]);
            Map::MeanGrad(&mean, &counts).turned(isa, planes, [&grad, &[]], &mut all[3]);
            for (all, expected) in all.iter().zip(&expected) {
                prop_assert_eq!(bits(all), bits(expected));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn doubles_are_what_floats_are(
        seed: u64,
        images in 1usize..4,
        inner in prop_oneof![Just(1usize), 2usize..20],
        h in any_windows(),
        w in any_bins(),
        divisor in prop_oneof![Just(Divisor::Padded), Just(Divisor::Inside), Just(Divisor::Fixed(-3))],
    ) {
        let lead = images * if inner == 1 { 5 } else { inner };
        let (plane, outputs) = (h.n() * w.n(), h.out() * w.out());
        let mut r = Random(seed);
        let (x, values) = (ties(&mut r, lead * plane, seed.is_multiple_of(2)), r.f32s(lead * plane));
        let grad = r.f32s(lead * outputs);
        let (max, mean) = (Pool { windows: [h, w], inner }, MeanPool { bins: [h, w], divisor, inner });
        let (mut y, mut dx) = (grad.clone(), x.clone());
        let (x64, values64, grad64) = (wide(&x), wide(&values), wide(&grad));
        let (mut y64, mut dx64) = (grad64.clone(), x64.clone());
        let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        max_pool(&max, &x, &mut y);
        <f64 as Pooled>::max_pool(&max, &x64, &mut y64);
        prop_assert_eq!(bits(&narrow(&y64)), bits(&y));
        max_pool_pick(&max, &x, &values, &mut y);
        <f64 as Pooled>::max_pool_pick(&max, &x64, &values64, &mut y64);
        prop_assert_eq!(bits(&narrow(&y64)), bits(&y));
        max_pool_grad(&max, &x, &grad, &mut dx);
        <f64 as Pooled>::max_pool_grad(&max, &x64, &grad64, &mut dx64);
        close(&dx64, &wide(&dx), 1e-5);
        mean_pool(&mean, &values, &mut y);
        <f64 as Pooled>::mean_pool(&mean, &values64, &mut y64);
        close(&y64, &wide(&y), 1e-5);
        mean_pool_grad(&mean, &grad, &mut dx);
        <f64 as Pooled>::mean_pool_grad(&mean, &grad64, &mut dx64);
        close(&dx64, &wide(&dx), 1e-5);
    }
}

#[test]
fn nothing_to_do() {
    let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
    let p = Pool { windows: [w.into(), w.into()], inner: 1 };
    max_pool(&p, &[], &mut []);
    max_pool_grad(&p, &[], &[], &mut []);
    max_pool_indices(&p, &[], &mut []);
}

#[test]
fn threads_do_not_change_a_bit() {
    let w = Window { n: 65, size: 3, stride: 2, padding: 1, dilation: 1, out: 33 };
    let p = Pool { windows: [w.into(), w.into()], inner: 1 };
    let mut r = Random(2);
    let (x, g) = (r.f32s(40 * 65 * 65), r.f32s(40 * 33 * 33));
    same_on_any_threads(|| {
        let (mut y, mut dx) = (g.clone(), x.clone());
        max_pool(&p, &x, &mut y);
        max_pool_grad(&p, &x, &g, &mut dx);
        let mean = MeanPool { bins: p.windows, divisor: Divisor::Inside, inner: 1 };
        let (mut means, mut parts) = (g.clone(), x.clone());
        mean_pool(&mean, &x, &mut means);
        mean_pool_grad(&mean, &g, &mut parts);
        (bits(&y), bits(&dx), bits(&means), bits(&parts))
    });
}
