//! Bessel functions of orders 0 and 1.

use core::f64::consts::PI;

/// Σ (x/2)^(2k) / (k! (k+ν)!), all terms positive.
fn series(x: f64, nu: f64) -> f64 {
    let q = 0.25 * x * x;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 0.0);
    while term > 1e-17 * sum {
        k += 1.0;
        term *= q / (k * (k + nu));
        sum += term;
    }
    sum
}

/// sqrt(2πx) e^-x I_ν(x) for x > 20, by Hankel's expansion.
fn hankel(x: f64, nu: f64) -> f64 {
    let mu = 4.0 * nu * nu;
    let (mut term, mut sum) = (1.0f64, 1.0);
    let mut k = 1.0;
    while k < 40.0 && term.abs() > 1e-17 {
        let odd = 2.0 * k - 1.0;
        term *= (odd * odd - mu) / (8.0 * k * x);
        sum += term;
        k += 1.0;
    }
    sum
}

/// Modified Bessel function I₀(x).
///
/// The power series up to 20, Hankel's asymptotic expansion beyond.
///
/// ```
/// assert_eq!(gradus_math::f64::i0(0.0), 1.0);
/// ```
pub fn i0(x: f64) -> f64 {
    let a = x.abs();
    if a <= 20.0 { series(a, 0.0) } else { grow(a, hankel(a, 0.0)) }
}

/// e^-|x| I₀(x).
///
/// ```
/// assert_eq!(gradus_math::f64::i0e(0.0), 1.0);
/// ```
pub fn i0e(x: f64) -> f64 {
    let a = x.abs();
    if a <= 20.0 { series(a, 0.0) * (-a).exp() } else { hankel(a, 0.0) / (2.0 * PI * a).sqrt() }
}

/// Modified Bessel function I₁(x), odd in x.
///
/// ```
/// assert_eq!(gradus_math::f64::i1(0.0), 0.0);
/// ```
pub fn i1(x: f64) -> f64 {
    let a = x.abs();
    let v = if a <= 20.0 { 0.5 * a * series(a, 1.0) } else { grow(a, hankel(a, 1.0)) };
    v.copysign(x)
}

/// e^-|x| I₁(x).
///
/// ```
/// assert_eq!(gradus_math::f64::i1e(0.0), 0.0);
/// ```
pub fn i1e(x: f64) -> f64 {
    let a = x.abs();
    let v = if a <= 20.0 { 0.5 * a * series(a, 1.0) * (-a).exp() } else { hankel(a, 1.0) / (2.0 * PI * a).sqrt() };
    v.copysign(x)
}

/// e^a h / sqrt(2πa), in two steps so that only the result overflows.
fn grow(a: f64, h: f64) -> f64 {
    if a == f64::INFINITY {
        return a;
    }
    let e = (0.5 * a).exp();
    e * (h / (2.0 * PI * a).sqrt()) * e
}

/// Bessel function of the first kind J₀ (from `libm`).
///
/// ```
/// assert_eq!(gradus_math::f64::bessel_j0(0.0), 1.0);
/// ```
pub fn bessel_j0(x: f64) -> f64 {
    libm::j0(x)
}

/// Bessel function of the first kind J₁ (from `libm`).
///
/// ```
/// assert_eq!(gradus_math::f64::bessel_j1(0.0), 0.0);
/// ```
pub fn bessel_j1(x: f64) -> f64 {
    libm::j1(x)
}

/// Bessel function of the second kind Y₀ (from `libm`): -inf at 0, NaN below.
///
/// ```
/// assert_eq!(gradus_math::f64::bessel_y0(0.0), f64::NEG_INFINITY);
/// ```
pub fn bessel_y0(x: f64) -> f64 {
    libm::y0(x)
}

/// Bessel function of the second kind Y₁ (from `libm`): -inf at 0, NaN below.
///
/// ```
/// assert_eq!(gradus_math::f64::bessel_y1(0.0), f64::NEG_INFINITY);
/// ```
pub fn bessel_y1(x: f64) -> f64 {
    libm::y1(x)
}
