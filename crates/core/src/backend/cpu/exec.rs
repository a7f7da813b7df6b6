//! Running a [`Program`]: one task takes a range of units (blocks of map points, or rows) and interprets the passes
//! block by block.

use super::{
    fold::fold,
    program::{BLOCK, Pass, Program, Style, width},
    transfer::{self, Run},
};
use crate::{
    DType, Result, Scalar,
    kernel::{
        Access, InstKind, Kernel, Level, Source, Val,
        oracle::{Cell, division_by_zero},
    },
    op::{block::Isa, ewise},
    view::Bound,
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
    let unit = match p.style {
        Style::Columns => block_of(p),
        Style::Rows => 1,
    };
    let units = p.rows.div_ceil(unit);
    let threads = rayon::current_num_threads();
    let parallel = threads > 1 && p.work >= PARALLEL_WORK;
    let chunks = p.cols.div_ceil(p.kernel.order.chunk).max(1);
    // SAFETY (all below): the caller's promise.
    if parallel && units < 2 * threads && chunks > 1 {
        // Few outputs, long reductions: the chunks of one are shared out.
        return (0..units).try_for_each(|u| unsafe { split_unit(p, bases, params, u, unit, chunks) });
    }
    if !parallel || units == 1 {
        return with_task(p, bases, params, |t| {
            (0..units).try_for_each(|u| unsafe { t.unit(u * unit, unit.min(p.rows - u * unit)) })
        });
    }
    let pieces = units.min(threads * 4);
    (0..pieces).into_par_iter().try_for_each(|i| {
        let (from, to) = (i * units / pieces, (i + 1) * units / pieces);
        with_task(p, bases, params, |t| {
            (from..to).try_for_each(|u| unsafe { t.unit(u * unit, unit.min(p.rows - u * unit)) })
        })
    })
}

/// Map points a block takes: fewer when each keeps many accumulators.
fn block_of(p: &Program) -> usize {
    let lanes = p.kernel.order.lanes.min(p.cols.max(1));
    (BLOCK / lanes).max(64)
}

/// One unit with its chunks on all threads, a pass at a time.
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
        let parts: Vec<Vec<Cell>> = (0..chunks)
            .into_par_iter()
            .map(|c| {
                with_task(p, bases, params, |t| unsafe {
                    t.restore(&reduced, n);
                    for past in &p.passes[..=s] {
                        t.row_values(past, m0, n, c == 0 && std::ptr::eq(past, pass))?;
                    }
                    // Elements cached by earlier passes are not at hand here: this pass computes its own.
                    t.whole_chunk(s, m0, n, c)
                })
            })
            .collect::<Result<_>>()?;
        let w = if p.style == Style::Columns { n } else { 1 };
        for (k, &v) in pass.reduces.iter().enumerate() {
            let columns: Vec<Vec<Cell>> = parts.iter().map(|c| c[k * w..(k + 1) * w].to_vec()).collect();
            reduced.push((v, pairwise(p, v, columns)));
        }
    }
    // Row values that only become known after the last reduction were computed with it; nothing is left to store.
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
    let need = p.scratch.div_ceil(64) + 1;
    if m.scratch.len() < need {
        m.scratch.resize(need, [0; 8]);
    }
    m.ptr.clear();
    m.ptr.extend(p.slot.iter().map(|&s| if s == usize::MAX { 0 } else { m.scratch.as_ptr() as usize + s }));
    let mut task = Task { p, bases, params, isa: Isa::detect(), m };
    // SAFETY: uniform values read parameters and uniform addresses only; see `run`.
    let out = unsafe { task.uniforms() }.and_then(|()| f(&mut task));
    let m = task.m;
    MEMORY.with(|all| all.borrow_mut().push(m));
    out
}

/// Which axes move within a block, and which stand still at one point.
struct Moving<'a> {
    dims: &'a [usize],
    first: usize,
    still: &'a [usize],
    still_first: usize,
}

