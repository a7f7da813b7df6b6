//! Where a mask is true.

use crate::lanes::PARALLEL_WORK;
use crate::tasks::{Shared, for_chunks, for_tasks};

/// Elements of a mask that are looked through together.
const PART: usize = 1 << 13;
/// Masks from which on threads share the parts.
const SEVERAL: usize = PARALLEL_WORK / 2;

/// A mask, and how many of it are true before each of its parts.
///
/// ```
/// use gradus_numerics::mask::Mask;
/// let mask = Mask::new(&[false, true, false, true]);
/// let mut places = [0; 4];
/// mask.coordinates(&[2, 2], &mut places);
/// assert_eq!((mask.count(), places), (2, [0, 1, 1, 1]));
/// ```
pub struct Mask<'a> {
    bits: &'a [bool],
    starts: Vec<usize>,
}

impl<'a> Mask<'a> {
    /// Counts.
    pub fn new(bits: &'a [bool]) -> Self {
        let mut starts = vec![0; bits.len().div_ceil(PART) + 1];
        for_chunks(&mut starts[1..], 1, 1, bits.len() >= SEVERAL, |(p, count)| {
            let part = &bits[p * PART..bits.len().min((p + 1) * PART)];
            // Sums of a few bytes stay bytes: many of them go side by side.
            count[0] = part.chunks(128).map(|some| some.iter().map(|&b| u8::from(b)).sum::<u8>() as usize).sum();
        });
        for p in 1..starts.len() {
            starts[p] += starts[p - 1];
        }
        Mask { bits, starts }
    }

    /// How many are true.
    pub fn count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Calls `f` with the number and position of each that is true and below `limit`, part by part.
    fn each(&self, limit: usize, f: impl Fn(&mut Line, usize, usize) + Sync + Send) {
        for_tasks(self.starts.len() - 1, self.bits.len() >= SEVERAL, |p| {
            let (mut k, mut line) = (self.starts[p], Line::default());
            let part = &self.bits[p * PART..self.bits.len().min((p + 1) * PART)];
            for (w, some) in part.chunks(64).enumerate() {
                let mut word = word(some);
                while word != 0 {
                    if k >= limit {
                        return;
                    }
                    f(&mut line, k, p * PART + 64 * w + word.trailing_zeros() as usize);
                    k += 1;
                    word &= word - 1;
                }
            }
        });
    }

    /// The positions that are true, the first of them if `out` has no room for all.
    pub fn positions(&self, out: &mut [i64]) {
        #[cfg(target_arch = "x86_64")]
        if self.has_vectors(out.len()) {
            let to = Shared::new(out);
            return self.each_part(|p, some| {
                // SAFETY: the instructions are there; there is room for all, and parts have places of their own.
                unsafe { x86::positions(some, p * PART, to.ptr().add(self.starts[p])) }
            });
        }
        let (room, to) = (out.len(), Shared::new(out));
        // SAFETY: numbers are below the room, and all different.
        self.each(room, |_, k, p| unsafe { *to.ptr().add(k) = p as i64 });
    }

    /// Their coordinates in `shape`, one row of `shape.len()` for each; the first of them if `out` has no room for all.
    pub fn coordinates(&self, shape: &[usize], out: &mut [i64]) {
        assert_eq!(shape.iter().product::<usize>(), self.bits.len(), "the shape of a mask");
        let rank = shape.len();
        let Some((&n, outer)) = shape.split_last() else { return };
        let (room, to) = (out.len() / rank, Shared::new(out));
        self.each(room, |line, k, p| {
            if p >= line.end {
                // Divided once a line, not once an element.
                let mut at = p / n;
                (line.start, line.end) = (at * n, (at + 1) * n);
                line.at.resize(outer.len(), 0);
                for (place, &n) in line.at.iter_mut().zip(outer).rev() {
                    (*place, at) = ((at % n) as i64, at / n);
                }
            }
            // SAFETY: as above; a row has `rank` numbers.
            let row = unsafe { std::slice::from_raw_parts_mut(to.ptr().add(k * rank), rank) };
            row.iter_mut().zip(&line.at).for_each(|(o, &at)| *o = at);
            row[rank - 1] = (p - line.start) as i64;
        });
    }

