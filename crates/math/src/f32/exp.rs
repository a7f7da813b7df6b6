//! Exponentials and the functions made from them.

pub(super) use super::coefficients::MAGIC;
use super::coefficients::{EXP, EXP2, EXPM1, LN2_HI, LN2_LO};

/// 2^n from the bits of `n + MAGIC`, for -127 < n < 128.
#[inline(always)]
pub(super) fn pow2i(k: f32) -> f32 {
    f32::from_bits(k.to_bits().wrapping_add(127) << 23)
}

/// x = n ln 2 + r: returns (n + MAGIC, r).
#[inline(always)]
fn reduce(x: f32) -> (f32, f32) {
    let k = x.mul_add(core::f32::consts::LOG2_E, MAGIC);
    let n = k - MAGIC;
    (k, n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x)))
}

/// x = n ln 2 + r: returns (n + MAGIC, e^r - 1), the latter relatively accurate.
#[inline(always)]
pub(super) fn expm1_reduced(x: f32) -> (f32, f32) {
    let (k, r) = reduce(x);
    let q = poly!(r; EXPM1[0], EXPM1[1], EXPM1[2], EXPM1[3], EXPM1[4]);
    (k, (r * r).mul_add(q, r))
}

/// p * 2^n with n from `k = n + MAGIC`, |n| <= 252, rounding once.
#[inline(always)]
fn scale(p: f32, k: f32) -> f32 {
    let n = (k.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let h = n >> 1;
    let a = f32::from_bits(((h + 127) << 23) as u32);
    let b = f32::from_bits(((n - h + 127) << 23) as u32);
    p * a * b
}

/// e^x, at most 1.1 ULP.
///
/// Reduces by a two-part ln 2, then a degree-6 polynomial; the power of two is
/// applied in two steps so that subnormal results are rounded once.
///
/// ```
/// # use gradus_math::f32::exp;
/// assert_eq!(exp(0.0), 1.0);
/// assert_eq!(exp(f32::NEG_INFINITY), 0.0);
/// ```
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (k, r) = reduce(x);
    let q = poly!(r; EXP[0], EXP[1], EXP[2], EXP[3], EXP[4]);
    scale((r * r).mul_add(q, r) + 1.0, k)
}

/// 2^x, at most 2 ULP: degree-6 polynomial on [-1/2, 1/2].
///
/// ```
/// assert_eq!(gradus_math::f32::exp2(-3.0), 0.125);
/// ```
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = if x < -151.0 { -151.0 } else { x };
    let x = if x > 129.0 { 129.0 } else { x };
    let k = x + MAGIC;
    scale(exp2_poly(x - (k - MAGIC)), k)
}

/// 2^r on [-1/2, 1/2].
#[inline(always)]
pub(super) fn exp2_poly(r: f32) -> f32 {
    let q = poly!(r; EXP2[0], EXP2[1], EXP2[2], EXP2[3], EXP2[4], EXP2[5]);
    q.mul_add(r, 1.0)
}

/// e^x - 1 without cancellation near zero, at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::expm1(1e-20), 1e-20);
/// ```
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let c = if x < -20.0 { -20.0 } else { x };
    let c = if c > 89.0 { 89.0 } else { c };
    let (k, p) = expm1_reduced(c);
    // Half the result, so that 2^127 stands for 2^128.
    let s = pow2i(k - 1.0);
    let y = 2.0 * p.mul_add(s, s - 0.5);
    if x.abs() < 1e-10 { x } else { y }
}

/// The logistic function 1 / (1 + e^-x), at most 2.5 ULP, in both tails.
///
/// ```
/// # use gradus_math::f32::sigmoid;
/// assert_eq!(sigmoid(f32::INFINITY), 1.0);
/// assert!(sigmoid(-90.0) > 0.0);
/// ```
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let num = if x < 0.0 { e } else { 1.0 };
    num / (1.0 + e)
}

/// ln(1 + e^x), at most 2 ULP, all in `f32`: max(x, 0) + ln(1 + e^-|x|).
///
/// ```
/// assert_eq!(gradus_math::f32::softplus(100.0), 100.0);
/// ```
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let m = if x < 0.0 { 0.0 } else { x };
    m + super::log1p(exp(-x.abs()))
}
