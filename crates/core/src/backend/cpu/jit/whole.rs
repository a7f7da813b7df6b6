//! Kernels as functions over many rows: see [`Whole`].

use super::{
    body::{Body, Folding, V, Vop},
    function::{Given, NUMBERS, Whole},
    memory,
    sections::{self, Section},
    values,
    width::Width,
    writer::TEMPORARIES,
};
use crate::{
    DType,
    backend::cpu::{
        ahead::Ahead,
        micro::{Cursor, Cursors},
        program::Pass,
        whole::{Over, Place},
    },
    kernel::{InstKind, Kernel, Val},
    op::ReduceOp,
};
use std::collections::HashMap;

/// The most pointers of a function.
const MOST_PLACES: usize = super::writer::MOST_POINTERS - sections::FIRST;
/// Accumulators of so many elements may stay in registers: a row without a loop.
const FEW: usize = 64;

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
    /// Cursors of results that should go past the caches.
    pub past: &'a [usize],
    /// What is a row.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

impl Outline<'_> {
    /// The function, if everything in it is known: with the narrowest lanes that will do.
    pub fn compile(&self) -> Option<Whole> {
        let plain = matches!(self.over, Over::Lines | Over::Blocks);
        let small = |width: Width| if plain { self.with_lanes(width, false) } else { None };
        let small = small(Width::Byte).or_else(|| small(Width::Word));
        small.or_else(|| self.wide_enough(Width::Single)).or_else(|| self.wide_enough(Width::Double))
    }

    /// With lanes of this width, and accumulators that stay in registers if they can.
    fn wide_enough(&self, width: Width) -> Option<Whole> {
        let few = matches!(self.over, Over::Points(..)) && self.n <= FEW;
        let resident = if few { self.with_lanes(width, true) } else { None };
        resident.or_else(|| self.with_lanes(width, false))
    }

    fn with_lanes(&self, width: Width, resident: bool) -> Option<Whole> {
        let vectors = if resident { self.n.div_ceil(width.lanes()) as u8 } else { 0 };
        let mut m = Maker {
            o: self,
            width,
            section: Section::new(Body { vectors, ..Body::new(width) }),
            sections: vec![],
            places: vec![],
            moves: vec![],
            numbers: vec![],
            known: HashMap::new(),
            bounds: HashMap::new(),
            small: vec![],
            placed: vec![],
            nowhere: vec![],
            relative: vec![],
            past: vec![],
            point: 0,
        };
        for (n, (pass, ahead)) in self.passes.iter().enumerate() {
            m.pass(n, pass, ahead)?;
        }
        let Maker { sections, places, moves, numbers, small, placed, nowhere, relative, past, .. } = m;
        if sections.is_empty() || small.iter().any(|v| placed.contains(v)) || places.len() > MOST_PLACES {
            return None;
        }
        // As many registers for what stays the same as the rest leaves.
        let assembled = TEMPORARIES.into_iter().find_map(|t| sections::assemble(&sections, &moves, numbers.len(), t));
        let (code, constants) = assembled?;
        let sealed = memory::Sealed::new(&code)?;
        let kind = |v: Val| match self.k.insts[v].dtype {
            DType::I64 if nowhere.contains(&v) => Given::Nowhere,
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
        Some(Whole { sealed, pool, width, places, given, past, relative, over: self.over, n: self.n })
    }
}