    /// The elements where it is true, as many as `out` has.
    pub fn select<T: Copy + Send + Sync>(&self, x: &[T], out: &mut [T]) {
        assert_eq!(x.len(), self.bits.len(), "as many elements as the mask has");
        let (room, to) = (out.len(), Shared::new(out));
        #[cfg(target_arch = "x86_64")]
        if matches!(size_of::<T>(), 4 | 8) && self.has_vectors(room) {
            return self.each_part(|p, some| {
                // SAFETY: as above; elements have as many bytes as the words they are copied by, which may hold anything.
                unsafe {
                    let (from, to) = (x.as_ptr().add(p * PART), to.ptr().add(self.starts[p]));
                    match size_of::<T>() {
                        4 => x86::select_fours(some, from.cast(), to.cast()),
                        _ => x86::select_eights(some, from.cast(), to.cast()),
                    }
                }
            });
        }
        // SAFETY: as above.
        self.each(room, |_, k, p| unsafe { *to.ptr().add(k) = x[p] });
    }

    /// For each position how many before it are true, but never more than all but one.
    pub fn ranks(&self, out: &mut [i64]) {
        assert_eq!(out.len(), self.bits.len(), "as many places as the mask has");
        let most = self.count().saturating_sub(1) as i64;
        for_chunks(out, PART, 1, self.bits.len() >= SEVERAL, |(p, out)| {
            let mut k = self.starts[p] as i64;
            for (o, &b) in out.iter_mut().zip(&self.bits[p * PART..]) {
                *o = k.min(most);
                k += i64::from(b);
            }
        });
    }

    /// Whether vectors can be used, and there is room for all that is true.
    #[cfg(target_arch = "x86_64")]
    fn has_vectors(&self, room: usize) -> bool {
        crate::simd::Isa::detect() == crate::simd::Isa::Avx512 && room >= self.count()
    }

    /// Calls `f` with the number of each part, and the part.
    #[cfg(target_arch = "x86_64")]
    fn each_part(&self, f: impl Fn(usize, &[bool]) + Sync + Send) {
        for_tasks(self.starts.len() - 1, self.bits.len() >= SEVERAL, |p| {
            f(p, &self.bits[p * PART..self.bits.len().min((p + 1) * PART)]);
        });
    }
}

/// The line of an array that is looked through.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    /// The coordinates but the last.
    at: Vec<i64>,
}

/// Up to 64 of a mask as bits.
#[inline]
fn word(bits: &[bool]) -> u64 {
    let (eights, rest) = bits.as_chunks::<8>();
    let mut word = 0;
    for (k, eight) in eights.iter().enumerate() {
        // Each byte is 0 or 1; the product has them one beside the other in its highest byte.
        let byte = u64::from_le_bytes(eight.map(u8::from)).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= byte << (8 * k);
    }
    for (k, &b) in rest.iter().enumerate() {
        word |= u64::from(b) << (8 * eights.len() + k);
    }
    word
}

