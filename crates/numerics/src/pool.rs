//! Maxima and means of windows over two axes, and their gradients, in one pass each.
//!
//! A window's maximum is the first of equal elements, or its last NaN: as PyTorch's loop finds it.
//! Windows never consist of padding alone. Arrays are contiguous planes `[planes, height, width]`, or images with their
//! channels last, `[images, height, width, inner]`.

mod back;
mod bins;
mod blocks;
mod doubles;
mod framed;
mod largest;
mod last;
mod mean;
mod pairs;
mod places;
mod pooled;
mod steps;

pub use bins::{Bins, Window};
pub use mean::{Divisor, MeanPool, mean_pool, mean_pool_grad};
pub use pooled::Pooled;

use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use blocks::Map;
use framed::Framed;
use pairs::{pairs, pairs_grad};
use places::places;
use std::ops::Range;
use steps::read;

/// Windows over two axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The rows' windows, then the columns'.
    pub windows: [Bins; 2],
    /// Numbers side by side at each place, which have windows of their own: channels that lie last. One, in planes.
    pub inner: usize,
}

impl Pool {
    fn plane(&self) -> usize {
        self.windows[0].n() * self.windows[1].n()
    }

    fn outputs(&self) -> usize {
        self.windows[0].out() * self.windows[1].out()
    }

    /// The windows, where they are pairs by pairs.
    fn pairs(&self) -> Option<[&Window; 2]> {
        let [h, w] = [self.windows[0].window()?, self.windows[1].window()?];
        (h.is_pairs() && w.is_pairs() && self.inner == 1).then_some([h, w])
    }

    /// Whether windows are 2 x 2 and lie side by side: then each element is in one of them at the most.
    pub fn is_pairs(&self) -> bool {
        self.pairs().is_some()
    }

    /// The same over planes.
    fn of_planes(&self) -> Pool {
        Pool { inner: 1, ..*self }
    }

    /// Where the maximum of a window is.
    fn find(&self, x: &[f32], oh: usize, ow: usize) -> Option<usize> {
        let [h, w] = &self.windows;
        let mut best: Option<(usize, f32)> = None;
        let columns = w.inside(ow);
        for r in h.inside(oh) {
            let row = h.at(oh, r) * w.n();
            for c in columns.clone() {
                let at = row + w.at(ow, c);
                let v = x[at];
                if best.is_none_or(|(_, b)| v > b || v.is_nan()) {
                    best = Some((at, v));
                }
            }
        }
        best.map(|b| b.0)
    }

    /// Calls `f` with the number of every window of a plane and the place of its maximum, in order.
    /// `row` has room for a row of them.
    fn for_maxima(
        &self,
        isa: Isa,
        x: &[f32],
        (framed, row): (&mut Framed, &mut [f32]),
        mut f: impl FnMut(usize, Option<usize>),
    ) {
        let out = self.windows[1].out();
        let row = &mut row[..out];
        let seen = framed.fill(isa, x);
        for oh in 0..self.windows[0].out() {
            // SAFETY: the callers' planes and the row have the sizes of `self`.
            unsafe { places(isa, self, x, &seen, oh, row) };
            for (ow, at) in row.iter().enumerate() {
                f(oh * out + ow, places::decode(*at));
            }
        }
    }
}

/// Runs `f` with the planes of every task: about 64 KiB of input, whatever the number of threads. A small plane takes as
/// long as some numbers more.
fn for_planes(planes: usize, plane: usize, f: impl Fn(Range<usize>) + Sync + Send) {
    let each = plane + 64;
    let chunk = ((1 << 14) / each).max(1);
    for_tasks(planes.div_ceil(chunk), planes * each >= 1 << 15, |t| f(t * chunk..planes.min((t + 1) * chunk)));
}

/// The maximum of each window of each plane.
///
/// ```
/// use gradus_numerics::pool::{Pool, Window, max_pool};
/// let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
/// let mut y = [0.0];
/// max_pool(&Pool { windows: [w.into(), w.into()], inner: 1 }, &[1.0, 4.0, 3.0, 2.0], &mut y);
/// assert_eq!(y, [4.0]);
/// ```
pub fn max_pool(p: &Pool, x: &[f32], y: &mut [f32]) {
    max_pool_pick(p, x, x, y);
}

