//! The kernel of a group.

use super::{
    fuse::{Fused, Group, Place},
    items::{Edge, Item, Kind, Opaque},
};
use crate::{
    DType, Shape,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Lookup, Order, Source, Val},
    view::{View, ViewOp},
};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A kernel, and what its buffers and parameters stand for.
pub struct Generated {
    /// The kernel.
    pub kernel: Kernel,
    /// The item behind each buffer.
    pub args: Vec<usize>,
    /// The plan's scalar argument behind each parameter.
    pub params: Vec<usize>,
}

/// Where an item is written that is only there to be joined with others: into the joined one.
pub struct Within {
    /// The joined item.
    pub whole: usize,
    /// Its elements there, under the space of the group that computes them.
    pub view: View,
}

/// The items that only a join reads, and that loops of ours compute.
pub fn within(items: &[Item], fused: &Fused, outlives: &[bool]) -> Vec<Option<Within>> {
    let mut out: Vec<Option<Within>> = (0..items.len()).map(|_| None).collect();
    let mut readers = vec![0usize; items.len()];
    let group = |i: usize| match fused.place[i] {
        Place::Group { group, row } => Some((group, row)),
        Place::Dead | Place::Source => None,
    };
    for (i, item) in items.iter().enumerate().filter(|(i, _)| group(*i).is_some()) {
        let outside = item.inputs.iter().filter(|e| group(e.base).map(|g| g.0) != group(i).map(|g| g.0));
        outside.for_each(|e| readers[e.base] += 1);
    }
    for (c, cat) in items.iter().enumerate().filter(|(c, _)| fused.stored[*c]) {
        let Kind::Opaque(Opaque::Cat(axis)) = cat.kind else { continue };
        let strides = cat.shape.strides();
        let mut from = 0;
        for e in &cat.inputs {
            let i = e.base;
            let at = from as isize * strides[axis];
            from += e.view.shape[axis];
            let (Some((g, row)), true) = (group(i), e.is_identity(items)) else { continue };
            let alone = readers[i] == 1 && fused.stored[i] && !outlives[i] && !fused.groups[g].opaque;
            if !alone || e.view.shape.numel() == 0 {
                continue;
            }
            let space = if row { fused.groups[g].row_shape() } else { fused.groups[g].space.clone() };
            let there = View { shape: e.view.shape.clone(), strides: strides.clone(), offset: at, ..e.view.clone() };
            out[i] = there.apply(&ViewOp::Reshape(space)).map(|view| Within { whole: c, view });
        }
    }
    out
}

/// Writes the kernel of group `g`.
pub fn generate(items: &[Item], fused: &Fused, within: &[Option<Within>], g: usize) -> Generated {
    let group = &fused.groups[g];
    let axes = reduced(items, group);
    let kept: Vec<usize> = (0..group.space.rank()).filter(|d| !axes.contains(d)).collect();
    let mut c = Codegen {
        items,
        fused,
        within,
        g,
        group,
        axes_order: kept.iter().chain(axes.iter()).copied().collect(),
        map_rank: kept.len(),
        out: Generated {
            kernel: Kernel {
                map: kept.iter().map(|&d| group.space[d]).collect(),
                reduce: axes.iter().map(|&d| group.space[d]).collect(),
                args: vec![],
                params: vec![],
                insts: vec![],
                order: order(items, group),
            },
            args: vec![],
            params: vec![],
        },
        values: HashMap::new(),
        loads: HashMap::new(),
    };
    for &i in &group.items {
        c.item(i);
    }
    c.out.kernel.order = Order::of(&c.out.kernel);
    debug_assert_eq!(crate::kernel::verify(&c.out.kernel), Ok(()), "\n{}", c.out.kernel);
    c.out
}

