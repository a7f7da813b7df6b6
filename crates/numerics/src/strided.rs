//! Elements of an array in any layout, one after the other from any of them on: for readers that want them so, a block at a
//! time. Lines may be as short as one element, which is where a loop a line would cost more than what it copies.

mod apart;
mod rows;

use crate::{simd::prefetch, transpose::Transposition};
#[cfg(target_arch = "x86_64")]
use apart::{backwards, seconds};
use rows::Padded;
pub(crate) use rows::copy_picked;
pub use rows::copy_rows;
use smallvec::SmallVec;

/// One axis of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    /// Elements along it.
    n: usize,
    /// From one to the next in memory, in elements.
    step: isize,
    /// Those that are there, from and to; the others are zero.
    there: (usize, usize),
}

impl Axis {
    fn is_whole(&self) -> bool {
        self.there == (0, self.n)
    }
}

/// How an array lies.
///
/// ```
/// use gradus_numerics::strided::Strided;
/// // Three rows of two, turned: two rows of three, with a zero at the end of each.
/// let turned = Strided::new([(2, 1, (0, 2)), (4, 2, (0, 3))]);
/// let (x, mut y) = ([1, 2, 3, 4, 5, 6], [9; 5]);
/// // SAFETY: all elements that are there lie in the array, and there is room for five.
/// unsafe { turned.read(x.as_ptr(), 2, &mut y) };
/// assert_eq!(y, [5, 0, 2, 4, 6]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    axes: SmallVec<[Axis; 6]>,
    /// Where the element of all first indices would lie.
    start: isize,
}

/// Columns of which a turned part has at least so many rows go by blocks in registers.
const TURNED: usize = 8;

impl Strided {
    /// Axes from the outermost: extent, step, and the indices that are there, from and to.
    pub fn new(axes: impl IntoIterator<Item = (usize, isize, (usize, usize))>) -> Strided {
        let mut out: SmallVec<[Axis; 6]> = SmallVec::new();
        let mut start = 0;
        for (n, step, there) in axes {
            let axis = Axis { n, step, there };
            match out.last_mut() {
                _ if n == 1 && axis.is_whole() => {}
                Some(before) if before.is_whole() && axis.is_whole() && before.step == step * n as isize => {
                    *before = Axis { n: before.n * n, step, there: (0, before.n * n) };
                }
                // Of several lines one is there: they are one that begins later and ends earlier.
                Some(before) if before.n > 1 && before.there.0 + 1 == before.there.1 => {
                    let first = before.there.0;
                    start += first as isize * (before.step - step * n as isize);
                    *before = Axis { n: before.n * n, step, there: (first * n + there.0, first * n + there.1) };
                }
                _ => out.push(axis),
            }
        }
        Strided { axes: out, start }
    }

    /// Elements along the last axis (with those before it that go on alike).
    pub fn line(&self) -> usize {
        self.axes.last().map_or(1, |a| a.n)
    }

    /// Whether elements lie one after the other, all of them there.
    pub fn is_in_order(&self) -> bool {
        self.axes.is_empty() || matches!(self.axes[..], [a] if a.step == 1 && a.is_whole())
    }

    /// Elements from number `from` on, as many as there is room for.
    ///
    /// # Safety
    ///
    /// Elements that are there lie in the array that `source` is the first element of; what has all bits zero is a `T`.
    pub unsafe fn read<T: Copy>(&self, source: *const T, from: usize, out: &mut [T]) {
        let Some(line) = self.axes.last() else {
            // SAFETY: the one element is there.
            out.fill(unsafe { *source });
            return;
        };
        let mut left = out;
        self.parts(from, left.len(), |offset, row, part, count| {
            let (now, rest) = std::mem::take(&mut left).split_at_mut(count);
            left = rest;
            // SAFETY: the caller's promise; rows and columns are inside their axes.
            unsafe {
                match offset {
                    Some(offset) => {
                        Plane { rows: self.rows(), line: *line }.read(source.wrapping_offset(offset), row, part, now)
                    }
                    None => zero(now),
                }
            }
        });
    }

