//! Stochastic gradient descent.

use crate::{Optimizer, collect, update};
use gradus_core::{Result, Tensor, grad::Gradients};

/// Gradient descent with momentum, Nesterov's variant and weight decay, step for step as PyTorch's `SGD`.
pub struct Sgd {
    params: Vec<Tensor>,
    velocity: Vec<Option<Tensor>>,
    lr: f64,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl Sgd {
    /// Plain gradient descent.
    pub fn new<'a>(params: impl IntoIterator<Item = &'a Tensor>, lr: f64) -> Sgd {
        let params = collect(params);
        let velocity = vec![None; params.len()];
        Sgd { params, velocity, lr, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }

    /// With this momentum.
    pub fn momentum(self, momentum: f64) -> Sgd {
        Sgd { momentum, ..self }
    }

    /// With this dampening of the momentum.
    pub fn dampening(self, dampening: f64) -> Sgd {
        Sgd { dampening, ..self }
    }

    /// With an L2 penalty of this weight.
    pub fn weight_decay(self, weight_decay: f64) -> Sgd {
        Sgd { weight_decay, ..self }
    }

    /// With Nesterov's look ahead.
    pub fn nesterov(self, nesterov: bool) -> Sgd {
        Sgd { nesterov, ..self }
    }
}

impl Optimizer for Sgd {
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        let Sgd { velocity, lr, momentum, dampening, weight_decay, nesterov, .. } = self;
        update("sgd", &self.params, grads, |k, w, g| {
            let g = if *weight_decay != 0.0 { g + w * *weight_decay } else { g.clone() };
            if *momentum == 0.0 {
                return Ok((w - g * *lr, vec![]));
            }
            // The first velocity is the gradient itself, undampened, as in PyTorch.
            let v = match &velocity[k] {
                Some(v) => v * *momentum + &g * (1.0 - *dampening),
                None => g.clone(),
            };
            velocity[k] = Some(v.clone());
            let step = if *nesterov { g + &v * *momentum } else { v.clone() };
            Ok((w - step * *lr, vec![v]))
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

    /// The same recurrence in plain numbers.
    fn by_hand(steps: usize, nesterov: bool) -> f64 {
        let (mut w, mut v): (f64, Option<f64>) = (3.0, None);
        for _ in 0..steps {
            let g = 2.0 * (w - 1.0) + 0.01 * w;
            let new = v.map_or(g, |v| 0.9 * v + 0.8 * g);
            v = Some(new);
            w -= 0.05 * if nesterov { g + 0.9 * new } else { new };
        }
        w
    }

    #[test]
    fn momentum_dampening_and_decay_follow_the_recurrence() {
        for nesterov in [false, true] {
            let w = Tensor::var("w", Tensor::from([3.0f64]));
            let mut opt = Sgd::new([&w], 0.05).momentum(0.9).dampening(0.2).weight_decay(0.01).nesterov(nesterov);
            for _ in 0..50 {
                let loss = (&w - 1.0).square().sum();
                opt.step(&loss.backward().unwrap()).unwrap();
            }
            let want = by_hand(50, nesterov);
            assert!((w.item::<f64>().unwrap() - want).abs() < 1e-12, "{want}");
        }
    }

    #[test]
    fn what_the_loss_does_not_touch_stays() {
        let (a, b) = (Tensor::var("a", Tensor::from([1.0f32])), Tensor::var("b", Tensor::from([2.0f32])));
        let mut opt = Sgd::new([&a, &b], 0.5).momentum(0.9);
        opt.step(&a.sum().backward().unwrap()).unwrap();
        assert_eq!((a.item::<f32>().unwrap(), b.item::<f32>().unwrap()), (0.5, 2.0));
        let constant = Tensor::from([1.0f32]);
        let e = Sgd::new([&constant], 0.5).step(&a.sum().backward().unwrap()).unwrap_err();
        assert!(e.to_string().contains("parameter 0 is not a variable"), "{e}");
    }
}
