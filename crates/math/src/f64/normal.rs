//! The normal distribution function, its logarithm and its inverse, without branches.

use super::coefficients::poly;
use super::erf::erfcx;
use core::f64::consts::{FRAC_1_SQRT_2, LN_2};

/// erfcx(|x| / √2), and Φ(-|x|) = e^(-x²/2) / 2 times that, with the rounding error of x² carried over.
#[inline(always)]
fn tail(x: f64) -> (f64, f64) {
    let a = x.abs();
    let c = if a > 40.0 { 40.0 } else { a };
    let h = c * c;
    let e = super::exp(-0.5 * h);
    let e = (-0.5 * c.mul_add(c, -h)).mul_add(e, e);
    let scaled = erfcx(a * FRAC_1_SQRT_2);
    (scaled, 0.5 * e * scaled)
}

/// Standard normal distribution function Φ(x), relatively accurate in the lower tail.
///
/// ```
/// assert_eq!(gradus_math::f64::ndtr(0.0), 0.5);
/// ```
#[inline(always)]
pub fn ndtr(x: f64) -> f64 {
    let (_, t) = tail(x);
    if x < 0.0 { t } else { 1.0 - t }
}

/// ln Φ(x), without underflow in the lower tail.
///
/// ```
/// assert!((gradus_math::f64::log_ndtr(-1e5) + 5e9).abs() < 20.0);
/// ```
#[inline(always)]
pub fn log_ndtr(x: f64) -> f64 {
    let (scaled, t) = tail(x);
    let low = (-0.5 * x).mul_add(x, super::ln(scaled) - LN_2);
    let rest = super::log1p(if x < 0.0 { t - 1.0 } else { -t });
    if x < -1.0 { low } else { rest }
}

/// Numerators and denominators of Wichura's AS 241, for the middle, the tails, and what is far out.
const MIDDLE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];
const TAIL: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        1.050_750_071_644_416_9e-09,
    ],
];
const FAR: [[f64; 8]; 2] = [
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-05,
        2.010_334_399_292_288_1e-07,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_3,
        1.846_318_317_510_054_8e-05,
        1.421_511_758_316_446e-07,
        2.044_263_103_389_939_7e-15,
    ],
];

/// The normal quantile of `q + 1/2`, where `tail` is the smaller of the probabilities on both sides; without care for a
/// tail of zero.
#[inline(always)]
pub(super) fn quantile(q: f64, tail: f64) -> f64 {
    let middle = q.abs() <= 0.425;
    let r = (-super::ln(tail)).sqrt();
    let far = r > 5.0;
    let (m, t, f) = (0.180_625 - q * q, r - 1.6, r - 5.0);
    let pick = |n: usize| {
        let tails = if far { poly(f, &FAR[n]) } else { poly(t, &TAIL[n]) };
        if middle { poly(m, &MIDDLE[n]) } else { tails }
    };
    let y = pick(0) / pick(1);
    if middle { q * y } else { y.copysign(q) }
}

/// The normal quantile Φ⁻¹(p), to about 1e-15: -inf at 0, inf at 1, NaN outside [0, 1].
///
/// ```
/// use gradus_math::f64::{ndtr, ndtri};
/// assert!((ndtr(ndtri(0.1)) - 0.1).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn ndtri(p: f64) -> f64 {
    let q = p - 0.5;
    let tail = if p < 0.5 { p } else { 1.0 - p };
    let y = quantile(q, tail);
    if tail == 0.0 { f64::INFINITY.copysign(q) } else { y }
}
