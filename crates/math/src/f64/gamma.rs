//! The gamma function and its logarithm.

use super::coefficients::poly;
use super::gamma_coefficients::{LGAMMA_FAR, LGAMMA_NEAR, SIN_PI};
use core::f64::consts::PI;

/// x less the nearest whole number, and whether that is odd.
#[inline(always)]
pub(super) fn from_nearest(x: f64) -> (f64, bool) {
    let n = x.round_ties_even();
    let half = 0.5 * n;
    (x - n, half.round_ties_even() != half)
}

/// sin(πr) for |r| <= 1/2.
#[inline(always)]
pub(super) fn sin_pi_near(r: f64) -> f64 {
    r * poly(r * r, &SIN_PI)
}

/// sin(πx), zero at integers; NaN if x is not finite.
#[inline(always)]
pub(super) fn sin_pi(x: f64) -> f64 {
    let (r, odd) = from_nearest(x);
    let s = sin_pi_near(r);
    if odd { -s } else { s }
}

/// Γ(x) (from `libm`).
///
/// ```
/// assert_eq!(gradus_math::f64::gamma(5.0), 24.0);
/// ```
pub fn gamma(x: f64) -> f64 {
    libm::tgamma(x)
}

/// ln Γ(x) where x is not negative, without branches: see [`lgamma`].
///
/// ```
/// assert_eq!(gradus_math::f64::lgamma_positive(2.0), 0.0);
/// ```
#[inline(always)]
pub fn lgamma_positive(x: f64) -> f64 {
    let small = x < 1.0;
    let l = super::ln(x);
    // Below one, ln Γ(x) = ln Γ(x + 1) - ln x; y - 1 and y - 2 are exact either way.
    let u = if small { x } else { x - 1.0 };
    let v = if small { x - 1.0 } else { x - 2.0 };
    let near = (u * v).mul_add(poly(u - 1.25, &LGAMMA_NEAR), if small { -l } else { 0.0 });
    let w = 1.0 / x;
    const HALF_LN_2PI: f64 = 0.918_938_533_204_672_8;
    let far = (x - 0.5).mul_add(l, -x) + w.mul_add(poly(w, &LGAMMA_FAR), HALF_LN_2PI);
    let y = if x < 3.5 { near } else { far };
    if x == f64::INFINITY { x } else { y }
}

/// ln |Γ(x)|, without branches: at most 5 ULP for positive x; +inf at the poles.
///
/// Its zeros at 1 and 2 are factors of a polynomial up to 3.5, Stirling's formula is beyond; the reflection
/// ln π - ln |x sin(πx)| - ln Γ(-x) below zero.
///
/// ```
/// assert_eq!(gradus_math::f64::lgamma(1.0), 0.0);
/// assert_eq!(gradus_math::f64::lgamma(-1.0), f64::INFINITY);
/// ```
#[inline(always)]
pub fn lgamma(x: f64) -> f64 {
    let a = x.abs();
    let p = lgamma_positive(a);
    let s = sin_pi_near(from_nearest(x).0).abs();
    const LN_PI: f64 = 1.144_729_885_849_400_2;
    let reflected = LN_PI - super::log::ln_normal(a) - super::log::ln_normal(s) - p;
    let reflected = if s == 0.0 { f64::INFINITY } else { reflected };
    // Next to zero both are -ln |x|, and the sine may be subnormal.
    let y = if x < -1e-20 { reflected } else { p };
    if a == f64::INFINITY { a } else { y }
}

/// Multivariate log-gamma ln Γ_p(a) = p(p-1)/4 ln π + Σ lnΓ(a - i/2), i in 0..p.
///
/// ```
/// use gradus_math::f64::{lgamma, mvlgamma};
/// assert_eq!(mvlgamma(2.5, 1), lgamma(2.5));
/// ```
pub fn mvlgamma(a: f64, p: u32) -> f64 {
    let pf = p as f64;
    let mut s = 0.25 * pf * (pf - 1.0) * PI.ln();
    for i in 0..p {
        s += lgamma(a - 0.5 * i as f64);
    }
    s
}
