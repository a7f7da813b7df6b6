//! Logarithms of doubles, without branches: the compiler makes vectors of loops over them.

use super::coefficients::{LN, LN2_HI, LN2_LO, ROOT_HALF, poly};

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
/// The logarithm of the rounded sum, and what rounding took away.
///
/// ```
/// use gradus_math::f64::log1p;
/// assert_eq!(log1p(1e-20), 1e-20);
/// assert_eq!(log1p(-1.0), f64::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let lost = (x - (u - 1.0)) / u;
    let lost = if (u > 0.0) & (u < f64::INFINITY) { lost } else { 0.0 };
    let y = ln(u) + lost;
    if x.abs() < 1e-17 { x } else { y }
}
