//! The gradients of pooling over images whose channels lie last.
//!
//! Every element takes from the windows that hold it, in their order: so each is written once, rows can be shared out in
//! any way, and the bits are those of planes, whose windows give to their elements.

use super::last::{Channels, along, exact_inverse, for_channels, load, store};
use super::mean::{SLACK, add_rows};
use super::{Bins, MeanPool, Pool, later};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// The bins that hold the elements of an axis, one element after the other.
struct Holders<'a> {
    bins: &'a Bins,
    held: Range<usize>,
}

impl<'a> Holders<'a> {
    fn new(bins: &'a Bins) -> Holders<'a> {
        Holders { bins, held: 0..0 }
    }

    /// Those of element `i`, which does not come before the last one that was asked for. Where windows have holes, some
    /// that only reach over it are among them.
    #[inline(always)]
    fn of(&mut self, i: usize) -> Range<usize> {
        let Range { start, end } = &mut self.held;
        match self.bins {
            Bins::Even(w) => {
                let (at, reach) = (i + w.padding, w.reach());
                while *start < w.out && *start * w.stride + reach <= at {
                    *start += 1;
                }
                while *end < w.out && *end * w.stride <= at {
                    *end += 1;
                }
            }
            Bins::Adaptive { n, out } => {
                while *start < *out && (*start + 1) * n <= i * out {
                    *start += 1;
                }
                while *end < *out && *end * n < (i + 1) * out {
                    *end += 1;
                }
            }
        }
        *start..(*end).max(*start)
    }
}

/// Numbers of the input that a task writes, about.
const WORK: usize = 1 << 15;

/// Runs `f` with the number of an image, some of its rows, and their part of `dx`.
fn for_bands([h, w]: &[Bins; 2], inner: usize, dx: &mut [f32], f: impl Fn(usize, Range<usize>, &mut [f32]) + Sync) {
    let (n, row) = (h.n(), w.n() * inner);
    let (images, large) = (dx.len() / (n * row), dx.len() >= 1 << 15);
    // Windows at the ends of a band are looked at twice: a band is several times as high as they are.
    let reach = h.window().map_or_else(|| n.div_ceil(h.out()), |w| w.reach());
    let band = (WORK / row).max(8 * reach).max(1);
    let bands = n.div_ceil(band);
    let some = (WORK / (band * row)).max(1);
    let dx = Shared::new(dx);
    for_tasks((images * bands).div_ceil(some), large, |t| {
        for i in t * some..(images * bands).min((t + 1) * some) {
            let rows = i % bands * band..n.min((i % bands + 1) * band);
            // SAFETY: bands are different rows of the images.
            let dx = unsafe {
                std::slice::from_raw_parts_mut(dx.ptr().add((i / bands * n + rows.start) * row), rows.len() * row)
            };
            f(i / bands, rows, dx);
        }
    });
}

/// How many rows of bins the rows of a band are in.
fn held_rows(h: &Bins, rows: &Range<usize>) -> usize {
    let mut down = Holders::new(h);
    down.of(rows.end - 1).end.saturating_sub(Holders::new(h).of(rows.start).start)
}

/// The gradient of maxima. Places are numbers that `f32` holds exactly.
pub(super) fn max_pool_grad(isa: Isa, p: &Pool, x: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (image, outputs) = (p.plane() * p.inner, p.outputs() * p.inner);
    for_bands(&p.windows, p.inner, dx, |i, rows, dx| {
        let row = p.windows[1].out() * p.inner;
        let mut found = scratch::take(held_rows(&p.windows[0], &rows) * row);
        let (x, grad) = (&x[i * image..][..image], &grad[i * outputs..][..outputs]);
        // SAFETY: the images, the rows and the places have the sizes of `p`.
        unsafe { max_rows(isa, p, rows, x, grad, &mut found, dx) };
    });
}

/// Where the maxima of a window are.
struct Find {
    /// The window's first element, and the next row's.
    x: *const f32,
    row: usize,
    inner: usize,
    /// Their numbers in the plane, and the distances of elements.
    place: usize,
    down: usize,
    across: usize,
    size: (usize, usize),
    to: *mut f32,
}

impl<S: Simd> Channels<S> for Find {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        let (rows, columns) = self.size;
        let first = if rows * columns == 0 { -1.0 } else { self.place as i32 as f32 };
        // SAFETY: there are as many numbers at each place, and room for them.
        unsafe {
            let (mut best, mut place) = ([S::splat(f32::NEG_INFINITY); W], [S::splat(first); W]);
            for r in 0..rows {
                for c in 0..columns {
                    let v = load::<S, W>(self.x.add(r * self.row + c * self.across * self.inner + i), n);
                    let at = S::splat((self.place + r * self.down + c * self.across) as i32 as f32);
                    for j in 0..W {
                        let (takes, larger) = later::<S>(best[j], v[j]);
                        (best[j], place[j]) = (larger, S::select(takes, at, place[j]));
                    }
                }
            }
            store::<S, W>(place, n, self.to.add(i));
        }
    }
}

