//! Integer and remainder helpers.

/// Greatest common divisor, never negative (but for two arguments of `i64::MIN`, where it wraps).
///
/// ```
/// assert_eq!(gradus_math::f64::gcd(-12, 18), 6);
/// ```
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

/// Least common multiple, never negative unless it wraps; zero if either is.
///
/// ```
/// assert_eq!(gradus_math::f64::lcm(4, -6), 12);
/// ```
pub fn lcm(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 { 0 } else { (a / gcd(a, b)).wrapping_mul(b).wrapping_abs() }
}

/// Remainder with the sign of the dividend (C `fmod`), exact.
///
/// ```
/// assert_eq!(gradus_math::f64::fmod(-7.0, 3.0), -1.0);
/// ```
pub fn fmod(x: f64, y: f64) -> f64 {
    x % y
}

/// Whether [`fmod_near`] is right: the quotient is below 2^52.
#[inline(always)]
pub fn is_near(a: f64, b: f64) -> bool {
    ((a / b).abs() < 4_503_599_627_370_496.0) & (b.abs() < f64::INFINITY)
}

/// `a % b` where [`is_near`], exactly and without branches.
///
/// The rounded quotient's whole part may be one too many; what it leaves is a double either way.
///
/// ```
/// assert_eq!(gradus_math::f64::fmod_near(-7.5, 2.0), -1.5);
/// ```
#[inline(always)]
pub fn fmod_near(a: f64, b: f64) -> f64 {
    let (x, y) = (a.abs(), b.abs());
    let r = (x / y).trunc().mul_add(-y, x);
    (if r < 0.0 { r + y } else { r }).copysign(a)
}

/// Remainder with the sign of the divisor (Python `%`).
///
/// ```
/// assert_eq!(gradus_math::f64::remainder(-7.0, 3.0), 2.0);
/// ```
pub fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r == 0.0 {
        r.copysign(y)
    } else if (r < 0.0) != (y < 0.0) {
        r + y
    } else {
        r
    }
}

/// Nearest integer, halves to even.
///
/// ```
/// assert_eq!(gradus_math::f64::round_half_even(2.5), 2.0);
/// ```
pub fn round_half_even(x: f64) -> f64 {
    x.round_ties_even()
}
