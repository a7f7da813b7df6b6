//! Running a [`Program`]: one task takes a range of units (blocks of map points, or rows) and interprets the passes
//! block by block.

use super::{
    calls::Span,
    nest,
    program::{Pass, Program, Style},
    reduce::{Parts, combine},
    runs::{At, Block},
    split::split_unit,
    transfer,
};
use crate::{Result, Scalar, op::block::Isa};
use gradus_numerics::tasks::for_ranges;
use std::{cell::RefCell, sync::OnceLock};

/// Below this much work a kernel stays on the calling thread.
pub const PARALLEL_WORK: usize = 64 * 1024;

/// The buffers of a launch, as addresses with the launch's offsets applied.
#[derive(Clone, Copy)]
pub struct Bases<'a>(pub &'a [*mut u8]);

impl<'a> Bases<'a> {
    /// `n` of them from `first` on.
    pub fn part(self, first: usize, n: usize) -> Bases<'a> {
        Bases(&self.0[first..first + n])
    }
}

// SAFETY: tasks read shared buffers, and write disjoint elements: a store's address is injective over the map space
// (the planner writes whole buffers in order), and a task owns its map points.
unsafe impl Sync for Bases<'_> {}
// SAFETY: as above.
unsafe impl Send for Bases<'_> {}

/// Runs a program.
///
/// # Safety
/// Every address the program makes, with look-ups inside their checked sizes, lies in its buffer, and no written
/// buffer overlaps another of the launch.
pub unsafe fn run(p: &Program, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
    if p.rows == 0 {
        return Ok(());
    }
    if let Some(t) = &p.transposition {
        // SAFETY: the caller's promise.
        unsafe { t.run(bases) };
        return Ok(());
    }
    let units = p.units();
    let threads = rayon::current_num_threads();
    let parallel = threads > 1 && p.work >= PARALLEL_WORK;
    let chunks = p.cols.div_ceil(p.kernel.order.chunk).max(1);
    // A row that is hardly longer than a chunk would leave one thread a few elements.
    let several = if p.style == Style::Rows { p.cols >= 2 * p.kernel.order.chunk } else { chunks > 1 };
    let few = units < 2 * threads;
    if parallel && few && several && p.work / units >= PARALLEL_WORK / 2 {
        // Few outputs, long reductions: the chunks of one are shared out.
        // SAFETY: the caller's promise.
        return (0..units).try_for_each(|u| unsafe { split_unit(p, bases, params, u, chunks, None) });
    }
    // Threads that come for a part of little each leave again before the others have begun.
    if !parallel || units == 1 || (few && several && p.work < 2 * PARALLEL_WORK) {
        // SAFETY: the caller's promise.
        return unsafe { run_units(p, bases, params, 0, units) };
    }
    let (count, most) = p.shares.count(units);
    let pieces = count.min(threads * most);
    try_for_ranges(pieces, p.near, |i| {
        let ranges = p.shares.units(i * count / pieces, (i + 1) * count / pieces);
        // SAFETY: the caller's promise.
        unsafe { run_ranges(p, bases, params, ranges) }
    })
}

/// Tasks `0..count` on all threads, up to the first that fails on each.
pub fn try_for_tasks(count: usize, task: impl Fn(usize) -> Result<()> + Sync + Send) -> Result<()> {
    try_for_ranges(count, true, task)
}

