//! The body of a program as a flat list of calls: what runs for each block.
//!
//! Interpreting a kernel's instructions directly costs more than the arithmetic on a block. So everything that is the
//! same for all blocks is decided once, here: which loop to call for this CPU, which operands stand in registers and
//! which lie in memory in the right form already, where results go straight into their buffers. What is left a block is
//! one pointer addition a memory operand and one call an instruction.

use super::{
    analysis::width,
    fold::{Fold, fold},
    program::Style,
    regions::holds,
};
use crate::{
    DType,
    kernel::{Access, InstKind, Kernel, Level, Source, Val},
    op::{
        block::{BlockFn, Isa},
        ewise,
    },
};

/// An address that moves by a constant step along a block.
#[derive(Debug)]
pub struct Cursor {
    /// The buffer.
    pub arg: usize,
    /// Bytes an element.
    pub size: isize,
    /// Its element address at the origin of both spaces.
    pub offset: isize,
    /// Elements a step of each map axis, then of each reduce axis.
    pub strides: Vec<isize>,
    /// Elements a step along a block, or along a line of it.
    pub step: isize,
    /// Where a block is several lines that do not follow each other: elements a line, and elements from line to line.
    pub lines: Option<(usize, isize)>,
}

/// How the blocks of a program lie in its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Along the last axis, never across its end.
    Along,
    /// Several whole lines of the last axis, this long.
    Lines(usize),
    /// Anywhere: they may cross the end of any axis.
    Across,
}

/// An operand: a value, and the bytes to add for each column (whole rows in a register) or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Src {
    /// The value.
    pub v: Val,
    /// Bytes a column.
    pub per_col: usize,
}

/// Where a call writes.
#[derive(Clone, Copy, Debug)]
pub enum Dst {
    /// Its register (from a column's place in it on).
    Register {
        /// Bytes a column.
        per_col: usize,
    },
    /// Straight into a buffer.
    Memory(usize),
}

/// One thing to do for a block.
#[derive(Clone, Copy)]
pub enum Micro {
    /// A load that needs no loop: the value is where the cursor stands.
    Point(Val, usize),
    /// One element for the whole block; done when the cursor has moved to another row.
    Fill(Val, usize, DType),
    /// A strided or converting load.
    Load(Val, usize, DType),
    /// A line of a tile that is turned at once.
    Turned(Val, usize),
    /// A load line by line; where all lines are the same one, done when it is another than before.
    Lines(Val, usize, DType),
    /// An elementwise function.
    Call {
        /// The value.
        v: Val,
        /// Its loop.
        f: BlockFn,
        /// Operands; the last is repeated.
        src: [Src; 3],
        /// Where to.
        dst: Dst,
    },
    /// A conversion of type.
    Cast {
        /// The value.
        v: Val,
        /// From and to.
        types: (DType, DType),
        /// What.
        src: Src,
        /// Where to.
        dst: Dst,
    },
    /// A store that its value's own instruction could not do: cursor, type, value, and elements a step.
    Store(usize, DType, Src, isize),
    /// A reduction: its number in the pass.
    Fold {
        /// The value.
        v: Val,
        /// Its number in the pass.
        k: usize,
        /// Bytes an accumulator.
        size: usize,
        /// Its loops.
        f: Fold,
        /// What is reduced.
        src: Src,
    },
    /// A run of calls as one loop: its number.
    Loop(usize),
    /// A row value copied over a block's length.
    Spread(Val, DType),
    /// Anything else: see [`super::inst`].
    Other(Val),
}

impl std::fmt::Debug for Micro {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Micro::Point(v, c) => write!(f, "%{v} = point {c}"),
            Micro::Fill(v, c, _) => write!(f, "%{v} = fill {c}"),
            Micro::Load(v, c, _) => write!(f, "%{v} = load {c}"),
            Micro::Turned(v, c) => write!(f, "%{v} = turned {c}"),
            Micro::Lines(v, c, _) => write!(f, "%{v} = lines {c}"),
            Micro::Call { v, .. } => write!(f, "%{v} = call"),
            Micro::Cast { v, .. } => write!(f, "%{v} = cast"),
            Micro::Store(c, _, s, _) => write!(f, "store {c} %{}", s.v),
            Micro::Fold { k, src, .. } => write!(f, "fold {k} %{}", src.v),
            Micro::Loop(l) => write!(f, "loop {l}"),
            Micro::Spread(v, _) => write!(f, "%{v} spread"),
            Micro::Other(v) => write!(f, "%{v} = other"),
        }
    }
}

/// Cursors found so far, and for which instruction.
pub struct Cursors {
    /// All of them.
    pub all: Vec<Cursor>,
    /// The cursor of each load and store that has one.
    pub of: Vec<Option<usize>>,
    /// Loads that are zero outside a part of every line: for functions only.
    pub ended: Vec<Option<Ended>>,
}

