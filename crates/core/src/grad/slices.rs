//! Gradients of slices: many of one tensor, put side by side.

use super::rules::unslice;
use crate::{Result, Tensor, op::Op, view::ViewOp};

/// Up to this many, a sum of padded gradients fuses into one kernel with what surrounds it.
const FEW: usize = 8;

/// The gradient of a slice, waiting for those of the other slices of the same tensor.
pub(super) struct Piece {
    axis: usize,
    start: usize,
    grad: Tensor,
}

impl Piece {
    /// `g` as the gradient of `y`, if `y` is a slice without gaps.
    pub fn of(y: &Tensor, g: &Tensor) -> Option<Piece> {
        match &y.node().op {
            Op::View(ViewOp::Slice { axis, start, step: 1, .. }) => {
                Some(Piece { axis: *axis, start: *start, grad: g.clone() })
            }
            _ => None,
        }
    }

    fn len(&self) -> usize {
        self.grad.dims()[self.axis]
    }
}

/// The gradient of `x` from those of its slices. Where there are many side by side, as the steps of a recurrence make
/// them, they are joined: a sum of padded ones would cost the square of their number.
pub(super) fn join(x: &Tensor, mut pieces: Vec<Piece>) -> Result<Option<Tensor>> {
    let axis = pieces.first().map_or(0, |p| p.axis);
    let mut places: Vec<(usize, usize)> = pieces.iter().map(|p| (p.start, p.start + p.len())).collect();
    places.sort_unstable();
    let disjoint = places.windows(2).all(|w| w[0].1 <= w[1].0);
    let covered: usize = places.iter().map(|p| p.1 - p.0).sum();
    // Parts that are all of it are computed where they belong: nothing is added, nothing padded.
    let whole = pieces.len() > 1 && covered == x.dims()[axis];
    if (pieces.len() <= FEW && !whole) || !disjoint || pieces.iter().any(|p| p.axis != axis) {
        let mut sum: Option<Tensor> = None;
        for p in pieces {
            let part = unslice(&p.grad, p.axis, p.start, 1, p.len(), x.dims()[p.axis])?;
            sum = Some(match sum {
                Some(s) => s + part,
                None => part,
            });
        }
        return Ok(sum);
    }
    pieces.sort_by_key(|p| p.start);
    let mut parts: Vec<Tensor> = vec![];
    let mut at = 0;
    let gap = |n: usize| x.zeros_like().narrow(axis as i64, 0, n);
    for p in pieces {
        if p.start > at {
            parts.push(gap(p.start - at)?);
        }
        at = p.start + p.len();
        parts.push(p.grad);
    }
    if at < x.dims()[axis] {
        parts.push(gap(x.dims()[axis] - at)?);
    }
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), axis as i64).map(Some)
}
