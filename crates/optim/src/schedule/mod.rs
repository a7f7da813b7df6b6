//! Learning rates over time.
//!
//! A [`Schedule`] is a plain value: a formula, or several in a row ([`Schedule::Sequential`]) or on top of each other
//! ([`Schedule::Chained`]). An [`LrScheduler`] runs one on an optimizer, as PyTorch's schedulers do: making it sets the
//! first learning rate, each `step` the next.

mod formula;
mod one_cycle;
mod plateau;

pub use one_cycle::{Anneal, OneCycle};
pub use plateau::{Goal, PlateauOptions, PlateauThreshold, ReduceLrOnPlateau};

use crate::Optimizer;
use gradus_core::{Error, Result};
use gradus_io::{Meta, StateDict, Stateful};
use std::sync::Arc;

/// A factor for each epoch.
pub type EpochFn = Arc<dyn Fn(u64) -> f64 + Send + Sync>;

/// How a learning rate changes. Counts are of scheduler steps: epochs or batches, as you call it.
#[derive(Clone)]
pub enum Schedule {
    /// `factor` times the rate for the first `total_iters` steps (PyTorch's `ConstantLR`).
    Constant {
        /// Between 0 and 1.
        factor: f64,
        /// How long.
        total_iters: u64,
    },
    /// A straight line between two factors, as for a warm-up (`LinearLR`).
    Linear {
        /// The first factor, above 0 and at most 1.
        start_factor: f64,
        /// The last factor, between 0 and 1.
        end_factor: f64,
        /// How long it takes.
        total_iters: u64,
    },
    /// `gamma` times the rate every `step_size` steps (`StepLR`).
    Step {
        /// Steps between changes.
        step_size: u64,
        /// The factor.
        gamma: f64,
    },
    /// `gamma` times the rate at each milestone (`MultiStepLR`).
    MultiStep {
        /// When; one that is named twice counts twice.
        milestones: Vec<u64>,
        /// The factor.
        gamma: f64,
    },
    /// `gamma` times the rate at every step (`ExponentialLR`).
    Exponential {
        /// The factor.
        gamma: f64,
    },
    /// Half a cosine down to `eta_min` in `t_max` steps, and up again (`CosineAnnealingLR`).
    Cosine {
        /// Steps of one way.
        t_max: u64,
        /// The least rate.
        eta_min: f64,
    },
    /// Half a cosine down, then from the top again, each `t_mult` times as long as the last
    /// (`CosineAnnealingWarmRestarts`).
    CosineRestarts {
        /// Steps until the first restart.
        t_0: u64,
        /// How much longer each is than the last.
        t_mult: u64,
        /// The least rate.
        eta_min: f64,
    },
    /// Up to a peak and down to nearly nothing, with the momentum the other way round (`OneCycleLR`).
    OneCycle(OneCycle),
    /// Down to 0 in `total_iters` steps along a power of the time left (`PolynomialLR`).
    Polynomial {
        /// How long.
        total_iters: u64,
        /// The power.
        power: f64,
    },
    /// The first rate times any function of the step (`LambdaLR`).
    Lambda(EpochFn),
    /// The last rate times any function of the step (`MultiplicativeLR`).
    Multiplicative(EpochFn),
    /// One after another: `milestones` says when the next begins (`SequentialLR`).
    Sequential {
        /// The schedules.
        schedules: Vec<Schedule>,
        /// One fewer, growing.
        milestones: Vec<u64>,
    },
    /// All at once: their changes multiply (`ChainedScheduler`).
    Chained(Vec<Schedule>),
}

impl Schedule {
    /// The first rate times `f` of the step.
    pub fn lambda(f: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Schedule {
        Schedule::Lambda(Arc::new(f))
    }

    /// The usual one for transformers: up in a line for `warmup` steps, then half a cosine down to `eta_min` at `total`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// use gradus_optim::{LrScheduler, Optimizer, Schedule, Sgd};
    /// # let w = Tensor::var("w", Tensor::from([4.0f32]));
    /// let mut opt = Sgd::new([&w], 1.0);
    /// let mut schedule = LrScheduler::new(&mut opt, Schedule::warmup_cosine(2, 4, 0.0))?;
    /// let mut rates = vec![opt.lr()];
    /// for _ in 0..4 {
    ///     schedule.step(&mut opt)?; // after opt.step(..)
    ///     rates.push(opt.lr());
    /// }
    /// let want = [0.5, 0.75, 1.0, 0.5, 0.0];
    /// assert!(rates.iter().zip(want).all(|(r, w)| (r - w).abs() < 1e-12), "{rates:?}");
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    pub fn warmup_cosine(warmup: u64, total: u64, eta_min: f64) -> Schedule {
        let warmup = warmup.max(1);
        let up = Schedule::Linear { start_factor: 1.0 / warmup as f64, end_factor: 1.0, total_iters: warmup };
        let down = Schedule::Cosine { t_max: total.saturating_sub(warmup).max(1), eta_min };
        Schedule::Sequential { schedules: vec![up, down], milestones: vec![warmup] }
    }
}

/// Runs a [`Schedule`] on an optimizer's learning rates.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{LrScheduler, Optimizer, Schedule, Sgd};
/// let w = Tensor::var("w", Tensor::from([4.0f32]));
/// let mut opt = Sgd::new([&w], 0.1);
/// let mut schedule = LrScheduler::new(&mut opt, Schedule::Step { step_size: 30, gamma: 0.5 })?;
/// for epoch in 0..40 {
///     // ... opt.step(&grads)? for every batch ...
///     schedule.step(&mut opt)?;
/// }
/// assert_eq!(opt.lr(), 0.05);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone)]
pub struct LrScheduler {
    root: Running,
    bases: Vec<f64>,
    last: Vec<f64>,
}

/// A schedule and how often it was stepped.
#[derive(Clone)]
struct Running {
    schedule: Schedule,
    epoch: u64,
    parts: Vec<Running>,
}

/// How a formula is asked for a rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// For the very first time.
    First,
    /// For the next step, from the present rate.
    Next,
    /// In a sequence, where another one was before: from the first rate.
    Begin,
}