/// What an element takes from the windows that hold it.
struct Take {
    /// Of the first window the places of its maxima and its gradients; the distances of rows and columns.
    found: *const f32,
    grad: *const f32,
    row: usize,
    inner: usize,
    size: (usize, usize),
    place: f32,
    to: *mut f32,
}

impl<S: Simd> Channels<S> for Take {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        // SAFETY: there are as many numbers for each window, and room for them.
        unsafe {
            let (mut sum, place) = ([S::zero(); W], S::splat(self.place));
            for r in 0..self.size.0 {
                for c in 0..self.size.1 {
                    let at = r * self.row + c * self.inner + i;
                    let (found, grad) = (load::<S, W>(self.found.add(at), n), load::<S, W>(self.grad.add(at), n));
                    for j in 0..W {
                        sum[j] = S::add(sum[j], S::select(S::eq(found[j], place), grad[j], S::zero()));
                    }
                }
            }
            store::<S, W>(sum, n, self.to.add(i));
        }
    }
}

/// Some rows of an image of gradients.
///
/// # Safety
///
/// The image and its gradients have the sizes of `p`, `dx` that of the rows, and `found` that of the windows that hold
/// them. Places are numbers that `f32` holds exactly.
#[inline(always)]
pub(super) unsafe fn max_rows_body<S: Simd>(
    p: &Pool,
    rows: Range<usize>,
    x: &[f32],
    grad: &[f32],
    found: &mut [f32],
    dx: &mut [f32],
) {
    let ([h, w], inner) = (&p.windows, p.inner);
    let (n, out) = (w.n(), w.out());
    let mut down = Holders::new(h);
    let first = down.of(rows.start).start;
    let mut next = first;
    for i in rows.clone() {
        let held = down.of(i);
        while next < held.end {
            let (top, height, deep) = along(h, next);
            for ow in 0..out {
                let (left, width, across) = along(w, ow);
                let place = top * n + left;
                // SAFETY: places of windows are inside the image.
                unsafe {
                    let x = x.as_ptr().add(place * inner);
                    let to = found.as_mut_ptr().add(((next - first) * out + ow) * inner);
                    let (row, down, size) = (deep * n * inner, deep * n, (height, width));
                    for_channels::<S>(inner, Find { x, row, inner, place, down, across, size, to });
                }
            }
            next += 1;
        }
        let mut along = Holders::new(w);
        for j in 0..n {
            let columns = along.of(j);
            // SAFETY: these windows are among those that were looked at, and of the gradients.
            unsafe {
                let found = found.as_ptr().wrapping_add(((held.start - first) * out + columns.start) * inner);
                let grad = grad.as_ptr().wrapping_add((held.start * out + columns.start) * inner);
                let to = dx.as_mut_ptr().add(((i - rows.start) * n + j) * inner);
                let (row, size) = (out * inner, (held.len(), columns.len()));
                let place = (i * n + j) as i32 as f32;
                for_channels::<S>(inner, Take { found, grad, row, inner, size, place, to });
            }
        }
    }
}
dispatch!(unsafe fn max_rows = max_rows_body(p: &Pool, rows: Range<usize>, x: &[f32], grad: &[f32], found: &mut [f32], dx: &mut [f32]));

