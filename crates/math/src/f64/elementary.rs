//! Small compositions of elementary functions, stable at their edges.

use core::f64::consts::{LOG2_E, PI};

/// sin(πx) / (πx), 1 at zero.
///
/// ```
/// assert_eq!(gradus_math::f64::sinc(0.0), 1.0);
/// assert_eq!(gradus_math::f64::sinc(2.0), 0.0);
/// ```
#[inline(always)]
pub fn sinc(x: f64) -> f64 {
    let y = super::gamma::sin_pi(x) / (PI * x);
    let y = if x == 0.0 { 1.0 } else { y };
    if x.abs() == f64::INFINITY { 0.0 } else { y }
}

/// -x ln x: 0 at zero, -inf below.
///
/// ```
/// assert_eq!(gradus_math::f64::entr(0.0), 0.0);
/// ```
#[inline(always)]
pub fn entr(x: f64) -> f64 {
    let y = -x * super::ln(x);
    let y = if x == 0.0 { 0.0 } else { y };
    if x < 0.0 { f64::NEG_INFINITY } else { y }
}

/// x ln y, 0 where x is 0 (unless y is NaN).
///
/// ```
/// assert_eq!(gradus_math::f64::xlogy(0.0, 0.0), 0.0);
/// ```
#[inline(always)]
pub fn xlogy(x: f64, y: f64) -> f64 {
    let r = x * super::ln(y);
    if (x == 0.0) & !y.is_nan() { 0.0 } else { r }
}

/// x ln(1 + y), 0 where x is 0 (unless y is NaN).
///
/// ```
/// assert_eq!(gradus_math::f64::xlog1py(0.0, -1.0), 0.0);
/// ```
#[inline(always)]
pub fn xlog1py(x: f64, y: f64) -> f64 {
    let r = x * super::log1p(y);
    if (x == 0.0) & !y.is_nan() { 0.0 } else { r }
}

/// ln(e^a + e^b) without overflow.
///
/// ```
/// assert_eq!(gradus_math::f64::logaddexp(1000.0, 1000.0), 1000.0 + 2f64.ln());
/// ```
#[inline(always)]
pub fn logaddexp(a: f64, b: f64) -> f64 {
    let most = if a > b { a } else { b };
    // Equal infinities have no difference.
    let d = if a == b { 0.0 } else { -(a - b).abs() };
    most + super::log::log1p_unit(super::exp(d))
}

/// log2(2^a + 2^b) without overflow.
///
/// ```
/// assert_eq!(gradus_math::f64::logaddexp2(1000.0, 1000.0), 1001.0);
/// ```
#[inline(always)]
pub fn logaddexp2(a: f64, b: f64) -> f64 {
    let most = if a > b { a } else { b };
    let d = if a == b { 0.0 } else { -(a - b).abs() };
    // Rounded before the sum, so that equal numbers are one more exactly.
    most + LOG2_E * super::log::log1p_unit(super::exp2(d))
}

/// 0 below zero, 1 above, `at_zero` at zero; NaN for NaN.
///
/// ```
/// assert_eq!(gradus_math::f64::heaviside(0.0, 0.5), 0.5);
/// ```
pub fn heaviside(x: f64, at_zero: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x == 0.0 {
        at_zero
    } else if x > 0.0 {
        1.0
    } else {
        0.0
    }
}

/// The logistic function 1 / (1 + e^-x), accurate in both tails.
///
/// ```
/// assert_eq!(gradus_math::f64::sigmoid(0.0), 0.5);
/// ```
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let e = super::exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// ln(1 + e^x), accurate in both tails.
///
/// ```
/// assert_eq!(gradus_math::f64::softplus(1000.0), 1000.0);
/// ```
#[inline(always)]
pub fn softplus(x: f64) -> f64 {
    let m = if x < 0.0 { 0.0 } else { x };
    m + super::log::log1p_unit(super::exp(-x.abs()))
}
