//! Values of 64 bits in lanes of 32: positions in an axis, and what little is done with them (argmax, triangles, masks).
//!
//! The largest number of 64 bits, "nowhere", is the largest of 32; a position that takes part in arithmetic or comparisons
//! must be a small number. Numbers that come with each launch are looked at then (see [`super::function::Given`]).

use super::{
    body::{Arith, Form, V, Vop},
    function::{NOWHERE, SMALL},
    functions,
    whole::Maker,
    width::Width,
};
use crate::{
    DType,
    backend::cpu::whole::{Over, POSITIONS, Place},
    kernel::{InstKind, Level, Source, Val},
};

impl Maker<'_> {
    /// A value of 64 bits, as an operand.
    pub(super) fn position(&mut self, v: Val) -> Option<V> {
        let k = self.o.k;
        let inst = &k.insts[v];
        if self.width != Width::Single {
            return None;
        }
        if let Over::Chunks | Over::Points(..) = self.o.over {
            return None; // their numbers are not looked at
        }
        match (inst.level, &inst.kind) {
            (Level::Uniform, _) => Some(self.invariant(v, true)),
            (Level::Row | Level::Elem, InstKind::Load { source: Source::Iota, .. }) => {
                let (p, along) = self.counted(v)?;
                self.bounds.insert(v, POSITIONS as i64);
                match along {
                    0 => Some(self.body().push(Vop::At(p))),
                    1 => Some(self.body().push(Vop::In(p))),
                    _ => None,
                }
            }
            (Level::Row, InstKind::Reduce(..)) if self.o.over == Over::Rows => Some(self.invariant(v, false)),
            // Computed for the row, and kept.
            (Level::Row, InstKind::Ewise(..)) if self.o.over == Over::Rows && self.bounds.contains_key(&v) => {
                Some(self.invariant(v, false))
            }
            _ => None,
        }
    }

    /// The same in lanes of 64 bits.
    pub(super) fn wide_position(&mut self, v: Val) -> Option<V> {
        let Some((p, along)) = self.counted(v) else { return self.far_position(v) };
        (along == 1).then(|| self.body().push(Vop::Widen(Form::Ints, p)))
    }

    /// A position beyond the table: what the table has for the place in a call, and the position where the call begins.
    fn far_position(&mut self, v: Val) -> Option<V> {
        let k = self.o.k;
        let InstKind::Load { source: Source::Iota, access } = &k.insts[v].kind else { return None };
        let along = *access.strides.get(k.map.len().checked_sub(1)?)?;
        let plain = access.bounds.is_empty() && access.lookup.is_empty();
        if self.o.over != Over::Blocks || self.o.n > POSITIONS || along != 1 || !plain {
            return None;
        }
        let bytes = 4 * self.row_step(&access.strides);
        let p = self.pointer(Place::Far, bytes)?;
        let (near, first) = (self.body().push(Vop::Widen(Form::Ints, p)), self.invariant(v, true));
        Some(self.body().two(Arith::AddI, near, first))
    }

    /// Where a load of positions stands in the table of them, and its step along a row.
    fn counted(&mut self, v: Val) -> Option<(usize, isize)> {
        let k = self.o.k;
        let inst = &k.insts[v];
        let InstKind::Load { source: Source::Iota, access } = &inst.kind else { return None };
        if !access.bounds.is_empty() || !access.lookup.is_empty() {
            return None;
        }
        // Its ends must not be passed.
        let (mut least, mut most) = (access.offset, access.offset);
        for (&n, &s) in k.map.iter().chain(&k.reduce).zip(&access.strides) {
            let far = s * (n as isize - 1).max(0);
            (least, most) = (least + far.min(0), most + far.max(0));
        }
        if least < 0 || most >= POSITIONS as isize {
            return None;
        }
        let along = match self.o.over {
            Over::Rows if inst.level == Level::Row => 0,
            Over::Rows => *access.strides.get(k.map.len())?,
            Over::Lines | Over::Blocks => *access.strides.get(k.map.len().checked_sub(1)?)?,
            Over::Chunks | Over::Points(..) => return None,
        };
        let bytes = 4 * self.row_step(&access.strides);
        Some((self.pointer(Place::Positions(v), bytes)?, along))
    }

    /// Whether a value is the position in the reduce space where a mask is set, and one number for all elsewhere.
    pub(super) fn chooses_place(&self, v: Val) -> bool {
        let k = self.o.k;
        let InstKind::Ewise(row, vals) = &k.insts[v].kind else { return false };
        row.name == "where"
            && k.insts[v].dtype == DType::I64
            && k.insts[vals[2]].level == Level::Uniform
            && matches!(&k.insts[vals[1]].kind, InstKind::Load { source: Source::Iota, access }
                if access.bounds.is_empty()
                    && access.lookup.is_empty()
                    && access.strides[..k.map.len()].iter().all(|&s| s == 0)
                    && access.strides[k.map.len()..] == [1])
    }

    /// That for reduction `n` at a point of a group, counted from where the function begins; nowhere elsewhere.
    pub(super) fn chosen_place(&mut self, v: Val, n: usize, point: usize, group: usize) -> Option<V> {
        let InstKind::Ewise(_, vals) = &self.o.k.insts[v].kind else { return None };
        let (mask, iota, none) = (self.operand(vals[0])?, vals[1], vals[2]);
        if self.o.k.order.chunk > POSITIONS || !self.section.body.ops[mask].is_mask() {
            return None;
        }
        self.invariant(none, true);
        if !self.nowhere.contains(&none) {
            self.nowhere.push(none);
        }
        if !self.relative.contains(&(n, iota)) {
            self.relative.push((n, iota));
        }
        let wide = self.wide();
        let p = self.pointer(Place::Steps(wide), (group * self.width.bytes()) as isize)?;
        let b = self.body();
        let (first, nowhere) = (b.push(Vop::At(p)), b.bits(if wide { i64::MAX } else { NOWHERE as i64 }));
        let at = if point == 0 {
            first
        } else {
            let on = b.bits(point as i64);
            b.two(Arith::AddI, first, on)
        };
        Some(b.push(Vop::Select(mask, at, nowhere)))
    }

    /// How large a number a position may be; none if it may be nowhere.
    fn bound(&mut self, v: Val) -> Option<i64> {
        if self.o.k.insts[v].level == Level::Uniform {
            if !self.small.contains(&v) {
                self.small.push(v);
            }
            return Some(SMALL);
        }
        self.bounds.get(&v).copied()
    }

    /// Whether a value is a position or nowhere: not the result of arithmetic, which may be negative.
    pub(super) fn is_place(&mut self, v: Val) -> bool {
        let inst = &self.o.k.insts[v];
        if inst.level == Level::Uniform && !self.placed.contains(&v) {
            self.placed.push(v);
        }
        inst.level == Level::Uniform
            || match &inst.kind {
                InstKind::Load { source: Source::Iota, .. } => true,
                InstKind::Ewise(row, _) => row.name == "where",
                InstKind::Reduce(..) => inst.level == Level::Row,
                InstKind::Const(_)
                | InstKind::Param(_)
                | InstKind::Load { .. }
                | InstKind::Cast(_)
                | InstKind::Store { .. } => false,
            }
    }

    /// A function of positions, or of a mask and positions.
    pub(super) fn of_positions(&mut self, v: Val, x: &[V]) -> Option<V> {
        let k = self.o.k;
        let to = k.insts[v].dtype;
        match &k.insts[v].kind {
            InstKind::Ewise(row, vals) if row.name == "where" && to == DType::I64 => {
                if !(self.section.body.ops[x[0]].is_mask() && self.is_place(vals[1]) && self.is_place(vals[2])) {
                    return None;
                }
                Some(self.body().push(Vop::Select(x[0], x[1], x[2])))
            }
            InstKind::Ewise(row, vals)
                if matches!(row.name, "eq" | "ne")
                    && vals.iter().any(|v| k.insts[*v].level != Level::Uniform && !self.bounds.contains_key(v))
                    && vals.iter().all(|&v| self.is_place(v)) =>
            {
                // Each place has one number of 32 bits, and so has "nowhere".
                Some(self.body().push(Vop::CompareI(if row.name == "eq" { 0 } else { 4 }, x[0], x[1])))
            }
            InstKind::Ewise(row, vals) if vals.len() == 2 => {
                let bound = self.bound(vals[0])? + self.bound(vals[1])?;
                let compare = |p: u8| Vop::CompareI(p, x[0], x[1]);
                let op = match (row.name, to) {
                    ("add", DType::I64) => Vop::Two(Arith::AddI, x[0], x[1]),
                    ("sub", DType::I64) => Vop::Two(Arith::SubI, x[0], x[1]),
                    ("eq", DType::Bool) => compare(0),
                    ("lt", DType::Bool) => compare(1),
                    ("le", DType::Bool) => compare(2),
                    ("ne", DType::Bool) => compare(4),
                    ("ge", DType::Bool) => compare(5),
                    ("gt", DType::Bool) => compare(6),
                    _ => return None,
                };
                if to == DType::I64 {
                    if bound >= NOWHERE as i64 / 4 {
                        return None;
                    }
                    self.bounds.insert(v, bound);
                }
                Some(self.body().push(op))
            }
            InstKind::Cast(o) if to == DType::F32 && k.insts[*o].dtype == DType::I64 => {
                self.bound(*o)?;
                Some(self.body().push(Vop::ToFloat(x[0])))
            }
            _ => None,
        }
    }

    /// Writes a position as 64 bits.
    pub(super) fn store_position(&mut self, p: usize, x: V) {
        let b = self.body();
        // As a float, "nowhere" is the only NaN among them.
        let none = functions::is_nan(b, x);
        let (ones, most, zero) = (b.bits(-1), b.bits(NOWHERE as i64), b.bits(0));
        let (low, high) = (b.push(Vop::Select(none, ones, x)), b.push(Vop::Select(none, most, zero)));
        b.push(Vop::OutOne(p, 0, low));
        b.push(Vop::OutOne(p, 1, high));
    }
}
