//! From operations to instructions: registers, constants and pointers. What is written with them is in [`super::emit`].

use super::{
    asm::{self, Asm, Gpr, K, POINTERS, Ptr, Rm, Under, Zmm},
    body::{Body, V, Vop},
};

/// Registers that the straight-line code may use freely, the first number of them that is enough; the rest hold accumulators,
/// constants and invariants.
pub const TEMPORARIES: [usize; 3] = [11, 19, 29];
pub(super) const SCRATCH: Zmm = 31;
/// The mask of the lanes that a row's last vector has.
pub(super) const TAIL: K = 1;
/// The most pointers of a loop and its pool.
pub const MOST_POINTERS: usize = 24;
/// Where pointers are loaded from, and what they are loaded into, when a loop has more than registers.
pub const TABLE: Gpr = POINTERS[POINTERS.len() - 2];
const SPARE: Gpr = POINTERS[POINTERS.len() - 1];

/// Where things are that the code of a body finds in memory.
pub struct Outside {
    /// The register that holds the table when pointers are loaded from it.
    pub table: Gpr,
    /// The places in the table that the body's pointers count from.
    pub places: Vec<usize>,
    /// For each of the body's pointers, which of those, and how many bytes on.
    pub spots: Vec<(usize, i32)>,
    /// The place of the pool's.
    pub pool: usize,
    /// The place of the body's constants in the pool, where numbers come first; else constants do.
    pub constants: Option<usize>,
}

/// Writes the code of one body.
pub struct Writer<'a> {
    /// The code.
    pub asm: Asm,
    pub(super) body: &'a Body,
    outside: Outside,
    pub(super) last: Vec<usize>,
    /// Whether anybody reads a value.
    pub(super) read: Vec<bool>,
    /// The register (vector or mask) of each value that is at hand.
    pub(super) home: Vec<Option<Zmm>>,
    /// Those that stay for the whole loop.
    pub(super) fixed: Vec<bool>,
    pub(super) constants: Vec<(V, u64)>,
    pub(super) free: Vec<Zmm>,
    pub(super) free_masks: Vec<K>,
    /// The first of the registers (one a slot) of each reduction.
    pub accumulators: Vec<(V, Zmm)>,
    /// The first of the registers (one a vector) of each accumulator that stays, by its pointer.
    stay: Vec<(usize, Zmm)>,
    /// Places that have registers of their own.
    pub held: usize,
}

impl<'a> Writer<'a> {
    /// Gives out registers; none if there are too few.
    pub fn new(body: &'a Body, mut asm: Asm, outside: Outside, temporaries: usize) -> Option<Writer<'a>> {
        asm.width = body.width;
        // Beyond what registers can hold, pointers are loaded where they are used; two registers serve that.
        let places = outside.places.len();
        let held = if places < POINTERS.len() { places } else { POINTERS.len() - 3 };
        let n = body.ops.len();
        let (mut uses, mut last) = (vec![0usize; n], vec![0usize; n]);
        for (i, op) in body.ops.iter().enumerate().rev() {
            // What nobody reads is not computed either.
            if op.defines() && uses[i] == 0 {
                continue;
            }
            for o in Body::operands(op) {
                uses[o] += 1;
                last[o] = last[o].max(i);
            }
        }
        let read = uses.iter().map(|&n| n > 0).collect();
        let mut w = Writer {
            asm,
            body,
            outside,
            last,
            read,
            home: vec![None; n],
            fixed: vec![false; n],
            constants: vec![],
            free: vec![],
            free_masks: (2..8).collect(),
            accumulators: vec![],
            stay: vec![],
            held,
        };
        // Fixed registers from the top: accumulators first, then what the loop would load again and again.
        let mut next: Zmm = SCRATCH;
        for (i, op) in body.ops.iter().enumerate() {
            if let Vop::Fold(..) = op {
                next = next.checked_sub(w.asm.slots())?;
                w.accumulators.push((i, next));
            }
            if let Vop::Held(p) = *op {
                next = next.checked_sub(body.vectors)?;
                w.stay.push((p, next));
                w.fixed[i] = true;
            }
        }
        if (next as usize) < temporaries.min(TEMPORARIES[0]) {
            return None;
        }
        // Where one piece of code does all rows, what a pointer points to is another number for each.
        let moves = |op: &Vop| body.vectors > 0 && matches!(op, Vop::At(_));
        let mut hoist: Vec<V> = (0..n).filter(|&i| body.ops[i].stays() && !moves(&body.ops[i])).collect();
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
            if next as usize > temporaries && uses[i] > 0 {
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
                && self.body.ops[v].stays()
                && let Some(to) = self.home[v]
            {
                self.materialise(v, to);
            }
        }
    }

    pub(super) fn pool(&self) -> Gpr {
        POINTERS[self.held]
    }

    /// Where a pointer points.
    pub fn pointer(&mut self, p: usize) -> Ptr {
        let (place, far) = self.outside.spots[p];
        if place < self.held {
            return Ptr { base: POINTERS[place], far };
        }
        self.asm.load_pointer(SPARE, self.outside.table, self.outside.places[place]);
        Ptr { base: SPARE, far }
    }

    /// The first register of the accumulator that operation `i` reads or writes.
    pub(super) fn held_in(&self, i: V) -> Option<Zmm> {
        let (Vop::Held(p) | Vop::Hold(p, _)) = self.body.ops[i] else { return None };
        self.stay.iter().find(|s| s.0 == p).map(|s| s.1)
    }

    /// Moves the accumulators that stay from memory or to it, of a row of so many elements; the mask of its last vector is
    /// loaded.
    pub fn move_held(&mut self, n: usize, load: bool) {
        for (p, first) in self.stay.clone() {
            let at = self.pointer(p);
            for slot in 0..self.body.vectors {
                let whole = (slot as usize + 1) * self.asm.lanes() <= n;
                let (op, part) =
                    if load { (asm::MOV_LOAD, Under::Zeroing(TAIL)) } else { (asm::MOV_STORE, Under::Merging(TAIL)) };
                self.asm.op(op, first + slot, 0, Rm::Stream(at, slot), if whole { Under::All } else { part });
            }
        }
    }

    /// Where a value that stays the same lies.
    fn in_memory(&mut self, v: V) -> Option<Rm> {
        let at = match self.body.ops[v] {
            Vop::At(p) => return Some(Rm::Broadcast(self.pointer(p), 0)),
            Vop::Invariant(i) if self.outside.constants.is_some() => i,
            Vop::Invariant(i) => self.constants.len() + i,
            _ => self.outside.constants.unwrap_or(0) + self.constants.iter().position(|c| c.0 == v)?,
        };
        Some(Rm::Broadcast(self.pool().into(), at as u8))
    }

    /// What stays the same into a register.
    pub(super) fn materialise(&mut self, v: V, to: Zmm) {
        if let Some(at) = self.in_memory(v) {
            self.asm.op(asm::BROADCAST, to, 0, at, Under::All);
        }
    }

    /// A value in a register.
    pub(super) fn register(&mut self, v: V) -> Option<Zmm> {
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
    pub(super) fn rm(&mut self, v: V) -> Option<Rm> {
        // Instructions on bytes and words do not spread what they read.
        if self.home[v].is_none()
            && !self.body.width.many()
            && let Some(at) = self.in_memory(v)
        {
            return Some(at);
        }
        self.register(v).map(Rm::Reg)
    }

    /// Frees what operation `i` was the last to read.
    pub(super) fn release(&mut self, i: V) {
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
}
