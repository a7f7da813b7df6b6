//! Pure copies between layouts: a transposition goes block by block, so that both sides are read and written in whole
//! cache lines.

use crate::kernel::{Access, InstKind, Kernel, Source};
use gradus_numerics::{by_bytes, tasks::for_tasks, transpose};

/// Columns of one piece of work.
const STRIP: usize = 64;
/// Targets of so many bytes are written past the caches. (64 MiB: 2.5 ms instead of 9.)
const STREAM: usize = 8 << 20;
/// And those of so many if they are read again at once.
const STREAM_READ: usize = 64 << 20;
/// Below this many elements a copy stays on the calling thread.
const PARALLEL: usize = 32 * 1024;
/// Elements that a thread takes at once, at least: neighbours write to the same cache lines where strips meet.
const TASK: usize = 16 * 1024;
/// Strips from which on rows stay whole.
const MANY: usize = 32;

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
    /// From this many bytes on the target is written past the caches.
    stream: usize,
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
        Transposition::between(&k.map, load.dtype.size(), (*from, src), (*to, dst))
    }

    /// A copy of elements of `size` bytes from one argument's place to another's, if the two run along different axes.
    pub fn between(
        map: &[usize],
        size: usize,
        (from, src): (usize, &Access),
        (to, dst): (usize, &Access),
    ) -> Option<Transposition> {
        let along = |s: &[isize], step: isize, least: usize| (0..map.len()).find(|&d| s[d] == step && map[d] >= least);
        // What goes backwards along memory is read forwards and written backwards.
        let backwards = || along(&src.strides, -1, 8).map(|r| (r, -1));
        let (r, way) = along(&src.strides, 1, 8).map(|r| (r, 1)).or_else(backwards)?;
        let c = along(&dst.strides, 1, 4)?;
        let behind = if way < 0 { map[r] as isize - 1 } else { 0 };
        // The same element all along the target's axis is filled in, not turned.
        if r == c || src.strides[c] == 0 {
            return None;
        }
        // Axes along which neither moves are not there.
        let outer = (0..map.len()).filter(|&d| d != r && d != c && (src.strides[d], dst.strides[d]) != (0, 0));
        Some(Transposition {
            size,
            rows: (map[r], way * dst.strides[r]),
            cols: (map[c], src.strides[c]),
            outer: outer.map(|d| (map[d], src.strides[d], dst.strides[d])).collect(),
            source: (from, src.offset - behind),
            target: (to, dst.offset + behind * dst.strides[r]),
            stream: STREAM,
        })
    }

    /// The same for a target that is read again at once, which had better stay in the caches.
    pub fn kept(self) -> Transposition {
        Transposition { stream: STREAM_READ, ..self }
    }

    /// Copies.
    ///
    /// # Safety
    /// Every address lies in its buffer, and the buffers do not overlap.
    pub unsafe fn run(&self, bases: super::exec::Bases<'_>) {
        // SAFETY: passed on; the types have the element's size.
        unsafe { by_bytes!(self.size, T => self.typed::<T>(bases)) }
    }

    /// # Safety
    /// As [`Transposition::run`].
    unsafe fn typed<T: Copy + Send + Sync>(&self, bases: super::exec::Bases<'_>) {
        let planes: usize = self.outer.iter().map(|o| o.0).product();
        let strips = self.cols.0.div_ceil(STRIP);
        let total = planes * self.cols.0 * self.rows.0;
        let stream = total * self.size >= self.stream;
        // A few columns of very many rows are cut across.
        let part = match planes * strips {
            MANY.. => self.rows.0,
            _ => (TASK / STRIP.min(self.cols.0)).next_multiple_of(64).min(self.rows.0),
        };
        let parts = self.rows.0.div_ceil(part);
        let strip = |at: usize| {
            let (mut plane, c0, r0) = (at / parts / strips, at / parts % strips * STRIP, at % parts * part);
            let (mut from, mut to) = (self.source.1, self.target.1);
            for &(n, s, d) in self.outer.iter().rev() {
                let i = (plane % n) as isize;
                (from, to, plane) = (from + i * s, to + i * d, plane / n);
            }
            let all = bases; // the whole struct, which may be shared
            let src = all.0[self.source.0].cast::<T>().wrapping_offset(from + c0 as isize * self.cols.1 + r0 as isize);
            let dst = all.0[self.target.0].cast::<T>().wrapping_offset(to + r0 as isize * self.rows.1 + c0 as isize);
            let piece = transpose::Transposition {
                rows: part.min(self.rows.0 - r0),
                columns: STRIP.min(self.cols.0 - c0),
                from: self.cols.1,
                to: self.rows.1,
            };
            // SAFETY: the elements lie in the buffers by the caller's promise, and this piece of work alone writes
            // its rows and columns.
            unsafe { piece.run(src, dst, stream) };
        };
        let pieces = planes * strips * parts;
        let each = TASK.div_ceil(part * STRIP.min(self.cols.0)).min(pieces).max(1);
        for_tasks(pieces.div_ceil(each), total >= PARALLEL, |t| {
            (t * each..pieces.min((t + 1) * each)).for_each(strip);
        });
    }
}
