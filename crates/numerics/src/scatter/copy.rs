//! Copies of rows that lie anywhere.

#[cfg(target_arch = "x86_64")]
use crate::simd::prefetch;

/// Outputs from here on are written past the caches: half of a usual last-level cache would be theirs otherwise, and
/// every line would be read before it is written.
pub(super) const STREAM_BYTES: usize = 16 << 20;

/// Rows of at most this many elements are copied in pieces of so many.
const SHORT: usize = 64;
const PIECE: usize = 16;

/// Lines of the next row that are asked for at once: what follows them the hardware sees coming.
const LINES: usize = 48;

/// Copies `from` to `to`, of the same length, and asks for the lines of `next` meanwhile, where there is one.
#[inline]
pub(super) fn row<T: Copy>(from: &[T], next: &[T], to: &mut [T], stream: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        // To ask for what is nowhere takes long.
        let next = if next.is_empty() { from } else { next };
        let bytes = size_of_val(from);
        let lines = bytes.is_multiple_of(64) && (to.as_ptr() as usize).is_multiple_of(64);
        // Sixteen bytes at a time, such stores take half as long again.
        if stream && lines && from.len() == to.len() && is_x86_feature_detected!("avx512f") {
            // SAFETY: both rows have that many bytes, the target's lines are whole, and the CPU has been asked.
            return unsafe {
                past_the_caches(from.as_ptr().cast(), next.as_ptr().cast(), to.as_mut_ptr().cast(), bytes / 64)
            };
        }
        let next = next.as_ptr().cast::<u8>();
        (0..bytes.div_ceil(64).min(LINES)).for_each(|line| prefetch(next.wrapping_add(64 * line)));
    }
    let _ = (next, stream);
    if from.len() <= SHORT && from.len() == to.len() {
        // A call would take longer than this.
        let ((from, end), (to, to_end)) = (from.as_chunks::<PIECE>(), to.as_chunks_mut::<PIECE>());
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        return to_end.iter_mut().zip(end).for_each(|(to, from)| *to = *from);
    }
    assert_eq!(from.len(), to.len(), "rows of one length");
    // SAFETY: both have that many bytes, and one is borrowed exclusively.
    unsafe { crate::copy::copy_line(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) }
}

/// Copies, and asks for a line of the next row with every one: all of them at once would stand in the way of this row's.
///
/// # Safety
///
/// Both hold so many lines, which do not overlap; `to` is aligned to a line. AVX-512 is there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn past_the_caches(from: *const u8, next: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for i in 0..lines {
        prefetch(next.wrapping_add(64 * i));
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.add(64 * i).cast(), _mm512_loadu_si512(from.add(64 * i).cast())) };
    }
}

/// What was written past the caches is seen by other threads only after this.
#[inline]
pub(super) fn seen() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of this architecture has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}
