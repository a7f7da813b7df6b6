//! Kernels as functions over many rows: see [`Whole`].

use super::{
    body::{Arith, Body, Folding, V, Vop},
    function::{NUMBERS, Whole},
    functions, memory,
    sections::{self, Section},
};
use crate::{
    DType,
    backend::cpu::{
        micro::{Ahead, Cursor},
        program::Pass,
        whole::{Over, Place},
    },
    kernel::{InstKind, Kernel, Level, Source, Val},
    op::ReduceOp,
};
use std::collections::HashMap;

/// The most pointers of a function.
const MOST_PLACES: usize = super::writer::MOST_POINTERS - sections::FIRST;

/// What the compiler knows of a program.
pub struct Outline<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// Its cursors, and the one of each load and store.
    pub cursors: (&'a [Cursor], &'a [Option<usize>]),
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// The passes to be done for a row, with what each should fetch ahead.
    pub passes: Vec<(&'a Pass, &'a [Ahead])>,
    /// What is a row.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

impl Outline<'_> {
    /// The function, if everything in it is known.
    pub fn compile(&self) -> Option<Whole> {
        let mut m = Maker {
            o: self,
            section: Section { body: Body::default(), places: vec![], elements: None },
            sections: vec![],
            places: vec![],
            moves: vec![],
            numbers: vec![],
            known: HashMap::new(),
            point: 0,
        };
        for (n, (pass, ahead)) in self.passes.iter().enumerate() {
            m.pass(n, pass, ahead)?;
        }
        let Maker { sections, places, moves, numbers, .. } = m;
        if sections.is_empty() || places.len() > MOST_PLACES {
            return None;
        }
        let (code, constants) = sections::assemble(&sections, &moves, numbers.len())?;
        let sealed = memory::Sealed::new(&code)?;
        let given = numbers.iter().enumerate().filter(|n| n.1.1).map(|(n, v)| (n, v.0)).collect();
        let pool: Vec<u32> = numbers.iter().map(|_| 0).chain(constants).collect();
        if pool.len() > NUMBERS {
            return None;
        }
        Some(Whole { sealed, pool, places, given, over: self.over, n: self.n })
    }

    fn float(&self, v: Val) -> bool {
        self.k.insts[v].dtype.compute() == DType::F32
    }
}

struct Maker<'a> {
    o: &'a Outline<'a>,
    section: Section,
    sections: Vec<Section>,
    places: Vec<Place>,
    moves: Vec<i32>,
    /// The values in the pool, and whether they are given from outside.
    numbers: Vec<(Val, bool)>,
    known: HashMap<Val, V>,
    /// The reduce point of a group that is being written.
    point: usize,
}

