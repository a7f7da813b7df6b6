//! Elements that lie in steps, or backwards, in lines so short that a loop each would cost more than what it copies.

use super::Ahead;

/// Rows of so many elements are copied with their length known.
pub(super) const MOST: usize = 8;

/// `count` rows of `width` elements, `along` apart in a row, and rows `step` apart.
///
/// # Safety
/// All of them lie in the array, and there is room for them in `out`.
pub(super) unsafe fn short_rows<T: Copy>(
    source: *const T,
    (along, step): (isize, isize),
    out: &mut [T],
    (count, width): (usize, usize),
) {
    debug_assert!((2..=MOST).contains(&width) && out.len() >= count * width, "short rows, and room for them");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    if along == -1 && step == width as isize && unsafe { backwards::run(source, out, (count, width)) } {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            2 => known::<T, 2>(source, (along, step), out, count),
            3 => known::<T, 3>(source, (along, step), out, count),
            4 => known::<T, 4>(source, (along, step), out, count),
            5 => known::<T, 5>(source, (along, step), out, count),
            6 => known::<T, 6>(source, (along, step), out, count),
            7 => known::<T, 7>(source, (along, step), out, count),
            _ => known::<T, 8>(source, (along, step), out, count),
        }
    }
}

/// # Safety
/// As [`short_rows`].
unsafe fn known<T: Copy, const W: usize>(source: *const T, (along, step): (isize, isize), out: &mut [T], count: usize) {
    let mut from = source;
    let (ahead, last) = Ahead::of(step * size_of::<T>() as isize, count);
    for (i, row) in out.as_chunks_mut::<W>().0.iter_mut().take(count).enumerate() {
        if i < last {
            ahead.ask(from);
        }
        // SAFETY: the caller's promise.
        *row = std::array::from_fn(|c| unsafe { *from.wrapping_offset(c as isize * along) });
        from = from.wrapping_offset(step);
    }
}

/// Lines that follow each other, each of them backwards: a register has several.
#[cfg(target_arch = "x86_64")]
pub(super) mod backwards {
    use std::arch::x86_64::*;

    /// Lines whose last elements are `source`, `source + width`, and so on; `false` if this is no such processor, or if lines are
    /// too long for a register.
    ///
    /// # Safety
    /// All of them lie in the array, and there is room for them in `out`.
    pub unsafe fn run<T: Copy>(source: *const T, out: &mut [T], (count, width): (usize, usize)) -> bool {
        let size = size_of::<T>();
        if width * size > 64 || !size.is_power_of_two() || !is_x86_feature_detected!("avx512vbmi") {
            return false;
        }
        let first = source.wrapping_sub(width - 1).cast::<u8>();
        // SAFETY: the instructions are there, and the caller's promise.
        unsafe { lines(first, out.as_mut_ptr().cast(), count * width * size, (width * size, size)) };
        true
    }

    /// # Safety
    /// Both have so many bytes, and the instructions are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn lines(from: *const u8, to: *mut u8, bytes: usize, (line, size): (usize, usize)) {
        let whole = 64 / line * line;
        // Where each byte comes from: its line, the element counted from the line's end, and the byte of that.
        let mut places = [0u8; 64];
        let ends = (line..=whole).step_by(line);
        let backwards = ends.flat_map(|end| (0..line / size).map(move |e| end - (e + 1) * size));
        for (place, from) in places.chunks_exact_mut(size).zip(backwards) {
            place.iter_mut().enumerate().for_each(|(byte, place)| *place = (from + byte) as u8);
        }
        // SAFETY: the caller's promise: a register is read and written where as many bytes are left, and what is written behind
        // the last line in it comes after.
        unsafe {
            let places = _mm512_loadu_si512(places.as_ptr().cast());
            let mut at = 0;
            while at + 64 <= bytes {
                let x = _mm512_permutexvar_epi8(places, _mm512_loadu_si512(from.add(at).cast()));
                _mm512_storeu_si512(to.add(at).cast(), x);
                at += whole;
            }
            while at < bytes {
                let mask = u64::MAX >> (64 - whole.min(bytes - at));
                let x = _mm512_permutexvar_epi8(places, _mm512_maskz_loadu_epi8(mask, from.add(at).cast()));
                _mm512_mask_storeu_epi8(to.add(at).cast(), mask, x);
                at += whole;
            }
        }
    }
}

/// Every second element, a vector at a time.
#[cfg(target_arch = "x86_64")]
pub(super) mod seconds {
    use crate::simd::{Isa, prefetch};
    use std::arch::x86_64::*;

    /// How far ahead of what is read to ask, in bytes.
    const AHEAD: usize = 2048;

    /// `source`, the second one on, and so on; `false` if there is no instruction for it.
    ///
    /// # Safety
    /// All of them lie in the array.
    pub unsafe fn run<T: Copy>(source: *const T, out: &mut [T]) -> bool {
        if !matches!(size_of::<T>(), 2 | 4 | 8) || Isa::detect() != Isa::Avx512 {
            return false;
        }
        let lanes = 64 / size_of::<T>();
        // What lies behind the last one may be nobody's.
        let whole = out.len().saturating_sub(1) / lanes;
        let (first, rest) = out.split_at_mut(whole * lanes);
        // SAFETY: the instructions are there, and the caller's promise: of as many pairs both elements lie in the array.
        unsafe {
            vectors(source.cast(), first.as_mut_ptr().cast(), whole, size_of::<T>());
            let source = source.add(2 * first.len());
            rest.iter_mut().enumerate().for_each(|(i, x)| *x = *source.add(2 * i));
        }
        true
    }

    /// # Safety
    /// Twice as many vectors lie at `from`, there is room for so many at `to`, and the instructions are there.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn vectors(from: *const u8, to: *mut u8, count: usize, size: usize) {
        // Where each number of a vector comes from, of the two that were read: all places have one of the three widths.
        let mut places = [0u8; 64];
        places.chunks_exact_mut(size).enumerate().for_each(|(i, place)| place[0] = 2 * i as u8);
        // SAFETY: the caller's promise; a request for memory ahead never faults.
        unsafe {
            let places = _mm512_loadu_si512(places.as_ptr().cast());
            for i in 0..count {
                let at = from.add(128 * i);
                prefetch(at.wrapping_add(AHEAD));
                prefetch(at.wrapping_add(AHEAD + 64));
                let (a, b) = (_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast()));
                let x = match size {
                    2 => _mm512_permutex2var_epi16(a, places, b),
                    4 => _mm512_permutex2var_epi32(a, places, b),
                    _ => _mm512_permutex2var_epi64(a, places, b),
                };
                _mm512_storeu_si512(to.add(64 * i).cast(), x);
            }
        }
    }
}
