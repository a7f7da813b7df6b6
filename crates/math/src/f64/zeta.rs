//! The Hurwitz and Riemann zeta functions.

/// Coefficients (2k)! / B_2k of the Euler–Maclaurin tail.
const A: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1_209_600.0,
    47_900_160.0,
    -1.892_437_580_318_379_3e9,
    7.47242496e10,
    -2.950_130_727_918_164e12,
    1.164_678_281_435_006_8e14,
    -4.597_978_722_407_473e15,
    1.815_210_540_194_354_6e17,
    -7.166_165_256_175_667e18,
];

/// Hurwitz zeta function Σ (k + q)^-s over k >= 0, for s > 1 (NaN below, inf at s = 1).
///
/// Euler–Maclaurin after about ten terms. For q <= 0: inf at integers; elsewhere defined for
/// integral s only.
///
/// ```
/// let pi = core::f64::consts::PI;
/// assert!((gradus_math::f64::zeta(2.0, 1.0) - pi * pi / 6.0).abs() < 1e-15);
/// ```
pub fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 || s.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    if q > 1e8 {
        return (1.0 / (s - 1.0) + 0.5 / q) * q.powf(1.0 - s);
    }
    let mut sum = q.powf(-s);
    let mut a = q;
    let mut i = 0;
    let mut b;
    loop {
        i += 1;
        a += 1.0;
        b = a.powf(-s);
        sum += b;
        if (b / sum).abs() < 1e-17 && a > 0.0 {
            return sum;
        }
        if i >= 9 && a > 9.0 {
            break;
        }
    }
    let w = a;
    sum += b * w / (s - 1.0) - 0.5 * b;
    let (mut fac, mut k) = (1.0, 0.0);
    for c in A {
        fac *= s + k;
        b /= w;
        let t = fac * b / c;
        sum += t;
        if (t / sum).abs() < 1e-17 {
            break;
        }
        k += 1.0;
        fac *= s + k;
        b /= w;
        k += 1.0;
    }
    sum
}

/// Riemann zeta function for s > 1.
///
/// ```
/// assert!((gradus_math::f64::riemann_zeta(3.0) - 1.202_056_903_159_594).abs() < 1e-15);
/// ```
pub fn riemann_zeta(s: f64) -> f64 {
    zeta(s, 1.0)
}