/// What is true moved together in registers.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Calls `f` with the position of each group of `N` of a mask, and the group as bits.
    ///
    /// # Safety
    /// `N` is 8 or 16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn groups<const N: usize>(bits: &[bool], mut f: impl FnMut(usize, u32)) {
        for (w, some) in bits.chunks(64).enumerate() {
            let read = u64::MAX >> (64 - some.len());
            // SAFETY: no more bytes are read than there are.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(read, some.as_ptr().cast()) };
            let mut word = _mm512_test_epi8_mask(bytes, bytes);
            let mut at = 64 * w;
            while word != 0 {
                f(at, word as u32 & ((1 << N) - 1));
                (word, at) = (word >> N, at + N);
            }
        }
    }

    /// The positions that are true, counted from `first`.
    ///
    /// # Safety
    /// There is room for all of them.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn positions(bits: &[bool], first: usize, mut to: *mut i64) {
        let steps = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
        // SAFETY: exactly as many are written as are true.
        unsafe {
            groups::<8>(bits, |at, group| {
                let count = group.count_ones();
                let places = _mm512_add_epi64(steps, _mm512_set1_epi64((first + at) as i64));
                let places = _mm512_maskz_compress_epi64(group as u8, places);
                _mm512_mask_storeu_epi64(to, ((1u32 << count) - 1) as u8, places);
                to = to.add(count as usize);
            });
        }
    }

    /// The words of eight bytes where a mask is true.
    ///
    /// # Safety
    /// There are as many words as the mask has, and room for all where it is true.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn select_eights(bits: &[bool], from: *const i64, mut to: *mut i64) {
        // SAFETY: what is read and written is where the mask is true.
        unsafe {
            groups::<8>(bits, |at, group| {
                let count = group.count_ones();
                let words = _mm512_maskz_loadu_epi64(group as u8, from.add(at));
                let words = _mm512_maskz_compress_epi64(group as u8, words);
                _mm512_mask_storeu_epi64(to, ((1u32 << count) - 1) as u8, words);
                to = to.add(count as usize);
            });
        }
    }

    /// The words of four bytes where a mask is true.
    ///
    /// # Safety
    /// As of [`select_eights`].
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn select_fours(bits: &[bool], from: *const i32, mut to: *mut i32) {
        // SAFETY: what is read and written is where the mask is true.
        unsafe {
            groups::<16>(bits, |at, group| {
                let count = group.count_ones();
                let words = _mm512_maskz_loadu_epi32(group as u16, from.add(at));
                let words = _mm512_maskz_compress_epi32(group as u16, words);
                _mm512_mask_storeu_epi32(to, ((1u32 << count) - 1) as u16, words);
                to = to.add(count as usize);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, same_on_any_threads};

    #[test]
    fn masks_are_found_in_order() {
        let mut r = Random(7);
        for shape in [vec![0], vec![1], vec![3, 5], vec![64], vec![7, 130, 3], vec![300, 1001], vec![100_003]] {
            let n: usize = shape.iter().product();
            for some in [0, 1, 2, 3] {
                let bits: Vec<bool> = (0..n).map(|_| r.below(3) < some).collect();
                let expected: Vec<usize> = (0..n).filter(|&p| bits[p]).collect();
                let mask = Mask::new(&bits);
                assert_eq!(mask.count(), expected.len());
                let mut places = vec![-1; expected.len()];
                mask.positions(&mut places);
                assert!(places.iter().zip(&expected).all(|(a, b)| *a == *b as i64));
                let mut rows = vec![-1; expected.len() * shape.len()];
                mask.coordinates(&shape, &mut rows);
                let back = |row: &[i64]| row.iter().zip(&shape).fold(0, |p, (i, n)| p * n + *i as usize);
                assert!(rows.chunks(shape.len()).map(back).eq(expected.iter().copied()));
                let numbers: Vec<usize> = (0..n).collect();
                let mut picked = vec![0; expected.len() / 2];
                mask.select(&numbers, &mut picked);
                assert_eq!(picked, expected[..expected.len() / 2]);
                picked.resize(expected.len(), 0);
                mask.select(&numbers, &mut picked);
                assert_eq!(picked, expected);
                let halves: Vec<u32> = (0..n as u32).collect();
                let mut picked = vec![0; expected.len()];
                mask.select(&halves, &mut picked);
                assert!(picked.iter().zip(&expected).all(|(a, b)| *a as usize == *b));
                let mut ranks = vec![-1; n];
                mask.ranks(&mut ranks);
                let before = |p: usize| expected.partition_point(|&e| e < p).min(expected.len().saturating_sub(1));
                assert!((0..n).all(|p| ranks[p] == before(p) as i64));
            }
        }
    }

    #[test]
    fn threads_do_not_matter() {
        let mut r = Random(3);
        let bits: Vec<bool> = (0..200_000).map(|_| r.below(2) == 0).collect();
        same_on_any_threads(|| {
            let mask = Mask::new(&bits);
            let mut places = vec![0; mask.count()];
            mask.positions(&mut places);
            places
        });
    }
}
