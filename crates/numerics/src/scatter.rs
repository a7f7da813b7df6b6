//! Scatter, gather and row updates with checked indices.
//!
//! Updates of the same element are applied in index order whatever the number of threads, and
//! all indices are checked before anything is written.

use crate::element::Num;
use crate::lanes::{Lanes, PARALLEL_WORK};
use crate::tasks::{for_chunks, for_tasks};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use copy::copy;
pub use one_hot::one_hot;

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

/// The indices as positions along an axis of length `size`.
fn check(index: &[i64], size: usize, negative: Negative) -> Result<(), IndexError> {
    let low = if negative == Negative::Wrap { -(size as i64) } else { 0 };
    let outside = AtomicBool::new(false);
    let (block, parallel) = (1 << 14, index.len() >= 1 << 15);
    for_tasks(index.len().div_ceil(block), parallel, |t| {
        let some = &index[t * block..index.len().min((t + 1) * block)];
        let (least, most) = some.iter().fold((0, -1), |(least, most), &i| (i.min(least), i.max(most)));
        if least < low || most >= size as i64 {
            outside.store(true, Relaxed);
        }
    });
    if !outside.into_inner() {
        return Ok(());
    }
    match index.iter().position(|&i| i < low || i >= size as i64) {
        Some(position) => Err(IndexError { position, index: index[position], size }),
        None => Ok(()),
    }
}

/// A checked index as a position.
#[inline]
fn resolve(index: i64, size: usize) -> usize {
    (if index < 0 { index + size as i64 } else { index }) as usize
}

#[inline]
fn combine<T: Num>(mode: Mode, old: T, new: T) -> T {
    match mode {
        Mode::Assign => new,
        Mode::Add => old.add(new),
        Mode::Mul => old.mul(new),
        Mode::Min => {
            if old.is_nan() || old < new {
                old
            } else {
                new
            }
        }
        Mode::Max => {
            if old.is_nan() || old > new {
                old
            } else {
                new
            }
        }
    }
}

/// Steps through the positions of a row-major `shape`, keeping offsets into strided arrays.
struct Walk<'a, const A: usize> {
    shape: &'a [usize],
    strides: [&'a [isize]; A],
    at: Vec<usize>,
    offsets: [isize; A],
}

impl<'a, const A: usize> Walk<'a, A> {
    fn new(shape: &'a [usize], strides: [&'a [isize]; A]) -> Self {
        Walk { shape, strides, at: vec![0; shape.len()], offsets: [0; A] }
    }

    /// To the next position, the last coordinate fastest.
    fn step(&mut self) {
        for d in (0..self.shape.len()).rev() {
            self.at[d] += 1;
            for (offset, strides) in self.offsets.iter_mut().zip(self.strides) {
                *offset += strides[d];
            }
            if self.at[d] < self.shape[d] {
                return;
            }
            for (offset, strides) in self.offsets.iter_mut().zip(self.strides) {
                *offset -= strides[d] * self.shape[d] as isize;
            }
            self.at[d] = 0;
        }
    }
}

/// One line of a scatter, along the last dimension of the index.
struct Line {
    /// Where the target and the source begin.
    to: isize,
    from: isize,
    /// Steps of the target along the line, of the target along the axis, and of the source along the line.
    steps: (isize, isize, isize),
    /// The size of the axis.
    size: usize,
}

