//! Roots and reciprocals.

use super::kernel64::{exp2_64, log2_64};

/// Square root, correctly rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::sqrt(9.0), 3.0);
/// ```
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// 1 / sqrt(x), at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::rsqrt(4.0), 0.5);
/// ```
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// 1 / x, correctly rounded.
///
/// ```
/// assert_eq!(gradus_math::f32::recip(4.0), 0.25);
/// ```
#[inline(always)]
pub fn recip(x: f32) -> f32 {
    1.0 / x
}

/// Cube root, at most 1 ULP: 2^(log2|x| / 3) in `f64`.
///
/// ```
/// assert_eq!(gradus_math::f32::cbrt(-27.0), -3.0);
/// ```
#[inline(always)]
pub fn cbrt(x: f32) -> f32 {
    let a = x.abs();
    let y = (exp2_64(log2_64(a as f64) * (1.0 / 3.0)) as f32).copysign(x);
    if (a > 0.0) & (a < f32::INFINITY) { y } else { x }
}

/// sqrt(x² + y²) without overflow, at most 1 ULP; infinite if either is, even beside NaN.
///
/// ```
/// assert_eq!(gradus_math::f32::hypot(3e30, 4e30), 5e30);
/// ```
#[inline(always)]
pub fn hypot(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    let r = a.mul_add(a, b * b).sqrt() as f32;
    if (x.abs() == f32::INFINITY) | (y.abs() == f32::INFINITY) { f32::INFINITY } else { r }
}