/// The largest thing that a group loads as it is in its space: how it lies in memory says which way to go.
fn largest<'a>(items: &'a [Item], group: &Group) -> Option<&'a View> {
    let mut best: Option<(usize, &View)> = None;
    for e in group.items.iter().flat_map(|&i| &items[i].inputs).filter(|e| e.view.shape == group.space) {
        let there = |d: usize| if e.view.strides[d] == 0 { 1 } else { group.space[d] };
        let touched = (0..group.space.rank()).map(there).product();
        if touched > 1 && best.is_none_or(|(t, _)| touched > t) {
            best = Some((touched, &e.view));
        }
    }
    best.map(|(_, view)| view)
}

/// The reduced axes of a group, the farthest steps through memory first: in which order elements are combined is for the
/// kernel to say, and what lies together is read together.
fn reduced(items: &[Item], group: &Group) -> Vec<usize> {
    let mut axes = group.axes.as_ref().map_or(vec![], |a| a.to_vec());
    if let Some(view) = largest(items, group).filter(|_| axes.len() > 1) {
        // An axis that does not move at all goes before those that do.
        axes.sort_by_key(|&d| std::cmp::Reverse(view.strides[d].unsigned_abs().wrapping_sub(1)));
    }
    axes
}

/// Rows when the innermost axis of what is read is reduced, columns when it is kept.
fn order(items: &[Item], group: &Group) -> Order {
    let Some(axes) = &group.axes else { return Order::ROWS };
    let cols: usize = axes.iter().map(|&a| group.space[a]).product();
    if cols < 2 {
        return Order::ROWS;
    }
    // Along which axis does it lie in memory?
    let inner = largest(items, group).and_then(|view| {
        let moves = (0..group.space.rank()).filter(|&d| group.space[d] > 1 && view.strides[d] != 0);
        moves.min_by_key(|&d| view.strides[d].unsigned_abs())
    });
    if inner.is_none_or(|d| axes.contains(&d)) { Order::ROWS } else { Order::COLUMNS }
}

struct Codegen<'a> {
    items: &'a [Item],
    fused: &'a Fused,
    within: &'a [Option<Within>],
    g: usize,
    group: &'a Group,
    /// Axes of the space in kernel order: kept ones, then reduced ones.
    axes_order: Vec<usize>,
    map_rank: usize,
    out: Generated,
    values: HashMap<usize, Val>,
    loads: HashMap<(usize, View), Val>,
}

