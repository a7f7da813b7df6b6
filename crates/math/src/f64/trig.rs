//! Sine and cosine of doubles, without branches where the argument is not huge; see [`crate::block::guarded1`].

use super::coefficients::{MAGIC, poly};
use core::f64::consts::FRAC_2_PI;

/// pi / 2 in three parts; the first two have 33 bits, so that their products with whole numbers below 2^20 are exact.
const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// `sin r = r + r^3 p(r^2)`, those of fdlibm.
const SIN: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];
/// `cos r = 1 - r^2 / 2 + r^4 p(r^2)`.
const COS: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// Whether [`sin_near`] and [`cos_near`] are right.
#[inline(always)]
pub fn is_small_angle(x: f64) -> bool {
    x.abs() < 1e6
}

/// The bits of how many quarter turns there are in `x`, and sine and cosine of what is left.
#[inline(always)]
fn quarters(x: f64) -> (u64, f64, f64) {
    let k = x.mul_add(FRAC_2_PI, MAGIC);
    let n = k - MAGIC;
    // The angle in two parts: what is lost of the second subtraction matters near zeros.
    let a = n.mul_add(-HALF_PI[0], x);
    let w = n * HALF_PI[1];
    let r = a - w;
    let low = n.mul_add(-HALF_PI[2], (a - r) - w);
    let y = r + low;
    let low = (r - y) + low;
    let z = y * y;
    let s = (z * y).mul_add(poly(z, &SIN), z.mul_add(-0.5 * low, low)) + y;
    let half = 0.5 * z;
    let one = 1.0 - half;
    let c = one + ((1.0 - one) - half + (z * z).mul_add(poly(z, &COS), -(y * low)));
    (k.to_bits(), s, c)
}

/// The sine (or, a quarter turn on, the cosine) of `x`, at most 1 ULP where [`is_small_angle`].
#[inline(always)]
fn turned(x: f64, more: u64) -> f64 {
    let (q, s, c) = quarters(x);
    let q = q.wrapping_add(more);
    let v = if q & 1 == 0 { s } else { c };
    f64::from_bits(v.to_bits() ^ (q & 2) << 62)
}

/// tan x, at most 2 ULP, where [`is_small_angle`].
///
/// ```
/// assert!((gradus_math::f64::tan_near(3.0) - 3f64.tan()).abs() < 1e-16);
/// ```
#[inline(always)]
pub fn tan_near(x: f64) -> f64 {
    let (q, s, c) = quarters(x);
    let even = q & 1 == 0;
    let y = (if even { s } else { -c }) / (if even { c } else { s });
    if x == 0.0 { x } else { y }
}

/// sin x where [`is_small_angle`].
///
/// ```
/// assert!((gradus_math::f64::sin_near(3.0) - 3f64.sin()).abs() < 1e-16);
/// ```
#[inline(always)]
pub fn sin_near(x: f64) -> f64 {
    // The sum above loses the sign of zero.
    if x == 0.0 { x } else { turned(x, 0) }
}

/// cos x where [`is_small_angle`].
///
/// ```
/// assert_eq!(gradus_math::f64::cos_near(0.0), 1.0);
/// ```
#[inline(always)]
pub fn cos_near(x: f64) -> f64 {
    turned(x, 1)
}
