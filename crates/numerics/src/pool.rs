//! Maxima of windows over two axes, and their gradients, in one pass each.
//!
//! A window's maximum is the first of equal elements, or its last NaN: as PyTorch's loop finds it.
//! Windows never consist of padding alone. Arrays are contiguous planes `[planes, height, width]`.

use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// The windows of one axis: element `r` of window `o` is element `o * stride + r * dilation -
/// padding` of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Elements of the axis.
    pub n: usize,
    /// Elements of a window.
    pub size: usize,
    /// Step between windows.
    pub stride: usize,
    /// Elements before the axis that the first window reaches over.
    pub padding: usize,
    /// Distance between the elements of a window.
    pub dilation: usize,
    /// Number of windows.
    pub out: usize,
}

impl Window {
    /// The elements of window `o` that are inside the axis, as a range of `r`.
    fn inside(&self, o: usize) -> std::ops::Range<usize> {
        let from = self.padding.saturating_sub(o * self.stride).div_ceil(self.dilation);
        let to = (self.n + self.padding).saturating_sub(o * self.stride).div_ceil(self.dilation);
        from.min(self.size)..to.min(self.size)
    }

    /// Where element `r` of window `o` is.
    fn at(&self, o: usize, r: usize) -> usize {
        o * self.stride + r * self.dilation - self.padding
    }

    /// Whether windows lie side by side in pairs, and reach over no end.
    fn is_pairs(&self) -> bool {
        (self.size, self.stride, self.padding, self.dilation) == (2, 2, 0, 1) && 2 * self.out <= self.n
    }
}

/// Windows over two axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The rows' windows, then the columns'.
    pub windows: [Window; 2],
}

impl Pool {
    fn plane(&self) -> usize {
        self.windows[0].n * self.windows[1].n
    }

    fn outputs(&self) -> usize {
        self.windows[0].out * self.windows[1].out
    }

    /// Whether windows are 2 x 2 and lie side by side: then each element is in one of them at the most.
    pub fn is_pairs(&self) -> bool {
        self.windows[0].is_pairs() && self.windows[1].is_pairs()
    }

