//! The maxima of bins that are few or of unequal sizes: columns first, then the columns of a bin.

use super::{Pool, later};
use crate::scratch;
use crate::simd::{Simd, fold};

impl Pool {
    /// Whether bins are whole rows: what lies in one is one stretch of the plane.
    fn has_stretches(&self) -> bool {
        let [h, w] = &self.windows;
        w.out() == 1 && w.inside(0).len() == w.n() && h.window().is_none_or(|h| h.dilation == 1)
    }
}

/// The place of the maximum of bin `oh` where bins are whole rows; `None` if they are not, or where the order of equals
/// or of NaNs would have to be looked at.
///
/// # Safety
///
/// The plane has the sizes of `p`.
#[inline(always)]
pub(super) unsafe fn place<S: Simd>(p: &Pool, x: &[f32], oh: usize) -> Option<usize> {
    if !p.has_stretches() {
        return None;
    }
    let (rows, n) = (p.windows[0].range(oh), p.windows[1].n());
    let all = &x[rows.start * n..rows.end * n];
    // SAFETY: a part of the plane.
    let best = unsafe { of_stretch::<S>(all) }?;
    // Blocks without it are passed over whole.
    let has = |block: &[f32]| block.iter().fold(false, |has, v| has | (*v == best));
    let block = all.chunks(BLOCK).position(has)?;
    let within = all[block * BLOCK..].iter().position(|v| *v == best)?;
    Some(rows.start * n + block * BLOCK + within)
}

/// Numbers that are looked at together.
const BLOCK: usize = 16;

/// The maxima of all bins of a plane.
///
/// # Safety
///
/// The plane and its outputs have the sizes of `p`.
#[inline(always)]
pub(super) unsafe fn of_bins<S: Simd>(p: &Pool, x: &[f32], y: &mut [f32]) {
    let [h, w] = &p.windows;
    let n = w.n();
    let slow = |oh: usize, ow: usize| p.find(x, oh, ow).map_or(f32::NEG_INFINITY, |at| x[at]);
    if p.has_stretches() {
        for (oh, y) in y.iter_mut().enumerate() {
            let rows = h.range(oh);
            // SAFETY: a part of the plane.
            *y = unsafe { of_stretch::<S>(&x[rows.start * n..rows.end * n]) }.unwrap_or_else(|| slow(oh, 0));
        }
        return;
    }
    let mut columns = scratch::take(n.next_multiple_of(S::LANES));
    for (oh, y) in y.chunks_exact_mut(w.out()).enumerate() {
        let rows = h.inside(oh);
        for i in (0..n).step_by(S::LANES) {
            let left = (n - i).min(S::LANES);
            // SAFETY: these rows are inside the plane, and no more of them is read.
            unsafe {
                let mut best = S::splat(f32::NEG_INFINITY);
                for r in rows.clone() {
                    best = later::<S>(best, S::load_first(x.as_ptr().add(h.at(oh, r) * n + i), left)).1;
                }
                S::store(columns.as_mut_ptr().add(i), best);
            }
        }
        for (ow, y) in y.iter_mut().enumerate() {
            let all = w.inside(ow).map(|c| columns[w.at(ow, c)]);
            *y = first_of(all).unwrap_or_else(|| slow(oh, ow));
        }
    }
}

/// The maximum of numbers in any order, if their order does not matter to its bits: there are no NaNs, and no zeros of
/// both signs are the largest.
fn first_of(numbers: impl Iterator<Item = f32>) -> Option<f32> {
    let (mut best, mut clear) = (f32::NEG_INFINITY, true);
    for v in numbers {
        clear &= !(v.is_nan() || v == best && v.to_bits() != best.to_bits());
        best = if v > best { v } else { best };
    }
    clear.then_some(best)
}

/// The maximum of a stretch, on the same terms.
#[inline(always)]
unsafe fn of_stretch<S: Simd>(x: &[f32]) -> Option<f32> {
    const TOGETHER: usize = 4;
    // SAFETY: no number outside the stretch is read; vectors are no longer than 16.
    unsafe {
        let least = S::splat(f32::NEG_INFINITY);
        let mut best = [least; TOGETHER];
        let whole = x.len() / (TOGETHER * S::LANES) * TOGETHER * S::LANES;
        for i in (0..whole).step_by(TOGETHER * S::LANES) {
            for (j, best) in best.iter_mut().enumerate() {
                *best = later::<S>(*best, S::load(x.as_ptr().add(i + j * S::LANES))).1;
            }
        }
        for i in (whole..x.len()).step_by(S::LANES) {
            let left = (x.len() - i).min(S::LANES);
            // The last vector overlaps the one before it, where there is one: a number counts once or twice.
            if left < S::LANES && x.len() >= S::LANES {
                best[1] = later::<S>(best[1], S::load(x.as_ptr().add(x.len() - S::LANES))).1;
            } else if left < S::LANES {
                return first_of(x.iter().copied());
            } else {
                best[0] = later::<S>(best[0], S::load(x.as_ptr().add(i))).1;
            }
        }
        let [a, b, c, d] = best;
        let best = later::<S>(later::<S>(a, b).1, later::<S>(c, d).1).1;
        // A NaN stays to the end. Of other numbers than zero those that are equal have the same bits.
        match fold::<S>(best, |a, b| if b > a || b.is_nan() { b } else { a }) {
            0.0 => first_of(x.iter().copied()),
            best => (!best.is_nan()).then_some(best),
        }
    }
}
