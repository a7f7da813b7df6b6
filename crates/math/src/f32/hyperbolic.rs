//! Hyperbolic functions and their inverses.

use super::kernel64::{exp_64, ln_64};
use super::parts::TANH;

/// Hyperbolic tangent, at most 1 ULP, all in `f32`.
///
/// Sixteen parts, each with a polynomial of degree 7 whose coefficients are looked up ([`TANH`]).
///
/// ```
/// assert_eq!(gradus_math::f32::tanh(20.0), 1.0);
/// ```
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    TANH.at(x)
}

/// e^|x| in `f64`, for |x| up to where `f32` results overflow.
#[inline(always)]
fn exp_abs(x: f32) -> f64 {
    let a = x.abs();
    let a = if a > 100.0 { 100.0 } else { a };
    exp_64(a as f64)
}

/// Hyperbolic sine, at most 1 ULP: (e^x - e^-x) / 2 in `f64`, a series near zero.
///
/// ```
/// assert_eq!(gradus_math::f32::sinh(-0.0).to_bits(), (-0.0f32).to_bits());
/// ```
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let e = exp_abs(x);
    let big = 0.5 * (e - 1.0 / e);
    let a = x.abs() as f64;
    let small = (a * a * a).mul_add(1.0 / 6.0, a);
    let y = if a < 0.01 { small } else { big };
    (y as f32).copysign(x)
}

/// Hyperbolic cosine, at most 1 ULP: (e^x + e^-x) / 2 in `f64`.
///
/// ```
/// assert_eq!(gradus_math::f32::cosh(0.0), 1.0);
/// ```
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    let e = exp_abs(x);
    (0.5 * (e + 1.0 / e)) as f32
}

/// Inverse hyperbolic sine, at most 1 ULP: ln(|x| + sqrt(x² + 1)) in `f64`, a series near zero.
///
/// ```
/// assert_eq!(gradus_math::f32::asinh(f32::NEG_INFINITY), f32::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn asinh(x: f32) -> f32 {
    let a = x.abs() as f64;
    let z = a * a;
    let big = ln_64(a + (z + 1.0).sqrt());
    let small = (a * z).mul_add(z.mul_add(3.0 / 40.0, -1.0 / 6.0), a);
    let y = if a < 0.01 { small } else { big };
    let y = (y as f32).copysign(x);
    if x.abs() < f32::INFINITY { y } else { x }
}

/// Inverse hyperbolic cosine, at most 1 ULP: ln(x + sqrt(x² - 1)) in `f64`; NaN below 1.
///
/// ```
/// assert_eq!(gradus_math::f32::acosh(1.0), 0.0);
/// ```
#[inline(always)]
pub fn acosh(x: f32) -> f32 {
    let a = x as f64;
    let y = ln_64(a + a.mul_add(a, -1.0).sqrt()) as f32;
    let y = if x < f32::INFINITY { y } else { x };
    if x >= 1.0 { y } else { f32::NAN }
}

/// Inverse hyperbolic tangent, at most 1 ULP: ln((1 + x) / (1 - x)) / 2 in `f64`, a series near zero.
///
/// ```
/// assert_eq!(gradus_math::f32::atanh(1.0), f32::INFINITY);
/// ```
#[inline(always)]
pub fn atanh(x: f32) -> f32 {
    let a = x.abs() as f64;
    let z = a * a;
    let big = 0.5 * ln_64((1.0 + a) / (1.0 - a));
    let small = (a * z).mul_add(z.mul_add(0.2, 1.0 / 3.0), a);
    let y = if a < 0.01 { small } else { big };
    let y = if a == 1.0 { f64::INFINITY } else { y };
    let y = if a <= 1.0 { y } else { f64::NAN };
    (y as f32).copysign(x)
}
