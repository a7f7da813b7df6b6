//! The error function.

use super::kernel64::{exp_64, ln_64};
use super::parts::ERF;

/// Error function, at most 2 ULP, all in `f32`.
///
/// Sixteen parts, each with a polynomial of degree 5 whose coefficients are looked up ([`ERF`]).
///
/// ```
/// assert_eq!(gradus_math::f32::erf(f32::INFINITY), 1.0);
/// ```
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    ERF.at(x)
}

/// Complementary error function, at most 1 ULP down to the smallest subnormal.
///
/// e^(-a²) / (1 + 2a) times a degree-12 polynomial in (a - 3) / (a + 3), in `f64`.
///
/// ```
/// assert_eq!(gradus_math::f32::erfc(0.0), 1.0);
/// assert!(gradus_math::f32::erfc(10.0) > 0.0);
/// ```
#[inline(always)]
pub fn erfc(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.5 { 10.5 } else { a } as f64;
    let d = a + 3.0;
    let g = a.mul_add(2.0, 1.0);
    let inv = 1.0 / (d * g);
    let q = (a - 3.0) * (g * inv);
    let p = poly!(q;
        1.253_008_058_270_033, -0.135_621_107_015_366_95, -0.047_562_294_508_332_18,
        0.129_645_206_122_772_75, -0.119_273_635_251_197_26, 0.068_307_316_314_710_11,
        -0.023_771_242_965_119_288, 0.002_533_659_949_605_689_4, 0.001_895_074_874_072_158,
        -0.000_789_628_868_030_328_2, -0.000_127_756_710_399_706_02, 0.000_125_438_698_732_524_03,
        3.268_145_374_629_564e-5);
    let v = p * (d * inv) * exp_64(-a * a);
    let y = if x < 0.0 { 2.0 - v } else { v };
    y as f32
}

/// Inverse of [`erf`], at most 1 ULP: ±inf at ±1, NaN beyond.
///
/// A polynomial in w = -ln(1 - x²) up to 6, in its root beyond, in `f64`.
///
/// ```
/// assert_eq!(gradus_math::f32::erfinv(0.0), 0.0);
/// assert_eq!(gradus_math::f32::erfinv(-1.0), f32::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn erfinv(x: f32) -> f32 {
    let a = x.abs() as f64;
    let w = depth(a);
    let middle = middle(w);
    let tail = poly!(w.sqrt() - 3.3;
        3.134_161_521_866_599_5, 1.005_769_161_865_477_2, 0.004_844_343_826_523_410_6, -0.003_293_916_700_628_339_2, 0.002_094_610_798_621_160_3, -0.001_412_970_291_037_283_8, 0.000_868_688_121_684_498_8, -0.000_361_659_578_426_922_9, -1.462_217_282_325_717_2e-5, 7.281_426_803_552_728e-5);
    let y = (if w < 6.0 { middle } else { tail }) * x as f64;
    let y = if a < 1.0 { y as f32 } else { f32::NAN };
    if a == 1.0 { f32::INFINITY.copysign(x) } else { y }
}

/// -ln(1 - a²).
#[inline(always)]
fn depth(a: f64) -> f64 {
    -ln_64((1.0 - a) * (1.0 + a))
}

#[inline(always)]
fn middle(w: f64) -> f64 {
    poly!(w - 3.0;
        1.623_542_010_392_715_8, 0.241_630_403_790_173_45, -0.005_738_166_673_979_439, -0.000_836_178_758_192_257_3, 0.000_195_102_296_401_999_38, -1.272_040_857_008_626_7e-5, -1.767_616_906_544_327_2e-6, 4.519_472_619_499_686e-7, -1.941_159_140_840_892_4e-8, -5.917_819_597_720_749e-9, 6.745_184_100_173_228e-10, 1.970_128_996_265_988_7e-11)
}

/// [`erfinv`] where |x| is at most 0.9975.
///
/// ```
/// assert_eq!(gradus_math::f32::erfinv_middle(0.5), gradus_math::f32::erfinv(0.5));
/// ```
#[inline(always)]
pub fn erfinv_middle(x: f32) -> f32 {
    (middle(depth(x.abs() as f64)) * x as f64) as f32
}
