//! Copies past the caches, for results that are larger than they are.

/// Copies `from` to `to` with stores that do not read the lines they overwrite, where the
/// alignment allows it.
pub(crate) fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    if to.as_ptr() as usize % 16 == 0 {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let bytes = size_of_val(from);
        let (source, target) = (from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
        let whole = bytes / 16 * 16;
        // SAFETY: both slices have `bytes` bytes, the target starts at a multiple of 16, and SSE2 is
        // part of x86-64. The fence makes the stores visible before anything that follows.
        unsafe {
            for i in (0..whole).step_by(16) {
                _mm_stream_si128(target.add(i).cast::<__m128i>(), _mm_loadu_si128(source.add(i).cast()));
            }
            std::ptr::copy_nonoverlapping(source.add(whole), target.add(whole), bytes - whole);
            _mm_sfence();
        }
        return;
    }
    to.copy_from_slice(from);
}

/// Asks for the beginning of `row`, which will be read soon; the hardware finds the rest.
pub(crate) fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..(size_of_val(row) / 64).min(8) {
        // SAFETY: a prefetch is a hint for any address; this one is inside the row.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                row.as_ptr().cast::<i8>().add(64 * line),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[cfg(test)]
mod tests {
    #[test]
    fn copies_of_all_lengths_and_alignments() {
        let from: Vec<u8> = (0..200).collect();
        for start in 0..20 {
            for n in 0..150 {
                let mut to = vec![255u8; 200];
                super::prefetch(&from[start..start + n]);
                super::copy(&from[start..start + n], &mut to[start..start + n]);
                let expected: Vec<u8> =
                    (0..200).map(|i| if (start..start + n).contains(&(i as usize)) { i } else { 255 }).collect();
                assert_eq!(to, expected);
            }
        }
    }
}
