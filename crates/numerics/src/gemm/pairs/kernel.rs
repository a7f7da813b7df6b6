//! The innermost loop: a tile of sums in registers.

use super::{Out, VECTORS};
use std::arch::x86_64::*;

/// Rows of a tile, at most.
pub(super) const ROWS: usize = 8;

/// Some rows of `A` as pairs, and where they lie, in 16-bit numbers.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub at: *const u16,
    pub row: isize,
    pub pair: isize,
    /// Whole pairs.
    pub pairs: usize,
    /// Whether a single number is left after them: it has no neighbour.
    pub odd: bool,
}

/// A piece of the output that is computed in registers.
pub(super) struct Tile {
    pub height: usize,
    pub width: usize,
    /// Its sums so far, where `k` is cut into several stretches, in rows of a whole panel.
    pub sums: *mut f32,
    /// Whether there are some.
    pub begun: bool,
    /// Where it goes when this stretch is the last.
    pub out: Option<Out>,
}

/// Adds the product of rows and a panel to a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn multiply(a: Rows, b: *const u32, tile: &Tile) {
    // SAFETY: the caller packed a panel of this size.
    unsafe {
        match tile.width.div_ceil(16) {
            1 => tall::<1>(a, b, tile),
            2 => tall::<2>(a, b, tile),
            _ => tall::<3>(a, b, tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn tall<const V: usize>(a: Rows, b: *const u32, tile: &Tile) {
    // SAFETY: passed on.
    unsafe {
        match tile.height {
            1 => sums::<1, V>(a, b, tile),
            2 => sums::<2, V>(a, b, tile),
            3 => sums::<3, V>(a, b, tile),
            4 => sums::<4, V>(a, b, tile),
            5 => sums::<5, V>(a, b, tile),
            6 => sums::<6, V>(a, b, tile),
            7 => sums::<7, V>(a, b, tile),
            _ => sums::<8, V>(a, b, tile),
        }
    }
}

/// The same bits as numbers.
#[inline(always)]
fn halves(x: __m512i) -> __m512bh {
    // SAFETY: vectors of the same size, of which all bits are allowed.
    unsafe { std::mem::transmute(x) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn sums<const R: usize, const V: usize>(a: Rows, b: *const u32, tile: &Tile) {
    // SAFETY: the panel has as many pairs as the rows; sums and output have the tile's rows and columns.
    unsafe {
        let mut acc = [[_mm512_setzero_ps(); V]; R];
        if tile.begun {
            for (r, acc) in acc.iter_mut().enumerate() {
                for (v, acc) in acc.iter_mut().enumerate() {
                    *acc = _mm512_loadu_ps(tile.sums.add((r * VECTORS + v) * 16));
                }
            }
        }
        let (mut x, mut b) = (a.at, b);
        for _ in 0..a.pairs {
            let mut columns = [_mm512_setzero_si512(); V];
            for (v, c) in columns.iter_mut().enumerate() {
                *c = _mm512_loadu_si512(b.add(16 * v).cast());
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                let x = _mm512_set1_epi32(x.offset(r as isize * a.row).cast::<i32>().read_unaligned());
                for (acc, c) in acc.iter_mut().zip(columns) {
                    *acc = _mm512_dpbf16_ps(*acc, halves(x), halves(c));
                }
            }
            x = x.wrapping_offset(a.pair);
            b = b.wrapping_add(16 * V);
        }
        if a.odd {
            for (r, acc) in acc.iter_mut().enumerate() {
                let x = _mm512_set1_epi32(i32::from(*x.offset(r as isize * a.row)));
                for (v, acc) in acc.iter_mut().enumerate() {
                    *acc = _mm512_dpbf16_ps(*acc, halves(x), halves(_mm512_loadu_si512(b.add(16 * v).cast())));
                }
            }
        }
        // Row by row in the text: were these loops, the sums would live in memory, and go there and back once more.
        macro_rules! rows {
            ($r:ident, $sums:ident => $done:expr; $($n:literal)*) => {{ $(if let Some(&$sums) = acc.get($n) {
                let $r = $n;
                $done;
            })* }};
        }
        let Some(out) = &tile.out else {
            return rows!(r, acc => keep(acc, tile.sums.add(r * VECTORS * 16)); 0 1 2 3 4 5 6 7);
        };
        let last = tile.width - 16 * (V - 1);
        if out.cs == 1 {
            let mask = u16::MAX >> (16 - last);
            return rows!(r, acc => lay(acc, out.at(r, 0).at, mask); 0 1 2 3 4 5 6 7);
        }
        let mut all = [0.0; ROWS * VECTORS * 16];
        rows!(r, acc => keep(acc, all.as_mut_ptr().add(r * VECTORS * 16)); 0 1 2 3 4 5 6 7);
        for (r, v) in (0..R).flat_map(|r| (0..V).map(move |v| (r, v))) {
            let mut rounded = [0u16; 16];
            let sums = _mm512_loadu_ps(all.as_ptr().add((r * VECTORS + v) * 16));
            _mm256_storeu_si256(rounded.as_mut_ptr().cast(), round(sums));
            for (i, x) in rounded.iter().enumerate().take(if v + 1 < V { 16 } else { last }) {
                *out.at(r, 16 * v + i).at = *x;
            }
        }
    }
}

/// A row's sums, as they are.
#[inline(always)]
unsafe fn keep<const V: usize>(acc: [__m512; V], to: *mut f32) {
    for (v, acc) in acc.into_iter().enumerate() {
        // SAFETY: the caller's place for them.
        unsafe { _mm512_storeu_ps(to.add(16 * v), acc) };
    }
}

/// A row's sums, rounded, one beside the other: of the last vector those of the mask.
#[inline(always)]
unsafe fn lay<const V: usize>(acc: [__m512; V], to: *mut u16, mask: u16) {
    for (v, acc) in acc.into_iter().enumerate() {
        // SAFETY: the caller has the instructions, and a place for them.
        unsafe {
            let (rounded, at) = (round(acc), to.add(16 * v));
            if v + 1 < V {
                _mm256_storeu_si256(at.cast(), rounded);
            } else {
                _mm256_mask_storeu_epi16(at.cast(), mask, rounded);
            }
        }
    }
}

/// The nearest `bf16`, even ones where two are as near; NaN stays NaN. It takes what is below 2^-126 as zero, as the
/// instruction does that the sums come from.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn round(x: __m512) -> __m256i {
    // SAFETY: vectors of the same size, of which all bits are allowed.
    unsafe { std::mem::transmute(_mm512_cvtneps_pbh(x)) }
}
