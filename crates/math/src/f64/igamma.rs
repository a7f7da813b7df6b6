//! Regularised incomplete gamma functions.

use super::erf::erfc;
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
    if u.abs() > 0.4 && a < 150.0 && x < 600.0 {
        // (x/a)^a e^(a-x): the power is more accurate than the exponential of a large logarithm.
        let p = (x / a).powf(a);
        if p > f64::MIN_POSITIVE {
            return p * ((a - x) - stirling_rest(a)).exp() / (2.0 * core::f64::consts::PI * a).sqrt();
        }
    }
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

/// ln Γ(1 + a) for 0 <= a, relatively accurate near zero.
fn lgamma1p(a: f64) -> f64 {
    if a > 0.2 {
        return lgamma(1.0 + a);
    }
    // -ln(1+a) + (1-γ) a + Σ (-1)^k (ζ(k)-1) a^k / k.
    let s = poly!(a;
        0.322_467_033_424_113_2, -0.067_352_301_053_198_1, 0.020_580_808_427_784_546,
        -0.007_385_551_028_673_986, 0.002_890_510_330_741_523_4, -0.001_192_753_911_703_261,
        0.000_509_669_524_743_042_5, -0.000_223_154_758_453_579_39, 9.945_751_278_180_853e-5,
        -4.492_623_673_813_314e-5, 2.050_721_277_567_069e-5, -9.439_488_275_268_397e-6,
        4.374_866_789_907_488e-6, -2.039_215_753_801_366e-6);
    (s * a).mul_add(a, 0.422_784_335_098_467_13 * a) - a.ln_1p()
}

/// Q for small x, where 1 - P cancels: 1 - x^a/Γ(1+a) without its leading 1, less the rest of the series.
fn upper_series(a: f64, x: f64) -> f64 {
    let (mut fac, mut sum, mut n) = (1.0, 0.0f64, 1.0);
    loop {
        fac *= -x / n;
        let t = fac / (a + n);
        sum += t;
        if t.abs() <= 1e-17 * sum.abs() {
            break;
        }
        n += 1.0;
    }
    let l = a.mul_add(x.ln(), -lgamma1p(a));
    -l.exp_m1() - a * l.exp() * sum
}

/// P and Q for large a by Temme's uniform expansion, right to about 1e-15 for a > 1e6.
fn temme(a: f64, x: f64) -> (f64, f64) {
    let u = (x - a) / a;
    let half = -log1p_minus(u);
    let eta = (2.0 * half).sqrt().copysign(u);
    let e = eta.clamp(-1.0, 1.0);
    let c0 = poly!(e;
        -1.0 / 3.0, 1.0 / 12.0, -2.0 / 135.0, 1.0 / 864.0, 1.0 / 2835.0, -139.0 / 777_600.0, 1.0 / 25515.0);
    let c1 = poly!(e; -1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0);
    let r = (-a * half).exp() / (2.0 * core::f64::consts::PI * a).sqrt() * (c0 + c1 / a);
    let z = eta * (0.5 * a).sqrt();
    (0.5 * erfc(-z) - r, 0.5 * erfc(z) + r)
}

/// Regularised lower incomplete gamma function P(a, x), for a >= 0 and x >= 0; NaN elsewhere.
///
/// The power series below a + 1, Legendre's continued fraction above, Temme's uniform expansion
/// for a > 1e6. The relative error is about 1e-14 plus a few times a·ε, which is how the function
/// magnifies an error of x.
///
/// ```
/// assert!((gradus_math::f64::igamma(1.0, 2.0) - (1.0 - (-2f64).exp())).abs() < 1e-15);
/// ```
pub fn igamma(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(p) => p,
        None if a > 1e6 => temme(a, x).0,
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
        None if a > 1e6 => temme(a, x).1,
        None if x <= 1.1 && (if x <= 0.5 { a <= -0.4 / x.ln() } else { a <= 1.1 * x }) => upper_series(a, x),
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
