//! Pure look-ups: a kernel that does nothing but copy what an index names goes element by element, without blocks of
//! indices in between.

use super::{
    exec::Bases,
    forms::Form,
    shape_of::{Number, operands, plain},
};
use crate::{
    DType, Result, Scalar,
    kernel::{Arg, InstKind, Kernel, Source, Val, oracle::out_of_range},
    op::ewise,
};
use gradus_numerics::{by_bytes, tasks::for_tasks};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Elements of one piece of work.
const CHUNK: usize = 4096;
/// Rows of fewer elements go together. (Looked up one by one, 5000 rows of two took 39 us, and 4200 of twelve 29.)
const SHORT: usize = 256;
/// And of fewer than these, element by element.
const FEW: usize = 8;
/// Below this many elements it stays on the calling thread.
const PARALLEL: usize = 16 * 1024;

/// Elements of a table, as an index says.
pub struct Take {
    args: Vec<Arg>,
    /// Index, table and result: which buffer, and the first element.
    at: [(usize, isize); 3],
    /// Axes without those of one element, neighbours that go on alike as one: extents, and steps of the three.
    axes: SmallVec<[(usize, [isize; 3]); 6]>,
    /// The table's step for one of the index, and how many there are.
    step: isize,
    size: usize,
    /// Bytes of an element.
    bytes: usize,
    wrapped: Option<Wrapped>,
}

/// What is added to an index below zero, by the numbers of the kernel that say so: those compared with, and that added.
#[derive(Clone, Copy)]
struct Wrapped([Number; 3]);

impl Wrapped {
    /// The index that a value is, and how it counts from the end: `i + n` where `0 > i` and `i >= -n`.
    fn of(k: &Kernel, v: Val) -> Option<(Val, Wrapped)> {
        let &[wraps, sum, index] = operands(k, v, &ewise::WHERE)? else { return None };
        let &[below, above] = operands(k, wraps, &ewise::AND)? else { return None };
        let (&[zero, a], &[b, least]) = (operands(k, below, &ewise::GT)?, operands(k, above, &ewise::GE)?) else {
            return None;
        };
        let &[c, n] = operands(k, sum, &ewise::ADD)? else { return None };
        let numbers = [Number::of(k, zero)?, Number::of(k, least)?, Number::of(k, n)?];
        ([a, b, c] == [index; 3]).then_some((index, Wrapped(numbers)))
    }
}

/// Indices below `zero` and not below `least` count from the end: `n` is added to them.
#[derive(Clone, Copy)]
struct Ends {
    zero: i64,
    least: i64,
    n: i64,
}

impl Ends {
    /// None does.
    const NONE: Ends = Ends { zero: i64::MIN, least: 0, n: 0 };

    #[inline(always)]
    fn counted(self, k: i64) -> i64 {
        if (self.zero > k) & (k >= self.least) { k.wrapping_add(self.n) } else { k }
    }
}

impl Take {
    /// Whether a kernel is one.
    pub fn of(k: &Kernel) -> Option<Take> {
        let store = k.insts.last()?;
        let InstKind::Store { arg: o, access: out_at, value } = &store.kind else { return None };
        let table = &k.insts[*value];
        let InstKind::Load { source: Source::Arg(t), access: table_at } = &table.kind else { return None };
        let [lookup] = &table_at.lookup[..] else { return None };
        let (index, wrapped) = match Wrapped::of(k, lookup.value) {
            Some((index, wrapped)) => (&k.insts[index], Some(wrapped)),
            None => (&k.insts[lookup.value], None),
        };
        let InstKind::Load { source: Source::Arg(i), access: index_at } = &index.kind else { return None };
        let stores = k.insts.iter().filter(|i| matches!(i.kind, InstKind::Store { .. })).count();
        let simple = plain(index_at) && plain(out_at) && table_at.bounds.is_empty() && stores == 1;
        let types = index.dtype == DType::I64 && table.dtype == store.dtype && k.args[*i].dtype == DType::I64;
        if !simple || !types || !k.reduce.is_empty() || t == o {
            return None;
        }
        let mut axes: SmallVec<[(usize, [isize; 3]); 6]> = SmallVec::new();
        for (d, &n) in k.map.iter().enumerate().filter(|(_, n)| **n != 1) {
            let steps = [index_at.strides[d], table_at.strides[d], out_at.strides[d]];
            match axes.last_mut() {
                Some((m, before)) if (0..3).all(|x| before[x] == steps[x] * n as isize) => {
                    (*m, *before) = (*m * n, steps)
                }
                _ => axes.push((n, steps)),
            }
        }
        Some(Take {
            args: k.args.clone(),
            at: [(*i, index_at.offset), (*t, table_at.offset), (*o, out_at.offset)],
            axes,
            step: lookup.stride,
            size: lookup.size,
            bytes: table.dtype.size(),
            wrapped,
        })
    }