    /// The same back: elements from number `from` on become these. All of them must be there.
    ///
    /// # Safety
    ///
    /// The elements lie in the array that `target` is the first element of, and nobody else reads or writes them.
    pub unsafe fn write<T: Copy>(&self, target: *mut T, from: usize, values: &[T]) {
        let step = self.axes.last().map_or(0, |a| a.step);
        let rows = self.rows();
        let mut left = values;
        self.parts(from, values.len(), |offset, row, part, count| {
            let (now, rest) = left.split_at(count);
            left = rest;
            let Some(offset) = offset else { return };
            let width = part.1 - part.0;
            let first = target.wrapping_offset(offset + row as isize * rows.step + part.0 as isize * step);
            let lines = now.len() / width;
            // SAFETY: the caller's promise.
            unsafe {
                match (step, rows.step) {
                    (1, apart) => copy_rows(now.as_ptr(), first, (width as isize, apart), lines, width),
                    (to, 1) if lines > 1 && width >= TURNED => {
                        let t = Transposition { rows: width, columns: lines, from: width as isize, to };
                        t.run(now.as_ptr(), first, false);
                    }
                    _ => {
                        for (i, line) in now.chunks(width).enumerate() {
                            let to = first.wrapping_offset(i as isize * rows.step);
                            line.iter().enumerate().for_each(|(j, x)| *to.offset(j as isize * step) = *x);
                        }
                    }
                }
            }
        });
    }

    /// [`Strided::read`] of `n` elements of so many bytes.
    ///
    /// # Safety
    ///
    /// As there, and there is room for `n` of them at `out`.
    pub unsafe fn read_bytes(&self, bytes: usize, source: *const u8, from: usize, n: usize, out: *mut u8) {
        // SAFETY: the caller's promise; the type has as many bytes.
        unsafe {
            by_bytes!(bytes, T => self.read(source.cast::<T>(), from, std::slice::from_raw_parts_mut(out.cast::<T>(), n)))
        }
    }

    /// [`Strided::write`] of `n` elements of so many bytes.
    ///
    /// # Safety
    ///
    /// As there, and `n` of them lie at `values`.
    pub unsafe fn write_bytes(&self, bytes: usize, target: *mut u8, from: usize, n: usize, values: *const u8) {
        // SAFETY: the caller's promise; the type has as many bytes.
        unsafe {
            by_bytes!(bytes, T => self.write(target.cast::<T>(), from, std::slice::from_raw_parts(values.cast::<T>(), n)))
        }
    }

    /// The axis before the last.
    fn rows(&self) -> Axis {
        match self.axes[..] {
            [.., rows, _] => rows,
            _ => Axis { n: 1, step: 0, there: (0, 1) },
        }
    }

    /// Elements from number `from` on as parts of planes: where the plane begins (or that it is zero), the first row, the columns
    /// from and to, and how many elements.
    fn parts(&self, from: usize, len: usize, mut each: impl FnMut(Option<isize>, usize, (usize, usize), usize)) {
        let (line, rows) = (self.line(), self.rows());
        let outer = &self.axes[..self.axes.len().saturating_sub(2)];
        let (mut column, row) = (from % line, from / line);
        let (mut plane, mut row, mut left) = (row / rows.n, row % rows.n, len);
        while left > 0 {
            // Whole rows, as many as this plane has; or a part of one.
            let (lines, part) = match column {
                0 if left >= rows.n * line && row == 0 => (rows.n, (0, line)),
                0 if left >= line => ((left / line).min(rows.n - row), (0, line)),
                _ => (1, (column, line.min(column + left))),
            };
            let count = lines * (part.1 - part.0);
            each(place(outer, plane).map(|at| at + self.start), row, part, count);
            // Planes may be small: no division for the next.
            (row, column, left) = (row + lines, 0, left - count);
            if row == rows.n {
                (plane, row) = (plane + 1, 0);
            }
        }
    }
}

