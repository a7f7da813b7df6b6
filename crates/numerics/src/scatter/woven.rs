//! Narrow rows with one index array for all blocks, many blocks abreast.
//!
//! Along a last axis a row is one number: one by one, a number that goes where the last one went waits for it. Blocks are woven
//! so that a vector has the same place of sixteen of them; the order of a place's updates stays what it was.

use super::{Mode, combine, resolve};
use crate::element::Num;
use crate::lanes::{Lanes, PARALLEL_WORK};
use crate::scratch;
use crate::tasks::{Shared, for_tasks};
use crate::transpose::Transposition;
use std::ops::Range;

/// Blocks that are woven together.
const ABREAST: usize = 16;
/// Bytes that woven blocks take at the most: less than a second cache, with the updates.
const ROOM: usize = 128 << 10;
/// Elements of a block's updates that are woven at once, about.
const PART: usize = 256;

/// Whether blocks are narrow, and so many and with so many updates that weaving them pays.
pub(super) fn suits<T>(l: Lanes, updates: usize) -> bool {
    l.inner < ABREAST
        && l.outer >= ABREAST / 4
        && updates >= 4
        && 2 * updates >= l.n
        && l.n * l.inner * ABREAST * size_of::<T>() <= ROOM
}

/// [`super::index_rows`] of checked indices, where that [`suits`].
pub(super) fn index_rows<T: Num>(base: Option<&[T]>, l: Lanes, dst: &mut [T], index: &[i64], src: &[T], mode: Mode) {
    let (block, line) = (l.n * l.inner, index.len() * l.inner);
    assert!(dst.len() == l.outer * block && src.len() == l.outer * line, "as many rows as there are indices");
    assert!(base.is_none_or(|b| b.len() == dst.len()), "a beginning of the target's size");
    let groups = l.outer.div_ceil(ABREAST);
    let work = ABREAST * (block + line);
    let together = (PARALLEL_WORK / 8 / work).max(1);
    let parallel = groups * work >= PARALLEL_WORK / 2;
    let to = Shared::new(dst);
    for_tasks(groups.div_ceil(together), parallel, |t| {
        let part = PART.div_ceil(l.inner).min(index.len());
        let numbers = |elements: usize| (elements * ABREAST * size_of::<T>()).div_ceil(64) * 16;
        let mut room = scratch::take(numbers(block) + numbers(part * l.inner));
        let (sums, new) = room.split_at_mut(numbers(block));
        let (sums, new) = (sums.as_mut_ptr().cast::<T>(), new.as_mut_ptr().cast::<T>());
        for o in (t * together..groups.min((t + 1) * together)).map(|g| g * ABREAST) {
            let abreast = ABREAST.min(l.outer - o);
            let dst = to.ptr().wrapping_add(o * block);
            let first = base.map_or(dst.cast_const(), |b| b[o * block..].as_ptr());
            // SAFETY: there are so many blocks of the target, of its beginning and of the updates, checked above; these blocks of
            // the target are this task's alone. There is room for the woven ones; where not all of a vector is written, zeros are.
            unsafe {
                if abreast < ABREAST {
                    sums.write_bytes(0, block * ABREAST);
                    new.write_bytes(0, part * l.inner * ABREAST);
                }
                weave(first, sums, (abreast, block), block);
                for k in (0..index.len()).step_by(part) {
                    let some = &index[k..index.len().min(k + part)];
                    let from = src[o * line + k * l.inner..].as_ptr();
                    weave(from, new, (abreast, some.len() * l.inner), line);
                    let sums = std::slice::from_raw_parts_mut(sums.cast::<[T; ABREAST]>(), block);
                    let new = std::slice::from_raw_parts(new.cast::<[T; ABREAST]>(), some.len() * l.inner);
                    combined(mode, l, sums, some, new);
                }
                let back = Transposition { rows: abreast, columns: block, from: ABREAST as isize, to: block as isize };
                back.run(sums.cast_const(), dst, false);
            }
        }
    });
}

/// Lines of `n` elements, so many elements apart, to vectors of one element of each.
///
/// # Safety
/// All elements are there, and there is room for `n` vectors.
unsafe fn weave<T: Copy>(from: *const T, to: *mut T, (lines, n): (usize, usize), apart: usize) {
    let t = Transposition { rows: n, columns: lines, from: apart as isize, to: ABREAST as isize };
    // SAFETY: the caller's promise.
    unsafe { t.run(from, to, false) }
}

/// Rows of vectors combined into those that the index names.
fn combined<T: Num>(mode: Mode, l: Lanes, sums: &mut [[T; ABREAST]], index: &[i64], new: &[[T; ABREAST]]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Num>(mode: Mode, l: Lanes, sums: &mut [[T; ABREAST]], index: &[i64], new: &[[T; ABREAST]]) {
            by_mode(mode, l, sums, index, new);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(mode, l, sums, index, new) };
    }
    by_mode(mode, l, sums, index, new);
}

#[inline(always)]
fn by_mode<T: Num>(mode: Mode, l: Lanes, sums: &mut [[T; ABREAST]], index: &[i64], new: &[[T; ABREAST]]) {
    match mode {
        Mode::Assign => rows(l, sums, index, new, |_, new| new),
        Mode::Add => rows(l, sums, index, new, T::add),
        Mode::Mul => rows(l, sums, index, new, T::mul),
        Mode::Min => rows(l, sums, index, new, |old, new| combine(Mode::Min, old, new)),
        Mode::Max => rows(l, sums, index, new, |old, new| combine(Mode::Max, old, new)),
    }
}

#[inline(always)]
fn rows<T: Num>(l: Lanes, sums: &mut [[T; ABREAST]], index: &[i64], new: &[[T; ABREAST]], f: impl Fn(T, T) -> T) {
    let row = |i: i64| -> Range<usize> {
        let first = resolve(i, l.n) * l.inner;
        first..first + l.inner
    };
    for (&i, new) in index.iter().zip(new.chunks_exact(l.inner)) {
        for (old, new) in sums[row(i)].iter_mut().zip(new) {
            *old = std::array::from_fn(|x| f(old[x], new[x]));
        }
    }
}
