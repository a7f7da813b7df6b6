//! Many numbers of 16 bits at a time to floats and back. One by one, each conversion is a call or a branch.

use half::{bf16, f16};

macro_rules! blocks {
    ($name:ident, $wide:ident, $from:ty, $to:ty, $each:expr, $eight:ident) => {
        pub(crate) fn $name(x: &[$from], out: &mut [$to]) {
            #[cfg(target_arch = "x86_64")]
            if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
                // SAFETY: the instructions are there.
                return unsafe { $wide(x, out) };
            }
            x.iter().zip(out).for_each(|(x, out)| *out = $each(*x));
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn $wide(x: &[$from], out: &mut [$to]) {
            let (whole, rest) = x.as_chunks::<16>();
            let (to, last) = out[..x.len()].as_chunks_mut::<16>();
            whole.iter().zip(to).for_each(|(x, out)| $eight(x, out));
            rest.iter().zip(last).for_each(|(x, out)| *out = $each(*x));
        }
    };
}

blocks!(widen_f16, widen_f16_wide, f16, f32, f16::to_f32, sixteen_from_f16);
blocks!(narrow_f16, narrow_f16_wide, f32, f16, f16::from_f32, sixteen_to_f16);
blocks!(widen_bf16, widen_bf16_wide, bf16, f32, bf16::to_f32, sixteen_from_bf16);
blocks!(narrow_bf16, narrow_bf16_wide, f32, bf16, nearest_bf16, sixteen_to_bf16);

/// The sum, rounded without a branch: whether a sum is rounded up is as good as random, and every wrong guess costs more than
/// the sum. (Scattered sums of [8, 94336] numbers take 1.1 ms instead of 1.7.)
#[inline(always)]
pub(crate) fn add_bf16(a: bf16, b: bf16) -> bf16 {
    nearest_bf16(exact_bf16(a) + exact_bf16(b))
}

/// The product, rounded in the same way.
#[inline(always)]
pub(crate) fn mul_bf16(a: bf16, b: bf16) -> bf16 {
    nearest_bf16(exact_bf16(a) * exact_bf16(b))
}

#[inline(always)]
fn exact_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// The nearest, halves to even, without a branch; NaNs stay NaNs.
#[inline(always)]
pub(crate) fn nearest_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if x.is_nan() { bits >> 16 | 0x40 } else { nearest } as u16)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sixteen_from_f16(x: &[f16; 16], out: &mut [f32; 16]) {
    use std::arch::x86_64::*;
    // SAFETY: both hold sixteen numbers, and halves are their bits.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast()))) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sixteen_to_f16(x: &[f32; 16], out: &mut [f16; 16]) {
    use std::arch::x86_64::*;
    // SAFETY: as above.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtps_ph::<0>(_mm512_loadu_ps(x.as_ptr()))) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sixteen_from_bf16(x: &[bf16; 16], out: &mut [f32; 16]) {
    for (x, out) in x.iter().zip(out) {
        *out = f32::from_bits((x.to_bits() as u32) << 16);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sixteen_to_bf16(x: &[f32; 16], out: &mut [bf16; 16]) {
    use std::arch::x86_64::*;
    // SAFETY: as above.
    unsafe {
        let x = _mm512_loadu_ps(x.as_ptr());
        let (bits, nan) = (_mm512_castps_si512(x), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x));
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
        let words = _mm512_srli_epi32::<16>(_mm512_mask_blend_epi32(nan, up, quiet));
        _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_convert_as_numbers_do() {
        let bits: Vec<u16> = (0..=u16::MAX).chain(0..7).collect();
        let (halves, uppers): (Vec<f16>, Vec<bf16>) =
            bits.iter().map(|&b| (f16::from_bits(b), bf16::from_bits(b))).unzip();
        let mut wide = vec![0f32; bits.len()];
        widen_f16(&halves, &mut wide);
        assert!(wide.iter().zip(&halves).all(|(w, h)| w.to_bits() == h.to_f32().to_bits() || h.is_nan() && w.is_nan()));
        widen_bf16(&uppers, &mut wide);
        assert!(wide.iter().zip(&uppers).all(|(w, h)| w.to_bits() == h.to_f32().to_bits() || h.is_nan() && w.is_nan()));
        // Floats around every number of 16 bits, and between.
        let floats: Vec<f32> = (0..1 << 18)
            .map(|i: u32| f32::from_bits((i << 14).wrapping_add(i % 3).wrapping_sub(1)))
            .chain([0.0, -0.0, 65519.9, 65520.0, f32::MAX, 1e-45, 5.9e-8, f32::NAN])
            .collect();
        let (mut h, mut u) = (vec![f16::ZERO; floats.len()], vec![bf16::ZERO; floats.len()]);
        narrow_f16(&floats, &mut h);
        narrow_bf16(&floats, &mut u);
        for (i, &x) in floats.iter().enumerate() {
            let (p, q) = (f16::from_f32(x), bf16::from_f32(x));
            assert!(h[i].to_bits() == p.to_bits() || x.is_nan() && h[i].is_nan(), "{x:e}: {} against {p}", h[i]);
            assert!(u[i].to_bits() == q.to_bits() || x.is_nan() && u[i].is_nan(), "{x:e}: {} against {q}", u[i]);
            assert_eq!(nearest_bf16(x).to_bits(), q.to_bits(), "{x:e}");
        }
        for (&a, &b) in uppers.iter().zip(&uppers[7..]).chain(uppers.iter().zip(uppers.iter().rev())) {
            let same = |x: bf16, y: bf16| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            assert!(same(add_bf16(a, b), a + b) && same(mul_bf16(a, b), a * b), "{a} and {b}");
        }
    }
}
