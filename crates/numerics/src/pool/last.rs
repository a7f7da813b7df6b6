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
pub(super) fn along(bins: &Bins, o: usize) -> (usize, usize, usize) {
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

/// What is done at one place for some of its channels.
pub(super) trait Channels<S: Simd> {
    /// For `W` vectors of channels from `i` on, or for `n` channels.
    ///
    /// # Safety
    ///
    /// There are as many channels.
    unsafe fn run<const W: usize>(&self, i: usize, n: usize);
}

/// Goes through all channels of a place, several vectors at a time.
/// (A trait rather than closures: those are not compiled for these vectors.)
///
/// # Safety
///
/// Places have `inner` channels.
#[inline(always)]
pub(super) unsafe fn for_channels<S: Simd>(inner: usize, f: impl Channels<S>) {
    let mut i = 0;
    while i < inner {
        // SAFETY: the caller's promise.
        unsafe {
            i += match (inner - i) / S::LANES {
                0 => {
                    f.run::<1>(i, inner - i);
                    inner - i
                }
                1 => {
                    f.run::<1>(i, S::LANES);
                    S::LANES
                }
                2 | 3 => {
                    f.run::<2>(i, 0);
                    2 * S::LANES
                }
                _ => {
                    f.run::<4>(i, 0);
                    4 * S::LANES
                }
            };
        }
    }
}

/// `W` vectors, or the first `n` numbers of one.
#[inline(always)]
pub(super) unsafe fn load<S: Simd, const W: usize>(from: *const f32, n: usize) -> [S::V; W] {
    // SAFETY: the caller gives as many.
    unsafe { std::array::from_fn(|i| if W > 1 { S::load(from.add(i * S::LANES)) } else { S::load_first(from, n) }) }
}

#[inline(always)]
pub(super) unsafe fn store<S: Simd, const W: usize>(v: [S::V; W], n: usize, to: *mut f32) {
    for (i, v) in v.into_iter().enumerate() {
        // SAFETY: the caller gives room for as many.
        unsafe { if W > 1 { S::store(to.add(i * S::LANES), v) } else { S::store_first(to, v, n) } }
    }
}

/// The maxima of a window.
struct Largest<'a> {
    places: &'a Places,
    x: *const f32,
    y: *mut f32,
}

impl<S: Simd> Channels<S> for Largest<'_> {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        let p = self.places;
        // SAFETY: there are as many numbers at each place, and room for them.
        unsafe {
            let mut best: [S::V; W] = [S::splat(f32::NEG_INFINITY); W];
            for r in 0..p.rows {
                for c in 0..p.columns {
                    let v = load::<S, W>(self.x.add(r * p.row + c * p.column + i), n);
                    best = std::array::from_fn(|i| later::<S>(best[i], v[i]).1);
                }
            }
            store::<S, W>(best, n, self.y.add(i));
        }
    }
}

/// One row of maxima.
///
/// # Safety
///
/// The image and the row have the sizes of `p`.
#[inline(always)]
pub(super) unsafe fn max_row_body<S: Simd>(p: &Pool, oh: usize, x: &[f32], y: &mut [f32]) {
    let ([h, w], inner) = (&p.windows, p.inner);
    let rows = along(h, oh);
    for (ow, y) in y.chunks_exact_mut(inner).enumerate() {
        let (places, first) = Places::new(rows, along(w, ow), w.n() * inner, inner);
        // SAFETY: places of windows are inside the image.
        unsafe {
            let x = x.as_ptr().add(first);
            for_channels::<S>(inner, Largest { places: &places, x, y: y.as_mut_ptr() });
        }
    }
}
dispatch!(unsafe fn max_row = max_row_body(p: &Pool, oh: usize, x: &[f32], y: &mut [f32]));

/// The means of a bin: sums of columns are added up, as in planes, and divided by `count`, or multiplied with it.
struct Mean<'a, const INVERSE: bool> {
    places: &'a Places,
    count: f32,
    x: *const f32,
    y: *mut f32,
}

impl<S: Simd, const INVERSE: bool> Channels<S> for Mean<'_, INVERSE> {
    #[inline(always)]
    unsafe fn run<const W: usize>(&self, i: usize, n: usize) {
        let p = self.places;
        // SAFETY: there are as many numbers at each place, and room for them.
        unsafe {
            let mut all = [S::zero(); W];
            for c in 0..p.columns {
                let mut sums = [S::zero(); W];
                for r in 0..p.rows {
                    let v = load::<S, W>(self.x.add(r * p.row + c * p.column + i), n);
                    sums = std::array::from_fn(|i| S::add(sums[i], v[i]));
                }
                all = std::array::from_fn(|i| S::add(all[i], sums[i]));
            }
            let by = S::splat(self.count);
            let all = std::array::from_fn(|i| if INVERSE { S::mul(all[i], by) } else { S::div(all[i], by) });
            store::<S, W>(all, n, self.y.add(i));
        }
    }
}

/// The inverse of a power of two: it is exact, and so are products with it what quotients are.
pub(super) fn exact_inverse(count: f32) -> Option<f32> {
    (count.abs() >= 1.0 && count.to_bits().trailing_zeros() >= 23).then(|| 1.0 / count)
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
        let (x, y) = (x[first..].as_ptr(), y.as_mut_ptr());
        // SAFETY: places of bins are inside the image.
        unsafe {
            match exact_inverse(count) {
                Some(count) => for_channels::<S>(inner, Mean::<true> { places: &places, count, x, y }),
                None => for_channels::<S>(inner, Mean::<false> { places: &places, count, x, y }),
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
