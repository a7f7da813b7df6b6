//! Logarithms of doubles, without branches: the compiler makes vectors of loops over them.

use super::coefficients::{ATANH, LN, LN2_HI, LN2_LO, ROOT_HALF, poly};

/// ln x, below 1 ULP; NaN below zero, -inf at zero.
///
/// ```
/// use gradus_math::f64::ln;
/// assert_eq!(ln(1.0), 0.0);
/// assert_eq!(ln(0.0), f64::NEG_INFINITY);
/// assert!(ln(-1.0).is_nan());
/// ```
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    let tiny = x < f64::MIN_POSITIVE;
    let xs = if tiny { x * 18_014_398_509_481_984.0 } else { x };
    let e0 = if tiny { -54.0 } else { 0.0 };
    let ei = xs.to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let f = f64::from_bits(xs.to_bits().wrapping_sub((ei << 52) as u64)) - 1.0;
    let e = ei as f64 + e0;
    let s = f / (f + 2.0);
    let z = s * s;
    let half = f * f * 0.5;
    let r = z.mul_add(poly(z, &LN), half);
    let low = s.mul_add(r, e * LN2_LO);
    let y = e.mul_add(LN2_HI, f - (half - low));
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x > 0.0 { y } else { f64::NAN };
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// [`ln`] of a positive normal number.
#[inline(always)]
pub(super) fn ln_normal(x: f64) -> f64 {
    let ei = x.to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let f = f64::from_bits(x.to_bits().wrapping_sub((ei << 52) as u64)) - 1.0;
    let e = ei as f64;
    let s = f / (f + 2.0);
    let z = s * s;
    let half = f * f * 0.5;
    let low = s.mul_add(z.mul_add(poly(z, &LN), half), e * LN2_LO);
    e.mul_add(LN2_HI, f - (half - low))
}

/// The parts of log2 and log10: the exponent, and ln of the mantissa as a short number and the rest.
#[inline(always)]
fn parts(x: f64) -> (f64, f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let xs = if tiny { x * 18_014_398_509_481_984.0 } else { x };
    let e0 = if tiny { -54.0 } else { 0.0 };
    let ei = xs.to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let f = f64::from_bits(xs.to_bits().wrapping_sub((ei << 52) as u64)) - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let half = f * f * 0.5;
    let more = s * z.mul_add(poly(z, &LN), half);
    let high = f64::from_bits((f - half).to_bits() & !0xffff_ffff);
    (ei as f64 + e0, high, (f - high) - half + more)
}

/// Puts the special values of a logarithm over `y`: -inf at zero, NaN below, inf at inf.
#[inline(always)]
fn special(x: f64, y: f64) -> f64 {
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x > 0.0 { y } else { f64::NAN };
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// log2 x, at most 1 ULP and exact at powers of two.
///
/// ```
/// assert_eq!(gradus_math::f64::log2(0.125), -3.0);
/// ```
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    // 1 / ln 2 in two parts, the first of them short.
    const INV: [f64; 2] = [1.442_695_040_721_446_3, 1.675_171_316_488_651_2e-10];
    let (e, high, low) = parts(x);
    let first = high * INV[0];
    let rest = (low + high).mul_add(INV[1], low * INV[0]);
    let sum = e + first;
    special(x, rest + ((e - sum) + first) + sum)
}

/// log10 x, at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::log10(1000.0), 3.0);
/// ```
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    // 1 / ln 10 and log10 2 in two parts, the first of them short.
    const INV: [f64; 2] = [0.434_294_481_878_168_9, 2.508_294_671_164_527_5e-11];
    const TWO: [f64; 2] = [0.301_029_995_663_611_77, 3.694_239_077_158_931e-13];
    let (e, high, low) = parts(x);
    let (first, y) = (high * INV[0], e * TWO[0]);
    let rest = e.mul_add(TWO[1], (low + high).mul_add(INV[1], low * INV[0]));
    let sum = y + first;
    special(x, rest + ((y - sum) + first) + sum)
}

/// ln(1 + x), at most 2 ULP.
///
/// 1 + x = 2^e (1 + f) with f = x 2^-e + (2^-e - 1), which is rounded once, and not at all where 1 + x is near one; then as
/// [`ln`].
///
/// ```
/// use gradus_math::f64::log1p;
/// assert_eq!(log1p(1e-20), 1e-20);
/// assert_eq!(log1p(-1.0), f64::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let ei = (1.0 + x).to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let shift = (ei << 52) as u64;
    // Four times 2^-e, which is a number for all of them.
    let s = f64::from_bits(0x4010_0000_0000_0000u64.wrapping_sub(shift));
    let f = f64::from_bits(x.to_bits().wrapping_sub(shift)) + s.mul_add(0.25, -1.0);
    let e = ei as f64;
    let s = f / (f + 2.0);
    let z = s * s;
    let half = f * f * 0.5;
    let low = s.mul_add(z.mul_add(poly(z, &LN), half), e * LN2_LO);
    let y = e.mul_add(LN2_HI, f - (half - low));
    let y = if x < f64::INFINITY { y } else { x };
    let y = if x > -1.0 { y } else { f64::NAN };
    let y = if x == -1.0 { f64::NEG_INFINITY } else { y };
    if x == 0.0 { x } else { y }
}

/// ln(1 + x) for x from 0 to 1, at most 2 ULP: 2 atanh(x / (2 + x)), with nothing to split off.
#[inline(always)]
pub(super) fn log1p_unit(x: f64) -> f64 {
    let s = x / (2.0 + x);
    let z = s * s;
    2.0 * (s * z).mul_add(poly(z, &ATANH), s)
}
