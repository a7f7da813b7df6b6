//! Copies of many short rows.

use super::Ahead;
use crate::copy::copy_line;

/// Evaluates `$body` with `$copy` as a copy of so many bytes from one address to another.
macro_rules! by_length {
    ($bytes:expr, $copy:ident => $body:expr) => {{
        let bytes: usize = $bytes;
        match bytes {
            0 => {}
            1 => by_length!(@ $copy => $body, |from, to| fixed::<1>(from, to)),
            2 => by_length!(@ $copy => $body, |from, to| fixed::<2>(from, to)),
            3 | 4 => by_length!(@ $copy => $body, |from, to| ends::<2>(from, to, bytes)),
            5..=8 => by_length!(@ $copy => $body, |from, to| ends::<4>(from, to, bytes)),
            9..=16 => by_length!(@ $copy => $body, |from, to| ends::<8>(from, to, bytes)),
            17..=32 => by_length!(@ $copy => $body, |from, to| ends::<16>(from, to, bytes)),
            33..=64 => by_length!(@ $copy => $body, |from, to| ends::<32>(from, to, bytes)),
            65..=128 => by_length!(@ $copy => $body, |from, to| ends::<64>(from, to, bytes)),
            _ => by_length!(@ $copy => $body, |from, to| copy_line(from, to, bytes)),
        }
    }};
    (@ $copy:ident => $body:expr, $how:expr) => {{
        let $copy = $how;
        $body
    }};
}

/// `count` rows of `width` elements, so many elements apart on both sides.
///
/// # Safety
/// All of them lie in their arrays, which do not overlap.
pub unsafe fn copy_rows<T: Copy>(
    source: *const T,
    target: *mut T,
    (from, to): (isize, isize),
    count: usize,
    width: usize,
) {
    let size = size_of::<T>();
    let steps = (from * size as isize, to * size as isize);
    // Rows that follow each other on both sides are one.
    let (count, width) = if from == to && to == width as isize { (1, count * width) } else { (count, width) };
    // SAFETY: the caller's promise.
    unsafe { rows_of_bytes((source.cast(), target.cast()), steps, count, width * size) }
}

/// The same of bytes.
///
/// # Safety
/// As [`copy_rows`].
unsafe fn rows_of_bytes(places: (*const u8, *mut u8), steps: (isize, isize), count: usize, bytes: usize) {
    // Of a length that is known the copy is two instructions; of one that is not, a call.
    // SAFETY: the caller's promise.
    unsafe { by_length!(bytes, copy => each(places, steps, count, copy)) }
}

/// Rows of so many bytes that begin anywhere, to one after the other.
///
/// # Safety
/// All of them lie in their array, so many bytes behind `from`, and there is room for them at `to`.
pub(crate) unsafe fn copy_picked(from: *const u8, places: impl Iterator<Item = usize>, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        by_length!(bytes, copy => {
            let mut to = to;
            for place in places {
                copy(from.wrapping_add(place), to);
                to = to.wrapping_add(bytes);
            }
        });
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
    let (ahead, last) = Ahead::of(steps.0, count);
    for _ in 0..last {
        ahead.ask(from);
        copy(from, to);
        (from, to) = (from.wrapping_offset(steps.0), to.wrapping_offset(steps.1));
    }
    for _ in last..count {
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

/// Rows with zeros before, between and after them.
pub(super) struct Padded {
    /// Rows, and elements of one.
    pub(super) count: usize,
    pub(super) width: usize,
    /// Elements before the first, and from one to the next.
    pub(super) lead: usize,
    pub(super) pitch: usize,
}

impl Padded {
    /// Fills all of `out`, with rows that are `step` elements apart.
    ///
    /// # Safety
    /// The rows lie in their array and fit in `out`, one after the other; what has all bits zero is a `T`.
    pub(super) unsafe fn copy<T: Copy>(&self, source: *const T, step: isize, out: &mut [T]) {
        let Padded { count, width, lead, pitch } = *self;
        let size = size_of::<T>();
        let end = lead + (count - 1) * pitch + width;
        assert!(width <= pitch && end <= out.len(), "rows that end beyond their room");
        let (to, all) = (out.as_mut_ptr().cast::<u8>(), size_of_val(out));
        let (bytes, pitch, gap) = (width * size, pitch * size, (pitch - width) * size);
        // SAFETY: the caller's promise.
        unsafe {
            to.write_bytes(0, lead * size);
            let places = (source.cast::<u8>(), to.add(lead * size));
            let (steps, room) = ((step * size as isize, pitch), all - lead * size);
            match gap {
                0 => rows_of_bytes(places, (steps.0, pitch as isize), count, bytes),
                1..=8 => spaced::<8>(places, steps, (count, bytes, gap), room),
                9..=16 => spaced::<16>(places, steps, (count, bytes, gap), room),
                _ => spaced::<64>(places, steps, (count, bytes, gap), room),
            }
            to.add(end * size).write_bytes(0, all - end * size);
        }
    }
}

/// Rows with gaps of zeros between. `Z` bytes of them are written at once, over the beginning of the next row, which comes after.
///
/// # Safety
/// As [`Padded::copy`], with so many bytes of room.
unsafe fn spaced<const Z: usize>(
    (from, to): (*const u8, *mut u8),
    steps: (isize, usize),
    (count, bytes, gap): (usize, usize, usize),
    room: usize,
) {
    // Rows behind which there is room for that.
    let over = if gap > Z { 0 } else { room.saturating_sub(bytes + Z).div_ceil(steps.1).min(count - 1) };
    let after = |from: *const u8, to: *mut u8| (from.wrapping_offset(steps.0), to.wrapping_add(steps.1));
    // SAFETY: the caller's promise.
    unsafe {
        by_length!(bytes, copy => {
            let (mut from, mut to) = (from, to);
            for _ in 0..over {
                copy(from, to);
                to.add(bytes).cast::<[u8; Z]>().write_unaligned([0; Z]);
                (from, to) = after(from, to);
            }
            for _ in over..count - 1 {
                copy(from, to);
                to.add(bytes).write_bytes(0, gap);
                (from, to) = after(from, to);
            }
            copy(from, to);
        });
    }
}
