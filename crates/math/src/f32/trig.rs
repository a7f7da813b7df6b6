//! Circular functions.

use super::exp::MAGIC;
use super::kernel64::MAGIC as MAGIC64;
use super::reduce::reduce_large;

/// Largest |x| for which [`sin_small`] and [`cos_small`] hold.
pub const SMALL_ANGLE: f32 = 65536.0;

/// (n, r) with a = n π/2 + r, for 0 <= a <= [`SMALL_ANGLE`]: three-part π/2 with FMA.
#[inline(always)]
fn reduce_small(a: f32) -> (u32, f32) {
    let k = a.mul_add(core::f32::consts::FRAC_2_PI, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-1.570_796_4, a);
    let r = n.mul_add(4.371_139e-8, r);
    (k.to_bits(), n.mul_add(1.715_124_5e-15, r))
}

/// (n, r) for every finite a >= 0.
#[inline(always)]
fn reduce(a: f32) -> (u32, f32) {
    let (ns, rs) = reduce_small(a);
    let (nl, rl) = reduce_large(a);
    let small = a <= SMALL_ANGLE;
    (if small { ns } else { nl }, if small { rs } else { rl as f32 })
}

/// sin(n π/2 + r) for |r| <= π/4 and a little more.
#[inline(always)]
fn sin_quadrant(n: u32, r: f32) -> f32 {
    let z = r * r;
    let s = poly!(z; -0.166_666_67, 0.008_333_329, -0.000_198_391_89, 2.716_666_8e-6);
    let s = (r * z).mul_add(s, r);
    let c = poly!(z; 0.041_666_668, -0.001_388_888_6, 2.479_985e-5, -2.723_146_8e-7);
    let c = (z * z).mul_add(c, z.mul_add(-0.5, 1.0));
    let v = if n & 1 == 0 { s } else { c };
    f32::from_bits(v.to_bits() ^ ((n & 2) << 30))
}

/// Sine for |x| <= [`SMALL_ANGLE`], at most 2 ULP, all in `f32`; meaningless beyond.
///
/// ```
/// # use gradus_math::f32::{sin, sin_small};
/// assert_eq!(sin_small(100.0), sin(100.0));
/// ```
#[inline(always)]
pub fn sin_small(x: f32) -> f32 {
    let (n, r) = reduce_small(x.abs());
    let v = sin_quadrant(n, r);
    f32::from_bits(v.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// Cosine for |x| <= [`SMALL_ANGLE`], at most 2 ULP, all in `f32`; meaningless beyond.
///
/// ```
/// # use gradus_math::f32::{cos, cos_small};
/// assert_eq!(cos_small(100.0), cos(100.0));
/// ```
#[inline(always)]
pub fn cos_small(x: f32) -> f32 {
    let (n, r) = reduce_small(x.abs());
    sin_quadrant(n.wrapping_add(1), r)
}

/// Sine of any `f32`, at most 2 ULP.
///
/// Branch-free: computes both a three-part reduction and a Payne–Hanek one and selects.
/// [`sin_block`] does the second only for blocks that need it.
///
/// ```
/// # use gradus_math::f32::sin;
/// assert_eq!(sin(f32::MAX), (f32::MAX as f64).sin() as f32);
/// assert!(sin(f32::INFINITY).is_nan());
/// ```
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let a = x.abs();
    let (n, r) = reduce(a);
    let v = sin_quadrant(n, r);
    let v = f32::from_bits(v.to_bits() ^ (x.to_bits() & 0x8000_0000));
    if a < f32::INFINITY { v } else { f32::NAN }
}

/// Cosine of any `f32`, at most 2 ULP; built as [`sin`] is.
///
/// ```
/// assert_eq!(gradus_math::f32::cos(0.0), 1.0);
/// ```
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let a = x.abs();
    let (n, r) = reduce(a);
    let v = sin_quadrant(n.wrapping_add(1), r);
    if a < f32::INFINITY { v } else { f32::NAN }
}

