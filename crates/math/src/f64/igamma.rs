//! Regularised incomplete gamma functions.

use super::gamma::{gamma, lgamma};

/// ln(1+u) - u without cancellation.
fn log1p_minus(u: f64) -> f64 {
    if u.abs() > 0.4 {
        return u.ln_1p() - u;
    }
    // 2 atanh(s) - u with s = u/(2+u); 2s - u = -u s.
    let s = u / (2.0 + u);
    let z = s * s;
    let (mut term, mut sum, mut k) = (z, 0.0, 3.0);
    loop {
        let t = term / k;
        sum += t;
        if t <= 1e-18 * sum || t == 0.0 {
            break;
        }
        term *= z;
        k += 2.0;
    }
    2.0 * s * sum - u * s
}

/// ln Γ(a) - [(a - 1/2) ln a - a + ln(2π)/2] for a >= 10.
fn stirling_rest(a: f64) -> f64 {
    let z = 1.0 / (a * a);
    poly!(z; 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0) / a
}

/// x^a e^-x / Γ(a + 1).
fn prefactor(a: f64, x: f64) -> f64 {
    if a < 10.0 {
        if !(1e-3..=100.0).contains(&x) {
            return (a * x.ln() - x - lgamma(a + 1.0)).exp();
        }
        return x.powf(a) * (-x).exp() / gamma(a + 1.0);
    }
    let u = (x - a) / a;
    let d = if u.is_finite() { log1p_minus(u) } else { f64::NEG_INFINITY };
    (a * d - stirling_rest(a)).exp() / (2.0 * core::f64::consts::PI * a).sqrt()
}

/// P by its power series, for x not much above a.
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, a);
    while term > 1e-17 * sum {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    sum * prefactor(a, x)
}

/// Q by Legendre's continued fraction (Lentz), for x above a.
fn fraction(a: f64, x: f64) -> f64 {
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / tiny;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..1_000_000 {
        let i = i as f64;
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = if d.abs() < tiny { tiny } else { d };
        c = b + an / c;
        c = if c.abs() < tiny { tiny } else { c };
        d = 1.0 / d;
        let del = d * c;
        h *= del;
        if (del - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h * a * prefactor(a, x)
}

/// Regularised lower incomplete gamma function P(a, x), for a >= 0 and x >= 0; NaN elsewhere.
///
/// ```
/// assert!((gradus_math::f64::igamma(1.0, 2.0) - (1.0 - (-2f64).exp())).abs() < 1e-15);
/// ```
pub fn igamma(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(p) => p,
        None if x <= a + 1.0 || x < 1.0 => series(a, x),
        None => 1.0 - fraction(a, x),
    }
}

/// Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).
///
/// ```
/// assert!((gradus_math::f64::igammac(1.0, 2.0) - (-2f64).exp()).abs() < 1e-15);
/// ```
pub fn igammac(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(p) => 1.0 - p,
        None if x <= a + 1.0 || x < 1.0 => 1.0 - series(a, x),
        None => fraction(a, x),
    }
}

/// The value of P where no computation is needed.
fn edge(a: f64, x: f64) -> Option<f64> {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        Some(f64::NAN)
    } else if a == 0.0 {
        Some(if x > 0.0 { 1.0 } else { f64::NAN })
    } else if x == 0.0 {
        Some(0.0)
    } else if a == f64::INFINITY {
        Some(if x == f64::INFINITY { f64::NAN } else { 0.0 })
    } else if x == f64::INFINITY {
        Some(1.0)
    } else {
        None
    }
}
