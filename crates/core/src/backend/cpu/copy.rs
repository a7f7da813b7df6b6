//! Pure copies between layouts: a transposition goes tile by tile, so that both sides are read and written in whole
//! cache lines.

use crate::kernel::{InstKind, Kernel, Source};
use gradus_numerics::tasks::for_tasks;

/// Tiles are this many elements square: rows of a tile are whole cache lines, and a tile fits the first cache.
const TILE: usize = 32;
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
    unsafe fn typed<T: Copy + Default + Send + Sync>(&self, bases: super::exec::Bases<'_>) {
        let planes: usize = self.outer.iter().map(|o| o.0).product();
        // A strip of tiles along the source's contiguous axis is one piece of work.
        let strips = self.cols.0.div_ceil(TILE);
        let strip = |at: usize| {
            let (mut plane, c0) = (at / strips, at % strips * TILE);
            let (mut from, mut to) = (self.source.1, self.target.1);
            for &(n, s, d) in self.outer.iter().rev() {
                let i = (plane % n) as isize;
                (from, to, plane) = (from + i * s, to + i * d, plane / n);
            }
            let all = bases; // the whole struct, which may be shared
            let src = all.0[self.source.0].cast::<T>().wrapping_offset(from);
            let dst = all.0[self.target.0].cast::<T>().wrapping_offset(to);
            let width = TILE.min(self.cols.0 - c0);
            for r0 in (0..self.rows.0).step_by(TILE) {
                let height = TILE.min(self.rows.0 - r0);
                let mut tile = [[T::default(); TILE]; TILE];
                for (c, line) in tile.iter_mut().enumerate().take(width) {
                    let row = src.wrapping_offset((c0 + c) as isize * self.cols.1 + r0 as isize);
                    // SAFETY: `height` elements of the source lie there, by the caller's promise.
                    line[..height].copy_from_slice(unsafe { std::slice::from_raw_parts(row, height) });
                }
                for r in 0..height {
                    let row = dst.wrapping_offset((r0 + r) as isize * self.rows.1 + c0 as isize);
                    // SAFETY: `width` elements of the target lie there, and this piece of work alone writes them.
                    let out = unsafe { std::slice::from_raw_parts_mut(row, width) };
                    for (o, line) in out.iter_mut().zip(&tile) {
                        *o = line[r];
                    }
                }
            }
        };
        let pieces = planes * strips;
        for_tasks(pieces, pieces * self.rows.0 * TILE >= PARALLEL, strip);
    }
}
