//! Blocks of 16 by 16 (of 8 by 8 for two and for eight bytes) elements in registers.

use super::Transposition;
use super::narrow::square;
use crate::simd::prefetch_second;
use std::arch::x86_64::*;

/// How far ahead lines of the source are asked for where the target goes past the caches, in bytes.
const AHEAD: usize = 1024;

/// The side of a block of elements of this size; zero where there is none.
pub(super) fn side<T>() -> usize {
    match size_of::<T>() {
        1 | 4 => 16,
        2 | 8 => 8,
        _ => 0,
    }
}

/// Transposes block by block. The last one of a line begins earlier where less is left, so that most are whole; those at the edges
/// of less than a block read and write what is there.
///
/// # Safety
///
/// AVX-512 is there, the elements lie in their arrays, and with `stream` lines of the target are
/// aligned.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn blocks<T: Copy>(t: &Transposition, source: *const T, target: *mut T, stream: bool) {
    let side = side::<T>();
    let back = |at: usize, n: usize| if n >= side { at.min(n - side) } else { at };
    for r in (0..t.rows).step_by(side) {
        let r = back(r, t.rows);
        for c in (0..t.columns).step_by(side) {
            let c = back(c, t.columns);
            // Past the caches only where lines are aligned.
            let stream = stream && c % side == 0;
            let from = source.wrapping_offset(c as isize * t.from + r as isize);
            let to = target.wrapping_offset(r as isize * t.to + c as isize);
            let (rows, columns) = (side.min(t.rows - r), side.min(t.columns - c));
            let edge = Edge { rows, columns, from: t.from, to: t.to };
            let whole = rows == side && columns == side;
            if stream && r + AHEAD / size_of::<T>() < t.rows {
                // What is not there takes long to ask for: only lines of these columns.
                let ahead = from.cast::<u8>().wrapping_add(AHEAD);
                let step = t.from * size_of::<T>() as isize;
                (0..columns as isize).for_each(|c| prefetch_second(ahead.wrapping_offset(c * step)));
            }
            // SAFETY: the caller's promise.
            unsafe {
                match size_of::<T>() {
                    4 if !whole && edge.pays(side) => edge.singles(from.cast(), to.cast()),
                    8 if rows == 2 && columns == side => pairs(from.cast(), t.from, to.cast(), t.to),
                    8 if !whole && edge.pays(side) => edge.doubles(from.cast(), to.cast()),
                    1 if columns == side => square::<u8, 16>((from.cast(), t.from), (to.cast(), t.to), rows),
                    2 if columns == side => square::<u16, 8>((from.cast(), t.from), (to.cast(), t.to), rows),
                    _ if !whole => t.plain(source, target, (c, r), (c + columns, r + rows)),
                    4 => singles(from.cast(), t.from, to.cast(), t.to, stream),
                    _ => doubles(from.cast(), t.from, to.cast(), t.to, stream),
                }
            }
        }
    }
    if stream {
        // Such stores are seen by other threads only after this.
        _mm_sfence();
    }
}

/// Transposes 16 by 16 numbers in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn turn16(mut v: [__m512i; 16]) -> [__m512i; 16] {
    // Within 128 bits first, by pairs of rows and pairs of pairs; then 128 bits as they are.
    for i in (0..16).step_by(2) {
        (v[i], v[i + 1]) = (_mm512_unpacklo_epi32(v[i], v[i + 1]), _mm512_unpackhi_epi32(v[i], v[i + 1]));
    }
    let mut w = v;
    for i in (0..16).step_by(4) {
        w[i] = _mm512_unpacklo_epi64(v[i], v[i + 2]);
        w[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 2]);
        w[i + 2] = _mm512_unpacklo_epi64(v[i + 1], v[i + 3]);
        w[i + 3] = _mm512_unpackhi_epi64(v[i + 1], v[i + 3]);
    }
    for i in 0..4 {
        v[i] = _mm512_shuffle_i32x4::<0x88>(w[i], w[i + 4]);
        v[i + 4] = _mm512_shuffle_i32x4::<0xdd>(w[i], w[i + 4]);
        v[i + 8] = _mm512_shuffle_i32x4::<0x88>(w[i + 8], w[i + 12]);
        v[i + 12] = _mm512_shuffle_i32x4::<0xdd>(w[i + 8], w[i + 12]);
    }
    for i in 0..8 {
        w[i] = _mm512_shuffle_i32x4::<0x88>(v[i], v[i + 8]);
        w[i + 8] = _mm512_shuffle_i32x4::<0xdd>(v[i], v[i + 8]);
    }
    w
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn singles(from: *const i32, step: isize, to: *mut i32, to_step: isize, stream: bool) {
    // SAFETY: the caller gives 16 rows of 16 numbers on both sides.
    unsafe {
        let v = turn16(std::array::from_fn(|i| _mm512_loadu_si512(from.offset(i as isize * step).cast())));
        for (i, v) in v.into_iter().enumerate() {
            let to = to.offset(i as isize * to_step);
            if stream {
                _mm512_stream_si512(to.cast(), v);
            } else {
                _mm512_storeu_si512(to.cast(), v);
            }
        }
    }
}

