//! Numbers that a compiler of kernels needs to write the same functions.

/// 1.5 * 2^23: adding it rounds a small number to an integer in the low bits.
pub const MAGIC: f32 = 12_582_912.0;
/// ln 2, first part.
pub const LN2_HI: f32 = core::f32::consts::LN_2;
/// ln 2, second part.
pub const LN2_LO: f32 = -1.904_654_3e-9;
/// `e^r = 1 + r + r^2 p(r)`, in [`super::exp`].
pub const EXP: [f32; 5] = [0.5, 0.166_665_18, 0.041_666_202, 0.008_369_026, 0.001_395_077_4];
/// `e^r - 1 = r + r^2 p(r)`, relatively accurate.
pub const EXPM1: [f32; 5] = [0.5, 0.166_665_42, 0.041_666_28, 0.008_366_71, 0.001_394_637_9];
/// `2^r = 1 + r p(r)` on [-1/2, 1/2].
pub const EXP2: [f32; 6] =
    [core::f32::consts::LN_2, 0.240_226_5, 0.055_502_973, 0.009_618_031, 0.001_341_000_1, 0.000_154_697_32];
/// `ln(1 + f) = f - f^2 / 2 + f^3 p(f)`, in [`super::log2`].
pub const LN: [f32; 9] = [
    0.333_333_1,
    -0.249_999_87,
    0.200_022_25,
    -0.166_692_6,
    0.142_186_94,
    -0.123_842_105,
    0.118_726_28,
    -0.117_905_05,
    0.069_168_87,
];
/// `ln(1 + f) = f - f^2 / 2 + f^3 p(f)` on [-1/4, 1/2], in [`super::ln`] and [`super::log1p`].
pub const LOG1P: [f32; 9] = [
    0.333_333_37,
    -0.250_001_67,
    0.199_998_45,
    -0.166_555_5,
    0.142_704_6,
    -0.127_148_85,
    0.117_366_984,
    -0.092_537_94,
    0.038_811_937,
];
/// `atan q = q + q^3 p(q^2)` on [0, 1], in [`super::atan`].
pub const ATAN: [f32; 8] = [
    -0.333_331_53,
    0.199_937_73,
    -0.142_110_56,
    0.106_660_04,
    -0.075_522_125,
    0.043_211_836,
    -0.016_367_914,
    0.002_920_688_6,
];
/// What a quarter of a turn is more than as an `f32`, with the other sign, in [`super::atan`].
pub const ATAN_LOW: f32 = 4.371_139e-8;
/// Arguments beyond this have the same arc tangent: 2^100.
pub const ATAN_TOP: f32 = 1.267_650_6e30;
/// ln 2 in two parts whose first is short, in [`super::ln`].
pub const LN2_SPLIT: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1 / ln 2 in two parts, in [`super::log2`].
pub const LOG2_INV: [f32; 2] = [core::f32::consts::LOG2_E, 1.925_963e-08];
/// What a factor of two adds there.
pub const LOG2_TWO: [f32; 2] = [1.0, 0.0];
/// 1 / ln 10 in two parts, in [`super::log10`].
pub const LOG10_INV: [f32; 2] = [core::f32::consts::LOG10_E, -1.010_305e-08];
/// What a factor of two adds there, in two parts whose first is short.
pub const LOG10_TWO: [f32; 2] = [0.301_025_4, 4.605_039e-06];
