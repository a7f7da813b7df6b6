//! The maxima of pairs by pairs, and their gradients: windows that lie side by side.

use super::{Window, later};
use crate::simd::{Simd, dispatch, prefetch};

/// How many numbers ahead of what is read lines are asked for: the hardware stops at pages' ends.
const AHEAD: usize = 768;

/// Elements 0, 2, .. and 1, 3, .. of `2 n`.
#[inline(always)]
unsafe fn pair<S: Simd>(from: *const f32, n: usize) -> (S::V, S::V) {
    // SAFETY: the caller gives that many.
    unsafe {
        let next = from.wrapping_add(S::LANES);
        prefetch(from.wrapping_add(AHEAD));
        prefetch(next.wrapping_add(AHEAD));
        let (first, second) = ((2 * n).min(S::LANES), (2 * n).saturating_sub(S::LANES));
        let (a, b) = (S::load_first(from, first), S::load_first(next, second));
        (S::evens(a, b), S::odds(a, b))
    }
}

/// One plane of maxima of pairs by pairs.
#[inline(always)]
unsafe fn pairs_body<S: Simd>([h, w]: [&Window; 2], x: &[f32], y: &mut [f32]) {
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
dispatch!(pub(super) unsafe fn pairs = pairs_body(p: [&Window; 2], x: &[f32], y: &mut [f32]));

/// One plane of gradients for pairs by pairs; `dx` is `x` itself or apart from it.
#[inline(always)]
unsafe fn pairs_grad_body<S: Simd>([h, w]: [&Window; 2], x: *const f32, grad: &[f32], dx: *mut f32) {
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
dispatch!(pub(super) unsafe fn pairs_grad = pairs_grad_body(p: [&Window; 2], x: *const f32, grad: &[f32], dx: *mut f32));