impl Codegen<'_> {
    fn emit(&mut self, kind: InstKind, dtype: DType, level: Level) -> Val {
        self.out.kernel.insts.push(Inst { kind, dtype, level });
        self.out.kernel.insts.len() - 1
    }

    fn level(&self, v: Val) -> Level {
        self.out.kernel.insts[v].level
    }

    fn item(&mut self, i: usize) {
        let item = &self.items[i];
        let row = matches!(self.fused.place[i], Place::Group { row: true, .. });
        let reduces = matches!(item.kind, Kind::Reduce(..));
        let target = if row && !reduces { self.group.row_shape() } else { self.group.space.clone() };
        let value = self.compute(i, &target);
        self.values.insert(i, value);
        if self.fused.stored[i] {
            let shape = if row { self.group.row_shape() } else { self.group.space.clone() };
            let (to, view) = match &self.within[i] {
                Some(w) => (w.whole, w.view.clone()),
                None => (i, View::contiguous(&shape)),
            };
            let access = self.access(&view);
            let arg = self.arg(to, item.dtype, true);
            let level = match (row, self.group.axes.is_some()) {
                (true, _) => Level::Row,
                (false, _) => Level::Elem,
            };
            self.emit(InstKind::Store { arg, access, value }, item.dtype, level);
        }
    }

    /// The value of an item at points of `target` (the space, or its rows).
    fn compute(&mut self, i: usize, target: &Shape) -> Val {
        let item = &self.items[i];
        match &item.kind {
            Kind::Ewise(row) => {
                let vals: SmallVec<[Val; 3]> = item.inputs.iter().map(|e| self.read(e, target)).collect();
                let level = vals.iter().map(|&v| self.level(v)).max().unwrap_or(Level::Uniform);
                self.emit(InstKind::Ewise(row, vals), item.dtype, level)
            }
            Kind::Cast => {
                let v = self.read(&item.inputs[0], target);
                let level = self.level(v);
                if self.out.kernel.insts[v].dtype == item.dtype {
                    v
                } else {
                    self.emit(InstKind::Cast(v), item.dtype, level)
                }
            }
            Kind::Copy => self.read(&item.inputs[0], target),
            Kind::Reduce(op, _) => {
                let mut v = self.read(&item.inputs[0], target);
                if self.level(v) < Level::Elem {
                    // The same number at every element: a conversion to its own type says so.
                    v = self.emit(InstKind::Cast(v), item.dtype, Level::Elem);
                }
                self.emit(InstKind::Reduce(*op, v), item.dtype, Level::Row)
            }
            Kind::Gather(axis) => self.gather(item, *axis, target),
            Kind::Leaf(_) | Kind::Scalar(_) | Kind::Iota | Kind::Rand(_) | Kind::Opaque(_) => {
                self.read(&Edge::whole(i, &item.shape), target)
            }
        }
    }

    fn gather(&mut self, item: &Item, axis: usize, target: &Shape) -> Val {
        if item.shape.numel() == 0 {
            return self.emit(InstKind::Const(crate::Scalar::I(0).cast(item.dtype)), item.dtype, Level::Uniform);
        }
        let index = self.read(&item.inputs[1], target);
        let x = &item.inputs[0];
        let (stride, size) = (x.view.strides[axis], x.view.shape[axis]);
        // Of the table's own axes all but the looked-up one move with the result's.
        let mut view = View { shape: item.shape.clone(), ..x.view.clone() };
        view.strides[axis] = 0;
        let view = view.apply(&ViewOp::Reshape(target.clone())).unwrap_or(view);
        let mut access = self.access(&view);
        access.lookup.push(Lookup { value: index, stride, size });
        let level = self.access_level(&access).max(self.level(index));
        let arg = self.arg(x.base, item.dtype, false);
        self.emit(InstKind::Load { source: Source::Arg(arg), access }, item.dtype, level)
    }

    /// What an edge reads at points of `target`.
    fn read(&mut self, e: &Edge, target: &Shape) -> Val {
        let item = &self.items[e.base];
        if matches!(self.fused.place[e.base], Place::Group { group, .. } if group == self.g)
            && let Some(&v) = self.values.get(&e.base)
        {
            return v;
        }
        if let Kind::Scalar(p) = item.kind
            && e.view.bounds.is_empty()
        {
            return self.param(p, item.dtype);
        }
        // The fuser only lets an item in where this works.
        let view = if e.view.shape == *target {
            e.view.clone()
        } else {
            e.view.apply(&ViewOp::Reshape(target.clone())).unwrap_or_else(|| e.view.clone())
        };
        if view.shape.numel() == 0 {
            // There is nothing to read, and a value nobody will see still needs a definition.
            return self.emit(InstKind::Const(crate::Scalar::I(0).cast(item.dtype)), item.dtype, Level::Uniform);
        }
        if let Some(&v) = self.loads.get(&(e.base, view.clone())) {
            return v;
        }
        let access = self.access(&view);
        let level = self.access_level(&access);
        let dtype = item.dtype;
        let v = match item.kind {
            Kind::Scalar(p) => {
                // A padded constant: 1 inside the bounds, 0 outside, times the number.
                let one = self.emit(
                    InstKind::Load {
                        source: Source::Iota,
                        access: Access { offset: 1, strides: vec![0; access.strides.len()], ..access },
                    },
                    DType::I64,
                    level,
                );
                let zero = self.emit(InstKind::Const(crate::Scalar::I(0)), DType::I64, Level::Uniform);
                let inside = self.emit(
                    InstKind::Ewise(&crate::op::ewise::NE, SmallVec::from_slice(&[one, zero])),
                    DType::Bool,
                    level,
                );
                let p = self.param(p, dtype);
                let none = self.emit(InstKind::Const(crate::Scalar::I(0).cast(dtype)), dtype, Level::Uniform);
                self.emit(
                    InstKind::Ewise(&crate::op::ewise::WHERE, SmallVec::from_slice(&[inside, p, none])),
                    dtype,
                    level,
                )
            }
            Kind::Iota => {
                let v = self.emit(InstKind::Load { source: Source::Iota, access }, DType::I64, level);
                if dtype == DType::I64 { v } else { self.emit(InstKind::Cast(v), dtype, level) }
            }
            Kind::Rand(p) => {
                let (seed, stream) = (self.param_index(p, DType::I64), self.param_index(p + 1, DType::I64));
                self.emit(InstKind::Load { source: Source::Rand { seed, stream }, access }, dtype, level)
            }
            _ => {
                let arg = self.arg(e.base, dtype, false);
                self.emit(InstKind::Load { source: Source::Arg(arg), access }, dtype, level)
            }
        };
        self.loads.insert((e.base, view), v);
        v
    }

    fn param(&mut self, p: usize, dtype: DType) -> Val {
        let index = self.param_index(p, dtype);
        let known = self.out.kernel.insts.iter().position(|i| i.kind == InstKind::Param(index));
        known.unwrap_or_else(|| self.emit(InstKind::Param(index), dtype, Level::Uniform))
    }

    fn param_index(&mut self, p: usize, dtype: DType) -> usize {
        self.out.params.iter().position(|&q| q == p).unwrap_or_else(|| {
            self.out.params.push(p);
            self.out.kernel.params.push(dtype);
            self.out.params.len() - 1
        })
    }

    fn arg(&mut self, item: usize, dtype: DType, written: bool) -> usize {
        self.out.args.iter().position(|&a| a == item).unwrap_or_else(|| {
            self.out.args.push(item);
            self.out.kernel.args.push(Arg { dtype, written });
            self.out.args.len() - 1
        })
    }

    /// A view of the space (or its rows) as an address in kernel axes.
    fn access(&self, view: &View) -> Access {
        let pick = |c: &[isize]| {
            self.axes_order.iter().map(|&d| if view.shape[d] == 1 { 0 } else { c[d] }).collect::<Vec<_>>()
        };
        Access {
            strides: pick(&view.strides),
            offset: view.offset,
            bounds: view
                .bounds
                .iter()
                .map(|b| crate::view::Bound { coefs: pick(&b.coefs).into(), lo: b.lo, hi: b.hi })
                .collect(),
            lookup: vec![],
        }
    }

    fn access_level(&self, a: &Access) -> Level {
        let varies = |r: std::ops::Range<usize>| {
            a.strides[r.clone()].iter().any(|&s| s != 0)
                || a.bounds.iter().any(|b| b.coefs[r.clone()].iter().any(|&c| c != 0))
        };
        if self.map_rank < a.strides.len() && varies(self.map_rank..a.strides.len()) {
            Level::Elem
        } else if varies(0..self.map_rank) {
            // Without a reduce space there are no rows: every map point is an element.
            if self.group.axes.is_some() { Level::Row } else { Level::Elem }
        } else {
            Level::Uniform
        }
    }
}

/// A copy of what `from` shows into a buffer with the given strides.
pub fn copy_kernel(from: &View, to: &[isize], dtype: DType) -> Kernel {
    let load = Access { strides: from.strides.to_vec(), offset: from.offset, ..Access::default() };
    let store = Access { strides: to.to_vec(), ..Access::default() };
    let elem = |kind| Inst { kind, dtype, level: Level::Elem };
    Kernel {
        map: from.shape.to_vec(),
        reduce: vec![],
        args: vec![Arg { dtype, written: false }, Arg { dtype, written: true }],
        params: vec![],
        insts: vec![
            elem(InstKind::Load { source: Source::Arg(0), access: load }),
            elem(InstKind::Store { arg: 1, access: store, value: 0 }),
        ],
        order: Order::ROWS,
    }
}
