//! Adam and AdamW.

use crate::{Optimizer, collect, update};
use gradus_core::{Result, Tensor, grad::Gradients};

/// Adam, step for step as PyTorch's `Adam`; with [`Adam::decoupled`] decay, as its `AdamW`.
pub struct Adam {
    params: Vec<Tensor>,
    moments: Vec<Option<(Tensor, Tensor)>>,
    steps: Vec<i32>,
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    decoupled: bool,
}

impl Adam {
    /// Adam with PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8, no decay.
    pub fn new<'a>(params: impl IntoIterator<Item = &'a Tensor>, lr: f64) -> Adam {
        let params = collect(params);
        let n = params.len();
        let (betas, eps) = ((0.9, 0.999), 1e-8);
        Adam { params, moments: vec![None; n], steps: vec![0; n], lr, betas, eps, weight_decay: 0.0, decoupled: false }
    }

    /// With these decay rates of the two moments.
    pub fn betas(self, first: f64, second: f64) -> Adam {
        Adam { betas: (first, second), ..self }
    }

    /// With this number added to the root of the second moment.
    pub fn eps(self, eps: f64) -> Adam {
        Adam { eps, ..self }
    }

    /// With an L2 penalty of this weight in the gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Adam {
        Adam { weight_decay, ..self }
    }

    /// With weight decay apart from the gradient: AdamW.
    pub fn decoupled(self, weight_decay: f64) -> Adam {
        Adam { weight_decay, decoupled: true, ..self }
    }
}

impl Optimizer for Adam {
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        let Adam { moments, steps, lr, betas: (b1, b2), eps, weight_decay, decoupled, .. } = self;
        update("adam", &self.params, grads, |k, w, g| {
            steps[k] += 1;
            let (g, w) = match (*weight_decay != 0.0, *decoupled) {
                (true, false) => (g + w * *weight_decay, w.clone()),
                (true, true) => (g.clone(), w * (1.0 - *lr * *weight_decay)),
                (false, _) => (g.clone(), w.clone()),
            };
            let (m, v) = match &moments[k] {
                Some((m, v)) => (m * *b1 + &g * (1.0 - *b1), v * *b2 + &g * &g * (1.0 - *b2)),
                None => (&g * (1.0 - *b1), &g * &g * (1.0 - *b2)),
            };
            moments[k] = Some((m.clone(), v.clone()));
            // Both corrections are plain numbers: they change every step and never the plan.
            let (c1, c2) = (1.0 - b1.powi(steps[k]), 1.0 - b2.powi(steps[k]));
            let new = w - &m * (*lr / c1) / (v.sqrt() / c2.sqrt() + *eps);
            Ok((new, vec![m, v]))
        })
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_hand(decoupled: bool) -> f64 {
        let (mut w, mut m, mut v) = (3.0f64, 0.0, 0.0);
        for t in 1..=50 {
            let mut g = 2.0 * (w - 1.0);
            if decoupled {
                w *= 1.0 - 0.1 * 0.02;
            } else {
                g += 0.02 * w;
            }
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let (mh, vh) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
            w -= 0.1 * mh / (vh.sqrt() + 1e-8);
        }
        w
    }

    #[test]
    fn both_decays_follow_the_recurrence_under_one_plan() {
        for decoupled in [false, true] {
            let w = Tensor::var("w", Tensor::from([3.0f64]));
            let opt = Adam::new([&w], 0.1);
            let mut opt = if decoupled { opt.decoupled(0.02) } else { opt.weight_decay(0.02) };
            for _ in 0..50 {
                let loss = (&w - 1.0).square().sum();
                opt.step(&loss.backward().unwrap()).unwrap();
            }
            let want = by_hand(decoupled);
            assert!((w.item::<f64>().unwrap() - want).abs() < 1e-10, "{want}");
        }
    }
}