impl Line {
    #[inline(always)]
    fn run<T: Num>(&self, dst: &mut [T], index: &[i64], src: &[T], f: impl Fn(T, T) -> T) {
        let (along, axis, step) = self.steps;
        let first = index.first().copied().unwrap_or(0);
        if (along, step) == (0, 1) && !index.is_empty() {
            // Along the axis itself: a row of the source into a row of the target.
            let to = self.to as usize;
            let (d, s) = (&mut dst[to..=to + (self.size - 1) * axis as usize], &src[self.from as usize..]);
            for (&ix, &s) in index.iter().zip(s) {
                let d = &mut d[resolve(ix, self.size) * axis as usize];
                *d = f(*d, s);
            }
            return;
        }
        if along == 1 && (step == 1 || step == 0) && index.iter().fold(0, |d, &i| d | (i ^ first)) == 0 {
            // A whole row goes to one place.
            let at = (self.to + resolve(first, self.size) as isize * axis) as usize;
            let (d, from) = (&mut dst[at..at + index.len()], self.from as usize);
            if step == 1 {
                d.iter_mut().zip(&src[from..]).for_each(|(d, &s)| *d = f(*d, s));
            } else {
                let s = src[from];
                d.iter_mut().for_each(|d| *d = f(*d, s));
            }
            return;
        }
        for (j, &ix) in index.iter().enumerate() {
            let to = (self.to + j as isize * along + resolve(ix, self.size) as isize * axis) as usize;
            dst[to] = f(dst[to], src[(self.from + j as isize * step) as usize]);
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
/// except along `axis`.
///
/// ```
/// use gradus_numerics::scatter::{Mode, Negative, Source, scatter};
/// let mut dst = [0.0f32; 3];
/// let src = Source { data: &[1.0, 2.0, 4.0], offset: 0, strides: &[1] };
/// scatter(&mut dst, &[3], 0, &[2, 0, 2], &[3], src, Mode::Add, Negative::Reject)?;
/// assert_eq!(dst, [2.0, 0.0, 5.0]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
#[allow(clippy::too_many_arguments)]
pub fn scatter<T: Num>(
    dst: &mut [T],
    dst_shape: &[usize],
    axis: usize,
    index: &[i64],
    index_shape: &[usize],
    src: Source<T>,
    mode: Mode,
    negative: Negative,
) -> Result<(), IndexError> {
    let size = dst_shape.get(axis).copied().unwrap_or(1);
    check(index, size, negative)?;
    if index.is_empty() {
        return Ok(());
    }
    if dst_shape.is_empty() {
        dst[0] = combine(mode, dst[0], src.data[src.offset]);
        return Ok(());
    }
    let dst_strides = row_major_strides(dst_shape);
    let axis_stride = dst_strides[axis];
    let mut steps = dst_strides.clone();
    steps[axis] = 0;

    // Slices along the first dimension are independent unless it is the axis itself.
    let slice = |i: usize, dst: &mut [T], shape: &[usize], steps: &[isize], strides: &[isize]| {
        let (Some((&n, outer)), Some(last)) = (shape.split_last(), shape.len().checked_sub(1)) else { return };
        let base = src.offset as isize + if axis > 0 { i as isize * src.strides[0] } else { 0 };
        let mut walk = Walk::new(outer, [&steps[..last], &strides[..last]]);
        let len: usize = shape.iter().product();
        for index in index[i * len..][..len].chunks_exact(n.max(1)) {
            let [to, from] = walk.offsets;
            let line = Line { to, steps: (steps[last], axis_stride, strides[last]), from: base + from, size };
            match mode {
                Mode::Assign => line.run(dst, index, src.data, |_, new| new),
                Mode::Add => line.run(dst, index, src.data, T::add),
                Mode::Mul | Mode::Min | Mode::Max => {
                    line.run(dst, index, src.data, |old, new| combine(mode, old, new));
                }
            }
            walk.step();
        }
    };
    if axis == 0 {
        slice(0, dst, index_shape, &steps, src.strides);
    } else {
        let run = |(i, dst): (usize, &mut [T])| slice(i, dst, &index_shape[1..], &steps[1..], &src.strides[1..]);
        let chunk = dst_strides[0] as usize;
        let all = dst.len().min(chunk * index_shape[0]);
        for_chunks(&mut dst[..all], chunk, 1, index.len() >= PARALLEL_WORK / 4, run);
    }
    Ok(())
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

/// Combines row `i` of `src` along the axis into row `index[i]` of `dst`, with one index array
/// for all lanes: `index_add` and its like, and the gradient of an embedding.
///
/// `dst` has the lanes `l`, `src` the same with `index.len()` rows.
///
/// ```
/// use gradus_numerics::{Lanes, scatter::{Mode, Negative, index_rows}};
/// let mut dst = [0.0; 4];
/// let l = Lanes { outer: 1, n: 2, inner: 2 };
/// index_rows(l, &mut dst, &[1, 1], &[1.0, 2.0, 3.0, 4.0], Mode::Add, Negative::Reject)?;
/// assert_eq!(dst, [0.0, 0.0, 4.0, 6.0]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn index_rows<T: Num>(
    l: Lanes,
    dst: &mut [T],
    index: &[i64],
    src: &[T],
    mode: Mode,
    negative: Negative,
) -> Result<(), IndexError> {
    rows_onto(l, dst, index, src, mode, negative, |_, _| {})
}

/// Zeros, or `base`, with row `i` of `src` added to row `index[i]`.
///
/// ```
/// use gradus_numerics::{Lanes, scatter::{Negative, add_rows}};
/// let mut dst = [7.0; 4];
/// let l = Lanes { outer: 1, n: 2, inner: 2 };
/// add_rows(l, &mut dst, None, &[1, 1], &[1.0, 2.0, 3.0, 4.0], Negative::Reject)?;
/// assert_eq!(dst, [0.0, 0.0, 4.0, 6.0]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn add_rows<T: Num>(
    l: Lanes,
    dst: &mut [T],
    base: Option<&[T]>,
    index: &[i64],
    src: &[T],
    negative: Negative,
) -> Result<(), IndexError> {
    let start = |at: usize, dst: &mut [T]| match base {
        Some(base) => dst.copy_from_slice(&base[at..][..dst.len()]),
        None => dst.fill(T::ZERO),
    };
    rows_onto(l, dst, index, src, Mode::Add, negative, start)
}

/// [`index_rows`] onto what `start` makes of a part that begins at its first argument.
fn rows_onto<T: Num>(
    l: Lanes,
    dst: &mut [T],
    index: &[i64],
    src: &[T],
    mode: Mode,
    negative: Negative,
    start: impl Fn(usize, &mut [T]) + Sync + Send,
) -> Result<(), IndexError> {
    debug_assert!(dst.len() == l.len() && src.len() == l.outer * index.len() * l.inner);
    check(index, l.n, negative)?;
    if src.is_empty() || dst.is_empty() {
        start(0, dst);
        return Ok(());
    }
    // A task owns some rows of one block and takes the updates that fall there, in index order.
    // How many rows must not matter for the result, and does not: a row's updates stay in order.
    let parallel = src.len() >= PARALLEL_WORK && l.inner >= 16;
    let rows = if parallel { l.n.div_ceil(16) } else { l.n };
    let block = |(o, dst): (usize, &mut [T])| {
        let src = &src[o * index.len() * l.inner..][..index.len() * l.inner];
        let part = |(p, dst): (usize, &mut [T])| {
            let first = p * rows;
            start((o * l.n + first) * l.inner, dst);
            for (&ix, src) in index.iter().zip(src.chunks_exact(l.inner)) {
                let row = resolve(ix, l.n).wrapping_sub(first);
                if row < rows {
                    update(mode, &mut dst[row * l.inner..][..l.inner], src);
                }
            }
        };
        for_chunks(dst, rows * l.inner, 1, parallel, part);
    };
    dst.chunks_mut(l.n * l.inner).enumerate().for_each(block);
    Ok(())
}

/// One row's update; the mode is taken out of the loop.
fn update<T: Num>(mode: Mode, dst: &mut [T], src: &[T]) {
    match mode {
        Mode::Assign => dst.copy_from_slice(src),
        Mode::Add => dst.iter_mut().zip(src).for_each(|(d, s)| *d = d.add(*s)),
        _ => dst.iter_mut().zip(src).for_each(|(d, s)| *d = combine(mode, *d, *s)),
    }
}

/// Copies row `index[i]` of `src` along the axis to row `i` of `out`.
///
/// `src` has the lanes `l`, `out` the same with `index.len()` rows.
///
/// ```
/// use gradus_numerics::{Lanes, scatter::{Negative, select_rows}};
/// let mut out = [0; 2];
/// select_rows(Lanes { outer: 1, n: 2, inner: 2 }, &[1, 2, 3, 4], &[-1], &mut out, Negative::Wrap)?;
/// assert_eq!(out, [3, 4]);
/// # Ok::<(), gradus_numerics::scatter::IndexError>(())
/// ```
pub fn select_rows<T: Copy + Send + Sync>(
    l: Lanes,
    src: &[T],
    index: &[i64],
    out: &mut [T],
    negative: Negative,
) -> Result<(), IndexError> {
    debug_assert!(src.len() == l.len() && out.len() == l.outer * index.len() * l.inner);
    check(index, l.n, negative)?;
    if out.is_empty() {
        return Ok(());
    }
    let at = |p: usize| {
        let from = p / index.len() * l.n + resolve(index[p % index.len()], l.n);
        &src[from * l.inner..][..l.inner]
    };
    let rows = l.outer * index.len();
    let (together, parallel) = ((PARALLEL_WORK / l.inner).max(1), out.len() >= 4 * PARALLEL_WORK && l.inner >= 16);
    let stream = size_of_val(out) >= copy::STREAM_BYTES;
    for_chunks(out, together * l.inner, 1, parallel, |(t, out)| {
        let first = t * together;
        for (p, out) in (first..).zip(out.chunks_mut(l.inner)) {
            // Rows are anywhere: the next one is asked for while this one is copied.
            copy::row(at(p), if p + 1 < rows { at(p + 1) } else { &[] }, out, stream);
        }
        copy::seen();
    });
    Ok(())
}

mod copy;
mod one_hot;
#[cfg(test)]
mod tests;
