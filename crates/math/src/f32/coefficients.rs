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
/// `tanh a = a + a^3 p(a^2)` for small a.
pub const TANH_SMALL: [f32; 5] = [-0.333_333_2, 0.133_326_25, -0.053_851_65, 0.021_055_805, -0.006_238_845_6];
