//! Logarithms.

use super::coefficients::{LN, LN2_SPLIT, LOG1P, LOG2_INV, LOG2_TWO, LOG10_INV, LOG10_TWO};

/// Puts the special values of a logarithm over `y`: -inf at zero, NaN below, inf at inf.
#[inline(always)]
fn special(x: f32, y: f32) -> f32 {
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x > 0.0 { y } else { f32::NAN };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// x = 2^e (1 + f), where 1 + f begins at the number of these bits: sqrt(1/2) or three quarters.
#[inline(always)]
fn split(x: f32, least: u32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let xs = if tiny { x * 33_554_432.0 } else { x };
    let e0 = if tiny { -25.0 } else { 0.0 };
    let b = xs.to_bits();
    let ei = (b.wrapping_sub(least) as i32) >> 23;
    (ei as f32 + e0, f32::from_bits(b.wrapping_sub((ei << 23) as u32)) - 1.0)
}

/// Natural logarithm, at most 1 ULP.
///
/// Splits off the exponent, then ln(1+f) = f - f²/2 + f³ q(f) with q of degree 8
/// for f in [-1/4, 1/2]: processors have instructions for just those parts.
///
/// ```
/// # use gradus_math::f32::ln;
/// assert_eq!(ln(1.0), 0.0);
/// assert_eq!(ln(0.0), f32::NEG_INFINITY);
/// assert!(ln(-1.0).is_nan());
/// ```
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let (e, f) = split(x, 0x3f40_0000);
    special(x, from_parts(e, f, &LOG1P))
}

/// e ln 2 + ln(1 + f), where the latter is f - f²/2 + f³ c(f).
#[inline(always)]
fn from_parts(e: f32, f: f32, c: &[f32; 9]) -> f32 {
    let z = f * f;
    let q = poly!(f; c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]);
    let y = e.mul_add(LN2_SPLIT[1], z * f * q);
    let y = z.mul_add(-0.5, y);
    e.mul_add(LN2_SPLIT[0], f + y)
}

/// A logarithm to another base: what a factor of two adds, and one over the base's logarithm, in two parts each.
#[inline(always)]
fn to_base(x: f32, two: &[f32; 2], inv: &[f32; 2]) -> f32 {
    let (e, f) = split(x, 0x3f35_04f3);
    let z = f * f;
    let q = poly!(f; LN[0], LN[1], LN[2], LN[3], LN[4], LN[5], LN[6], LN[7], LN[8]);
    // ln(1 + f) less f.
    let t = z.mul_add(-0.5, z * f * q);
    let first = f * inv[0];
    let low = f.mul_add(inv[1], f.mul_add(inv[0], -first));
    let whole = e * two[0];
    let sum = whole + first;
    let low = e.mul_add(two[1], t.mul_add(inv[0], low)) + (first - (sum - whole));
    special(x, sum + low)
}

/// Base-2 logarithm, at most 1 ULP and exact at powers of two, all in `f32`.
///
/// ```
/// assert_eq!(gradus_math::f32::log2(8.0), 3.0);
/// ```
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    to_base(x, &LOG2_TWO, &LOG2_INV)
}

/// Base-10 logarithm, at most 1 ULP, all in `f32`.
///
/// ```
/// assert_eq!(gradus_math::f32::log10(1000.0), 3.0);
/// ```
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    to_base(x, &LOG10_TWO, &LOG10_INV)
}

/// ln(1 + x) without cancellation near zero, at most 1 ULP, all in `f32`.
///
/// 1 + x = 2^e (1 + f) with f = x 2^-e + (2^-e - 1), which is rounded once, and not at all
/// from -1/4 to 1/2; then as [`ln`].
///
/// ```
/// assert_eq!(gradus_math::f32::log1p(1e-20), 1e-20);
/// ```
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let ei = ((1.0 + x).to_bits().wrapping_sub(0x3f40_0000) as i32) >> 23;
    let shift = (ei as u32) << 23;
    // Four times 2^-e, which is a number for all of them.
    let s = f32::from_bits(0x4080_0000u32.wrapping_sub(shift));
    let f = f32::from_bits(x.to_bits().wrapping_sub(shift)) + s.mul_add(0.25, -1.0);
    let y = from_parts(ei as f32, f, &LOG1P);
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x > -1.0 { y } else { f32::NAN };
    let y = if x == -1.0 { f32::NEG_INFINITY } else { y };
    if x == 0.0 { x } else { y }
}
