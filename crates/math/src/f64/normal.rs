//! The normal distribution function, its logarithm and its inverse.

use core::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LN_2, SQRT_2};

use super::erf::{erfc, erfcx, erfinv};

/// e^(-x²/2), with the rounding error of x² carried over.
fn exp_half_sq(x: f64) -> f64 {
    let h = x * x;
    let l = x.mul_add(x, -h);
    let e = (-0.5 * h).exp();
    if l.is_finite() { (-0.5 * l).mul_add(e, e) } else { e }
}

/// Standard normal distribution function Φ(x), relatively accurate in the lower tail.
///
/// ```
/// assert_eq!(gradus_math::f64::ndtr(0.0), 0.5);
/// ```
pub fn ndtr(x: f64) -> f64 {
    if x < -1.0 { 0.5 * exp_half_sq(x) * erfcx(-x * FRAC_1_SQRT_2) } else { 0.5 * erfc(-x * FRAC_1_SQRT_2) }
}

/// ln Φ(x), without underflow in the lower tail.
///
/// ```
/// assert!((gradus_math::f64::log_ndtr(-1e5) + 5e9).abs() < 20.0);
/// ```
pub fn log_ndtr(x: f64) -> f64 {
    if x < -1.0 { -0.5 * x * x + erfcx(-x * FRAC_1_SQRT_2).ln() - LN_2 } else { (-ndtr(-x)).ln_1p() }
}

/// The normal quantile Φ⁻¹(p): -inf at 0, inf at 1, NaN outside [0, 1].
///
/// The middle through [`erfinv`]; in the tails Newton's iteration on ln Φ, which converges from
/// the asymptotic start for every representable p.
///
/// ```
/// use gradus_math::f64::{ndtr, ndtri};
/// assert!((ndtr(ndtri(0.1)) - 0.1).abs() < 1e-15);
/// ```
pub fn ndtri(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    if (p - 0.5).abs() <= 0.25 {
        return SQRT_2 * erfinv(2.0 * (p - 0.5));
    }
    if p > 0.5 {
        return -ndtri(1.0 - p);
    }
    let l = p.ln();
    let t = (-2.0 * l).sqrt();
    let mut x = -(t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + t * 0.04481)));
    for _ in 0..5 {
        // d/dx ln Φ = φ/Φ = sqrt(2/π) / erfcx(-x/√2).
        let step = (log_ndtr(x) - l) * erfcx(-x * FRAC_1_SQRT_2) * FRAC_PI_2.sqrt();
        x -= step;
        if step.abs() < 1e-15 * x.abs() {
            break;
        }
    }
    x
}
