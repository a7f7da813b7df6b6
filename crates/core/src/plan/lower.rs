//! From nodes to items: views become strides on the edges between computations.

use super::{
    items::{Edge, Item, Kind, Opaque},
    linear::{Linear, LinearNode, leaf_view},
};
use crate::{
    DType, Shape,
    op::{HostOp, Op},
    view::{View, ViewOp},
};
use smallvec::SmallVec;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// The items of a graph and what is wanted of them.
pub struct Lowered {
    /// All items, inputs first.
    pub items: Vec<Item>,
    /// Wanted nodes: place in the linear graph, and where their elements are.
    pub roots: Vec<(usize, Edge)>,
}

/// Lowers a graph.
pub fn lower(graph: &Linear) -> Lowered {
    let mut uses = vec![0usize; graph.nodes.len()];
    for n in &graph.nodes {
        n.inputs.iter().for_each(|&i| uses[i] += 1);
    }
    let turned = turned(graph, &uses);
    let mut l = Lower { items: vec![], edges: Vec::with_capacity(graph.nodes.len()), known: HashMap::new() };
    for (i, n) in graph.nodes.iter().enumerate() {
        let node = n.tensor.node();
        let sole = uses[i] == 1 && !n.wanted;
        let edge = if let Some(v) = &n.value {
            l.item(Kind::Leaf(i), SmallVec::new(), node.shape.clone(), node.dtype, i, Some(leaf_view(v)))
        } else if turned[i] {
            l.turned_matmul(n, &node.shape, node.dtype, i)
        } else {
            l.node(&node.op, n, &node.shape, node.dtype, i)
        };
        let edge = Edge { sole: sole && (edge.sole || edge.ops.is_empty()), ..edge };
        l.edges.push(edge);
    }
    let mut roots = vec![];
    for (i, n) in graph.nodes.iter().enumerate() {
        if n.wanted && n.value.is_none() {
            let e = l.edges[i].clone();
            let e = l.permuted_root(&e, i).unwrap_or_else(|| l.buffer(e, false, i));
            roots.push((i, e));
        }
    }
    Lowered { items: l.items, roots }
}

/// Exchanges the last two axes.
fn turn(rank: usize) -> ViewOp {
    let mut p: SmallVec<[usize; 6]> = (0..rank).collect();
    p.swap(rank - 1, rank - 2);
    ViewOp::Permute(p)
}

/// Products that are only read transposed, as the gradient of a `Linear`'s weight is: they are computed that way round.
fn turned(graph: &Linear, uses: &[usize]) -> Vec<bool> {
    let mut reads = vec![0usize; graph.nodes.len()];
    for n in &graph.nodes {
        if let (Op::View(v @ ViewOp::Permute(p)), None) = (&n.tensor.node().op, &n.value)
            && p.len() >= 2
            && *v == turn(p.len())
        {
            reads[n.inputs[0]] += 1;
        }
    }
    let product = |n: &LinearNode| n.value.is_none() && !n.wanted && matches!(n.tensor.node().op, Op::Matmul);
    graph.nodes.iter().enumerate().map(|(i, n)| product(n) && reads[i] == uses[i] && uses[i] > 0).collect()
}

pub(super) struct Lower {
    pub(super) items: Vec<Item>,
    edges: Vec<Edge>,
    /// Items by what they are: equal ones become one.
    known: HashMap<u64, SmallVec<[usize; 2]>>,
}

impl Lower {
    fn item(
        &mut self,
        kind: Kind,
        inputs: SmallVec<[Edge; 2]>,
        shape: Shape,
        dtype: DType,
        node: usize,
        view: Option<View>,
    ) -> Edge {
        let view = view.unwrap_or_else(|| View::contiguous(&shape));
        let item = Item { kind, inputs, shape, dtype, node, moved: false };
        let base = self.known_as(&item).unwrap_or_else(|| {
            self.items.push(item);
            self.items.len() - 1
        });
        Edge { view, ..Edge::whole(base, &Shape::default()) }
    }

    /// An item whose elements are not in its node's order.
    pub(super) fn moved_item(
        &mut self,
        kind: Kind,
        inputs: SmallVec<[Edge; 2]>,
        shape: Shape,
        dtype: DType,
        node: usize,
    ) -> Edge {
        let before = self.items.len();
        let edge = self.item(kind, inputs, shape, dtype, node, None);
        // One that was there before stands for its own node.
        self.items[edge.base].moved |= edge.base == before;
        edge
    }

