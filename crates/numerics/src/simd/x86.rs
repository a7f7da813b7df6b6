//! The vectors of x86-64.

use super::Simd;
use std::arch::x86_64::*;

/// AVX2 with FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

#[inline(always)]
unsafe fn mask8(n: usize) -> __m256i {
    // SAFETY: AVX2 is there by the trait's contract.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

// SAFETY of all unsafe blocks below: the instructions are there by the trait's contract, and
// pointers are valid by the caller's promise.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Avx2 {
    type V = __m256;
    type M = __m256;
    const LANES: usize = 8;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m256 {
        unsafe { _mm256_maskload_ps(p, mask8(n)) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
        unsafe { _mm256_maskstore_ps(p, mask8(n), v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn abs(a: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn fnma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale2(a: __m256, n: __m256) -> __m256 {
        unsafe {
            let n = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(n)))
        }
    }
    #[inline(always)]
    unsafe fn gt(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_GT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn is_nan(a: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_or_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn and_not(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(b, a) }
    }
    #[inline(always)]
    unsafe fn select(m: __m256, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, m) }
    }
    #[inline(always)]
    unsafe fn odds(a: __m256, b: __m256) -> __m256 {
        unsafe {
            let v = _mm256_shuffle_ps::<0xdd>(a, b);
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v)))
        }
    }
    #[inline(always)]
    unsafe fn interleave2(a: __m256, b: __m256) -> [__m256; 2] {
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
        }
    }
    #[inline(always)]
    unsafe fn deinterleave4(p: *const f32) -> [__m256; 4] {
        unsafe {
            // Halves i and i + 4 of the lanes meet in one register; then two rounds in each.
            let at = |i: usize| {
                let low = _mm256_castps128_ps256(_mm_loadu_ps(p.add(4 * i)));
                _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(p.add(4 * i + 16)))
            };
            transpose4([at(0), at(1), at(2), at(3)])
        }
    }
    #[inline(always)]
    unsafe fn interleave4(v: [__m256; 4]) -> [__m256; 4] {
        unsafe {
            let [a, b, c, d] = transpose4(v);
            [
                _mm256_permute2f128_ps::<0x20>(a, b),
                _mm256_permute2f128_ps::<0x20>(c, d),
                _mm256_permute2f128_ps::<0x31>(a, b),
                _mm256_permute2f128_ps::<0x31>(c, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn evens(a: __m256, b: __m256) -> __m256 {
        unsafe {
            // Within halves 0 2 8 10 and 4 6 12 14; then the middle pairs change places.
            let v = _mm256_shuffle_ps::<0x88>(a, b);
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v)))
        }
    }
    #[inline(always)]
    unsafe fn pick(a: __m256, b: __m256, index: *const i32) -> __m256 {
        unsafe {
            let index = _mm256_loadu_si256(index.cast());
            let second = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(7));
            let (a, b) = (_mm256_permutevar8x32_ps(a, index), _mm256_permutevar8x32_ps(b, index));
            _mm256_blendv_ps(a, b, _mm256_castsi256_ps(second))
        }
    }
    #[inline(always)]
    unsafe fn sums(v: [__m256; 4]) -> [f32; 4] {
        unsafe {
            // (`map` on an array is a call, for which vectors go through memory.)
            sums4(std::array::from_fn(|i| _mm_add_ps(_mm256_castps256_ps128(v[i]), _mm256_extractf128_ps::<1>(v[i]))))
        }
    }
    #[inline(always)]
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize) {
        unsafe {
            let four = |first: usize| transpose4(std::array::from_fn(|i| Self::load(x.add((first + i) * from))));
            let (a, b) = (four(0), four(4));
            for i in 0..4 {
                Self::store(y.add(i * to), _mm256_permute2f128_ps::<0x20>(a[i], b[i]));
                Self::store(y.add((i + 4) * to), _mm256_permute2f128_ps::<0x31>(a[i], b[i]));
            }
        }
    }
}

/// The sum of each vector: numbers 0 and 2, 1 and 3, and those two.
#[inline(always)]
unsafe fn sums4([a, b, c, d]: [__m128; 4]) -> [f32; 4] {
    // SAFETY: SSE is part of x86-64.
    unsafe {
        let halves = |a, b| _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
        let (ab, cd) = (halves(a, b), halves(c, d));
        let sum = _mm_add_ps(_mm_shuffle_ps::<0b10_00_10_00>(ab, cd), _mm_shuffle_ps::<0b11_01_11_01>(ab, cd));
        let mut out = [0.0; 4];
        _mm_storeu_ps(out.as_mut_ptr(), sum);
        out
    }
}

/// Transposes the 4 by 4 matrix in each half.
#[inline(always)]
unsafe fn transpose4([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: AVX2 is there by the trait's contract.
    unsafe {
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ef, gh) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
            _mm256_shuffle_ps::<0x44>(ef, gh),
            _mm256_shuffle_ps::<0xee>(ef, gh),
        ]
    }
}

