//! Stopping when it gets no better.

use crate::{Callback, Flow, Run};
use gradus_core::{Error, Result};
use gradus_io::{Meta, StateDict};
use gradus_optim::Goal;

/// Stops a run when a metric has not improved for some epochs.
///
/// ```
/// use gradus_train::{EarlyStopping, Goal};
/// let stop = EarlyStopping::new("val_loss").patience(3);
/// let stop = EarlyStopping::new("accuracy").goal(Goal::Max).min_delta(1e-3);
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    metric: String,
    goal: Goal,
    patience: u64,
    min_delta: f64,
    best: Option<f64>,
    bad: u64,
}

impl EarlyStopping {
    /// Watches a metric of the validation (or `loss`, the training loss), which should fall.
    pub fn new(metric: impl Into<String>) -> EarlyStopping {
        EarlyStopping { metric: metric.into(), goal: Goal::Min, patience: 5, min_delta: 0.0, best: None, bad: 0 }
    }

    /// Whether it should fall or rise.
    pub fn goal(self, goal: Goal) -> EarlyStopping {
        EarlyStopping { goal, ..self }
    }

    /// How many epochs in a row may be no better (5 unless told).
    pub fn patience(self, patience: u64) -> EarlyStopping {
        EarlyStopping { patience, ..self }
    }

    /// By how much an epoch must be better to count.
    pub fn min_delta(self, min_delta: f64) -> EarlyStopping {
        EarlyStopping { min_delta, ..self }
    }

    /// The best so far.
    pub fn best(&self) -> Option<f64> {
        self.best
    }
}

impl Callback for EarlyStopping {
    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        let last = run.history.epochs.last();
        let Some(x) = last.and_then(|e| e.get(&self.metric)) else {
            let names = run.history.metric_names().join(", ");
            let why = format!("the validation gives no `{}`; it gives: loss, {names}", self.metric);
            return Err(Error::value("early_stopping", why));
        };
        let better = match (self.goal, self.best) {
            (_, None) => !x.is_nan(),
            (Goal::Min, Some(best)) => x < best - self.min_delta,
            (Goal::Max, Some(best)) => x > best + self.min_delta,
        };
        if better {
            (self.best, self.bad) = (Some(x), 0);
            return Ok(Flow::Continue);
        }
        self.bad += 1;
        if self.bad < self.patience {
            return Ok(Flow::Continue);
        }
        let best = self.best.unwrap_or(f64::NAN);
        Ok(Flow::Stop(format!("{} has not improved on {best} for {} epochs", self.metric, self.bad)))
    }

    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        state.metadata_mut().insert("bad".into(), Meta::Int(self.bad as i64));
        if let Some(best) = self.best {
            state.metadata_mut().insert("best".into(), Meta::Float(best));
        }
        state
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.bad = u64::try_from(state.integer("bad")?).unwrap_or(0);
        self.best = state.metadata().get("best").and_then(Meta::as_f64);
        Ok(())
    }
}
