//! Scatter, gather and row updates with checked indices.
//!
//! Updates of the same element are applied in index order whatever the number of threads. Every index is checked
//! before it is used, and an error has the first that is out of range.

use crate::element::Num;
use crate::lanes::PARALLEL_WORK;
use crate::scratch;
use crate::strided::copy_rows;
use crate::tasks::{Shared, for_chunks, for_tasks};
use lines::{Dimensions, Indices, Line, Walk};
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

pub use one_hot::one_hot;

/// Lines of fewer indices are not worth a beginning of their own.
const SHORT: usize = 32;
/// Lines of this many indices are cut for balance, too.
const LONG: usize = 4096;
/// Of parts of lines of fewer bytes every third or fourth cache line is another thread's, too: threads have memory of their own for them.
/// (Two threads took 1.05 ms to scatter [2500, 114] numbers of 16 bits, and one of them alone 0.83.)
const SHARED: usize = 1024;
/// As long as that is a part of a second cache.
const ROOM: usize = 512 << 10;

/// How an update meets the element that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The update replaces it; the last one wins.
    Assign,
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The smaller; NaN wins.
    Min,
    /// The larger; NaN wins.
    Max,
}

/// Whether a negative index counts from the end or is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// Out of range.
    Reject,
    /// `-1` is the last element.
    Wrap,
}

/// An index out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// The position in the index array.
    pub position: usize,
    /// The index found there.
    pub index: i64,
    /// The size of the axis.
    pub size: usize,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexError { position, index, size } = self;
        write!(f, "index {index} at position {position} is out of range for size {size}")
    }
}

impl std::error::Error for IndexError {}

/// Whether all of some indices are positions along an axis of length `size`.
#[inline]
fn inside(index: &[i64], size: usize, negative: Negative) -> bool {
    #[inline(always)]
    fn all(index: &[i64], shift: i64, last: i64) -> bool {
        // The sign of what is below zero or above the last one: no comparison that every CPU's vectors would need.
        let outside = index.iter().fold(0, |outside, i| {
            let i = i.wrapping_add(shift);
            outside | i | last.wrapping_sub(i)
        });
        outside >= 0
    }
    let shift = if negative == Negative::Wrap { size as i64 } else { 0 };
    let last = size as i64 + shift - 1;
    #[cfg(target_arch = "x86_64")]
    if index.len() >= 64 && crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide(index: &[i64], shift: i64, last: i64) -> bool {
            all(index, shift, last)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(index, shift, last) };
    }
    all(index, shift, last)
}

/// Whether they are all the same.
#[inline]
fn same(index: &[i64]) -> bool {
    let first = index.first().copied().unwrap_or(0);
    // The last one tells of most that they are not.
    index.last().is_none_or(|&last| last == first) && index.iter().fold(0, |differ, i| differ | (i ^ first)) == 0
}

/// The first of the indices that is no position along an axis of length `size`, as an error.
fn check(index: &[i64], size: usize, negative: Negative) -> Result<(), IndexError> {
    if inside(index, size, negative) {
        return Ok(());
    }
    let low = if negative == Negative::Wrap { -(size as i64) } else { 0 };
    match index.iter().position(|&i| i < low || i >= size as i64) {
        Some(position) => Err(IndexError { position, index: index[position], size }),
        None => Ok(()),
    }
}

/// A checked index as a position.
#[inline]
fn resolve(index: i64, size: usize) -> usize {
    (index + (index >> 63 & size as i64)) as usize
}

#[inline]
fn combine<T: Num>(mode: Mode, old: T, new: T) -> T {
    match mode {
        Mode::Assign => new,
        Mode::Add => old.add(new),
        Mode::Mul => old.mul(new),
        Mode::Min => {
            // Without a branch, which nobody could foresee.
            if old.is_nan() | (old < new) { old } else { new }
        }
        Mode::Max => {
            if old.is_nan() | (old > new) {
                old
            } else {
                new
            }
        }
    }
}

fn row_major_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as isize;
    }
    strides
}

/// A strided array read at the positions of another one's shape: `strides` has one step per
/// dimension of the index array, zero where the values are broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, T> {
    /// The memory.
    pub data: &'a [T],
    /// The position of the first element.
    pub offset: usize,
    /// The step along each dimension.
    pub strides: &'a [isize],
}

