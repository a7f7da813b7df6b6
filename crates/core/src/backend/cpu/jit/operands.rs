//! Where the values that a section of a function reads come from.

use super::{
    body::{Logic, V, Vop},
    values,
    whole::Maker,
    width::Width,
};
use crate::{
    DType,
    backend::cpu::{
        micro::Ended,
        whole::{Over, POSITIONS, Place},
    },
    kernel::{InstKind, Level, Source, Val},
};

impl Maker<'_> {
    /// A value as an operand of this section.
    pub(super) fn operand(&mut self, v: Val) -> Option<V> {
        if let Some(&known) = self.known.get(&v) {
            return Some(known);
        }
        let inst = &self.o.k.insts[v];
        let (bool, floats, cursor) = (inst.dtype == DType::Bool, inst.dtype.is_float(), self.o.cursors.of[v]);
        if inst.dtype == DType::I64 && !self.wide() {
            let value = self.position(v)?;
            self.known.insert(v, value);
            return Some(value);
        }
        let halves = values::lanes(inst.dtype, self.width)? == values::Lanes::Halves;
        let value = match (inst.level, &inst.kind, self.o.over) {
            (Level::Elem, InstKind::Load { source: Source::Iota, .. }, _) if self.wide() => self.wide_position(v)?,
            (Level::Uniform, InstKind::Const(x), _) if !bool && !halves => {
                values::constant(self.body(), *x, inst.dtype)?
            }
            (Level::Uniform, _, _) if !bool => self.invariant(v, true),
            (Level::Uniform, _, _) => {
                let (x, zero) = (self.invariant(v, true), self.body().push(Vop::Const(0)));
                self.body().push(Vop::CompareI(4, x, zero))
            }
            (Level::Row, InstKind::Load { source: Source::Arg(_), .. }, Over::Rows) if self.fills(v) && floats => {
                let p = self.cursor(cursor?)?;
                self.body().push(Vop::At(p))
            }
            (Level::Row, InstKind::Load { .. }, Over::Rows) => return None,
            (Level::Row, _, Over::Rows) if !bool => self.invariant(v, false),
            (Level::Row, InstKind::Reduce(..), Over::Rows) => {
                let (x, zero) = (self.invariant(v, false), self.body().bits(0));
                self.body().push(Vop::CompareI(4, x, zero))
            }
            (Level::Row, _, Over::Chunks) if !bool => self.invariant(v, true),
            (Level::Row, _, Over::Points(..)) if self.block_fills(v) => {
                let p = self.pointer(Place::Value(v), 0)?;
                self.body().push(Vop::In(p))
            }
            (Level::Elem, InstKind::Load { source: Source::Arg(_), .. }, over) if self.o.cursors.ended[v].is_some() => {
                let ended = self.o.cursors.ended[v].filter(|_| matches!(over, Over::Lines | Over::Rows))?;
                self.part_of_line(ended, inst.dtype)?
            }
            (Level::Elem, InstKind::Load { source: Source::Arg(_), .. }, _) => {
                let c = cursor?;
                let p = self.cursor(c)?;
                match (inst.dtype, self.o.cursors.all[c].step) {
                    (dtype, 1) => values::load(self.body(), dtype, p)?,
                    (_, 0) if self.fills(v) => self.body().push(Vop::At(p)),
                    _ => return None,
                }
            }
            (Level::Elem, _, Over::Rows) if self.o.cached[v] => {
                let p = self.pointer(Place::Register(v), 0)?;
                let held = self.held(inst.dtype);
                values::load(self.body(), held, p)?
            }
            _ => return None,
        };
        self.known.insert(v, value);
        Some(value)
    }

    /// A load that is zero outside a part of every line.
    fn part_of_line(&mut self, e: Ended, dtype: DType) -> Option<V> {
        if self.width != Width::Single || self.o.n > POSITIONS || !matches!(dtype, DType::F32 | DType::I32) {
            return None;
        }
        let count = self.pointer(Place::Count, 0)?;
        let at = self.body().push(Vop::In(count));
        let end = |m: &mut Self, predicate: u8, n: usize| {
            let n = m.body().bits(n as i64);
            m.body().push(Vop::CompareI(predicate, at, n))
        };
        let mask = match (e.from, e.to) {
            (0, to) => end(self, 1, to),
            (from, to) if to == self.o.n => end(self, 5, from),
            (from, to) => {
                let (after, before) = (end(self, 5, from), end(self, 1, to));
                self.body().push(Vop::Masks(Logic::And, after, before))
            }
        };
        let p = self.cursor(e.cursor)?;
        match self.o.cursors.all[e.cursor].step {
            1 => Some(self.body().push(Vop::InWhere(p, mask))),
            0 => {
                let (x, zero) = (self.body().push(Vop::At(p)), self.body().push(Vop::Const(0)));
                Some(self.body().push(Vop::Select(mask, x, zero)))
            }
            _ => None,
        }
    }

    /// Whether an element of a value fills a lane in memory.
    fn fills(&self, v: Val) -> bool {
        let dtype = self.o.k.insts[v].dtype;
        if self.wide() { matches!(dtype, DType::F64 | DType::I64) } else { matches!(dtype, DType::F32 | DType::I32) }
    }

    /// Whether it does so in the registers of the interpreter.
    pub(super) fn block_fills(&self, v: Val) -> bool {
        let held = self.o.k.insts[v].dtype.compute();
        if self.wide() { matches!(held, DType::F64 | DType::I64) } else { held == DType::F32 }
    }

    /// How a register of a whole row holds elements of a type.
    pub(super) fn held(&self, dtype: DType) -> DType {
        match dtype {
            DType::Bool => DType::Bool,
            DType::F32 => DType::F32,
            // Lanes as they are: nobody else reads them.
            _ if self.wide() => DType::I64,
            _ => DType::F32,
        }
    }
}
