//! Copies of many short rows.

/// `count` rows of `width` elements, so many elements apart on both sides.
///
/// # Safety
/// All of them lie in their arrays, which do not overlap.
pub(crate) unsafe fn copy_rows<T: Copy>(
    source: *const T,
    target: *mut T,
    (from, to): (isize, isize),
    count: usize,
    width: usize,
) {
    let size = size_of::<T>();
    let bytes = width * size;
    let places = (source.cast::<u8>(), target.cast::<u8>());
    let steps = (from * size as isize, to * size as isize);
    // Of a length that is known the copy is two instructions; of one that is not, a call.
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => each(places, steps, count, |from, to| fixed::<1>(from, to)),
            2 => each(places, steps, count, |from, to| fixed::<2>(from, to)),
            3 | 4 => each(places, steps, count, |from, to| ends::<2>(from, to, bytes)),
            5..=8 => each(places, steps, count, |from, to| ends::<4>(from, to, bytes)),
            9..=16 => each(places, steps, count, |from, to| ends::<8>(from, to, bytes)),
            17..=32 => each(places, steps, count, |from, to| ends::<16>(from, to, bytes)),
            33..=64 => each(places, steps, count, |from, to| ends::<32>(from, to, bytes)),
            65..=128 => each(places, steps, count, |from, to| ends::<64>(from, to, bytes)),
            _ => each(places, steps, count, |from, to| to.copy_from_nonoverlapping(from, bytes)),
        }
    }
}

/// A copy for each row; compiled for each kind of copy.
#[inline(always)]
fn each(
    (mut from, mut to): (*const u8, *mut u8),
    steps: (isize, isize),
    count: usize,
    copy: impl Fn(*const u8, *mut u8),
) {
    for _ in 0..count {
        copy(from, to);
        (from, to) = (from.wrapping_offset(steps.0), to.wrapping_offset(steps.1));
    }
}

/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn fixed<const N: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, N) }
}

/// The first and the last `N` bytes, which meet: of `N` to `2 N`.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        fixed::<N>(from, to);
        fixed::<N>(from.add(bytes - N), to.add(bytes - N));
    }
}
