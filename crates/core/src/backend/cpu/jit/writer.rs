//! From operations to instructions: registers, constants, and one vector's worth of a body at a time.

use super::{
    asm::{self, Asm, Gpr, K, POINTERS, Rm, Under, Zmm},
    body::{Body, Folding, Form, Logic, V, Vop},
};

/// Registers that the straight-line code may use freely; the rest hold accumulators, constants and invariants.
const TEMPORARIES: usize = 11;
const SCRATCH: Zmm = 31;
const TAIL: K = 1;
/// The most pointers of a loop and its pool.
pub const MOST_POINTERS: usize = 24;
/// Where pointers are loaded from, and what they are loaded into, when a loop has more than registers.
pub const TABLE: Gpr = POINTERS[POINTERS.len() - 2];
const SPARE: Gpr = POINTERS[POINTERS.len() - 1];

/// Where things are that the code of a body finds in memory.
pub struct Outside {
    /// The register that holds the table when pointers are loaded from it.
    pub table: Gpr,
    /// The place of each of the body's pointers in the table.
    pub places: Vec<usize>,
    /// The place of the pool's.
    pub pool: usize,
    /// The place of the body's constants in the pool, where numbers come first; else constants do.
    pub constants: Option<usize>,
}

/// Writes the code of one body.
pub struct Writer<'a> {
    /// The code.
    pub asm: Asm,
    body: &'a Body,
    outside: Outside,
    last: Vec<usize>,
    /// The register (vector or mask) of each value that is at hand.
    home: Vec<Option<Zmm>>,
    /// Those that stay for the whole loop.
    fixed: Vec<bool>,
    constants: Vec<(V, u64)>,
    free: Vec<Zmm>,
    free_masks: Vec<K>,
    /// The first of the registers (one a slot) of each reduction.
    pub accumulators: Vec<(V, Zmm)>,
    /// Pointers that have registers of their own.
    pub held: usize,
}

impl<'a> Writer<'a> {
    /// Gives out registers; none if there are too few.
    pub fn new(body: &'a Body, mut asm: Asm, outside: Outside) -> Option<Writer<'a>> {
        asm.wide = body.wide;
        // Beyond what registers can hold, pointers are loaded where they are used; two registers serve that.
        let held = if body.pointers < POINTERS.len() { body.pointers } else { POINTERS.len() - 3 };
        let n = body.ops.len();
        let (mut uses, mut last) = (vec![0usize; n], vec![0usize; n]);
        for (i, op) in body.ops.iter().enumerate() {
            for o in Body::operands(op) {
                uses[o] += 1;
                last[o] = i;
            }
        }
        let mut w = Writer {
            asm,
            body,
            outside,
            last,
            home: vec![None; n],
            fixed: vec![false; n],
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
                next = next.checked_sub(w.asm.slots())?;
                w.accumulators.push((i, next));
            }
        }
        if (next as usize) < TEMPORARIES {
            return None;
        }
        let mut hoist: Vec<V> = (0..n).filter(|&i| body.ops[i].stays()).collect();
        hoist.sort_by_key(|&i| std::cmp::Reverse(uses[i]));
        for &i in &hoist {
            if let Vop::Const(bits) = body.ops[i] {
                w.constants.push((i, bits));
            }
        }
        if w.outside.constants.unwrap_or(0) + w.constants.len() + body.invariants > 127 {
            return None;
        }
        for i in hoist {
            if next as usize > TEMPORARIES && uses[i] > 0 {
                next -= 1;
                w.home[i] = Some(next);
                w.fixed[i] = true;
            }
        }
        w.free = (0..next).rev().collect();
        Some(w)
    }

    /// The constants, in their order in the pool.
    pub fn constants(&self) -> impl Iterator<Item = u64> {
        self.constants.iter().map(|c| c.1)
    }

    /// Loads the pointers that have registers, and the pool's, from the table in `from`.
    pub fn load_pointers(&mut self, from: Gpr) {
        for (n, &r) in POINTERS.iter().enumerate().take(self.held) {
            self.asm.load_pointer(r, from, self.outside.places[n]);
        }
        self.asm.load_pointer(self.pool(), from, self.outside.pool);
    }