/// |x| as quarter turns and a rest, where it is within [`SMALL_ANGLE`].
#[inline(always)]
fn reduce_small_64(a: f32) -> (u32, f64) {
    let a = a as f64;
    let k = a.mul_add(core::f64::consts::FRAC_2_PI, MAGIC64);
    let n = k - MAGIC64;
    (k.to_bits() as u32, n.mul_add(-6.123_233_995_736_766e-17, n.mul_add(-core::f64::consts::FRAC_PI_2, a)))
}

/// [`tan`] where |x| is within [`SMALL_ANGLE`].
///
/// ```
/// assert_eq!(gradus_math::f32::tan_small(1.0), 1f32.tan());
/// ```
#[inline(always)]
pub fn tan_small(x: f32) -> f32 {
    tan_quadrant(x, reduce_small_64(x.abs()))
}

/// Tangent of any `f32`, at most 1 ULP: reduction and polynomials in `f64`, one division.
///
/// ```
/// assert_eq!(gradus_math::f32::tan(1.0), 1f32.tan());
/// ```
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    let a = x.abs();
    let (n, r) = reduce_small_64(a);
    let (nl, rl) = reduce_large(a);
    let small = a <= SMALL_ANGLE;
    let v = tan_quadrant(x, (if small { n } else { nl }, if small { r } else { rl }));
    if a < f32::INFINITY { v } else { f32::NAN }
}

/// The tangent of quarter turns and a rest, with the sign of `x`.
#[inline(always)]
fn tan_quadrant(x: f32, (n, r): (u32, f64)) -> f32 {
    let z = r * r;
    let s = poly!(z;
        -0.166_666_666_666_385_47, 0.008_333_333_325_601_603, -0.000_198_412_637_198_443_37,
        2.755_529_975_675_007e-6, -2.475_582_794_797_791_5e-8);
    let s = (r * z).mul_add(s, r);
    let c = poly!(z;
        -0.499_999_999_996_349_2, 0.041_666_666_566_288_12, -0.001_388_888_094_111_471_5,
        2.479_896_497_764_257_4e-5, -2.717_248_501_279_042_7e-7);
    let c = c.mul_add(z, 1.0);
    let even = n & 1 == 0;
    let num = if even { s } else { -c };
    let den = if even { c } else { s };
    let v = (num / den) as f32;
    f32::from_bits(v.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// Applies `small` to each block of 64 whose elements are all within [`SMALL_ANGLE`], `full` to the rest.
#[inline(always)]
fn block(x: &[f32], out: &mut [f32], small: impl Fn(f32) -> f32, full: impl Fn(f32) -> f32) {
    assert_eq!(x.len(), out.len(), "input and output must be of one length");
    for (x, out) in x.chunks(64).zip(out.chunks_mut(64)) {
        // The bits of |x| order as integers, and NaN above all.
        let top = x.iter().fold(0, |m: u32, v| m.max(v.abs().to_bits()));
        if top <= SMALL_ANGLE.to_bits() {
            for (o, &v) in out.iter_mut().zip(x) {
                *o = small(v);
            }
        } else {
            for (o, &v) in out.iter_mut().zip(x) {
                *o = full(v);
            }
        }
    }
}

/// [`sin`] of a slice into another of the same length, at the speed of [`sin_small`] wherever a
/// block of 64 holds no large angle.
///
/// ```
/// let mut y = [0.0; 3];
/// gradus_math::f32::sin_block(&[0.0, 1.0, 1e30], &mut y);
/// assert_eq!(y[2], gradus_math::f32::sin(1e30));
/// ```
///
/// # Panics
///
/// Where the lengths differ.
#[inline(always)]
pub fn sin_block(x: &[f32], out: &mut [f32]) {
    block(x, out, sin_small, sin);
}

/// [`cos`] of a slice into another of the same length, as [`sin_block`].
///
/// ```
/// let mut y = [0.0; 2];
/// gradus_math::f32::cos_block(&[0.0, 1e30], &mut y);
/// assert_eq!(y, [1.0, gradus_math::f32::cos(1e30)]);
/// ```
///
/// # Panics
///
/// Where the lengths differ.
#[inline(always)]
pub fn cos_block(x: &[f32], out: &mut [f32]) {
    block(x, out, cos_small, cos);
}
