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
//!
//! - Every optimizer but [`Lbfgs`] is [`Optim`] over a [`Rule`]: its options, which are also its formula. A rule of
//!   your own becomes an optimizer, with parameter groups, saving and loading, in a dozen lines.
//! - Learning rates follow a [`Schedule`] through [`LrScheduler`], or [`ReduceLrOnPlateau`].
//! - [`clip_grad_norm`], [`clip_grad_value`], [`Accumulator`], [`Ema`] and (for f16) [`GradScaler`] stand between
//!   gradients, steps and weights.
//! - All of them keep their state exactly through [`Stateful`].

mod accumulate;
mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod clip;
mod ema;
mod engine;
mod lamb;
mod lbfgs;
mod lion;
mod muon;
mod nadam;
mod radam;
mod replay;
mod rmsprop;
mod rule;
mod scaler;
mod schedule;
mod sgd;
mod wolfe;

pub use accumulate::Accumulator;
pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use clip::{clip_grad_norm, clip_grad_value, grad_norm};
pub use ema::Ema;
pub use engine::Optim;
pub use gradus_io::{StateDict, Stateful};
pub use lamb::{Lamb, LambOptions};
pub use lbfgs::{Lbfgs, LbfgsOptions, LineSearch};
pub use lion::{Lion, LionOptions};
pub use muon::{Muon, MuonOptions, MuonScale};
pub use nadam::{NAdam, NAdamOptions};
pub use radam::{RAdam, RAdamOptions};
pub use rmsprop::{RmsProp, RmsPropOptions};
pub use rule::{Field, Rule, Slot};
pub use scaler::GradScaler;
pub use schedule::{
    Anneal, EpochFn, Goal, LrScheduler, OneCycle, PlateauOptions, PlateauThreshold, ReduceLrOnPlateau, Schedule,
};
pub use sgd::{Sgd, SgdOptions};

use gradus_core::{Result, Tensor, grad::Gradients, plan::Explanation, replay::Replay};

/// What all optimizers do.
pub trait Optimizer: Stateful + Replay {
    /// Updates every variable from its gradient, in one run with the passes that made it. A variable the loss does not
    /// depend on stays as it is. When it fails, nothing has changed.
    fn step(&mut self, grads: &Gradients) -> Result<()>;

    /// The variables, group by group.
    fn params(&self) -> Vec<Tensor>;

    /// How many parameter groups there are.
    fn group_count(&self) -> usize;

    /// A group's option by its PyTorch name (`lr`, `weight_decay`, `momentum`, `beta1`); none if it has no such option.
    fn option(&self, group: usize, name: &str) -> Option<f64>;

    /// Another value for a group's option; false if it has no such option.
    fn set_option(&mut self, group: usize, name: &str, value: f64) -> bool;

    /// What [`Optimizer::step`] would run, without running it: for a look at kernels and at memory.
    fn explain(&self, grads: &Gradients) -> Result<Explanation>;

    /// The learning rate of the first group.
    fn lr(&self) -> f64 {
        self.option(0, "lr").unwrap_or(0.0)
    }

    /// Another learning rate for all groups from the next step on.
    fn set_lr(&mut self, lr: f64) {
        for group in 0..self.group_count() {
            self.set_option(group, "lr", lr);
        }
    }
}

impl<O: Optimizer + ?Sized> Optimizer for &mut O {
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        (**self).step(grads)
    }
    fn params(&self) -> Vec<Tensor> {
        (**self).params()
    }
    fn group_count(&self) -> usize {
        (**self).group_count()
    }
    fn option(&self, group: usize, name: &str) -> Option<f64> {
        (**self).option(group, name)
    }
    fn set_option(&mut self, group: usize, name: &str, value: f64) -> bool {
        (**self).set_option(group, name, value)
    }
    fn explain(&self, grads: &Gradients) -> Result<Explanation> {
        (**self).explain(grads)
    }
}

impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        (**self).step(grads)
    }
    fn params(&self) -> Vec<Tensor> {
        (**self).params()
    }
    fn group_count(&self) -> usize {
        (**self).group_count()
    }
    fn option(&self, group: usize, name: &str) -> Option<f64> {
        (**self).option(group, name)
    }
    fn set_option(&mut self, group: usize, name: &str, value: f64) -> bool {
        (**self).set_option(group, name, value)
    }
    fn explain(&self, grads: &Gradients) -> Result<Explanation> {
        (**self).explain(grads)
    }
}