/// The gradient of means.
pub(super) fn mean_pool_grad(isa: Isa, p: &MeanPool, counts: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (outputs, row) = (p.outputs() * p.inner, p.bins[1].out() * p.inner);
    for_bands(&p.bins, p.inner, dx, |i, rows, dx| {
        let mut parts = scratch::take(held_rows(&p.bins[0], &rows) * row);
        let mut line = scratch::take(row + SLACK);
        // SAFETY: the image, the rows and their parts have the sizes of `p`.
        unsafe { mean_rows(isa, p, counts, rows, &grad[i * outputs..][..outputs], &mut parts, &mut line, dx) };
    });
}

/// Gradients by what they are divided by.
struct Parts {
    count: f32,
    grad: *const f32,
    to: *mut f32,
}

impl<S: Simd> Channels<S> for Parts {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        // SAFETY: there are as many gradients, and room for them.
        unsafe {
            let (grad, count) = (load::<S, W>(self.grad.add(i), n), S::splat(self.count));
            let parts = match exact_inverse(self.count) {
                Some(by) => std::array::from_fn(|j| S::mul(grad[j], S::splat(by))),
                None => std::array::from_fn(|j| S::div(grad[j], count)),
            };
            store::<S, W>(parts, n, self.to.add(i));
        }
    }
}

/// The sum of some columns.
pub(super) struct Sum {
    pub from: *const f32,
    pub inner: usize,
    pub columns: usize,
    pub to: *mut f32,
}

impl<S: Simd> Channels<S> for Sum {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        // SAFETY: there are as many numbers in each column, and room for them.
        unsafe {
            let mut sum = [S::zero(); W];
            for c in 0..self.columns {
                let v = load::<S, W>(self.from.add(c * self.inner + i), n);
                sum = std::array::from_fn(|j| S::add(sum[j], v[j]));
            }
            store::<S, W>(sum, n, self.to.add(i));
        }
    }
}

/// Some rows of an image of gradients.
///
/// # Safety
///
/// The gradients have the sizes of `p`, `dx` that of the rows, `parts` that of the bins that hold them, and `line` that of
/// a row of bins and [`SLACK`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn mean_rows_body<S: Simd>(
    p: &MeanPool,
    counts: &[f32],
    rows: Range<usize>,
    grad: &[f32],
    parts: &mut [f32],
    line: &mut [f32],
    dx: &mut [f32],
) {
    let ([h, w], inner) = (&p.bins, p.inner);
    let (n, out) = (w.n(), w.out());
    let mut down = Holders::new(h);
    let first = down.of(rows.start).start;
    let mut next = first;
    let mut before = usize::MAX..usize::MAX;
    for i in rows.clone() {
        let held = down.of(i);
        while next < held.end {
            let count = p.count(0, next);
            for (ow, c) in counts[..out].iter().enumerate() {
                // SAFETY: a place of the gradients and one of the parts.
                unsafe {
                    let grad = grad.as_ptr().add((next * out + ow) * inner);
                    let to = parts.as_mut_ptr().add(((next - first) * out + ow) * inner);
                    for_channels::<S>(inner, Parts { count: count * c, grad, to });
                }
            }
            next += 1;
        }
        let at = (i - rows.start) * n * inner;
        if held == before {
            dx.copy_within(at - n * inner..at, at);
            continue;
        }
        before = held.clone();
        let held = held.start - first..held.end - first;
        // One row of bins is what it is.
        let from = if held.len() == 1 {
            parts[held.start * out * inner..].as_ptr()
        } else {
            // SAFETY: rows of parts, and a line with room for one and some slack.
            unsafe { add_rows::<S>(parts.as_ptr(), held, out * inner, out * inner, line.as_mut_ptr()) };
            line.as_ptr()
        };
        let mut along = Holders::new(w);
        for j in 0..n {
            let columns = along.of(j);
            // SAFETY: columns of the line, and a place of these rows.
            unsafe {
                let (from, to) = (from.wrapping_add(columns.start * inner), dx.as_mut_ptr().add(at + j * inner));
                for_channels::<S>(inner, Sum { from, inner, columns: columns.len(), to });
            }
        }
    }
}
dispatch!(unsafe fn mean_rows = mean_rows_body(p: &MeanPool, counts: &[f32], rows: Range<usize>, grad: &[f32], parts: &mut [f32], line: &mut [f32], dx: &mut [f32]));
