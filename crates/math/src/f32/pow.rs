//! The power function.

use super::kernel64::{MAGIC, exp2_64, log2_64};

/// Nearest integer, for |x| < 2^51.
#[inline(always)]
fn rint(x: f64) -> f64 {
    (x + MAGIC) - MAGIC
}

/// x to the power y, at most 1 ULP, with the special values of IEEE 754 (and C) `pow`:
/// 2^(y log2|x|) in `f64`.
///
/// ```
/// # use gradus_math::f32::pow;
/// assert_eq!(pow(-2.0, 3.0), -8.0);
/// assert_eq!(pow(f32::NAN, 0.0), 1.0);
/// assert!(pow(-2.0, 0.5).is_nan());
/// ```
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let l = log2_64(a as f64);
    let l = if a < f32::INFINITY { l } else { a as f64 };
    let l = if a == 0.0 { f64::NEG_INFINITY } else { l };
    let yd = y as f64;
    let t = l * yd;
    let t = if t > 300.0 { 300.0 } else { t };
    let t = if t < -300.0 { -300.0 } else { t };
    let r = exp2_64(t) as f32;
    // Beyond 2^24 every y is an even integer, as 2^30 is.
    let c = if yd > 1_073_741_824.0 { 1_073_741_824.0 } else { yd };
    let c = if c < -1_073_741_824.0 { -1_073_741_824.0 } else { c };
    let integer = rint(c) == c;
    let half = 0.5 * c;
    let odd = integer & (rint(half) != half);
    let r = if odd & x.is_sign_negative() { -r } else { r };
    let r = if (x < 0.0) & (a < f32::INFINITY) & !integer { f32::NAN } else { r };
    let r = if (a == 1.0) & (y.abs() == f32::INFINITY) { 1.0 } else { r };
    if (x == 1.0) | (y == 0.0) { 1.0 } else { r }
}