    /// Loads what stays the same all along.
    pub fn load_fixed(&mut self) {
        for v in 0..self.body.ops.len() {
            if self.fixed[v]
                && let Some(to) = self.home[v]
            {
                self.materialise(v, to);
            }
        }
    }

    fn pool(&self) -> Gpr {
        POINTERS[self.held]
    }

    /// The register of a pointer.
    pub fn pointer(&mut self, p: usize) -> Gpr {
        if p < self.held {
            return POINTERS[p];
        }
        self.asm.load_pointer(SPARE, self.outside.table, self.outside.places[p]);
        SPARE
    }

    /// Where a value that stays the same lies.
    fn in_memory(&mut self, v: V) -> Option<Rm> {
        let at = match self.body.ops[v] {
            Vop::At(p) => return Some(Rm::Broadcast(self.pointer(p), 0)),
            Vop::Invariant(i) if self.outside.constants.is_some() => i,
            Vop::Invariant(i) => self.constants.len() + i,
            _ => self.outside.constants.unwrap_or(0) + self.constants.iter().position(|c| c.0 == v)?,
        };
        Some(Rm::Broadcast(self.pool(), at as u8))
    }

    /// What stays the same into a register.
    fn materialise(&mut self, v: V, to: Zmm) {
        if let Some(at) = self.in_memory(v) {
            self.asm.op(asm::BROADCAST, to, 0, at, Under::All);
        }
    }

    /// A value in a register.
    fn register(&mut self, v: V) -> Option<Zmm> {
        if let Some(r) = self.home[v] {
            return Some(r);
        }
        // What stays the same and got no register of its own.
        let r = self.free.pop()?;
        self.materialise(v, r);
        self.home[v] = Some(r);
        Some(r)
    }

    /// A value as a second operand.
    fn rm(&mut self, v: V) -> Option<Rm> {
        if self.home[v].is_none()
            && let Some(at) = self.in_memory(v)
        {
            return Some(at);
        }
        self.register(v).map(Rm::Reg)
    }

    /// So many registers of each accumulator as they begin.
    pub fn start_accumulators(&mut self, vectors: u8) -> Option<()> {
        for (i, first) in self.accumulators.clone() {
            let Vop::Fold(how, ..) = self.body.ops[i] else { return None };
            let start = self.constants.iter().find(|c| c.1 == how.start(self.body.wide))?.0;
            self.materialise(start, first);
            for n in 1..vectors {
                self.asm.op(asm::MOV_LOAD, first + n, 0, Rm::Reg(first), Under::All);
            }
        }
        Some(())
    }

    /// The lanes of all accumulators pairwise into one, and those into their places among the numbers. Registers that no
    /// element reached would change nothing.
    pub fn finish_accumulators(&mut self, vectors: u8) -> Option<()> {
        for (i, a) in self.accumulators.clone() {
            let Vop::Fold(how, number, _) = self.body.ops[i] else { return None };
            let mut half = self.asm.slots() / 2;
            while half > 0 {
                let mut low = (0..half).filter(|n| n + half < vectors);
                low.try_for_each(|n| self.fold(how, a + n, Rm::Reg(a + n + half), Under::All))?;
                half /= 2;
            }
            let mut far = self.asm.lanes() as u8 / 2;
            while far > 0 {
                self.asm.fold_lanes(far, a + 1, a);
                self.fold(how, a, Rm::Reg(a + 1), Under::All)?;
                far /= 2;
            }
            self.asm.op(asm::MOV_ONE, a, 0, Rm::Broadcast(self.pool(), number as u8), Under::All);
        }
        Some(())
    }

    /// `acc = op(acc, x)`.
    fn fold_by(&mut self, op: asm::Op, acc: Zmm, x: Rm, under: Under) -> Option<()> {
        self.asm.op(op, acc, acc, x, under);
        Some(())
    }

