//! Arrays with a border that comes from themselves, or from one number, and the gradient of that.
//!
//! Whole rows are copied and their ends filled in, so the middle is moved once, at the speed of a copy. Where the border of
//! an outer axis repeats a row, the row is made again: its source is in the cache.

use crate::element::Num;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// What stands around an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// One number.
    Fill,
    /// The elements mirrored at the first and the last one, which are not repeated.
    Reflect,
    /// The first and the last element.
    Replicate,
    /// The elements from the other end.
    Circular,
}

/// An axis and how much is put before and after its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Elements.
    pub n: usize,
    /// Put before them.
    pub before: usize,
    /// Put after them.
    pub after: usize,
}

/// A border around the last axes of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Border {
    /// Of what it is made.
    pub edge: Edge,
    /// The last axes, from the first one that grows.
    pub axes: Vec<Axis>,
    /// The number of [`Edge::Fill`], as the bits of an `f64`.
    pub fill: u64,
}

impl Axis {
    /// Its length with the border.
    pub fn out(&self) -> usize {
        self.before + self.n + self.after
    }

    /// Where element `i` of the result comes from; `None` where it is the number.
    #[inline(always)]
    fn source(&self, edge: Edge, i: usize) -> Option<usize> {
        let (n, before) = (self.n, self.before);
        if i >= before && i < before + n {
            return Some(i - before);
        }
        match edge {
            Edge::Fill => None,
            Edge::Reflect => Some(if i < before { before - i } else { 2 * n + before - 2 - i }),
            Edge::Replicate => Some(if i < before { 0 } else { n - 1 }),
            Edge::Circular => Some(if i < before { n - before + i } else { i - before - n }),
        }
    }

    /// The elements of the result that element `i` stands for: its own place, then those before and those after.
    fn places(&self, edge: Edge, i: usize) -> [Range<usize>; 3] {
        let Axis { n, before, after } = *self;
        let own = before + i..before + i + 1;
        let one = |there: bool, at: usize| if there { at..at + 1 } else { 0..0 };
        let all = |there: bool, r: Range<usize>| if there { r } else { 0..0 };
        match edge {
            Edge::Fill => [own, 0..0, 0..0],
            Edge::Reflect => {
                let last = n - 1 - i;
                [
                    own,
                    one(i > 0 && i <= before, before.wrapping_sub(i)),
                    one(last > 0 && last <= after, before + n + last - 1),
                ]
            }
            Edge::Replicate => [own, all(i == 0, 0..before), all(i + 1 == n, before + n..self.out())],
            Edge::Circular => [own, one(i + before >= n, (i + before).wrapping_sub(n)), one(i < after, before + n + i)],
        }
    }
}

/// Elements a task works on, about; whatever the number of threads.
const CHUNK: usize = 1 << 13;
/// Elements from which on threads share the work.
const PARALLEL: usize = 1 << 14;

/// Rows of the last axis under the other axes: how many there are, and the axes with the row's own last.
struct Rows<'a> {
    edge: Edge,
    lead: usize,
    outer: &'a [Axis],
    row: Axis,
}

impl Border {
    fn rows(&self, len: usize) -> Option<Rows<'_>> {
        let (&row, outer) = self.axes.split_last()?;
        let inner: usize = self.axes.iter().map(|a| a.n).product();
        let lead = len.checked_div(inner)?;
        assert!(len == lead * inner, "sizes of borders");
        let fits = |a: &Axis| match self.edge {
            Edge::Fill | Edge::Replicate => true,
            Edge::Reflect => a.before.max(a.after) < a.n,
            Edge::Circular => a.before.max(a.after) <= a.n,
        };
        assert!(self.axes.iter().all(fits), "borders no wider than what they are made of");
        Some(Rows { edge: self.edge, lead, outer, row })
    }
}

