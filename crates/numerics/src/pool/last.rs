//! Pooling of images whose channels lie last: vectors run along the channels, and nothing has to be put together.
//!
//! Elements are met in the same order as in planes, so the same bits come out.

use super::{Bins, Divisor, MeanPool, Pool, later};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Numbers of the input that a task reads, about.
const WORK: usize = 1 << 14;

/// Runs `f` with some rows of outputs, counted over all images, and the numbers that are theirs.
fn for_rows(bins: &[Bins; 2], inner: usize, x: &[f32], y: &mut [f32], f: impl Fn(usize, &[f32], &mut [f32]) + Sync) {
    let [h, w] = bins;
    let (image, row, outs) = (h.n() * w.n() * inner, w.out() * inner, h.out());
    if y.is_empty() {
        return;
    }
    let rows = y.len() / row;
    assert!(y.len() == rows * row && x.len() * outs == rows * image && rows.is_multiple_of(outs), "sizes of images");
    let some = (WORK * rows / x.len().max(1)).max(1);
    let y = Shared::new(y);
    for_tasks(rows.div_ceil(some), x.len() >= 1 << 15, |t| {
        for i in t * some..rows.min((t + 1) * some) {
            // SAFETY: tasks write different rows.
            let y = unsafe { std::slice::from_raw_parts_mut(y.ptr().add(i * row), row) };
            f(i % outs, &x[i / outs * image..][..image], y);
        }
    });
}

pub(super) fn max_pool(isa: Isa, p: &Pool, x: &[f32], y: &mut [f32]) {
    // SAFETY: images and rows have the sizes of `p`.
    for_rows(&p.windows, p.inner, x, y, |oh, x, y| unsafe { max_row(isa, p, oh, x, y) });
}

pub(super) fn mean_pool(isa: Isa, p: &MeanPool, x: &[f32], y: &mut [f32]) {
    // SAFETY: images and rows have the sizes of `p`.
    for_rows(&p.bins, p.inner, x, y, |oh, x, y| unsafe { mean_row(isa, p, oh, x, y) });
}

/// The elements of a bin along an axis: the first, how many, and the distance of two.
#[inline(always)]
fn along(bins: &Bins, o: usize) -> (usize, usize, usize) {
    if let Some(w) = bins.window().filter(|w| w.dilation == 1) {
        // Without a division.
        let first = (o * w.stride).saturating_sub(w.padding);
        let end = (o * w.stride + w.size).saturating_sub(w.padding).min(w.n);
        return (first, end.saturating_sub(first), 1);
    }
    let inside = bins.inside(o);
    let first = if inside.is_empty() { 0 } else { bins.at(o, inside.start) };
    (first, inside.len(), bins.window().map_or(1, |w| w.dilation))
}

/// Where the numbers of a bin lie from its first one on: rows and columns, and their distances.
struct Places {
    rows: usize,
    row: usize,
    columns: usize,
    column: usize,
}

impl Places {
    /// Those of a bin of these rows and columns, and where the first of them is.
    #[inline(always)]
    fn new(rows: (usize, usize, usize), columns: (usize, usize, usize), row: usize, inner: usize) -> (Places, usize) {
        let ((top, rows, down), (left, columns, across)) = (rows, columns);
        (Places { rows, row: down * row, columns, column: across * inner }, top * row + left * inner)
    }
}

/// `W` vectors, or the first `n` numbers of one.
#[inline(always)]
unsafe fn load<S: Simd, const W: usize>(from: *const f32, n: usize) -> [S::V; W] {
    // SAFETY: the caller gives as many.
    unsafe { std::array::from_fn(|i| if W > 1 { S::load(from.add(i * S::LANES)) } else { S::load_first(from, n) }) }
}

#[inline(always)]
unsafe fn store<S: Simd, const W: usize>(v: [S::V; W], n: usize, to: *mut f32) {
    for (i, v) in v.into_iter().enumerate() {
        // SAFETY: the caller gives room for as many.
        unsafe { if W > 1 { S::store(to.add(i * S::LANES), v) } else { S::store_first(to, v, n) } }
    }
}

/// The maxima of `W` vectors, or of the first `n` numbers of one.
#[inline(always)]
unsafe fn largest<S: Simd, const W: usize>(p: &Places, x: *const f32, n: usize, y: *mut f32) {
    // SAFETY: the caller gives as many numbers at each place, and room for them.
    unsafe {
        let mut best: [S::V; W] = [S::splat(f32::NEG_INFINITY); W];
        for r in 0..p.rows {
            for c in 0..p.columns {
                let v = load::<S, W>(x.add(r * p.row + c * p.column), n);
                best = if r + c == 0 { v } else { std::array::from_fn(|i| later::<S>(best[i], v[i]).1) };
            }
        }
        store::<S, W>(best, n, y);
    }
}

