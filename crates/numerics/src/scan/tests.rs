use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};
use proptest::prelude::*;

/// The elements of every lane, in order.
fn lanes<T: Copy>(l: Lanes, x: &[T]) -> Vec<Vec<T>> {
    let lane = |o: usize, j: usize| (0..l.n).map(|i| x[(o * l.n + i) * l.inner + j]).collect();
    (0..l.outer).flat_map(|o| (0..l.inner).map(move |j| (o, j))).map(|(o, j)| lane(o, j)).collect()
}

prop_compose! {
    fn shape()(outer in 0usize..10, n in 0usize..12, inner in prop_oneof![0usize..7, 7usize..40]) -> Lanes {
        Lanes { outer, n, inner }
    }
}

proptest! {
    #[test]
    fn sums_and_products_match(seed: u64, l in shape()) {
        let x = Random(seed).f32s(l.len());
        let (mut sum, mut product) = (vec![0.0; l.len()], vec![0.0; l.len()]);
        cumsum(l, &x, &mut sum);
        cumprod(l, &x, &mut product);
        for ((x, sum), product) in lanes(l, &x).iter().zip(lanes(l, &sum)).zip(lanes(l, &product)) {
            let (x, sum, product) = (wide(x), wide(&sum), wide(&product));
            let by = |f: fn(&[f64]) -> f64| -> Vec<f64> { (0..x.len()).map(|i| f(&x[..=i])).collect() };
            close(&sum, &by(|x| x.iter().sum()), 1e-6);
            close(&product, &by(|x| x.iter().product()), 1e-6);
        }
    }

    #[test]
    fn extrema_match(seed: u64, l in shape()) {
        let x = Random(seed).ties(l.len());
        for largest in [true, false] {
            let mut indices = vec![0; l.len()];
            (if largest { cummax } else { cummin })(l, &x, &mut indices);
            for (x, indices) in lanes(l, &x).iter().zip(lanes(l, &indices)) {
                for i in 0..l.n {
                    let seen = &x[..=i];
                    // By definition: the last NaN, else the last of the extreme elements.
                    let expected = seen.iter().rposition(|x| x.is_nan()).unwrap_or_else(|| {
                        let best = seen.iter().copied().reduce(|a, b| if largest { a.max(b) } else { a.min(b) });
                        seen.iter().rposition(|x| Some(*x) == best).unwrap()
                    });
                    prop_assert_eq!(indices[i] as usize, expected);
                }
            }
        }
    }

    #[test]
    fn log_sums_match(seed: u64, l in shape()) {
        let x = Random(seed).f64s(l.len());
        let mut out = vec![0.0; l.len()];
        logcumsumexp(l, &x, &mut out);
        for (x, out) in lanes(l, &x).iter().zip(lanes(l, &out)) {
            let expected: Vec<_> = (0..l.n).map(|i| x[..=i].iter().map(|x| x.exp()).sum::<f64>().ln()).collect();
            close(&out, &expected, 1e-13);
        }
    }
}

#[test]
fn log_sums_of_extremes() {
    let inf = f64::INFINITY;
    let mut out = [0.0; 5];
    logcumsumexp(Lanes::rows(1, 5), &[-inf, -inf, 1e300, inf, inf], &mut out);
    assert_eq!(out, [-inf, -inf, 1e300, inf, inf]);
    logcumsumexp(Lanes::rows(1, 5), &[0.0, f64::NAN, inf, -inf, 1.0], &mut out);
    assert!(out[0] == 0.0 && out[1..].iter().all(|x| x.is_nan()));
}

#[test]
fn integers_wrap_and_half_precision_is_carried_wider() {
    let mut out = [0i64; 2];
    cumsum(Lanes::rows(1, 2), &[i64::MAX, 1], &mut out);
    assert_eq!(out, [i64::MAX, i64::MIN]);
    // 2049 has no f16, but the sum must not be stuck at 2048.
    let x = vec![f16::ONE; 4096];
    let mut out = vec![f16::ZERO; 4096];
    cumsum(Lanes::rows(1, 4096), &x, &mut out);
    assert_eq!(out[4095].to_f32(), 4096.0);
}

#[test]
fn threads_do_not_change_a_bit() {
    let l = Lanes { outer: 300, n: 50, inner: 7 };
    let x = Random(5).f32s(l.len());
    same_on_any_threads(|| {
        let (mut out, mut indices) = (x.clone(), vec![0; x.len()]);
        cumsum(l, &x, &mut out);
        cummax(l, &x, &mut indices);
        (bits(&out), indices)
    });
}

/// One element after the other, with the same rounding.
fn plainly<T: Num>(l: Lanes, x: &[T], start: T::Acc, step: fn(T::Acc, T::Acc) -> T::Acc) -> Vec<T> {
    let mut out = vec![T::ZERO; x.len()];
    for (o, j) in (0..l.outer).flat_map(|o| (0..l.inner).map(move |j| (o, j))) {
        let mut acc = start;
        for at in (0..l.n).map(|i| (o * l.n + i) * l.inner + j) {
            acc = step(acc, x[at].widen());
            out[at] = T::narrow(acc);
        }
    }
    out
}

