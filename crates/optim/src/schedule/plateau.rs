//! Less when nothing gets better.

use crate::Optimizer;
use gradus_core::{Error, Result};
use gradus_io::{Meta, StateDict, Stateful};

/// Lowers the learning rate when a metric stops improving: PyTorch's `ReduceLROnPlateau`.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{Optimizer, PlateauOptions, ReduceLrOnPlateau, Sgd};
/// let w = Tensor::var("w", Tensor::from([4.0f32]));
/// let mut opt = Sgd::new([&w], 0.1);
/// let mut plateau = ReduceLrOnPlateau::new(PlateauOptions { patience: 2, ..Default::default() })?;
/// for validation_loss in [1.0, 0.9, 0.9, 0.9, 0.9] {
///     plateau.step(validation_loss, &mut opt);
/// }
/// assert!((opt.lr() - 0.01).abs() < 1e-12);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    options: PlateauOptions,
    best: f64,
    bad: u64,
    cooling: u64,
}

/// Whether a metric should fall or rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A loss.
    Min,
    /// An accuracy.
    Max,
}

/// What counts as better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlateauThreshold {
    /// By this part of the best value.
    Relative(f64),
    /// By this much.
    Absolute(f64),
}

/// Options of [`ReduceLrOnPlateau`].
#[derive(Clone, Debug)]
pub struct PlateauOptions {
    /// Whether the metric should fall or rise.
    pub mode: Goal,
    /// What the rate is multiplied by; below 1.
    pub factor: f64,
    /// How many times in a row it may fail to improve.
    pub patience: u64,
    /// What counts as better.
    pub threshold: PlateauThreshold,
    /// How long to wait after a change.
    pub cooldown: u64,
    /// The least rate.
    pub min_lr: f64,
    /// A change smaller than this is not made.
    pub eps: f64,
}

impl Default for PlateauOptions {
    fn default() -> Self {
        PlateauOptions {
            mode: Goal::Min,
            factor: 0.1,
            patience: 10,
            threshold: PlateauThreshold::Relative(1e-4),
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

impl ReduceLrOnPlateau {
    /// Nothing seen so far.
    #[track_caller]
    pub fn new(options: PlateauOptions) -> Result<ReduceLrOnPlateau> {
        if options.factor >= 1.0 || options.factor.is_nan() {
            return Err(Error::value("schedule", format!("the factor must be below 1, not {}", options.factor)));
        }
        let best = match options.mode {
            Goal::Min => f64::INFINITY,
            Goal::Max => f64::NEG_INFINITY,
        };
        Ok(ReduceLrOnPlateau { options, best, bad: 0, cooling: 0 })
    }

    /// Takes the metric of an epoch; true if it lowered a rate.
    pub fn step(&mut self, metric: f64, opt: &mut dyn Optimizer) -> bool {
        if self.is_better(metric) {
            (self.best, self.bad) = (metric, 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
        if self.bad <= self.options.patience {
            return false;
        }
        (self.cooling, self.bad) = (self.options.cooldown, 0);
        let mut changed = false;
        for group in 0..opt.group_count() {
            let old = opt.option(group, "lr").unwrap_or(0.0);
            let new = (old * self.options.factor).max(self.options.min_lr);
            if old - new > self.options.eps {
                changed |= opt.set_option(group, "lr", new);
            }
        }
        changed
    }

    /// The best metric so far.
    pub fn best(&self) -> f64 {
        self.best
    }

    fn is_better(&self, x: f64) -> bool {
        match (self.options.mode, self.options.threshold) {
            (Goal::Min, PlateauThreshold::Relative(r)) => x < self.best * (1.0 - r),
            (Goal::Min, PlateauThreshold::Absolute(a)) => x < self.best - a,
            (Goal::Max, PlateauThreshold::Relative(r)) => x > self.best * (1.0 + r),
            (Goal::Max, PlateauThreshold::Absolute(a)) => x > self.best + a,
        }
    }
}

impl Stateful for ReduceLrOnPlateau {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        state.metadata_mut().extend([
            ("best".to_string(), Meta::Float(self.best)),
            ("bad".to_string(), Meta::Int(self.bad as i64)),
            ("cooling".to_string(), Meta::Int(self.cooling as i64)),
        ]);
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let count = |key: &str| Ok::<_, Error>(u64::try_from(state.integer(key)?).unwrap_or(0));
        (self.best, self.bad, self.cooling) = (state.number("best")?, count("bad")?, count("cooling")?);
        Ok(())
    }
}