/// A load that is zero outside a part of every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its cursor.
    pub cursor: usize,
    /// The first element of a line that is there.
    pub from: usize,
    /// The first after it that is not.
    pub to: usize,
}

/// Finds the loads and stores that a cursor can serve.
pub fn cursors(k: &Kernel, style: Style, blocks: Blocks) -> Cursors {
    let mut out = Cursors { all: vec![], of: vec![None; k.insts.len()], ended: vec![None; k.insts.len()] };
    for (v, inst) in k.insts.iter().enumerate() {
        let (arg, access) = match &inst.kind {
            InstKind::Load { source: Source::Arg(a), access } => (*a, access),
            InstKind::Store { arg, access, .. } => (*arg, access),
            InstKind::Load { source: Source::Iota | Source::Rand { .. }, .. }
            | InstKind::Const(_)
            | InstKind::Param(_)
            | InstKind::Ewise(..)
            | InstKind::Cast(_)
            | InstKind::Reduce(..) => continue,
        };
        let ended = ended(k, access, style, blocks);
        if let Some((step, lines)) = step(k, access, style, blocks, ended.is_some()) {
            match ended {
                Some((from, to)) => out.ended[v] = Some(Ended { cursor: out.all.len(), from, to }),
                None => out.of[v] = Some(out.all.len()),
            }
            let size = k.args[arg].dtype.size() as isize;
            out.all.push(Cursor { arg, size, offset: access.offset, strides: access.strides.clone(), step, lines });
        }
    }
    out
}

/// The part of every line that is there, where something is not and all ends are along lines.
fn ended(k: &Kernel, access: &Access, style: Style, blocks: Blocks) -> Option<(usize, usize)> {
    let axis = match style {
        Style::Columns => k.map.len(),
        Style::Rows => k.map.len() + k.reduce.len(),
    };
    let axis = axis.checked_sub(1).filter(|_| blocks == Blocks::Along && !access.bounds.is_empty())?;
    let n = *k.map.iter().chain(&k.reduce).nth(axis)?;
    access.bounds.iter().try_fold((0, n), |(from, to), b| {
        let along = b.coefs.iter().enumerate().all(|(a, &c)| (c != 0) == (a == axis));
        let (first, end) = along.then(|| holds(b, axis, n))?;
        let (from, to) = (from.max(first), to.min(end));
        (from < to).then_some((from, to))
    })
}

/// Elements a step along blocks, and how lines follow each other where they do not simply go on.
fn step(
    k: &Kernel,
    access: &Access,
    style: Style,
    blocks: Blocks,
    ended: bool,
) -> Option<(isize, Option<(usize, isize)>)> {
    if (!access.bounds.is_empty() && !ended) || !access.lookup.is_empty() {
        return None;
    }
    let (dims, strides) = match style {
        Style::Columns => (&k.map, &access.strides[..k.map.len()]),
        Style::Rows => (&k.reduce, &access.strides[k.map.len()..]),
    };
    let Some(&last) = strides.last() else { return Some((0, None)) };
    match blocks {
        Blocks::Along => Some((last, None)),
        Blocks::Lines(n) => {
            let apart = strides[strides.len() - 2];
            Some((last, (apart != last * n as isize).then_some((n, apart))))
        }
        Blocks::Across => {
            let even = (1..dims.len()).all(|d| strides[d - 1] == strides[d] * dims[d] as isize);
            even.then_some((last, None))
        }
    }
}

/// What the compiler of a pass knows.
pub struct Compiler<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// Its cursors.
    pub cursors: &'a Cursors,
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// Stores that their value's instruction can do.
    pub direct: &'a [Option<Val>],
    /// Row values that elements read.
    pub spread: &'a [bool],
    /// Operands that come as tiles.
    pub tiled: &'a [bool],
}

