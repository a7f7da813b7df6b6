//! Triangles of matrices: a kernel that keeps elements up to a diagonal, or from it on, and writes a number over the others copies
//! parts of lines, without positions, comparisons and choices in between.

use super::{
    exec::Bases,
    forms::Form,
    shape_of::{Number, operands, plain},
};
use crate::{
    DType, Element, Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Source, Val, collapse},
    op::ewise,
    with_dtype,
};
use gradus_numerics::{by_bytes, strided::Strided, tasks::for_tasks};
use std::ops::Range;

/// Below this many elements it stays on the calling thread.
const PARALLEL: usize = 32 * 1024;
/// About as many elements as a thread takes at once.
const TASK: usize = 8 * 1024;
/// Elements that long rows are cut at multiples of: no two tasks write to one cache line of a row that begins with one.
const LINE: usize = 64;
/// Lines of fewer bytes are read together, and parts of them written over.
const SHORT: usize = 512;

/// A triangle of every matrix.
pub struct Triangle {
    args: Vec<Arg>,
    /// Source and target: which buffer, and the first element.
    at: [(usize, isize); 2],
    /// How the source lies.
    lies: Strided,
    planes: usize,
    rows: usize,
    columns: usize,
    dtype: DType,
    /// Whether columns are kept from the diagonal on, not up to it.
    upper: bool,
    /// The diagonal of the first row, and what is written over the others.
    diagonal: Number,
    other: Number,
}

/// The extents before an axis and along it, if a value is the position along the last of these. An axis of one element is not
/// there, and every position along it is zero.
fn position<'a>(k: &Kernel, v: Val, axes: &'a [usize]) -> Option<(&'a [usize], usize)> {
    let InstKind::Load { source: Source::Iota, access } = &k.insts[v].kind else { return None };
    if access.offset != 0 || !plain(access) {
        return None;
    }
    match access.strides.iter().position(|&s| s != 0) {
        None => Some((axes, 1)),
        Some(d) => {
            let alone = access.strides[d] == 1 && access.strides[d + 1..].iter().all(|&s| s == 0);
            let (n, before) = axes.split_last()?;
            (alone && d == before.len()).then_some((before, *n))
        }
    }
}

impl Triangle {
    /// Whether a verified kernel is one.
    pub fn of(kernel: &Kernel) -> Option<Triangle> {
        // Two positions, their distance, a sum, a comparison, an operand, the other number, a choice and a store.
        if kernel.insts.len() != 9 || !kernel.reduce.is_empty() {
            return None;
        }
        let k = collapse(kernel);
        let InstKind::Store { arg: to, access: target, value } = &k.insts.last()?.kind else { return None };
        let &[keep, x, other] = operands(&k, *value, &ewise::WHERE)? else { return None };
        let InstKind::Load { source: Source::Arg(from), access: source } = &k.insts[x].kind else { return None };
        let (compared, upper) = match operands(&k, keep, &ewise::LE) {
            Some(vals) => (vals, false),
            None => (operands(&k, keep, &ewise::GE)?, true),
        };
        let &[column, end] = compared else { return None };
        let &[row, diagonal] = operands(&k, end, &ewise::ADD)? else { return None };
        let (before, columns) = position(&k, column, &k.map)?;
        let (outer, rows) = position(&k, row, before)?;
        let integers = [column, row, end].iter().all(|&v| k.insts[v].dtype == DType::I64);
        let lies = |a: &Access| Strided::new(k.map.iter().zip(&a.strides).map(|(&n, &step)| (n, step, (0, n))));
        let dtype = k.args[*to].dtype;
        let same = [x, *value].iter().all(|&v| k.insts[v].dtype == dtype) && k.args[*from].dtype == dtype;
        if !integers || !same || !plain(source) || !plain(target) || !lies(target).is_in_order() {
            return None;
        }
        Some(Triangle {
            at: [(*from, source.offset), (*to, target.offset)],
            lies: lies(source),
            planes: outer.iter().product(),
            rows,
            columns,
            dtype,
            upper,
            diagonal: Number::of(&k, diagonal)?,
            other: Number::of(&k, other)?,
            args: k.args.clone(),
        })
    }

