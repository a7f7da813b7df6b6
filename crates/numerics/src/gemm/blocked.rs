//! Products of `f32` and `f64` by panels: a panel of `B` of up to three vectors' width meets blocks of rows of
//! `A`, which are read as they lie.
//!
//! A panel is packed where its rows are not contiguous or lie too far apart for the caches, and is
//! read in place otherwise. With many rows all of `B` is packed once and threads share the rows;
//! with fewer, threads share the panels and each packs its own.

use super::tile::{self, Columns, Panel, Strip, Tiled};
use super::{Dims, Finished, Layout};
use crate::chip::chip;
use crate::gemv::Strided;
use crate::scratch::{self, Of};
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// A product with fewer multiplications is done by the calling thread.
const PARALLEL: usize = 1 << 17;

/// Multiplications that are worth a task.
const TASK: usize = 1 << 16;

/// The longest part of the sum that is taken at once: a panel of it stays in the L2 cache.
const DEEP: usize = 512;

/// `B` beyond this many numbers is not packed as a whole.
const LARGEST: usize = 1 << 25;

/// Products of fewer rows share panels over threads instead of rows.
const FEW_ROWS: usize = 48;

/// So do those whose panels are packed, up to this many numbers of `A`: every panel reads them all, out of the last cache. A
/// packed panel then never leaves the L2 cache of the core that packed it. On two cores, 256 x 1024 x 1024 goes from 204 to
/// 209 GFLOP/s where memory is fast and from 153 to 203 where it is slow, 100 x 300 x 1000 from 100 to 200.
const NEAR: usize = 1 << 20;

/// A `B` of fewer numbers is near every core anyway, and threads that share panels write to the same lines where two of
/// them meet within one, in each of so many rows: 1000 x 64 x 113 with a bias takes 0.082 instead of 0.139 ms.
const FAR: usize = 1 << 16;
const MEETINGS: usize = 256;

/// Rows of a panel that a task packs where panels are few: whole blocks of every width of vectors.
const PACK_DEEP: usize = 64;

/// Columns behind the last whole vector that may be sums by themselves, and how long each makes the least sum that is worth
/// it: 129 x 500 x 33 would multiply a third vector of which one number counts.
const MOST_REST: usize = 4;
const REST_DEEP: usize = 64;

/// `B` of more numbers is packed on chips whose cores multiply faster than they fetch ([`Blocked::eager`]): less than the first
/// cache holds is read in place all the same.
const SMALL: usize = 1 << 13;

/// A product that can be done here.
pub(super) struct Blocked<T = f32> {
    d: Dims,
    a: *const T,
    a_steps: (usize, usize),
    b: *const T,
    b_steps: (usize, usize),
    c: *mut T,
    c_row: usize,
    isa: Isa,
    /// Numbers in a vector, a power of two, and vectors of a row of all panels.
    lanes: usize,
    vectors: usize,
    /// Vectors of a panel, at most.
    wide: usize,
    /// Columns behind the last whole vector that are not worth one: sums along the rows of `A`, each by itself.
    rest: usize,
}

// SAFETY: pointers to operands that are only read, and to an output of which tasks write disjoint
// parts.
unsafe impl<T> Sync for Blocked<T> {}

impl<T: Tiled> Blocked<T> {
    /// `None` where crate `gemm` knows better: no wide vectors here, steps backwards, an output
    /// without contiguous rows.
    pub(super) fn new(d: Dims, a: Strided<'_, T>, b: Strided<'_, T>, c: *mut T, lc: Layout) -> Option<Blocked<T>> {
        Blocked::on(Isa::detect(), d, a, b, c, lc)
    }

