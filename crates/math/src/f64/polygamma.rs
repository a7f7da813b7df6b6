//! Derivatives of the log-gamma function.

use core::f64::consts::PI;

use super::gamma::{gamma, sin_pi};
use super::zeta::zeta;

/// π cot(πx), exact at halves.
fn cot_pi(x: f64) -> f64 {
    sin_pi(0.5 - x % 1.0) / sin_pi(x % 1.0)
}

/// Digamma ψ(x), the derivative of [`lgamma`](super::lgamma).
///
/// Recurrence up to 10, then the asymptotic series; the Taylor series about the positive zero;
/// reflection below zero. NaN at negative
/// integers, ∓inf at ±0.
///
/// ```
/// assert!((gradus_math::f64::digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-15);
/// ```
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI * cot_pi(x);
    }
    // The zero of ψ in two parts; near it the Taylor series keeps the relative accuracy.
    let d = (x - 1.461_632_144_968_362_2) - 9.549_995_429_965_697e-17;
    if d.abs() < 0.1 {
        return d * poly!(d;
            0.967_672_245_447_621_2, -0.442_763_168_983_592_1, 0.258_499_760_955_651,
            -0.163_942_705_442_406_52, 0.107_824_050_691_262_37, -0.072_199_561_256_454_71,
            0.048_804_288_164_143_11, -0.033_161_126_474_847_36, 0.022_597_648_232_218_104,
            -0.015_424_765_904_948_96, 0.010_538_791_616_612_175, -0.007_204_534_386_356_869,
            0.004_926_781_395_729_853, -0.003_369_801_655_439_328);
    }
    let (mut a, mut s) = (x, 0.0);
    while a < 10.0 {
        s += 1.0 / a;
        a += 1.0;
    }
    let z = 1.0 / (a * a);
    let tail = z * poly!(z;
        1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0);
    a.ln() - 0.5 / a - tail - s
}

/// Trigamma ψ'(x); +inf at the poles.
///
/// ```
/// let pi = core::f64::consts::PI;
/// assert!((gradus_math::f64::trigamma(1.0) - pi * pi / 6.0).abs() < 1e-15);
/// ```
pub fn trigamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            return f64::INFINITY;
        }
        let s = PI / sin_pi(x);
        return s * s - trigamma(1.0 - x);
    }
    let (mut a, mut s) = (x, 0.0);
    while a < 12.0 {
        s += 1.0 / (a * a);
        a += 1.0;
    }
    let z = 1.0 / (a * a);
    let tail = poly!(z;
        1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0);
    s + 1.0 / a + 0.5 * z + tail * z / a
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
