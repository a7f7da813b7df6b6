//! From operations to instructions: one vector's worth of a body at a time.

use super::{
    asm::{self, Rm, Under, Zmm},
    body::{Direction, Form, Logic, V, Vop},
    width::Width,
    writer::{SCRATCH, TAIL, Writer},
};

impl Writer<'_> {
    /// Writes lanes in less room.
    fn narrow(&mut self, form: Form, p: usize, a: V, slot: u8, under: Under) -> Option<()> {
        let x = self.register(a)?;
        if self.goes_past(p, under) {
            return self.narrow_past(form, p, x, slot);
        }
        let p = self.pointer(p);
        // Wide lanes are floats first.
        let length = if self.body.wide() { asm::HALF } else { asm::WHOLE };
        if self.body.wide() && matches!(form, Form::Half | Form::Upper) {
            self.asm.op(asm::TO_FLOATS, SCRATCH, 0, Rm::Reg(x), Under::All);
        }
        let float = if self.body.wide() { SCRATCH } else { x };
        match form {
            Form::Half => self.asm.store_halves(float, Rm::Words(p, slot), under, length),
            Form::Upper => {
                self.upper_words(float, length)?;
                self.asm.store_words(SCRATCH, Rm::Words(p, slot), under, length);
            }
            Form::Single => self.asm.store_floats(x, SCRATCH, Rm::Doubles(p, slot), under),
            Form::Ints => self.asm.op(asm::NARROW_INTS, x, 0, Rm::Doubles(p, slot), under),
            Form::Words(_) => self.asm.op(asm::NARROW_WORDS, x, 0, Rm::Words(p, slot), under),
            Form::Bytes(_) => self.asm.op(asm::NARROW_BYTES, x, 0, Rm::Bytes(p, slot), under),
        }
        Some(())
    }

    /// Floats as words in the scratch register (which they may be in themselves).
    pub(super) fn upper_words(&mut self, x: Zmm, length: u8) -> Option<()> {
        let (spare, k) = ([self.free.pop()?, self.free.pop()?], self.free_masks.pop()?);
        let from = if x == SCRATCH { self.free.pop()? } else { x };
        if from != x {
            self.asm.op(asm::MOV_LOAD, from, 0, Rm::Reg(x), Under::All);
        }
        self.asm.upper_words(from, SCRATCH, spare, k, length);
        if from != x {
            self.free.push(from);
        }
        self.free.extend(spare);
        self.free_masks.push(k);
        Some(())
    }

    /// The body for the vector at this slot of a group, all of it or the lanes of the mask.
    pub fn slot(&mut self, slot: u8, masked: bool) -> Option<()> {
        let zeroing = if masked { Under::Zeroing(TAIL) } else { Under::All };
        let merging = if masked { Under::Merging(TAIL) } else { Under::All };
        for i in 0..self.body.ops.len() {
            if self.body.ops[i].defines() && !self.read[i] {
                continue;
            }
            match self.body.ops[i] {
                Vop::Const(_) | Vop::Invariant(_) | Vop::At(_) => continue,
                Vop::In(p) => {
                    let r = self.free.pop()?;
                    // In the tail the running element is the group's first: slots count from there as well.
                    let p = self.pointer(p);
                    self.asm.op(asm::MOV_LOAD, r, 0, Rm::Stream(p, slot), zeroing);
                    self.home[i] = Some(r);
                }
                Vop::Held(_) => self.home[i] = Some(self.held_in(i)? + slot),
                Vop::Hold(_, a) => {
                    let (x, to) = (self.register(a)?, self.held_in(i)? + slot);
                    self.asm.op(asm::MOV_LOAD, to, 0, Rm::Reg(x), Under::All);
                    self.release(i);
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
                Vop::Widen(form @ (Form::Half | Form::Upper), p) if self.body.wide() => {
                    let r = self.free.pop()?;
                    let p = self.pointer(p);
                    self.asm.load_sixteen(form == Form::Half, SCRATCH, Rm::Words(p, slot), zeroing);
                    self.asm.op(asm::WIDEN_FLOATS, r, 0, Rm::Reg(SCRATCH), Under::All);
                    self.home[i] = Some(r);
                }
                Vop::Widen(form, p) => {
                    let r = self.free.pop()?;
                    let p = self.pointer(p);
                    let (op, at) = match form {
                        Form::Half => (asm::FROM_HALF, Rm::Words(p, slot)),
                        Form::Upper => return None, // words are shifted
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
                    if self.body.width == Width::Byte {
                        self.asm.op(asm::MOV_LOAD, SCRATCH, 0, Rm::Stream(p, slot), zeroing);
                    } else {
                        self.asm.op(asm::WIDEN_BYTES, SCRATCH, 0, Rm::Bytes(p, slot), zeroing);
                    }
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
                Vop::Sqrt(a) | Vop::Exponent(a) | Vop::Mantissa(a) => {
                    let x = self.rm(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    match self.body.ops[i] {
                        Vop::Exponent(_) => self.asm.op(asm::EXPONENT, r, 0, x, Under::All),
                        Vop::Mantissa(_) => self.asm.mantissa(r, x),
                        _ => self.asm.op(asm::SQRT, r, 0, x, Under::All),
                    }
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
                Vop::LookUp(table, a) => {
                    let x = self.register(a)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(asm::LOOK_UP, r, x, Rm::Table(table), Under::All);
                    self.home[i] = Some(r);
                }
                // Wide lanes are rounded where they are stored.
                Vop::Halve(_) | Vop::Upper(_) if self.body.wide() => return None,
                Vop::Upper(a) => {
                    let x = self.register(a)?;
                    self.upper_words(x, asm::WHOLE)?;
                    self.release(i);
                    let r = self.free.pop()?;
                    self.asm.op(asm::WIDEN_WORDS, r, 0, Rm::Reg(SCRATCH), Under::All);
                    self.asm.shift(Direction::Left as u8, r, r, 16);
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
                Vop::Fma(a, b, c) | Vop::Less(a, b, c) | Vop::Signed(a, b, c) => {
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
                    match self.body.ops[i] {
                        Vop::Less(..) => self.asm.op(asm::FNMA213, r, y, z, Under::All),
                        Vop::Signed(..) => self.asm.choose_bits(r, y, z),
                        _ => self.asm.op(asm::FMA213, r, y, z, Under::All),
                    }
                    self.release(i);
                    self.home[i] = Some(r);
                }
                Vop::Compare(predicate, a, b) | Vop::CompareI(predicate, a, b) | Vop::CompareU(predicate, a, b) => {
                    let x = self.register(a)?;
                    let y = self.rm(b)?;
                    let k = self.free_masks.pop()?;
                    match self.body.ops[i] {
                        Vop::Compare(..) => self.asm.compare(predicate, k, x, y),
                        Vop::CompareU(..) => self.asm.compare_u(predicate, k, x, y),
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
                    let store = if self.goes_past(p, merging) { asm::MOV_PAST } else { asm::MOV_STORE };
                    let p = self.pointer(p);
                    self.asm.op(store, x, 0, Rm::Stream(p, slot), merging);
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
                    let past = self.goes_past(p, merging);
                    let p = self.pointer(p);
                    if self.body.width == Width::Byte {
                        let store = if past { asm::MOV_PAST } else { asm::MOV_STORE };
                        self.asm.op(store, SCRATCH, 0, Rm::Stream(p, slot), merging);
                    } else if past {
                        self.asm.op(asm::NARROW_BYTES, SCRATCH, 0, Rm::Reg(SCRATCH), Under::All);
                        self.store_past(Rm::Bytes(p, slot), 1)?;
                    } else {
                        self.asm.op(asm::NARROW_BYTES, SCRATCH, 0, Rm::Bytes(p, slot), merging);
                    }
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
                    self.asm.op(asm::MOV_ONE, x, 0, Rm::Broadcast(self.pool().into(), number as u8), Under::All);
                    self.release(i);
                }
                Vop::Prefetch(p, bytes, how) => {
                    if !masked {
                        let p = self.pointer(p);
                        self.asm.prefetch(p.base, p.far.wrapping_add(bytes), slot, how);
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
