//! Every 4,099th `f32` through each single-precision function, against double precision.
//! Run with `--nocapture` to see the largest error of each.

use gradus_math::f32 as m;
use gradus_math::f64 as d;

const STRIDE: usize = 4099;

/// Distance between `got` and the real value `want`, in units of the last place of `want` rounded to `f32`.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if rounded.is_nan() || got.is_nan() {
        return if rounded.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded.is_infinite() || got.is_infinite() {
        // The number next to overflow may go either way; anything else may not.
        let other = if rounded.is_infinite() { got } else { rounded };
        return if got == rounded {
            0.0
        } else if other.abs() == f32::MAX && got.signum() == rounded.signum() {
            1.0
        } else {
            f64::INFINITY
        };
    }
    if want == 0.0 && (got != 0.0 || got.is_sign_negative() != want.is_sign_negative()) {
        return f64::INFINITY;
    }
    let a = rounded.abs();
    let ulp = if a == f32::MAX { a as f64 - a.next_down() as f64 } else { a.next_up() as f64 - a as f64 };
    (got as f64 - want).abs() / ulp
}

fn report(name: &str, worst: f64, at: String, bound: f64) {
    println!("{name:10} {worst:.4} ULP at {at} (stated {bound})");
    assert!(worst <= bound, "{name}: {worst} ULP at {at}, stated {bound}");
}

fn inputs() -> impl Iterator<Item = f32> {
    let special = [0u32, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
    (0..=u32::MAX).step_by(STRIDE).chain(special).chain(special.map(|b| b | 0x8000_0000)).map(f32::from_bits)
}

fn check(name: &str, f: impl Fn(f32) -> f32, g: impl Fn(f64) -> f64, bound: f64) {
    check_in(name, f, g, bound, |_| true);
}

fn check_in(name: &str, f: impl Fn(f32) -> f32, g: impl Fn(f64) -> f64, bound: f64, domain: impl Fn(f32) -> bool) {
    let (mut worst, mut at) = (0.0, 0.0);
    for x in inputs().filter(|&x| domain(x)) {
        let e = ulps(f(x), g(x as f64));
        if e > worst {
            (worst, at) = (e, x);
        }
    }
    report(name, worst, format!("{at:e}"), bound);
}

#[test]
fn exponentials() {
    check("exp", m::exp, f64::exp, 1.1);
    check("exp2", m::exp2, f64::exp2, 2.0);
    check("expm1", m::expm1, f64::exp_m1, 2.0);
    check("sigmoid", m::sigmoid, d::sigmoid, 2.5);
    check("softplus", m::softplus, d::softplus, 2.0);
}

#[test]
fn logarithms() {
    check("ln", m::ln, f64::ln, 1.0);
    check("log2", m::log2, f64::log2, 1.0);
    check("log10", m::log10, f64::log10, 1.0);
    check("log1p", m::log1p, f64::ln_1p, 1.0);
}

#[test]
fn circular() {
    check("sin", m::sin, f64::sin, 2.0);
    check("cos", m::cos, f64::cos, 2.0);
    check("tan", m::tan, f64::tan, 1.0);
    let small = |x: f32| x.abs() <= m::SMALL_ANGLE;
    check_in("sin_small", m::sin_small, f64::sin, 2.0, small);
    check_in("cos_small", m::cos_small, f64::cos, 2.0, small);
    check("asin", m::asin, f64::asin, 1.0);
    check("acos", m::acos, f64::acos, 1.0);
    check("atan", m::atan, f64::atan, 1.25);
}

#[test]
fn hyperbolic() {
    check("sinh", m::sinh, f64::sinh, 1.0);
    check("cosh", m::cosh, f64::cosh, 1.0);
    check("tanh", m::tanh, f64::tanh, 1.0);
    // asinh, acosh and atanh of the standard library cancel; libm's do not, but its acosh
    // does not refuse arguments below 1.
    check("asinh", m::asinh, libm::asinh, 1.0);
    check("acosh", m::acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 1.0);
    check("atanh", m::atanh, libm::atanh, 1.0);
}

#[test]
fn roots() {
    check("sqrt", m::sqrt, f64::sqrt, 0.5);
    check("rsqrt", m::rsqrt, |x| 1.0 / x.sqrt(), 2.0);
    check("recip", m::recip, |x| 1.0 / x, 0.5);
    check("cbrt", m::cbrt, f64::cbrt, 1.0);
}

#[test]
fn error_functions() {
    check("erf", m::erf, d::erf, 2.0);
    check("erfc", m::erfc, d::erfc, 1.0);
    check("erfinv", m::erfinv, d::erfinv, 1.0);
}

fn check2(name: &str, f: impl Fn(f32, f32) -> f32, g: impl Fn(f64, f64) -> f64, bound: f64) {
    // All pairs of a coarse sweep, and of numbers near one.
    let coarse = (0..=u32::MAX).step_by(4_100_001).map(f32::from_bits);
    let near = (-300..=300).map(|i| i as f32 / 16.0);
    let edge = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, f32::MAX, 1e-45, 16_777_216.0, 16_777_215.0];
    let v: Vec<f32> = coarse.chain(near).chain(edge).collect();
    let (mut worst, mut at) = (0.0, (0.0, 0.0));
    for &x in &v {
        for &y in &v {
            let e = ulps(f(x, y), g(x as f64, y as f64));
            if e > worst {
                (worst, at) = (e, (x, y));
            }
        }
    }
    report(name, worst, format!("{:e}, {:e}", at.0, at.1), bound);
}

