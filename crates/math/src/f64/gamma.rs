//! The gamma function.

use core::f64::consts::PI;

/// sin(πx), exact at integers and halves.
pub(super) fn sin_pi(x: f64) -> f64 {
    let r = x.abs() % 2.0;
    let (r, flip) = if r >= 1.0 { (r - 1.0, true) } else { (r, false) };
    let r = if r > 0.5 { 1.0 - r } else { r };
    let v = if r > 0.25 { (PI * (0.5 - r)).cos() } else { (PI * r).sin() };
    if flip != (x < 0.0) { -v } else { v }
}

/// Γ(x) (from `libm`).
///
/// ```
/// assert_eq!(gradus_math::f64::gamma(5.0), 24.0);
/// ```
pub fn gamma(x: f64) -> f64 {
    libm::tgamma(x)
}

/// ln |Γ(x)| (from `libm`): about 1 ULP for positive x; +inf at the poles.
///
/// ```
/// assert_eq!(gradus_math::f64::lgamma(1.0), 0.0);
/// assert_eq!(gradus_math::f64::lgamma(-1.0), f64::INFINITY);
/// ```
pub fn lgamma(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return f64::INFINITY;
    }
    libm::lgamma(x)
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