/// Where a plane begins, or nothing where it is zero.
fn place(outer: &[Axis], mut plane: usize) -> Option<isize> {
    let mut offset = 0;
    for a in outer.iter().rev() {
        // The first of them has nothing to divide.
        let i = if plane < a.n { plane } else { plane % a.n };
        if !(a.there.0..a.there.1).contains(&i) {
            return None;
        }
        (offset, plane) = (offset + i as isize * a.step, if plane < a.n { 0 } else { plane / a.n });
    }
    Some(offset)
}

/// # Safety
/// What has all bits zero is a `T`.
unsafe fn zero<T>(out: &mut [T]) {
    // SAFETY: the caller's promise.
    unsafe { out.as_mut_ptr().write_bytes(0, out.len()) }
}

/// The last two axes.
struct Plane {
    rows: Axis,
    line: Axis,
}

impl Plane {
    /// Columns `part` of the rows from `first` on.
    ///
    /// # Safety
    /// As [`Strided::read`].
    unsafe fn read<T: Copy>(&self, source: *const T, first: usize, part: (usize, usize), out: &mut [T]) {
        let Plane { rows, line } = self;
        let pitch = part.1 - part.0;
        let last = first + out.len() / pitch;
        let (top, bottom) = (first.max(rows.there.0), last.min(rows.there.1));
        let (left, right) = (part.0.max(line.there.0), part.1.min(line.there.1));
        if top >= bottom || left >= right {
            // SAFETY: the caller's promise.
            return unsafe { zero(out) };
        }
        let source = source.wrapping_offset(top as isize * rows.step + left as isize * line.step);
        let (count, width) = (bottom - top, right - left);
        let lead = (top - first) * pitch + (left - part.0);
        // One element lies along any step.
        if line.step == 1 || width == 1 {
            if (count * pitch, width) == (out.len(), pitch) {
                // SAFETY: the caller's promise.
                return unsafe { copy_rows(source, out.as_mut_ptr(), (rows.step, pitch as isize), count, width) };
            }
            // SAFETY: the caller's promise.
            return unsafe { Padded { count, width, lead, pitch }.copy(source, rows.step, out) };
        }
        if (count * pitch, width) != (out.len(), pitch) {
            // SAFETY: the caller's promise.
            unsafe { zero(out) };
        }
        let out = &mut out[lead..];
        // SAFETY: the caller's promise.
        unsafe {
            match (line.step, rows.step) {
                (0, step) => match (width == pitch, width) {
                    (true, 2) => repeat_each::<T, 2>(source, step, out, count),
                    (true, 3) => repeat_each::<T, 3>(source, step, out, count),
                    (true, 4) => repeat_each::<T, 4>(source, step, out, count),
                    (true, 5) => repeat_each::<T, 5>(source, step, out, count),
                    (true, 6) => repeat_each::<T, 6>(source, step, out, count),
                    (true, 7) => repeat_each::<T, 7>(source, step, out, count),
                    (true, 8) => repeat_each::<T, 8>(source, step, out, count),
                    _ => {
                        for (i, row) in out.chunks_mut(pitch).take(count).enumerate() {
                            row[..width].fill(*source.wrapping_offset(i as isize * step));
                        }
                    }
                },
                (from, 1) if count >= TURNED && width > 1 => {
                    let t = Transposition { rows: count, columns: width, from, to: pitch as isize };
                    t.run(source, out.as_mut_ptr(), false);
                }
                (from, step) if width == pitch && count > 1 && (2..=apart::MOST).contains(&width) => {
                    apart::short_rows(source, (from, step), out, (count, width));
                }
                #[cfg(target_arch = "x86_64")]
                (-1, step)
                    if width == pitch && step == width as isize && backwards::run(source, out, (count, width)) => {}
                (from, step) => {
                    for (i, row) in out.chunks_mut(pitch).take(count).enumerate() {
                        steps(source.wrapping_offset(i as isize * step), from, &mut row[..width]);
                    }
                }
            }
        }
    }
}

