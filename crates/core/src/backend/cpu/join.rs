//! All copies that join tensors as one launch.
//!
//! One copy after the other would go through the result as often as there are parts, and threads would share it out anew each
//! time: of `roll` by seven columns the thin part was written by one of them, which then waited for half of its lines to come
//! from the other core. Here a task writes a range of the result, whatever part it comes from.

use super::{address, exec};
use crate::{
    DType,
    backend::{Executable, Slot},
    kernel::{InstKind, Kernel, Source, collapse},
};
use gradus_numerics::{by_bytes, copy::copy_line, strided::copy_rows, tasks::for_ranges, weave::weave};
use smallvec::SmallVec;
use std::any::Any;

/// Shorter lines than this, on average, are better done by loops than by copies of bytes.
const LINE: usize = 32;
/// Bytes that a task copies at once, at most.
const CUT: usize = 64 << 10;
/// Lines of so many bytes at the most go many at a time.
const SHORT: usize = 1024;
/// Bytes of the result that are finished before the next: half of the first cache.
const BLOCK: usize = 16 << 10;
/// Results of fewer bytes stay on the calling thread.
const PARALLEL: usize = 256 << 10;
/// The most parts that are woven: each is a stream of its own.
const STREAMS: usize = 64;

/// Copies that were made ready.
pub struct Join {
    dtype: DType,
    form: Form,
}

enum Form {
    /// A line of each part in turn.
    Lines(Lines),
    /// An element of each part in turn, and how many each has.
    Woven(usize),
}

struct Lines {
    parts: Vec<Part>,
    /// The axes before the lines: extent, and bytes from one to the next in the result.
    outer: Vec<(usize, isize)>,
}

struct Part {
    /// Bytes of a line, and how many cuts it makes.
    bytes: usize,
    cuts: usize,
    /// Where the source begins, and its bytes along each of the axes before the lines.
    start: isize,
    steps: SmallVec<[isize; 4]>,
}

impl Executable for Join {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A copy from one buffer to another: its space, and both strides.
struct Copied {
    map: Vec<usize>,
    start: isize,
    from: Vec<isize>,
    to: Vec<isize>,
}

fn copied(k: &Kernel) -> Option<Copied> {
    let k = collapse(k);
    let [load, store] = &k.insts[..] else { return None };
    let InstKind::Load { source: Source::Arg(0), access: from } = &load.kind else { return None };
    let InstKind::Store { arg: 1, access: to, value: 0 } = &store.kind else { return None };
    let plain = [from, to].iter().all(|a| a.bounds.is_empty() && a.lookup.is_empty());
    if !plain || !k.reduce.is_empty() || to.offset != 0 || k.args.iter().any(|a| a.dtype != load.dtype) {
        return None;
    }
    Some(Copied { map: k.map, start: from.offset, from: from.strides.clone(), to: to.strides.clone() })
}

impl Join {
    /// Verified kernels that copy, each from its first buffer to its second, if they go through the result alike.
    pub fn of(kernels: &[Kernel]) -> Option<Join> {
        let dtype = kernels.first()?.args.first()?.dtype;
        let all: Vec<Copied> = kernels.iter().map(copied).collect::<Option<_>>()?;
        if kernels.iter().any(|k| k.args.iter().any(|a| a.dtype != dtype)) {
            return None;
        }
        let form = woven(&all).map(Form::Woven).or_else(|| lines(&all, dtype.size()).map(Form::Lines))?;
        Some(Join { dtype, form })
    }