/// The same for tasks that go through memory which caches may still hold of the last time (`near`), or not.
pub(super) fn try_for_ranges(count: usize, near: bool, task: impl Fn(usize) -> Result<()> + Sync + Send) -> Result<()> {
    let failed = OnceLock::new();
    for_ranges(count, near, |i| {
        if failed.get().is_none()
            && let Err(e) = task(i)
        {
            // A second failure says no more than the first.
            let _ = failed.set(e);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Runs some units of a program on this thread.
///
/// # Safety
/// As [`run`].
pub unsafe fn run_units(p: &Program, bases: Bases<'_>, params: &[Scalar], from: usize, to: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { run_ranges(p, bases, params, std::iter::once((from, to))) }
}

/// The same for several ranges of units.
///
/// # Safety
/// As [`run`].
unsafe fn run_ranges(
    p: &Program,
    bases: Bases<'_>,
    params: &[Scalar],
    mut ranges: impl Iterator<Item = (usize, usize)>,
) -> Result<()> {
    with_task(p, bases, params, |t| {
        // Functions take one number of what is the same for all: where they do everything, nothing is spread.
        let mut spread = p.functions.units.is_none();
        if spread {
            t.spread();
        }
        ranges.try_for_each(|(from, to)| {
            let mut u = from;
            while u < to {
                // SAFETY: the caller's promise.
                unsafe {
                    u += match t.whole_units(u, to) {
                        0 => {
                            if !std::mem::replace(&mut spread, true) {
                                t.spread();
                            }
                            t.unit(p.points_of(u)).map(|()| 1)?
                        }
                        done => done,
                    }
                }
            }
            Ok(())
        })
    })
}

#[derive(Default)]
pub(super) struct Memory {
    pub(super) scratch: Vec<[u64; 8]>, // 64-byte steps keep registers aligned
    /// Where each value's block is.
    pub(super) ptr: Vec<usize>,
    /// Where each cursor stands: at reduce point zero, and now.
    pub(super) row: Vec<usize>,
    pub(super) pos: Vec<usize>,
    /// Accumulators; the first stands at a multiple of 64 bytes.
    acc: Vec<u64>,
    pub(super) parts: Parts,
    /// What a register of equal lines was filled from, and how far.
    pub(super) filled: Vec<(usize, usize)>,
    /// Tables of the loops of a nest.
    pub(super) ready: Vec<nest::Ready>,
}

impl Memory {
    /// Room for so many words of accumulators.
    pub(super) fn accumulators(&mut self, words: usize) {
        // And for the way to the first line: vectors that cross lines cost twice.
        if self.acc.len() < words + 8 {
            self.acc.resize(words + 8, 0);
        }
    }

    /// The accumulators of reduction `k`, of `per` words each.
    #[inline]
    pub(super) fn accumulator(&mut self, k: usize, per: usize) -> *mut u8 {
        let first = self.acc.as_ptr().align_offset(64).min(8);
        self.acc[first + k * per..].as_mut_ptr().cast()
    }
}

thread_local! {
    // Boxed, for one is moved four times a task.
    #[allow(clippy::vec_box)]
    static MEMORY: RefCell<Vec<Box<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// One worker's state: where it is, and its registers.
pub(super) struct Task<'a> {
    pub(super) p: &'a Program,
    pub(super) bases: Bases<'a>,
    pub(super) params: &'a [Scalar],
    pub(super) isa: Isa,
    /// Where in the map and reduce spaces the current block begins.
    pub(super) map: At,
    pub(super) reduce: At,
    pub(super) m: Box<Memory>,
}

/// Gives a function a worker's state, with the first number of every uniform value in its register: see [`Task::spread`].
pub(super) fn with_task<R>(
    p: &Program,
    bases: Bases<'_>,
    params: &[Scalar],
    f: impl FnOnce(&mut Task<'_>) -> Result<R>,
) -> Result<R> {
    // The memory is taken out while in use: rayon may run another task on this thread in between.
    let mut m = MEMORY.with(|m| m.borrow_mut().pop()).unwrap_or_default();
    let need = p.scratch.div_ceil(64) + 2;
    if m.scratch.len() < need {
        m.scratch.resize(need, [0; 8]);
    }
    m.ptr.clear();
    let base = (m.scratch.as_ptr() as usize).next_multiple_of(64);
    m.ptr.extend(p.slot.iter().map(|&s| if s == usize::MAX { 0 } else { base + s }));
    m.filled.clear();
    m.filled.resize(p.slot.len(), (0, 0));
    m.row.resize(p.cursors.len(), 0);
    m.pos.resize(p.cursors.len(), 0);
    let (map, reduce) = (At::new(&p.kernel.map), At::new(&p.kernel.reduce));
    let mut task = Task { p, bases, params, isa: Isa::detect(), map, reduce, m };
    if let Some(nests) = &p.nests {
        task.prepare(nests);
    }
    // SAFETY: uniform values read parameters and uniform addresses only; see `run`.
    let out = unsafe { task.uniforms() }.and_then(|()| f(&mut task));
    let m = task.m;
    MEMORY.with(|all| all.borrow_mut().push(m));
    out
}

impl Task<'_> {
    /// # Safety
    /// As [`run`].
    unsafe fn uniforms(&mut self) -> Result<()> {
        let p = self.p;
        for &v in &p.uniforms {
            // SAFETY: one register each.
            unsafe { self.inst(v, Block::Point, 1, 0)? };
        }
        Ok(())
    }

    /// Spreads uniform values over the block, as calls and loops want them. That is no small thing: a block of bytes is long, and
    /// calls hold each of them in eight.
    pub(super) fn spread(&mut self) {
        let p = self.p;
        for &v in &p.uniforms {
            // SAFETY: one register each, whose first number is there and which has room for a block.
            unsafe { transfer::spread(p.kernel.insts[v].dtype, self.m.ptr[v] as *mut u8, p.width_of[v]) };
        }
    }

    /// Moves to map point `m0`, reduce point 0.
    pub(super) fn start(&mut self, m0: usize) {
        let p = self.p;
        self.map.set(&p.kernel.map, m0);
        self.reduce.set(&p.kernel.reduce, 0);
        for (c, row) in p.cursors.iter().zip(&mut self.m.row) {
            let at = c.offset + self.map.dot(&c.strides);
            *row = self.bases.0[c.arg].wrapping_offset(at * c.size) as usize;
        }
        self.m.pos.copy_from_slice(&self.m.row);
    }

    /// Moves to reduce point `r` of the current map point.
    #[inline]
    pub(super) fn seek(&mut self, r: usize) {
        let p = self.p;
        self.reduce.set(&p.kernel.reduce, r);
        let first = p.kernel.map.len();
        for ((c, pos), row) in p.cursors.iter().zip(&mut self.m.pos).zip(&self.m.row) {
            *pos = row.wrapping_add_signed(self.reduce.dot(&c.strides[first..]) * c.size);
        }
    }

    /// All passes of `n` map points from `m0` on.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn unit(&mut self, (m0, n): (usize, usize)) -> Result<()> {
        let p = self.p;
        let chunks = p.cols.div_ceil(p.kernel.order.chunk);
        self.start(m0);
        for (s, pass) in p.passes.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.row_values(pass, n, true)? };
            if pass.elems.is_empty() {
                continue;
            }
            if chunks <= 1 {
                // SAFETY: the caller's promise.
                unsafe { self.chunk(s, n, 0)? };
                for (k, &v) in pass.reduces.iter().enumerate() {
                    self.finish(k, v, n);
                }
                continue;
            }
            let mut parts = std::mem::take(&mut self.m.parts);
            parts.clear();
            // SAFETY: the caller's promise.
            unsafe { self.chunks(s, n, 0..chunks, &mut parts)? };
            combine(p, pass, n, &mut parts);
            self.restore(pass, n, &parts);
            self.m.parts = parts;
        }
        Ok(())
    }

    /// Row values and row stores that a pass begins with.
    ///
    /// # Safety
    /// As [`run`].
    pub(super) unsafe fn row_values(&mut self, pass: &Pass, n: usize, stores: bool) -> Result<()> {
        if pass.rows.is_empty() {
            return Ok(());
        }
        if self.p.nests.is_none() && !self.p.bare {
            self.seek(0); // nests and functions leave the cursors where they are
        }
        let block = match self.p.style {
            Style::Columns => Block::Map,
            Style::Rows => Block::Point,
        };
        let calls = if stores { &pass.row_calls } else { &pass.row_calls_only };
        // SAFETY: the caller's promise.
        unsafe { self.calls(calls, Span { block, n, from: 0, col: 0, lane: 0, fresh: true }, 0) }
    }

    /// Elements of chunk `c` of a pass: stores done, reductions left in the accumulators.
    ///
    /// # Safety
    /// As [`run`].
    pub(super) unsafe fn chunk(&mut self, s: usize, n: usize, c: usize) -> Result<()> {
        let p = self.p;
        let pass = &p.passes[s];
        let (lanes, chunk) = (p.kernel.order.lanes, p.kernel.order.chunk);
        let (from, to) = (c * chunk, ((c + 1) * chunk).min(p.cols));
        let per = self.acc_len(n);
        self.clear_accumulators(pass, n, per);
        // SAFETY: the caller's promise.
        let done = unsafe { self.whole_points(s, n, from, to, per) };
        let from = from + done;
        if let Some(nests) = &p.nests {
            // SAFETY: the caller's promise.
            unsafe { self.nest(&nests[s], n, from, to, per) };
            return Ok(());
        }
        let mut j = from;
        while j < to {
            if p.cols > 1 {
                self.seek(j);
            }
            match p.style {
                Style::Columns => {
                    let span = Span { block: Block::Map, n, from: 0, col: j, lane: (j - from) % lanes, fresh: true };
                    // SAFETY: the caller's promise; blocks stay inside the map and reduce spaces.
                    unsafe { self.calls(&pass.calls, span, per)? };
                    j += 1;
                }
                Style::Rows => {
                    let left = p.inner - j % p.inner;
                    let left = if p.reseek { left.min(p.block) } else { left };
                    let (start, end) = (j, to.min(j + left));
                    while j < end {
                        // A loop keeps accumulators in registers, lane zero first: call by call up to there.
                        let lane = (j - from) % lanes;
                        let (list, most) = if lane == 0 { (&pass.calls, p.block) } else { (&pass.plain, lanes - lane) };
                        let span = Span {
                            block: Block::Reduce,
                            n: most.min(end - j),
                            from: j - start,
                            col: j,
                            lane,
                            fresh: j == start,
                        };
                        // SAFETY: as above.
                        unsafe { self.calls(list, span, per)? };
                        j += span.n;
                        if p.reseek {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