#[test]
fn of_two_arguments() {
    check2("pow", m::pow, f64::powf, 1.0);
    check2("atan2", m::atan2, f64::atan2, 1.0);
    check2("hypot", m::hypot, f64::hypot, 1.0);
}

#[test]
fn blocks_agree_with_scalars() {
    let x: Vec<f32> = (0..1000).map(|i| if i % 130 == 7 { 1e30 } else { i as f32 * 0.37 - 200.0 }).collect();
    let mut y = vec![0.0; x.len()];
    m::sin_block(&x, &mut y);
    assert!(x.iter().zip(&y).all(|(&x, &y)| m::sin(x).to_bits() == y.to_bits()));
    m::cos_block(&x, &mut y);
    assert!(x.iter().zip(&y).all(|(&x, &y)| m::cos(x).to_bits() == y.to_bits()));
}

/// The double exponential against the system's, which is right to within half a unit and a little.
#[test]
fn exp_of_doubles() {
    let mut worst = (0u64, 0.0);
    let mut look = |x: f64| {
        let (got, want) = (gradus_math::f64::exp(x), x.exp());
        let apart = got.to_bits().abs_diff(want.to_bits());
        if apart > worst.0 {
            worst = (apart, x);
        }
    };
    for i in 0..2_000_000 {
        look(-746.0 + i as f64 * (1456.0 / 2_000_000.0) + (i as f64 * 0.618).fract() * 1e-4);
    }
    for e in -1070..10 {
        let x = 2f64.powi(e);
        [x, -x, 1.37 * x, -1.37 * x].into_iter().for_each(&mut look);
    }
    [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 709.782712893384, 709.7827128933841, -745.1332191019412, -745.2]
        .into_iter()
        .for_each(&mut look);
    assert!(worst.0 <= 1, "{} units apart at {}", worst.0, worst.1);
}

#[test]
fn bessel() {
    check("i0", m::i0, d::i0, 1.0);
    check("i0e", m::i0e, d::i0e, 1.0);
    check("i1", m::i1, d::i1, 1.0);
    check("i1e", m::i1e, d::i1e, 1.0);
}

#[test]
fn logarithms_of_sums_and_products() {
    check("entr", m::entr, d::entr, 2.0);
    for y in [0.0f32, 1.0, -2.5, 88.0, -1e30, f32::INFINITY, f32::NEG_INFINITY] {
        check("xlogy", |x| m::xlogy(y, x), |x| d::xlogy(y as f64, x), 2.0);
        check("xlog1py", |x| m::xlog1py(y, x), |x| d::xlog1py(y as f64, x), 2.0);
    }
    for y in [0.0f32, 1.0, 88.0, f32::INFINITY, f32::NEG_INFINITY] {
        check("logaddexp", |x| m::logaddexp(y, x), |x| d::logaddexp(y as f64, x), 1.0);
        check("logaddexp2", |x| m::logaddexp2(y, x), |x| d::logaddexp2(y as f64, x), 1.0);
    }
}
