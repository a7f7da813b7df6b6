//! Lion.

use crate::{Field, Optim, Rule, Slot, adam::decayed, rule::penalized};
use gradus_core::{Result, Tensor};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms"): the sign of an interpolated momentum.
pub type Lion = Optim<LionOptions>;

/// Options of [`Lion`].
#[derive(Clone, Debug)]
pub struct LionOptions {
    /// Learning rate.
    pub lr: f64,
    /// Weights of the momentum in a step, and in the next momentum.
    pub betas: (f64, f64),
    /// How much of a weight goes in each step, times the learning rate.
    pub weight_decay: f64,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for LionOptions {
    fn default() -> Self {
        LionOptions { lr: 1e-4, betas: (0.9, 0.99), weight_decay: 0.0, maximize: false }
    }
}

impl Rule for LionOptions {
    const NAME: &'static str = "lion";

    fn with_lr(lr: f64) -> Self {
        LionOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (b1, b2) = self.betas;
        let g = penalized(g, w, 0.0, self.maximize);
        let m = slot.tensor("exp_avg", w)?;
        let step = (m * b1 + &g * (1.0 - b1)).sign();
        slot.average("exp_avg", &g, b2)?;
        Ok(decayed(w, self.lr, self.weight_decay) - step * self.lr)
    }
}
