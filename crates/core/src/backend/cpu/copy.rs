//! Pure copies between layouts: a transposition goes block by block, so that both sides are read and written in whole
//! cache lines.

use crate::kernel::{InstKind, Kernel, Source};
use gradus_numerics::{tasks::for_tasks, transpose};

/// Columns of one piece of work.
const STRIP: usize = 64;
/// From this many bytes on the target is written past the caches. (64 MiB: 2.5 ms instead of 9.)
const STREAM: usize = 8 << 20;
/// Below this many elements a copy stays on the calling thread.
const PARALLEL: usize = 32 * 1024;

/// A copy whose source runs along one axis and whose target along another.
#[derive(Debug)]
pub struct Transposition {
    size: usize,
    /// The axis along which the source is contiguous, and the target's step there.
    rows: (usize, isize),
    /// The axis along which the target is contiguous, and the source's step there.
    cols: (usize, isize),
    /// Other axes: extent, source step, target step.
    outer: Vec<(usize, isize, isize)>,
    source: (usize, isize),
    target: (usize, isize),
}

impl Transposition {
    /// Whether a (collapsed) kernel is one.
    pub fn of(k: &Kernel) -> Option<Transposition> {
        let [load, store] = &k.insts[..] else { return None };
        let InstKind::Load { source: Source::Arg(from), access: src } = &load.kind else { return None };
        let InstKind::Store { arg: to, access: dst, .. } = &store.kind else { return None };
        if !k.reduce.is_empty() || !src.bounds.is_empty() || !src.lookup.is_empty() {
            return None;
        }
        let along = |s: &[isize]| (0..k.map.len()).find(|&d| s[d] == 1 && k.map[d] >= 8);
        let (r, c) = (along(&src.strides)?, along(&dst.strides)?);
        if r == c {
            return None;
        }
        let outer = (0..k.map.len()).filter(|&d| d != r && d != c);
        Some(Transposition {
            size: load.dtype.size(),
            rows: (k.map[r], dst.strides[r]),
            cols: (k.map[c], src.strides[c]),
            outer: outer.map(|d| (k.map[d], src.strides[d], dst.strides[d])).collect(),
            source: (*from, src.offset),
            target: (*to, dst.offset),
        })
    }

    /// Copies.
    ///
    /// # Safety
    /// Every address lies in its buffer, and the buffers do not overlap.
    pub unsafe fn run(&self, bases: super::exec::Bases<'_>) {
        // SAFETY: passed on; the types have the element's size.
        unsafe {
            match self.size {
                1 => self.typed::<u8>(bases),
                2 => self.typed::<u16>(bases),
                4 => self.typed::<u32>(bases),
                _ => self.typed::<u64>(bases),
            }
        }
    }

    /// # Safety
    /// As [`Transposition::run`].
    unsafe fn typed<T: Copy + Send + Sync>(&self, bases: super::exec::Bases<'_>) {
        let planes: usize = self.outer.iter().map(|o| o.0).product();
        let strips = self.cols.0.div_ceil(STRIP);
        let total = planes * self.cols.0 * self.rows.0;
        let stream = total * self.size >= STREAM;
        let strip = |at: usize| {
            let (mut plane, c0) = (at / strips, at % strips * STRIP);
            let (mut from, mut to) = (self.source.1, self.target.1);
            for &(n, s, d) in self.outer.iter().rev() {
                let i = (plane % n) as isize;
                (from, to, plane) = (from + i * s, to + i * d, plane / n);
            }
            let all = bases; // the whole struct, which may be shared
            let src = all.0[self.source.0].cast::<T>().wrapping_offset(from);
            let dst = all.0[self.target.0].cast::<T>().wrapping_offset(to);
            let part = transpose::Transposition {
                rows: self.rows.0,
                columns: STRIP.min(self.cols.0 - c0),
                from: self.cols.1,
                to: self.rows.1,
            };
            let src = src.wrapping_offset(c0 as isize * self.cols.1);
            // SAFETY: the elements lie in the buffers by the caller's promise, and this piece of work alone writes
            // its columns.
            unsafe { part.run(src, dst.wrapping_add(c0), stream) };
        };
        for_tasks(planes * strips, total >= PARALLEL, strip);
    }
}
