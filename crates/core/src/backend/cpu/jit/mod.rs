//! Runs of calls as one loop of machine code.
//!
//! A block interpreter writes every intermediate block to the first cache and reads it back. Where a run of calls is made
//! of operations that [`functions`] knows, on f32, this module writes one loop for all of them (AVX-512 only): values stay in vector registers,
//! reductions in accumulators. Everything else stays with the interpreter, and so do all other CPUs: the loop is an
//! optimisation of a list of calls, never a definition. `GRADUS_JIT=0` turns it off.
//!
//! Measured on a 2-core Zen 4 (docs/performance-lessons.md): layer norm over rows of 2048 took 2.4 us a row with one call an
//! operation.

mod accumulators;
mod asm;
mod body;
mod build;
mod bytes;
mod casts;
mod doubles;
mod emit;
mod function;
mod functions;
mod instructions;
mod logarithms;
mod memory;
mod operands;
mod past;
mod points;
mod positions;
mod sections;
mod sixteen;
mod values;
mod whole;
mod width;
mod writer;

use super::{
    ahead::Ahead,
    analysis::width,
    micro::{Cursor, Dst, Micro, Src},
    program::Style,
};
use crate::{
    DType,
    kernel::{InstKind, Kernel, Level, Val},
    op::block::Isa,
};
use body::{Body, Folding, V, Vop};
pub use function::{FIRST_PLACE, Whole};
use std::collections::HashMap;
pub use whole::Outline;

/// Room for a loop's table.
pub const POINTERS: usize = writer::MOST_POINTERS;

/// Where a pointer of a loop's table comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry {
    /// A value's block.
    Value(Src),
    /// A value's own register, from a column's place in it on.
    Register(Val, usize),
    /// Where a cursor stands.
    Memory(usize),
    /// The accumulators of a reduction.
    Accumulator(usize),
}

/// One loop.
pub struct Loop {
    sealed: memory::Sealed,
    constants: Vec<u32>,
    /// Its table.
    pub entries: Vec<Entry>,
    /// Values that are one number for the whole block.
    pub invariants: Vec<Src>,
    /// Values that the loop leaves in memory: later calls read them there.
    pub placed: Vec<(Val, usize)>,
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "loop over {:?}", self.entries)
    }
}

impl Loop {
    /// Runs over `n` elements. `table` holds the entries' addresses and has room for one more; `number` gives the bits of
    /// an invariant.
    ///
    /// # Safety
    /// All addresses are good for `n` elements of their types (accumulators: 64 lanes).
    pub unsafe fn run(&self, table: &mut [usize; POINTERS], number: impl Fn(&Src) -> u32, n: usize) {
        let mut pool = [0u32; 128];
        let (constants, rest) = pool.split_at_mut(self.constants.len());
        constants.copy_from_slice(&self.constants);
        rest.iter_mut().zip(&self.invariants).for_each(|(to, v)| *to = number(v));
        table[self.entries.len()] = pool.as_ptr() as usize;
        // SAFETY: the caller's promise.
        unsafe { self.call(table, n) };
    }

    /// Makes a pool for runs: the constants, whose number it gives, and room for this many numbers after them.
    pub fn fill(&self, pool: &mut Vec<u32>, numbers: usize) -> usize {
        pool.clear();
        pool.extend(&self.constants);
        pool.resize(self.constants.len() + numbers, 0);
        self.constants.len()
    }

    /// Runs over `n` elements: the table is complete.
    ///
    /// # Safety
    /// As [`Loop::run`], and the last place of the table holds the address of a filled pool.
    #[inline]
    pub unsafe fn call(&self, table: &[usize; POINTERS], n: usize) {
        let (whole, rest) = (n & !63, (1u64 << (n % 64)) - 1);
        // SAFETY: the caller's promise.
        unsafe { (self.sealed.code())(table.as_ptr(), whole, rest) };
    }
}

thread_local! {
    /// Whether what is being made here goes without them, and whether it asked.
    static WITHOUT: std::cell::Cell<(bool, bool)> = const { std::cell::Cell::new((false, false)) };
}

/// Whether loops can be made here.
pub fn available() -> bool {
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let on = *ON.get_or_init(|| Isa::detect() == Isa::Avx512 && std::env::var("GRADUS_JIT").as_deref() != Ok("0"));
    let (without, asked) = WITHOUT.get();
    WITHOUT.set((without, asked || on));
    on && !without
}

/// What is made without loops, and whether there could have been some.
pub fn without<T>(make: impl FnOnce() -> T) -> (T, bool) {
    let before = WITHOUT.replace((true, false));
    let made = make();
    (made, WITHOUT.replace(before).1)
}

/// What the compiler of loops knows of a program.
pub struct Context<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// How it runs.
    pub style: Style,
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// Values that are the same along a block.
    pub still: &'a [bool],
    /// The addresses that calls use.
    pub cursors: &'a [Cursor],
}

