//! What a graph is made of once views are strides: items, and the edges between them.

use crate::{
    DType, Shape,
    op::{Conv, CustomOp, HostOp, ReduceOp, ewise::Ewise},
    view::{View, ViewOp},
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Something computed, or a source.
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// What it reads.
    pub inputs: SmallVec<[Edge; 2]>,
    /// Extents of the result.
    pub shape: Shape,
    /// Element type of the result.
    pub dtype: DType,
    /// The node it stands for.
    pub node: usize,
    /// Whether views were moved before it: then its elements are not in the node's own order.
    pub moved: bool,
}

impl Item {
    /// Whether it is another item's buffer under an order.
    pub fn is_after(&self) -> bool {
        matches!(self.kind, Kind::Opaque(Opaque::After))
    }
}

/// Kinds of items.
#[derive(Clone)]
pub enum Kind {
    /// A buffer that exists (place of the node in the linear graph).
    Leaf(usize),
    /// A scalar argument.
    Scalar(usize),
    /// 0, 1, 2, ...
    Iota,
    /// Random numbers under two scalar arguments.
    Rand(usize),
    /// A row of the elementwise table.
    Ewise(&'static Ewise),
    /// A conversion of type.
    Cast,
    /// Elements brought into row-major order.
    Copy,
    /// A reduction that keeps its axes.
    Reduce(ReduceOp, SmallVec<[usize; 6]>),
    /// A look-up along an axis: (buffer, index).
    Gather(usize),
    /// A library routine.
    Opaque(Opaque),
}

/// Steps that are not loops of ours.
#[derive(Clone)]
pub enum Opaque {
    /// Batched matrix product, strided inputs.
    Matmul,
    /// The product of two matrices, of this shape, with a vector (the third input) added to every row, and rectified or
    /// not.
    Biased(Shape, bool),
    /// Convolution or a gradient of it.
    Conv(Arc<Conv>),
    /// A convolution with one number a channel (the third input) added, and rectified or not.
    BiasedConv(Arc<Conv>, bool),
    /// A host routine.
    Host(HostOp),
    /// A user's operation.
    Custom(Arc<dyn CustomOp>),
    /// Inputs side by side along an axis.
    Cat(usize),
    /// The buffer of the first input, once the second has been computed: no step, only an order.
    After,
}

impl Kind {
    /// Whether two items of this kind over the same inputs are the same.
    pub(super) fn same(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Ewise(a), Kind::Ewise(b)) => a == b,
            (Kind::Cast, Kind::Cast) | (Kind::Copy, Kind::Copy) => true,
            (Kind::Reduce(a, x), Kind::Reduce(b, y)) => a == b && x == y,
            (Kind::Gather(a), Kind::Gather(b)) => a == b,
            (Kind::Opaque(a), Kind::Opaque(b)) => match (a, b) {
                (Opaque::Matmul, Opaque::Matmul) => true,
                (Opaque::Conv(a), Opaque::Conv(b)) => a == b,
                (Opaque::Host(a), Opaque::Host(b)) => a == b,
                (Opaque::Cat(a), Opaque::Cat(b)) => a == b,
                // What a user's operation does is its own business, an order is there for its place, and those with a
                // bias come later.
                _ => false,
            },
            _ => false,
        }
    }

    /// Sources that have no buffer: they are computed where they are read.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Kind::Scalar(_) | Kind::Iota | Kind::Rand(_))
    }

    /// Pure functions of one element at a time.
    pub fn is_pointwise(&self) -> bool {
        matches!(self, Kind::Ewise(_) | Kind::Cast)
    }
}

/// How a computation reads an item.
#[derive(Clone)]
pub struct Edge {
    /// The item.
    pub base: usize,
    /// Its elements under the views in between, as strides over the item's row-major order (or a leaf's own strides).
    pub view: View,
    /// Those views, innermost first.
    pub(super) ops: SmallVec<[ViewOp; 2]>,
    /// Whether nobody else reads the item or the views in between.
    pub(super) sole: bool,
}

impl Edge {
    /// An item as it is.
    pub fn whole(base: usize, shape: &Shape) -> Edge {
        Edge { base, view: View::contiguous(shape), ops: SmallVec::new(), sole: false }
    }

    /// An item's buffer under a view.
    pub fn of(base: usize, view: View) -> Edge {
        Edge { base, view, ops: SmallVec::new(), sole: false }
    }

    /// The same elements under another shape, if strides can say it.
    pub fn reshaped(&self, shape: &Shape) -> Option<Edge> {
        if self.view.shape == *shape {
            return Some(self.clone());
        }
        let op = ViewOp::Reshape(shape.clone());
        let view = self.view.apply(&op)?;
        let mut ops = self.ops.clone();
        ops.push(op);
        Some(Edge { view, ops, ..*self })
    }

    /// Whether elements are read one to one in row-major order (reshapes included).
    pub fn is_identity(&self, items: &[Item]) -> bool {
        !matches!(items[self.base].kind, Kind::Leaf(_))
            && self.view.is_contiguous()
            && self.view.offset == 0
            && self.view.shape.numel() == items[self.base].shape.numel()
    }
}
