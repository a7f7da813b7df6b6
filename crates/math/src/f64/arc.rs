//! Inverse circular functions of doubles, without branches.

use super::coefficients::poly;
use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// `atan q = q + q^3 p(q^2)` up to tan(π/8).
const ATAN: [f64; 11] = [
    -0.333_333_333_333_332,
    0.199_999_999_999_536_6,
    -0.142_857_142_802_038_34,
    0.111_111_107_838_079_55,
    -0.090_908_977_669_455_91,
    0.076_920_603_600_514_03,
    -0.066_631_054_410_463_24,
    0.058_478_973_123_416_586,
    -0.050_393_305_576_044_725,
    0.038_064_949_706_167_77,
    -0.017_907_339_487_361_44,
];

/// `asin s = s + s^3 p(s^2)` up to 1/2.
const ASIN: [f64; 13] = [
    0.166_666_666_666_667_63,
    0.074_999_999_999_700_99,
    0.044_642_857_175_286_33,
    0.030_381_942_675_273_575,
    0.022_372_215_905_853_487,
    0.017_351_595_505_830_646,
    0.013_981_018_401_377_054,
    0.011_397_294_707_402_417,
    0.010_789_308_725_686_822,
    0.003_672_243_449_633_403_4,
    0.021_790_478_520_933_094,
    -0.021_116_444_765_837_56,
    0.032_701_968_962_048_675,
];
/// π/2 less the nearest double.
const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;

/// |x| > 1/2 and asin of |x| or, where |x| > 1/2, of sqrt((1 - |x|) / 2): in two parts.
#[inline(always)]
fn asin_core(x: f64) -> (bool, f64, f64) {
    let a = x.abs();
    let big = a > 0.5;
    let z = if big { (1.0 - a) * 0.5 } else { a * a };
    let root = z.sqrt();
    let s = if big { root } else { a };
    // What the root was rounded by.
    let low = if big { (-root).mul_add(root, z) / (root + root) } else { 0.0 };
    let low = if root == 0.0 { 0.0 } else { low };
    (big, s, (s * z).mul_add(poly(z, &ASIN), low))
}

/// Arc sine, at most 2 ULP; NaN outside [-1, 1].
///
/// ```
/// assert_eq!(gradus_math::f64::asin(1.0), core::f64::consts::FRAC_PI_2);
/// ```
#[inline(always)]
pub fn asin(x: f64) -> f64 {
    let (big, s, more) = asin_core(x);
    let y = if big { FRAC_PI_2 - (2.0f64.mul_add(more, -HALF_PI_LOW) + 2.0 * s) } else { s + more };
    y.copysign(x)
}

/// Arc cosine, at most 2 ULP; NaN outside [-1, 1].
///
/// ```
/// assert_eq!(gradus_math::f64::acos(1.0), 0.0);
/// ```
#[inline(always)]
pub fn acos(x: f64) -> f64 {
    let (big, s, more) = asin_core(x);
    let twice = 2.0 * (s + more);
    let edge = if x < 0.0 { PI - (twice - 2.0 * HALF_PI_LOW) } else { twice };
    let mid = FRAC_PI_2 - (s.copysign(x) + (more.copysign(more * x.signum()) - HALF_PI_LOW));
    if big { edge } else { mid }
}

/// atan of `lo / hi`, where both are not negative and `lo <= hi`: a turn of π/4 off where that is above tan(π/8).
#[inline(always)]
fn atan_ratio(lo: f64, hi: f64) -> f64 {
    const TAN_EIGHTH: f64 = 0.414_213_562_373_095_03;
    let far = lo > TAN_EIGHTH * hi;
    let q = (if far { lo - hi } else { lo }) / (if far { lo + hi } else { hi });
    let z = q * q;
    let more = (q * z) * poly(z, &ATAN);
    let y = q + more;
    if far { FRAC_PI_4 + (y + 0.5 * HALF_PI_LOW) } else { y }
}

/// Arc tangent, at most 2 ULP.
///
/// ```
/// assert_eq!(gradus_math::f64::atan(f64::INFINITY), core::f64::consts::FRAC_PI_2);
/// ```
#[inline(always)]
pub fn atan(x: f64) -> f64 {
    let a = x.abs();
    let a = if a > 1e300 { 1e300 } else { a };
    let steep = a > 1.0;
    let p = atan_ratio(if steep { 1.0 } else { a }, if steep { a } else { 1.0 });
    let y = if steep { FRAC_PI_2 - (p - HALF_PI_LOW) } else { p };
    y.copysign(x)
}

/// The angle of the point (x, y), in [-π, π], at most 2 ULP where it is normal, with the IEEE rules for
/// signed zeros and infinities.
///
/// ```
/// # use gradus_math::f64::atan2;
/// assert_eq!(atan2(0.0, -1.0), core::f64::consts::PI);
/// assert_eq!(atan2(1.0, 1.0), core::f64::consts::FRAC_PI_4);
/// ```
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (ay, ax) = (y.abs(), x.abs());
    let steep = ay > ax;
    let hi = if steep { ay } else { ax };
    let lo = if steep { ax } else { ay };
    // Both infinite, and both zero; and sums that must not overflow.
    let same = lo == hi;
    let lo = if same { 1.0 } else { lo };
    let lo = if ay == 0.0 { 0.0 } else { lo };
    let hi = if same { 1.0 } else { hi };
    let down = if hi > 1e300 { 0.25 } else { 1.0 };
    let p = atan_ratio(lo * down, hi * down);
    let p = if steep { FRAC_PI_2 - (p - HALF_PI_LOW) } else { p };
    let p = if x.is_sign_negative() { PI - (p - 2.0 * HALF_PI_LOW) } else { p };
    let r = p.copysign(y);
    if x.is_nan() | y.is_nan() { f64::NAN } else { r }
}
