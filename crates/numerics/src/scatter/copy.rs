//! Copies of rows that lie anywhere.

/// Outputs from here on are written past the caches: half of a usual last-level cache would be theirs otherwise, and
/// every line would be read before it is written.
pub(super) const STREAM_BYTES: usize = 16 << 20;

/// Copies `from` to `to`, of the same length, and asks for the lines of `next` meanwhile.
#[inline]
pub(super) fn row<T: Copy>(from: &[T], next: &[T], to: &mut [T], stream: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        for line in 0..size_of_val(next).div_ceil(64) {
            // SAFETY: a prefetch is a hint for any address; this one is inside the row.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(next.as_ptr().cast::<i8>().add(64 * line)) };
        }
        let bytes = size_of_val(from);
        if stream && (to.as_ptr() as usize).is_multiple_of(16) && bytes.is_multiple_of(64) && from.len() == to.len() {
            let (from, to) = (from.as_ptr().cast::<__m128i>(), to.as_mut_ptr().cast::<__m128i>());
            for i in 0..bytes / 16 {
                // SAFETY: both rows have that many bytes, and the target is aligned.
                unsafe { _mm_stream_si128(to.add(i), _mm_loadu_si128(from.add(i))) };
            }
            return;
        }
    }
    let _ = (next, stream);
    to.copy_from_slice(from);
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
