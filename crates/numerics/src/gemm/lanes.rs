//! The few things that the kernels of products do with vectors, of `f32` and of `f64`.

use crate::simd::{Base, Simd};

/// Vectors of `LANES` numbers; see [`Simd`], which is this for `f32`.
pub(crate) trait Lanes<T>: Copy {
    /// A vector.
    type V: Copy;
    /// Numbers in a vector.
    const LANES: usize;
    /// Rows of the output that are kept in registers.
    const ROWS: usize;

    unsafe fn zero() -> Self::V;
    unsafe fn splat(x: T) -> Self::V;
    unsafe fn load(p: *const T) -> Self::V;
    unsafe fn store(p: *mut T, v: Self::V);
    /// The first `n` numbers, zeros after them; nothing behind them is read.
    unsafe fn load_first(p: *const T, n: usize) -> Self::V;
    /// Writes the first `n` numbers.
    unsafe fn store_first(p: *mut T, v: Self::V, n: usize);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Transposes `LANES` rows of `LANES` numbers, `from` apart, to rows `to` apart.
    unsafe fn transpose(x: *const T, from: usize, y: *mut T, to: usize);
    /// The sum of each vector, its upper half onto the lower one down to a number.
    unsafe fn sums(v: [Self::V; 4]) -> [T; 4];
}

/// [`Lanes::sums`] one by one.
#[inline(always)]
unsafe fn sums_apart<S: Lanes<f64>>(v: [S::V; 4]) -> [f64; 4] {
    std::array::from_fn(|which| {
        let mut all = [0.0; 8];
        // SAFETY: no vector is longer than eight.
        unsafe { S::store(all.as_mut_ptr(), v[which]) };
        let mut n = S::LANES;
        while n > 1 {
            n /= 2;
            (0..n).for_each(|i| all[i] += all[i + n]);
        }
        all[0]
    })
}

