//! Remainders that most numbers have without branches; see [`crate::block::guarded2`].

/// Whether [`fmod_near`] is right: the quotient is below 2^24.
#[inline(always)]
pub fn is_near(a: f32, b: f32) -> bool {
    ((a as f64 / b as f64).abs() < 16_777_216.0) & (b.abs() < f32::INFINITY)
}

/// `a % b` where [`is_near`], exactly.
///
/// The quotient of two numbers of 24 bits is at least 2^-25 from a whole number that it is not, so the rounded one has the
/// same whole part; and what that times `b` takes away leaves a number of 24 bits.
///
/// ```
/// assert_eq!(gradus_math::f32::fmod_near(-7.5, 2.0), -1.5);
/// ```
#[inline(always)]
pub fn fmod_near(a: f32, b: f32) -> f32 {
    let (x, y) = (a as f64, b as f64);
    let whole = (x / y).trunc();
    ((x - whole * y) as f32).copysign(a)
}

/// Whether 32 bits hold both, and the second is not zero: then [`quotient`] is right.
#[inline(always)]
pub fn is_short(a: i64, b: i64) -> bool {
    (a as i32 as i64 == a) & (b as i32 as i64 == b) & (b != 0)
}

/// The whole part of `a / b` where [`is_short`].
///
/// ```
/// assert_eq!(gradus_math::f32::quotient(-7, 2), -3);
/// ```
#[inline(always)]
pub fn quotient(a: i64, b: i64) -> i64 {
    let (a, b) = (a as i32 as f64, if b as i32 == 0 { 1.0 } else { b as i32 as f64 });
    // SAFETY: two numbers of 32 bits, the second not zero, have a quotient of at most 2^31.
    unsafe { (a / b).to_int_unchecked::<i64>() }
}
