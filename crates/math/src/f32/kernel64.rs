//! `f64` kernels the single-precision functions share: good to about 1e-15,
//! branch-free, without care for special values.

use core::f64::consts::{LN_2, LOG2_E};

/// 1.5 * 2^52: adding it to a small number rounds that number to an integer,
/// which then stands in the low bits.
pub(super) const MAGIC: f64 = 6_755_399_441_055_744.0;

/// 2^t for |t| < 1000 (NaN stays NaN): 2^n times a degree-10 polynomial on [-1/2, 1/2].
#[inline(always)]
pub(super) fn exp2_64(t: f64) -> f64 {
    let k = t + MAGIC;
    let r = t - (k - MAGIC);
    let q = poly!(r;
        0.693_147_180_559_953_8, 0.240_226_506_959_101_2, 0.055_504_108_664_243_69,
        0.009_618_129_107_595_108, 0.001_333_355_825_954_666, 0.000_154_035_304_587_011_68,
        1.525_264_158_952_134_7e-5, 1.321_543_353_963_745_8e-6, 1.021_147_625_809_514_5e-7,
        7.074_194_562_613_105e-9);
    q.mul_add(r, 1.0) * f64::from_bits(k.to_bits().wrapping_add(1023) << 52)
}

/// e^x for |x| < 600.
#[inline(always)]
pub(super) fn exp_64(x: f64) -> f64 {
    exp2_64(x * LOG2_E)
}

/// Splits a positive normal number into (e, ln m) with x = 2^e m, m in [sqrt(1/2), sqrt 2).
#[inline(always)]
fn split_ln(x: f64) -> (f64, f64) {
    let b = x.to_bits();
    let e = (b.wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64) >> 52;
    let m = f64::from_bits(b.wrapping_sub((e << 52) as u64));
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let q = poly!(z;
        0.333_333_333_333_053, 0.200_000_000_231_268_3, 0.142_857_087_309_966_35,
        0.111_116_906_108_250_22, 0.090_612_751_553_494_13, 0.084_199_579_283_055_83);
    let s2 = s + s;
    (e as f64, (s2 * z).mul_add(q, s2))
}

/// ln x for positive normal x: 2 atanh((m-1)/(m+1)) + e ln 2.
#[inline(always)]
pub(super) fn ln_64(x: f64) -> f64 {
    let (e, l) = split_ln(x);
    e.mul_add(LN_2, l)
}

/// log2 x for positive normal x.
#[inline(always)]
pub(super) fn log2_64(x: f64) -> f64 {
    let (e, l) = split_ln(x);
    l.mul_add(LOG2_E, e)
}

/// ln(1 + x) for x from 0 to 1: 2 atanh(x / (2 + x)), with nothing to split off.
#[inline(always)]
pub(super) fn log1p_unit_64(x: f64) -> f64 {
    let s = x / (2.0 + x);
    let z = s * s;
    let p = poly!(z;
        0.333_333_333_385_092_4,
        0.199_999_988_269_662_37,
        0.142_858_040_313_527_28,
        0.111_078_682_807_480_68,
        0.091_531_180_975_680_93,
        0.070_463_884_913_419_4,
        0.100_085_362_903_395_84);
    let s2 = s + s;
    (s2 * z).mul_add(p, s2)
}
