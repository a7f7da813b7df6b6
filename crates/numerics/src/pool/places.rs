//! Where the maxima of a row of windows are.

use super::framed::Seen;
use super::{Pool, largest, later, read};
use crate::scratch;
use crate::simd::{Simd, dispatch};

/// The places in the plane are numbers that `f32` holds exactly.
pub(super) const MOST: usize = 1 << 24;

/// A place, as the bits of a number: rows of them lie in buffers of numbers.
fn encode(at: Option<usize>) -> f32 {
    f32::from_bits(at.map_or(u32::MAX, |at| at as u32))
}

/// The place behind a number.
pub(super) fn decode(bits: f32) -> Option<usize> {
    Some(bits.to_bits()).filter(|&at| at != u32::MAX).map(|at| at as usize)
}

/// Calls `f` with the place of the maximum of each of row `oh` of bins: first of every column, then
/// of the columns of a bin.
#[inline(always)]
pub(super) unsafe fn by_columns<S: Simd>(p: &Pool, x: &[f32], oh: usize, mut f: impl FnMut(usize, Option<usize>)) {
    let [h, w] = &p.windows;
    // SAFETY: the caller's promise.
    if let Some(at) = unsafe { largest::place::<S>(p, x, oh) } {
        return f(0, Some(at));
    }
    let (n, rows) = (w.n(), h.inside(oh));
    if rows.is_empty() || x.len() >= MOST {
        return (0..w.out()).for_each(|ow| f(ow, p.find(x, oh, ow)));
    }
    let room = n.next_multiple_of(S::LANES);
    let mut columns = scratch::take(2 * room);
    let (largest, found) = columns.split_at_mut(room);
    for i in (0..n).step_by(S::LANES) {
        let left = (n - i).min(S::LANES);
        // SAFETY: these rows are inside the plane, and no more of them is read.
        unsafe {
            let (mut best, mut place) = (S::zero(), S::zero());
            for r in rows.clone() {
                let row = h.at(oh, r) * n;
                let (v, at) = (S::load_first(x.as_ptr().add(row + i), left), S::splat(row as f32));
                let (takes, larger) = later::<S>(best, v);
                (best, place) = if r == rows.start { (v, at) } else { (larger, S::select(takes, at, place)) };
            }
            S::store(largest.as_mut_ptr().add(i), best);
            S::store(found.as_mut_ptr().add(i), place);
        }
    }
    for ow in 0..w.out() {
        let mut best: Option<(f32, usize)> = None;
        for c in w.inside(ow) {
            let column = w.at(ow, c);
            let (v, at) = (largest[column], found[column] as usize + column);
            // Of equals the first in the plane, of NaNs the last.
            let takes = best.is_none_or(|(b, place)| {
                if b.is_nan() || v.is_nan() {
                    v.is_nan() && (!b.is_nan() || at > place)
                } else {
                    v > b || (v == b && at < place)
                }
            });
            if takes {
                best = Some((v, at));
            }
        }
        f(ow, best.map(|b| b.1));
    }
}

/// The places of the maxima of row `oh` of bins.
#[inline(always)]
unsafe fn places_body<S: Simd>(p: &Pool, x: &[f32], seen: &Seen<'_>, oh: usize, to: &mut [f32]) {
    let [h, w] = &p.windows;
    let one = |ow: usize| encode(p.find(x, oh, ow));
    let rows = h.inside(oh);
    let (Some(w), false) = (w.near(), rows.is_empty() || x.len() >= MOST) else {
        // SAFETY: the caller's promise.
        return unsafe { by_columns::<S>(p, x, oh, |ow, at| to[ow] = encode(at)) };
    };
    for ow in (0..w.out).step_by(S::LANES) {
        let n = (w.out - ow).min(S::LANES);
        let first = ow * w.stride;
        let (mut found, mut largest) = ([0.0f32; 16], [0.0f32; 16]);
        // SAFETY: windows are inside the rows that are seen, of which no more is read.
        unsafe {
            let mut best: Option<(S::V, S::V)> = None;
            for r in rows.clone() {
                let row = h.at(oh, r);
                for c in 0..w.size {
                    let v = read::<S>(seen.plane, row * seen.pitch + first + c * w.dilation, w.stride, n);
                    // Where in the plane it would be, for a window from its first column on.
                    let at = S::splat((row * w.n + c * w.dilation) as f32);
                    best = Some(match best {
                        Some((b, place)) => {
                            let (takes, b) = later::<S>(b, v);
                            (b, S::select(takes, at, place))
                        }
                        None => (v, at),
                    });
                }
            }
            if let Some((best, place)) = best {
                S::store(found.as_mut_ptr(), place);
                S::store(largest.as_mut_ptr(), best);
            }
        }
        for (i, to) in to[ow..ow + n].iter_mut().enumerate() {
            // What lies around the rows is no smaller: it might be what was found.
            *to = if largest[i] == f32::NEG_INFINITY {
                one(ow + i)
            } else {
                encode(Some(found[i] as usize + first + i * w.stride - w.padding))
            };
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// The plane, what is seen of it and its row of outputs have the sizes of `p`.
    pub(super) unsafe fn places = places_body(p: &Pool, x: &[f32], seen: &Seen<'_>, oh: usize, to: &mut [f32])
}
