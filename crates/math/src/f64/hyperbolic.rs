//! Hyperbolic functions of doubles and their inverses, without branches.

use super::exp::{half_exp, half_expm1};
use super::log::{ln, log1p};
use core::f64::consts::LN_2;

/// (e^x - e^-x) / 2, at most 3 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::sinh(-0.0).to_bits(), (-0.0f64).to_bits());
/// assert_eq!(gradus_math::f64::sinh(f64::INFINITY), f64::INFINITY);
/// ```
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let c = if a > 40.0 { 40.0 } else { a };
    let h = half_expm1(c);
    let near = h + h / h.mul_add(2.0, 1.0);
    let y = if a > 30.0 { half_exp(a) } else { near };
    let y = if a < 1e-9 { a } else { y };
    y.copysign(x)
}

/// (e^x + e^-x) / 2, at most 3 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::cosh(0.0), 1.0);
/// ```
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let h = half_exp(x.abs());
    h + 0.25 / h
}

/// The inverse of [`sinh`], at most 4 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::asinh(0.0), 0.0);
/// ```
#[inline(always)]
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let large = a > 1e8;
    let c = if large { 1e8 } else { a };
    let square = c * c;
    let near = c + square / (1.0 + (square + 1.0).sqrt());
    // One logarithm for both: ln(1 + (a - 1)) + ln 2 where the root is a.
    let l = if large { ln(a) + LN_2 } else { log1p(near) };
    l.copysign(x)
}

/// The inverse of [`cosh`], at most 4 ULP; NaN below 1.
///
/// ```
/// assert_eq!(gradus_math::f64::acosh(1.0), 0.0);
/// ```
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    let large = x > 1e8;
    let near = log1p(t + t.mul_add(t, 2.0 * t).sqrt());
    let y = if large { ln(x) + LN_2 } else { near };
    if x < 1.0 { f64::NAN } else { y }
}

/// The inverse of the hyperbolic tangent, at most 4 ULP: ±inf at ±1, NaN beyond.
///
/// ```
/// assert_eq!(gradus_math::f64::atanh(1.0), f64::INFINITY);
/// ```
#[inline(always)]
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    let y = 0.5 * log1p(2.0 * a / (1.0 - a));
    (if a == 1.0 { f64::INFINITY } else { y }).copysign(x)
}