/// Each of `count` elements that are `step` apart, so many times: lines of a known length are a store or two each.
///
/// # Safety
/// All of them lie in the array.
unsafe fn repeat_each<T: Copy, const TIMES: usize>(source: *const T, step: isize, out: &mut [T], count: usize) {
    for (i, line) in out.as_chunks_mut::<TIMES>().0.iter_mut().take(count).enumerate() {
        // SAFETY: the caller's promise.
        *line = [unsafe { *source.wrapping_offset(i as isize * step) }; TIMES];
    }
}

/// Elements that are `step` apart.
///
/// # Safety
/// All of them lie in the array.
unsafe fn steps<T: Copy>(source: *const T, step: isize, out: &mut [T]) {
    // SAFETY: the caller's promise. With a step that is known, the compiler makes shuffles of it.
    unsafe {
        match step {
            2 if size_of::<T>() == 1 => every_second_byte(source.cast(), out.as_mut_ptr().cast(), out.len()),
            #[cfg(target_arch = "x86_64")]
            2 if seconds::run(source, out) => {}
            2 => out.iter_mut().enumerate().for_each(|(i, x)| *x = *source.add(2 * i)),
            -1 => out.iter_mut().enumerate().for_each(|(i, x)| *x = *source.offset(-(i as isize))),
            _ => {
                let (ahead, last) = Ahead::of(step * size_of::<T>() as isize, out.len());
                let (first, rest) = out.split_at_mut(last);
                for (i, x) in first.iter_mut().enumerate() {
                    let from = source.offset(i as isize * step);
                    ahead.ask(from);
                    *x = *from;
                }
                let source = source.offset(last as isize * step);
                rest.iter_mut().enumerate().for_each(|(i, x)| *x = *source.offset(i as isize * step));
            }
        }
    }
}

/// What is asked for while elements or short rows that lie apart are read: the hardware does not look far enough. (Every sixth of
/// 2.5 million numbers, from memory by two threads of a Zen 5: 1.78 ms as they come, 1.38 asked for 1 KiB ahead, 1.22 4 KiB ahead.)
#[derive(Clone, Copy)]
struct Ahead(isize);

impl Ahead {
    /// How far to look, about, in bytes, and the least and most steps that are.
    const BYTES: usize = 4096;
    const STEPS: (usize, usize) = (8, 256);

    /// For this many steps of so many bytes: with the number of steps while there is something to ask for.
    fn of(step: isize, count: usize) -> (Ahead, usize) {
        let steps = (Self::BYTES / step.unsigned_abs().max(1)).max(Self::STEPS.0);
        let pays = steps <= Self::STEPS.1 && count > 2 * steps;
        if pays { (Ahead(step * steps as isize), count - steps) } else { (Ahead(0), 0) }
    }

    #[inline(always)]
    fn ask<T>(self, from: *const T) {
        prefetch(from.cast::<u8>().wrapping_offset(self.0));
    }
}

/// The lower halves of pairs of bytes, which the compiler packs sixteen at a time; bytes apart it takes one by one.
///
/// # Safety
/// All of them lie in the array, and there is room for `n`.
unsafe fn every_second_byte(source: *const u8, out: *mut u8, n: usize) {
    let whole = n.saturating_sub(1);
    // SAFETY: the caller's promise; of every pair but the last both bytes lie in the array.
    unsafe {
        (0..whole).for_each(|i| *out.add(i) = u16::from_le(source.add(2 * i).cast::<u16>().read_unaligned()) as u8);
        (whole..n).for_each(|i| *out.add(i) = *source.add(2 * i));
    }
}

#[cfg(test)]
mod tests;
