//! Special functions of floats by those of doubles, which have no branches either.

use super::kernel64::{exp_64, exp2_64, log1p_unit_64};
use super::{ln, log1p};
use crate::f64 as d;

/// ln |Γ(x)|: [`d::lgamma`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::lgamma(0.5), gradus_math::f64::lgamma(0.5) as f32);
/// ```
#[inline(always)]
pub fn lgamma(x: f32) -> f32 {
    d::lgamma(x as f64) as f32
}

/// ln Γ(x) where x is not negative: [`d::lgamma_positive`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::lgamma_positive(0.5), gradus_math::f64::lgamma_positive(0.5) as f32);
/// ```
#[inline(always)]
pub fn lgamma_positive(x: f32) -> f32 {
    d::lgamma_positive(x as f64) as f32
}

/// Digamma ψ(x): [`d::digamma`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::digamma(0.5), gradus_math::f64::digamma(0.5) as f32);
/// ```
#[inline(always)]
pub fn digamma(x: f32) -> f32 {
    d::digamma(x as f64) as f32
}

/// Digamma ψ(x) where x is positive: [`d::digamma_positive`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::digamma_positive(0.5), gradus_math::f64::digamma_positive(0.5) as f32);
/// ```
#[inline(always)]
pub fn digamma_positive(x: f32) -> f32 {
    d::digamma_positive(x as f64) as f32
}

/// e^(x²) erfc(x): [`d::erfcx`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::erfcx(0.5), gradus_math::f64::erfcx(0.5) as f32);
/// ```
#[inline(always)]
pub fn erfcx(x: f32) -> f32 {
    d::erfcx(x as f64) as f32
}

/// ln Φ(x), the logarithm of the normal distribution function: [`d::log_ndtr`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::log_ndtr(0.5), gradus_math::f64::log_ndtr(0.5) as f32);
/// ```
#[inline(always)]
pub fn log_ndtr(x: f32) -> f32 {
    d::log_ndtr(x as f64) as f32
}

/// Φ⁻¹(x), the normal quantile: [`d::ndtri`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::ndtri(0.5), gradus_math::f64::ndtri(0.5) as f32);
/// ```
#[inline(always)]
pub fn ndtri(x: f32) -> f32 {
    d::ndtri(x as f64) as f32
}

/// sin(πx) / (πx), 1 at zero: [`d::sinc`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::sinc(0.5), gradus_math::f64::sinc(0.5) as f32);
/// ```
#[inline(always)]
pub fn sinc(x: f32) -> f32 {
    d::sinc(x as f64) as f32
}

/// Trigamma ψ'(x): [`d::trigamma`], rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::trigamma(0.5), gradus_math::f64::trigamma(0.5) as f32);
/// ```
#[inline(always)]
pub fn trigamma(x: f32) -> f32 {
    d::trigamma(x as f64) as f32
}

/// -x ln x: 0 at zero, -inf below; at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::entr(0.0), 0.0);
/// ```
#[inline(always)]
pub fn entr(x: f32) -> f32 {
    let y = -x * ln(x);
    let y = if x == 0.0 { 0.0 } else { y };
    if x < 0.0 { f32::NEG_INFINITY } else { y }
}

/// x ln y, 0 where x is 0 (unless y is NaN); at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::xlogy(0.0, 0.0), 0.0);
/// ```
#[inline(always)]
pub fn xlogy(x: f32, y: f32) -> f32 {
    let r = x * ln(y);
    if (x == 0.0) & !y.is_nan() { 0.0 } else { r }
}

/// x ln(1 + y), 0 where x is 0 (unless y is NaN); at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::xlog1py(0.0, -1.0), 0.0);
/// ```
#[inline(always)]
pub fn xlog1py(x: f32, y: f32) -> f32 {
    let r = x * log1p(y);
    if (x == 0.0) & !y.is_nan() { 0.0 } else { r }
}

/// The larger of two numbers, and how far apart they are (at most 200, where it makes no difference any more).
#[inline(always)]
fn apart(a: f32, b: f32) -> (f64, f64) {
    let (x, y) = (a as f64, b as f64);
    let d = (x - y).abs();
    let d = if d > 200.0 { 200.0 } else { d };
    // Equal infinities have no difference.
    (if x > y { x } else { y }, if x == y { 0.0 } else { d })
}

/// ln(e^a + e^b) without overflow, at most 1 ULP; computed in `f64`: near zero the terms have opposite signs.
///
/// ```
/// assert_eq!(gradus_math::f32::logaddexp(1000.0, 1000.0), 1000.0 + std::f32::consts::LN_2);
/// ```
#[inline(always)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let (most, d) = apart(a, b);
    (most + log1p_unit_64(exp_64(-d))) as f32
}

/// log2(2^a + 2^b) without overflow, at most 1 ULP; computed in `f64`.
///
/// ```
/// assert_eq!(gradus_math::f32::logaddexp2(1000.0, 1000.0), 1001.0);
/// ```
#[inline(always)]
pub fn logaddexp2(a: f32, b: f32) -> f32 {
    let (most, d) = apart(a, b);
    let more = log1p_unit_64(exp2_64(-d)) * std::f64::consts::LOG2_E;
    // Two equal numbers are one more exactly, which matters where that is zero.
    (most + if d == 0.0 { 1.0 } else { more }) as f32
}