    /// Where the maximum of a window is.
    fn find(&self, x: &[f32], oh: usize, ow: usize) -> Option<usize> {
        let [h, w] = &self.windows;
        let mut best: Option<(usize, f32)> = None;
        let columns = w.inside(ow);
        for r in h.inside(oh) {
            let row = h.at(oh, r) * w.n;
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
}

/// Planes of a task: about 64 KiB of input, whatever the number of threads.
fn chunk(plane: usize) -> usize {
    ((1 << 14) / plane.max(1)).max(1)
}

fn for_planes(planes: usize, p: &Pool, f: impl Fn(usize) + Sync + Send) {
    let chunk = chunk(p.plane());
    for_tasks(planes.div_ceil(chunk), planes * p.plane() >= 1 << 15, |t| {
        (t * chunk..planes.min((t + 1) * chunk)).for_each(&f);
    });
}

/// The maximum of each window of each plane.
///
/// ```
/// use gradus_numerics::pool::{Pool, Window, max_pool};
/// let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
/// let mut y = [0.0];
/// max_pool(&Pool { windows: [w, w] }, &[1.0, 4.0, 3.0, 2.0], &mut y);
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
    let planes = y.len() / outputs;
    assert!(y.len() == planes * outputs && x.len() == planes * plane && values.len() == x.len(), "sizes of planes");
    let same = std::ptr::eq(x, values);
    let (isa, y) = (Isa::detect(), Shared::new(y));
    for_planes(planes, p, |i| {
        // SAFETY: tasks write different planes.
        let y = unsafe { std::slice::from_raw_parts_mut(y.ptr().add(i * outputs), outputs) };
        let (x, values) = (&x[i * plane..][..plane], &values[i * plane..][..plane]);
        if same {
            // SAFETY: the plane and its outputs have the sizes of `p`.
            return unsafe { if p.is_pairs() { pairs(isa, p, x, y) } else { forward(isa, p, x, y) } };
        }
        let [h, w] = &p.windows;
        for (oh, y) in y.chunks_exact_mut(w.out).enumerate().take(h.out) {
            for (ow, y) in y.iter_mut().enumerate() {
                *y = p.find(x, oh, ow).map_or(0.0, |at| values[at]);
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

/// [`max_pool_grad`] for windows that are pairs by pairs ([`Pool::is_pairs`]), written over `x`.
///
/// ```
/// use gradus_numerics::pool::{Pool, Window, max_pool_grad_over};
/// let w = Window { n: 2, size: 2, stride: 2, padding: 0, dilation: 1, out: 1 };
/// let mut x = [1.0, 4.0, 3.0, 2.0];
/// max_pool_grad_over(&Pool { windows: [w, w] }, &mut x, &[0.5]);
/// assert_eq!(x, [0.0, 0.5, 0.0, 0.0]);
/// ```
pub fn max_pool_grad_over(p: &Pool, x: &mut [f32], grad: &[f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if plane == 0 || x.is_empty() {
        return;
    }
    assert!(p.is_pairs(), "windows that overlap");
    let planes = check(p, x.len(), grad.len());
    let (isa, x) = (Isa::detect(), Shared::new(x));
    for_planes(planes, p, |i| {
        // SAFETY: tasks write different planes, of the sizes of `p`; each window is read before it is written.
        unsafe {
            let x = x.ptr().add(i * plane);
            pairs_grad(isa, p, x, &grad[i * outputs..][..outputs], x);
        }
    });
}

/// The gradient of [`max_pool`]: each window's gradient goes to its maximum.
pub fn max_pool_grad(p: &Pool, x: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (plane, outputs) = (p.plane(), p.outputs());
    if plane == 0 || dx.is_empty() {
        return;
    }
    let planes = check(p, dx.len(), grad.len());
    assert!(x.len() == dx.len(), "sizes of planes");
    let (isa, dx) = (Isa::detect(), Shared::new(dx));
    for_planes(planes, p, |i| {
        let (x, grad) = (&x[i * plane..][..plane], &grad[i * outputs..][..outputs]);
        if p.is_pairs() {
            // SAFETY: tasks write different planes, of the sizes of `p`.
            return unsafe { pairs_grad(isa, p, x.as_ptr(), grad, dx.ptr().add(i * plane)) };
        }
        // SAFETY: tasks write different planes.
        let dx = unsafe { std::slice::from_raw_parts_mut(dx.ptr().add(i * plane), plane) };
        dx.fill(0.0);
        let [h, w] = &p.windows;
        for (oh, grad) in grad.chunks_exact(w.out).enumerate().take(h.out) {
            for (ow, g) in grad.iter().enumerate() {
                if let Some(at) = p.find(x, oh, ow) {
                    dx[at] += g;
                }
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
    let planes = at.len() / outputs;
    assert!(at.len() == planes * outputs && x.len() == planes * plane, "sizes of planes");
    let at = Shared::new(at);
    for_planes(planes, p, |i| {
        // SAFETY: tasks write different planes.
        let at = unsafe { std::slice::from_raw_parts_mut(at.ptr().add(i * outputs), outputs) };
        let x = &x[i * plane..][..plane];
        let w = p.windows[1].out;
        for (o, at) in at.iter_mut().enumerate() {
            *at = p.find(x, o / w, o % w).map_or(0, |at| at as i64);
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

/// One plane of maxima. Vectors run along the outputs of a row whose windows are inside; the rest
/// is done one by one.
#[inline(always)]
unsafe fn forward_body<S: Simd>(p: &Pool, x: &[f32], y: &mut [f32]) {
    let [h, w] = &p.windows;
    // Outputs whose windows are inside the row, for strides that vectors can read: all but absurd ones.
    let reach = (w.size - 1) * w.dilation;
    let (from, mut to) = (w.padding.div_ceil(w.stride), 0);
    if w.stride < 1 << 24 {
        to = ((w.n + w.padding).saturating_sub(reach)).div_ceil(w.stride).min(w.out);
    }
    for oh in 0..h.out {
        let y = &mut y[oh * w.out..][..w.out];
        let rows = h.inside(oh);
        let one = |ow: usize| p.find(x, oh, ow).map_or(f32::NEG_INFINITY, |at| x[at]);
        if rows.is_empty() || from >= to {
            y.iter_mut().enumerate().for_each(|(ow, y)| *y = one(ow));
            continue;
        }
        y[..from].iter_mut().enumerate().for_each(|(ow, y)| *y = one(ow));
        y[to..].iter_mut().enumerate().for_each(|(i, y)| *y = one(to + i));
        let mut ow = from;
        while ow < to {
            let n = (to - ow).min(S::LANES);
            // SAFETY: the first element of these windows is at `at(ow, 0)`, the last one that is
            // read at `at(ow + n - 1, size - 1)`, inside the row.
            unsafe {
                let mut best: Option<S::V> = None;
                for r in rows.clone() {
                    let row = x.as_ptr().add(h.at(oh, r) * w.n);
                    for c in 0..w.size {
                        let from = row.add(w.at(ow, c));
                        let v = if w.stride == 1 {
                            S::load_first(from, n)
                        } else if w.stride > 2 {
                            S::load_apart(from, w.stride, n)
                        } else if n == S::LANES && w.at(ow, c) + 2 * n <= w.n {
                            S::evens(S::load(from), S::load(from.add(S::LANES)))
                        } else {
                            let left = 2 * n - 1;
                            let second = left.saturating_sub(S::LANES);
                            S::evens(
                                S::load_first(from, left.min(S::LANES)),
                                S::load_first(from.wrapping_add(S::LANES), second),
                            )
                        };
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
            ow += n;
        }
    }
}
dispatch!(unsafe fn forward = forward_body(p: &Pool, x: &[f32], y: &mut [f32]));

/// How many numbers ahead of what is read lines are asked for: the hardware stops at pages' ends.
const AHEAD: usize = 768;

/// Elements 0, 2, .. and 1, 3, .. of `2 n`.
#[inline(always)]
unsafe fn pair<S: Simd>(from: *const f32, n: usize) -> (S::V, S::V) {
    // SAFETY: the caller gives that many.
    unsafe {
        let next = from.wrapping_add(S::LANES);
        S::prefetch(from.wrapping_add(AHEAD));
        S::prefetch(next.wrapping_add(AHEAD));
        let (first, second) = ((2 * n).min(S::LANES), (2 * n).saturating_sub(S::LANES));
        let (a, b) = (S::load_first(from, first), S::load_first(next, second));
        (S::evens(a, b), S::odds(a, b))
    }
}

/// One plane of maxima of pairs by pairs.
#[inline(always)]
unsafe fn pairs_body<S: Simd>(p: &Pool, x: &[f32], y: &mut [f32]) {
    let [h, w] = &p.windows;
    for oh in 0..h.out {
        for ow in (0..w.out).step_by(S::LANES) {
            let n = (w.out - ow).min(S::LANES);
            // SAFETY: `2 n` elements of two rows from here on are inside, and `n` outputs.
            unsafe {
                let top = x.as_ptr().add(2 * oh * w.n + 2 * ow);
                let (a, b) = pair::<S>(top, n);
                let (c, d) = pair::<S>(top.wrapping_add(w.n), n);
                let best = later::<S>(later::<S>(later::<S>(a, b).1, c).1, d).1;
                S::store_first(y.as_mut_ptr().add(oh * w.out + ow), best, n);
            }
        }
    }
}
dispatch!(unsafe fn pairs = pairs_body(p: &Pool, x: &[f32], y: &mut [f32]));

/// One plane of gradients for pairs by pairs; `dx` is `x` itself or apart from it.
#[inline(always)]
unsafe fn pairs_grad_body<S: Simd>(p: &Pool, x: *const f32, grad: &[f32], dx: *mut f32) {
    let [h, w] = &p.windows;
    // What no window covers: an odd last row or column.
    // SAFETY: rows and columns of the plane.
    let clear = |from: usize, to: usize| unsafe { dx.add(from).write_bytes(0, to - from) };
    clear(2 * h.out * w.n, h.n * w.n);
    for oh in 0..h.out {
        let rows = 2 * oh * w.n;
        if 2 * w.out < w.n {
            clear(rows + 2 * w.out, rows + w.n);
            clear(rows + w.n + 2 * w.out, rows + 2 * w.n);
        }
        for ow in (0..w.out).step_by(S::LANES) {
            let n = (w.out - ow).min(S::LANES);
            // SAFETY: `2 n` elements of two rows and `n` gradients from here on are inside.
            unsafe {
                let (top, low) = (rows + 2 * ow, rows + w.n + 2 * ow);
                let (first, second) = ((2 * n).min(S::LANES), (2 * n).saturating_sub(S::LANES));
                let (a, b) = pair::<S>(x.add(top), n);
                let (c, d) = pair::<S>(x.add(low), n);
                let (take_b, ab) = later::<S>(a, b);
                let (take_c, abc) = later::<S>(ab, c);
                let (take_d, _) = later::<S>(abc, d);
                let (g, zero) = (S::load_first(grad.as_ptr().add(oh * w.out + ow), n), S::zero());
                let cd = S::or(take_c, take_d);
                let parts = [
                    S::select(S::or(take_b, cd), zero, g),
                    S::select(S::and_not(take_b, cd), g, zero),
                    S::select(S::and_not(take_c, take_d), g, zero),
                    S::select(take_d, g, zero),
                ];
                for (at, pair) in [(top, [parts[0], parts[1]]), (low, [parts[2], parts[3]])] {
                    let [a, b] = S::interleave2(pair[0], pair[1]);
                    let to = dx.add(at);
                    S::store_first(to, a, first);
                    S::store_first(to.wrapping_add(S::LANES), b, second);
                }
            }
        }
    }
}
dispatch!(unsafe fn pairs_grad = pairs_grad_body(p: &Pool, x: *const f32, grad: &[f32], dx: *mut f32));

#[cfg(test)]
mod tests;