/// AVX-512 (F, BW, DQ, VL). With `PAIRS` each number of 32 bits that is multiplied is a pair of `bf16`, and `fma` adds both
/// products of two pairs to a sum in `f32` (AVX512-BF16); all that only moves numbers does not look at what they are.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const PAIRS: bool = false>;

#[inline(always)]
fn mask16(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1u16 << n).wrapping_sub(1) }
}

// SAFETY of all unsafe blocks below: as for AVX2.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<const PAIRS: bool> Simd for Avx512<PAIRS> {
    type V = __m512;
    type M = __mmask16;
    const LANES: usize = 16;
    const ROWS: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(mask16(n), p) }
    }
    #[inline(always)]
    unsafe fn load_apart(p: *const f32, step: usize, n: usize) -> __m512 {
        unsafe {
            let count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let at = _mm512_mullo_epi32(count, _mm512_set1_epi32(step as i32));
            _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), mask16(n), at, p)
        }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
        unsafe { _mm512_mask_storeu_ps(p, mask16(n), v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn abs(a: __m512) -> __m512 {
        unsafe { _mm512_abs_ps(a) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe {
            if PAIRS {
                // Vectors of the same size, of which all bits are allowed.
                let pairs = |v: __m512| std::mem::transmute::<__m512, __m512bh>(v);
                _mm512_dpbf16_ps(c, pairs(a), pairs(b))
            } else {
                _mm512_fmadd_ps(a, b, c)
            }
        }
    }
    #[inline(always)]
    unsafe fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale2(a: __m512, n: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(a, n) }
    }
    #[inline(always)]
    unsafe fn gt(a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn is_nan(a: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) }
    }
    #[inline(always)]
    unsafe fn or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    unsafe fn and_not(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & !b
    }
    #[inline(always)]
    unsafe fn select(m: __mmask16, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }
    #[inline(always)]
    unsafe fn odds(a: __m512, b: __m512) -> __m512 {
        unsafe {
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            _mm512_permutex2var_ps(a, odd, b)
        }
    }
    #[inline(always)]
    unsafe fn interleave2(a: __m512, b: __m512) -> [__m512; 2] {
        unsafe {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            [_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b)]
        }
    }
    #[inline(always)]
    unsafe fn deinterleave4(p: *const f32) -> [__m512; 4] {
        unsafe {
            let [a, b, c, d] = [0, 16, 32, 48].map(|i| _mm512_loadu_ps(p.add(i)));
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            let (e, f) = (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(c, even, d));
            let (o, q) = (_mm512_permutex2var_ps(a, odd, b), _mm512_permutex2var_ps(c, odd, d));
            [
                _mm512_permutex2var_ps(e, even, f),
                _mm512_permutex2var_ps(o, even, q),
                _mm512_permutex2var_ps(e, odd, f),
                _mm512_permutex2var_ps(o, odd, q),
            ]
        }
    }
    #[inline(always)]
    unsafe fn interleave4([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        unsafe {
            // Pairs of (a, c) and (b, d), then pairs of those.
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            let (ac, ca) = (_mm512_permutex2var_ps(a, low, c), _mm512_permutex2var_ps(a, high, c));
            let (bd, db) = (_mm512_permutex2var_ps(b, low, d), _mm512_permutex2var_ps(b, high, d));
            [
                _mm512_permutex2var_ps(ac, low, bd),
                _mm512_permutex2var_ps(ac, high, bd),
                _mm512_permutex2var_ps(ca, low, db),
                _mm512_permutex2var_ps(ca, high, db),
            ]
        }
    }
    #[inline(always)]
    unsafe fn evens(a: __m512, b: __m512) -> __m512 {
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            _mm512_permutex2var_ps(a, even, b)
        }
    }
    #[inline(always)]
    unsafe fn pick(a: __m512, b: __m512, index: *const i32) -> __m512 {
        unsafe { _mm512_permutex2var_ps(a, _mm512_loadu_si512(index.cast()), b) }
    }
    #[inline(always)]
    unsafe fn sums(v: [__m512; 4]) -> [f32; 4] {
        unsafe {
            Avx2::sums(std::array::from_fn(|i| {
                _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps::<1>(v[i]))
            }))
        }
    }
    #[inline(always)]
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize) {
        unsafe {
            // A transposition rotates the eight bits of an element's number (row, column) by
            // four; interleaving four vectors rotates six of them by two.
            let mut v = [Self::zero(); 16];
            for low in 0..4 {
                let rows = std::array::from_fn(|high| Self::load(x.add((4 * high + low) * from)));
                v[4 * low..4 * low + 4].copy_from_slice(&Self::interleave4(rows));
            }
            for c in 0..4 {
                let w = Self::interleave4([v[c], v[4 + c], v[8 + c], v[12 + c]]);
                for (i, w) in w.into_iter().enumerate() {
                    Self::store(y.add((4 * c + i) * to), w);
                }
            }
        }
    }
}
