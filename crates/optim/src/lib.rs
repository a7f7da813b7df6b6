//! Optimizers: from gradients to new values of variables.
//!
//! An update is a new tensor: [`Optimizer::step`] gives every variable its next value and runs forward pass, backward
//! pass and update as one plan. Numbers that change from step to step (learning rate, Adam's bias correction) are
//! arguments of that plan, so it is made once.
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_optim::{Optimizer, Sgd};
//!
//! let w = Tensor::var("w", Tensor::from([4.0f32]));
//! let mut opt = Sgd::new([&w], 0.1);
//! for _ in 0..50 {
//!     let loss = (&w - 1.0).square().sum();
//!     opt.step(&loss.backward()?)?;
//! }
//! assert!((w.item::<f32>()? - 1.0).abs() < 1e-3);
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod adam;
mod sgd;

pub use adam::Adam;
pub use sgd::Sgd;

use gradus_core::{Error, ErrorKind, Result, Tensor, grad::Gradients, no_grad};

/// What all optimizers do.
pub trait Optimizer {
    /// Updates every variable from its gradient, in one run with the passes that made it. A variable the loss does not
    /// depend on stays as it is.
    fn step(&mut self, grads: &Gradients) -> Result<()>;
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Another learning rate from the next step on.
    fn set_lr(&mut self, lr: f64);
}

/// Variables, checked when an optimizer is made or first used.
fn collect<'a>(params: impl IntoIterator<Item = &'a Tensor>) -> Vec<Tensor> {
    params.into_iter().cloned().collect()
}

/// Gives each variable that has a gradient its next value. `next` gets the variable's place, its value and its
/// gradient, and returns the new value and new state (which is computed in the same run).
fn update(
    op: &str,
    params: &[Tensor],
    grads: &Gradients,
    mut next: impl FnMut(usize, &Tensor, &Tensor) -> Result<(Tensor, Vec<Tensor>)>,
) -> Result<()> {
    no_grad(|| {
        let mut run: Vec<Tensor> = vec![];
        let mut new: Vec<(usize, Tensor)> = vec![];
        for (k, p) in params.iter().enumerate() {
            let Some(id) = p.var_id() else {
                let why = format!("parameter {k} is not a variable");
                return Err(Error::new(op, ErrorKind::Value(why)).operand(p).hint("make it with Tensor::var"));
            };
            let Some((_, g)) = grads.iter().find(|(i, _)| *i == id) else { continue };
            let (value, state) = next(k, &p.resolve().detach(), g)?;
            run.extend(state);
            new.push((k, value));
        }
        for (k, value) in &new {
            params[*k].set(value)?;
        }
        run.extend(new.iter().map(|(k, _)| params[*k].resolve()));
        drop(new);
        Tensor::eval_all(&run.iter().collect::<Vec<_>>())
    })
}
