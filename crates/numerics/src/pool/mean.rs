//! Means of bins over two axes, and their gradients: rows are summed up first, whole vectors at a
//! time, then the columns of their sums.

use super::blocks::Map;
use super::steps::every;
use super::{Bins, back, for_planes, last};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::Shared;
use std::ops::Range;

/// What the sum of a bin is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Divisor {
    /// How many elements it has, with those of the padding.
    Padded,
    /// How many elements of the axes it has.
    Inside,
    /// This.
    Fixed(i64),
}

/// Bins of neighbours over two axes, and how their sums become means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeanPool {
    /// The rows' bins, then the columns'. Windows have a dilation of one.
    pub bins: [Bins; 2],
    /// What sums are divided by.
    pub divisor: Divisor,
    /// Numbers side by side at each place, which have bins of their own: channels that lie last. One, in planes.
    pub inner: usize,
}

impl MeanPool {
    pub(super) fn plane(&self) -> usize {
        self.bins[0].n() * self.bins[1].n()
    }

    pub(super) fn outputs(&self) -> usize {
        self.bins[0].out() * self.bins[1].out()
    }

    /// The part of the divisor that bin `o` of an axis has.
    pub(super) fn count(&self, axis: usize, o: usize) -> f32 {
        match (self.divisor, &self.bins[axis]) {
            (Divisor::Fixed(n), _) => {
                if axis == 0 {
                    n as f32
                } else {
                    1.0
                }
            }
            (Divisor::Padded, Bins::Even(w)) => w.size.min(w.n + 2 * w.padding - o * w.stride) as f32,
            (Divisor::Padded | Divisor::Inside, bins) => bins.inside(o).len() as f32,
        }
    }

    /// The columns' parts.
    pub(super) fn counts(&self) -> scratch::Scratch {
        let mut counts = scratch::take(self.bins[1].out());
        counts.iter_mut().enumerate().for_each(|(o, c)| *c = self.count(1, o));
        counts
    }
}

/// Numbers behind a row that vectors may read or write: four of the widest.
pub(super) const SLACK: usize = 64;

/// The mean of each bin of each plane.
///
/// ```
/// use gradus_numerics::pool::{Divisor, MeanPool, Window, mean_pool};
/// let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
/// let mut y = [0.0];
/// mean_pool(&MeanPool { bins: [w.into(), w.into()], divisor: Divisor::Inside, inner: 1 }, &[1.0, 4.0, 3.0, 2.0], &mut y);
/// assert_eq!(y, [2.5]);
/// ```
pub fn mean_pool(p: &MeanPool, x: &[f32], y: &mut [f32]) {
    mean_pool_with(Isa::detect(), p, x, y);
}

