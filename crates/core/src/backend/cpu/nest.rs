//! Passes whose calls are all loops of machine code: where everything lies is laid out once, and what is left a block is
//! a few additions and the call.

use super::{
    exec::Task,
    jit::{self, Entry},
    micro::{Cursor, Micro},
    program::{Pass, Style},
};
use crate::{
    DType,
    kernel::{Kernel, Level, Val},
};

/// The loops of one pass, in order.
#[derive(Debug, Default)]
pub struct Nest {
    loops: Vec<Laid>,
    /// Its first loop among those of all passes.
    first: usize,
}

/// One loop: which places of its table hold what.
#[derive(Debug, Default)]
struct Laid {
    l: usize,
    /// Addresses that a cursor gives: place, cursor, bytes from one reduce point to the next.
    moving: Vec<(usize, usize, isize)>,
    /// Values in registers: place, value, bytes a column.
    values: Vec<(usize, Val, usize)>,
    /// Values' own registers: place, value, bytes a column.
    registers: Vec<(usize, Val, usize)>,
    /// Accumulators: place, number.
    accumulators: Vec<(usize, usize)>,
    /// Numbers that are one for a block, in the order of the pool.
    numbers: Vec<Number>,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    /// The first element of a value's register.
    Value(Val),
    /// What a cursor points to, and the bytes from one reduce point to the next.
    At(usize, isize),
}

/// A loop's table and numbers, for one task.
#[derive(Default)]
pub struct Ready {
    table: [usize; jit::POINTERS],
    pool: Vec<u32>,
    /// Where the numbers begin in the pool.
    constants: usize,
}

/// All passes as nests, if all of them are loops and their addresses move evenly.
pub fn nests(
    k: &Kernel,
    style: Style,
    passes: &[Pass],
    cursors: &[Cursor],
    loops: &[jit::Loop],
    block: usize,
    cols: usize,
) -> Option<Vec<Nest>> {
    if k.reduce.len() > 1 || (style == Style::Rows && !block.is_multiple_of(64) && block < cols) {
        return None;
    }
    // Values that lie in memory: where the cursor of their load or store stands.
    let mut at: Vec<Option<usize>> = vec![None; k.insts.len()];
    let mut filled = vec![None; k.insts.len()];
    for m in passes.iter().flat_map(|p| &p.calls) {
        match m {
            Micro::Point(v, c) => at[*v] = Some(*c),
            Micro::Fill(v, c, DType::F32) => filled[*v] = Some(*c),
            Micro::Loop(l) => loops[*l].placed.iter().for_each(|&(v, c)| at[v] = Some(c)),
            _ => return None,
        }
    }
    let step = |c: usize| cursors[c].strides.get(k.map.len()).copied().unwrap_or(0) * cursors[c].size;
    let even = |c: usize| cursors[c].lines.is_none();
    let lay = |l: usize| {
        let mut laid = Laid { l, ..Laid::default() };
        for (place, e) in loops[l].entries.iter().enumerate() {
            match e {
                Entry::Memory(c) => laid.moving.push((place, *c, step(*c))),
                Entry::Value(x) => match (at[x.v], filled[x.v]) {
                    (Some(c), _) => laid.moving.push((place, c, step(c))),
                    // One number in memory, which would have to be spread over a block.
                    (None, None) if style == Style::Rows && k.insts[x.v].level < Level::Elem => return None,
                    (None, None) => laid.values.push((place, x.v, x.per_col)),
                    (None, Some(_)) => return None,
                },
                Entry::Register(v, per_col) => laid.registers.push((place, *v, *per_col)),
                Entry::Accumulator(k) => laid.accumulators.push((place, *k)),
            }
        }
        for x in &loops[l].invariants {
            laid.numbers.push(match (filled[x.v], at[x.v]) {
                (Some(c), _) => Number::At(c, step(c)),
                (None, None) if x.per_col == 0 => Number::Value(x.v),
                (None, _) => return None,
            });
        }
        laid.moving.iter().all(|&(_, c, _)| even(c)).then_some(laid)
    };
    let mut first = 0;
    let nest = |p: &Pass| {
        let loops = p.calls.iter().filter_map(|m| if let Micro::Loop(l) = m { Some(lay(*l)) } else { None });
        let nest = Nest { loops: loops.collect::<Option<_>>()?, first };
        first += nest.loops.len();
        Some(nest)
    };
    passes.iter().map(nest).collect()
}

