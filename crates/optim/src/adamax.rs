//! Adam with the infinity norm.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// Adamax (Kingma and Ba), step for step as PyTorch's `Adamax`.
pub type Adamax = Optim<AdamaxOptions>;

/// Options of [`Adamax`].
#[derive(Clone, Debug)]
pub struct AdamaxOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to a gradient's size.
    pub eps: f64,
    /// Weight of an L2 penalty.
    pub weight_decay: f64,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for AdamaxOptions {
    fn default() -> Self {
        AdamaxOptions { lr: 2e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, maximize: false }
    }
}

impl Rule for AdamaxOptions {
    const NAME: &'static str = "adamax";

    fn with_lr(lr: f64) -> Self {
        AdamaxOptions { lr, ..Default::default() }
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
        let g = penalized(g, w, self.weight_decay, self.maximize);
        let m = slot.average("exp_avg", &g, b1)?;
        let largest = (slot.tensor("exp_inf", w)? * b2).maximum(&(g.abs() + self.eps))?;
        slot.keep("exp_inf", &largest);
        Ok(w - m * (self.lr / (1.0 - b1.powi(slot.step()))) / largest)
    }
}