impl LrScheduler {
    /// Takes an optimizer's learning rates as the first ones, and sets those of step 0.
    #[track_caller]
    pub fn new(opt: &mut dyn Optimizer, schedule: Schedule) -> Result<LrScheduler> {
        let at = std::panic::Location::caller();
        formula::check(&schedule).map_err(|e| e.at(at))?;
        let mut s = LrScheduler { root: Running::new(schedule), bases: rates(opt), last: vec![] };
        s.root.advance(opt, &s.bases, Ask::First)?;
        s.last = rates(opt);
        Ok(s)
    }

    /// The next learning rates.
    #[track_caller]
    pub fn step(&mut self, opt: &mut dyn Optimizer) -> Result<()> {
        if opt.group_count() != self.bases.len() {
            let why = format!("made for {} parameter groups, used with {}", self.bases.len(), opt.group_count());
            return Err(Error::value("lr_scheduler", why));
        }
        self.root.advance(opt, &self.bases, Ask::Next)?;
        self.last = rates(opt);
        Ok(())
    }

    /// The learning rates set last, one a group.
    pub fn last_lr(&self) -> &[f64] {
        &self.last
    }

    /// How often it was stepped.
    pub fn epoch(&self) -> u64 {
        self.root.epoch
    }
}

fn rates(opt: &dyn Optimizer) -> Vec<f64> {
    (0..opt.group_count()).map(|g| opt.option(g, "lr").unwrap_or(0.0)).collect()
}

impl Running {
    fn new(schedule: Schedule) -> Running {
        let parts = if let Schedule::Sequential { schedules, .. } | Schedule::Chained(schedules) = &schedule {
            schedules.iter().cloned().map(Running::new).collect()
        } else {
            vec![]
        };
        Running { schedule, epoch: 0, parts }
    }

    fn advance(&mut self, opt: &mut dyn Optimizer, bases: &[f64], ask: Ask) -> Result<()> {
        self.epoch = if ask == Ask::Next { self.epoch + 1 } else { 0 };
        if let Schedule::Sequential { milestones, .. } = &self.schedule {
            let now = milestones.iter().filter(|&&m| m <= self.epoch).count();
            let begins = ask == Ask::Next && now > 0 && milestones.get(now - 1) == Some(&self.epoch);
            let ask = if begins { Ask::Begin } else { ask };
            return self.parts.get_mut(now).map_or(Ok(()), |part| part.advance(opt, bases, ask));
        }
        if let Schedule::Chained(_) = &self.schedule {
            if ask == Ask::Begin {
                for (g, lr) in bases.iter().enumerate() {
                    opt.set_option(g, "lr", *lr);
                }
            }
            let ask = if ask == Ask::Begin { Ask::First } else { ask };
            return self.parts.iter_mut().try_for_each(|p| p.advance(opt, bases, ask));
        }
        formula::apply(&self.schedule, opt, bases, self.epoch, ask)
    }

    fn epochs(&self, out: &mut Vec<u64>) {
        out.push(self.epoch);
        self.parts.iter().for_each(|p| p.epochs(out));
    }

    fn set_epochs(&mut self, from: &mut impl Iterator<Item = u64>) -> bool {
        let Some(epoch) = from.next() else { return false };
        self.epoch = epoch;
        self.parts.iter_mut().all(|p| p.set_epochs(from))
    }
}

impl Stateful for LrScheduler {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        let mut epochs = vec![];
        self.root.epochs(&mut epochs);
        let meta = state.metadata_mut();
        meta.extend(epochs.iter().enumerate().map(|(i, e)| (format!("epoch.{i}"), Meta::Int(*e as i64))));
        meta.extend(self.bases.iter().enumerate().map(|(i, x)| (format!("base_lr.{i}"), Meta::Float(*x))));
        meta.extend(self.last.iter().enumerate().map(|(i, x)| (format!("last_lr.{i}"), Meta::Float(*x))));
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let mut new = self.clone();
        let count = state.metadata().keys().filter(|k| k.starts_with("epoch.")).count();
        let epochs = (0..count).map(|i| state.integer(&format!("epoch.{i}"))).collect::<Result<Vec<_>>>()?;
        let mut epochs = epochs.into_iter().map(|e| u64::try_from(e).unwrap_or(0));
        if !new.root.set_epochs(&mut epochs) || epochs.next().is_some() {
            let why = format!("the state is of another schedule: it has {count} parts");
            return Err(Error::value("lr_scheduler", why).hint("make the scheduler with the same schedule"));
        }
        for (i, (base, last)) in new.bases.iter_mut().zip(&mut new.last).enumerate() {
            *base = state.number(&format!("base_lr.{i}"))?;
            *last = state.number(&format!("last_lr.{i}"))?;
        }
        *self = new;
        Ok(())
    }
}