impl Task<'_> {
    /// Everything about the tables that stays the same for the whole task.
    pub(super) fn prepare(&mut self, nests: &[Nest]) {
        let p = self.p;
        let mut ready = std::mem::take(&mut self.m.ready);
        let (unit, reduces) = (p.unit, p.passes.iter().map(|p| p.reduces.len()).max().unwrap_or(0));
        let words = self.acc_len(unit) * reduces;
        self.m.accumulators(words);
        let loops = nests.iter().map(|n| n.loops.len()).sum();
        if ready.len() < loops {
            ready.resize_with(loops, Ready::default);
        }
        for (laid, r) in nests.iter().flat_map(|n| &n.loops).zip(&mut ready) {
            r.constants = p.loops[laid.l].fill(&mut r.pool, laid.numbers.len());
            r.table[p.loops[laid.l].entries.len()] = r.pool.as_ptr() as usize;
        }
        self.m.ready = ready;
    }

    /// Reduce points `from..to` of a pass (all of one chunk), for `n` map points in columns style.
    ///
    /// # Safety
    /// As [`super::exec::run`]; `per` words of accumulators stand ready for each reduction.
    #[inline]
    pub(super) unsafe fn nest(&mut self, nest: &Nest, n: usize, from: usize, to: usize, per: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.p.style {
                Style::Columns => self.nest_columns(nest, n, from, to, per),
                Style::Rows => self.nest_rows(nest, from, to, per),
            }
        }
    }

    unsafe fn nest_columns(&mut self, nest: &Nest, n: usize, from: usize, to: usize, per: usize) {
        let lane = if self.p.kernel.order.lanes > 1 { n * 4 } else { 0 };
        (0..nest.loops.len()).for_each(|i| self.lay(nest, i, from, per));
        for j in from..to {
            for (laid, r) in nest.loops.iter().zip(&mut self.m.ready[nest.first..]) {
                for (i, number) in laid.numbers.iter().enumerate() {
                    if let Number::At(c, step) = *number {
                        let at = self.m.row[c].wrapping_add_signed(j as isize * step);
                        // SAFETY: the caller's promise.
                        r.pool[r.constants + i] = unsafe { *(at as *const u32) };
                    }
                }
                // SAFETY: the caller's promise: every address is good for `n` elements at each reduce point.
                unsafe { self.p.loops[laid.l].call(&r.table, n) };
                laid.moving.iter().for_each(|m| r.table[m.0] = r.table[m.0].wrapping_add_signed(m.2));
                laid.accumulators.iter().for_each(|a| r.table[a.0] += lane);
            }
        }
    }

    unsafe fn nest_rows(&mut self, nest: &Nest, from: usize, to: usize, per: usize) {
        let mut j = from;
        while j < to {
            let n = self.p.block.min(to - j);
            for (i, laid) in nest.loops.iter().enumerate() {
                self.lay(nest, i, j, per);
                let r = &mut self.m.ready[nest.first + i];
                for (i, number) in laid.numbers.iter().enumerate() {
                    if let Number::At(c, _) = *number {
                        // SAFETY: the caller's promise.
                        r.pool[r.constants + i] = unsafe { *(self.m.row[c] as *const u32) };
                    }
                }
                // SAFETY: the caller's promise: every address is good for the block.
                unsafe { self.p.loops[laid.l].call(&r.table, n) };
            }
            j += n;
        }
    }

    /// The table of a loop at reduce point `j` of the current map point, and the numbers that values hold.
    #[inline]
    fn lay(&mut self, nest: &Nest, i: usize, j: usize, per: usize) {
        let laid = &nest.loops[i];
        let base = (self.m.scratch.as_ptr() as usize).next_multiple_of(64);
        let first = self.m.accumulator(0, 0) as usize;
        let r = &mut self.m.ready[nest.first + i];
        for &(place, c, step) in &laid.moving {
            r.table[place] = self.m.row[c].wrapping_add_signed(j as isize * step);
        }
        for &(place, v, per_col) in &laid.values {
            r.table[place] = self.m.ptr[v] + j * per_col;
        }
        for &(place, v, per_col) in &laid.registers {
            r.table[place] = base + self.p.slot[v] + j * per_col;
        }
        for &(place, k) in &laid.accumulators {
            r.table[place] = first.wrapping_add(k * per * 8);
        }
        for (i, number) in laid.numbers.iter().enumerate() {
            if let Number::Value(v) = *number {
                // SAFETY: a value's register holds at least one number.
                r.pool[r.constants + i] = unsafe { *(self.m.ptr[v] as *const u32) };
            }
        }
    }
}
