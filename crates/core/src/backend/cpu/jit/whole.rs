//! Kernels as functions over many rows: see [`Whole`].

use super::{
    body::{Body, Folding, V, Vop},
    function::{Given, NUMBERS, Whole},
    functions, memory,
    sections::{self, Section},
    values,
    width::Width,
};
use crate::{
    DType,
    backend::cpu::{
        micro::{Ahead, Cursors},
        program::Pass,
        whole::{Over, Place},
    },
    kernel::{InstKind, Kernel, Level, Val},
    op::ReduceOp,
};
use std::collections::HashMap;

/// The most pointers of a function.
const MOST_PLACES: usize = super::writer::MOST_POINTERS - sections::FIRST;

/// What the compiler knows of a program.
pub struct Outline<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// Its cursors.
    pub cursors: &'a Cursors,
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
    /// The function, if everything in it is known: with the narrowest lanes that will do.
    pub fn compile(&self) -> Option<Whole> {
        let plain = matches!(self.over, Over::Lines | Over::Blocks);
        let bytes = if plain { self.with_lanes(Width::Byte) } else { None };
        bytes.or_else(|| self.with_lanes(Width::Single)).or_else(|| self.with_lanes(Width::Double))
    }

    fn with_lanes(&self, width: Width) -> Option<Whole> {
        let mut m = Maker {
            o: self,
            width,
            section: Section { body: Body::new(width), places: vec![], elements: None },
            sections: vec![],
            places: vec![],
            moves: vec![],
            numbers: vec![],
            known: HashMap::new(),
            bounds: HashMap::new(),
            small: vec![],
            placed: vec![],
            point: 0,
        };
        for (n, (pass, ahead)) in self.passes.iter().enumerate() {
            m.pass(n, pass, ahead)?;
        }
        let Maker { sections, places, moves, numbers, small, placed, .. } = m;
        if sections.is_empty() || small.iter().any(|v| placed.contains(v)) || places.len() > MOST_PLACES {
            return None;
        }
        let (code, constants) = sections::assemble(&sections, &moves, numbers.len())?;
        let sealed = memory::Sealed::new(&code)?;
        let kind = |v: Val| match self.k.insts[v].dtype {
            DType::I64 if width == Width::Double => Given::Bits,
            DType::I64 if small.contains(&v) => Given::Small,
            DType::I64 => Given::Position,
            _ => Given::Bits,
        };
        let given = numbers.iter().enumerate().filter(|n| n.1.1).map(|(n, v)| (n, v.0, kind(v.0))).collect();
        let pool: Vec<u64> = numbers.iter().map(|_| 0).chain(constants).collect();
        if pool.len() > NUMBERS {
            return None;
        }
        Some(Whole { sealed, pool, width, places, given, over: self.over, n: self.n })
    }
}

pub(super) struct Maker<'a> {
    pub(super) o: &'a Outline<'a>,
    /// How wide lanes are.
    pub(super) width: Width,
    pub(super) section: Section,
    sections: Vec<Section>,
    places: Vec<Place>,
    moves: Vec<i32>,
    /// The values in the pool, and whether they are given from outside.
    numbers: Vec<(Val, bool)>,
    pub(super) known: HashMap<Val, V>,
    /// Bounds of the magnitudes of positions that are numbers.
    pub(super) bounds: HashMap<Val, i64>,
    /// Numbers given from outside that must be small.
    pub(super) small: Vec<Val>,
    /// Those that must not be negative.
    pub(super) placed: Vec<Val>,
    /// The reduce point of a group that is being written.
    point: usize,
}