/// The list with runs of calls replaced by loops, which are added to `loops`.
pub fn with_loops(c: &Context<'_>, list: &[Micro], ahead: &[Ahead], loops: &mut Vec<Loop>) -> Vec<Micro> {
    if !available() {
        return list.to_vec();
    }
    // Loads that only point somewhere may go first: fewer runs are cut in two.
    let first = |m: &&Micro| matches!(m, Micro::Point(..) | Micro::Fill(..));
    let points = list.iter().filter(first);
    let list: Vec<Micro> = points.chain(list.iter().filter(|m| !first(m))).copied().collect();
    let mut ahead = ahead.to_vec();
    let mut out = vec![];
    let mut at = 0;
    while at < list.len() {
        let mut to = at;
        while to < list.len() && c.fits(&list[to]) {
            to += 1;
        }
        // The longest run from here that assembles. A run of one is a call as good, unless it must look ahead.
        let least = if ahead.is_empty() { 2 } else { 1 };
        let made = (at + least..=to).rev().find_map(|end| c.make(&list, at..end, &ahead).map(|l| (l, end)));
        match made {
            Some((l, end)) => {
                out.push(Micro::Loop(loops.len()));
                loops.push(l);
                ahead.clear();
                at = end;
            }
            None => {
                out.push(list[at]);
                at += 1;
            }
        }
    }
    out
}

impl Context<'_> {
    fn float(&self, v: Val) -> bool {
        self.k.insts[v].dtype.compute() == DType::F32
    }

    fn bool(&self, v: Val) -> bool {
        self.k.insts[v].dtype == DType::Bool
    }

    /// Whether a call can be part of a loop.
    fn fits(&self, m: &Micro) -> bool {
        match m {
            Micro::Call { v, .. } | Micro::Cast { v, .. } => values::knows(self.k, *v),
            // Integers that are wrapped to their width.
            Micro::Other(v) => matches!(self.k.insts[*v].kind, InstKind::Ewise(..)) && values::knows(self.k, *v),
            Micro::Store(_, dtype, _, step) => values::lanes(*dtype, width::Width::Single).is_some() && *step == 1,
            Micro::Load(_, c, dtype) => {
                let cursor = &self.cursors[*c];
                values::lanes(*dtype, width::Width::Single).is_some() && cursor.step == 1 && cursor.lines.is_none()
            }
            Micro::Fold { v, .. } => self.float(*v),
            Micro::Point(..)
            | Micro::Fill(..)
            | Micro::Turned(..)
            | Micro::Lines(..)
            | Micro::Spread(..)
            | Micro::Loop(_) => false,
        }
    }

    /// The values a call reads.
    fn reads(&self, m: &Micro) -> Vec<Val> {
        match m {
            Micro::Call { v, .. } | Micro::Other(v) => self.k.operands(*v).to_vec(),
            Micro::Cast { src, .. } | Micro::Store(_, _, src, _) | Micro::Fold { src, .. } => vec![src.v],
            Micro::Point(..)
            | Micro::Fill(..)
            | Micro::Load(..)
            | Micro::Turned(..)
            | Micro::Lines(..)
            | Micro::Spread(..)
            | Micro::Loop(_) => vec![],
        }
    }

    fn make(&self, list: &[Micro], run: std::ops::Range<usize>, ahead: &[Ahead]) -> Option<Loop> {
        let calls = list[run.clone()].iter();
        let work = |m: &&Micro| !matches!(m, Micro::Store(_, DType::F32, ..) | Micro::Cast { .. });
        // One pass over memory instead of two.
        let converts = list[run.clone()].iter().any(|m| match m {
            Micro::Load(..) => true,
            Micro::Store(_, dtype, ..) => *dtype != DType::F32,
            _ => false,
        });
        if calls.filter(work).count() < if ahead.is_empty() && !converts { 2 } else { 1 } {
            return None;
        }
        let outside: Vec<Val> = list[..run.start].iter().chain(&list[run.end..]).flat_map(|m| self.reads(m)).collect();
        let mut m = Maker {
            c: self,
            body: Body::default(),
            entries: vec![],
            invariants: vec![],
            known: HashMap::new(),
            placed: vec![],
        };
        for call in &list[run] {
            m.call(call, &outside)?;
        }
        for a in ahead.iter().filter(|a| self.cursors[a.cursor].size == 4) {
            let p = m.pointer(Entry::Memory(a.cursor));
            m.body.push(Vop::Prefetch(p, a.bytes, a.how));
        }
        let (code, constants) = build::assemble(&m.body)?;
        let constants = constants.into_iter().map(|c| c as u32).collect();
        let sealed = memory::Sealed::new(&code)?;
        Some(Loop { sealed, constants, entries: m.entries, invariants: m.invariants, placed: m.placed })
    }
}

struct Maker<'a> {
    c: &'a Context<'a>,
    body: Body,
    entries: Vec<Entry>,
    invariants: Vec<Src>,
    known: HashMap<Val, V>,
    placed: Vec<(Val, usize)>,
}

