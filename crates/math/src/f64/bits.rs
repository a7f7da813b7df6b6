//! Functions on the representation of a number.

/// The next `f64` after `x` in the direction of `y`; NaN if either is.
///
/// ```
/// assert_eq!(gradus_math::f64::nextafter(1.0, 2.0), 1.0 + f64::EPSILON);
/// ```
#[inline(always)]
pub fn nextafter(x: f64, y: f64) -> f64 {
    let away = (y > x) == (x > 0.0);
    let b = x.to_bits();
    let step = f64::from_bits(if away { b.wrapping_add(1) } else { b.wrapping_sub(1) });
    let step = if x == 0.0 { f64::from_bits(1).copysign(y) } else { step };
    let step = if x == y { y } else { step };
    if x.is_nan() | y.is_nan() { f64::NAN } else { step }
}

/// The next `f32` after `x` in the direction of `y`; NaN if either is.
///
/// ```
/// assert_eq!(gradus_math::f64::nextafter32(1.0, 2.0), 1.0 + f32::EPSILON);
/// ```
#[inline(always)]
pub fn nextafter32(x: f32, y: f32) -> f32 {
    let away = (y > x) == (x > 0.0);
    let b = x.to_bits();
    let step = f32::from_bits(if away { b.wrapping_add(1) } else { b.wrapping_sub(1) });
    let step = if x == 0.0 { f32::from_bits(1).copysign(y) } else { step };
    let step = if x == y { y } else { step };
    if x.is_nan() | y.is_nan() { f32::NAN } else { step }
}

/// x = m 2^e with 1/2 <= |m| < 1; zeros, infinities and NaN come back with e = 0.
///
/// ```
/// assert_eq!(gradus_math::f64::frexp(6.0), (0.75, 3));
/// ```
pub fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let subnormal = x.abs() < f64::MIN_POSITIVE;
    let (x, shift) = if subnormal { (x * 18_014_398_509_481_984.0, -54) } else { (x, 0) };
    let b = x.to_bits();
    let e = ((b >> 52) & 0x7ff) as i32 - 1022;
    (f64::from_bits((b & 0x800f_ffff_ffff_ffff) | 0x3fe0_0000_0000_0000), e + shift)
}

/// x 2^e, rounded once.
///
/// ```
/// assert_eq!(gradus_math::f64::ldexp(0.75, 3), 6.0);
/// assert_eq!(gradus_math::f64::ldexp(1.0, -1074), f64::from_bits(1));
/// ```
pub fn ldexp(x: f64, e: i32) -> f64 {
    libm::scalbn(x, e)
}
