//! The exponential of a double and its relatives, without branches: the compiler makes vectors of loops over them.

use super::coefficients::{EXP, LN2_HI, LN2_LO, MAGIC, poly};
use core::f64::consts::{LN_2, LOG2_E};

/// e^x, at most 1 ULP; the power of two is applied in two steps, so that subnormal results are rounded once.
///
/// ```
/// use gradus_math::f64::exp;
/// assert_eq!(exp(0.0), 1.0);
/// assert!((exp(1.0) - std::f64::consts::E).abs() < 1e-15);
/// assert_eq!(exp(f64::NEG_INFINITY), 0.0);
/// assert_eq!(exp(1e3), f64::INFINITY);
/// assert!(exp(f64::NAN).is_nan());
/// ```
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };
    let (k, p) = reduced(x);
    scale(p, k)
}

/// x = n ln 2 + r: n + MAGIC, and e^r.
#[inline(always)]
fn reduced(x: f64) -> (f64, f64) {
    let k = x.mul_add(LOG2_E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    (k, (r * r).mul_add(poly(r, &EXP), r) + 1.0)
}

/// p 2^n with n from `k = n + MAGIC`, rounded once.
#[inline(always)]
pub(super) fn scale(p: f64, k: f64) -> f64 {
    let n = k.to_bits().wrapping_sub(MAGIC.to_bits()) as i64;
    let half = n >> 1;
    let power = |n: i64| f64::from_bits((n.wrapping_add(1023) as u64) << 52);
    p * power(half) * power(n.wrapping_sub(half))
}

/// e^x halved, for x that is not negative: finite a little further.
#[inline(always)]
pub(super) fn half_exp(x: f64) -> f64 {
    let x = if x > 712.0 { 712.0 } else { x };
    let (k, p) = reduced(x);
    scale(p, k - 1.0)
}

/// 2^x, at most 1 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::exp2(-3.0), 0.125);
/// assert_eq!(gradus_math::f64::exp2(2000.0), f64::INFINITY);
/// ```
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let x = if x < -1080.0 { -1080.0 } else { x };
    let x = if x > 1025.0 { 1025.0 } else { x };
    let k = x + MAGIC;
    let r = (x - (k - MAGIC)) * LN_2;
    scale((r * r).mul_add(poly(r, &EXP), r) + 1.0, k)
}

/// e^x - 1 halved, for |x| up to where it overflows; the sign of zero is lost.
#[inline(always)]
pub(super) fn half_expm1(x: f64) -> f64 {
    let k = x.mul_add(LOG2_E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    let p = (r * r).mul_add(poly(r, &EXP), r);
    let s = f64::from_bits(k.to_bits().wrapping_add(1022) << 52);
    p.mul_add(s, s - 0.5)
}

/// e^x - 1, at most 2 ULP.
///
/// ```
/// use gradus_math::f64::expm1;
/// assert_eq!(expm1(1e-20), 1e-20);
/// assert_eq!(expm1(f64::NEG_INFINITY), -1.0);
/// ```
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let c = if x < -60.0 { -60.0 } else { x };
    let c = if c > 710.0 { 710.0 } else { c };
    let y = 2.0 * half_expm1(c);
    if x.abs() < 1e-17 { x } else { y }
}

/// The hyperbolic tangent, at most 3 ULP: (e^2a - 1) / (e^2a + 1).
///
/// ```
/// use gradus_math::f64::tanh;
/// assert_eq!(tanh(-0.0).to_bits(), (-0.0f64).to_bits());
/// assert_eq!(tanh(f64::INFINITY), 1.0);
/// ```
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    let a = if a > 20.0 { 20.0 } else { a };
    let e = half_expm1(a + a);
    (e / (e + 1.0)).copysign(x)
}
