//! From a list of vector operations to a loop.
//!
//! [`Body`] is straight-line code in SSA form over vectors of 16 floats (and masks). [`assemble`] writes a loop that runs
//! it for four vectors a turn, and the rest under a mask. Constants and loop-invariant operands are put into registers
//! before the loop while there are any left. The order of everything that rounds is the order of the kernel, so the bits
//! are those of the interpreter.

use super::asm::{self, Asm, FIRST_SAVED, Gpr, K, Op, POINTERS, Rm, Under, Zmm};

/// The number of an operation, and of what it defines.
pub type V = usize;

/// One operation of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vop {
    /// The vector at a pointer of the table.
    In(usize),
    /// One number for the whole loop: its place among those given with each run.
    Invariant(usize),
    /// Sixteen bools at a pointer of the table, as a mask.
    InMask(usize),
    /// A number, by its bits.
    Const(u32),
    /// Two operands.
    Two(Arith, V, V),
    /// Square root.
    Sqrt(V),
    /// `a * b + c`, rounded once.
    Fma(V, V, V),
    /// Bits shifted left or (with the sign) right.
    Shift(bool, V, u8),
    /// A comparison, by Intel's predicate.
    Compare(u8, V, V),
    /// Second where the mask is set, third elsewhere.
    Select(V, V, V),
    /// Writes to a pointer of the table.
    Out(usize, V),
    /// Asks for the cache line so many bytes on from a pointer of the table; whether it will be written.
    Prefetch(usize, i32, bool),
    /// Adds to (or takes the larger or smaller of) sixteen lanes of an accumulator.
    Fold(Folding, usize, V),
}

/// Operations of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arith {
    /// Floats.
    Add,
    /// Floats.
    Sub,
    /// Floats.
    Mul,
    /// Floats.
    Div,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    /// Bits.
    And,
    /// Bits.
    Or,
    /// Bits.
    Xor,
    /// Integers.
    AddI,
    /// Integers.
    SubI,
}

/// How a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Sum.
    Sum,
    /// The larger; a NaN stays.
    Max,
    /// The smaller; a NaN stays.
    Min,
}

impl Arith {
    fn op(self) -> Op {
        match self {
            Arith::Add => asm::ADD,
            Arith::Sub => asm::SUB,
            Arith::Mul => asm::MUL,
            Arith::Div => asm::DIV,
            Arith::Min => asm::MIN,
            Arith::Max => asm::MAX,
            Arith::And => asm::AND,
            Arith::Or => asm::OR,
            Arith::Xor => asm::XOR,
            Arith::AddI => asm::ADD_I32,
            Arith::SubI => asm::SUB_I32,
        }
    }
}

/// Straight-line code.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Its operations.
    pub ops: Vec<Vop>,
    /// Pointers in the table.
    pub pointers: usize,
    /// Numbers given with each run.
    pub invariants: usize,
}

