//! Running a [`Program`]: one task takes a range of units (blocks of map points, or rows) and interprets the passes
//! block by block.

use super::{
    fold::fold,
    program::{BLOCK, Pass, Program, Style, width},
    reduce::pairwise,
    runs::{At, Block},
    transfer,
};
use crate::{
    Result, Scalar,
    kernel::{InstKind, Val, oracle::Cell},
    op::block::Isa,
};
use rayon::prelude::*;
use std::cell::RefCell;

/// Below this much work a kernel stays on the calling thread.
const PARALLEL_WORK: usize = 64 * 1024;

/// The buffers of a launch, as addresses with the launch's offsets applied.
#[derive(Clone, Copy)]
pub struct Bases<'a>(pub &'a [*mut u8]);

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
    let unit = match p.style {
        Style::Columns => block_of(p),
        Style::Rows => 1,
    };
    let units = p.rows.div_ceil(unit);
    let threads = rayon::current_num_threads();
    let parallel = threads > 1 && p.work >= PARALLEL_WORK;
    let chunks = p.cols.div_ceil(p.kernel.order.chunk).max(1);
    if parallel && units < 2 * threads && chunks > 1 {
        // Few outputs, long reductions: the chunks of one are shared out.
        // SAFETY: the caller's promise.
        return (0..units).try_for_each(|u| unsafe { split_unit(p, bases, params, u, unit, chunks) });
    }
    let some = |from: usize, to: usize| {
        with_task(p, bases, params, |t| {
            // SAFETY: the caller's promise.
            (from..to).try_for_each(|u| unsafe { t.unit(u * unit, unit.min(p.rows - u * unit)) })
        })
    };
    if !parallel || units == 1 {
        return some(0, units);
    }
    let pieces = units.min(threads * 4);
    (0..pieces).into_par_iter().try_for_each(|i| some(i * units / pieces, (i + 1) * units / pieces))
}

/// Map points a block takes: fewer when each keeps many accumulators.
fn block_of(p: &Program) -> usize {
    let lanes = p.kernel.order.lanes.min(p.cols.max(1));
    (BLOCK / lanes).max(64)
}

/// One unit with its chunks on all threads, a pass at a time.
///
/// # Safety
/// As [`run`].
unsafe fn split_unit(
    p: &Program,
    bases: Bases<'_>,
    params: &[Scalar],
    u: usize,
    unit: usize,
    chunks: usize,
) -> Result<()> {
    let (m0, n) = (u * unit, unit.min(p.rows - u * unit));
    let mut reduced: Vec<(Val, Vec<Cell>)> = vec![];
    for (s, pass) in p.passes.iter().enumerate() {
        let one = |c: usize| {
            with_task(p, bases, params, |t| {
                t.start(m0);
                t.restore(&reduced, n);
                // SAFETY: the caller's promise. Rows longer than a chunk are never cached, so this pass computes all
                // elements it needs.
                unsafe {
                    for past in &p.passes[..=s] {
                        t.row_values(past, n, c == 0 && std::ptr::eq(past, pass))?;
                    }
                    t.whole_chunk(s, n, c)
                }
            })
        };
        let parts: Vec<Vec<Cell>> = (0..chunks).into_par_iter().map(one).collect::<Result<_>>()?;
        let w = if p.style == Style::Columns { n } else { 1 };
        for (k, &v) in pass.reduces.iter().enumerate() {
            let columns: Vec<Vec<Cell>> = parts.iter().map(|c| c[k * w..(k + 1) * w].to_vec()).collect();
            reduced.push((v, pairwise(p, v, columns)));
        }
    }
    Ok(())
}

#[derive(Default)]
pub(super) struct Memory {
    pub(super) scratch: Vec<[u64; 8]>, // 64-byte steps keep registers aligned
    pub(super) ptr: Vec<usize>,
    pub(super) acc: Vec<u64>,
}

thread_local! {
    static MEMORY: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
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
    pub(super) m: Memory,
}

