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
                turn_rows(a.from(r, 0), rows.saturating_sub(r).min(16), whole, step, to.add(r));
            }
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

/// Up to 16 rows of contiguous numbers to columns of pairs, by squares that are turned in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn turn_rows(a: Numbers, rows: usize, pairs: usize, step: usize, to: *mut u32) {
    for p in (0..pairs).step_by(16) {
        let n = (pairs - p).min(16);
        // SAFETY: the caller's rows and room; moving numbers about does not look at what they are.
        unsafe {
            let from = a.from(0, 2 * p);
            if rows == 16 && n == 16 && a.rs > 0 && a.rs % 2 == 0 {
                <Avx512>::transpose(from.at.cast(), a.rs as usize / 2, to.add(p * step).cast(), step);
                continue;
            }
            let mut block = [[0u32; 16]; 32];
            let (straight, turned) = block.split_at_mut(16);
            let mask = ((1u32 << n) - 1) as u16;
            for (r, line) in straight.iter_mut().enumerate().take(rows) {
                let numbers = _mm512_maskz_loadu_epi32(mask, from.from(r, 0).at.cast());
                _mm512_storeu_si512(line.as_mut_ptr().cast(), numbers);
            }
            <Avx512>::transpose(straight.as_ptr().cast(), 16, turned.as_mut_ptr().cast(), 16);
            for (i, line) in turned.iter().enumerate().take(n) {
                _mm512_storeu_si512(to.add((p + i) * step).cast(), _mm512_loadu_si512(line.as_ptr().cast()));
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