    /// Where row `r` begins.
    fn row(&self, mut r: usize) -> [isize; 3] {
        let mut at = self.at.map(|a| a.1);
        let outer = self.axes.len().saturating_sub(1);
        if let [(_, steps)] = self.axes[..outer] {
            // No division: rows may be short.
            return std::array::from_fn(|x| at[x] + r as isize * steps[x]);
        }
        for (n, steps) in self.axes[..outer].iter().rev() {
            let i = (r % n) as isize;
            (0..3).for_each(|x| at[x] += i * steps[x]);
            r /= n;
        }
        at
    }

    /// # Safety
    /// As [`Take::run`].
    unsafe fn typed<T: Copy>(&self, bases: Bases<'_>, ends: Ends) -> Result<()> {
        let (n, steps) = self.axes.last().copied().unwrap_or((1, [0; 3]));
        let total: usize = self.axes.iter().map(|a| a.0).product();
        if total == 0 {
            return Ok(());
        }
        let (rows, outside) = (total / n, AtomicUsize::new(usize::MAX));
        // Long rows are cut, short ones taken together.
        let (cut, together) = (n.min(CHUNK), (CHUNK / n).max(1));
        let (cuts, groups) = (n.div_ceil(cut), rows.div_ceil(together));
        for_tasks(groups * cuts, total >= PARALLEL, |task| {
            let (group, from) = (task / cuts, task % cuts * cut);
            let to = n.min(from + cut);
            let all = bases; // the whole struct, which may be shared
            let some = group * together..rows.min((group + 1) * together);
            if n < SHORT && self.axes.len() > 1 {
                // SAFETY: by the caller's promise; rows of other tasks are others.
                let bad = unsafe { self.short::<T>(all, ends, some) };
                if let Some(i) = bad {
                    outside.fetch_min(i, Relaxed);
                }
                return;
            }
            for r in some {
                let at = self.row(r);
                let index = all.0[self.at[0].0].cast::<i64>().wrapping_offset(at[0]);
                let table = all.0[self.at[1].0].cast::<T>().wrapping_offset(at[1]);
                let out = all.0[self.at[2].0].cast::<T>().wrapping_offset(at[2]);
                // SAFETY: by the caller's promise; elements of other tasks are others.
                let bad = unsafe { self.line((index, ends), table, out, steps, from..to) };
                if let Some(i) = bad {
                    outside.fetch_min(r * n + i, Relaxed);
                }
            }
        });
        match outside.into_inner() {
            usize::MAX => Ok(()),
            at => {
                let i = self.row(at / n)[0] + (at % n) as isize * steps[0];
                // SAFETY: an element of the index, over which nothing was written.
                let k = unsafe { *bases.0[self.at[0].0].cast::<i64>().wrapping_offset(i) };
                Err(out_of_range(ends.counted(k), self.size))
            }
        }
    }

