//! Long reductions, of which threads take chunks, and operands that are fetched a part at a time for them.

use super::{
    exec::{Bases, run_units, try_for_ranges, with_task},
    program::Program,
    reduce::{Parts, combine},
};
use crate::{Result, Scalar};
use gradus_numerics::scratch;
use smallvec::SmallVec;
use std::{ops::Range, sync::OnceLock};

/// Pieces of a long reduction for each thread: one that comes late leaves some to the others.
const PIECES: usize = 4;

/// One unit with its chunks on all threads, a pass at a time.
///
/// # Safety
/// As [`super::exec::run`].
pub unsafe fn split_unit(
    p: &Program,
    bases: Bases<'_>,
    params: &[Scalar],
    u: usize,
    chunks: usize,
    fetching: Option<&Fetching<'_>>,
) -> Result<()> {
    let (m0, n) = p.points_of(u);
    let mut reduced: SmallVec<[Parts; 4]> = SmallVec::new();
    // Neighbours are combined first, so a power of two of them is one part: the thread that has them makes it.
    let chunk = p.kernel.order.chunk;
    let fits = fetching.map_or(usize::MAX, |f| PART / (f.bytes * chunk));
    let each = 1 << (chunks / (rayon::current_num_threads() * PIECES)).min(fits).max(1).ilog2();
    let pieces = chunks.div_ceil(each);
    for (s, pass) in p.passes.iter().enumerate() {
        if pass.elems.is_empty() {
            // Nothing but row values and their stores: no chunks to share out.
            with_task(p, bases, params, |t| {
                t.spread();
                t.start(m0);
                p.passes.iter().zip(&reduced).for_each(|(past, r)| t.restore(past, n, r));
                // SAFETY: the caller's promise.
                p.passes[..=s].iter().try_for_each(|past| unsafe { t.row_values(past, n, std::ptr::eq(past, pass)) })
            })?;
            reduced.push(Parts::default());
            continue;
        }
        let some = |i: usize, bases: Bases<'_>| {
            let mut parts = Parts::with_room();
            let (from, to) = (i * each, chunks.min((i + 1) * each));
            with_task(p, bases, params, |t| {
                t.spread();
                t.start(m0);
                p.passes.iter().zip(&reduced).for_each(|(past, r)| t.restore(past, n, r));
                // SAFETY: the caller's promise. Rows longer than a chunk are never cached, so this pass computes all
                // elements it needs.
                unsafe {
                    for past in &p.passes[..=s] {
                        t.row_values(past, n, from == 0 && std::ptr::eq(past, pass))?;
                    }
                    t.chunks(s, n, from..to, &mut parts)
                }
            })?;
            combine(p, pass, n, &mut parts);
            parts.keep_first(p, pass, n);
            Ok(parts)
        };
        let all: SmallVec<[OnceLock<Parts>; 32]> = (0..pieces).map(|_| OnceLock::new()).collect();
        try_for_ranges(pieces, p.near, |i| {
            let elements = m0 * p.cols + i * each * chunk..m0 * p.cols + p.cols.min((i + 1) * each * chunk);
            let made = match fetching {
                Some(f) => f.with(bases, elements, |bases| some(i, bases)),
                None => some(i, bases),
            };
            let _ = all[i].set(made?);
            Ok(())
        })?;
        let mut parts = Parts::with_room();
        all.iter().filter_map(OnceLock::get).for_each(|p| parts.append(p));
        combine(p, pass, n, &mut parts);
        reduced.push(parts);
    }
    Ok(())
}

/// Operands that are fetched a part at a time, just before it is reduced: it is still in the second cache then.
pub struct Fetching<'a> {
    /// Bytes that an element takes.
    pub bytes: usize,
    /// Brings these elements of the space, and lets each operand begin so that they lie where they would in all of it.
    #[allow(clippy::type_complexity)]
    pub fetch: &'a (dyn Fn(&mut [*mut u8], Range<usize>, *mut u8) + Sync),
}

/// Bytes that are fetched for a part, if a row is not longer.
const PART: usize = 256 << 10;

impl Fetching<'_> {
    /// Runs `f` with these elements.
    fn with<R>(&self, bases: Bases<'_>, elements: Range<usize>, f: impl FnOnce(Bases<'_>) -> R) -> R {
        // Operands begin at cache lines.
        let mut room = scratch::take((elements.len() * self.bytes).div_ceil(4) + 16 * bases.0.len());
        let mut own: SmallVec<[*mut u8; 32]> = bases.0.into();
        (self.fetch)(&mut own, elements, room.as_mut_ptr().cast());
        f(Bases(&own))
    }
}

/// Runs a program that goes along rows, whose operands are fetched part by part.
///
/// # Safety
/// As [`super::exec::run`], of what is fetched.
pub unsafe fn run_fetching(p: &Program, bases: Bases<'_>, params: &[Scalar], fetching: &Fetching<'_>) -> Result<()> {
    let units = p.units();
    let chunks = p.cols.div_ceil(p.kernel.order.chunk).max(1);
    if units < 2 * rayon::current_num_threads() && chunks > 1 {
        // SAFETY: the caller's promise.
        return (0..units).try_for_each(|u| unsafe { split_unit(p, bases, params, u, chunks, Some(fetching)) });
    }
    let rows = (PART / fetching.bytes / p.cols.max(1)).clamp(1, units.div_ceil(PIECES));
    try_for_ranges(units.div_ceil(rows), p.near, |i| {
        let (from, to) = (i * rows, units.min((i + 1) * rows));
        // SAFETY: the caller's promise.
        fetching.with(bases, from * p.cols..to * p.cols, |bases| unsafe { run_units(p, bases, params, from, to) })
    })
}
