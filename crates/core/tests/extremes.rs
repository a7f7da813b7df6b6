//! Largest, smallest, medians and quantiles, and where they are.

use gradus_core::{DType, ErrorKind, Interpolation, Tensor};

const NAN: f64 = f64::NAN;

fn f64s(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

fn i64s(t: &Tensor) -> Vec<i64> {
    t.to_vec::<i64>().unwrap()
}

#[test]
fn gradient_goes_to_the_position_of_an_inner_axis() {
    let x = Tensor::var("x", Tensor::arange(0.0, 12.0, 1.0, DType::F64).unwrap().reshape([2, 3, 2]).unwrap());
    let (v, i) = x.max_dim(1, false).unwrap();
    assert_eq!(f64s(&v), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!(i64s(&i), [2; 4]);
    let g = v.square().sum().backward().unwrap().wrt(&x).unwrap();
    assert_eq!(f64s(&g), [0.0, 0.0, 0.0, 0.0, 8.0, 10.0, 0.0, 0.0, 0.0, 0.0, 20.0, 22.0]);
}

#[test]
fn the_first_of_equals_wins_and_nan_beats_all() {
    let x = Tensor::from([[2.0, 7.0, 7.0], [1.0, NAN, NAN]]);
    assert_eq!(i64s(&x.argmax_dim(-1, false).unwrap()), [1, 1]);
    assert_eq!(i64s(&x.argmin_dim(1, true).unwrap()), [0, 1]);
    assert_eq!(x.argmin_dim(1, true).unwrap().dims(), [2, 1]);
    assert_eq!(i64s(&x.argmax().unwrap()), [4]);
    assert!(f64s(&x.max().unwrap())[0].is_nan());
    assert_eq!(i64s(&Tensor::from(5.0).argmax().unwrap()), [0]);
    assert_eq!(i64s(&Tensor::from([true, false, true]).argmin().unwrap()), [1]);
}

#[test]
fn max_of_all_shares_the_gradient_and_max_along_an_axis_does_not() {
    let x = Tensor::var("x", Tensor::from([3.0, 1.0, 3.0]));
    assert_eq!(f64s(&x.max().unwrap().backward().unwrap().wrt(&x).unwrap()), [0.5, 0.0, 0.5]);
    let (v, _) = x.max_dim(0, false).unwrap();
    assert_eq!(f64s(&v.backward().unwrap().wrt(&x).unwrap()), [1.0, 0.0, 0.0]);
}

#[test]
fn nothing_to_choose_from() {
    let x = Tensor::zeros([2, 0], DType::F32);
    for e in [x.max().err(), x.argmax().err(), x.min_dim(1, false).err(), x.median_dim(1, false).err()] {
        let e = e.expect("an error");
        assert!(matches!(e.kind(), ErrorKind::Empty(_)), "{e}");
        assert!(e.to_string().contains("0]"), "{e}");
    }
    assert_eq!(x.argmax_dim(0, false).unwrap().dims(), [0]);
    let e = x.max_dim(2, false).expect_err("an error");
    assert!(matches!(e.kind(), ErrorKind::Axis { axis: 2, rank: 2, .. }), "{e}");
}

#[test]
fn medians() {
    let x = Tensor::from([[4.0, 1.0, 3.0, 2.0], [NAN, 5.0, NAN, 6.0]]);
    let (v, i) = x.median_dim(1, false).unwrap();
    assert_eq!((f64s(&v)[0], i64s(&i)), (2.0, vec![3, 0]));
    assert!(f64s(&v)[1].is_nan());
    let (v, i) = x.nanmedian_dim(-1, true).unwrap();
    assert_eq!((f64s(&v), i64s(&i), v.dims()), (vec![2.0, 5.0], vec![3, 1], &[2, 1][..]));
    assert!(f64s(&x.median().unwrap())[0].is_nan());
    assert_eq!(f64s(&x.nanmedian().unwrap()), [3.0]);
    let all_nan = Tensor::from([NAN, NAN]);
    assert!(f64s(&all_nan.nanmedian().unwrap())[0].is_nan());
    assert_eq!(i64s(&Tensor::from([5i64, 1, 9]).median().unwrap()), [5]);
    assert!(f64s(&Tensor::zeros([0], DType::F64).median().unwrap())[0].is_nan());
    let x = Tensor::var("x", Tensor::from([1.0, 2.0, 2.0, 9.0]));
    assert_eq!(f64s(&x.median().unwrap().backward().unwrap().wrt(&x).unwrap()), [0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn quantiles_of_several_ranks_come_first() {
    let x = Tensor::from([[0.0, 10.0, 20.0], [3.0, NAN, 5.0]]);
    let q = Tensor::from([0.25, 1.0]);
    let y = x.quantile_dim(&q, 1, true, Interpolation::Linear).unwrap();
    assert_eq!(y.dims(), [2, 2, 1]);
    let y = f64s(&y);
    assert_eq!((y[0], y[2]), (5.0, 20.0));
    assert!(y[1].is_nan() && y[3].is_nan());
    assert_eq!(f64s(&x.nanquantile_dim(&q, 1, false, Interpolation::Lower).unwrap()), [0.0, 3.0, 20.0, 5.0]);
    for (how, want) in [
        (Interpolation::Linear, 3.0),
        (Interpolation::Lower, 0.0),
        (Interpolation::Higher, 10.0),
        (Interpolation::Midpoint, 5.0),
        (Interpolation::Nearest, 0.0),
    ] {
        let y = x.select(0, 0).unwrap().quantile(0.15, how).unwrap();
        assert!((f64s(&y)[0] - want).abs() < 1e-12, "{how:?}: {y:?}", y = f64s(&y));
    }
    let e = x.quantile(1.5, Interpolation::Linear).expect_err("an error");
    assert!(e.to_string().contains("between 0 and 1, not 1.5"), "{e}");
}

#[test]
fn mode_is_the_smallest_of_the_most_frequent() {
    let x = Tensor::from([[2.0, 1.0, 2.0, 1.0, 3.0]]).transpose(0, 1).unwrap();
    let (v, i) = x.mode(0, false).unwrap();
    assert_eq!((f64s(&v), i64s(&i)), (vec![1.0], vec![3]));
}

#[test]
fn no_elements_in_a_shape_beyond_all_bounds() {
    let t = Tensor::from_slice::<f32>(&[], [0, 1 << 40, 1 << 40]).unwrap();
    assert!(t.to_vec::<f32>().unwrap().is_empty());
    let t = Tensor::from_slice::<f32>(&[], [1 << 40, 1 << 40, 0]).unwrap();
    assert!(t.to_bytes().unwrap().is_empty());
}
