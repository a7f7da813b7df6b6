//! Counter-based random numbers: Philox 4x32-10 (Salmon et al., 2011).
//!
//! Element `i` of a stream depends on `i` alone, so any thread, block or device computes it in any order.

/// Four random words for one counter.
#[inline(always)]
pub fn philox(counter: u64, stream: u64, seed: u64) -> [u32; 4] {
    let mut c = [counter as u32, (counter >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let mut k = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let p0 = c[0] as u64 * 0xD251_1F53;
        let p1 = c[2] as u64 * 0xCD9E_8D57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

#[inline(always)]
fn unit_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

#[inline(always)]
fn unit_f64(low: u32, high: u32) -> f64 {
    let bits = ((high as u64) << 32 | low as u64) >> 11;
    bits as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Elements `4 c ..` as [`uniform_f32`] gives them one by one.
#[inline(always)]
pub fn four_f32(c: u64, stream: u64, seed: u64) -> [f32; 4] {
    philox(c, stream, seed).map(unit_f32)
}

/// Elements `2 c ..` as [`uniform_f64`] gives them one by one.
#[inline(always)]
pub fn two_f64(c: u64, stream: u64, seed: u64) -> [f64; 2] {
    let w = philox(c, stream, seed);
    [unit_f64(w[0], w[1]), unit_f64(w[2], w[3])]
}

/// Element `i` as an f32 in [0, 1): 24 bits of word `i % 4` under counter `i / 4`.
#[inline(always)]
pub fn uniform_f32(i: u64, stream: u64, seed: u64) -> f32 {
    four_f32(i / 4, stream, seed)[(i % 4) as usize]
}

/// Element `i` as an f64 in [0, 1): 53 bits of words `2 (i % 2)` and the next under counter `i / 2`.
#[inline(always)]
pub fn uniform_f64(i: u64, stream: u64, seed: u64) -> f64 {
    two_f64(i / 2, stream, seed)[(i % 2) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_matches_the_published_vectors() {
        // From the Random123 distribution's kat_vectors (philox4x32 10).
        assert_eq!(philox(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, u64::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn uniform_is_uniform() {
        let n = 100_000u64;
        let mean = (0..n).map(|i| uniform_f32(i, 1, 42) as f64).sum::<f64>() / n as f64;
        let mean64 = (0..n).map(|i| uniform_f64(i, 1, 42)).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.005 && (mean64 - 0.5).abs() < 0.005);
    }
}