    /// The same on these vectors.
    fn on(isa: Isa, d: Dims, a: Strided<'_, T>, b: Strided<'_, T>, c: *mut T, lc: Layout) -> Option<Blocked<T>> {
        if lc.cs != 1 && lc.rs == 1 && d.n > 1 {
            let turned = Dims::new(d.n, d.m, d.k);
            return Blocked::on(isa, turned, b.turned(), a.turned(), c, lc.transposed());
        }
        let steps = |s: &Strided<'_, T>| Some((usize::try_from(s.rs).ok()?, usize::try_from(s.cs).ok()?));
        let fits = isa != Isa::Base && (lc.cs == 1 || d.n == 1) && (lc.rs >= d.n as isize || d.m == 1);
        if !fits || d.k == 0 || d.m == 0 || d.n == 0 || d.k.checked_mul(d.n)? > LARGEST {
            return None;
        }
        let (a_steps, b_steps) = (steps(&a)?, steps(&b)?);
        let (a, b) = (a.data.as_ptr().wrapping_add(a.offset), b.data.as_ptr().wrapping_add(b.offset));
        let (lanes, c_row) = (T::lanes(isa), lc.rs.unsigned_abs());
        let rest = d.n % lanes;
        let pays = a_steps.1 == 1 && d.n > lanes && lanes >= 16 && rest <= MOST_REST && rest * REST_DEEP <= d.k;
        let rest = if pays { rest } else { 0 };
        let vectors = (d.n - rest).div_ceil(lanes);
        Some(Blocked { d, a, a_steps, b, b_steps, c, c_row, isa, lanes, vectors, wide: 3, rest })
    }

    /// The columns that panels have.
    fn main(&self) -> usize {
        self.d.n - self.rest
    }

    /// The columns beyond panels, one behind the other.
    fn rest(&self) -> Of<T> {
        let (k, (rs, cs)) = (self.d.k, self.b_steps);
        let mut columns = scratch::of::<T>(self.rest * k);
        for (j, p) in (0..self.rest).flat_map(|j| (0..k).map(move |p| (j, p))) {
            // SAFETY: inside the operand.
            columns[j * k + p] = unsafe { *self.b.add(p * rs + (self.main() + j) * cs) };
        }
        columns
    }

    /// Some rows of the columns beyond panels.
    ///
    /// # Safety
    ///
    /// They are this task's alone, and `b` holds [`Blocked::rest`].
    unsafe fn columns_beyond(&self, rows: Range<usize>, b: *const T) {
        if self.rest == 0 {
            return;
        }
        let s = Columns {
            rows: rows.len(),
            k: self.d.k,
            count: self.rest,
            a: self.a.wrapping_add(rows.start * self.a_steps.0),
            a_row: self.a_steps.0,
            b,
            c: self.c.wrapping_add(rows.start * self.c_row + self.main()),
            c_row: self.c_row,
        };
        // SAFETY: the caller's promise.
        unsafe { tile::columns(self.isa, &s) }
    }

    /// So many columns, to whole vectors. (A division here took as long as some panels do.)
    fn whole(&self, columns: usize) -> usize {
        (columns + self.lanes - 1) & !(self.lanes - 1)
    }

    /// The first vector of a panel: panels have three vectors, but the last are two and two rather
    /// than three and one.
    fn panel_start(&self, p: usize) -> usize {
        let Blocked { vectors, wide, .. } = *self;
        let evened = wide == 3 && vectors % 3 == 1 && vectors > 1;
        let threes = if evened { vectors / 3 - 1 } else { vectors };
        if p <= threes { (wide * p).min(vectors) } else { (3 * threes + 2 * (p - threes)).min(vectors) }
    }

    fn panels(&self) -> usize {
        self.vectors.div_ceil(self.wide)
    }

    /// The columns of panels `p..q`.
    fn columns(&self, p: usize, q: usize) -> Range<usize> {
        self.panel_start(p) * self.lanes..(self.panel_start(q) * self.lanes).min(self.main())
    }

    /// Whether cores multiply two vectors at once, as those of Intel's servers do, and so stand still sooner for what is not there: rows of
    /// `B` that are read in place cost a third to a half of an Ice Lake's speed (512 x 512 x 512: 90 of 146 GFLOP/s a core), and
    /// columns of `A` as much. Elsewhere copies cost more than they bring.
    fn eager(&self) -> bool {
        self.isa.lanes() == 16 && chip().intel
    }

    /// Whether panels are packed. Reading them in place is faster (230 of 232 GFLOP/s on two cores)
    /// unless rows lie a multiple of 4 KiB apart, and so fall on few sets of the caches.
    fn packs(&self) -> bool {
        let Dims { m, n, k } = self.d;
        let far = self.b_steps.0.is_multiple_of(1024) && k > 128 || k * n > if self.eager() { SMALL } else { 1 << 20 };
        self.b_steps.1 != 1 || (m > 32 && far)
    }

