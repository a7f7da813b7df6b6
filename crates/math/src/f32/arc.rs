//! Inverse circular functions, computed in `f64` but for the arc tangent of one number.

use super::coefficients::{ATAN, ATAN_LOW, ATAN_TOP};
use core::f64::consts::{FRAC_PI_2, PI};

/// |x| > 1/2 and asin of |x| or, where |x| > 1/2, of sqrt((1 - |x|) / 2).
#[inline(always)]
fn asin_core(x: f32) -> (bool, f64) {
    let a = x.abs() as f64;
    let big = a > 0.5;
    let z = if big { (1.0 - a) * 0.5 } else { a * a };
    let root = z.sqrt();
    let s = if big { root } else { a };
    let q = poly!(z;
        0.166_666_666_453_871_82, 0.075_000_036_400_436_13, 0.044_641_031_407_235_486,
        0.030_423_118_383_233_347, 0.021_881_583_424_962_82, 0.020_627_293_098_928_6,
        0.001_903_454_933_063_678_4, 0.033_096_629_932_494_01);
    (big, (s * z).mul_add(q, s))
}

/// Arc sine, at most 1 ULP; NaN outside [-1, 1].
///
/// ```
/// assert_eq!(gradus_math::f32::asin(1.0), core::f32::consts::FRAC_PI_2);
/// ```
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let (big, p) = asin_core(x);
    let y = if big { FRAC_PI_2 - 2.0 * p } else { p };
    (y as f32).copysign(x)
}

/// Arc cosine, at most 1 ULP; NaN outside [-1, 1].
///
/// ```
/// assert_eq!(gradus_math::f32::acos(1.0), 0.0);
/// ```
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let (big, p) = asin_core(x);
    let edge = if x < 0.0 { 2.0f64.mul_add(-p, PI) } else { 2.0 * p };
    let mid = FRAC_PI_2 - p.copysign(x as f64);
    (if big { edge } else { mid }) as f32
}

/// atan on [0, 1].
#[inline(always)]
fn atan_unit(q: f64) -> f64 {
    let z = q * q;
    let p = poly!(z;
        -0.333_333_296_691_565_9, 0.199_997_512_134_122_26, -0.142_806_060_144_708_17,
        0.110_616_422_175_896_62, -0.088_184_565_385_086_97, 0.067_475_141_827_377_64,
        -0.044_639_312_403_413_82, 0.022_396_525_108_782_22, -0.007_208_695_973_735_057,
        0.001_084_492_749_779_487_5);
    (q * z).mul_add(p, q)
}

/// Arc tangent, at most 1.25 ULP, all in `f32`: above 1 a quarter of a turn less that of 1 / x.
///
/// ```
/// assert_eq!(gradus_math::f32::atan(f32::INFINITY), core::f32::consts::FRAC_PI_2);
/// ```
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > ATAN_TOP { ATAN_TOP } else { a };
    let big = a > 1.0;
    let num = if big { 1.0 } else { a };
    let below = if big { a } else { 1.0 };
    let q = num / below;
    // What the division lost, times the slope, which is 1 / (1 + q²), roughly.
    let lost = (-q).mul_add(below, num) * q;
    let z = q * q;
    let p = poly!(z; ATAN[0], ATAN[1], ATAN[2], ATAN[3], ATAN[4], ATAN[5], ATAN[6], ATAN[7]);
    let low = lost.mul_add(z.mul_add(-0.5, 1.0), if big { ATAN_LOW } else { 0.0 });
    let y = q + (q * z).mul_add(p, low);
    (if big { core::f32::consts::FRAC_PI_2 - y } else { y }).copysign(x)
}

/// The angle of the point (x, y), in [-π, π], at most 1 ULP, with the IEEE rules for
/// signed zeros and infinities.
///
/// ```
/// # use gradus_math::f32::atan2;
/// assert_eq!(atan2(0.0, -1.0), core::f32::consts::PI);
/// assert_eq!(atan2(1.0, 1.0), core::f32::consts::FRAC_PI_4);
/// ```
#[inline(always)]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (ay, ax) = (y.abs() as f64, x.abs() as f64);
    let steep = ay > ax;
    let hi = if steep { ay } else { ax };
    let lo = if steep { ax } else { ay };
    let q = lo / hi;
    let q = if lo == hi { 1.0 } else { q };
    let q = if lo == 0.0 { 0.0 } else { q };
    let p = atan_unit(q);
    let p = if steep { FRAC_PI_2 - p } else { p };
    let p = if x.is_sign_negative() { PI - p } else { p };
    let r = (p as f32).copysign(y);
    if x.is_nan() | y.is_nan() { f32::NAN } else { r }
}