pub(super) fn mean_pool_with(isa: Isa, p: &MeanPool, x: &[f32], y: &mut [f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if outputs == 0 || y.is_empty() {
        return;
    }
    if p.inner != 1 {
        return last::mean_pool(isa, p, x, y);
    }
    let planes = y.len() / outputs;
    assert!(y.len() == planes * outputs && x.len() == planes * plane, "sizes of planes");
    let counts = p.counts();
    let counts = &counts[..];
    if Map::Mean(p, counts).run(isa, planes, [x, &[]], y) {
        return;
    }
    let y = Shared::new(y);
    for_planes(planes, plane, |all| {
        let mut sums = Sums::new(&p.bins[1]);
        for i in all {
            // SAFETY: tasks write different planes, of these sizes.
            unsafe {
                let y = std::slice::from_raw_parts_mut(y.ptr().add(i * outputs), outputs);
                forward(isa, p, counts, &x[i * plane..][..plane], &mut sums, y);
            }
        }
    });
}

/// The gradient of [`mean_pool`]: every element gets its parts of the gradients of its bins.
pub fn mean_pool_grad(p: &MeanPool, grad: &[f32], dx: &mut [f32]) {
    mean_pool_grad_with(Isa::detect(), p, grad, dx);
}

pub(super) fn mean_pool_grad_with(isa: Isa, p: &MeanPool, grad: &[f32], dx: &mut [f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if plane == 0 || dx.is_empty() {
        return;
    }
    let planes = dx.len() / plane;
    assert!(dx.len() == planes * plane && grad.len() == planes * outputs, "sizes of planes");
    let counts = p.counts();
    let counts = &counts[..];
    if p.inner != 1 {
        assert!(planes.is_multiple_of(p.inner), "sizes of images");
        return back::mean_pool_grad(isa, p, counts, grad, dx);
    }
    if Map::MeanGrad(p, counts).run(isa, planes, [grad, &[]], dx) {
        return;
    }
    let dx = Shared::new(dx);
    for_planes(planes, plane, |all| {
        let mut parts = scratch::take(outputs + SLACK);
        let mut line = Line::new(&p.bins[1]);
        for i in all {
            // SAFETY: tasks write different planes, of these sizes.
            unsafe {
                let dx = std::slice::from_raw_parts_mut(dx.ptr().add(i * plane), plane);
                backward(isa, p, counts, &grad[i * outputs..][..outputs], &mut parts, &mut line, dx);
            }
        }
    });
}

/// The sums of the columns of some rows, with zeros where windows reach over the ends.
struct Sums {
    all: scratch::Scratch,
    before: usize,
}

impl Sums {
    fn new(columns: &Bins) -> Sums {
        let (before, span) = columns.window().map_or((0, 0), |w| (w.padding, (w.out - 1) * w.stride + w.size));
        let mut all = scratch::take(span.max(before + columns.n()) + SLACK);
        all.fill(0.0);
        Sums { all, before }
    }
}

/// Adds up rows of `n` numbers, `step` apart: whole vectors are written.
///
/// # Safety
///
/// There are these rows, and room for a vector more than one.
#[inline(always)]
pub(super) unsafe fn add_rows<S: Simd>(from: *const f32, rows: Range<usize>, step: usize, n: usize, to: *mut f32) {
    let mut i = 0;
    // SAFETY: the caller gives these rows, and room for a vector more.
    unsafe {
        while i < n {
            let left = n - i;
            let mut sum = S::zero();
            for r in rows.clone() {
                let from = from.add(r * step + i);
                sum = S::add(sum, if left >= S::LANES { S::load(from) } else { S::load_first(from, left) });
            }
            S::store(to.add(i), sum);
            i += S::LANES;
        }
    }
}

/// One plane of means.
#[inline(always)]
unsafe fn forward_body<S: Simd>(p: &MeanPool, counts: &[f32], x: &[f32], sums: &mut Sums, y: &mut [f32]) {
    let [h, w] = &p.bins;
    let out = w.out();
    for (oh, y) in y.chunks_exact_mut(out).enumerate() {
        let count = p.count(0, oh);
        // SAFETY: rows are inside the plane, and the sums have room for all windows and some slack.
        unsafe { add_rows::<S>(x.as_ptr(), h.range(oh), w.n(), w.n(), sums.all.as_mut_ptr().add(sums.before)) };
        let Some(w) = w.near() else {
            let sums = &sums.all[sums.before..];
            for (ow, (y, c)) in y.iter_mut().zip(counts).enumerate() {
                *y = sums[w.range(ow)].iter().sum::<f32>() / (count * c);
            }
            continue;
        };
        for ow in (0..out).step_by(S::LANES) {
            let n = (out - ow).min(S::LANES);
            // SAFETY: as above: windows are read in whole vectors only where they are near.
            unsafe {
                let from = sums.all.as_ptr().add(ow * w.stride);
                let mut sum = S::zero();
                for c in 0..w.size {
                    let from = from.add(c);
                    sum = S::add(
                        sum,
                        match w.stride {
                            1 => S::load(from),
                            stride @ 2..=4 => every::<S>(from, stride),
                            stride => S::load_apart(from, stride, n),
                        },
                    );
                }
                let count = S::mul(S::splat(count), S::load_first(counts.as_ptr().add(ow), n));
                S::store_first(y.as_mut_ptr().add(ow), S::div(sum, count), n);
            }
        }
    }
}
dispatch!(unsafe fn forward = forward_body(p: &MeanPool, counts: &[f32], x: &[f32], sums: &mut Sums, y: &mut [f32]));

/// The gradients of a row of bins, with zeros before and behind them.
struct Line {
    all: scratch::Scratch,
    before: usize,
}

impl Line {
    fn new(columns: &Bins) -> Line {
        let before = columns.window().map_or(0, |w| w.size - 1);
        let reach = columns.window().map_or(0, |w| w.n + w.padding + w.size);
        let mut all = scratch::take(before + columns.out().max(reach) + SLACK);
        all.fill(0.0);
        Line { all, before }
    }
}

/// One plane of gradients.
#[inline(always)]
unsafe fn backward_body<S: Simd>(
    p: &MeanPool,
    counts: &[f32],
    grad: &[f32],
    parts: &mut [f32],
    line: &mut Line,
    dx: &mut [f32],
) {
    let [h, w] = &p.bins;
    let (n, out) = (w.n(), w.out());
    for (oh, g) in grad.chunks_exact(out).enumerate() {
        let count = p.count(0, oh);
        for ow in (0..out).step_by(S::LANES) {
            let left = (out - ow).min(S::LANES);
            // SAFETY: a row of gradients, and room for as many and some slack.
            unsafe {
                let count = S::mul(S::splat(count), S::load_first(counts.as_ptr().add(ow), left));
                let part = S::div(S::load_first(g.as_ptr().add(ow), left), count);
                S::store_first(parts.as_mut_ptr().add(oh * out + ow), part, left);
            }
        }
    }
    // The bins that the row before was in.
    let mut before = usize::MAX..usize::MAX;
    let (mut first, mut end) = (0, 0);
    for i in 0..h.n() {
        while first < h.out() && h.range(first).end <= i {
            first += 1;
        }
        while end < h.out() && h.range(end).start <= i {
            end += 1;
        }
        let bins = first..end.max(first);
        if bins == before {
            dx.copy_within((i - 1) * n..i * n, i * n);
            continue;
        }
        before = bins.clone();
        let row = &mut dx[i * n..][..n];
        // SAFETY: rows of parts, and a line with room for one and some slack, which are zeros.
        unsafe { add_rows::<S>(parts.as_ptr(), bins, out, out, line.all.as_mut_ptr().add(line.before)) };
        match w.window().filter(|w| w.stride <= 2) {
            // SAFETY: the line has zeros as far as windows that contain a column reach.
            Some(w) => unsafe {
                let line = line.all.as_ptr().add(line.before);
                for j in (0..n).step_by(w.stride * S::LANES) {
                    let left = n - j;
                    let (place, residue) = ((j + w.padding) / w.stride, w.padding % w.stride);
                    if w.stride == 1 {
                        S::store_first(
                            row.as_mut_ptr().add(j),
                            spread::<S>(line, place, 0, w.size, 1),
                            left.min(S::LANES),
                        );
                        continue;
                    }
                    let a = spread::<S>(line, place, residue, w.size, 2);
                    let b = spread::<S>(line, place + residue, 1 - residue, w.size, 2);
                    let [low, high] = S::interleave2(a, b);
                    S::store_first(row.as_mut_ptr().add(j), low, left.min(S::LANES));
                    S::store_first(row.as_mut_ptr().wrapping_add(j + S::LANES), high, left.saturating_sub(S::LANES));
                }
            },
            None => {
                row.fill(0.0);
                let line = &line.all[line.before..][..out];
                line.iter().enumerate().for_each(|(o, part)| row[w.range(o)].iter_mut().for_each(|d| *d += part));
            }
        }
    }
}
dispatch!(unsafe fn backward = backward_body(p: &MeanPool, counts: &[f32], grad: &[f32], parts: &mut [f32], line: &mut Line, dx: &mut [f32]));

/// The sums of the windows that hold positions `stride * place + residue` from `place` on.
#[inline(always)]
unsafe fn spread<S: Simd>(line: *const f32, place: usize, residue: usize, size: usize, stride: usize) -> S::V {
    // SAFETY: the caller's line has zeros before and behind its windows.
    unsafe {
        let mut sum = S::zero();
        // From the first window to the last.
        for back in (0..(size.saturating_sub(residue)).div_ceil(stride)).rev() {
            sum = S::add(sum, S::load(line.wrapping_add(place).wrapping_sub(back)));
        }
        sum
    }
}