/// For every position `p` of `index`, combines `src[p]` into `dst` at `p` with the coordinate of
/// `axis` replaced by `index[p]`.
///
/// `dst` and `index` are contiguous; `index_shape` has `dst_shape`'s dimensions, none larger
/// except along `axis`. With a `base`, `dst` first becomes a copy of that. After an error, what `dst` holds is not said.
///
/// ```
/// use gradus_numerics::scatter::{Mode, Negative, Source, scatter};
/// let mut dst = [0.0f32; 3];
/// let src = Source { data: &[1.0, 2.0, 4.0], offset: 0, strides: &[1] };
/// scatter(None, &mut dst, &[3], 0, &[2, 0, 2], &[3], src, Mode::Add, Negative::Reject)?;
/// assert_eq!(dst, [2.0, 0.0, 5.0]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
#[allow(clippy::too_many_arguments)]
pub fn scatter<T: Num>(
    base: Option<&[T]>,
    dst: &mut [T],
    dst_shape: &[usize],
    axis: usize,
    index: &[i64],
    index_shape: &[usize],
    src: Source<T>,
    mode: Mode,
    negative: Negative,
) -> Result<(), IndexError> {
    assert!(dst.len() == dst_shape.iter().product() && index.len() == index_shape.iter().product(), "sizes of arrays");
    let size = dst_shape.get(axis).copied().unwrap_or(1);
    if index.is_empty() || dst_shape.is_empty() {
        check(index, size, negative)?;
        rows::begin(base, dst);
        if !index.is_empty() {
            dst[0] = combine(mode, dst[0], src.data[src.offset]);
        }
        return Ok(());
    }
    let fits = |d: usize| d == axis || index_shape[d] <= dst_shape[d];
    assert!(index_shape.len() == dst_shape.len() && (0..dst_shape.len()).all(fits), "an index that fits its target");
    let d = Dimensions::merged(dst_shape, axis, index_shape, src.strides);
    let mut steps = row_major_strides(&d.dst);
    let (chunk, axis_stride) = (steps[0] as usize, std::mem::take(&mut steps[d.axis]));
    let last = d.dst.len() - 1;
    let bad = AtomicBool::new(false);

    // Columns `from..to` of all lines of a part of the index, whose target begins at `dst`, so many elements apart along the axis.
    let lines =
        |(dst, axis): (*mut T, isize), shape: &[usize], index: &[i64], base: isize, (from, to): (usize, usize)| {
            // Lines along the axis before the last lie evenly; the axes before that are walked through.
            let (outer, some) = (last.saturating_sub(1), if last > 0 { shape[last - 1] } else { 1 });
            let apart = if last > 0 { (steps[last - 1], d.strides[last - 1]) } else { (0, 0) };
            let mut walk = Walk::new(&shape[..outer], [&steps[..outer], &d.strides[..outer]]);
            for index in index.chunks_exact(some * shape[last]) {
                let [at, read] = walk.offsets;
                let line = Line {
                    to: at + from as isize * steps[last],
                    from: base + read + from as isize * d.strides[last],
                    steps: (steps[last], axis, d.strides[last]),
                    size,
                    negative,
                    mode,
                };
                let index = Indices { all: index, pitch: shape[last], columns: (from, to) };
                // SAFETY: the index has no dimension beyond the target's but along the axis, whose positions are checked.
                // The caller has seen to it that nobody else writes these columns of this part.
                let done = unsafe {
                    match mode {
                        Mode::Assign => line.many(dst, index, src.data, apart, |_, new| new),
                        Mode::Add => line.many(dst, index, src.data, apart, T::add),
                        Mode::Mul => line.many(dst, index, src.data, apart, T::mul),
                        // Each a loop of its own: a mode that is asked for at every element takes as long as the element.
                        Mode::Min => line.many(dst, index, src.data, apart, |old, new| combine(Mode::Min, old, new)),
                        Mode::Max => line.many(dst, index, src.data, apart, |old, new| combine(Mode::Max, old, new)),
                    }
                };
                if !done {
                    return bad.store(true, Ordering::Relaxed);
                }
                walk.step();
            }
        };
    let parallel = dst.len().max(index.len()) >= PARALLEL_WORK / 4;
    if d.axis > 0 {
        // Slices along the first dimension are independent.
        let part = index.len() / d.index[0];
        let together = (PARALLEL_WORK / 8 / chunk.max(part)).max(1);
        for_chunks(dst, chunk * together, 1, parallel, |(t, dst)| {
            let i = t * together;
            if let Some(base) = base {
                dst.copy_from_slice(&base[i * chunk..][..dst.len()]);
            }
            let mut shape: SmallVec<[usize; 6]> = d.index.as_slice().into();
            shape[0] = (dst.len() / chunk).min(d.index[0].saturating_sub(i));
            if shape[0] > 0 {
                let read = src.offset as isize + i as isize * d.strides[0];
                lines(
                    (dst.as_mut_ptr(), axis_stride),
                    &shape,
                    &index[i * part..][..shape[0] * part],
                    read,
                    (0, d.index[last]),
                );
            }
        });
    } else {
        // So are columns.
        let columns = d.index[last];
        let strip = if last > 0 && parallel { strip(columns) } else { columns };
        let narrow = last == 1 && strip < columns && strip * size_of::<T>() < SHARED;
        let own = narrow && size * strip * size_of::<T>() <= ROOM;
        if !own {
            rows::begin(base, dst);
        }
        let (pitch, dst) = (chunk, Shared::new(dst));
        let strips = if own { pitch.div_ceil(strip) } else { columns.div_ceil(strip) };
        for_tasks(strips, parallel, |t| {
            let from = t * strip;
            let span = (from, columns.min(from + strip));
            if !own {
                return lines((dst.ptr(), axis_stride), &d.index, index, src.offset as isize, span);
            }
            let mut room = scratch::take((size * strip * size_of::<T>()).div_ceil(size_of::<f32>()));
            let (room, width) = (room.as_mut_ptr().cast::<T>(), strip.min(pitch - from));
            let begin = base.map_or(dst.ptr().cast_const(), |b| b.as_ptr());
            // SAFETY: rows of the target and of what it begins as; these columns are this task's alone, and there is room for them.
            unsafe {
                copy_rows(begin.add(from), room, (chunk as isize, strip as isize), size, width);
                if span.0 < span.1 {
                    let first = room.wrapping_sub(from);
                    lines((first, strip as isize), &d.index, index, src.offset as isize, span);
                }
                copy_rows(room.cast_const(), dst.ptr().add(from), (strip as isize, chunk as isize), size, width);
            }
        });
    }
    if bad.into_inner() { check(index, size, negative) } else { Ok(()) }
}

