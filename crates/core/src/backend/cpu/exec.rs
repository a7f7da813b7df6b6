//! Running a [`Program`]: one task takes a range of units (blocks of map points, or rows) and interprets the passes
//! block by block.

use super::{
    fold::fold,
    program::{BLOCK, Pass, Program, Style, width},
    runs::{At, Block, runs},
    transfer::{self, Run},
};
use crate::{
    DType, Result, Scalar,
    kernel::{
        Access, InstKind, Level, Source, Val,
        oracle::{Cell, division_by_zero},
    },
    op::{block::Isa, ewise},
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

/// Chunks combined, neighbours first.
fn pairwise(p: &Program, v: Val, mut parts: Vec<Vec<Cell>>) -> Vec<Cell> {
    let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { return vec![] };
    let dtype = p.kernel.insts[v].dtype;
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len().div_ceil(2));
        let mut it = parts.into_iter();
        while let Some(mut a) = it.next() {
            if let Some(b) = it.next() {
                for (a, b) in a.iter_mut().zip(b) {
                    *a = crate::kernel::oracle::combine(op, *a, b, dtype);
                }
            }
            next.push(a);
        }
        parts = next;
    }
    parts.pop().unwrap_or_default()
}

#[derive(Default)]
struct Memory {
    scratch: Vec<[u64; 8]>, // 64-byte steps keep registers aligned
    ptr: Vec<usize>,
    acc: Vec<u64>,
}