    /// An earlier item that computes the same; this one is remembered for later ones.
    fn known_as(&mut self, item: &Item) -> Option<usize> {
        if item.inputs.is_empty() {
            return None;
        }
        let mut h = DefaultHasher::new();
        (std::mem::discriminant(&item.kind), &item.shape, item.dtype).hash(&mut h);
        item.inputs.iter().for_each(|e| (e.base, &e.view).hash(&mut h));
        let same = |k: &Item| {
            k.dtype == item.dtype
                && k.shape == item.shape
                && !k.moved
                && k.inputs.len() == item.inputs.len()
                && k.inputs.iter().zip(&item.inputs).all(|(a, b)| a.base == b.base && a.view == b.view)
                && k.kind.same(&item.kind)
        };
        let all = self.known.entry(h.finish()).or_default();
        let found = all.iter().copied().find(|&k| same(&self.items[k]));
        if found.is_none() {
            all.push(self.items.len());
        }
        found
    }

    /// `(a b)^T` as `b^T a^T`, under the view that turns it back.
    fn turned_matmul(&mut self, n: &LinearNode, shape: &Shape, dtype: DType, i: usize) -> Edge {
        let (r, turn) = (shape.rank(), turn(shape.rank()));
        let inputs = [1, 0].map(|k: usize| {
            let e = self.edges[n.inputs[k]].clone();
            let e = self.view(e, &turn, i);
            self.buffer(e, false, i)
        });
        let mut out = shape.clone();
        out.0.swap(r - 1, r - 2);
        let e = self.moved_item(Kind::Opaque(Opaque::Matmul), SmallVec::from_iter(inputs), out, dtype, i);
        self.view(e, &turn, i)
    }

    fn node(&mut self, op: &Op, n: &LinearNode, shape: &Shape, dtype: DType, i: usize) -> Edge {
        let input = |l: &Lower, k: usize| l.edges[n.inputs[k]].clone();
        let all = |l: &Lower| n.inputs.iter().map(|&k| l.edges[k].clone()).collect::<SmallVec<[Edge; 2]>>();
        let kind = match op {
            Op::Snapshot(_) | Op::Detach | Op::WithVjp(_) | Op::Var(_) | Op::Transfer | Op::Data => {
                return input(self, 0);
            }
            Op::View(v) => return self.view(input(self, 0), v, i),
            Op::Scalar(_) => {
                let number = self.item(Kind::Scalar(n.scalar), SmallVec::new(), Shape::default(), dtype, i, None);
                return if shape.rank() == 0 { number } else { self.view(number, &ViewOp::Expand(shape.clone()), i) };
            }
            // Expanded before.
            Op::Call(_) => return input(self, 0),
            Op::Iota => Kind::Iota,
            Op::Rand { .. } => Kind::Rand(n.scalar),
            Op::Ewise(row) => Kind::Ewise(row),
            Op::Cast => Kind::Cast,
            Op::Contiguous => Kind::Copy,
            Op::Reduce { op, axes } => Kind::Reduce(*op, axes.clone()),
            Op::Gather { axis } => {
                let x = input(self, 0);
                let index = self.push(input(self, 1), 0);
                if let Some(found) = self.gather_converted(*axis, &x, &index, shape, dtype, i) {
                    return found;
                }
                let x = self.buffer(x, false, i);
                let inputs = SmallVec::from_iter([x, index]);
                return self.item(Kind::Gather(*axis), inputs, shape.clone(), dtype, i, None);
            }
            Op::After => return self.after(input(self, 0), input(self, 1), i),
            Op::Matmul => Kind::Opaque(Opaque::Matmul),
            Op::Conv(c) => Kind::Opaque(Opaque::Conv(c.clone())),
            Op::Host(HostOp::TakeRows) if self.is_few_of(&input(self, 0), shape) => {
                let column = self.view(input(self, 1), &ViewOp::Reshape([shape[0], 1].into()), i);
                let index = self.view(column, &ViewOp::Expand(shape.clone()), i);
                let inputs = SmallVec::from_iter([input(self, 0), self.push(index, 0)]);
                return self.item(Kind::Gather(0), inputs, shape.clone(), dtype, i, None);
            }
            Op::Host(h) => Kind::Opaque(Opaque::Host(h.clone())),
            Op::Custom(c) => Kind::Opaque(Opaque::Custom(c.clone())),
            Op::Cat { axis } => Kind::Opaque(Opaque::Cat(*axis)),
        };
        let inputs = all(self);
        if let Kind::Opaque(Opaque::Cat(axis)) = kind {
            return self.cat(axis, inputs, shape, dtype, i);
        }
        let inputs = match &kind {
            Kind::Opaque(Opaque::Matmul) => inputs.into_iter().map(|e| self.buffer(e, false, i)).collect(),
            Kind::Opaque(Opaque::Host(h)) if h.takes_rows() => inputs.into_iter().map(|e| self.rows(e, i)).collect(),
            Kind::Opaque(Opaque::Conv(_) | Opaque::Host(_) | Opaque::Custom(_)) => {
                inputs.into_iter().map(|e| self.buffer(e, true, i)).collect()
            }
            _ => inputs.into_iter().map(|e| self.push(e, 0)).collect(),
        };
        self.item(kind, inputs, shape.clone(), dtype, i, None)
    }