    /// Runs all of them.
    ///
    /// # Safety
    /// As [`exec::run`], for every kernel.
    pub unsafe fn run(&self, args: &[Slot<'_>]) {
        let bases: SmallVec<[*mut u8; 32]> = args.iter().map(|s| address(s, self.dtype)).collect();
        let bases = exec::Bases(&bases);
        // SAFETY: passed on; the types have the element's size.
        unsafe {
            match &self.form {
                Form::Lines(lines) => lines.run(bases),
                Form::Woven(n) => by_bytes!(self.dtype.size(), T => weave_all::<T>(*n, bases)),
            }
        }
    }
}

/// Whether each part is the elements of one column of a matrix with as many: how many there are.
fn woven(all: &[Copied]) -> Option<usize> {
    let n = *all[0].map.first()?;
    let column = |c: &Copied| c.map == [n] && c.from == [1] && c.start == 0 && c.to == [all.len() as isize];
    (all.len() <= STREAMS && all.iter().all(column)).then_some(n)
}

fn lines(all: &[Copied], size: usize) -> Option<Lines> {
    let (_, before) = all[0].map.split_last()?;
    let strides = &all[0].to[..before.len()];
    let alike = |c: &Copied| {
        let axes = before.len();
        c.map.len() == axes + 1
            && (&c.map[..axes], &c.to[..axes]) == (before, strides)
            && (c.from[axes], c.to[axes]) == (1, 1)
    };
    let whole: usize = all.iter().map(|c| c.map.last().map_or(0, |n| n * size)).sum();
    if before.is_empty() || !all.iter().all(alike) || whole < LINE * all.len() {
        return None;
    }
    let part = |c: &Copied| {
        let bytes = c.map[before.len()] * size;
        let steps = c.from[..before.len()].iter().map(|s| s * size as isize).collect();
        Part { bytes, cuts: bytes.div_ceil(CUT), start: c.start * size as isize, steps }
    };
    let outer = before.iter().zip(strides).map(|(&n, &s)| (n, s * size as isize)).collect();
    Some(Lines { parts: all.iter().map(part).collect(), outer })
}

impl Lines {
    /// # Safety
    /// As [`Join::run`].
    unsafe fn run(&self, bases: exec::Bases<'_>) {
        let rows: usize = self.outer.iter().map(|o| o.0).product();
        let bytes: usize = self.parts.iter().map(|p| p.bytes).sum();
        let cuts: usize = self.parts.iter().map(|p| p.cuts).sum();
        let (parallel, items) = (rows * bytes >= PARALLEL, rows * cuts);
        let pieces = if parallel { items.min(4 * rayon::current_num_threads()) } else { 1 };
        for_ranges(pieces, true, |i| {
            let (from, to) = (i * items / pieces, (i + 1) * items / pieces);
            if cuts == self.parts.len() && self.parts.iter().all(|p| p.bytes <= SHORT) {
                // SAFETY: by the caller's promise; tasks have lines of their own.
                return unsafe { self.many(bases, from, to) };
            }
            for row in from / cuts..to.div_ceil(cuts) {
                let here = from.max(row * cuts) - row * cuts..(to - row * cuts).min(cuts);
                // SAFETY: by the caller's promise; tasks have cuts of their own.
                unsafe { self.row(bases, row, here) };
            }
        });
    }

    /// The lines from one to another, in the order of the result, where none is cut: of each part those that lie evenly go together,
    /// so many rows at a time that the result stays in the first cache until the last part has come.
    ///
    /// # Safety
    /// As [`Join::run`].
    unsafe fn many(&self, bases: exec::Bases<'_>, from: usize, to: usize) {
        let (parts, bytes) = (self.parts.len(), self.parts.iter().map(|p| p.bytes).sum::<usize>());
        let Some(&(along, apart)) = self.outer.last() else { return };
        let most = (BLOCK / bytes.max(1)).max(1);
        let mut row = from / parts;
        while row * parts < to {
            let count = most.min(along - row % along).min(to.div_ceil(parts) - row);
            let (index, start) = self.place(row);
            for (k, p) in self.parts.iter().enumerate() {
                // The first and the last row may be other tasks' in part.
                let skip = usize::from(row * parts + k < from);
                let end = count - usize::from((row + count - 1) * parts + k >= to);
                let Some(count) = end.checked_sub(skip).filter(|&n| n > 0) else { continue };
                let step = p.steps.last().copied().unwrap_or(0);
                let at = p.start + index.iter().zip(&p.steps).map(|(i, s)| i * s).sum::<isize>();
                let source = bases.0[2 * k].cast_const().wrapping_offset(at + skip as isize * step);
                let target = bases.0[2 * k + 1].wrapping_offset(start + skip as isize * apart);
                // SAFETY: lines of both, by the caller's promise.
                unsafe { copy_rows(source, target, (step, apart), count, p.bytes) };
            }
            row += count;
        }
    }

