//! The error function and its relatives.

use super::coefficients::{ERF_LARGE, ERF_SMALL, poly};
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `e^(a^2) erfc a = p((a - 4) / (a + 4)) / (1 + 2 a)` for all a >= 0, to 7e-18.
const ERFCX: [f64; 25] = [
    1.232_995_118_625_552_6,
    -0.139_621_116_840_562_3,
    0.015_379_652_102_619_365,
    0.068_097_054_254_669_1,
    -0.101_039_066_036_288_48,
    0.093_732_834_999_095_34,
    -0.066_330_365_812_423_52,
    0.037_167_515_526_534_25,
    -0.016_197_734_057_421_27,
    0.005_031_970_067_860_002_5,
    -0.000_757_773_275_400_261_8,
    -0.000_199_257_147_649_633_97,
    0.000_150_621_542_227_248_87,
    -2.439_774_321_089_896_5e-05,
    -1.122_141_447_764_724_3e-05,
    5.706_598_155_400_083e-06,
    2.921_802_606_912_980_6e-07,
    -8.210_861_560_084_675e-07,
    7.724_864_314_844_804e-08,
    1.063_326_455_472_820_3e-07,
    -2.041_091_595_257_030_7e-08,
    -1.234_433_145_842_074_2e-08,
    3.111_496_231_576_188_7e-09,
    9.307_069_580_335_518e-10,
    -2.561_157_779_082_014e-10,
];

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

/// [`erfcx`] of what is not negative.
#[inline(always)]
fn erfcx_positive(a: f64) -> f64 {
    let c = if a > 1e100 { 1e100 } else { a };
    let (d, g) = (c + 4.0, c.mul_add(2.0, 1.0));
    let inv = 1.0 / (d * g);
    let y = poly((c - 4.0) * (g * inv), &ERFCX) * (d * inv);
    // The leading term of the asymptotic series, which is all there is so far out.
    if a > 1e8 { 0.5 * FRAC_2_SQRT_PI / a } else { y }
}

/// e^(x²) or e^(-x²) with the rounding error of x² carried over.
#[inline(always)]
fn exp_square(x: f64, sign: f64) -> f64 {
    let h = x * x;
    let l = x.mul_add(x, -h);
    let e = super::exp(sign * h);
    (sign * l).mul_add(e, e)
}

/// Complementary error function 1 - erf(x), relatively accurate for large x, at most 8 ULP where it is normal, without
/// branches.
///
/// ```
/// assert!(gradus_math::f64::erfc(20.0) > 0.0);
/// assert_eq!(gradus_math::f64::erfc(0.0), 1.0);
/// ```
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    let a = x.abs();
    let small = 1.0 - poly(x * x, &ERF_SMALL).mul_add(x, x);
    let c = if a > 28.0 { 28.0 } else { a };
    let v = erfcx_positive(c) * exp_square(c, -1.0);
    let y = if x < 0.0 { 2.0 - v } else { v };
    if a < 0.25 { small } else { y }
}

/// Scaled complementary error function e^(x²) erfc(x), without branches.
///
/// A polynomial in (x - 4) / (x + 4) over 1 + 2x, and 2 e^(x²) less that of -x below zero.
///
/// ```
/// assert_eq!(gradus_math::f64::erfcx(0.0), 1.0);
/// ```
#[inline(always)]
pub fn erfcx(x: f64) -> f64 {
    let a = x.abs();
    let v = erfcx_positive(a);
    // Beyond 27 the square's exponential is infinite.
    let c = if a > 27.0 { 27.0 } else { a };
    let y = if x < 0.0 { 2.0f64.mul_add(exp_square(c, 1.0), -v) } else { v };
    let y = if x == 0.0 { 1.0 } else { y };
    if x < -26.7 { f64::INFINITY } else { y }
}

/// Inverse of [`erf`]: ±inf at ±1, NaN beyond; without branches.
///
/// The normal quantile, over the square root of two.
///
/// ```
/// use gradus_math::f64::{erf, erfinv};
/// assert!((erf(erfinv(0.3)) - 0.3).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn erfinv(y: f64) -> f64 {
    let tail = 0.5 * (1.0 - y.abs());
    let x = FRAC_1_SQRT_2 * super::normal::quantile(0.5 * y, tail);
    if tail == 0.0 { f64::INFINITY.copysign(y) } else { x }
}