    /// Inputs side by side. Along the outermost axis they follow each other in memory, whatever their shapes: then it is
    /// a matter of one axis, so that what is joined twice is the same item, and may be computed in place.
    fn cat(&mut self, axis: usize, inputs: SmallVec<[Edge; 2]>, shape: &Shape, dtype: DType, i: usize) -> Edge {
        let inputs: SmallVec<[Edge; 2]> = inputs.into_iter().map(|e| self.buffer(e, false, i)).collect();
        if let Some(base) = self.parted(axis, &inputs, shape) {
            let whole = Edge::whole(base, &self.items[base].shape);
            return self.view(whole, &ViewOp::Reshape(shape.clone()), i);
        }
        let outermost = shape[..axis].iter().all(|&n| n == 1) && shape.numel() > 0;
        if !outermost || inputs.iter().any(|e| !e.view.is_contiguous()) {
            return self.item(Kind::Opaque(Opaque::Cat(axis)), inputs, shape.clone(), dtype, i, None);
        }
        let flat: Option<SmallVec<[Edge; 2]>> = inputs
            .iter()
            .filter(|e| e.view.shape.numel() > 0)
            .map(|e| e.reshaped(&e.view.shape.numel().into()))
            .collect();
        let inputs = flat.unwrap_or(inputs);
        let all = self.moved_item(Kind::Opaque(Opaque::Cat(0)), inputs, shape.numel().into(), dtype, i);
        self.view(all, &ViewOp::Reshape(shape.clone()), i)
    }

    /// The item of which these are all the parts, as they lie in memory: joined, they are the item itself.
    fn parted(&self, axis: usize, inputs: &[Edge], shape: &Shape) -> Option<usize> {
        let base = inputs.first()?.base;
        let item = &self.items[base];
        // The results of routines lie row by row; what others make may come to lie otherwise, or not at all.
        if !matches!(item.kind, Kind::Opaque(Opaque::Host(_))) || item.shape.numel() != shape.numel() {
            return None;
        }
        let strides = shape.strides();
        let mut from = 0;
        for e in inputs {
            let v = &e.view;
            let along = |d: usize| v.shape[d] <= 1 || v.strides[d] == strides[d];
            let here = v.offset == from as isize * strides[axis] && v.bounds.is_empty();
            if e.base != base || !here || !(0..shape.rank()).all(along) {
                return None;
            }
            from += v.shape[axis];
        }
        Some(base)
    }

    /// A few elements of a conversion: converted after they were looked up, so that the conversion need not be a buffer.
    fn gather_converted(
        &mut self,
        axis: usize,
        x: &Edge,
        index: &Edge,
        shape: &Shape,
        dtype: DType,
        i: usize,
    ) -> Option<Edge> {
        let base = &self.items[x.base];
        let whole = matches!(base.kind, Kind::Cast) && x.is_identity(&self.items) && x.view.shape == base.shape;
        if !whole || shape.numel() > base.shape.numel() / 4 {
            return None;
        }
        let from = base.inputs[0].clone();
        let stored = self.items[from.base].dtype;
        let from = self.buffer(from, false, i);
        let inputs = SmallVec::from_iter([from, index.clone()]);
        // It is not yet what the node stands for.
        let found = self.moved_item(Kind::Gather(axis), inputs, shape.clone(), stored, i);
        Some(self.item(Kind::Cast, SmallVec::from_iter([found]), shape.clone(), dtype, i, None))
    }