impl Maker<'_> {
    fn body(&mut self) -> &mut Body {
        &mut self.section.body
    }

    fn end(&mut self, elements: Option<usize>) {
        let empty = Section { body: Body::default(), places: vec![], elements: None };
        let section = std::mem::replace(&mut self.section, empty);
        if !section.body.ops.is_empty() {
            self.sections.push(Section { elements, ..section });
        }
        self.known.clear();
    }

    /// A pointer of the section's body.
    fn pointer(&mut self, place: Place, bytes: isize) -> Option<usize> {
        let at = match self.places.iter().position(|p| *p == place) {
            Some(at) => at,
            None => {
                self.places.push(place);
                self.moves.push(i32::try_from(bytes).ok()?);
                self.places.len() - 1
            }
        };
        let at = at + sections::FIRST;
        if let Some(known) = self.section.places.iter().position(|p| *p == at) {
            return Some(known);
        }
        self.section.places.push(at);
        Some(self.body().pointer())
    }

    /// A pointer to where a cursor stands.
    fn cursor(&mut self, c: usize) -> Option<usize> {
        let cursor = &self.o.cursors.0[c];
        if cursor.lines.is_some() {
            return None;
        }
        let map = self.o.k.map.len();
        let axis = |n: usize| cursor.strides.get(n).copied().unwrap_or(0) * cursor.size;
        let bytes = match self.o.over {
            Over::Rows => map.checked_sub(1).map_or(0, axis),
            Over::Lines => map.checked_sub(2).map_or(0, axis),
            Over::Blocks => cursor.step * cursor.size * self.o.n as isize,
            Over::Chunks => axis(map) * self.o.n as isize,
            Over::Points(group) => axis(map) * group as isize,
        };
        let ahead = if let Over::Points(_) = self.o.over { axis(map) * self.point as isize } else { 0 };
        self.pointer(Place::Cursor(c, ahead), bytes)
    }

    /// The place of a value among the numbers.
    fn number(&mut self, v: Val, given: bool) -> usize {
        self.numbers.iter().position(|n| n.0 == v).unwrap_or_else(|| {
            self.numbers.push((v, given));
            self.numbers.len() - 1
        })
    }

    fn invariant(&mut self, v: Val, given: bool) -> V {
        let n = self.number(v, given);
        let body = self.body();
        body.invariants = body.invariants.max(n + 1);
        body.push(Vop::Invariant(n))
    }

    fn operand(&mut self, v: Val) -> Option<V> {
        if let Some(&known) = self.known.get(&v) {
            return Some(known);
        }
        let inst = &self.o.k.insts[v];
        let (bool, cursor) = (inst.dtype == DType::Bool, self.o.cursors.1[v]);
        if !bool && !self.o.float(v) {
            return None;
        }
        let value = match (inst.level, &inst.kind, self.o.over) {
            (Level::Uniform, InstKind::Const(x), _) if !bool => self.body().number(x.f64() as f32),
            (Level::Uniform, _, _) if !bool => self.invariant(v, true),
            (Level::Row, InstKind::Load { source: Source::Arg(_), .. }, Over::Rows) if inst.dtype == DType::F32 => {
                let p = self.cursor(cursor?)?;
                self.body().push(Vop::At(p))
            }
            (Level::Row, InstKind::Load { .. }, Over::Rows) => return None,
            (Level::Row, _, Over::Rows) if !bool => self.invariant(v, false),
            (Level::Row, _, Over::Chunks) if !bool => self.invariant(v, true),
            (Level::Row, _, Over::Points(_)) if !bool => {
                let p = self.pointer(Place::Value(v), 0)?;
                self.body().push(Vop::In(p))
            }
            (Level::Elem, InstKind::Load { source: Source::Arg(_), .. }, _) => {
                let c = cursor?;
                let p = self.cursor(c)?;
                let vop = match (inst.dtype, self.o.cursors.0[c].step) {
                    (DType::Bool, 1) => Vop::InMask(p),
                    (DType::F32, 1) => Vop::In(p),
                    (DType::F32, 0) => Vop::At(p),
                    _ => return None,
                };
                self.body().push(vop)
            }
            (Level::Elem, _, Over::Rows) if self.o.cached[v] && !bool => {
                let p = self.pointer(Place::Register(v), 0)?;
                self.body().push(Vop::In(p))
            }
            _ => return None,
        };
        self.known.insert(v, value);
        Some(value)
    }

    /// An elementwise function or a conversion.
    fn compute(&mut self, v: Val) -> Option<V> {
        let k = self.o.k;
        if !self.o.float(v) && k.insts[v].dtype != DType::Bool {
            return None;
        }
        match &k.insts[v].kind {
            InstKind::Ewise(row, vals) => {
                let x = vals.iter().map(|&x| self.operand(x)).collect::<Option<Vec<V>>>()?;
                let masks = vals.iter().zip(&x).enumerate();
                let fit = |(n, (_, x)): (usize, (&Val, &V))| {
                    (row.name == "where" && n == 0) == self.section.body.ops[*x].is_mask()
                };
                if !masks.into_iter().all(fit) {
                    return None;
                }
                functions::row(self.body(), row.name, &x)
            }
            InstKind::Cast(x) if k.insts[*x].dtype == DType::Bool && k.insts[v].dtype == DType::F32 => {
                let mask = self.operand(*x)?;
                let (one, zero) = (self.body().number(1.0), self.body().number(0.0));
                Some(self.body().push(Vop::Select(mask, one, zero)))
            }
            _ => None,
        }
    }

    /// One pass: the row's numbers that become known before it, and its elements.
    fn pass(&mut self, n: usize, pass: &Pass, ahead: &[Ahead]) -> Option<()> {
        if self.o.over == Over::Rows {
            pass.rows.iter().try_for_each(|&v| self.row(v))?;
            self.end(None);
        }
        if let Over::Points(group) = self.o.over {
            return self.points(pass, group);
        }
        for &v in &pass.elems {
            self.elem(v)?;
        }
        for a in ahead {
            let p = self.cursor(a.cursor)?;
            self.body().push(Vop::Prefetch(p, a.bytes, a.write));
        }
        self.end(Some(self.o.n));
        if self.o.over == Over::Chunks {
            for (k, &v) in pass.reduces.iter().enumerate() {
                let x = self.invariant(v, false);
                let p = self.pointer(Place::Part(n, k), 8 * pass.reduces.len() as isize)?;
                self.body().push(Vop::OutOne(p, x));
            }
            self.end(None);
        }
        Some(())
    }

    /// A number of a row, or its store.
    fn row(&mut self, v: Val) -> Option<()> {
        match &self.o.k.insts[v].kind {
            InstKind::Load { .. } => {}
            InstKind::Store { arg, value, .. } => {
                if self.o.k.args[*arg].dtype != DType::F32 || self.o.k.insts[*value].dtype == DType::Bool {
                    return None;
                }
                let x = self.operand(*value)?;
                let p = self.cursor(self.o.cursors.1[v]?)?;
                self.body().push(Vop::OutOne(p, x));
            }
            _ => {
                let value = self.compute(v)?;
                if self.o.k.insts[v].dtype == DType::Bool {
                    return None;
                }
                self.known.insert(v, value);
                let number = self.number(v, false);
                self.body().push(Vop::Keep(number, value));
            }
        }
        Some(())
    }

    /// A value of an element, a store or a reduction.
    fn elem(&mut self, v: Val) -> Option<()> {
        let k = self.o.k;
        match &k.insts[v].kind {
            InstKind::Load { .. } => {}
            InstKind::Store { value, .. } => self.store(v, *value)?,
            InstKind::Reduce(op, x) => {
                let how = match op {
                    ReduceOp::Sum => Folding::Sum,
                    ReduceOp::Max => Folding::Max,
                    ReduceOp::Min => Folding::Min,
                    ReduceOp::Prod => return None,
                };
                if !self.o.float(*x) || !self.o.float(v) {
                    return None;
                }
                let (x, number) = (self.operand(*x)?, self.number(v, false));
                self.body().number(how.start());
                self.body().push(Vop::Fold(how, number, x));
            }
            _ => {
                let value = self.compute(v)?;
                self.known.insert(v, value);
                if self.o.cached[v] {
                    if k.insts[v].dtype == DType::Bool {
                        return None;
                    }
                    let p = self.pointer(Place::Register(v), 0)?;
                    self.body().push(Vop::Out(p, value));
                }
            }
        }
        Some(())
    }

    fn store(&mut self, v: Val, value: Val) -> Option<()> {
        let InstKind::Store { arg, .. } = self.o.k.insts[v].kind else { return None };
        let c = self.o.cursors.1[v]?;
        let plain = self.o.k.args[arg].dtype == DType::F32 && self.o.cursors.0[c].step == 1;
        if !plain || self.o.k.insts[value].dtype == DType::Bool {
            return None;
        }
        let x = self.operand(value)?;
        let p = self.cursor(c)?;
        self.body().push(Vop::Out(p, x));
        Some(())
    }

    /// A group of reduce points of a block of map points: accumulators pass through registers once for all of them.
    fn points(&mut self, pass: &Pass, group: usize) -> Option<()> {
        let k = self.o.k;
        let mut sums: Vec<V> = vec![];
        for n in 0..pass.reduces.len() {
            let p = self.pointer(Place::Accumulator(n), 0)?;
            let sum = self.body().push(Vop::In(p));
            sums.push(sum);
        }
        for point in 0..group {
            self.point = point;
            self.known.retain(|&v, _| k.insts[v].level < Level::Elem);
            for &v in &pass.elems {
                let InstKind::Reduce(op, x) = k.insts[v].kind else {
                    self.elem(v)?;
                    continue;
                };
                let n = pass.reduces.iter().position(|&r| r == v)?;
                if !self.o.float(x) || !self.o.float(v) {
                    return None;
                }
                let x = self.operand(x)?;
                sums[n] = match op {
                    ReduceOp::Sum => self.body().two(Arith::Add, sums[n], x),
                    ReduceOp::Max => functions::extreme(self.body(), Arith::Max, sums[n], x),
                    ReduceOp::Min => functions::extreme(self.body(), Arith::Min, sums[n], x),
                    ReduceOp::Prod => return None,
                };
            }
        }
        self.point = 0;
        for (n, sum) in sums.into_iter().enumerate() {
            let p = self.pointer(Place::Accumulator(n), 0)?;
            self.body().push(Vop::Out(p, sum));
        }
        self.end(Some(self.o.n));
        Some(())
    }
}
