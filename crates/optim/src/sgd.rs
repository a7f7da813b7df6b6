//! Stochastic gradient descent.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// Gradient descent with momentum, Nesterov's variant and weight decay, step for step as PyTorch's `SGD`.
pub type Sgd = Optim<SgdOptions>;

/// Options of [`Sgd`].
#[derive(Clone, Debug)]
pub struct SgdOptions {
    /// Learning rate.
    pub lr: f64,
    /// How much of the last step goes into this one.
    pub momentum: f64,
    /// How much less of the gradient then does.
    pub dampening: f64,
    /// Weight of an L2 penalty.
    pub weight_decay: f64,
    /// Nesterov's look ahead.
    pub nesterov: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        SgdOptions { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false }
    }
}

impl Sgd {
    /// With this momentum.
    pub fn momentum(self, momentum: f64) -> Sgd {
        self.configure(|o| o.momentum = momentum)
    }

    /// With this dampening of the momentum.
    pub fn dampening(self, dampening: f64) -> Sgd {
        self.configure(|o| o.dampening = dampening)
    }

    /// With Nesterov's look ahead.
    pub fn nesterov(self, nesterov: bool) -> Sgd {
        self.configure(|o| o.nesterov = nesterov)
    }
}

impl Rule for SgdOptions {
    const NAME: &'static str = "sgd";

    fn with_lr(lr: f64) -> Self {
        SgdOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("momentum", Field::Number(&mut self.momentum)),
            ("dampening", Field::Number(&mut self.dampening)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("nesterov", Field::Flag(&mut self.nesterov)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let g = penalized(g, w, self.weight_decay, self.maximize);
        if self.momentum == 0.0 {
            return Ok(w - g * self.lr);
        }
        // The first velocity is the gradient itself, undampened, as in PyTorch.
        let kept = if slot.step() == 1 { 1.0 } else { 1.0 - self.dampening };
        let v = slot.tensor("momentum_buffer", w)? * self.momentum + &g * kept;
        slot.keep("momentum_buffer", &v);
        let step = if self.nesterov { g + v * self.momentum } else { v };
        Ok(w - step * self.lr)
    }
}