/// One row of maxima.
#[inline(always)]
unsafe fn max_row_body<S: Simd>(p: &Pool, oh: usize, x: &[f32], y: &mut [f32]) {
    let ([h, w], inner) = (&p.windows, p.inner);
    let rows = along(h, oh);
    for (ow, y) in y.chunks_exact_mut(inner).enumerate() {
        let (places, first) = Places::new(rows, along(w, ow), w.n() * inner, inner);
        let mut i = 0;
        // (Loops rather than closures: those are not compiled for these vectors.)
        while i < inner {
            // SAFETY: places of windows are inside the image.
            unsafe {
                let (x, y) = (x.as_ptr().add(first + i), y.as_mut_ptr().add(i));
                i += match (inner - i) / S::LANES {
                    0 => {
                        largest::<S, 1>(&places, x, inner - i, y);
                        inner - i
                    }
                    1 => {
                        largest::<S, 1>(&places, x, S::LANES, y);
                        S::LANES
                    }
                    2 | 3 => {
                        largest::<S, 2>(&places, x, 0, y);
                        2 * S::LANES
                    }
                    _ => {
                        largest::<S, 4>(&places, x, 0, y);
                        4 * S::LANES
                    }
                };
            }
        }
    }
}
dispatch!(unsafe fn max_row = max_row_body(p: &Pool, oh: usize, x: &[f32], y: &mut [f32]));

/// The means of `W` vectors, or of the first `n` numbers of one: sums of columns are added up, as in planes, and divided by
/// `count`, or multiplied with it.
#[inline(always)]
unsafe fn mean<S: Simd, const W: usize, const INVERSE: bool>(
    p: &Places,
    count: f32,
    x: *const f32,
    n: usize,
    y: *mut f32,
) {
    // SAFETY: the caller gives as many numbers at each place, and room for them.
    unsafe {
        let mut all = [S::zero(); W];
        for c in 0..p.columns {
            let mut sums = [S::zero(); W];
            for r in 0..p.rows {
                let v = load::<S, W>(x.add(r * p.row + c * p.column), n);
                sums = std::array::from_fn(|i| S::add(sums[i], v[i]));
            }
            all = std::array::from_fn(|i| S::add(all[i], sums[i]));
        }
        let by = S::splat(count);
        store::<S, W>(std::array::from_fn(|i| if INVERSE { S::mul(all[i], by) } else { S::div(all[i], by) }), n, y);
    }
}

/// One mean a channel.
#[inline(always)]
unsafe fn means<S: Simd, const INVERSE: bool>(p: &Places, count: f32, x: &[f32], y: &mut [f32]) {
    let (inner, mut i) = (y.len(), 0);
    while i < inner {
        // SAFETY: places of bins are inside the image.
        unsafe {
            let (x, y) = (x.as_ptr().add(i), y.as_mut_ptr().add(i));
            i += match (inner - i) / S::LANES {
                0 => {
                    mean::<S, 1, INVERSE>(p, count, x, inner - i, y);
                    inner - i
                }
                1 => {
                    mean::<S, 1, INVERSE>(p, count, x, S::LANES, y);
                    S::LANES
                }
                2 | 3 => {
                    mean::<S, 2, INVERSE>(p, count, x, 0, y);
                    2 * S::LANES
                }
                _ => {
                    mean::<S, 4, INVERSE>(p, count, x, 0, y);
                    4 * S::LANES
                }
            };
        }
    }
}

/// One row of means.
#[inline(always)]
unsafe fn mean_row_body<S: Simd>(p: &MeanPool, oh: usize, x: &[f32], y: &mut [f32]) {
    let ([h, w], inner) = (&p.bins, p.inner);
    let (rows, down) = (along(h, oh), p.count(0, oh));
    for (ow, y) in y.chunks_exact_mut(inner).enumerate() {
        let columns = along(w, ow);
        let (places, first) = Places::new(rows, columns, w.n() * inner, inner);
        let count = down * if p.divisor == Divisor::Inside { columns.1 as f32 } else { p.count(1, ow) };
        // Of a power of two the inverse is exact, and so are products with it what quotients are.
        let exact = count.abs() >= 1.0 && count.to_bits().trailing_zeros() >= 23;
        // SAFETY: the caller's promise.
        unsafe {
            if exact {
                means::<S, true>(&places, 1.0 / count, &x[first..], y);
            } else {
                means::<S, false>(&places, count, &x[first..], y);
            }
        }
    }
}
dispatch!(unsafe fn mean_row = mean_row_body(p: &MeanPool, oh: usize, x: &[f32], y: &mut [f32]));

/// Images as planes: `places` places of `inner` numbers each.
pub(super) fn planes(x: &[f32], places: usize, inner: usize) -> scratch::Scratch {
    let mut to = scratch::take(x.len());
    for (x, to) in x.chunks_exact(places * inner).zip(to.chunks_exact_mut(places * inner)) {
        for (i, x) in x.chunks_exact(inner).enumerate() {
            x.iter().enumerate().for_each(|(c, x)| to[c * places + i] = *x);
        }
    }
    to
}

/// The way back from planes.
pub(super) fn images<T: Copy>(x: &[T], places: usize, inner: usize, to: &mut [T]) {
    for (x, to) in x.chunks_exact(places * inner).zip(to.chunks_exact_mut(places * inner)) {
        for (i, to) in to.chunks_exact_mut(inner).enumerate() {
            to.iter_mut().enumerate().for_each(|(c, to)| *to = x[c * places + i]);
        }
    }
}