    /// The columns of a row that are kept.
    fn kept(&self, row: usize, diagonal: i64) -> Range<usize> {
        let at = (row as i64).wrapping_add(diagonal);
        let n = self.columns as i64;
        match self.upper {
            true => at.clamp(0, n) as usize..self.columns,
            false => 0..at.saturating_add(1).clamp(0, n) as usize,
        }
    }

    /// Some rows of all matrices, one after the other, or some columns of one row.
    ///
    /// # Safety
    /// As [`Form::run`]; an element has the size of `T`.
    unsafe fn some<T: Copy>(
        &self,
        (from, to): (*const T, *mut T),
        (rows, columns): (Range<usize>, Range<usize>),
        diagonal: i64,
        other: T,
    ) {
        // SAFETY: a number, of which all bytes are there.
        let zero = unsafe { std::slice::from_raw_parts((&raw const other).cast::<u8>(), size_of::<T>()) }
            .iter()
            .all(|&b| b == 0);
        let n = self.columns;
        // SAFETY: the caller's promise, for all of them. Where the result lies over the operand, what is kept is there already.
        let copy = |first: usize, count: usize| unsafe {
            if from != to.cast_const() {
                self.lies.read(from, first, std::slice::from_raw_parts_mut(to.add(first), count));
            }
        };
        // SAFETY: as above.
        let fill = |first: usize, count: usize| unsafe {
            match zero {
                true => to.add(first).write_bytes(0, count),
                false => std::slice::from_raw_parts_mut(to.add(first), count).fill(other),
            }
        };
        if columns != (0..n) {
            let kept = self.kept(rows.start % self.rows, diagonal);
            return self.row(rows.start * n, kept, columns, false, copy, fill);
        }
        let short = n * size_of::<T>() < SHORT;
        if short {
            copy(rows.start * n, rows.len() * n);
        }
        let (from_row, to_row) = self.mixed(diagonal);
        let mut r = rows.start;
        while r < rows.end {
            let (row, left) = (r % self.rows, rows.end - r);
            // Rows that are kept, or written over, as a whole go together.
            if (from_row..to_row).contains(&row) {
                self.row(r * n, self.kept(row, diagonal), 0..n, short, copy, fill);
                r += 1;
                continue;
            }
            let before = row < from_row;
            let count = left.min(if before { from_row } else { self.rows } - row);
            match before == self.upper {
                true if short => {}
                true => copy(r * n, count * n),
                false => fill(r * n, count * n),
            }
            r += count;
        }
    }

    /// Some columns of one row of which a part is kept.
    #[inline(always)]
    fn row(
        &self,
        at: usize,
        kept: Range<usize>,
        columns: Range<usize>,
        copied: bool,
        copy: impl Fn(usize, usize),
        fill: impl Fn(usize, usize),
    ) {
        let within = |c: usize| c.clamp(columns.start, columns.end);
        let kept = within(kept.start)..within(kept.end);
        if !copied && !kept.is_empty() {
            copy(at + kept.start, kept.len());
        }
        for other in [columns.start..kept.start, kept.end..columns.end] {
            if !other.is_empty() {
                fill(at + other.start, other.len());
            }
        }
    }

    /// The rows of which a part is kept: those before and after are kept, or not, as a whole.
    fn mixed(&self, diagonal: i64) -> (usize, usize) {
        let (rows, n) = (self.rows as i64, self.columns as i64);
        if diagonal.checked_add(rows).is_none() || diagonal < -(1 << 62) {
            // Sums wrap, as they always do.
            return (0, self.rows);
        }
        let more = if self.upper { 1 } else { 0 };
        let first = (more - diagonal).clamp(0, rows);
        (first as usize, (n - 1 + more - diagonal).clamp(first, rows) as usize)
    }
}