impl Compiler<'_> {
    fn src(&self, v: Val) -> Src {
        Src { v, per_col: if self.cached[v] { width(self.k.insts[v].dtype) } else { 0 } }
    }

    /// The store an instruction does itself, if its target lies in one piece.
    fn own_store(&self, v: Val) -> Option<usize> {
        let c = self.cursors.of[self.direct[v]?]?;
        let cursor = &self.cursors.all[c];
        (cursor.step == 1 && cursor.lines.is_none()).then_some(c)
    }

    /// Whether a value never sees a register: it is read where it lies, or written where it goes.
    pub fn in_memory(&self, v: Val) -> bool {
        let inst = &self.k.insts[v];
        match &inst.kind {
            InstKind::Load { .. } if inst.level == Level::Elem => {
                self.cursors.of[v].is_some_and(|c| matches!(self.load(v, c, inst.dtype), Micro::Point(..)))
            }
            InstKind::Ewise(row, vals) => {
                inst.level == Level::Elem && matches!(self.call(v, row, vals), Micro::Call { dst: Dst::Memory(_), .. })
            }
            InstKind::Cast(_) => self.own_store(v).is_some(),
            InstKind::Load { .. }
            | InstKind::Const(_)
            | InstKind::Param(_)
            | InstKind::Reduce(..)
            | InstKind::Store { .. } => false,
        }
    }

    fn dst(&self, v: Val) -> Dst {
        match self.own_store(v) {
            Some(c) => Dst::Memory(c),
            None => Dst::Register { per_col: self.src(v).per_col },
        }
    }

    /// The calls for element values (and, where a row is a block of map points, for row values).
    pub fn elems(&self, values: &[Val]) -> Vec<Micro> {
        let mut out = vec![];
        let mut reductions = 0;
        for &v in values {
            let inst = &self.k.insts[v];
            out.push(match &inst.kind {
                InstKind::Load { .. } => match self.cursors.of[v] {
                    Some(c) => self.load(v, c, inst.dtype),
                    None => Micro::Other(v),
                },
                InstKind::Ewise(row, vals) => self.call(v, row, vals),
                InstKind::Cast(x) => {
                    let types = (self.k.insts[*x].dtype, inst.dtype);
                    Micro::Cast { v, types, src: self.src(*x), dst: self.dst(v) }
                }
                InstKind::Reduce(op, x) => {
                    reductions += 1;
                    let f = fold(*op, inst.dtype, Isa::detect());
                    Micro::Fold { v, k: reductions - 1, size: width(inst.dtype), f, src: self.src(*x) }
                }
                InstKind::Store { arg, value, .. } => match self.cursors.of[v] {
                    // The value's own call has put it there.
                    Some(c) if self.in_memory(*value) && self.own_store(*value) == Some(c) => continue,
                    Some(c) => {
                        let cursor = &self.cursors.all[c];
                        // Zero stands for "line by line": a store's own step is never that over more than one point.
                        let step = if cursor.lines.is_some() { 0 } else { cursor.step };
                        Micro::Store(c, self.k.args[*arg].dtype, self.src(*value), step)
                    }
                    None => Micro::Other(v),
                },
                InstKind::Const(_) | InstKind::Param(_) => Micro::Other(v),
            });
        }
        out
    }

    /// The calls for row values where a row is one map point.
    pub fn points(&self, values: &[Val]) -> Vec<Micro> {
        let mut out = vec![];
        for &v in values {
            let inst = &self.k.insts[v];
            match (&inst.kind, self.cursors.of[v]) {
                (InstKind::Load { .. }, Some(c)) if self.spread[v] => {
                    out.push(Micro::Fill(v, c, inst.dtype));
                    continue;
                }
                (InstKind::Load { .. }, Some(c)) => out.push(Micro::Load(v, c, inst.dtype)),
                _ => out.extend(self.elems(&[v])),
            }
            if self.spread[v] && !matches!(inst.kind, InstKind::Store { .. }) {
                out.push(Micro::Spread(v, inst.dtype));
            }
        }
        out
    }

    fn load(&self, v: Val, c: usize, dtype: DType) -> Micro {
        match self.cursors.all[c].step {
            _ if self.tiled[v] => Micro::Turned(v, c),
            _ if self.cursors.all[c].lines.is_some() => Micro::Lines(v, c, dtype),
            0 => Micro::Fill(v, c, dtype),
            1 if dtype == dtype.compute() => Micro::Point(v, c),
            _ => Micro::Load(v, c, dtype),
        }
    }

    fn call(&self, v: Val, row: &'static ewise::Ewise, vals: &[Val]) -> Micro {
        let dtype = self.k.insts[v].dtype;
        let over = if row.kind == ewise::Kind::Compare { self.k.insts[vals[0]].dtype } else { dtype };
        // Integers are wrapped to their width, and looked at for divisions by zero.
        let checked = (dtype.is_int() && dtype != DType::I64) || (over.is_int() && row.divides());
        match row.block(over) {
            Some(block) if !checked => {
                let last = vals.len() - 1;
                let src = [0, 1, 2].map(|n: usize| self.src(vals[n.min(last)]));
                Micro::Call { v, f: block.get(Isa::detect()), src, dst: self.dst(v) }
            }
            _ => Micro::Other(v),
        }
    }
}

/// Values whose register must outlive its last use in a block: filled once a row, read by all its blocks.
pub fn persistent(k: &Kernel, cursors: &Cursors) -> Vec<bool> {
    (0..k.insts.len())
        .map(|v| {
            let load = matches!(k.insts[v].kind, InstKind::Load { .. }) && k.insts[v].level == Level::Elem;
            load && cursors.of[v].is_some_and(|c| cursors.all[c].step == 0 || cursors.all[c].lines.is_some())
        })
        .collect()
}

/// Values that are one number for a whole block.
pub fn filled(k: &Kernel, cursors: &Cursors) -> Vec<bool> {
    let one = |v: Val| cursors.of[v].is_some_and(|c| cursors.all[c].step == 0 && cursors.all[c].lines.is_none());
    (0..k.insts.len()).map(|v| matches!(k.insts[v].kind, InstKind::Load { .. }) && one(v)).collect()
}