fn with_task<R>(
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
    let (map, reduce) = (At::new(&p.kernel.map), At::new(&p.kernel.reduce));
    let mut task = Task { p, bases, params, isa: Isa::detect(), map, reduce, m };
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
            // SAFETY: one register each, then spread over the block.
            unsafe {
                self.inst(v, Block::Point, 1, 0)?;
                transfer::spread(p.kernel.insts[v].dtype, self.m.ptr[v] as *mut u8, BLOCK);
            }
        }
        Ok(())
    }

    /// Moves to map point `m0`.
    fn start(&mut self, m0: usize) {
        self.map.set(&self.p.kernel.map, m0);
        self.reduce.set(&self.p.kernel.reduce, 0);
    }

    /// All passes of map points `m0 .. m0 + n`.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn unit(&mut self, m0: usize, n: usize) -> Result<()> {
        let p = self.p;
        let chunks = p.cols.div_ceil(p.kernel.order.chunk);
        self.start(m0);
        for (s, pass) in p.passes.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.row_values(pass, n, true)? };
            if pass.elems.is_empty() && pass.reduces.is_empty() {
                continue;
            }
            if chunks <= 1 {
                // SAFETY: the caller's promise.
                unsafe { self.chunk(pass, n, 0)? };
                for (k, &v) in pass.reduces.iter().enumerate() {
                    self.finish(k, v, n);
                }
                continue;
            }
            let w = if p.style == Style::Columns { n } else { 1 };
            let mut parts: Vec<Vec<Vec<Cell>>> = vec![vec![]; pass.reduces.len()];
            for c in 0..chunks {
                // SAFETY: the caller's promise.
                let cells = unsafe { self.whole_chunk(s, n, c)? };
                for (k, part) in parts.iter_mut().enumerate() {
                    part.push(cells[k * w..(k + 1) * w].to_vec());
                }
            }
            for (&v, part) in pass.reduces.iter().zip(parts) {
                let cells = pairwise(p, v, part);
                self.restore(&[(v, cells)], n);
            }
        }
        Ok(())
    }

    /// Row values and row stores that a pass begins with.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn row_values(&mut self, pass: &Pass, n: usize, stores: bool) -> Result<()> {
        let p = self.p;
        if pass.rows.is_empty() {
            return Ok(());
        }
        self.reduce.set(&p.kernel.reduce, 0);
        for &v in &pass.rows {
            if !stores && matches!(p.kernel.insts[v].kind, InstKind::Store { .. }) {
                continue;
            }
            // SAFETY: the caller's promise.
            unsafe {
                match p.style {
                    Style::Columns => self.inst(v, Block::Map, n, 0)?,
                    Style::Rows => {
                        self.inst(v, Block::Point, 1, 0)?;
                        if p.spread[v] {
                            transfer::spread(p.kernel.insts[v].dtype, self.m.ptr[v] as *mut u8, BLOCK);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Elements of chunk `c` of a pass: stores done, reductions left in the accumulators.
    ///
    /// # Safety
    /// As [`run`].
    pub(super) unsafe fn chunk(&mut self, pass: &Pass, n: usize, c: usize) -> Result<()> {
        let p = self.p;
        let (lanes, chunk) = (p.kernel.order.lanes, p.kernel.order.chunk);
        let (from, to) = (c * chunk, ((c + 1) * chunk).min(p.cols));
        let per = self.acc_len(n);
        self.clear_accumulators(pass, n, per);
        let mut j = from;
        while j < to {
            let (block, len, lane) = match p.style {
                Style::Columns => (Block::Map, 1, (j - from) % lanes),
                Style::Rows => (Block::Reduce, BLOCK.min(to - j), 0),
            };
            if p.cols > 1 {
                self.reduce.set(&p.kernel.reduce, j);
            }
            let mut k = 0;
            for &v in &pass.elems {
                let InstKind::Reduce(op, x) = p.kernel.insts[v].kind else {
                    let count = if p.style == Style::Columns { n } else { len };
                    // SAFETY: the caller's promise; blocks stay inside the map and reduce spaces.
                    unsafe { self.inst(v, block, count, j)? };
                    continue;
                };
                let dtype = p.kernel.insts[v].dtype;
                let f = fold(op, dtype, self.isa);
                let x = self.operand(x, j);
                let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
                // SAFETY: accumulators and operands hold as many registers as the loops touch.
                unsafe {
                    match p.style {
                        Style::Columns => (f.across)(acc.add(lane * n * width(dtype)), x, n),
                        Style::Rows => (f.along)(acc, lanes, x, len),
                    }
                }
                k += 1;
            }
            j += len;
        }
        Ok(())
    }
}