    /// `acc = how(acc, x)`.
    fn fold(&mut self, how: Folding, acc: Zmm, x: Rm, under: Under) -> Option<()> {
        let op = match how {
            Folding::Max => asm::MAX,
            Folding::Min => asm::MIN,
            Folding::Sum => return self.fold_by(asm::ADD, acc, x, under),
            Folding::Prod => return self.fold_by(asm::MUL, acc, x, under),
            Folding::SumI => return self.fold_by(asm::ADD_I, acc, x, under),
            Folding::ProdI => return self.fold_by(asm::MUL_I, acc, x, under),
            Folding::MaxI => return self.fold_by(asm::MAX_I, acc, x, under),
            Folding::MinI => return self.fold_by(asm::MIN_I, acc, x, under),
        };
        // What is a NaN already stays one.
        let k = self.free_masks.pop()?;
        if under == Under::All {
            self.asm.compare(7, k, acc, Rm::Reg(acc));
            self.asm.op(op, acc, acc, x, Under::Merging(k));
        } else {
            self.asm.op(op, SCRATCH, acc, x, Under::All);
            self.asm.compare(3, k, acc, Rm::Reg(acc));
            self.asm.op(asm::MOV_LOAD, SCRATCH, 0, Rm::Reg(acc), Under::Merging(k));
            self.asm.op(asm::MOV_LOAD, acc, 0, Rm::Reg(SCRATCH), under);
        }
        self.free_masks.push(k);
        Some(())
    }

    /// Writes lanes in less room.
    fn narrow(&mut self, form: Form, p: usize, a: V, slot: u8, under: Under) -> Option<()> {
        let x = self.register(a)?;
        let p = self.pointer(p);
        match form {
            Form::Half => self.asm.halve(x, Rm::Words(p, slot), under),
            Form::Single => self.asm.store_floats(x, SCRATCH, Rm::Doubles(p, slot), under),
            Form::Ints => self.asm.op(asm::NARROW_INTS, x, 0, Rm::Doubles(p, slot), under),
            Form::Words(_) => self.asm.op(asm::NARROW_WORDS, x, 0, Rm::Words(p, slot), under),
            Form::Bytes(_) => self.asm.op(asm::NARROW_BYTES, x, 0, Rm::Bytes(p, slot), under),
        }
        Some(())
    }

    /// Frees what operation `i` was the last to read.
    fn release(&mut self, i: V) {
        for o in Body::operands(&self.body.ops[i]) {
            if self.last[o] == i
                && !self.fixed[o]
                && let Some(r) = self.home[o].take()
            {
                if self.body.ops[o].is_mask() {
                    self.free_masks.push(r);
                } else {
                    self.free.push(r);
                }
            }
        }
    }