pub(super) struct Maker<'a> {
    pub(super) o: &'a Outline<'a>,
    /// How wide lanes are.
    pub(super) width: Width,
    pub(super) section: Section,
    sections: Vec<Section>,
    places: Vec<Place>,
    pub(super) moves: Vec<i32>,
    /// The values in the pool, and whether they are given from outside.
    numbers: Vec<(Val, bool)>,
    pub(super) known: HashMap<Val, V>,
    /// Bounds of the magnitudes of positions that are numbers.
    pub(super) bounds: HashMap<Val, i64>,
    /// Numbers given from outside that must be small.
    pub(super) small: Vec<Val>,
    /// Those that must not be negative.
    pub(super) placed: Vec<Val>,
    /// Those that must be the largest number.
    pub(super) nowhere: Vec<Val>,
    /// Reductions of a pass to places that are counted from where the function begins, each with the load of positions.
    pub(super) relative: Vec<(usize, Val)>,
    /// Cursors of results that go past the caches.
    pub(super) past: Vec<usize>,
    /// The reduce point of a group that is being written.
    pub(super) point: usize,
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
        let empty = Section::new(Body::new(self.width));
        let section = std::mem::replace(&mut self.section, empty);
        if !section.body.ops.is_empty() {
            self.sections.push(Section { elements, ..section });
        }
        self.known.clear();
    }

    /// A pointer of the section's body to a place that moves so many bytes from row to row.
    pub(super) fn pointer(&mut self, place: Place, bytes: isize) -> Option<usize> {
        self.pointer_after(place, bytes, 0)
    }

    /// A pointer to so many bytes after a place.
    fn pointer_after(&mut self, place: Place, bytes: isize, far: isize) -> Option<usize> {
        let at = match self.places.iter().position(|p| *p == place) {
            Some(at) => at,
            None => {
                self.places.push(place);
                self.moves.push(i32::try_from(bytes).ok()?);
                self.places.len() - 1
            }
        };
        let (at, far) = (at + sections::FIRST, i32::try_from(far).ok()?);
        let places = &mut self.section.places;
        let place = places.iter().position(|p| *p == at).unwrap_or_else(|| {
            places.push(at);
            places.len() - 1
        });
        if let Some(known) = self.section.spots.iter().position(|s| *s == (place, far)) {
            return Some(known);
        }
        self.section.spots.push((place, far));
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
        // Cursors that go through a buffer side by side share a pointer.
        let all = &self.o.cursors.all;
        let same = |o: &Cursor| o.arg == cursor.arg && o.strides == cursor.strides && o.lines.is_none();
        let first = all.iter().position(same).filter(|&o| {
            let far = (cursor.offset - all[o].offset).checked_mul(cursor.size);
            far.is_some_and(|far| i32::try_from(far.saturating_add(ahead)).is_ok())
        });
        let first = first.unwrap_or(c);
        self.pointer_after(Place::Cursor(first), bytes, ahead + (cursor.offset - all[first].offset) * cursor.size)
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
    pub(super) fn folding(&self, v: Val, op: ReduceOp) -> Option<Folding> {
        let dtype = self.o.k.insts[v].dtype;
        match values::lanes(dtype, self.width)? {
            values::Lanes::Floats => Some(Folding::of(op)),
            // Sums of small integers would have to be wrapped.
            values::Lanes::Integers if dtype == DType::I64 || matches!(op, ReduceOp::Max | ReduceOp::Min) => {
                Some(Folding::of_integers(op))
            }
            values::Lanes::Integers | values::Lanes::Singles | values::Lanes::Halves | values::Lanes::Bits => None,
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
                .try_for_each(|chunk| self.points(pass, group, chunk, ahead))
                .map(|()| self.end(Some(self.o.n)));
        }
        for &v in &pass.elems {
            self.elem(v)?;
        }
        self.fetch(ahead)?;
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

    /// Asks for memory ahead, where a vector of it is a cache line.
    pub(super) fn fetch(&mut self, ahead: &[Ahead]) -> Option<()> {
        let lane = self.width.bytes();
        // What goes past the caches is not brought there first.
        let ahead = ahead.iter().filter(|a| !self.o.past.contains(&a.cursor));
        for a in ahead.filter(|a| self.o.cursors.all[a.cursor].size as usize == lane) {
            let p = self.cursor(a.cursor)?;
            self.body().push(Vop::Prefetch(p, a.bytes, a.how));
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
    pub(super) fn elem(&mut self, v: Val) -> Option<()> {
        let k = self.o.k;
        match &k.insts[v].kind {
            InstKind::Load { .. } => {}
            InstKind::Store { value, .. } => self.store(v, *value)?,
            InstKind::Reduce(op, x) => {
                let dtype = k.insts[v].dtype;
                let position = dtype == DType::I64 && !self.wide();
                let rows = self.o.over == Over::Rows;
                let how = if dtype == DType::Bool {
                    Folding::MaxI
                } else if position {
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
                if dtype == DType::Bool {
                    // Ones and zeros.
                    let how = if matches!(op, ReduceOp::Sum | ReduceOp::Max) { Folding::MaxI } else { Folding::MinI };
                    let (m, number) = (self.operand(*x)?, self.number(v, false));
                    let start = how.start(self.wide());
                    let b = self.body();
                    let (one, zero) = (b.bits(1), b.bits(0));
                    let x = b.push(Vop::Select(m, one, zero));
                    b.push(Vop::Const(start));
                    b.push(Vop::Fold(how, number, x));
                    return Some(());
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
        self.mark_past(c, p);
        values::store(self.body(), dtype, p, x)
    }
}
