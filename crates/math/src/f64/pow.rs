//! The power function, without branches: the compiler makes vectors of loops over it.

use super::coefficients::{EXP, LN2_HI, LN2_LO, MAGIC, ROOT_HALF, poly};
use super::exp::scale;
use core::f64::consts::LOG2_E;

/// `atanh s = s + s^3 / 3 + s^5 p(s^2)`: 1 / (2 k + 5). Up to s = 0.172 what is left out is below 2^-66.
const ATANH: [f64; 11] = [
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
    1.0 / 23.0,
    1.0 / 25.0,
];
/// 2/3, and what a double leaves of it.
const THIRDS: [f64; 2] = [2.0 / 3.0, 3.700_743_415_417_188e-17];

/// ln a of a positive number in two parts, to about 2^-64.
#[inline(always)]
fn ln(a: f64) -> (f64, f64) {
    let tiny = a < f64::MIN_POSITIVE;
    let xs = if tiny { a * 18_014_398_509_481_984.0 } else { a };
    let e0 = if tiny { -54.0 } else { 0.0 };
    let ei = xs.to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let f = f64::from_bits(xs.to_bits().wrapping_sub((ei << 52) as u64)) - 1.0;
    let e = ei as f64 + e0;
    // s = f / (2 + f) and its rest; ln (1 + f) = 2 atanh s.
    let t = f + 2.0;
    let inv = 1.0 / t;
    let s = f * inv;
    let s_low = ((-s).mul_add(t, f) - s * (f - (t - 2.0))) * inv;
    let z = s * s;
    let z_low = s.mul_add(s, -z) + 2.0 * s * s_low;
    // w = 2/3 z + 2 z^2 p(z)
    let u = z * THIRDS[0];
    let u_low = z.mul_add(THIRDS[0], -u) + z.mul_add(THIRDS[1], z_low * THIRDS[0]);
    let q = z * z * (2.0 * poly(z, &ATANH));
    let w = u + q;
    let w_low = (u - w) + q + u_low;
    // 2 s + s w
    let p = s * w;
    let p_low = s.mul_add(w, -p) + s.mul_add(w_low, s_low * w);
    let h = 2.0 * s + p;
    let h_low = (2.0 * s - h) + p + (p_low + 2.0 * s_low);
    // And e ln 2, whose first part is exact.
    let first = e * LN2_HI;
    let sum = first + h;
    let rest = (first - sum) + h + e.mul_add(LN2_LO, h_low);
    let high = sum + rest;
    (high, (sum - high) + rest)
}

/// x to the power y, within 1 ULP of the C library's, with the special values of IEEE 754: e^(y ln|x|), where the logarithm
/// has two parts.
///
/// ```
/// # use gradus_math::f64::pow;
/// assert_eq!(pow(-2.0, 3.0), -8.0);
/// assert_eq!(pow(f64::NAN, 0.0), 1.0);
/// assert!(pow(-2.0, 0.5).is_nan());
/// ```
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let (high, low) = ln(a);
    let high = if a < f64::INFINITY { high } else { a };
    let high = if a == 0.0 { f64::NEG_INFINITY } else { high };
    let t = high * y;
    // Beyond what has a power the rest is of no account, or not a number.
    let rest = high.mul_add(y, -t) + low * y;
    let rest = if t.abs() < 800.0 { rest } else { 0.0 };
    let t = if t > 710.0 { 710.0 } else { t };
    let t = if t < -746.0 { -746.0 } else { t };
    let k = t.mul_add(LOG2_E, MAGIC);
    let n = k - MAGIC;
    // r and its rest, and 1 + r + r^2 p(r) rounded once.
    let (first, more) = (n.mul_add(-LN2_HI, t), n.mul_add(-LN2_LO, rest));
    let r = first + more;
    let small = (r * r).mul_add(poly(r, &EXP), (first - r) + more);
    let one = 1.0 + r;
    let r = scale(one + ((1.0 - one) + r + small), k);
    // From 2^53 on every y is an even integer.
    let c = if y.abs() < 9_007_199_254_740_992.0 { y } else { 0.0 };
    let integer = c.floor() == c;
    let half = 0.5 * c;
    let odd = integer & (half.floor() != half);
    let r = if odd & x.is_sign_negative() { -r } else { r };
    let r = if (x < 0.0) & (a < f64::INFINITY) & !integer { f64::NAN } else { r };
    let r = if (a == 1.0) & (y.abs() == f64::INFINITY) { 1.0 } else { r };
    let r = if y.is_nan() { y } else { r };
    if (x == 1.0) | (y == 0.0) { 1.0 } else { r }
}