impl Maker<'_> {
    fn pointer(&mut self, e: Entry) -> usize {
        if let Some(known) = self.entries.iter().position(|k| *k == e) {
            return known;
        }
        self.entries.push(e);
        self.body.pointer()
    }

    /// An operand: computed in this loop, or loaded.
    fn operand(&mut self, src: Src) -> Option<V> {
        if let Some(&v) = self.known.get(&src.v) {
            return Some(v);
        }
        let v = if self.c.still[src.v] && !self.c.bool(src.v) {
            self.invariants.push(src);
            self.body.invariant()
        } else if self.c.float(src.v) || self.c.bool(src.v) {
            let p = self.pointer(Entry::Value(src));
            self.body.push(if self.c.bool(src.v) { Vop::InMask(p) } else { Vop::In(p) })
        } else {
            return None; // integers have 64 bits outside
        };
        self.known.insert(src.v, v);
        Some(v)
    }

    fn call(&mut self, m: &Micro, outside: &[Val]) -> Option<()> {
        match m {
            Micro::Call { v, src, dst, .. } => {
                let InstKind::Ewise(_, vals) = &self.c.k.insts[*v].kind else { return None };
                let x = src[..vals.len()].iter().map(|s| self.operand(*s)).collect::<Option<Vec<V>>>()?;
                let value = values::compute(&mut self.body, self.c.k, *v, &x)?;
                self.define(*v, value, *dst, outside)
            }
            Micro::Other(v) => {
                let InstKind::Ewise(_, vals) = &self.c.k.insts[*v].kind else { return None };
                let src =
                    |v: Val| Src { v, per_col: if self.c.cached[v] { width(self.c.k.insts[v].dtype) } else { 0 } };
                let srcs: Vec<Src> = vals.iter().map(|&v| src(v)).collect();
                let per_col = src(*v).per_col;
                let x = srcs.into_iter().map(|s| self.operand(s)).collect::<Option<Vec<V>>>()?;
                let value = values::compute(&mut self.body, self.c.k, *v, &x)?;
                self.define(*v, value, Dst::Register { per_col }, outside)
            }
            Micro::Cast { v, src, dst, .. } => {
                let x = self.operand(*src)?;
                let value = values::compute(&mut self.body, self.c.k, *v, &[x])?;
                self.define(*v, value, *dst, outside)
            }
            Micro::Load(v, cursor, dtype) => {
                let p = self.pointer(Entry::Memory(*cursor));
                let value = values::load(&mut self.body, *dtype, p)?;
                self.define(*v, value, Dst::Register { per_col: 0 }, outside)
            }
            Micro::Store(cursor, dtype, src, _) => {
                let value = self.operand(*src)?;
                let p = self.pointer(Entry::Memory(*cursor));
                values::store(&mut self.body, *dtype, p, value)
            }
            Micro::Fold { k, v, src, .. } => {
                let InstKind::Reduce(op, _) = self.c.k.insts[*v].kind else { return None };
                let x = self.operand(*src)?;
                let p = self.pointer(Entry::Accumulator(*k));
                match self.c.style {
                    Style::Rows => {
                        self.body.push(Vop::Fold(Folding::of(op), p, x));
                    }
                    Style::Columns => {
                        let acc = self.body.push(Vop::In(p));
                        let new = functions::fold(&mut self.body, Folding::of(op), acc, x);
                        self.body.push(Vop::Out(p, new));
                    }
                }
                Some(())
            }
            Micro::Point(..)
            | Micro::Fill(..)
            | Micro::Turned(..)
            | Micro::Lines(..)
            | Micro::Spread(..)
            | Micro::Loop(_) => None,
        }
    }

    /// Notes a value, and writes it where somebody else will look for it.
    fn define(&mut self, v: Val, value: V, dst: Dst, outside: &[Val]) -> Option<()> {
        self.known.insert(v, value);
        let escapes = self.c.cached[v] || outside.contains(&v);
        match dst {
            Dst::Memory(cursor) => {
                let p = self.pointer(Entry::Memory(cursor));
                values::store(&mut self.body, self.c.k.insts[v].dtype, p, value)?;
                self.placed.push((v, cursor));
            }
            Dst::Register { .. } if !escapes => {}
            // Integers have 64 bits outside.
            Dst::Register { .. } if !self.c.float(v) && !self.c.bool(v) => return None,
            Dst::Register { per_col } => {
                let p = self.pointer(Entry::Register(v, per_col));
                let held = if self.c.bool(v) { DType::Bool } else { DType::F32 };
                values::store(&mut self.body, held, p, value)?;
            }
        }
        Some(())
    }
}

/// Values that are the same all along a block.
pub fn still(k: &Kernel, style: Style, filled: &[bool]) -> Vec<bool> {
    let level = |v: Val| match k.insts[v].level {
        Level::Uniform => true,
        Level::Row => style == Style::Rows,
        Level::Elem => filled[v],
    };
    (0..k.insts.len()).map(level).collect()
}

#[cfg(test)]
mod tests;
