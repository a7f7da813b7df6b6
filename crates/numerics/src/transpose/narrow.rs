//! Columns woven together in registers of sixteen bytes: blocks of bytes and words, and lines of the target so short that a register
//! has several.

use super::Transposition;
use std::arch::x86_64::*;

/// Whether lines of the target are that short, and lines of the source fill a register.
pub(super) fn suits<T>(t: &Transposition) -> bool {
    matches!(size_of::<T>(), 1 | 2 | 4 | 8)
        && (2..=16 / size_of::<T>()).contains(&t.columns)
        && t.rows >= 16 / size_of::<T>()
}

/// Transposes what [`suits`].
///
/// # Safety
///
/// The elements lie in their arrays, which do not overlap.
pub(super) unsafe fn run<T: Copy>(t: &Transposition, source: *const T, target: *mut T) {
    // SAFETY: the caller's promise; there are as many columns.
    unsafe {
        match t.columns {
            2 => lines::<T, 2>(t, source, target),
            3..=4 => lines::<T, 4>(t, source, target),
            5..=8 => lines::<T, 8>(t, source, target),
            _ => lines::<T, 16>(t, source, target),
        }
    }
}

/// The same for more than `N / 2` and up to `N` columns.
///
/// # Safety
/// As [`run`].
unsafe fn lines<T: Copy, const N: usize>(t: &Transposition, source: *const T, target: *mut T) {
    let (some, columns) = (16 / size_of::<T>(), t.columns);
    assert!(N <= some && columns <= N && 2 * columns > N && t.rows >= some, "several lines in a register");
    let each = some / N;
    let dense = t.to == columns as isize;
    for r in (0..t.rows).step_by(some) {
        // The last rows again where fewer are left.
        let r = r.min(t.rows - some);
        // SAFETY: these columns and rows are there.
        let column = |c: usize| unsafe {
            _mm_loadu_si128(source.offset(c.min(columns - 1) as isize * t.from + r as isize).cast())
        };
        let v = turned::<T, N>(column);
        for (i, v) in v.into_iter().enumerate() {
            let first = r + i * each;
            // SAFETY: lines of the target that are there, whole or a part of them; what is written beyond the end of a line is the
            // beginning of the next, which comes after.
            unsafe {
                let to = target.wrapping_offset(first as isize * t.to);
                if dense && columns == N {
                    _mm_storeu_si128(to.cast(), v);
                    continue;
                }
                let mut room = [0u8; 16];
                _mm_storeu_si128(room.as_mut_ptr().cast(), v);
                for j in 0..each {
                    let line = room.as_ptr().cast::<T>().add(j * N);
                    let to = to.wrapping_offset(j as isize * t.to);
                    if columns == N || (dense && first + j + 1 < t.rows) {
                        to.copy_from_nonoverlapping(line, N);
                    } else {
                        // The first and the last of them, which meet.
                        to.copy_from_nonoverlapping(line, N / 2);
                        to.add(columns - N / 2).copy_from_nonoverlapping(line.add(columns - N / 2), N / 2);
                    }
                }
            }
        }
    }
}

/// `N` columns of as many rows as a register has, which then stand one after the other.
#[inline(always)]
fn turned<T, const N: usize>(column: impl Fn(usize) -> __m128i) -> [__m128i; N] {
    let mut v: [__m128i; N] = std::array::from_fn(column);
    // Weaving registers i and i + N / 2 rotates the bits of an element's place by one; as often as the number of a register has
    // bits, and that of a row stands before that of a column.
    for _ in 0..N.trailing_zeros() {
        let mut w = v;
        for i in 0..N / 2 {
            [w[2 * i], w[2 * i + 1]] = woven::<T>(v[i], v[i + N / 2]);
        }
        v = w;
    }
    v
}

/// A square of `N` elements a side, which fill a register, or the first `rows` rows of it.
///
/// # Safety
///
/// AVX-512 is there, and the elements lie in their arrays.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn square<T: Copy, const N: usize>(
    (from, step): (*const T, isize),
    (to, to_step): (*mut T, isize),
    rows: usize,
) {
    // SAFETY: the caller's promise; bytes beyond the rows are not read.
    unsafe {
        let v = if rows == N {
            turned::<T, N>(|c| _mm_loadu_si128(from.offset(c as isize * step).cast()))
        } else {
            let bytes = ((1u32 << (rows * size_of::<T>())) - 1) as __mmask16;
            turned::<T, N>(|c| _mm_maskz_loadu_epi8(bytes, from.offset(c as isize * step).cast()))
        };
        for (i, v) in v.into_iter().enumerate().take(rows) {
            _mm_storeu_si128(to.offset(i as isize * to_step).cast(), v);
        }
    }
}

/// Elements of both in turn: of their first halves, and of their second ones.
#[inline(always)]
fn woven<T>(a: __m128i, b: __m128i) -> [__m128i; 2] {
    // SAFETY: SSE2 is there on every such processor.
    unsafe {
        match size_of::<T>() {
            1 => [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)],
            2 => [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)],
            4 => [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)],
            _ => [_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)],
        }
    }
}
