use super::*;
use crate::testing::{Random, bits, close, same_on_any_threads, wide};

fn random(r: &mut Random, n: usize, out: usize, most: usize, far: bool) -> Taps {
    let taps: Vec<Vec<(usize, f32)>> = (0..out)
        .map(|o| {
            let near = |r: &mut Random| (o * n / out + r.below(3)).min(n - 1);
            (0..r.below(most + 1)).map(|_| (if far { r.below(n) } else { near(r) }, r.unit() as f32)).collect()
        })
        .collect();
    Taps::new(n, &taps).unwrap()
}

fn expected([h, w]: [&Taps; 2], x: &[f32]) -> Vec<f64> {
    let (inputs, outputs) = (h.n * w.n, h.out * w.out);
    let mut y = vec![0.0; x.len() / inputs * outputs];
    for (at, y) in y.iter_mut().enumerate() {
        let (plane, o) = (at / outputs, at % outputs);
        for (i, a) in h.get(o / w.out) {
            for (j, b) in w.get(o % w.out) {
                *y += f64::from(a) * f64::from(b) * f64::from(x[plane * inputs + i * w.n + j]);
            }
        }
    }
    y
}

#[test]
fn all_sizes_match_the_definition_and_their_transposes() {
    let mut r = Random(1);
    for case in 0..200 {
        let far = case % 3 == 0;
        let sizes = [0; 4].map(|_| 1 + r.below(60));
        let (h, w) = (random(&mut r, sizes[0], sizes[1], 4, far), random(&mut r, sizes[2], sizes[3], 4, far));
        let planes = 1 + r.below(3);
        let both = Resample { axes: [h, w] };
        let x = r.f32s(planes * sizes[0] * sizes[2]);
        let g = r.f32s(planes * sizes[1] * sizes[3]);
        let turned = both.transposed();
        assert_eq!((turned.axes[0].n(), turned.axes[0].out()), (sizes[1], sizes[0]));
        for isa in Isa::every() {
            let (mut y, mut dx) = (vec![f32::NAN; g.len()], vec![f32::NAN; x.len()]);
            resample_with(isa, &both, &x, &mut y);
            close(&wide(&y), &expected([&both.axes[0], &both.axes[1]], &x), 1e-4);
            resample_with(isa, &turned, &g, &mut dx);
            close(&wide(&dx), &expected([&turned.axes[0], &turned.axes[1]], &g), 1e-4);
            // <g, A x> = <A' g, x>
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let (a, b) = (dot(&g, &y), dot(&dx, &x));
            assert!((a - b).abs() < 1e-2, "{a} {b}");
        }
    }
}

#[test]
fn elements_outside_the_axis_are_refused() {
    assert!(Taps::new(2, &[vec![(2, 1.0)]]).is_none());
}

#[test]
fn what_is_not_looked_at_may_be_nan() {
    let first = Taps::new(20, &[vec![(0, 1.0)], vec![(0, 0.5), (1, 0.5)]]).unwrap();
    let mut x = vec![f32::NAN; 20];
    x[..2].fill(3.0);
    let mut y = [0.0; 2];
    resample(&Resample { axes: [Taps::identity(1), first] }, &x, &mut y);
    assert_eq!(y, [3.0, 3.0]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut r = Random(2);
    let both = Resample { axes: [random(&mut r, 30, 61, 3, false), random(&mut r, 40, 55, 3, false)] };
    let x = r.f32s(50 * 30 * 40);
    same_on_any_threads(|| {
        let mut y = vec![0.0; 50 * 61 * 55];
        resample(&both, &x, &mut y);
        bits(&y)
    });
}

#[test]
fn an_axis_is_what_its_rule_says() {
    let linear = Axis::new(5, 9, Rule::Linear, 0.5, true);
    let mut y = [0.0; 9];
    Resize::new([Axis::same(1), linear]).run(&[0.0, 1.0, 2.0, 3.0, 4.0], &mut y);
    assert_eq!(y, std::array::from_fn(|i| i as f32 / 2.0));
    // The gradient of a sum: each element counts as often as it was looked at.
    let mut dx = [0.0; 5];
    Resize::new([Axis::same(1), linear]).transposed().run(&[1.0; 9], &mut dx);
    assert_eq!(dx, [1.5, 2.0, 2.0, 2.0, 1.5]);
    let exact = Axis::new(3, 5, Rule::NearestExact, 0.6, false);
    let mut y = [0.0; 5];
    Resize::new([Axis::same(1), exact]).run(&[1.0, 2.0, 3.0], &mut y);
    assert_eq!(y, [1.0, 1.0, 2.0, 3.0, 3.0]);
    let mut y = [0.0; 4];
    Resize::new([Axis::same(1), Axis::new(2, 4, Rule::Cubic, 0.5, false)]).run(&[5.0, 5.0], &mut y);
    assert_eq!(y, [5.0; 4]);
}

#[test]
fn columns_that_stay_and_rows_of_large_planes_are_the_same_sums() {
    let mut r = Random(3);
    for (rows, out, columns) in [(3, 7, 900), (40, 90, 700), (7, 2, 33)] {
        let h = random(&mut r, rows, out, 3, false);
        let both = Resample { axes: [h, Taps::identity(columns)] };
        let x = r.f32s(2 * rows * columns);
        let mut y = vec![f32::NAN; 2 * out * columns];
        resample(&both, &x, &mut y);
        close(&wide(&y), &expected([&both.axes[0], &both.axes[1]], &x), 1e-4);
    }
}