    /// The body for the vector at this slot of a group, all of it or the lanes of the mask.
    pub fn slot(&mut self, slot: u8, masked: bool) -> Option<()> {
        let zeroing = if masked { Under::Zeroing(TAIL) } else { Under::All };
        let merging = if masked { Under::Merging(TAIL) } else { Under::All };
        for i in 0..self.body.ops.len() {
            match self.body.ops[i] {
                Vop::Const(_) | Vop::Invariant(_) | Vop::At(_) => continue,
                Vop::In(p) => {
                    let r = self.free.pop()?;
                    // In the tail the running element is the group's first: slots count from there as well.
                    let p = self.pointer(p);
                    self.asm.op(asm::MOV_LOAD, r, 0, Rm::Stream(p, slot), zeroing);
                    self.home[i] = Some(r);
                }
                Vop::InWhere(p, m) => {
                    let (mask, r) = (self.home[m]?, self.free.pop()?);
                    let p = self.pointer(p);
                    if masked {
                        let k = self.free_masks.pop()?;
                        self.asm.masks(Logic::And as u8, k, mask, TAIL);
                        self.asm.op(asm::MOV_LOAD, r, 0, Rm::Stream(p, slot), Under::Zeroing(k));
                        self.free_masks.push(k);
                    } else {
                        self.asm.op(asm::MOV_LOAD, r, 0, Rm::Stream(p, slot), Under::Zeroing(mask));
                    }
                    self.release(i);
                    self.home[i] = Some(r);
                }
                Vop::Widen(form, p) => {
                    let r = self.free.pop()?;
                    let p = self.pointer(p);
                    let (op, at) = match form {
                        Form::Half => (asm::FROM_HALF, Rm::Words(p, slot)),
                        Form::Single => (asm::WIDEN_FLOATS, Rm::Doubles(p, slot)),
                        Form::Ints => (asm::WIDEN_INTS, Rm::Doubles(p, slot)),
                        Form::Words(false) => (asm::WIDEN_WORDS, Rm::Words(p, slot)),
                        Form::Words(true) => (asm::WIDEN_SIGNED_WORDS, Rm::Words(p, slot)),
                        Form::Bytes(false) => (asm::WIDEN_BYTES, Rm::Bytes(p, slot)),
                        Form::Bytes(true) => (asm::WIDEN_SIGNED_BYTES, Rm::Bytes(p, slot)),
                    };
                    self.asm.op(op, r, 0, at, zeroing);
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
                Vop::ToFloat(a) | Vop::ToInteger(a) | Vop::Round(_, a) => {
                    let x = self.rm(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    match self.body.ops[i] {
                        Vop::Round(how, _) => self.asm.round(how, r, x),
                        Vop::ToInteger(_) => self.asm.op(asm::TO_INTEGER, r, 0, x, Under::All),
                        _ => self.asm.op(asm::TO_FLOAT, r, 0, x, Under::All),
                    }
                    self.home[i] = Some(r);
                }
                Vop::Halve(a) => {
                    let x = self.register(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.halve(x, Rm::Reg(SCRATCH), Under::All);
                    self.asm.op(asm::FROM_HALF, r, 0, Rm::Reg(SCRATCH), Under::All);
                    self.home[i] = Some(r);
                }
                Vop::Single(a) => {
                    let x = self.rm(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(asm::TO_FLOATS, SCRATCH, 0, x, Under::All);
                    self.asm.op(asm::WIDEN_FLOATS, r, 0, Rm::Reg(SCRATCH), Under::All);
                    self.home[i] = Some(r);
                }
                Vop::Shift(how, a, count) => {
                    let x = self.register(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.shift(how as u8, r, x, count);
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
                Vop::Compare(predicate, a, b) | Vop::CompareI(predicate, a, b) => {
                    let x = self.register(a)?;
                    let y = self.rm(b)?;
                    let k = self.free_masks.pop()?;
                    match self.body.ops[i] {
                        Vop::Compare(..) => self.asm.compare(predicate, k, x, y),
                        _ => self.asm.compare_i(predicate, k, x, y),
                    }
                    self.release(i);
                    self.home[i] = Some(k);
                }
                Vop::Masks(how, a, b) => {
                    let (x, y) = (self.home[a]?, self.home[b]?);
                    self.release(i);
                    let k = self.free_masks.pop()?;
                    match how {
                        Logic::Not => self.asm.mask_not(k, x),
                        Logic::And | Logic::Or | Logic::Xor | Logic::Xnor => self.asm.masks(how as u8, k, x, y),
                    }
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
                Vop::Narrow(form, p, a) => {
                    self.narrow(form, p, a, slot, merging)?;
                    self.release(i);
                }
                Vop::NarrowOne(form, p, a) => {
                    let k = self.free_masks.pop()?;
                    self.asm.first_lane(k);
                    self.narrow(form, p, a, slot, Under::Merging(k))?;
                    self.free_masks.push(k);
                    self.release(i);
                }
                Vop::OutMask(p, m, ones) => {
                    let (k, ones) = (self.home[m]?, self.register(ones)?);
                    self.asm.op(asm::MOV_LOAD, SCRATCH, 0, Rm::Reg(ones), Under::Zeroing(k));
                    let p = self.pointer(p);
                    self.asm.op(asm::NARROW_BYTES, SCRATCH, 0, Rm::Bytes(p, slot), merging);
                    self.release(i);
                }
                Vop::OutOne(p, after, a) => {
                    let x = self.register(a)?;
                    let p = self.pointer(p);
                    self.asm.op(asm::MOV_ONE, x, 0, Rm::Broadcast(p, after), Under::All);
                    self.release(i);
                }
                Vop::Keep(number, a) => {
                    let x = self.register(a)?;
                    self.asm.op(asm::MOV_ONE, x, 0, Rm::Broadcast(self.pool(), number as u8), Under::All);
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
                    self.fold(how, acc, x, merging)?;
                    self.release(i);
                }
            }
            // What nobody reads is not kept either.
            if self.body.ops[i].defines()
                && self.last[i] <= i
                && let Some(r) = self.home[i].take()
            {
                if self.body.ops[i].is_mask() { self.free_masks.push(r) } else { self.free.push(r) }
            }
        }
        Some(())
    }
}
