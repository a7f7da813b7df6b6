//! Adagrad.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// Adagrad (Duchi et al.), step for step as PyTorch's `Adagrad`.
pub type Adagrad = Optim<AdagradOptions>;

/// Options of [`Adagrad`].
#[derive(Clone, Debug)]
pub struct AdagradOptions {
    /// Learning rate.
    pub lr: f64,
    /// How fast the learning rate falls.
    pub lr_decay: f64,
    /// Weight of an L2 penalty.
    pub weight_decay: f64,
    /// Where the sums of squares begin.
    pub initial_accumulator_value: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for AdagradOptions {
    fn default() -> Self {
        AdagradOptions {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
            maximize: false,
        }
    }
}

impl Rule for AdagradOptions {
    const NAME: &'static str = "adagrad";

    fn with_lr(lr: f64) -> Self {
        AdagradOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("lr_decay", Field::Number(&mut self.lr_decay)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("initial_accumulator_value", Field::Number(&mut self.initial_accumulator_value)),
            ("eps", Field::Number(&mut self.eps)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let g = penalized(g, w, self.weight_decay, self.maximize);
        let begin = if slot.step() == 1 { self.initial_accumulator_value } else { 0.0 };
        let sum = slot.tensor("sum", w)? + begin + &g * &g;
        slot.keep("sum", &sum);
        let lr = self.lr / (1.0 + (slot.step() - 1) as f64 * self.lr_decay);
        Ok(w - g * lr / (sum.sqrt() + self.eps))
    }
}