impl Body {
    /// Adds an operation, or finds it where it is pure and known.
    pub fn push(&mut self, op: Vop) -> V {
        let pure = !matches!(op, Vop::Out(..) | Vop::Fold(..) | Vop::Prefetch(..));
        if pure && let Some(known) = self.ops.iter().position(|o| *o == op) {
            return known;
        }
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// A number.
    pub fn number(&mut self, x: f32) -> V {
        self.push(Vop::Const(x.to_bits()))
    }

    /// An operation of two.
    pub fn two(&mut self, op: Arith, a: V, b: V) -> V {
        self.push(Vop::Two(op, a, b))
    }

    /// One more pointer in the table.
    pub fn pointer(&mut self) -> usize {
        self.pointers += 1;
        self.pointers - 1
    }

    /// One more number given with each run.
    pub fn invariant(&mut self) -> V {
        self.invariants += 1;
        self.push(Vop::Invariant(self.invariants - 1))
    }

    fn operands(op: &Vop) -> Vec<V> {
        match *op {
            Vop::In(_) | Vop::Invariant(_) | Vop::InMask(_) | Vop::Const(_) | Vop::Prefetch(..) => vec![],
            Vop::Two(_, a, b) | Vop::Compare(_, a, b) => vec![a, b],
            Vop::Sqrt(a) | Vop::Shift(_, a, _) | Vop::Out(_, a) | Vop::Fold(_, _, a) => vec![a],
            Vop::Fma(a, b, c) | Vop::Select(a, b, c) => vec![a, b, c],
        }
    }
}

/// Registers that the straight-line code may use freely; the rest hold accumulators, constants and invariants.
const TEMPORARIES: usize = 11;
const SCRATCH: Zmm = 31;
const TAIL: K = 1;
/// The most pointers of a loop and its pool.
pub const MOST_POINTERS: usize = 24;
/// Where pointers are loaded from, and what they are loaded into, when there are more than registers.
const TABLE: Gpr = POINTERS[POINTERS.len() - 2];
const SPARE: Gpr = POINTERS[POINTERS.len() - 1];

/// Assembles the loop, and its constants: the table's last pointer is to those, followed by the invariants. None if it
/// needs more registers than there are.
pub fn assemble(body: &Body) -> Option<(Vec<u8>, Vec<u32>)> {
    if body.pointers + 1 > MOST_POINTERS {
        return None;
    }
    // Beyond what registers can hold, pointers are loaded where they are used; two registers serve that.
    let held = if body.pointers < POINTERS.len() { body.pointers } else { POINTERS.len() - 3 };
    let mut uses = vec![0usize; body.ops.len()];
    let mut last = vec![0usize; body.ops.len()];
    for (i, op) in body.ops.iter().enumerate() {
        for o in Body::operands(op) {
            uses[o] += 1;
            last[o] = i;
        }
    }
    let mut w = Writer {
        asm: Asm::default(),
        body,
        last,
        home: vec![None; body.ops.len()],
        fixed: vec![false; body.ops.len()],
        constants: vec![],
        free: vec![],
        free_masks: (2..8).collect(),
        accumulators: vec![],
        held,
    };
    // Fixed registers from the top: accumulators first, then what the loop would load again and again.
    let mut next: Zmm = SCRATCH;
    for (i, op) in body.ops.iter().enumerate() {
        if let Vop::Fold(..) = op {
            next = next.checked_sub(4)?;
            w.accumulators.push((i, next));
        }
    }
    if (next as usize) < TEMPORARIES {
        return None;
    }
    let mut hoist: Vec<V> =
        (0..body.ops.len()).filter(|&i| matches!(body.ops[i], Vop::Const(_) | Vop::Invariant(_))).collect();
    hoist.sort_by_key(|&i| std::cmp::Reverse(uses[i]));
    for &i in &hoist {
        if let Vop::Const(bits) = body.ops[i] {
            w.constants.push((i, bits));
        }
    }
    if w.constants.len() + body.invariants > 127 {
        return None;
    }
    let mut hoisted = vec![];
    for i in hoist {
        if next as usize > TEMPORARIES {
            next -= 1;
            w.home[i] = Some(next);
            w.fixed[i] = true;
            hoisted.push(i);
        }
    }
    w.free = (0..next).rev().collect();

    let used = if held == body.pointers { held + 1 } else { POINTERS.len() };
    for &r in POINTERS.iter().take(used).skip(FIRST_SAVED) {
        w.asm.push(r);
    }
    for (n, &r) in POINTERS.iter().enumerate().take(held) {
        w.asm.load_pointer(r, asm::RDI, n);
    }
    w.asm.load_pointer(POINTERS[held], asm::RDI, body.pointers);
    if held < body.pointers {
        w.asm.keep_table(TABLE);
    }
    for i in hoisted {
        let to = w.home[i]?;
        w.materialise(i, to);
    }
    for &(i, first) in &w.accumulators.clone() {
        let Vop::Fold(_, p, _) = body.ops[i] else { return None };
        // The accumulator is 64 lanes in a row; rdi is still the table, so address without it.
        w.asm.clear_offset();
        let p = w.pointer(p);
        for slot in 0..4 {
            w.asm.op(asm::MOV_LOAD, first + slot, 0, Rm::Stream(p, slot), Under::All);
        }
    }
    w.asm.clear_offset();
    w.asm.compare_offset();
    let skip = w.asm.jump(0x83);
    let start = w.asm.code.len();
    for slot in 0..4 {
        w.slot(slot, false)?;
    }
    w.asm.advance(64);
    w.asm.compare_offset();
    w.asm.jump_back(0x82, start);
    w.asm.land(skip);
    let mut ends = vec![];
    for slot in 0..4 {
        w.asm.test_mask();
        ends.push(w.asm.jump(0x84));
        w.asm.next_mask();
        w.slot(slot, true)?;
    }
    for e in ends {
        w.asm.land(e);
    }
    for &(i, first) in &w.accumulators.clone() {
        let Vop::Fold(_, p, _) = body.ops[i] else { return None };
        w.asm.clear_offset();
        let p = w.pointer(p);
        for slot in 0..4 {
            w.asm.op(asm::MOV_STORE, first + slot, 0, Rm::Stream(p, slot), Under::All);
        }
    }
    for &r in POINTERS.iter().take(used).skip(FIRST_SAVED).rev() {
        w.asm.pop(r);
    }
    w.asm.ret();
    Some((w.asm.code, w.constants.into_iter().map(|c| c.1).collect()))
}

struct Writer<'a> {
    asm: Asm,
    body: &'a Body,
    last: Vec<usize>,
    /// The register (vector or mask) of each value that is at hand.
    home: Vec<Option<Zmm>>,
    /// Those that stay for the whole loop.
    fixed: Vec<bool>,
    constants: Vec<(V, u32)>,
    free: Vec<Zmm>,
    free_masks: Vec<K>,
    accumulators: Vec<(V, Zmm)>,
    /// Pointers that have registers of their own.
    held: usize,
}

