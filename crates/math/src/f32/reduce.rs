//! Reduction of large angles modulo π/2 (Payne and Hanek), without branches or tables.

/// Nine zero bits, then the binary digits of 2/π.
const TWO_OVER_PI: [u32; 7] =
    [0x0051_7cc1, 0xb727_220a, 0x94fe_13ab, 0xe8fa_9a6e, 0xe06d_b14a, 0xcc9e_21c8, 0x20ff_28b1];

/// One of four words, by `j` in 0..4.
#[inline(always)]
fn pick(j: u32, k: usize) -> u32 {
    let w = TWO_OVER_PI;
    let lo = if j == 0 { w[k] } else { w[k + 1] };
    let hi = if j == 2 { w[k + 2] } else { w[k + 3] };
    if j < 2 { lo } else { hi }
}

/// For 2^16 <= a < inf: (n, r) with a = n π/2 + r modulo 2π and |r| <= π/4; r is good to 2^-60 absolute.
///
/// a = m 2^e with a 24-bit m, so a·2/π modulo 4 is m times a 96-bit window of the digits of 2/π
/// that starts at bit e. The window is put together from selects and shifts, and the product is
/// kept modulo 2^64 with 62 fraction bits.
#[inline(always)]
pub(super) fn reduce_large(a: f32) -> (u32, f64) {
    let b = a.to_bits();
    let e = (b >> 23).wrapping_sub(143);
    let m = ((b & 0x007f_ffff) | 0x0080_0000) as u64;
    let j = (e >> 5) & 3;
    let sh = e & 31;
    let (w0, w1, w2, w3) = (pick(j, 0), pick(j, 1), pick(j, 2), pick(j, 3));
    let join = |x: u32, y: u32| ((x << sh) | ((y >> 1) >> (31 - sh))) as u64;
    let y = (m.wrapping_mul(join(w0, w1)) << 32)
        .wrapping_add(m.wrapping_mul(join(w1, w2)))
        .wrapping_add(m.wrapping_mul(join(w2, w3)) >> 32);
    let n = y.wrapping_add(1 << 61) >> 62;
    let r = y.wrapping_sub(n << 62) as i64;
    (n as u32, r as f64 * 3.406_121_580_086_554_5e-19)
}
