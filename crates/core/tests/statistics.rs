//! Means, deviations, norms, sums that must not overflow, differences, and elementwise compositions at their edges.

use gradus_core::{Closeness, Covariance, DType, NanToNum, Rounding, Spacing, Tensor, grad::grad};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn f64s(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

fn gradient(f: impl Fn(&Tensor) -> Tensor, at: &[f64]) -> Vec<f64> {
    let x = Tensor::from(at).requires_grad_();
    f64s(&grad(&f(&x), &[&x]).unwrap()[0])
}

/// Second derivatives against differences of first ones, along one direction.
fn check_second(name: &str, f: impl Fn(&Tensor) -> Tensor, at: &[f64]) {
    let along: Vec<f64> = (0..at.len()).map(|i| 1.0 + 0.3 * i as f64).collect();
    let x = Tensor::from(at).requires_grad_();
    let g = grad(&f(&x), &[&x]).unwrap().remove(0);
    let exact = f64s(&grad(&(g * Tensor::from(&along)).sum(), &[&x]).unwrap()[0]);
    let h = 1e-5;
    let shifted = |s: f64| -> Vec<f64> { at.iter().zip(&along).map(|(x, d)| x + s * h * d).collect() };
    let (up, down) = (gradient(&f, &shifted(1.0)), gradient(&f, &shifted(-1.0)));
    for i in 0..at.len() {
        let want = (up[i] - down[i]) / (2.0 * h);
        assert!((exact[i] - want).abs() <= 1e-6 * (1.0 + want.abs()), "{name}: {} instead of {want}", exact[i]);
    }
}

#[test]
fn second_derivatives() {
    let at = [0.7, -1.3, 2.1, 0.4];
    for p in [0.5, 1.5, 2.0, 3.0, -1.0] {
        check_second("norm", |x| x.norm(p).unwrap(), &at);
    }
    check_second("norm with a zero", |x| x.norm(2.0).unwrap(), &[0.0, 1.0, 2.0]);
    check_second("std", |x| x.std(1), &at);
    check_second("var", |x| x.var_dim(.., 0, false).unwrap().square(), &at);
    check_second("logsumexp", |x| x.logsumexp(0, false).unwrap(), &at);
    check_second("cov", |x| x.reshape([2, 2]).unwrap().cov(Covariance::default()).unwrap().square().sum(), &at);
    check_second("sort", |x| (x.sort(0, false).unwrap().0.exp() * Tensor::from([1.0, 2.0, 3.0, 4.0])).sum(), &at);
    check_second("lerp", |x| x.lerp(&x.exp(), x).unwrap().sum(), &at);
    check_second("logit", |x| x.logit(None).sum(), &[0.2, 0.7]);
    check_second("clamp", |x| x.clamp(-1.0, 1.0).unwrap().exp().sum(), &at);
    check_second("ldexp", |x| x.ldexp(x).unwrap().sum(), &at);
    check_second("mvlgamma", |x| x.mvlgamma(3).unwrap().sum(), &[2.2, 3.1]);
    check_second("renorm", |x| x.reshape([2, 2]).unwrap().renorm(2.0, 0, 0.5).unwrap().exp().sum(), &at);
}

#[test]
fn norms_at_zero_and_of_any_order() {
    for p in [-3.5, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0] {
        let norm = |x: &Tensor| x.norm(p).unwrap();
        assert_eq!(f64s(&norm(&Tensor::from([0.0, 0.0]))), [0.0], "{p}");
        assert_eq!(gradient(norm, &[0.0, 0.0]), [0.0, 0.0], "{p}");
    }
    assert_eq!(f64s(&Tensor::from([0.0, 3.0, NAN]).norm(0.0).unwrap()), [2.0]);
    assert_eq!(gradient(|x| x.norm(INF).unwrap(), &[-3.0, 3.0, 1.0]), [-0.5, 0.5, 0.0]);
    assert_eq!(gradient(|x| x.norm(-1.0).unwrap(), &[0.0, 2.0]), [0.0, 0.0]);
    assert!(Tensor::zeros([0], DType::F64).norm(INF).is_err());
    assert_eq!(f64s(&Tensor::zeros([0], DType::F64).norm(2.0).unwrap()), [0.0]);
    assert_eq!(Tensor::from([3i64, 4]).norm(2.0).unwrap().dtype(), DType::F32);
}

#[test]
fn deviations() {
    assert_eq!(gradient(|x| x.std(0), &[2.0, 2.0]), [0.0, 0.0]);
    assert!(f64s(&Tensor::from([1.0]).variance(1))[0].is_nan());
    assert_eq!(f64s(&Tensor::from([1.0, 3.0]).variance(2)), [INF]);
    let (s, m) = Tensor::from([[1i64, 3], [2, 2]]).std_mean_dim(-1, 0, true).unwrap();
    assert_eq!((s.dims(), f64s(&s), f64s(&m)), (&[2, 1][..], vec![1.0, 0.0], vec![2.0, 2.0]));
    let c = Tensor::from([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]).corrcoef().unwrap();
    assert!(f64s(&c).iter().zip([1.0, -1.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12));
    let e = Tensor::zeros([2, 3], DType::F64)
        .cov(Covariance { fweights: Some(Tensor::from([1i64, 2])), ..Default::default() })
        .unwrap_err();
    assert!(e.to_string().contains("3 observations"), "{e}");
}

#[test]
fn sums_of_exponentials_and_without_nan() {
    assert_eq!(f64s(&Tensor::from([-INF, -INF]).logsumexp(0, false).unwrap()), [-INF]);
    assert_eq!(f64s(&Tensor::from([INF, 1.0]).logsumexp(0, false).unwrap()), [INF]);
    assert_eq!(f64s(&Tensor::zeros([2, 0], DType::F64).logsumexp(1, false).unwrap()), [-INF; 2]);
    assert_eq!(f64s(&Tensor::from([NAN, 2.0, 4.0]).nanmean()), [3.0]);
    assert_eq!(gradient(|x| x.nansum(), &[NAN, 2.0]), [0.0, 1.0]);
}

#[test]
fn truth_over_nothing_and_counts() {
    let none = Tensor::zeros([2, 0], DType::F32);
    assert_eq!(none.any_dim(1, false).unwrap().to_vec::<bool>().unwrap(), [false; 2]);
    assert_eq!(none.all_dim(1, false).unwrap().to_vec::<bool>().unwrap(), [true; 2]);
    assert!(none.all().item::<bool>().unwrap());
    let x = Tensor::from([[0.0, NAN], [1.0, 0.0]]);
    assert!(x.any().item::<bool>().unwrap() && !x.all().item::<bool>().unwrap());
    assert_eq!(x.count_nonzero_dim(0).unwrap().to_vec::<i64>().unwrap(), [1, 1]);
    assert_eq!(x.any_dim([] as [i64; 0], false).unwrap().dims(), [2, 2]);
}

#[test]
fn differences_and_integrals() {
    let x = Tensor::from([1i64, 4, 9, 16]);
    assert_eq!(x.diff(2, 0, None, None).unwrap().to_vec::<i64>().unwrap(), [2, 2]);
    assert_eq!(x.diff(9, 0, None, None).unwrap().dims(), [0]);
    assert_eq!(x.diff(1, 0, Some(&Tensor::from([0i64])), None).unwrap().to_vec::<i64>().unwrap(), [1, 3, 5, 7]);
    assert!(Tensor::from(1.0).diff(1, 0, None, None).is_err());
    let y = Tensor::from([[1.0, 2.0], [3.0, 6.0]]);
    let at = Tensor::from([0.0, 2.0]);
    assert_eq!(f64s(&y.trapezoid(&at, 0).unwrap()), [4.0, 8.0]);
    assert_eq!(f64s(&y.cumulative_trapezoid(0.5, 1).unwrap()), [0.75, 2.25]);
    let e = y.trapezoid(&Tensor::from([1.0, 2.0, 3.0]), 0).unwrap_err();
    assert!(e.to_string().contains("[3]") && e.to_string().contains("[2, 2]"), "{e}");
    // A parabola's slope is exact with parabolas, on an uneven grid and at its ends.
    let at = [0.0, 1.0, 3.0, 4.0];
    let y = Tensor::from(at.map(|x| x * x));
    let g = y.gradient(&[Spacing::Points(Tensor::from(at))], &[0], 2).unwrap();
    assert!(f64s(&g[0]).iter().zip(at).all(|(g, x)| (g - 2.0 * x).abs() < 1e-12), "{:?}", f64s(&g[0]));
    assert!(y.gradient(&[Spacing::Step(1.0)], &[0], 3).is_err());
    assert!(Tensor::from([1.0, 2.0]).gradient(&[Spacing::Step(1.0)], &[0], 2).is_err());
}

#[test]
fn elementwise_at_the_edges() {
    let x = Tensor::from([-0.0, 0.0, -2.5, NAN]);
    assert_eq!(x.signbit().to_vec::<bool>().unwrap()[..3], [true, false, true]);
    assert_eq!(f64s(&Tensor::from([2.5, -2.5]).frac()), [0.5, -0.5]);
    let y = Tensor::from([INF, -INF, NAN]).to_dtype(DType::F32).nan_to_num(NanToNum { nan: 7.0, ..Default::default() });
    assert_eq!(y.to_vec::<f32>().unwrap(), [f32::MAX, f32::MIN, 7.0]);
    assert_eq!(gradient(|x| x.nan_to_num(NanToNum::default()).sum(), &[NAN, INF, 1.0]), [0.0, 0.0, 1.0]);
    assert_eq!(gradient(|x| x.clamp(0.0, 1.0).unwrap().sum(), &[-1.0, 0.0, 1.0, 2.0]), [0.0, 1.0, 1.0, 0.0]);
    assert!(f64s(&Tensor::from([NAN]).clamp(0.0, 1.0).unwrap())[0].is_nan());
    assert!(
        f64s(&Tensor::from([-0.5]).logit(None))[0].is_nan() && gradient(|x| x.logit(None).sum(), &[1.5])[0].is_nan()
    );
    assert_eq!(f64s(&Tensor::from([1234.5678]).round_decimals(2)), [1234.57]);
    assert_eq!(f64s(&Tensor::from([1250.0]).round_decimals(-2)), [1200.0]);
    let q = Tensor::from([-7i64, 7]).div_rounding(2, Rounding::Trunc).unwrap();
    assert_eq!((q.dtype(), q.to_vec::<i64>().unwrap()), (DType::I64, vec![-3, 3]));
    let close = Tensor::from([INF, NAN, 1.0]).isclose(&Tensor::from([INF, NAN, 1.0 + 1e-9]), Closeness::default());
    assert_eq!(close.unwrap().to_vec::<bool>().unwrap(), [true, false, true]);
    assert!(Tensor::from([1.0]).isclose(&Tensor::from([1.0]), Closeness { rtol: -1.0, ..Default::default() }).is_err());
    assert!(Tensor::from([1i64, 2]).equal(&Tensor::from([1i64, 2])).unwrap());
    assert!(Tensor::from([1.0, 2.0]).fill(Tensor::from([1.0])).is_err());
    assert_eq!(f64s(&Tensor::from([1.0, 2.0]).fill(3).unwrap()), [3.0, 3.0]);
    let e = Tensor::from([1.0, 2.0]).lerp(&Tensor::from([1.0, 2.0, 3.0]), 0.5).unwrap_err();
    assert!(e.to_string().contains("2 vs 3"), "{e}");
    assert_eq!(Tensor::from([2i64, 3]).rpow(2).unwrap().to_vec::<i64>().unwrap(), [4, 8]);
    assert_eq!(Tensor::from([1i64]).ldexp(3).unwrap().dtype(), DType::F32);
}