/// Columns that a thread takes of lines of so many. Short lines are cut into as few as there are threads: each part goes through
/// the whole index, and two parts of one line meet in a cache line.
fn strip(columns: usize) -> usize {
    let parts = rayon::current_num_threads() * if columns >= LONG { 4 } else { 1 };
    columns.div_ceil(parts).next_multiple_of(8)
}

/// `out[p] = src` at `p` with the coordinate of `axis` replaced by `index[p]`: the inverse of
/// [`scatter`]. `src`, `index` and `out` are contiguous, `out` has the shape of `index`.
///
/// ```
/// use gradus_numerics::scatter::{Negative, gather};
/// let mut out = [0; 2];
/// gather(&[10, 20, 30], &[3], 0, &[2, 0], &[2], &mut out, Negative::Reject)?;
/// assert_eq!(out, [30, 10]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn gather<T: Copy + Send + Sync>(
    src: &[T],
    src_shape: &[usize],
    axis: usize,
    index: &[i64],
    index_shape: &[usize],
    out: &mut [T],
    negative: Negative,
) -> Result<(), IndexError> {
    let size = src_shape.get(axis).copied().unwrap_or(1);
    check(index, size, negative)?;
    debug_assert_eq!(index.len(), out.len());
    if src_shape.is_empty() {
        out.iter_mut().for_each(|o| *o = src[0]);
        return Ok(());
    }
    let mut steps = row_major_strides(src_shape);
    let axis_stride = std::mem::take(&mut steps[axis]);
    let mut walk = Walk::new(index_shape, [&steps]);
    for (o, &ix) in out.iter_mut().zip(index) {
        *o = src[(walk.offsets[0] + resolve(ix, size) as isize * axis_stride) as usize];
        walk.step();
    }
    Ok(())
}

mod copy;
mod lines;
mod one_hot;
mod rows;
#[cfg(test)]
mod tests;
mod woven;

pub use rows::{index_rows, select_rows};
