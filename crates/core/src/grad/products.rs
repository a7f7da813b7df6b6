//! Gradients that are products: many of one tensor, as one product.
//!
//! A recurrence uses its weights at every step, so their gradient is a sum of as many products, each of them small:
//! `a1 b1 + a2 b2 + ...`. Side by side they are one, `[a1 a2 ..] [b1; b2; ..]`.

use crate::{Result, Tensor, op::Op, view::ViewOp};

/// Up to this many are added up.
const FEW: usize = 8;

/// A part of a gradient that is the product of two matrices and has not been computed.
pub(super) struct Product {
    part: Tensor,
    /// The rows of the left side, transposed: `part = left^T right`.
    left: Tensor,
    right: Tensor,
}

/// What a transposed matrix is the transpose of.
fn turned(t: &Tensor) -> Option<Tensor> {
    match &t.node().op {
        Op::View(ViewOp::Permute(p)) if p[..] == [1, 0] => Some(t.node().inputs().first()?.clone()),
        _ => None,
    }
}

fn transposed(t: &Tensor) -> Result<Tensor> {
    turned(t).map_or_else(|| t.t(), Ok)
}

impl Product {
    /// `part` as a product, if it is one: of two matrices, or the transpose of that.
    pub fn of(part: &Tensor) -> Option<Product> {
        let pending = |t: &Tensor| t.rank() == 2 && !t.node().has_value();
        let factors = |t: &Tensor| match (&t.node().op, &t.node().inputs()[..]) {
            (Op::Matmul, [a, b]) if pending(t) => Some((a.clone(), b.clone())),
            _ => None,
        };
        if !pending(part) {
            return None;
        }
        let (left, right) = match turned(part) {
            // (a b)^T = b^T a^T
            Some(t) => factors(&t).and_then(|(a, b)| Some((b, transposed(&a).ok()?)))?,
            None => factors(part).and_then(|(a, b)| Some((transposed(&a).ok()?, b)))?,
        };
        Some(Product { part: part.clone(), left, right })
    }
}

/// The sum of the products, which come last step first.
pub(super) fn join(all: &[Product]) -> Result<Option<Tensor>> {
    if all.len() <= FEW {
        return Ok(all.iter().map(|p| p.part.clone()).reduce(|sum, p| sum + p));
    }
    let left = Tensor::cat(&all.iter().rev().map(|p| &p.left).collect::<Vec<_>>(), 0)?;
    let right = Tensor::cat(&all.iter().rev().map(|p| &p.right).collect::<Vec<_>>(), 0)?;
    left.t()?.matmul(&right).map(Some)
}
