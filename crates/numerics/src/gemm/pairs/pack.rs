//! Numbers as pairs of neighbours along `k`.

use super::Numbers;
use crate::simd::{Avx512, Simd};
use std::arch::x86_64::*;

/// Packs `rows` rows of `k` numbers as pairs: pair `p` of row `r` goes to `to[p * step + r]`, zeros to the rows up to `step`,
/// which is a multiple of 16, and beside a number that is left.
///
/// # Safety
///
/// The rows exist, and `to` has room for `step` rows of as many pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn pack(a: Numbers, rows: usize, k: usize, step: usize, to: *mut u32) {
    let (pairs, whole) = (k.div_ceil(2), k / 2);
    // SAFETY: the caller's promise.
    unsafe {
        let get = |r: usize, j: usize| *a.at.offset(r as isize * a.rs + j as isize * a.cs) as u32;
        if a.rs == 1 {
            for p in 0..whole {
                zip(a.from(0, 2 * p).at, a.from(0, 2 * p + 1).at, rows, step, to.add(p * step));
            }
        } else if a.cs == 1 {
            for r in (0..step).step_by(16) {
                turn_rows(a.from(r, 0), rows.saturating_sub(r).min(16), k, step, to.add(r));
            }
            return;
        } else {
            for p in 0..whole {
                for r in 0..step {
                    *to.add(p * step + r) = if r < rows { get(r, 2 * p) | get(r, 2 * p + 1) << 16 } else { 0 };
                }
            }
        }
        if whole < pairs {
            for r in 0..step {
                *to.add(whole * step + r) = if r < rows { get(r, 2 * whole) } else { 0 };
            }
        }
    }
}

/// Up to 16 rows of `k` contiguous numbers to columns of pairs, by squares that are turned in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn turn_rows(a: Numbers, rows: usize, k: usize, step: usize, to: *mut u32) {
    let mut from = 0;
    // SAFETY: the caller's rows and room; moving numbers about does not look at what they are.
    unsafe {
        if rows == 16 && a.rs > 0 && a.rs % 2 == 0 {
            while k - from >= 32 {
                let at = a.from(0, from).at;
                <Avx512>::transpose(at.cast(), a.rs as usize / 2, to.add(from / 2 * step).cast(), step);
                from += 32;
            }
        }
        // Four pairs of all rows at a time: of short rows there are no more.
        for from in (from..k).step_by(8) {
            let (some, to) = (a.from(0, from), to.add(from / 2 * step));
            match (rows, k - from) {
                (16, 8..) => turn_four(|r| _mm_loadu_si128(some.from(r, 0).at.cast()), 4, step, to),
                (_, left) => {
                    let mask = if left >= 8 { 0xff } else { (1u8 << left) - 1 };
                    let row = |r: usize| match r < rows {
                        true => _mm_maskz_loadu_epi16(mask, some.from(r, 0).at.cast()),
                        false => _mm_setzero_si128(),
                    };
                    turn_four(row, left.min(8).div_ceil(2), step, to);
                }
            }
        }
    }
}

/// The first `pairs` of up to four pairs of 16 rows, turned.
#[inline(always)]
unsafe fn turn_four(row: impl Fn(usize) -> __m128i, pairs: usize, step: usize, to: *mut u32) {
    // SAFETY: the callers have the instructions, and room for these pairs.
    unsafe {
        // Rows `r`, `r + 4` and so on are one vector.
        let every = |r: usize| {
            let two = |a, b| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(two(row(r), row(r + 4))), two(row(r + 8), row(r + 12)))
        };
        let (a, b, c, d) = (every(0), every(1), every(2), every(3));
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ef, gh) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        let turned = [
            _mm512_unpacklo_epi64(ab, cd),
            _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ef, gh),
            _mm512_unpackhi_epi64(ef, gh),
        ];
        for (p, turned) in turned.into_iter().enumerate() {
            if p < pairs {
                _mm512_storeu_si512(to.add(p * step).cast(), turned);
            }
        }
    }
}

/// Pairs of the elements of two stretches, with zeros up to `step`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn zip(x: *const u16, y: *const u16, n: usize, step: usize, to: *mut u32) {
    for i in (0..step).step_by(16) {
        let left = n.saturating_sub(i);
        let mask = if left >= 16 { 0xffff } else { (1u16 << left) - 1 };
        // SAFETY: the first `n` elements of both are there, and room for `step`.
        unsafe {
            let x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x.wrapping_add(i).cast()));
            let y = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, y.wrapping_add(i).cast()));
            let both = _mm512_or_si512(x, _mm512_slli_epi32::<16>(y));
            _mm512_storeu_si512(to.add(i).cast(), both);
        }
    }
}
