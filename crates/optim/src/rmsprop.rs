//! RMSprop.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// RMSprop (Hinton; centered as Graves has it), step for step as PyTorch's `RMSprop`.
pub type RmsProp = Optim<RmsPropOptions>;

/// Options of [`RmsProp`].
#[derive(Clone, Debug)]
pub struct RmsPropOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rate of the squares' average.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Weight of an L2 penalty.
    pub weight_decay: f64,
    /// How much of the last step goes into this one.
    pub momentum: f64,
    /// Whether the variance takes the place of the second moment.
    pub centered: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for RmsPropOptions {
    fn default() -> Self {
        RmsPropOptions {
            lr: 1e-2,
            alpha: 0.99,
            eps: 1e-8,
            weight_decay: 0.0,
            momentum: 0.0,
            centered: false,
            maximize: false,
        }
    }
}

impl Rule for RmsPropOptions {
    const NAME: &'static str = "rmsprop";

    fn with_lr(lr: f64) -> Self {
        RmsPropOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("alpha", Field::Number(&mut self.alpha)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("momentum", Field::Number(&mut self.momentum)),
            ("centered", Field::Flag(&mut self.centered)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let g = penalized(g, w, self.weight_decay, self.maximize);
        let v = slot.average("square_avg", &(&g * &g), self.alpha)?;
        let spread = if self.centered {
            let mean = slot.average("grad_avg", &g, self.alpha)?;
            v - &mean * &mean
        } else {
            v
        };
        let step = g / (spread.sqrt() + self.eps);
        if self.momentum == 0.0 {
            return Ok(w - step * self.lr);
        }
        let buffer = slot.tensor("momentum_buffer", w)? * self.momentum + step;
        slot.keep("momentum_buffer", &buffer);
        Ok(w - buffer * self.lr)
    }
}