// SAFETY of all unsafe blocks in this file: the instructions are there by the traits' contract, and pointers are valid by the
// caller's promise.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<S: Simd> Lanes<f32> for S {
    type V = S::V;
    const LANES: usize = S::LANES;
    const ROWS: usize = S::ROWS;

    #[inline(always)]
    unsafe fn zero() -> S::V {
        unsafe { S::zero() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> S::V {
        unsafe { S::splat(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> S::V {
        unsafe { S::load(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: S::V) {
        unsafe { S::store(p, v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> S::V {
        unsafe { S::load_first(p, n) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: S::V, n: usize) {
        unsafe { S::store_first(p, v, n) }
    }
    #[inline(always)]
    unsafe fn add(a: S::V, b: S::V) -> S::V {
        unsafe { S::add(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: S::V, b: S::V, c: S::V) -> S::V {
        unsafe { S::fma(a, b, c) }
    }
    #[inline(always)]
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize) {
        unsafe { S::transpose(x, from, y, to) }
    }
    #[inline(always)]
    unsafe fn sums(v: [S::V; 4]) -> [f32; 4] {
        unsafe { S::sums(v) }
    }
}

#[allow(clippy::undocumented_unsafe_blocks)]
impl Lanes<f64> for Base {
    type V = [f64; 2];
    const LANES: usize = 2;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> [f64; 2] {
        [0.0; 2]
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> [f64; 2] {
        [x; 2]
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> [f64; 2] {
        unsafe { p.cast::<[f64; 2]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f64, v: [f64; 2]) {
        unsafe { p.cast::<[f64; 2]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> [f64; 2] {
        std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f64, v: [f64; 2], n: usize) {
        v.into_iter().enumerate().take(n).for_each(|(i, v)| unsafe { *p.add(i) = v });
    }
    #[inline(always)]
    unsafe fn add(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] + b[0], a[1] + b[1]]
    }
    #[inline(always)]
    unsafe fn fma(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> [f64; 2] {
        // Without the instruction a fused operation would be a call.
        [a[0] * b[0] + c[0], a[1] * b[1] + c[1]]
    }
    #[inline(always)]
    unsafe fn sums(v: [Self::V; 4]) -> [f64; 4] {
        unsafe { sums_apart::<Self>(v) }
    }
    #[inline(always)]
    unsafe fn transpose(x: *const f64, from: usize, y: *mut f64, to: usize) {
        (0..4).for_each(|i| unsafe { *y.add(i % 2 * to + i / 2) = *x.add(i / 2 * from + i % 2) });
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks)]
mod x86 {
    use super::Lanes;
    use crate::simd::{Avx2, Avx512};
    use std::arch::x86_64::*;

    #[inline(always)]
    unsafe fn mask4(n: usize) -> __m256i {
        unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
    }

    impl Lanes<f64> for Avx2 {
        type V = __m256d;
        const LANES: usize = 4;
        const ROWS: usize = 4;

        #[inline(always)]
        unsafe fn zero() -> __m256d {
            unsafe { _mm256_setzero_pd() }
        }
        #[inline(always)]
        unsafe fn splat(x: f64) -> __m256d {
            unsafe { _mm256_set1_pd(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f64) -> __m256d {
            unsafe { _mm256_loadu_pd(p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f64, v: __m256d) {
            unsafe { _mm256_storeu_pd(p, v) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> __m256d {
            unsafe { _mm256_maskload_pd(p, mask4(n)) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f64, v: __m256d, n: usize) {
            unsafe { _mm256_maskstore_pd(p, mask4(n), v) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256d, b: __m256d) -> __m256d {
            unsafe { _mm256_add_pd(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
            unsafe { _mm256_fmadd_pd(a, b, c) }
        }
        #[inline(always)]
        unsafe fn sums(v: [Self::V; 4]) -> [f64; 4] {
            unsafe { sums4(v) }
        }
        #[inline(always)]
        unsafe fn transpose(x: *const f64, from: usize, y: *mut f64, to: usize) {
            unsafe {
                let row = |i: usize| _mm256_loadu_pd(x.add(i * from));
                let (a, b) = (_mm256_unpacklo_pd(row(0), row(1)), _mm256_unpackhi_pd(row(0), row(1)));
                let (c, d) = (_mm256_unpacklo_pd(row(2), row(3)), _mm256_unpackhi_pd(row(2), row(3)));
                _mm256_storeu_pd(y, _mm256_permute2f128_pd::<0x20>(a, c));
                _mm256_storeu_pd(y.add(to), _mm256_permute2f128_pd::<0x20>(b, d));
                _mm256_storeu_pd(y.add(2 * to), _mm256_permute2f128_pd::<0x31>(a, c));
                _mm256_storeu_pd(y.add(3 * to), _mm256_permute2f128_pd::<0x31>(b, d));
            }
        }
    }

    /// The sum of each vector: numbers 0 and 2, 1 and 3, and those two.
    #[inline(always)]
    unsafe fn sums4([a, b, c, d]: [__m256d; 4]) -> [f64; 4] {
        unsafe {
            let halves =
                |a, b| _mm256_add_pd(_mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b));
            let (ab, cd) = (halves(a, b), halves(c, d));
            let sum = _mm256_add_pd(_mm256_unpacklo_pd(ab, cd), _mm256_unpackhi_pd(ab, cd));
            let mut out = [0.0; 4];
            _mm256_storeu_pd(out.as_mut_ptr(), _mm256_permute4x64_pd::<0b11_01_10_00>(sum));
            out
        }
    }

    #[inline(always)]
    fn mask8(n: usize) -> __mmask8 {
        if n >= 8 { !0 } else { (1u8 << n).wrapping_sub(1) }
    }

    impl Lanes<f64> for Avx512 {
        type V = __m512d;
        const LANES: usize = 8;
        const ROWS: usize = 8;

        #[inline(always)]
        unsafe fn zero() -> __m512d {
            unsafe { _mm512_setzero_pd() }
        }
        #[inline(always)]
        unsafe fn splat(x: f64) -> __m512d {
            unsafe { _mm512_set1_pd(x) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f64) -> __m512d {
            unsafe { _mm512_loadu_pd(p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f64, v: __m512d) {
            unsafe { _mm512_storeu_pd(p, v) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> __m512d {
            unsafe { _mm512_maskz_loadu_pd(mask8(n), p) }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f64, v: __m512d, n: usize) {
            unsafe { _mm512_mask_storeu_pd(p, mask8(n), v) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512d, b: __m512d) -> __m512d {
            unsafe { _mm512_add_pd(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
            unsafe { _mm512_fmadd_pd(a, b, c) }
        }
        #[inline(always)]
        unsafe fn sums(v: [Self::V; 4]) -> [f64; 4] {
            unsafe {
                // (`map` on an array is a call, for which vectors go through memory.)
                sums4(std::array::from_fn(|i| {
                    _mm256_add_pd(_mm512_castpd512_pd256(v[i]), _mm512_extractf64x4_pd::<1>(v[i]))
                }))
            }
        }
        #[inline(always)]
        unsafe fn transpose(x: *const f64, from: usize, y: *mut f64, to: usize) {
            unsafe {
                // Pairs of rows, of those pairs, and of those.
                let row = |i: usize| _mm512_loadu_pd(x.add(i * from));
                for odd in 0..2 {
                    let pair = |i: usize| {
                        let (a, b) = (row(2 * i), row(2 * i + 1));
                        if odd == 0 { _mm512_unpacklo_pd(a, b) } else { _mm512_unpackhi_pd(a, b) }
                    };
                    let (p, q, r, s) = (pair(0), pair(1), pair(2), pair(3));
                    let (a, b) = (_mm512_shuffle_f64x2::<0x88>(p, q), _mm512_shuffle_f64x2::<0xdd>(p, q));
                    let (c, d) = (_mm512_shuffle_f64x2::<0x88>(r, s), _mm512_shuffle_f64x2::<0xdd>(r, s));
                    _mm512_storeu_pd(y.add(odd * to), _mm512_shuffle_f64x2::<0x88>(a, c));
                    _mm512_storeu_pd(y.add((2 + odd) * to), _mm512_shuffle_f64x2::<0x88>(b, d));
                    _mm512_storeu_pd(y.add((4 + odd) * to), _mm512_shuffle_f64x2::<0xdd>(a, c));
                    _mm512_storeu_pd(y.add((6 + odd) * to), _mm512_shuffle_f64x2::<0xdd>(b, d));
                }
            }
        }
    }
}