    /// Some short rows, without what a row takes to begin; where the first index lies that is outside, of all elements.
    ///
    /// # Safety
    /// As [`Take::run`].
    #[inline(never)]
    unsafe fn short<T: Copy>(&self, bases: Bases<'_>, ends: Ends, rows: std::ops::Range<usize>) -> Option<usize> {
        let &[.., (m, next), (n, [si, st, so])] = &self.axes[..] else { return None };
        let (size, step, mut bad, mut r) = (self.size as u64, self.step, None, rows.start);
        while r < rows.end {
            // Rows that follow each other along the axis before.
            let count = (m - r % m).min(rows.end - r);
            let at = self.row(r);
            let mut index = bases.0[self.at[0].0].cast::<i64>().cast_const().wrapping_offset(at[0]);
            let mut table = bases.0[self.at[1].0].cast::<T>().cast_const().wrapping_offset(at[1]);
            let mut out = bases.0[self.at[2].0].cast::<T>().wrapping_offset(at[2]);
            for row in r..r + count {
                if n >= FEW {
                    // SAFETY: by the caller's promise.
                    let outside = unsafe { self.line((index, ends), table, out, [si, st, so], 0..n) };
                    bad = bad.or(outside.map(|i| row * n + i));
                }
                for j in 0..if n < FEW { n as isize } else { 0 } {
                    // SAFETY: by the caller's promise. Each index is read before a result may be written over it.
                    unsafe {
                        let k = ends.counted(*index.offset(j * si));
                        if k as u64 >= size {
                            bad = bad.or(Some(row * n + j as usize));
                            continue;
                        }
                        *out.offset(j * so) = *table.offset(j * st + k as isize * step);
                    }
                }
                index = index.wrapping_offset(next[0]);
                table = table.wrapping_offset(next[1]);
                out = out.wrapping_offset(next[2]);
            }
            r += count;
        }
        bad
    }

    /// A part of a row; where its first index lies that is outside.
    #[inline(always)]
    unsafe fn line<T: Copy>(
        &self,
        (index, ends): (*const i64, Ends),
        table: *const T,
        out: *mut T,
        [si, st, so]: [isize; 3],
        part: std::ops::Range<usize>,
    ) -> Option<usize> {
        let (size, step) = (self.size as u64, self.step);
        let counted = |k: i64| ends.counted(k);
        // SAFETY: by the caller's promise.
        unsafe {
            if si == 0 {
                // One index for all of them.
                let k = counted(*index);
                if k as u64 >= size {
                    return Some(part.start);
                }
                let table = table.offset(k as isize * step);
                if (st, so) == (1, 1) {
                    let (from, to) = (table.add(part.start), out.add(part.start));
                    std::ptr::copy_nonoverlapping(from, to, part.len());
                } else {
                    part.for_each(|i| *out.offset(i as isize * so) = *table.offset(i as isize * st));
                }
                return None;
            }
            if (si, so) == (1, 1) {
                return match (st, step) {
                    (0, 1) if ends.zero == i64::MIN => along(index, table, out, size, part, |k| k, |_, k| k),
                    (0, 1) => along(index, table, out, size, part, counted, |_, k| k),
                    _ => along(index, table, out, size, part, counted, |i, k| i as isize * st + k * step),
                };
            }
            let mut bad = None;
            for i in part {
                let k = counted(*index.offset(i as isize * si));
                if k as u64 >= size {
                    bad = bad.or(Some(i));
                    continue;
                }
                *out.offset(i as isize * so) = *table.offset(i as isize * st + k as isize * step);
            }
            bad
        }
    }
}

/// Elements of a line whose index and result have no gaps, each from where its index says, counted from the end or not:
/// `place(i, counted(k))`. Where the first index lies that is outside.
///
/// # Safety
/// As [`Take::run`].
#[inline(always)]
unsafe fn along<T: Copy>(
    index: *const i64,
    table: *const T,
    out: *mut T,
    size: u64,
    part: std::ops::Range<usize>,
    counted: impl Fn(i64) -> i64,
    place: impl Fn(usize, isize) -> isize,
) -> Option<usize> {
    const SOME: usize = 4;
    let mut bad = None;
    for from in part.clone().step_by(SOME) {
        let count = SOME.min(part.end - from);
        // SAFETY: by the caller's promise. All of some indices are read before a result may be written over them.
        unsafe {
            if count == SOME {
                let k: [i64; SOME] = std::array::from_fn(|j| counted(*index.add(from + j)));
                if k.iter().all(|&k| (k as u64) < size) {
                    let values: [T; SOME] = std::array::from_fn(|j| *table.offset(place(from + j, k[j] as isize)));
                    *out.add(from).cast::<[T; SOME]>() = values;
                    continue;
                }
            }
            for i in from..from + count {
                let k = counted(*index.add(i));
                if k as u64 >= size {
                    bad = bad.or(Some(i));
                    continue;
                }
                *out.add(i) = *table.offset(place(i, k as isize));
            }
        }
    }
    bad
}

