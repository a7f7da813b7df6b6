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
/// `ln(1 + f) = f - f^2 / 2 + f^3 p(f)`, in [`super::ln`].
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
/// `ln(1 + f) = f - f^2 / 2 + f^3 p(f)` on [-1/4, 1/2], in [`super::log1p`].
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
/// `erf a = a + a p(a^2)` below 0.925.
pub const ERF_SMALL: [f32; 7] =
    [0.128_379_17, -0.376_126_35, 0.112_836_94, -0.026_859_27, 0.005_200_634_7, -0.000_813_744_03, 8.345_225e-5];
/// `-log2 erfc a` above.
pub const ERF_LARGE: [f32; 8] = [
    -0.000_253_764_9,
    1.629_554_3,
    0.913_708_45,
    0.156_235_55,
    -0.036_253_214,
    0.006_022_846_3,
    -0.000_627_912,
    3.053_235_2e-5,
];
/// `tanh a = a + a^3 p(a^2)` for small a.
pub const TANH_SMALL: [f32; 5] = [-0.333_333_2, 0.133_326_25, -0.053_851_65, 0.021_055_805, -0.006_238_845_6];
