//! Derivatives of the log-gamma function.

use core::f64::consts::PI;

use super::coefficients::poly;
use super::gamma::{from_nearest, gamma, sin_pi_near};
use super::gamma_coefficients::{COS_PI, DIGAMMA_FAR, DIGAMMA_NEAR, TRIGAMMA_FAR};
use super::zeta::zeta;

/// cot(πx), zero at halves; infinite at whole numbers.
#[inline(always)]
fn cot_pi(x: f64) -> f64 {
    let r = from_nearest(x).0;
    let z = r * r;
    (1.0 - 4.0 * z) * poly(z, &COS_PI) / sin_pi_near(r)
}

/// The digamma function where x is positive, without branches: see [`digamma`].
///
/// ```
/// assert!((gradus_math::f64::digamma_positive(1.0) + 0.577_215_664_901_532_9).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn digamma_positive(x: f64) -> f64 {
    // The positive zero less one, in two parts.
    const ZERO: [f64; 2] = [0.461_632_144_968_362_36, -1.552_234_816_285_867_7e-17];
    let w = 1.0 / x;
    let small = x < 1.0;
    // Below one, ψ(x) = ψ(x + 1) - 1 / x.
    let u = if small { x } else { x - 1.0 };
    let d = (u - ZERO[0]) - ZERO[1];
    let near = d.mul_add(poly(u - 0.625, &DIGAMMA_NEAR), if small { -w } else { 0.0 });
    let far = super::ln(x) - w * w.mul_add(poly(w, &DIGAMMA_FAR), 0.5);
    if x < 2.25 { near } else { far }
}

/// Digamma ψ(x), the derivative of [`lgamma`](super::lgamma), without branches.
///
/// Its positive zero is a factor of a polynomial up to 2.25, the logarithm and a polynomial in 1/x are beyond;
/// reflection below zero. NaN at negative
/// integers, ∓inf at ±0.
///
/// ```
/// assert!((gradus_math::f64::digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn digamma(x: f64) -> f64 {
    let below = x < 0.0;
    let p = digamma_positive(if below { 1.0 - x } else { x });
    let y = if below { p - PI * cot_pi(x) } else { p };
    let y = if below & (x == x.floor()) { f64::NAN } else { y };
    if x == 0.0 { f64::NEG_INFINITY.copysign(-x) } else { y }
}

/// Trigamma ψ'(x), without branches; +inf at the poles.
///
/// Recurrence up to 3, a polynomial in 1/x beyond, reflection below zero.
///
/// ```
/// let pi = core::f64::consts::PI;
/// assert!((gradus_math::f64::trigamma(1.0) - pi * pi / 6.0).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn trigamma(x: f64) -> f64 {
    let below = x <= 0.0;
    let (mut a, mut s) = (if below { 1.0 - x } else { x }, 0.0);
    for _ in 0..3 {
        let small = a < 3.0;
        s += if small { 1.0 / (a * a) } else { 0.0 };
        a = if small { a + 1.0 } else { a };
    }
    let w = 1.0 / a;
    let p = s + w + w * w * w.mul_add(poly(w, &TRIGAMMA_FAR), 0.5);
    let r = PI / sin_pi_near(from_nearest(x).0);
    let y = if below { r * r - p } else { p };
    if below & (x == x.floor()) { f64::INFINITY } else { y }
}

/// Polygamma ψ⁽ⁿ⁾(x): (-1)^(n+1) n! ζ(n+1, x), with reflection below zero.
///
/// ```
/// use gradus_math::f64::{polygamma, trigamma};
/// assert_eq!(polygamma(1, 0.7), trigamma(0.7));
/// ```
pub fn polygamma(n: u32, x: f64) -> f64 {
    match n {
        0 => return digamma(x),
        1 => return trigamma(x),
        _ => {}
    }
    let nf = n as f64;
    let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
    // Beyond order 170 the factorial is infinite, and a reflection would only take long to say so.
    if x > 0.0 || x == x.floor() || x.is_nan() || n > 170 {
        return sign * gamma(nf + 1.0) * zeta(nf + 1.0, x);
    }
    // ψn(x) = (-1)^n ψn(1-x) - π dⁿ/dxⁿ cot(πx).
    -sign * polygamma(n, 1.0 - x) - cot_derivative(n, x)
}

/// π dⁿ/dxⁿ cot(πx): a polynomial in c = cot(πx), from dc/dx = -π(1 + c²).
fn cot_derivative(n: u32, x: f64) -> f64 {
    let c = cot_pi(x);
    let mut p = vec![0.0, 1.0];
    for _ in 0..n {
        let mut q = vec![0.0; p.len() + 1];
        for (k, &v) in p.iter().enumerate().skip(1) {
            q[k - 1] -= PI * k as f64 * v;
            q[k + 1] -= PI * k as f64 * v;
        }
        p = q;
    }
    PI * p.iter().rev().fold(0.0, |s: f64, &v| s.mul_add(c, v))
}