impl Form for Take {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    /// A result may lie over the index, element by element.
    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let ends = self.wrapped.map_or(Ends::NONE, |w| {
            let [zero, least, n] = w.0.map(|x| x.get(params).i64());
            Ends { zero, least, n }
        });
        // SAFETY: passed on; the types have the element's size.
        unsafe { by_bytes!(self.bytes, T => self.typed::<T>(bases, ends)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Scalar, Tensor};

    #[test]
    fn short_rows_of_any_layout_are_looked_up() {
        let (rows, n) = (3000, 1000);
        for width in [1, 2, 3, 7, 8, 20, 256, 300] {
            let table: Vec<i64> = (0..(n * width) as i64).collect();
            let x = Tensor::from_vec(table, [n, width]).unwrap();
            let turned = x.t().unwrap().contiguous().t().unwrap();
            turned.eval().unwrap();
            let mut places: Vec<i64> = (0..(rows * width) as i64).map(|i| i * 7919 % n as i64).collect();
            let index = Tensor::from_vec(places.clone(), [rows, width]).unwrap();
            for x in [&x, &turned] {
                let y =
                    x.index_select(1, &Tensor::from_vec((0..width as i64).rev().collect(), width).unwrap()).unwrap();
                let y = y.to_vec::<i64>().unwrap();
                assert!((0..n * width).all(|i| y[i] as usize == i / width * width + width - 1 - i % width), "{width}");
                // A table may have fewer rows than there are indices.
                let table = x.repeat([4, 1]).unwrap();
                let y = table.gather(0, &index).unwrap().to_vec::<i64>().unwrap();
                assert!((0..rows * width).all(|i| y[i] as usize == places[i] as usize * width + i % width), "{width}");
            }
            // The first index that is outside is the one that is told of.
            (places[rows * width / 2], places[rows * width - 1]) = (4321, 5432);
            let index = Tensor::from_vec(places, [rows, width]).unwrap();
            let e = x.repeat([4, 1]).unwrap().gather(0, &index).unwrap().to_vec::<i64>().unwrap_err();
            assert!(e.to_string().contains("4321"), "{e}");
        }
    }

    #[test]
    fn indices_count_from_the_end_by_whatever_numbers() {
        let x = Tensor::from_vec((0..1000i64).collect(), 1000).unwrap();
        let places: Vec<i64> = (0..300).map(|i| (i * 37) % 2000 - 1000).collect();
        let index = Tensor::from_vec(places.clone(), 300).unwrap();
        let taken = x.take(&index).unwrap().to_vec::<i64>().unwrap();
        assert!(taken.iter().zip(&places).all(|(x, i)| *x == i.rem_euclid(1000)));
        for i in [1000, -1001, i64::MIN] {
            let index = Tensor::from_vec([places.clone(), vec![i]].concat(), 301).unwrap();
            let e = x.take(&index).unwrap().to_vec::<i64>().unwrap_err();
            assert!(e.to_string().contains(&i.to_string()), "{e}");
        }
        // Other numbers than those of an axis are what the kernel says, too.
        let constant = |x: i64| Tensor::constant(Scalar::I(x), DType::I64, index.device());
        let places: Vec<i64> = (0..300).map(|i| (i * 37) % 1400 - 400).collect();
        let index = Tensor::from_vec(places.clone(), 300).unwrap();
        let some = constant(0).raw_gt(&index).raw_and(&index.raw_ge(&constant(-400)));
        let other = some.raw_where(&(&index + 500), &index);
        let taken = x.gather(0, &other).unwrap().to_vec::<i64>().unwrap();
        assert!(taken.iter().zip(&places).all(|(x, &i)| *x == if i < 0 { i + 500 } else { i }));
    }
}