fn every_way<T: Num>(l: Lanes, x: &[T]) {
    let same = |got: &[T], want: &[T], what: &str| {
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!(g == w || g.is_nan() && w.is_nan(), "{what} of {l:?} at {i}: {g:?} against {w:?}");
        }
    };
    let (mut out, mut indices) = (vec![T::ZERO; x.len()], vec![-1; x.len()]);
    cumsum(l, x, &mut out);
    same(&out, &plainly(l, x, T::Acc::ZERO, T::Acc::add), "sum");
    cumprod(l, x, &mut out);
    same(&out, &plainly(l, x, T::Acc::ONE, T::Acc::mul), "product");
    for largest in [true, false] {
        (if largest { cummax } else { cummin })(l, x, &mut indices);
        (if largest { running_max } else { running_min })(l, x, &mut out);
        for ((x, indices), out) in lanes(l, x).iter().zip(lanes(l, &indices)).zip(lanes(l, &out)) {
            let mut best = 0;
            for i in 0..l.n {
                let better = if largest { x[i] >= x[best] } else { x[i] <= x[best] };
                best = if x[i].is_nan() || better { i } else { best };
                assert_eq!(indices[i] as usize, best, "{l:?} at {i}");
                assert!(out[i] == x[best] || out[i].is_nan() && x[best].is_nan(), "{l:?} at {i}: {:?}", out[i]);
            }
        }
    }
}

/// Rows that go turned, abreast, unrolled and in segments; columns by blocks and by parts.
#[test]
fn every_shape_and_type_goes_its_way() {
    let rows =
        [(70, 3), (150, 7), (130, 10), (133, 31), (131, 65), (129, 100), (3, 3000), (7, 1500), (20, 1100), (1, 5)];
    let columns =
        [(1, 5, 700), (2, 40, 1000), (1, 300, 10), (3, 50, 33), (40, 6, 2), (1, 900, 3), (1, 2, 70_000), (1, 9, 9001)];
    let rows = rows.map(|(outer, n)| Lanes { outer, n, inner: 1 });
    for l in rows.into_iter().chain(columns.map(|(outer, n, inner)| Lanes { outer, n, inner })) {
        let mut x = Random(l.len() as u64).f32s(l.len());
        x.iter_mut().skip(777).step_by(1000).for_each(|x| *x = f32::NAN);
        every_way(l, &x);
        every_way(l, &x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        every_way(l, &x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>());
        every_way(l, &x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>());
        every_way(l, &x.iter().map(|&x| (x * 9.0) as i64).collect::<Vec<_>>());
        every_way(l, &x.iter().map(|&x| (x * 9.0) as i32).collect::<Vec<_>>());
        every_way(l, &x.iter().map(|&x| (x * 99.0) as u8).collect::<Vec<_>>());
    }
}

#[test]
fn parts_of_rows_that_go_side_by_side() {
    let sums = |l: Lanes, seed: u64| {
        let x = Random(seed).f64s(l.len());
        let small: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let halves: Vec<bf16> = small.iter().map(|&x| bf16::from_f32(x.abs())).collect();
        let whole: Vec<i64> = x.iter().map(|&x| (x * 1e18) as i64).collect();
        let (mut a, mut b, mut c) = (vec![0.0; l.len()], vec![0.0; l.len()], vec![bf16::ZERO; l.len()]);
        let mut d = vec![0; l.len()];
        cumsum(l, &x, &mut a);
        cumsum(l, &small, &mut b);
        cumsum(l, &halves, &mut c);
        cumsum(l, &whole, &mut d);
        for row in 0..l.outer {
            let (mut exact, mut halved, mut wrapped) = (0.0, 0.0, 0i64);
            for i in row * l.n..(row + 1) * l.n {
                (exact, halved) = (exact + x[i], halved + f64::from(halves[i].to_f32()));
                wrapped = wrapped.wrapping_add(whole[i]);
                assert_eq!(d[i], wrapped, "{l:?} {i}");
                assert!((a[i] - exact).abs() < 1e-9, "{l:?} {i}: {} for {exact}", a[i]);
                assert!((f64::from(b[i]) - exact).abs() < 2e-2, "{l:?} {i}: {} for {exact}", b[i]);
                assert!((f64::from(c[i].to_f32()) / halved - 1.0).abs() < 1e-2, "{l:?} {i}: {} for {halved}", c[i]);
            }
        }
        (bits(&b), a.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    for (rows, n) in [(1, 1), (1, 7), (1, 256), (1, 1023), (1, 1024), (2, 1025), (5, 5000), (1, 65_535)] {
        sums(Lanes::rows(rows, n), 3);
    }
    // Lanes across and along an axis of one element.
    sums(Lanes { outer: 3000, n: 1, inner: 8 }, 4);
    for (rows, n) in [(1, 64 * 16_384 + 77), (3, 65_536), (4, 70_000)] {
        same_on_any_threads(|| sums(Lanes::rows(rows, n), 5));
    }
}
