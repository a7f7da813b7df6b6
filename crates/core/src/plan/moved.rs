//! Views moved before what they are views of, so that it fuses with its reader.

use super::{
    items::{Edge, Kind},
    lower::Lower,
};
use crate::{op::ewise, view::ViewOp};
use smallvec::SmallVec;

impl Lower {
    /// Moves the views of an edge before a pointwise item that nobody else reads, so that both fuse with the reader.
    pub(super) fn push(&mut self, e: Edge, depth: usize) -> Edge {
        let base = &self.items[e.base];
        let grows = e.view.shape.numel() > base.shape.numel();
        let movable = base.kind.is_pointwise()
            && !e.ops.is_empty()
            && !e.is_identity(&self.items)
            && (e.sole && (!grows || self.is_small(e.base)) || self.is_uniform(e.base, 0) || self.is_free(e.base, 0))
            && !e.ops.iter().any(|o| matches!(o, ViewOp::Pad(_)))
            && depth < 32;
        if !movable {
            return e;
        }
        let mut inputs: SmallVec<[Edge; 2]> = SmallVec::new();
        for input in &base.inputs {
            let mut view = input.view.clone();
            let mut ops = input.ops.clone();
            for op in &e.ops {
                match view.apply(op) {
                    Some(v) => view = v,
                    None => return e,
                }
                ops.push(op.clone());
            }
            inputs.push(Edge { base: input.base, view, ops, sole: input.sole });
        }
        let (kind, dtype, node) = (base.kind.clone(), base.dtype, base.node);
        let inputs = inputs.into_iter().map(|i| self.push(i, depth + 1)).collect();
        let edge = self.moved_item(kind, inputs, e.view.shape, dtype, node);
        Edge { sole: true, ..edge }
    }

    /// A conversion of a few stored numbers, such as a bias: converted wherever it is read, it needs no step of its own.
    fn is_small(&self, base: usize) -> bool {
        let item = &self.items[base];
        matches!(item.kind, Kind::Cast)
            && matches!(self.items[item.inputs[0].base].kind, Kind::Leaf(_))
            && item.shape.numel() <= 1 << 14
    }

    /// A little arithmetic on positions, such as a causal mask: cheaper to compute again than to load.
    fn is_free(&self, base: usize, depth: usize) -> bool {
        let item = &self.items[base];
        match item.kind {
            Kind::Scalar(_) | Kind::Iota => true,
            Kind::Ewise(row) => {
                row.kind != ewise::Kind::Float
                    && depth < 4
                    && item.inputs.iter().all(|i| self.is_free(i.base, depth + 1))
            }
            _ => false,
        }
    }

    /// One number that depends on scalars and stored numbers alone: cheaper to compute again than to store.
    fn is_uniform(&self, base: usize, depth: usize) -> bool {
        let item = &self.items[base];
        item.shape.numel() == 1
            && match item.kind {
                Kind::Scalar(_) | Kind::Leaf(_) => true,
                Kind::Ewise(_) | Kind::Cast => {
                    depth < 4 && item.inputs.iter().all(|i| self.is_uniform(i.base, depth + 1))
                }
                _ => false,
            }
    }
}