impl Form for Triangle {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let (diagonal, other) = (self.diagonal.get(params).i64(), self.other.get(params));
        let mut bits = [0u8; 8];
        with_dtype!(self.dtype, E => {
            let x = if size_of::<E>() == 8 { other.f64() } else { other.f64() as f32 as f64 };
            let x = if self.dtype.is_float() { <E as Element>::from_f64(x) } else { <E as Element>::from_i64(other.i64()) };
            // SAFETY: there is room for eight bytes, which no element exceeds.
            unsafe { bits.as_mut_ptr().cast::<E>().write_unaligned(x) }
        });
        let (rows, total) = (self.planes * self.rows, self.planes * self.rows * self.columns);
        // Long rows are cut, short ones go together.
        let (each, cuts) = ((TASK / self.columns.max(1)).max(1), self.columns.div_ceil(2 * TASK).max(1));
        let cut = self.columns.div_ceil(cuts).next_multiple_of(LINE);
        for_tasks(rows.div_ceil(each) * cuts, total >= PARALLEL, |t| {
            let all = bases; // the whole struct, which may be shared
            let (t, first) = (t / cuts, (t % cuts * cut).min(self.columns));
            let some = (t * each..rows.min((t + 1) * each), first..self.columns.min(first + cut));
            // SAFETY: the type has the element's size; elements lie in their buffers by the caller's promise, and these rows are this
            // task's alone.
            unsafe {
                by_bytes!(self.dtype.size(), T => {
                    let from = all.0[self.at[0].0].cast::<T>().cast_const().wrapping_offset(self.at[0].1);
                    let to = all.0[self.at[1].0].cast::<T>().wrapping_offset(self.at[1].1);
                    self.some((from, to), some, diagonal, bits.as_ptr().cast::<T>().read_unaligned())
                })
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

    /// What PyTorch calls a triangle, element by element.
    fn check(rows: usize, columns: usize, planes: usize, dtype: DType, turned: bool) {
        let n = planes * rows * columns;
        let x = Tensor::from_vec((1..=n as i64).map(|i| i % 120 + 1).collect(), [planes, rows, columns]).unwrap();
        let x = if turned {
            x.transpose(1, 2).unwrap().contiguous().to_dtype(dtype).transpose(1, 2).unwrap()
        } else {
            x.to_dtype(dtype)
        };
        x.eval().unwrap();
        let all = x.to_dtype(DType::I64).to_vec::<i64>().unwrap();
        for k in [-(rows as i64) - 1, -3, -1, 0, 1, 2, columns as i64, i64::MAX - 1, i64::MIN] {
            for upper in [false, true] {
                let y = if upper { x.triu(k) } else { x.tril(k) }.unwrap();
                let y = y.to_dtype(DType::I64).to_vec::<i64>().unwrap();
                for (at, (y, x)) in y.into_iter().zip(&all).enumerate() {
                    let (r, c) = (at / columns % rows, at % columns);
                    let end = (r as i64).wrapping_add(k);
                    let kept = if upper { c as i64 >= end } else { c as i64 <= end };
                    assert_eq!(y, if kept { *x } else { 0 }, "{rows} x {columns} {dtype} {upper} {k} at {at}");
                }
            }
        }
    }

    #[test]
    fn triangles_of_any_size_and_type() {
        for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
            for turned in [false, true] {
                check(10, 2, 64, dtype, turned);
                check(16, 9, 15, dtype, turned);
                check(5, 700, 20, dtype, turned);
                check(300, 300, 1, dtype, turned);
                check(2, 2, 1, dtype, turned);
                // Axes of one element, and rows that are cut.
                check(1, 700, 3, dtype, turned);
                check(700, 1, 3, dtype, turned);
                check(1, 1, 40, dtype, turned);
                check(1, 4 * TASK + 77, 1, dtype, turned);
                check(3, 2 * TASK + 1, 2, dtype, turned);
            }
        }
    }
}
