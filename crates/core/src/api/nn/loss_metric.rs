//! Losses of vectors that should be near or far.

use crate::api::loss::Reduction;
use crate::{Error, Result, Tensor, op::ReduceOp};

/// How [`Tensor::triplet_margin_loss`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletMarginOptions {
    /// How much farther the negative should be.
    pub margin: f64,
    /// The norm of distances.
    pub p: f64,
    /// Added to differences.
    pub eps: f64,
    /// Take the positive's distance to the negative, where that is smaller than the anchor's.
    pub swap: bool,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl Default for TripletMarginOptions {
    fn default() -> Self {
        TripletMarginOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// `1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, for vectors along the last axis.
    #[track_caller]
    pub fn cosine_embedding_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        const EPS: f64 = 1e-12; // PyTorch's, added to squared lengths
        let name = "cosine_embedding_loss";
        let (a, b) = self.pair(name, other)?;
        if a.rank() == 0 || a.rank() > 2 || target.rank() + 1 != a.rank() {
            let why = format!(
                "needs vectors [D] and a number, or [N, D] and [N]: got {}, {} and {}",
                self.shape(),
                other.shape(),
                target.shape()
            );
            let shapes = [self.shape(), other.shape(), target.shape()];
            return Err(Error::shape(name, &shapes, why).operand(self).operand(other).operand(target));
        }
        let last = a.rank() - 1;
        let dot = |x: &Tensor, y: &Tensor| {
            let s = (x * y).reduce_one(ReduceOp::Sum, last);
            s.reshape_to(&s.shape().without(last))
        };
        let cos = dot(&a, &b) / ((dot(&a, &a) + EPS) * (dot(&b, &b) + EPS)).sqrt();
        let (cos, y) = cos.pair(name, target)?;
        let zero = cos.zeros_like();
        let near = y.eq(1.0)?.raw_where(&(1.0 - &cos), &zero);
        let far = y.eq(-1.0)?.raw_where(&(&cos - margin).at_least(0.0), &zero);
        Ok(reduction.apply(&(near + far)))
    }

    /// `max(0, margin + |self - positive| - |self - negative|)`, for vectors along the last axis.
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        options: &TripletMarginOptions,
    ) -> Result<Tensor> {
        let name = "triplet_margin_loss";
        if self.rank() != positive.rank() || self.rank() != negative.rank() {
            let shapes = [self.shape(), positive.shape(), negative.shape()];
            let why = format!("all three need as many axes: {}, {} and {}", shapes[0], shapes[1], shapes[2]);
            return Err(Error::shape(name, &shapes, why).operand(self).operand(positive).operand(negative));
        }
        if options.margin <= 0.0 || options.margin.is_nan() {
            return Err(Error::value(name, format!("the margin cannot be {}: it must be positive", options.margin)));
        }
        let distance = |a: &Tensor, b: &Tensor| a.pairwise_distance(b, options.p, options.eps, false);
        let near = distance(self, positive)?;
        let far = distance(self, negative)?;
        let far = if options.swap { far.minimum(&distance(positive, negative)?)? } else { far };
        Ok(options.reduction.apply(&(near.sub(&far)? + options.margin).at_least(0.0)))
    }
}