/// Transposes 8 by 8 numbers in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn turn8(mut v: [__m512i; 8]) -> [__m512i; 8] {
    // Interleaving vectors i and i + 4 rotates the six bits of an element's place by one.
    let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    for _ in 0..3 {
        let mut w = v;
        for i in 0..4 {
            w[2 * i] = _mm512_permutex2var_epi64(v[i], low, v[i + 4]);
            w[2 * i + 1] = _mm512_permutex2var_epi64(v[i], high, v[i + 4]);
        }
        v = w;
    }
    v
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn doubles(from: *const i64, step: isize, to: *mut i64, to_step: isize, stream: bool) {
    // SAFETY: the caller gives 8 rows of 8 numbers on both sides.
    unsafe {
        let v = turn8(std::array::from_fn(|i| _mm512_loadu_si512(from.offset(i as isize * step).cast())));
        for (i, v) in v.into_iter().enumerate() {
            let to = to.offset(i as isize * to_step);
            if stream {
                _mm512_stream_si512(to.cast(), v);
            } else {
                _mm512_storeu_si512(to.cast(), v);
            }
        }
    }
}

/// Eight columns of two rows: what is left of rows of ten.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pairs(from: *const i64, step: isize, to: *mut i64, to_step: isize) {
    // SAFETY: the caller gives two rows of eight numbers on both sides.
    unsafe {
        let pair = |i: isize| _mm_loadu_si128(from.offset(i * step).cast());
        let four = |i: isize| {
            let v = _mm512_inserti64x2::<1>(_mm512_castsi128_si512(pair(i)), pair(i + 1));
            _mm512_inserti64x2::<3>(_mm512_inserti64x2::<2>(v, pair(i + 2)), pair(i + 3))
        };
        let (a, b) = (four(0), four(4));
        let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi64(a, even, b));
        _mm512_storeu_si512(to.offset(to_step).cast(), _mm512_permutex2var_epi64(a, odd, b));
    }
}

/// A block that is less than a whole one.
struct Edge {
    rows: usize,
    columns: usize,
    from: isize,
    to: isize,
}

impl Edge {
    /// Whether it is large enough to be turned in registers: then it also has a quarter of a vector of columns.
    fn pays(&self, side: usize) -> bool {
        4 * self.columns >= side && 4 * self.rows * self.columns >= side * side
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn singles(&self, from: *const i32, to: *mut i32) {
        let part = if self.columns < 8 { 4 } else { 8 };
        let (rows, last) = (((1u32 << self.rows) - 1) as __mmask16, self.columns - part);
        // The last eight of a line, or the last four of a shorter one; those and as many first ones are all, and stores that
        // leave lanes out are slow.
        let ends = _mm512_add_epi32(
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7),
            _mm512_set1_epi32(last as i32),
        );
        // SAFETY: the caller gives the rows and columns that are there, and rows that are not are not read.
        unsafe {
            let v = turn16(std::array::from_fn(|i| {
                // The last column again for those that are not there: asking for nothing from a page that is not there
                // takes the processor hundreds of cycles.
                _mm512_maskz_loadu_epi32(rows, from.offset(i.min(self.columns - 1) as isize * self.from))
            }));
            for (i, v) in v.into_iter().enumerate().take(self.rows) {
                let to = to.offset(i as isize * self.to);
                if self.columns == 16 {
                    _mm512_storeu_si512(to.cast(), v);
                } else if part == 4 {
                    _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(v));
                    let end = _mm512_castsi512_si128(_mm512_permutexvar_epi32(ends, v));
                    _mm_storeu_si128(to.add(last).cast(), end);
                } else {
                    _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(v));
                    let end = _mm512_castsi512_si256(_mm512_permutexvar_epi32(ends, v));
                    _mm256_storeu_si256(to.add(last).cast(), end);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn doubles(&self, from: *const i64, to: *mut i64) {
        let part = if self.columns < 4 { 2 } else { 4 };
        let (rows, last) = (((1u32 << self.rows) - 1) as __mmask8, self.columns - part);
        let ends = _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 0, 1, 2, 3), _mm512_set1_epi64(last as i64));
        // SAFETY: as above.
        unsafe {
            let v = turn8(std::array::from_fn(|i| {
                _mm512_maskz_loadu_epi64(rows, from.offset(i.min(self.columns - 1) as isize * self.from))
            }));
            for (i, v) in v.into_iter().enumerate().take(self.rows) {
                let to = to.offset(i as isize * self.to);
                if self.columns == 8 {
                    _mm512_storeu_si512(to.cast(), v);
                } else if part == 2 {
                    _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(v));
                    let end = _mm512_castsi512_si128(_mm512_permutexvar_epi64(ends, v));
                    _mm_storeu_si128(to.add(last).cast(), end);
                } else {
                    _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(v));
                    let end = _mm512_castsi512_si256(_mm512_permutexvar_epi64(ends, v));
                    _mm256_storeu_si256(to.add(last).cast(), end);
                }
            }
        }
    }
}