impl Maker<'_> {
    /// Whether lanes have 64 bits.
    pub(super) fn wide(&self) -> bool {
        self.width == Width::Double
    }

    pub(super) fn body(&mut self) -> &mut Body {
        &mut self.section.body
    }

    fn end(&mut self, elements: Option<usize>) {
        let empty = Section { body: Body::new(self.width), places: vec![], elements: None };
        let section = std::mem::replace(&mut self.section, empty);
        if !section.body.ops.is_empty() {
            self.sections.push(Section { elements, ..section });
        }
        self.known.clear();
    }

    /// A pointer of the section's body.
    pub(super) fn pointer(&mut self, place: Place, bytes: isize) -> Option<usize> {
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
    pub(super) fn cursor(&mut self, c: usize) -> Option<usize> {
        let cursor = &self.o.cursors.all[c];
        if cursor.lines.is_some() {
            return None;
        }
        let bytes = self.row_step(&cursor.strides) * cursor.size;
        let along = cursor.strides.get(self.o.k.map.len()).copied().unwrap_or(0) * cursor.size;
        let ahead = if let Over::Points(..) = self.o.over { along * self.point as isize } else { 0 };
        self.pointer(Place::Cursor(c, ahead), bytes)
    }

    /// Elements from one row of the function to the next, for these steps an axis.
    pub(super) fn row_step(&self, strides: &[isize]) -> isize {
        let map = self.o.k.map.len();
        let axis = |n: usize| strides.get(n).copied().unwrap_or(0);
        let last = map.checked_sub(1).map_or(0, axis);
        match self.o.over {
            Over::Rows => last,
            Over::Lines => map.checked_sub(2).map_or(0, axis),
            Over::Blocks => last * self.o.n as isize,
            Over::Chunks => self.o.k.chunk_step(strides),
            Over::Points(group, _) => axis(map) * group as isize,
        }
    }

    /// The place of a value among the numbers.
    fn number(&mut self, v: Val, given: bool) -> usize {
        self.numbers.iter().position(|n| n.0 == v).unwrap_or_else(|| {
            self.numbers.push((v, given));
            self.numbers.len() - 1
        })
    }

    pub(super) fn invariant(&mut self, v: Val, given: bool) -> V {
        let n = self.number(v, given);
        let body = self.body();
        body.invariants = body.invariants.max(n + 1);
        body.push(Vop::Invariant(n))
    }

    /// How a reduction combines in lanes.
    fn folding(&self, v: Val, op: ReduceOp) -> Option<Folding> {
        let dtype = self.o.k.insts[v].dtype;
        match values::lanes(dtype, self.width)? {
            values::Lanes::Floats => Some(Folding::of(op)),
            // Sums of small integers would have to be wrapped.
            values::Lanes::Integers if dtype == DType::I64 || matches!(op, ReduceOp::Max | ReduceOp::Min) => {
                Some(Folding::of_integers(op))
            }
            values::Lanes::Integers | values::Lanes::Singles | values::Lanes::Bits => None,
        }
    }

    /// An elementwise function or a conversion.
    fn compute(&mut self, v: Val) -> Option<V> {
        let k = self.o.k;
        let x = k.operands(v).iter().map(|&x| self.operand(x)).collect::<Option<Vec<V>>>()?;
        let position = |v: Val| !self.wide() && k.insts[v].dtype == DType::I64;
        if position(v) || k.operands(v).iter().any(|&o| position(o)) {
            return self.of_positions(v, &x);
        }
        values::compute(self.body(), k, v, &x)
    }

    /// One pass: the row's numbers that become known before it, and its elements.
    fn pass(&mut self, n: usize, pass: &Pass, ahead: &[Ahead]) -> Option<()> {
        if self.o.over == Over::Rows {
            pass.rows.iter().try_for_each(|&v| self.row(v))?;
            self.end(None);
        }
        if let Over::Points(group, abreast) = self.o.over {
            return (0..abreast)
                .try_for_each(|chunk| self.points(pass, group, chunk))
                .map(|()| self.end(Some(self.o.n)));
        }
        for &v in &pass.elems {
            self.elem(v)?;
        }
        let lane = self.width.bytes();
        for a in ahead.iter().filter(|a| self.o.cursors.all[a.cursor].size as usize == lane) {
            let p = self.cursor(a.cursor)?;
            self.body().push(Vop::Prefetch(p, a.bytes, a.write));
        }
        self.end(Some(self.o.n));
        if self.o.over == Over::Chunks {
            for (k, &v) in pass.reduces.iter().enumerate() {
                let x = self.invariant(v, false);
                let p = self.pointer(Place::Part(n, k), 8 * pass.reduces.len() as isize)?;
                self.body().push(Vop::OutOne(p, 0, x));
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
                let dtype = self.o.k.args[*arg].dtype;
                if self.o.k.insts[*value].dtype != dtype {
                    return None;
                }
                let x = self.operand(*value)?;
                let p = self.cursor(self.o.cursors.of[v]?)?;
                if dtype == DType::I64 && !self.wide() {
                    if !self.is_place(*value) {
                        return None;
                    }
                    self.store_position(p, x);
                } else {
                    values::store_one(self.body(), dtype, p, x)?;
                }
            }
            _ => {
                let value = self.compute(v)?;
                self.known.insert(v, value);
                if self.o.k.insts[v].dtype == DType::Bool {
                    return Some(()); // no number: it is for the row's other numbers alone
                }
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
                let dtype = k.insts[v].dtype;
                let position = dtype == DType::I64 && !self.wide();
                let rows = self.o.over == Over::Rows;
                let how = if position {
                    if *op != ReduceOp::Min || !rows || !self.is_place(*x) {
                        return None;
                    }
                    Folding::MinI
                } else {
                    self.folding(v, *op)?
                };
                // Accumulators of integers have 64 bits outside.
                if dtype.is_int() && !self.wide() && !rows {
                    return None;
                }
                if k.insts[*x].dtype != dtype {
                    return None;
                }
                let (x, number) = (self.operand(*x)?, self.number(v, false));
                let start = how.start(self.wide());
                self.body().push(Vop::Const(start));
                self.body().push(Vop::Fold(how, number, x));
            }
            _ => {
                let value = self.compute(v)?;
                self.known.insert(v, value);
                if self.o.cached[v] {
                    let p = self.pointer(Place::Register(v), 0)?;
                    let held = self.held(k.insts[v].dtype);
                    values::store(self.body(), held, p, value)?;
                }
            }
        }
        Some(())
    }

    fn store(&mut self, v: Val, value: Val) -> Option<()> {
        let InstKind::Store { arg, .. } = self.o.k.insts[v].kind else { return None };
        let c = self.o.cursors.of[v]?;
        let dtype = self.o.k.args[arg].dtype;
        if self.o.cursors.all[c].step != 1 || self.o.k.insts[value].dtype != dtype {
            return None;
        }
        let x = self.operand(value)?;
        let p = self.cursor(c)?;
        values::store(self.body(), dtype, p, x)
    }

    /// A group of reduce points of a block of map points, so many chunks further on: accumulators pass through registers once
    /// for all of them.
    fn points(&mut self, pass: &Pass, group: usize, chunk: usize) -> Option<()> {
        let k = self.o.k;
        let mut sums: Vec<V> = vec![];
        for n in 0..pass.reduces.len() {
            let p = self.pointer(Place::Accumulator(n, chunk), 0)?;
            let sum = self.body().push(Vop::In(p));
            sums.push(sum);
        }
        for point in 0..group {
            self.point = chunk * k.order.chunk + point;
            self.known.retain(|&v, _| k.insts[v].level < Level::Elem);
            for &v in &pass.elems {
                let InstKind::Reduce(op, x) = k.insts[v].kind else {
                    self.elem(v)?;
                    continue;
                };
                let n = pass.reduces.iter().position(|&r| r == v)?;
                if !self.block_fills(v) || k.insts[x].dtype.compute() != k.insts[v].dtype.compute() {
                    return None;
                }
                let how = self.folding(v, op)?;
                let x = self.operand(x)?;
                sums[n] = functions::fold(self.body(), how, sums[n], x);
            }
        }
        self.point = 0;
        for (n, sum) in sums.into_iter().enumerate() {
            let p = self.pointer(Place::Accumulator(n, chunk), 0)?;
            self.body().push(Vop::Out(p, sum));
        }
        Some(())
    }
}
