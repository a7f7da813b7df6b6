//! LAMB.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// LAMB (You et al., "Large Batch Optimization for Deep Learning"): Adam's direction, at a length in proportion to the
/// weights' own norm. Both moments are corrected for bias, as in the paper.
pub type Lamb = Optim<LambOptions>;

/// Options of [`Lamb`].
#[derive(Clone, Debug)]
pub struct LambOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// How much of the weights goes into the direction.
    pub weight_decay: f64,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for LambOptions {
    fn default() -> Self {
        LambOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-6, weight_decay: 0.0, maximize: false }
    }
}

impl Rule for LambOptions {
    const NAME: &'static str = "lamb";

    fn with_lr(lr: f64) -> Self {
        LambOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (b1, b2) = self.betas;
        let g = penalized(g, w, 0.0, self.maximize);
        let m = slot.average("exp_avg", &g, b1)?;
        let v = slot.average("exp_avg_sq", &(&g * &g), b2)?;
        let (c1, c2) = (1.0 - b1.powi(slot.step()), 1.0 - b2.powi(slot.step()));
        let direction = m / c1 / ((v / c2).sqrt() + self.eps) + w * self.weight_decay;
        let (weights, length) = (w.square().sum().sqrt(), direction.square().sum().sqrt());
        // Where either is zero there is no proportion to keep.
        let known = weights.gt(0.0)?.logical_and(&length.gt(0.0)?)?;
        let trust = known.where_(&(weights / length), 1.0)?;
        Ok(w - direction * trust * self.lr)
    }
}
