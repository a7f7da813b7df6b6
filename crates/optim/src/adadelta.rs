//! Adadelta.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// Adadelta (Zeiler), step for step as PyTorch's `Adadelta`.
pub type Adadelta = Optim<AdadeltaOptions>;

/// Options of [`Adadelta`].
#[derive(Clone, Debug)]
pub struct AdadeltaOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rate of both averages.
    pub rho: f64,
    /// Added under both roots.
    pub eps: f64,
    /// Weight of an L2 penalty.
    pub weight_decay: f64,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for AdadeltaOptions {
    fn default() -> Self {
        AdadeltaOptions { lr: 1.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0, maximize: false }
    }
}

impl Rule for AdadeltaOptions {
    const NAME: &'static str = "adadelta";

    fn with_lr(lr: f64) -> Self {
        AdadeltaOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("rho", Field::Number(&mut self.rho)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let g = penalized(g, w, self.weight_decay, self.maximize);
        let v = slot.average("square_avg", &(&g * &g), self.rho)?;
        let delta = (slot.tensor("acc_delta", w)? + self.eps).sqrt() / (v + self.eps).sqrt() * g;
        slot.average("acc_delta", &(&delta * &delta), self.rho)?;
        Ok(w - delta * self.lr)
    }
}