    /// The parts of the sum.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let k = self.d.k;
        let deep = k.div_ceil(k.div_ceil(DEEP));
        (0..k).step_by(deep).map(move |from| from..k.min(from + deep))
    }

    /// Packs a panel's part of the sum.
    ///
    /// # Safety
    ///
    /// There is room at `to`.
    unsafe fn pack(&self, p: usize, part: &Range<usize>, to: *mut T) {
        let columns = self.columns(p, p + 1);
        let b = self.b.wrapping_add(part.start * self.b_steps.0 + columns.start * self.b_steps.1);
        let panel = Panel { depth: part.len(), columns: columns.len(), b, steps: self.b_steps };
        // SAFETY: the panel is inside the operand; the rest is the caller's promise.
        unsafe { T::pack(self.isa, &panel, to, self.whole(columns.len())) }
    }

    /// Some rows of a panel's columns, a part of the sum. `b` is where it was packed.
    ///
    /// # Safety
    ///
    /// The rows and columns are this task's alone, and the packed panel is there.
    unsafe fn multiply(&self, rows: Range<usize>, p: usize, part: &Range<usize>, packed: Option<*const T>) {
        let columns = self.columns(p, p + 1);
        let row = self.whole(columns.len());
        let here = self.b.wrapping_add(part.start * self.b_steps.0 + columns.start);
        let (b, b_row) = packed.map_or((here, self.b_steps.0), |b| (b, row));
        let s = Strip {
            rows: rows.len(),
            columns: columns.len(),
            depth: part.len(),
            a: self.a.wrapping_add(rows.start * self.a_steps.0 + part.start * self.a_steps.1),
            a_steps: self.a_steps,
            b,
            b_row,
            c: self.c.wrapping_add(rows.start * self.c_row + columns.start),
            c_row: self.c_row,
            add: part.start > 0,
        };
        // SAFETY: the caller's promise.
        unsafe { tile::strip(self.isa, &s) }
    }

    /// Whether a panel can be read in place: whole vectors.
    fn is_whole(&self, p: usize) -> bool {
        self.columns(p, p + 1).len() & (self.lanes - 1) == 0
    }

    /// Runs the product; `then` gets finished blocks.
    ///
    /// # Safety
    ///
    /// The operands are inside their memory, and the output is the caller's own.
    pub(super) unsafe fn run(mut self, parallel: bool, then: Option<Finished<'_>>) {
        let parallel = parallel && self.d.work() >= PARALLEL;
        let copy = self.copy(parallel);
        if let Some((copy, steps)) = &copy {
            (self.a, self.a_steps) = (copy.as_ptr(), *steps);
        }
        let few = if self.packs() { 2 * FEW_ROWS } else { FEW_ROWS };
        let meet = self.d.m >= MEETINGS && self.d.k * self.d.n < FAR && !self.d.n.is_multiple_of(self.lanes);
        let near = self.packs() && self.d.m * self.d.k <= NEAR && self.panels() >= rayon::current_num_threads();
        let by_panels = (self.d.m < few || near && !meet) && self.d.n > self.lanes;
        if by_panels && self.panels() < 8 && self.panels() % 2 == 1 {
            // Two threads are to have equal parts.
            self.wide = 2;
        }
        // SAFETY: passed on.
        unsafe { if by_panels { self.by_panels(parallel, then) } else { self.by_rows(parallel, then) } }
    }

    /// Tasks take panels, and pack their own.
    ///
    /// # Safety
    ///
    /// As [`Blocked::run`].
    unsafe fn by_panels(&self, parallel: bool, then: Option<Finished<'_>>) {
        let (panels, packs) = (self.panels(), self.packs());
        // Panels of few numbers share a task.
        let each = self.d.m * self.d.k * self.wide * self.lanes;
        let together = panels.div_ceil(64).max(TASK / each).min(panels.div_ceil(2).max(1));
        let tasks = panels.div_ceil(together);
        // What is left of the columns is a task, the first: it is the shortest.
        let beyond = usize::from(self.rest > 0);
        for_tasks(tasks + beyond, parallel, |t| {
            if t < beyond {
                // SAFETY: no other task has these columns.
                unsafe { self.columns_beyond(0..self.d.m, self.rest().as_ptr()) };
                if let Some(then) = then {
                    then(0..self.d.m, self.main()..self.d.n);
                }
                return;
            }
            let t = t - beyond;
            let mine = t * together..panels.min((t + 1) * together);
            let copied = packs || !mine.clone().all(|p| self.is_whole(p));
            let mut buffer = copied.then(|| scratch::of::<T>(DEEP.min(self.d.k) * 3 * self.lanes));
            let buffer = buffer.as_mut().map_or(std::ptr::null_mut(), |b| b.as_mut_ptr());
            for part in self.parts() {
                for p in mine.clone() {
                    // SAFETY: tasks have different panels; a part's panel fits the buffer.
                    unsafe {
                        let mut packed = None;
                        if packs || !self.is_whole(p) {
                            self.pack(p, &part, buffer);
                            packed = Some(buffer.cast_const());
                        }
                        self.multiply(0..self.d.m, p, &part, packed);
                    }
                }
            }
            if let Some(then) = then {
                then(0..self.d.m, self.columns(mine.start, mine.end));
            }
        });
    }

    /// Tasks take blocks of rows; panels are packed before that, all of them.
    ///
    /// # Safety
    ///
    /// As [`Blocked::run`].
    unsafe fn by_rows(&self, parallel: bool, then: Option<Finished<'_>>) {
        let Dims { m, n, k } = self.d;
        let panels = self.panels();
        // In place, only the last panel may need whole vectors.
        let first = if self.packs() { 0 } else { panels - usize::from(!self.is_whole(panels - 1)) };
        let skipped = self.panel_start(first) * self.lanes;
        let width = self.panel_start(panels) * self.lanes - skipped;
        let mut buffer = scratch::of::<T>(width * k);
        let shared = Shared::new(&mut buffer[..]);
        // Parts of the sum one after the other, in each the panels.
        let place = |p: usize, part: &Range<usize>| {
            part.start * width + (self.panel_start(p) * self.lanes - skipped) * part.len()
        };
        let count = panels - first;
        // Few panels are cut along the sum, so that threads share them evenly.
        let deep = if count < 16 { PACK_DEEP } else { k };
        let slices = k.div_ceil(deep);
        let together = (1usize << 12).div_ceil(48 * deep).max((count * slices).div_ceil(32));
        for_tasks((count * slices).div_ceil(together), parallel && count * k * 48 >= 1 << 14, |t| {
            for u in t * together..(count * slices).min((t + 1) * together) {
                let (p, from) = (first + u / slices, u % slices * deep);
                for part in self.parts() {
                    let some = part.start.max(from)..part.end.min(from + deep);
                    if some.is_empty() {
                        continue;
                    }
                    let row = self.whole(self.columns(p, p + 1).len());
                    let to = place(p, &part) + (some.start - part.start) * row;
                    // SAFETY: panels have places of their own, and so have their rows.
                    unsafe { self.pack(p, &some, shared.ptr().add(to)) };
                }
            }
        });
        // Blocks that threads can share evenly. Each reads all of `B`: beyond the L2 cache it needs
        // more rows to make that worth while.
        let least = if k * n > 1 << 17 { 48 } else { 16 };
        let blocks = [16, 8, 4, 2].into_iter().find(|&b| m / b >= least).unwrap_or(1);
        let rows = m.div_ceil(blocks).min(128);
        // Threads beyond those get some of the columns each, unless whole rows are handed on.
        let groups = if then.is_some() { 1 } else { 16usize.div_ceil(m.div_ceil(rows)).min(panels.div_ceil(4)) };
        // Where there is one block of rows, an even number of parts is shared evenly by two.
        let groups = if m <= rows && groups > 1 { groups.next_multiple_of(2).min(panels) } else { groups };
        let across = panels.div_ceil(groups);
        let groups = panels.div_ceil(across);
        let beyond = self.rest();
        let beyond = Shared::wrap(beyond.as_ptr().cast_mut());
        for_tasks(m.div_ceil(rows) * groups, parallel, |t| {
            let (down, group) = (t / groups * rows, t % groups * across);
            let mine = down..m.min(down + rows);
            if group == 0 {
                // SAFETY: tasks have different rows, or other columns.
                unsafe { self.columns_beyond(mine.clone(), beyond.ptr()) };
            }
            for part in self.parts() {
                for p in group..panels.min(group + across) {
                    // SAFETY: tasks have different rows or columns; packing has come to its end.
                    unsafe {
                        let packed = (p >= first).then(|| shared.ptr().add(place(p, &part)).cast_const());
                        self.multiply(mine.clone(), p, &part, packed);
                    }
                }
            }
            if let Some(then) = then {
                then(mine, 0..n);
            }
        });
    }
}

mod copies;
#[cfg(test)]
mod tests;