    /// One more view on an edge; what strides cannot say is a copy.
    fn view(&mut self, e: Edge, op: &ViewOp, i: usize) -> Edge {
        if let Some(view) = e.view.apply(op) {
            let mut ops = e.ops;
            ops.push(op.clone());
            return Edge { base: e.base, view, ops, sole: e.sole };
        }
        let c = self.copy(e, i);
        match c.view.apply(op) {
            Some(view) => Edge { base: c.base, view, ops: SmallVec::from_iter([op.clone()]), sole: c.sole },
            None => c, // a contiguous tensor takes every view: not reached
        }
    }

    /// `e` under an item that stands for its buffer and waits for `first`. It reads as `e` did, views and all.
    fn after(&mut self, e: Edge, first: Edge, i: usize) -> Edge {
        if self.items[e.base].kind.is_virtual() || self.items[first.base].kind.is_virtual() {
            return e; // nothing to hold back, or nothing to wait for
        }
        let (shape, dtype) = (self.items[e.base].shape.clone(), self.items[e.base].dtype);
        let wait = Edge::whole(first.base, &self.items[first.base].shape);
        let inputs = SmallVec::from_iter([Edge::whole(e.base, &shape), wait]);
        let held = self.item(Kind::Opaque(Opaque::After), inputs, shape, dtype, i, None);
        Edge { base: held.base, sole: false, ..e }
    }

    fn copy(&mut self, e: Edge, i: usize) -> Edge {
        let e = self.push(e, 0);
        let (shape, dtype) = (e.view.shape.clone(), self.items[e.base].dtype);
        self.item(Kind::Copy, SmallVec::from_iter([e]), shape, dtype, i, None)
    }

    /// An edge to something that will be a buffer, without padding, and contiguous if asked.
    fn buffer(&mut self, e: Edge, contiguous: bool, i: usize) -> Edge {
        let fits = !self.items[e.base].kind.is_virtual()
            && e.view.bounds.is_empty()
            && (!contiguous || e.view.is_contiguous());
        if fits { e } else { self.copy(e, i) }
    }

    /// A padded result whose axes are exchanged last: what is copied is what lies under that, in its own order.
    fn permuted_root(&mut self, e: &Edge, i: usize) -> Option<Edge> {
        let Some(ViewOp::Permute(p)) = e.ops.last().filter(|_| !e.view.bounds.is_empty()) else { return None };
        let mut back: SmallVec<[usize; 6]> = p.iter().map(|_| 0).collect();
        p.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        let back = ViewOp::Permute(back);
        let mut under = Edge { view: e.view.apply(&back)?, ..e.clone() };
        under.ops.push(back);
        let copied = self.copy(under, i);
        Some(Edge {
            view: copied.view.apply(&ViewOp::Permute(p.clone()))?,
            ops: [ViewOp::Permute(p.clone())].into_iter().collect(),
            ..copied
        })
    }

    /// Whether rows of a table are looked up where they lie: the routine for them would have all of it copied first, more than there
    /// is to look up.
    fn is_few_of(&self, table: &Edge, rows: &Shape) -> bool {
        let v = &table.view;
        let lies = !self.items[table.base].kind.is_virtual() && v.bounds.is_empty() && !v.is_contiguous();
        lies && rows[0] <= v.shape[0]
    }

    /// An edge to a buffer whose last axis is contiguous, and whose strides are not negative.
    fn rows(&mut self, e: Edge, i: usize) -> Edge {
        let e = self.buffer(e, false, i);
        let v = &e.view;
        let last = v.shape.rank().checked_sub(1).is_none_or(|r| v.strides[r] == 1 || v.shape[r] <= 1);
        if last && v.strides.iter().all(|&s| s >= 0) { e } else { self.copy(e, i) }
    }
}