    /// The indices of a row, and where it begins in the result.
    fn place(&self, mut row: usize) -> (SmallVec<[isize; 4]>, isize) {
        let mut index: SmallVec<[isize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let mut to = 0;
        for (at, &(n, step)) in index.iter_mut().zip(&self.outer).rev() {
            // The last of them have nothing to divide.
            let i = if row < n { row } else { row % n };
            (*at, row) = (i as isize, if row < n { 0 } else { row / n });
            to += *at * step;
        }
        (index, to)
    }

    /// Some cuts of a row of the result.
    ///
    /// # Safety
    /// As [`Join::run`].
    unsafe fn row(&self, bases: exec::Bases<'_>, row: usize, cuts: std::ops::Range<usize>) {
        let (index, to) = self.place(row);
        let mut first = 0;
        for (k, p) in self.parts.iter().enumerate() {
            let here = cuts.start.max(first)..cuts.end.min(first + p.cuts);
            if here.start < here.end {
                let (f, t) = ((here.start - first) * CUT, p.bytes.min((here.end - first) * CUT));
                let from: isize = p.start + index.iter().zip(&p.steps).map(|(i, s)| i * s).sum::<isize>();
                let source = bases.0[2 * k].cast_const().wrapping_offset(from).wrapping_add(f);
                let target = bases.0[2 * k + 1].wrapping_offset(to).wrapping_add(f);
                // SAFETY: a part of a line of both, by the caller's promise.
                unsafe { copy_line(source, target, t - f) };
            }
            first += p.cuts;
        }
    }
}

/// # Safety
/// As [`Join::run`], for parts of `n` elements.
unsafe fn weave_all<T: Copy>(n: usize, bases: exec::Bases<'_>) {
    let parts = bases.0.len() / 2;
    let parallel = n * parts * size_of::<T>() >= PARALLEL;
    let pieces = if parallel { n.min(4 * rayon::current_num_threads()) } else { 1 };
    for_ranges(pieces, true, |i| {
        let all = bases; // the whole struct, which may be shared
        let (from, to) = (i * n / pieces, (i + 1) * n / pieces);
        // SAFETY: by the caller's promise; the first part's result begins where that of all does, and tasks have elements of
        // their own.
        unsafe {
            let part = |k: usize| std::slice::from_raw_parts(all.0[2 * k].cast::<T>().add(from), to - from);
            let sources: SmallVec<[&[T]; 8]> = (0..parts).map(part).collect();
            let out = all.0[1].cast::<T>().add(from * parts);
            weave(&sources, std::slice::from_raw_parts_mut(out, (to - from) * parts));
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor};

    #[test]
    fn short_lines_of_any_layout_are_joined() {
        for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
            for (n, m, line) in [(64, 47, 7), (9, 130, 8), (5, 33, 3)] {
                let all: Vec<i64> = (0..(n * m * line) as i64).map(|i| i % 113).collect();
                let x = Tensor::from_vec(all.clone(), [n, m, line]).unwrap().to_dtype(dtype);
                x.eval().unwrap();
                // Line by line backwards, and the last two axes exchanged.
                let back = x.flip(2).unwrap();
                let turned = x.transpose(1, 2).unwrap().contiguous().transpose(1, 2).unwrap();
                turned.eval().unwrap();
                let y = Tensor::cat(&[&back.narrow(2, 1, line - 1).unwrap(), &turned], 2).unwrap();
                let y = y.to_dtype(DType::I64).to_vec::<i64>().unwrap();
                for (at, y) in y.into_iter().enumerate() {
                    let (row, c) = (at / (2 * line - 1), at % (2 * line - 1));
                    let from = if c < line - 1 { line - 2 - c } else { c - (line - 1) };
                    assert_eq!(y, all[row * line + from], "{n} x {m} x {line} {dtype} at {at}");
                }
            }
        }
    }
}