/// For each window, the element of `values` that stands where the window's maximum of `x` is: the
/// second derivative of [`max_pool`] along `values`.
pub fn max_pool_pick(p: &Pool, x: &[f32], values: &[f32], y: &mut [f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if outputs == 0 || y.is_empty() {
        return;
    }
    let same = std::ptr::eq(x, values);
    if p.inner != 1 {
        if same {
            return last::max_pool(Isa::detect(), p, x, y);
        }
        let (x, values) = (last::planes(x, plane, p.inner), last::planes(values, plane, p.inner));
        let mut all = scratch::take(y.len());
        max_pool_pick(&p.of_planes(), &x, &values, &mut all);
        return last::images(&all, outputs, p.inner, y);
    }
    let planes = y.len() / outputs;
    assert!(y.len() == planes * outputs && x.len() == planes * plane && values.len() == x.len(), "sizes of planes");
    let isa = Isa::detect();
    if same && Map::Max(p).run(isa, planes, [x, &[]], y) {
        return;
    }
    let y = Shared::new(y);
    for_planes(planes, plane, |all| {
        let (mut framed, mut row) = (Framed::new(p), scratch::take(p.windows[1].out()));
        for i in all {
            // SAFETY: tasks write different planes, of the sizes of `p`.
            unsafe {
                let y = std::slice::from_raw_parts_mut(y.ptr().add(i * outputs), outputs);
                let (x, values) = (&x[i * plane..][..plane], &values[i * plane..][..plane]);
                match p.pairs() {
                    Some(w) if same => pairs(isa, w, x, y),
                    None if same => forward(isa, p, x, &framed.fill(isa, x), y),
                    _ => p.for_maxima(isa, x, (&mut framed, &mut row), |o, at| y[o] = at.map_or(0.0, |at| values[at])),
                }
            }
        }
    });
}

/// Asserts that planes and outputs fit each other.
fn check(p: &Pool, inputs: usize, outputs: usize) -> usize {
    let planes = inputs / p.plane();
    assert!(inputs == planes * p.plane() && outputs == planes * p.outputs(), "sizes of planes");
    planes
}

/// [`max_pool_grad`] for windows that are pairs by pairs ([`Pool::is_pairs`]), written over `x`. Of others nothing is
/// done, and it says so.
///
/// ```
/// use gradus_numerics::pool::{Pool, Window, max_pool_grad_over};
/// let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
/// let mut x = [1.0, 4.0, 3.0, 2.0];
/// assert!(max_pool_grad_over(&Pool { windows: [w.into(), w.into()], inner: 1 }, &mut x, &[0.5]));
/// assert_eq!(x, [0.0, 0.5, 0.0, 0.0]);
/// ```
#[must_use]
pub fn max_pool_grad_over(p: &Pool, x: &mut [f32], grad: &[f32]) -> bool {
    let (plane, outputs) = (p.plane(), p.outputs());
    let Some(pairs) = p.pairs() else { return false };
    if plane == 0 || x.is_empty() {
        return true;
    }
    let planes = check(p, x.len(), grad.len());
    let (isa, x) = (Isa::detect(), Shared::new(x));
    for_planes(planes, plane, |all| {
        for i in all {
            // SAFETY: tasks write different planes, of the sizes of `p`; each window is read before it is written.
            unsafe {
                let x = x.ptr().add(i * plane);
                pairs_grad(isa, pairs, x, &grad[i * outputs..][..outputs], x);
            }
        }
    });
    true
}

/// The gradient of [`max_pool`]: each window's gradient goes to its maximum.
pub fn max_pool_grad(p: &Pool, x: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if plane == 0 || dx.is_empty() {
        return;
    }
    let isa = Isa::detect();
    if p.inner != 1 && plane < places::MOST {
        check(p, dx.len() / p.inner, grad.len() / p.inner);
        return back::max_pool_grad(isa, p, x, grad, dx);
    }
    if p.inner != 1 {
        let (x, grad) = (last::planes(x, plane, p.inner), last::planes(grad, outputs, p.inner));
        let mut all = scratch::take(dx.len());
        max_pool_grad(&p.of_planes(), &x, &grad, &mut all);
        return last::images(&all, plane, p.inner, dx);
    }
    let planes = check(p, dx.len(), grad.len());
    assert!(x.len() == dx.len(), "sizes of planes");
    if Map::MaxGrad(p).run(isa, planes, [x, grad], dx) {
        return;
    }
    let dx = Shared::new(dx);
    for_planes(planes, plane, |all| {
        let (mut framed, mut row) = (Framed::new(p), scratch::take(p.windows[1].out()));
        for i in all {
            let (x, grad) = (&x[i * plane..][..plane], &grad[i * outputs..][..outputs]);
            // SAFETY: tasks write different planes, of the sizes of `p`.
            unsafe {
                let dx = dx.ptr().add(i * plane);
                if let Some(w) = p.pairs() {
                    pairs_grad(isa, w, x.as_ptr(), grad, dx);
                    continue;
                }
                let dx = std::slice::from_raw_parts_mut(dx, plane);
                dx.fill(0.0);
                p.for_maxima(isa, x, (&mut framed, &mut row), |o, at| {
                    if let Some(at) = at {
                        dx[at] += grad[o];
                    }
                });
            }
        }
    });
}

/// Where the maximum of each window is, counted through the plane.
pub fn max_pool_indices(p: &Pool, x: &[f32], at: &mut [i64]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if outputs == 0 || at.is_empty() {
        return;
    }
    if p.inner != 1 {
        let mut all = vec![0; at.len()];
        max_pool_indices(&p.of_planes(), &last::planes(x, plane, p.inner), &mut all);
        return last::images(&all, outputs, p.inner, at);
    }
    let planes = at.len() / outputs;
    assert!(at.len() == planes * outputs && x.len() == planes * plane, "sizes of planes");
    let (isa, to) = (Isa::detect(), Shared::new(at));
    for_planes(planes, plane, |all| {
        let (mut framed, mut row) = (Framed::new(p), scratch::take(p.windows[1].out()));
        for i in all {
            // SAFETY: tasks write different planes.
            let to = unsafe { std::slice::from_raw_parts_mut(to.ptr().add(i * outputs), outputs) };
            p.for_maxima(isa, &x[i * plane..][..plane], (&mut framed, &mut row), |o, at| {
                to[o] = at.map_or(0, |at| at as i64)
            });
        }
    });
}

/// The larger of an earlier and a later element, as the loop above takes it.
#[inline(always)]
unsafe fn later<S: Simd>(a: S::V, b: S::V) -> (S::M, S::V) {
    // SAFETY: arithmetic.
    unsafe {
        let m = S::or(S::gt(b, a), S::is_nan(b));
        (m, S::select(m, b, a))
    }
}

/// One plane of maxima. Vectors run along the outputs of a row, or its columns where bins are few or of
/// unequal sizes.
#[inline(always)]
unsafe fn forward_body<S: Simd>(p: &Pool, x: &[f32], seen: &framed::Seen<'_>, y: &mut [f32]) {
    let [h, w] = &p.windows;
    let Some(w) = w.near() else {
        // SAFETY: the caller's promise.
        return unsafe { largest::of_bins::<S>(p, x, y) };
    };
    for (oh, y) in y.chunks_exact_mut(w.out).enumerate() {
        let rows = h.inside(oh);
        if rows.is_empty() {
            y.fill(f32::NEG_INFINITY);
            continue;
        }
        for ow in (0..w.out).step_by(S::LANES) {
            let n = (w.out - ow).min(S::LANES);
            // SAFETY: windows are inside the rows that are seen, of which no more is read.
            unsafe {
                let mut best: Option<S::V> = None;
                for r in rows.clone() {
                    let row = h.at(oh, r) * seen.pitch + ow * w.stride;
                    for c in 0..w.size {
                        let v = read::<S>(seen.plane, row + c * w.dilation, w.stride, n);
                        best = Some(match best {
                            Some(b) => later::<S>(b, v).1,
                            None => v,
                        });
                    }
                }
                if let Some(b) = best {
                    S::store_first(y.as_mut_ptr().add(ow), b, n);
                }
            }
        }
    }
}
dispatch!(unsafe fn forward = forward_body(p: &Pool, x: &[f32], seen: &framed::Seen<'_>, y: &mut [f32]));

#[cfg(test)]
mod tests;
