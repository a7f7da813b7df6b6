//! Adam with Nesterov momentum.

use crate::{Field, Optim, Rule, Slot, adam::decayed, rule::penalized};
use gradus_core::{Result, Tensor};

/// NAdam (Dozat), step for step as PyTorch's `NAdam`.
pub type NAdam = Optim<NAdamOptions>;

/// Options of [`NAdam`].
#[derive(Clone, Debug)]
pub struct NAdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight of an L2 penalty, or of decoupled decay.
    pub weight_decay: f64,
    /// How fast the momentum reaches its full strength.
    pub momentum_decay: f64,
    /// Whether the decay stays apart from the gradient.
    pub decoupled: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for NAdamOptions {
    fn default() -> Self {
        NAdamOptions {
            lr: 2e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            momentum_decay: 4e-3,
            decoupled: false,
            maximize: false,
        }
    }
}

impl Rule for NAdamOptions {
    const NAME: &'static str = "nadam";

    fn with_lr(lr: f64) -> Self {
        NAdamOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("momentum_decay", Field::Number(&mut self.momentum_decay)),
            ("decoupled", Field::Flag(&mut self.decoupled)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (lr, (b1, b2), t) = (self.lr, self.betas, slot.step() as f64);
        let (penalty, decay) = if self.decoupled { (0.0, self.weight_decay) } else { (self.weight_decay, 0.0) };
        let g = penalized(g, w, penalty, self.maximize);
        let w = decayed(w, lr, decay);
        let mu = |t: f64| b1 * (1.0 - 0.5 * 0.96f64.powf(t * self.momentum_decay));
        // The product of all mu so far; it corrects the bias of a momentum that changes.
        let product = slot.number("mu_product").unwrap_or(1.0) * mu(t);
        slot.keep_number("mu_product", product);
        let m = slot.average("exp_avg", &g, b1)?;
        let v = slot.average("exp_avg_sq", &(&g * &g), b2)?;
        let denom = (v / (1.0 - b2.powi(slot.step()))).sqrt() + self.eps;
        let from_g = lr * (1.0 - mu(t)) / (1.0 - product);
        let from_m = lr * mu(t + 1.0) / (1.0 - product * mu(t + 1.0));
        Ok(w - g * from_g / &denom - m * from_m / denom)
    }
}