impl Rows<'_> {
    /// Where the other axes' part of a result comes from.
    fn group(&self, outer: &[Axis], mut r: usize) -> Option<usize> {
        let (mut at, mut step) = (0, 1);
        for a in outer.iter().rev() {
            at += step * a.source(self.edge, r % a.out())?;
            (r, step) = (r / a.out(), step * a.n);
        }
        Some(at + step * r)
    }

    /// Calls `f` with every row of the result that row `r` stands for, its own place first.
    fn places(&self, r: usize, f: &mut impl FnMut(usize)) {
        self.places_of(self.outer, r, 0, 1, f);
    }

    fn places_of(&self, outer: &[Axis], r: usize, at: usize, step: usize, f: &mut impl FnMut(usize)) {
        let Some((a, outer)) = outer.split_last() else { return f(at + step * r) };
        for i in a.places(self.edge, r % a.n).into_iter().flatten() {
            self.places_of(outer, r / a.n, at + step * i, step * a.out(), f);
        }
    }

    fn results(&self) -> usize {
        self.outer.iter().map(Axis::out).product::<usize>() * self.lead
    }

    fn inputs(&self) -> usize {
        self.outer.iter().map(|a| a.n).product::<usize>() * self.lead
    }
}

/// `x` with its border; `fill` is the number of [`Edge::Fill`].
///
/// ```
/// use gradus_numerics::border::{Axis, Border, Edge, border};
/// let b = Border { edge: Edge::Reflect, axes: vec![Axis { n: 3, before: 2, after: 1 }], fill: 0 };
/// let mut y = [0; 6];
/// border(&b, &[1, 2, 3], 0, &mut y);
/// assert_eq!(y, [3, 2, 1, 2, 3, 2]);
/// ```
pub fn border<T: Num>(b: &Border, x: &[T], fill: T, y: &mut [T]) {
    let Some(rows) = b.rows(x.len()) else { return y.fill(fill) };
    let (out, count) = (rows.row.out(), rows.results());
    assert!(y.len() == count * out, "the size of what a border leaves");
    let (chunk, isa) = ((CHUNK / out).max(1), Isa::detect());
    let (from, to) = (Shared::wrap(x.as_ptr().cast_mut().cast::<u8>()), Shared::wrap(y.as_mut_ptr().cast::<u8>()));
    for_tasks(count.div_ceil(chunk), count * out >= PARALLEL, |t| {
        let some = t * chunk..count.min((t + 1) * chunk);
        let (from, to) = (from.ptr().cast_const(), to.ptr());
        let fill = std::ptr::from_ref(&fill).cast::<u8>();
        // SAFETY: x and y have as many elements of this size as the rows say (checked above), rows of different tasks are
        // disjoint parts of what is borrowed exclusively, and elements are copied as the bytes they are.
        unsafe {
            match size_of::<T>() {
                1 => lines::<1>(isa, &rows, some, from.cast(), fill.cast(), to.cast()),
                2 => lines::<2>(isa, &rows, some, from.cast(), fill.cast(), to.cast()),
                4 => lines::<4>(isa, &rows, some, from.cast(), fill.cast(), to.cast()),
                8 => lines::<8>(isa, &rows, some, from.cast(), fill.cast(), to.cast()),
                n => unreachable!("elements of {n} bytes"),
            }
        }
    });
}

