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
/// Sixteen numbers, one a lane of the widest registers, which can be looked up in one instruction.
#[derive(Debug, PartialEq)]
#[repr(align(64))]
pub struct Table(pub [f32; 16]);

/// Beyond this `erf` is 1.
pub const ERF_TOP: f32 = 3.96;
/// Parts of a unit that `erf` is divided into, each with a polynomial around its middle.
pub const ERF_PARTS: f32 = 3.895;
/// The width of a part.
pub const ERF_WIDTH: f32 = 0.256_739_4;
/// `erf(part * width + t) = c0 + t (c1 + t (c2 + ...))`: all c0, all c1 and so on. In the first part it is
/// `t + t (c1 + ...)`, which is relatively accurate.
pub static ERF: [Table; 6] = [
    Table([
        0.0,
        0.283_458_1,
        0.532_264_65,
        0.723_957_7,
        0.853_592_2,
        0.930_540_86,
        0.970_631_6,
        0.988_965_03,
        0.996_323_65,
        0.998_916,
        0.999_717_5,
        0.999_935_03,
        0.999_986_8,
        0.999_997_6,
        0.999_999_64,
        0.999_999_94,
    ]),
    Table([
        0.128_379_17,
        1.056_400_2,
        0.866_859_6,
        0.623_470_5,
        0.393_033_77,
        0.217_165_44,
        0.105_171_576,
        0.044_642_95,
        0.016_609_412,
        0.005_416_298,
        0.001_548_095_4,
        0.000_387_828_65,
        8.515_872e-5,
        1.638_949_5e-5,
        2.764_708_6e-6,
        4.087_932_8e-7,
    ]),
    Table([
        0.0,
        -0.271_213_26,
        -0.445_106_48,
        -0.480_204_6,
        -0.403_630_14,
        -0.278_778,
        -0.162_012_86,
        -0.080_232_315,
        -0.034_114_227,
        -0.012_514_722_5,
        -0.003_974_185,
        -0.001_095_073_4,
        -0.000_262_279_3,
        -5.467_443_8e-5,
        -9.929_994e-6,
        -1.573_123_7e-6,
    ]),
    Table([
        -0.376_122_8,
        -0.305_707_87,
        -0.136_583_64,
        0.038_748_86,
        0.145_325_33,
        0.166_185_78,
        0.131_321_62,
        0.081_246_8,
        0.041_176_133,
        0.017_473_487,
        0.006_286_674,
        0.001_932_728_1,
        0.000_510_411_1,
        0.000_116_223_26,
        2.288_161e-5,
        3.894_760_5e-6,
    ]),
    Table([
        0.0,
        0.128_632_83,
        0.182_216_48,
        0.144_545_58,
        0.060_099_926,
        -0.013_199_766,
        -0.046_699_82,
        -0.046_088_174,
        -0.030_930_337,
        -0.016_092_023,
        -0.006_807_768,
        -0.002_397_438_5,
        -0.000_712_368_7,
        -0.000_180_141_99,
        -3.899_698_6e-5,
        -7.204_954e-6,
    ]),
    Table([
        0.112_202_086,
        0.077_948_55,
        0.003_483_775_3,
        -0.055_804_003,
        -0.067_806_8,
        -0.042_737_678,
        -0.010_503_682,
        0.008_718_275,
        0.012_967_083,
        0.009_553_766,
        0.005_059_834_6,
        0.002_107_702_4,
        0.000_717_061,
        0.000_203_255_3,
        4.858_655_3e-5,
        1.048_033_85e-5,
    ]),
];
/// `tanh a = a + a^3 p(a^2)` for small a.
pub const TANH_SMALL: [f32; 5] = [-0.333_333_2, 0.133_326_25, -0.053_851_65, 0.021_055_805, -0.006_238_845_6];