impl<'a> Moving<'a> {
    /// A block of map points at one reduce point.
    fn map(k: &'a Kernel) -> Moving<'a> {
        Moving { dims: &k.map, first: 0, still: &k.reduce, still_first: k.map.len() }
    }

    /// A block of reduce points at one map point.
    fn reduce(k: &'a Kernel) -> Moving<'a> {
        Moving { dims: &k.reduce, first: k.map.len(), still: &k.map, still_first: 0 }
    }

    /// One map point; nothing moves.
    fn point(k: &'a Kernel) -> Moving<'a> {
        Moving { dims: &[], first: 0, still: &k.map, still_first: 0 }
    }
}

impl Task<'_> {
    unsafe fn uniforms(&mut self) -> Result<()> {
        for &v in &self.p.uniforms {
            // SAFETY: one register each, then spread over the block.
            unsafe {
                self.inst(v, &Moving::point(&self.p.kernel), 0, 1, 0, 0)?;
                transfer::spread(self.p.kernel.insts[v].dtype, self.m.ptr[v] as *mut u8, BLOCK);
            }
        }
        Ok(())
    }

    /// All passes of map points `m0 .. m0 + n`.
    unsafe fn unit(&mut self, m0: usize, n: usize) -> Result<()> {
        let p = self.p;
        let chunks = p.cols.div_ceil(p.kernel.order.chunk);
        for (s, pass) in p.passes.iter().enumerate() {
            // SAFETY: see `run`.
            unsafe {
                self.row_values(pass, m0, n, true)?;
                if pass.elems.is_empty() && pass.reduces.is_empty() {
                    continue;
                }
                if chunks <= 1 {
                    self.chunk(pass, m0, n, 0)?;
                    for (k, &v) in pass.reduces.iter().enumerate() {
                        self.finish(k, v, n);
                    }
                } else {
                    let w = if p.style == Style::Columns { n } else { 1 };
                    let mut parts: Vec<Vec<Vec<Cell>>> = vec![vec![]; pass.reduces.len()];
                    for c in 0..chunks {
                        let cells = self.whole_chunk(s, m0, n, c)?;
                        for (k, part) in parts.iter_mut().enumerate() {
                            part.push(cells[k * w..(k + 1) * w].to_vec());
                        }
                    }
                    for (&v, part) in pass.reduces.iter().zip(parts) {
                        let cells = pairwise(p, v, part);
                        self.restore(&[(v, cells)], n);
                    }
                }
            }
        }
        Ok(())
    }

    /// Row values and row stores that a pass begins with.
    unsafe fn row_values(&mut self, pass: &Pass, m0: usize, n: usize, stores: bool) -> Result<()> {
        let k = &self.p.kernel;
        for &v in &pass.rows {
            if !stores && matches!(k.insts[v].kind, InstKind::Store { .. }) {
                continue;
            }
            // SAFETY: see `run`.
            unsafe {
                match self.p.style {
                    Style::Columns => {
                        self.inst(v, &Moving::map(k), m0, n, 0, 0)?;
                    }
                    Style::Rows => {
                        self.inst(v, &Moving::point(k), 0, 1, m0, 0)?;
                        if self.p.spread[v] {
                            transfer::spread(k.insts[v].dtype, self.m.ptr[v] as *mut u8, BLOCK);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// One chunk of a pass, its reductions finished into cells (one a reduction and map point).
    unsafe fn whole_chunk(&mut self, s: usize, m0: usize, n: usize, c: usize) -> Result<Vec<Cell>> {
        let pass = &self.p.passes[s];
        // SAFETY: see `run`.
        unsafe { self.chunk(pass, m0, n, c)? };
        let w = if self.p.style == Style::Columns { n } else { 1 };
        let mut out = Vec::with_capacity(pass.reduces.len() * w);
        for (k, &v) in pass.reduces.iter().enumerate() {
            self.finish(k, v, n);
            let dtype = self.p.kernel.insts[v].dtype;
            let size = width(dtype);
            for i in 0..w {
                let mut cell = Cell::default();
                // SAFETY: `finish` left w registers there.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        (self.m.ptr[v] as *const u8).add(i * size),
                        (&raw mut cell).cast(),
                        size,
                    );
                }
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
    unsafe fn chunk(&mut self, pass: &Pass, m0: usize, n: usize, c: usize) -> Result<()> {
        let p = self.p;
        let (lanes, chunk) = (p.kernel.order.lanes, p.kernel.order.chunk);
        let (from, to) = (c * chunk, ((c + 1) * chunk).min(p.cols));
        let per = self.acc_len(n);
        self.m.acc.clear();
        self.m.acc.resize(per * pass.reduces.len(), 0);
        for (k, &v) in pass.reduces.iter().enumerate() {
            let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { continue };
            let dtype = p.kernel.insts[v].dtype;
            let start = Cell::of(op.identity(dtype), dtype);
            let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
            let count = if p.style == Style::Columns { lanes.min(p.cols.max(1)) * n } else { lanes };
            // SAFETY: `acc_len` made room for `count` registers of up to 8 bytes.
            unsafe {
                std::ptr::copy_nonoverlapping((&raw const start).cast::<u8>(), acc, width(dtype));
                transfer::spread(dtype, acc, count);
            }
        }
        // SAFETY (both arms): see `run`; blocks stay inside the map and reduce spaces.
        match p.style {
            Style::Columns => {
                let moving = Moving::map(&p.kernel);
                for j in from..to {
                    let mut k = 0;
                    for &v in &pass.elems {
                        if let InstKind::Reduce(op, x) = p.kernel.insts[v].kind {
                            let dtype = p.kernel.insts[v].dtype;
                            let lane = (j - from) % lanes;
                            unsafe {
                                let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>().add(lane * n * width(dtype));
                                (fold(op, dtype, self.isa).across)(acc, self.m.ptr[x] as *const u8, n);
                            }
                            k += 1;
                        } else {
                            unsafe { self.inst(v, &moving, m0, n, j, 0)? };
                        }
                    }
                }
            }
            Style::Rows => {
                let moving = Moving::reduce(&p.kernel);
                let mut j = from;
                while j < to {
                    let len = BLOCK.min(to - j);
                    let mut k = 0;
                    for &v in &pass.elems {
                        if let InstKind::Reduce(op, x) = p.kernel.insts[v].kind {
                            let dtype = p.kernel.insts[v].dtype;
                            unsafe {
                                let x = self.operand(x, j);
                                let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
                                (fold(op, dtype, self.isa).along)(acc, lanes, x, len);
                            }
                            k += 1;
                        } else {
                            unsafe { self.inst(v, &moving, j, len, m0, j)? };
                        }
                    }
                    j += len;
                }
            }
        }
        Ok(())
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
        // Lanes beyond the row's length hold the identity; in columns style they do not exist, and skipping them
        // changes nothing: x combined with the identity is x (for sums, -0 + 0 aside, which the loop below respects).
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
    fn operand(&self, v: Val, at: usize) -> *const u8 {
        let reg = self.m.ptr[v] as *const u8;
        if self.p.cached[v] { reg.wrapping_add(at * width(self.p.kernel.insts[v].dtype)) } else { reg }
    }

    /// One instruction over a block: points `at .. at + n` of the moving space, point `fixed` of the other; `col` is the
    /// block's place in its row (for cached rows).
    unsafe fn inst(
        &mut self,
        v: Val,
        moving: &Moving<'_>,
        at: usize,
        n: usize,
        fixed: usize,
        col: usize,
    ) -> Result<()> {
        let k = &self.p.kernel;
        let inst = &k.insts[v];
        let reg = {
            let slot = self.p.slot[v];
            if slot == usize::MAX {
                std::ptr::null_mut()
            } else {
                let base = (self.m.scratch.as_mut_ptr().cast::<u8>()).wrapping_add(slot);
                if self.p.cached[v] { base.wrapping_add(col * width(inst.dtype)) } else { base }
            }
        };
        // SAFETY: registers hold a block of 8-byte values; operands were computed by this task; addresses are inside
        // their buffers by the caller's promise.
        unsafe {
            match &inst.kind {
                InstKind::Const(x) => self.set(reg, *x, inst.dtype),
                InstKind::Param(i) => self.set(reg, self.params[*i], inst.dtype),
                InstKind::Load { source, access } => {
                    let p = self.load(*source, access, inst.dtype, moving, at, n, fixed, col, reg)?;
                    self.m.ptr[v] = p as usize;
                }
                InstKind::Ewise(row, vals) => {
                    let over = if row.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { inst.dtype };
                    let mut src = [std::ptr::null::<u8>(); 3];
                    for (s, &o) in src.iter_mut().zip(vals) {
                        *s = self.operand(o, col);
                    }
                    if row.divides()
                        && over.is_int()
                        && std::slice::from_raw_parts(src[1].cast::<i64>(), n).contains(&0)
                    {
                        return Err(division_by_zero(row.name));
                    }
                    let block = row.block(over).ok_or_else(|| crate::Tensor::bug("a kernel that was not verified"))?;
                    block.get(self.isa)(reg, src, n);
                    if inst.dtype.is_int() && inst.dtype != DType::I64 {
                        transfer::wrap(inst.dtype, reg, n);
                    }
                }
                InstKind::Cast(x) => transfer::cast(k.insts[*x].dtype, inst.dtype, self.operand(*x, col), reg, n),
                InstKind::Reduce(..) => {}
                InstKind::Store { arg, access, value } => {
                    let (dtype, base) = (k.args[*arg].dtype, self.bases.0[*arg]);
                    let src = self.operand(*value, col);
                    let size = width(dtype);
                    runs(access, moving, at, n, fixed, |run, i| {
                        transfer::store(dtype, base, run, src.add(i * size));
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    unsafe fn set(&self, reg: *mut u8, x: Scalar, dtype: DType) {
        let cell = Cell::of(x, dtype);
        // SAFETY: the register has room for a block.
        unsafe { std::ptr::copy_nonoverlapping((&raw const cell).cast::<u8>(), reg, width(dtype)) };
    }

    /// Loads a block and says where it is: in the register, or, where memory has the right form, in the buffer itself.
    #[allow(clippy::too_many_arguments)]
    unsafe fn load(
        &self,
        source: Source,
        access: &Access,
        dtype: DType,
        moving: &Moving<'_>,
        at: usize,
        n: usize,
        fixed: usize,
        col: usize,
        reg: *mut u8,
    ) -> Result<*mut u8> {
        let k = &self.p.kernel;
        let size = width(dtype);
        let mut direct: *mut u8 = std::ptr::null_mut();
        runs(access, moving, at, n, fixed, |run, i| {
            // SAFETY: see `inst`.
            unsafe {
                let dst = reg.add(i * size);
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

/// Cuts a block of the moving space into runs along its last axis and calls `f` with each and its place in the block.
#[allow(clippy::too_many_arguments)]
#[inline]
fn runs(
    access: &Access,
    moving: &Moving<'_>,
    at: usize,
    n: usize,
    fixed: usize,
    mut f: impl FnMut(Run, usize) -> Result<()>,
) -> Result<()> {
    let (still, still_first) = (moving.still, moving.still_first);
    let dot_still = |c: &[isize]| {
        let (mut l, mut sum) = (fixed, 0isize);
        for d in (0..still.len()).rev() {
            // What does not depend on an empty space is read all the same, with strides of 0 there.
            let extent = still[d].max(1);
            sum += (l % extent) as isize * c[still_first + d];
            l /= extent;
        }
        sum
    };
    let start = access.offset + dot_still(&access.strides);
    let rank = moving.dims.len();
    let mut index = [0usize; 16];
    let index = &mut index[..rank.min(16)];
    let mut l = at;
    for d in (0..rank).rev() {
        index[d] = l % moving.dims[d];
        l /= moving.dims[d];
    }
    let dot_moving = |c: &[isize], index: &[usize]| -> isize {
        index.iter().enumerate().map(|(d, &i)| i as isize * c[moving.first + d]).sum()
    };
    let last = |c: &[isize]| if rank == 0 { 0 } else { c[moving.first + rank - 1] };
    let mut done = 0;
    while done < n {
        let len = if rank == 0 { n - done } else { (moving.dims[rank - 1] - index[rank - 1]).min(n - done) };
        let mut run =
            Run { start: start + dot_moving(&access.strides, index), step: last(&access.strides), len, lo: 0, hi: len };
        for b in &access.bounds {
            let first = dot_still(&b.coefs) + dot_moving(&b.coefs, index);
            let (lo, hi) = inside(b, first, last(&b.coefs), len);
            run.lo = run.lo.max(lo);
            run.hi = run.hi.min(hi);
        }
        run.hi = run.hi.max(run.lo).min(len);
        run.lo = run.lo.min(run.hi);
        f(run, done)?;
        done += len;
        if rank > 0 {
            index[rank - 1] += len;
            for d in (1..rank).rev() {
                if index[d] < moving.dims[d] {
                    break;
                }
                index[d] = 0;
                index[d - 1] += 1;
            }
        }
    }
    Ok(())
}

/// The `i` in `0 .. len` with `lo <= first + i * step < hi`.
fn inside(b: &Bound, first: isize, step: isize, len: usize) -> (usize, usize) {
    let ceil = |a: isize, b: isize| a.div_euclid(b) + (a.rem_euclid(b) != 0) as isize;
    let clamp = |x: isize| x.clamp(0, len as isize) as usize;
    match step {
        0 if (b.lo..b.hi).contains(&first) => (0, len),
        0 => (0, 0),
        s if s > 0 => (clamp(ceil(b.lo - first, s)), clamp(ceil(b.hi - first, s))),
        // Walking down: first - i |s| < hi, first - i |s| >= lo.
        s => (clamp((first - b.hi).div_euclid(-s) + 1), clamp((first - b.lo).div_euclid(-s) + 1)),
    }
}
