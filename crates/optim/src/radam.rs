//! Adam with a rectified start.

use crate::{Field, Optim, Rule, Slot, adam::decayed, rule::penalized};
use gradus_core::{Result, Tensor};

/// RAdam (Liu et al.), step for step as PyTorch's `RAdam`.
pub type RAdam = Optim<RAdamOptions>;

/// Options of [`RAdam`].
#[derive(Clone, Debug)]
pub struct RAdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight of an L2 penalty, or of decoupled decay.
    pub weight_decay: f64,
    /// Whether the decay stays apart from the gradient.
    pub decoupled: bool,
    /// Up the gradient, not down.
    pub maximize: bool,
}

impl Default for RAdamOptions {
    fn default() -> Self {
        RAdamOptions { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, decoupled: false, maximize: false }
    }
}

impl Rule for RAdamOptions {
    const NAME: &'static str = "radam";

    fn with_lr(lr: f64) -> Self {
        RAdamOptions { lr, ..Default::default() }
    }

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lr", Field::Number(&mut self.lr)),
            ("beta1", Field::Number(&mut self.betas.0)),
            ("beta2", Field::Number(&mut self.betas.1)),
            ("eps", Field::Number(&mut self.eps)),
            ("weight_decay", Field::Number(&mut self.weight_decay)),
            ("decoupled", Field::Flag(&mut self.decoupled)),
            ("maximize", Field::Flag(&mut self.maximize)),
        ]
    }

    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (lr, (b1, b2), t) = (self.lr, self.betas, slot.step());
        let (penalty, decay) = if self.decoupled { (0.0, self.weight_decay) } else { (self.weight_decay, 0.0) };
        let g = penalized(g, w, penalty, self.maximize);
        let w = decayed(w, lr, decay);
        let m = slot.average("exp_avg", &g, b1)?;
        let v = slot.average("exp_avg_sq", &(&g * &g), b2)?;
        let (c1, c2) = (1.0 - b1.powi(t), 1.0 - b2.powi(t));
        // The length of the average that the second moment stands for, at the end and now.
        let rho_inf = 2.0 / (1.0 - b2) - 1.0;
        let rho = rho_inf - 2.0 * t as f64 * b2.powi(t) / c2;
        let rect = ((rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho)).sqrt();
        // While the variance cannot be trusted: plain momentum. One graph for both, so that there is one plan.
        let (adaptive, plain) = if rho > 5.0 { (rect * c2.sqrt(), 0.0) } else { (0.0, 1.0) };
        let scale = adaptive / (v.sqrt() + self.eps) + plain;
        Ok(w - m * (lr / c1) * scale)
    }
}