impl Writer<'_> {
    fn pool(&self) -> Gpr {
        POINTERS[self.held]
    }

    /// The register of a pointer.
    fn pointer(&mut self, p: usize) -> Gpr {
        if p < self.held {
            return POINTERS[p];
        }
        self.asm.load_pointer(SPARE, TABLE, p);
        SPARE
    }

    /// The place of a constant or an invariant in the pool.
    fn in_pool(&self, v: V) -> Option<u8> {
        match self.body.ops[v] {
            Vop::Invariant(i) => Some((self.constants.len() + i) as u8),
            _ => self.constants.iter().position(|c| c.0 == v).map(|at| at as u8),
        }
    }

    /// A constant or an invariant into a register.
    fn materialise(&mut self, v: V, to: Zmm) {
        if let Some(at) = self.in_pool(v) {
            self.asm.op(asm::BROADCAST, to, 0, Rm::Broadcast(self.pool(), at), Under::All);
        }
    }

    /// A value in a register.
    fn register(&mut self, v: V) -> Option<Zmm> {
        if let Some(r) = self.home[v] {
            return Some(r);
        }
        // A constant or an invariant that got no register of its own.
        let r = self.free.pop()?;
        self.materialise(v, r);
        self.home[v] = Some(r);
        Some(r)
    }

    /// A value as a second operand.
    fn rm(&mut self, v: V) -> Option<Rm> {
        if self.home[v].is_none()
            && let Some(at) = self.in_pool(v)
        {
            return Some(Rm::Broadcast(self.pool(), at));
        }
        self.register(v).map(Rm::Reg)
    }

    /// Frees what operation `i` was the last to read.
    fn release(&mut self, i: V) {
        for o in Body::operands(&self.body.ops[i]) {
            if self.last[o] == i
                && !self.fixed[o]
                && let Some(r) = self.home[o].take()
            {
                if is_mask(&self.body.ops[o]) {
                    self.free_masks.push(r);
                } else {
                    self.free.push(r);
                }
            }
        }
    }

    fn slot(&mut self, slot: u8, masked: bool) -> Option<()> {
        let zeroing = if masked { Under::Zeroing(TAIL) } else { Under::All };
        let merging = if masked { Under::Merging(TAIL) } else { Under::All };
        for i in 0..self.body.ops.len() {
            match self.body.ops[i] {
                Vop::Const(_) | Vop::Invariant(_) => continue,
                Vop::In(p) => {
                    let r = self.free.pop()?;
                    // In the tail the running element is the group's first: slots count from there as well.
                    let p = self.pointer(p);
                    self.asm.op(asm::MOV_LOAD, r, 0, Rm::Stream(p, slot), zeroing);
                    self.home[i] = Some(r);
                }
                Vop::InMask(p) => {
                    let k = self.free_masks.pop()?;
                    let p = self.pointer(p);
                    self.asm.op(asm::WIDEN_BYTES, SCRATCH, 0, Rm::Bytes(p, slot), zeroing);
                    self.asm.op(asm::TEST, k, SCRATCH, Rm::Reg(SCRATCH), Under::All);
                    self.home[i] = Some(k);
                }
                Vop::Two(op, a, b) => {
                    let x = self.register(a)?;
                    let y = self.rm(b)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(op.op(), r, x, y, Under::All);
                    self.home[i] = Some(r);
                }
                Vop::Sqrt(a) => {
                    let x = self.rm(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(asm::SQRT, r, 0, x, Under::All);
                    self.home[i] = Some(r);
                }
                Vop::Shift(left, a, count) => {
                    let x = self.register(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.shift(left, r, x, count);
                    self.home[i] = Some(r);
                }
                Vop::Fma(a, b, c) => {
                    let x = self.register(a)?;
                    let y = self.register(b)?;
                    let z = self.rm(c)?;
                    // The result takes the first operand's place, or that of a copy if it lives on.
                    let ends = self.last[a] == i && !self.fixed[a] && a != b && a != c;
                    let r = if ends { x } else { self.free.pop()? };
                    if ends {
                        self.home[a] = None;
                    } else {
                        self.asm.op(asm::MOV_LOAD, r, 0, Rm::Reg(x), Under::All);
                    }
                    self.asm.op(asm::FMA213, r, y, z, Under::All);
                    self.release(i);
                    self.home[i] = Some(r);
                }
                Vop::Compare(predicate, a, b) => {
                    let x = self.register(a)?;
                    let y = self.rm(b)?;
                    let k = self.free_masks.pop()?;
                    self.asm.compare(predicate, k, x, y);
                    self.release(i);
                    self.home[i] = Some(k);
                }
                Vop::Select(m, a, b) => {
                    let k = self.home[m]?;
                    let (no, yes) = (self.register(b)?, self.rm(a)?);
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(asm::BLEND, r, no, yes, Under::Merging(k));
                    self.home[i] = Some(r);
                }
                Vop::Out(p, a) => {
                    let x = self.register(a)?;
                    let p = self.pointer(p);
                    self.asm.op(asm::MOV_STORE, x, 0, Rm::Stream(p, slot), merging);
                    self.release(i);
                }
                Vop::Prefetch(p, bytes, write) => {
                    if !masked {
                        let p = self.pointer(p);
                        self.asm.prefetch(p, bytes + 64 * slot as i32, write);
                    }
                }
                Vop::Fold(how, _, a) => {
                    let acc = self.accumulators.iter().find(|f| f.0 == i)?.1 + slot;
                    let x = self.rm(a)?;
                    match how {
                        Folding::Sum => self.asm.op(asm::ADD, acc, acc, x, merging),
                        Folding::Max | Folding::Min => {
                            let op = if how == Folding::Max { asm::MAX } else { asm::MIN };
                            self.asm.op(op, SCRATCH, acc, x, Under::All);
                            // What is a NaN already stays one.
                            let k = self.free_masks.pop()?;
                            self.asm.compare(3, k, acc, Rm::Reg(acc));
                            self.asm.op(asm::MOV_LOAD, SCRATCH, 0, Rm::Reg(acc), Under::Merging(k));
                            self.free_masks.push(k);
                            self.asm.op(asm::MOV_LOAD, acc, 0, Rm::Reg(SCRATCH), merging);
                        }
                    }
                    self.release(i);
                }
            }
            // What nobody reads is not kept either.
            let defines = !matches!(self.body.ops[i], Vop::Out(..) | Vop::Fold(..) | Vop::Prefetch(..));
            if defines
                && self.last[i] <= i
                && let Some(r) = self.home[i].take()
            {
                if is_mask(&self.body.ops[i]) { self.free_masks.push(r) } else { self.free.push(r) }
            }
        }
        Some(())
    }
}

fn is_mask(op: &Vop) -> bool {
    matches!(op, Vop::InMask(_) | Vop::Compare(..))
}
