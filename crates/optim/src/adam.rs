//! Adam and AdamW.

use crate::{Field, Optim, Rule, Slot, rule::penalized};
use gradus_core::{Result, Tensor};

/// Adam, step for step as PyTorch's `Adam`; with [`Adam::decoupled`] decay, as its `AdamW`.
pub type Adam = Optim<AdamOptions>;

/// Adam with weight decay apart from the gradient, step for step as PyTorch's `AdamW`.
pub type AdamW = Optim<AdamWOptions>;

/// Options of [`Adam`].
#[derive(Clone, Debug)]
pub struct AdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight of an L2 penalty, or of decoupled decay.
    pub weight_decay: f64,
    /// Whether the decay stays apart from the gradient.
    pub decoupled: bool,
    /// Whether the second moment's largest value so far is used.
    pub amsgrad: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        let (decoupled, amsgrad, maximize) = (false, false, false);
        AdamOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, decoupled, amsgrad, maximize }
    }
}

/// Options of [`AdamW`].
#[derive(Clone, Debug)]
pub struct AdamWOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// How much of a weight goes in each step, times the learning rate.
    pub weight_decay: f64,
    /// Whether the second moment's largest value so far is used.
    pub amsgrad: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for AdamWOptions {
    fn default() -> Self {
        let (amsgrad, maximize) = (false, false);
        AdamWOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2, amsgrad, maximize }
    }
}

impl Adam {
    /// With these decay rates of the two moments.
    pub fn betas(self, first: f64, second: f64) -> Adam {
        self.configure(|o| o.betas = (first, second))
    }

    /// With this number added to the root of the second moment.
    pub fn eps(self, eps: f64) -> Adam {
        self.configure(|o| o.eps = eps)
    }

    /// With weight decay apart from the gradient: AdamW.
    pub fn decoupled(self, weight_decay: f64) -> Adam {
        self.configure(|o| (o.weight_decay, o.decoupled) = (weight_decay, true))
    }
}

impl AdamW {
    /// With these decay rates of the two moments.
    pub fn betas(self, first: f64, second: f64) -> AdamW {
        self.configure(|o| o.betas = (first, second))
    }

    /// With this number added to the root of the second moment.
    pub fn eps(self, eps: f64) -> AdamW {
        self.configure(|o| o.eps = eps)
    }
}

impl Rule for AdamOptions {
    const NAME: &'static str = "adam";

    fn with_lr(lr: f64) -> Self {
        AdamOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("decoupled", Field::Flag(&mut self.decoupled)),
            ("amsgrad", Field::Flag(&mut self.amsgrad)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (lr, (b1, b2)) = (self.lr, self.betas);
        let penalty = if self.decoupled { 0.0 } else { self.weight_decay };
        let g = penalized(g, w, penalty, self.maximize);
        let w = decayed(w, lr, if self.decoupled { self.weight_decay } else { 0.0 });
        let m = slot.average("exp_avg", &g, b1)?;
        let mut v = slot.average("exp_avg_sq", &(&g * &g), b2)?;
        if self.amsgrad {
            v = slot.tensor("max_exp_avg_sq", &v)?.maximum(&v)?;
            slot.keep("max_exp_avg_sq", &v);
        }
        // Both corrections are plain numbers: they change every step and never the plan.
        let (c1, c2) = (1.0 - b1.powi(slot.step()), 1.0 - b2.powi(slot.step()));
        // A product, not a quotient: three slow operations an element would be one more than needed.
        Ok(w - m * (lr / c1) / (v.sqrt() * (1.0 / c2.sqrt()) + self.eps))
    }
}

/// The weights after decoupled decay.
pub(crate) fn decayed(w: &Tensor, lr: f64, weight_decay: f64) -> Tensor {
    if weight_decay == 0.0 { w.clone() } else { w * (1.0 - lr * weight_decay) }
}

impl Rule for AdamWOptions {
    const NAME: &'static str = "adamw";

    fn with_lr(lr: f64) -> Self {
        AdamWOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("amsgrad", Field::Flag(&mut self.amsgrad)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let AdamWOptions { lr, betas, eps, weight_decay, amsgrad, maximize } = *self;
        AdamOptions { lr, betas, eps, weight_decay, amsgrad, maximize, decoupled: true }.next(slot, w, g)
    }
}