thread_local! {
    static MEMORY: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

struct Task<'a> {
    p: &'a Program,
    bases: Bases<'a>,
    params: &'a [Scalar],
    isa: Isa,
    /// Where in the map and reduce spaces the current block begins.
    map: At,
    reduce: At,
    m: Memory,
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

    /// One chunk of a pass, its reductions finished into cells (one a reduction and map point).
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn whole_chunk(&mut self, s: usize, n: usize, c: usize) -> Result<Vec<Cell>> {
        let pass = &self.p.passes[s];
        // SAFETY: the caller's promise.
        unsafe { self.chunk(pass, n, c)? };
        let w = if self.p.style == Style::Columns { n } else { 1 };
        let mut out = Vec::with_capacity(pass.reduces.len() * w);
        for (k, &v) in pass.reduces.iter().enumerate() {
            self.finish(k, v, n);
            let size = width(self.p.kernel.insts[v].dtype);
            for i in 0..w {
                let mut cell = Cell::default();
                let from = (self.m.ptr[v] as *const u8).wrapping_add(i * size);
                // SAFETY: `finish` left w registers there.
                unsafe { std::ptr::copy_nonoverlapping(from, (&raw mut cell).cast(), size) };
                out.push(cell);
            }
        }
        Ok(out)
    }

    /// Puts finished reductions back into their registers.
    fn restore(&mut self, reduced: &[(Val, Vec<Cell>)], n: usize) {
        for (v, cells) in reduced {
            let dtype = self.p.kernel.insts[*v].dtype;
            let (size, reg) = (width(dtype), self.m.ptr[*v] as *mut u8);
            for (i, cell) in cells.iter().take(n).enumerate() {
                // SAFETY: registers hold BLOCK values, and n is at most that.
                unsafe { std::ptr::copy_nonoverlapping((&raw const *cell).cast(), reg.add(i * size), size) };
            }
            if self.p.style == Style::Rows && self.p.spread[*v] {
                // SAFETY: as above.
                unsafe { transfer::spread(dtype, reg, BLOCK) };
            }
        }
    }

    /// Elements of chunk `c` of a pass: stores done, reductions left in the accumulators.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn chunk(&mut self, pass: &Pass, n: usize, c: usize) -> Result<()> {
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

    /// Sets the accumulators of a pass to the identities of its reductions.
    fn clear_accumulators(&mut self, pass: &Pass, n: usize, per: usize) {
        let p = self.p;
        if pass.reduces.is_empty() {
            return;
        }
        self.m.acc.clear();
        self.m.acc.resize(per * pass.reduces.len(), 0);
        for (k, &v) in pass.reduces.iter().enumerate() {
            let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { continue };
            let dtype = p.kernel.insts[v].dtype;
            let start = Cell::of(op.identity(dtype), dtype);
            let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
            let count = match p.style {
                Style::Columns => p.kernel.order.lanes.min(p.cols.max(1)) * n,
                Style::Rows => p.kernel.order.lanes,
            };
            // SAFETY: `acc_len` made room for `count` registers of up to 8 bytes.
            unsafe {
                std::ptr::copy_nonoverlapping((&raw const start).cast::<u8>(), acc, width(dtype));
                transfer::spread(dtype, acc, count);
            }
        }
    }

    /// u64 words one reduction's accumulators take.
    fn acc_len(&self, n: usize) -> usize {
        let lanes = self.p.kernel.order.lanes;
        match self.p.style {
            Style::Columns => lanes.min(self.p.cols.max(1)) * n,
            Style::Rows => lanes,
        }
    }

    /// Combines the lanes of reduction `k` of a pass pairwise into the register of value `v`.
    fn finish(&mut self, k: usize, v: Val, n: usize) {
        let p = self.p;
        let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { return };
        let dtype = p.kernel.insts[v].dtype;
        let size = width(dtype);
        let per = self.acc_len(n);
        let across = fold(op, dtype, self.isa).across;
        let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
        let reg = self.m.ptr[v] as *mut u8;
        let w = if p.style == Style::Columns { n } else { 1 };
        // Lanes beyond the row's length would hold the identity; in columns style they do not exist, and leaving them
        // out changes nothing: every accumulator began with the identity already.
        let lanes = p.kernel.order.lanes;
        let have = if p.style == Style::Columns { lanes.min(p.cols.max(1)) } else { lanes };
        let mut live = lanes;
        // SAFETY: lane l occupies w registers at l * w; halves never overlap.
        unsafe {
            while live > 1 {
                let half = live / 2;
                for l in half..live.min(have) {
                    across(acc.add((l - half) * w * size), acc.add(l * w * size), w);
                }
                live = half;
            }
            std::ptr::copy_nonoverlapping(acc, reg, w * size);
            if dtype.is_int() {
                transfer::wrap(dtype, reg, w);
            }
            if p.style == Style::Rows && p.spread[v] {
                transfer::spread(dtype, reg, BLOCK);
            }
        }
    }

    /// The register block of a value; cached rows are addressed by the block's place in the row.
    #[inline]
    fn operand(&self, v: Val, col: usize) -> *const u8 {
        let reg = self.m.ptr[v] as *const u8;
        if self.p.cached[v] { reg.wrapping_add(col * width(self.p.kernel.insts[v].dtype)) } else { reg }
    }

    /// One instruction over a block of `n`; `col` is the block's place in its row (for cached rows).
    ///
    /// # Safety
    /// As [`run`]; the block lies inside its space.
    unsafe fn inst(&mut self, v: Val, block: Block, n: usize, col: usize) -> Result<()> {
        let p = self.p;
        let k = &p.kernel;
        let inst = &k.insts[v];
        // SAFETY: registers hold a block of values; operands were computed by this task; addresses are inside their
        // buffers by the caller's promise.
        unsafe {
            match &inst.kind {
                InstKind::Const(x) => self.set(self.m.ptr[v] as *mut u8, *x, inst.dtype),
                InstKind::Param(i) => self.set(self.m.ptr[v] as *mut u8, self.params[*i], inst.dtype),
                InstKind::Load { source, access } => {
                    let reg = self.register(v);
                    let at = self.load(*source, access, inst.dtype, block, n, col, reg)?;
                    self.m.ptr[v] = at as usize;
                }
                InstKind::Ewise(row, vals) => {
                    let dst = self.destination(v, block, n, col);
                    let over = if row.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { inst.dtype };
                    let mut src = [std::ptr::null::<u8>(); 3];
                    for (s, &o) in src.iter_mut().zip(vals) {
                        *s = self.operand(o, col);
                    }
                    if over.is_int()
                        && row.divides()
                        && std::slice::from_raw_parts(src[1].cast::<i64>(), n).contains(&0)
                    {
                        return Err(division_by_zero(row.name));
                    }
                    let f = row.block(over).ok_or_else(|| crate::Tensor::bug("a kernel that was not verified"))?;
                    f.get(self.isa)(dst, src, n);
                    if inst.dtype.is_int() && inst.dtype != DType::I64 {
                        transfer::wrap(inst.dtype, dst, n);
                    }
                }
                InstKind::Cast(x) => {
                    let dst = self.destination(v, block, n, col);
                    transfer::cast(k.insts[*x].dtype, inst.dtype, self.operand(*x, col), dst, n);
                }
                InstKind::Reduce(..) => {}
                InstKind::Store { arg, access, value } => {
                    let (dtype, base) = (k.args[*arg].dtype, self.bases.0[*arg]);
                    let src = self.operand(*value, col);
                    let size = width(dtype);
                    runs(access, k, &self.map, &self.reduce, block, n, |run, i| {
                        // What was computed straight into its place is there already.
                        let at = base.wrapping_offset(run.start * dtype.size() as isize);
                        if !(run.step == 1 && std::ptr::eq(at, src.wrapping_add(i * size))) {
                            transfer::store(dtype, base, run, src.add(i * size));
                        }
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The value's own register.
    fn register(&self, v: Val) -> *mut u8 {
        ((self.m.scratch.as_ptr() as usize).next_multiple_of(64) + self.p.slot[v]) as *mut u8
    }

    /// Where an instruction writes: its register, or straight into the buffer that a store would copy it to.
    fn destination(&mut self, v: Val, block: Block, n: usize, col: usize) -> *mut u8 {
        let p = self.p;
        let dtype = p.kernel.insts[v].dtype;
        if p.cached[v] {
            return self.register(v).wrapping_add(col * width(dtype));
        }
        if let Some(s) = p.direct[v]
            && let InstKind::Store { arg, access, .. } = &p.kernel.insts[s].kind
        {
            let mut place = None;
            let found = runs(access, &p.kernel, &self.map, &self.reduce, block, n, |run, _| {
                let plain = run.step == 1 && run.len == n;
                place = plain.then(|| self.bases.0[*arg].wrapping_offset(run.start * dtype.size() as isize));
                Ok(())
            });
            if let (Ok(()), Some(at)) = (found, place) {
                self.m.ptr[v] = at as usize;
                return at;
            }
        }
        let reg = self.register(v);
        self.m.ptr[v] = reg as usize;
        reg
    }

    /// # Safety
    /// The register has room for one value.
    unsafe fn set(&self, reg: *mut u8, x: Scalar, dtype: DType) {
        let cell = Cell::of(x, dtype);
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping((&raw const cell).cast::<u8>(), reg, width(dtype)) };
    }

    /// Loads a block and says where it is: in the register, or, where memory has the right form, in the buffer itself.
    ///
    /// # Safety
    /// As [`run`]; the register has room for the block.
    #[allow(clippy::too_many_arguments)]
    unsafe fn load(
        &self,
        source: Source,
        access: &Access,
        dtype: DType,
        block: Block,
        n: usize,
        col: usize,
        reg: *mut u8,
    ) -> Result<*mut u8> {
        let k = &self.p.kernel;
        let size = width(dtype);
        let mut direct: *mut u8 = std::ptr::null_mut();
        runs(access, k, &self.map, &self.reduce, block, n, |run: Run, i| {
            let dst = reg.wrapping_add(i * size);
            // SAFETY: the caller's promise.
            unsafe {
                match source {
                    Source::Iota => transfer::iota(run, dst),
                    Source::Rand { seed, stream } => {
                        let (seed, stream) = (self.params[seed].i64() as u64, self.params[stream].i64() as u64);
                        transfer::uniform(dtype, run, stream, seed, dst);
                    }
                    Source::Arg(a) if !access.lookup.is_empty() => {
                        let mut lookups = smallvec::SmallVec::<[(*const i64, isize, usize); 2]>::new();
                        for l in &access.lookup {
                            let index = self.operand(l.value, col).cast::<i64>();
                            let index = if k.insts[l.value].level == Level::Uniform { index } else { index.add(i) };
                            lookups.push((index, l.stride, l.size));
                        }
                        transfer::gather(dtype, self.bases.0[a], run, &lookups, dst)?;
                    }
                    Source::Arg(a) => {
                        let base = self.bases.0[a];
                        let plain = run.step == 1 && run.len == n && run.lo == 0 && run.hi == n;
                        if plain && dtype == dtype.compute() {
                            direct = base.offset(run.start * dtype.size() as isize);
                        } else {
                            transfer::load(dtype, base, run, dst);
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(if direct.is_null() { reg } else { direct })
    }
}