/// Rows of elements of `B` bytes.
#[inline(always)]
unsafe fn lines_body<S: Simd, const B: usize>(
    rows: &Rows<'_>,
    some: Range<usize>,
    x: *const [u8; B],
    fill: *const [u8; B],
    y: *mut [u8; B],
) {
    let (n, out) = (rows.row.n, rows.row.out());
    let whole = Axis { n: rows.lead, before: 0, after: 0 };
    let (inner, outer) = rows.outer.split_last().unwrap_or((&whole, &[]));
    let mut r = some.start;
    // Rows of the innermost axis follow each other: the others are looked at once for all of them.
    while r < some.end {
        let (group, first) = (r / inner.out(), r % inner.out());
        let base = rows.group(outer, group).map(|g| g * inner.n);
        let last = inner.out().min(first + some.end - r);
        for i in first..last {
            // SAFETY: rows of x and y, as the caller promises.
            unsafe {
                let y = std::slice::from_raw_parts_mut(y.add((r + i - first) * out), out);
                match (base, inner.source(rows.edge, i)) {
                    (Some(base), Some(at)) => {
                        line(rows.edge, &rows.row, std::slice::from_raw_parts(x.add((base + at) * n), n), *fill, y);
                    }
                    (None, _) | (_, None) => y.fill(*fill),
                }
            }
        }
        r += last - first;
    }
}
dispatch!(unsafe fn lines = lines_body<const B: usize>(rows: &Rows<'_>, some: Range<usize>, x: *const [u8; B], fill: *const [u8; B], y: *mut [u8; B]));

/// A copy that short rows need no call for.
#[inline(always)]
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len(), "as many elements as there is room for");
    let bytes = size_of_val(from);
    let (x, y) = (from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
    match bytes {
        // SAFETY: both have as many bytes, and at least one of these lines.
        64..=1024 => unsafe { copy_lines::<[u128; 4]>(x, y, bytes) },
        // SAFETY: as above.
        16..64 => unsafe { copy_lines::<u128>(x, y, bytes) },
        _ => to.copy_from_slice(from),
    }
}

/// Copies at least one line; the last ends with the bytes, and may lie over the one before.
#[inline(always)]
unsafe fn copy_lines<L: Copy>(x: *const u8, y: *mut u8, bytes: usize) {
    let last = bytes - size_of::<L>();
    // SAFETY: what the caller promises.
    unsafe {
        let mut at = 0;
        while at < last {
            y.add(at).cast::<L>().write_unaligned(x.add(at).cast::<L>().read_unaligned());
            at += size_of::<L>();
        }
        y.add(last).cast::<L>().write_unaligned(x.add(last).cast::<L>().read_unaligned());
    }
}

/// One row with its ends.
#[inline(always)]
fn line<T: Copy>(edge: Edge, a: &Axis, x: &[T], fill: T, y: &mut [T]) {
    let n = x.len();
    let (left, rest) = y.split_at_mut(a.before);
    let (middle, right) = rest.split_at_mut(n);
    copy(x, middle);
    match edge {
        Edge::Fill => {
            left.fill(fill);
            right.fill(fill);
        }
        Edge::Reflect => {
            for (y, x) in left.iter_mut().rev().zip(&x[1.min(n)..]) {
                *y = *x;
            }
            for (y, x) in right.iter_mut().zip(x[..n.saturating_sub(1)].iter().rev()) {
                *y = *x;
            }
        }
        Edge::Replicate => {
            if let (Some(&first), Some(&last)) = (x.first(), x.last()) {
                left.fill(first);
                right.fill(last);
            }
        }
        Edge::Circular => {
            left.copy_from_slice(&x[n - a.before..]);
            right.copy_from_slice(&x[..a.after]);
        }
    }
}

/// The gradient for `x`: every element gets the sum of what stands where it was put, in one order on any number of
/// threads.
pub fn border_grad<T: Num>(b: &Border, g: &[T], x: &mut [T]) {
    let Some(rows) = b.rows(x.len()) else { return };
    let (n, out) = (rows.row.n, rows.row.out());
    assert!(g.len() == rows.results() * out, "the size of what a border left");
    let count = rows.inputs();
    let (chunk, to) = ((CHUNK / n.max(1)).max(1), Shared::new(x));
    for_tasks(count.div_ceil(chunk), g.len() >= PARALLEL, |t| {
        for r in t * chunk..count.min((t + 1) * chunk) {
            // SAFETY: rows are disjoint parts of what is borrowed exclusively.
            let x = unsafe { std::slice::from_raw_parts_mut(to.ptr().add(r * n), n) };
            let mut first = true;
            rows.places(r, &mut |at| {
                add_line(rows.edge, &rows.row, &g[at * out..][..out], first, x);
                first = false;
            });
        }
    });
}

/// Adds a row without its ends, and then its ends, or begins with it.
#[inline]
fn add_line<T: Num>(edge: Edge, a: &Axis, g: &[T], first: bool, x: &mut [T]) {
    let n = x.len();
    let (left, rest) = g.split_at(a.before);
    let (middle, right) = rest.split_at(n);
    if first {
        copy(middle, x);
    } else {
        x.iter_mut().zip(middle).for_each(|(x, g)| *x = x.add(*g));
    }
    match edge {
        Edge::Fill => {}
        Edge::Reflect => {
            x.iter_mut().skip(1).zip(left.iter().rev()).for_each(|(x, g)| *x = x.add(*g));
            x.iter_mut().rev().skip(1).zip(right).for_each(|(x, g)| *x = x.add(*g));
        }
        Edge::Replicate => {
            if let Some(x) = x.first_mut() {
                *x = left.iter().fold(*x, |x, g| x.add(*g));
            }
            if let Some(x) = x.last_mut() {
                *x = right.iter().fold(*x, |x, g| x.add(*g));
            }
        }
        Edge::Circular => {
            x[n - a.before..].iter_mut().zip(left).for_each(|(x, g)| *x = x.add(*g));
            x.iter_mut().zip(right).for_each(|(x, g)| *x = x.add(*g));
        }
    }
}

#[cfg(test)]
mod tests;
