//! The error function and its relatives.

use super::coefficients::{ERF_LARGE, ERF_SMALL, poly};
use core::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// Error function, at most 2 ULP, without branches.
///
/// Below 0.8 an odd polynomial; above, 1 - e^(-a²) / (1 + 2a) times a polynomial in (a - 4) / (a + 4).
///
/// ```
/// assert_eq!(gradus_math::f64::erf(0.0), 0.0);
/// assert_eq!(gradus_math::f64::erf(f64::INFINITY), 1.0);
/// ```
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let small = poly(a * a, &ERF_SMALL).mul_add(a, a);
    let c = if a > 6.0 { 6.0 } else { a };
    let (d, g) = (c + 4.0, c.mul_add(2.0, 1.0));
    let inv = 1.0 / (d * g);
    let p = poly((c - 4.0) * (g * inv), &ERF_LARGE);
    let big = 1.0 - p * (d * inv) * super::exp(-(c * c));
    (if a < 0.8 { small } else { big }).copysign(x)
}

/// Complementary error function 1 - erf(x), relatively accurate for large x (from `libm`).
///
/// ```
/// assert!(gradus_math::f64::erfc(20.0) > 0.0);
/// ```
pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// e^(x²), with the rounding error of x² carried over.
fn exp_sq(x: f64) -> f64 {
    let h = x * x;
    let l = x.mul_add(x, -h);
    let e = h.exp();
    if e.is_finite() { l.mul_add(e, e) } else { e }
}

/// Scaled complementary error function e^(x²) erfc(x).
///
/// The product up to 12, the asymptotic series 1/(x√π) Σ (-1)^k (2k-1)!!/(2x²)^k beyond.
///
/// ```
/// assert_eq!(gradus_math::f64::erfcx(0.0), 1.0);
/// ```
pub fn erfcx(x: f64) -> f64 {
    if x < 12.0 {
        return if x < 0.0 { 2.0 * exp_sq(x) - erfcx(-x) } else { exp_sq(x) * erfc(x) };
    }
    let lead = 0.5 * FRAC_2_SQRT_PI / x;
    let t = 0.5 / (x * x);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 0..20 {
        term *= -((2 * k + 1) as f64) * t;
        sum += term;
    }
    lead * sum
}

/// Inverse of [`erf`]: ±inf at ±1, NaN beyond.
///
/// Newton steps on erf up to 1/2, the normal quantile of the tail beyond.
///
/// ```
/// use gradus_math::f64::{erf, erfinv};
/// assert!((erf(erfinv(0.3)) - 0.3).abs() < 1e-15);
/// ```
pub fn erfinv(y: f64) -> f64 {
    let a = y.abs();
    if a <= 0.5 {
        // Start from the Maclaurin series, then Halley.
        let z = a * a * core::f64::consts::PI;
        let c = poly!(z; 1.0, 1.0 / 12.0, 7.0 / 480.0, 127.0 / 40320.0, 4369.0 / 5_806_080.0, 34807.0 / 182_476_800.0);
        let mut x = a * c / FRAC_2_SQRT_PI;
        for _ in 0..2 {
            let u = (erf(x) - a) / (FRAC_2_SQRT_PI * (-x * x).exp());
            x -= u / (1.0 + x * u);
        }
        return x.copysign(y);
    }
    if a > 1.0 || a.is_nan() {
        return f64::NAN;
    }
    (-super::normal::ndtri(0.5 * (1.0 - a)) / SQRT_2).copysign(y)
}
