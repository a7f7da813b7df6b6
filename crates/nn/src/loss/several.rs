//! Losses that compare more than two tensors.

use gradus_core::{CtcOptions, Error, Reduction, Result, Tensor, TripletMarginOptions};
use std::sync::Arc;

/// Negative log-likelihood of a normal distribution with a variance for each element.
#[derive(Clone, Copy, Debug)]
pub struct GaussianNllLoss {
    /// Add the term that does not depend on the input.
    pub full: bool,
    /// The variance counts as at least this.
    pub eps: f64,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl Default for GaussianNllLoss {
    fn default() -> Self {
        GaussianNllLoss { full: false, eps: 1e-6, reduction: Reduction::Mean }
    }
}

impl GaussianNllLoss {
    /// For a predicted mean and variance.
    #[track_caller]
    pub fn forward(&self, mean: &Tensor, target: &Tensor, var: &Tensor) -> Result<Tensor> {
        mean.gaussian_nll_loss(target, var, self.full, self.eps, self.reduction)
    }
}

/// The negative log-likelihood of label sequences without alignment.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcLoss {
    /// The blank, the reduction, and what infinite losses count.
    pub options: CtcOptions,
}

impl CtcLoss {
    /// Log-probabilities `[t, n, classes]`, targets `[n, s]` or one after the other, and the length of each.
    #[track_caller]
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
    ) -> Result<Tensor> {
        log_probs.ctc_loss(targets, input_lengths, target_lengths, &self.options)
    }
}

/// `max(0, margin - y (a - b))`: target 1 wants `a` larger, -1 wants `b` larger.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarginRankingLoss {
    /// By how much it should be larger.
    pub margin: f64,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl MarginRankingLoss {
    /// For two predictions and which should be larger.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, target: &Tensor) -> Result<Tensor> {
        a.margin_ranking_loss(b, target, self.margin, self.reduction)
    }
}

/// `1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1.
#[derive(Clone, Copy, Debug, Default)]
pub struct CosineEmbeddingLoss {
    /// How near is near enough to be wrong.
    pub margin: f64,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl CosineEmbeddingLoss {
    /// For two vectors and whether they should be near.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor, target: &Tensor) -> Result<Tensor> {
        a.cosine_embedding_loss(b, target, self.margin, self.reduction)
    }
}

/// `max(0, margin + |anchor - positive| - |anchor - negative|)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TripletMarginLoss {
    /// The margin, the norm, and the reduction.
    pub options: TripletMarginOptions,
}

impl TripletMarginLoss {
    /// For an anchor, a vector that should be near it and one that should be far.
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        anchor.triplet_margin_loss(positive, negative, &self.options)
    }
}

/// A distance of two batches of vectors.
type Distance = Arc<dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;

/// [`TripletMarginLoss`] with a distance of your own.
#[derive(Clone)]
pub struct TripletMarginWithDistanceLoss {
    distance: Distance,
    /// How much farther the negative should be.
    pub margin: f64,
    /// Take the positive's distance to the negative, where that is smaller than the anchor's.
    pub swap: bool,
    /// What becomes of the single losses.
    pub reduction: Reduction,
}

impl TripletMarginWithDistanceLoss {
    /// With margin 1, no swap, and the mean.
    pub fn new(distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Self {
        let distance = Arc::new(distance);
        TripletMarginWithDistanceLoss { distance, margin: 1.0, swap: false, reduction: Reduction::Mean }
    }

    /// For an anchor, a vector that should be near it and one that should be far.
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        let (near, far) = ((self.distance)(anchor, positive)?, (self.distance)(anchor, negative)?);
        let far = if self.swap { far.minimum(&(self.distance)(positive, negative)?)? } else { far };
        let loss = (near.sub(&far)? + self.margin).clamp_min(0.0)?;
        match self.reduction {
            Reduction::None => Ok(loss),
            Reduction::Mean => Ok(loss.mean()),
            Reduction::Sum => Ok(loss.sum()),
            Reduction::BatchMean => {
                let n = loss.dims().first().copied().unwrap_or(1);
                if n == 0 {
                    return Err(
                        Error::shape("triplet_margin_loss", &[loss.shape()], "the batch is empty").operand(&loss)
                    );
                }
                Ok(loss.sum() / n as f64)
            }
        }
    }
}
