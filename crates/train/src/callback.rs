//! What can listen to a training run.

use crate::History;
use gradus_core::Result;
use gradus_io::StateDict;
use std::time::Duration;

/// Whether to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// On.
    Continue,
    /// No further, and why.
    Stop(String),
}

/// Where a run is.
pub struct Run<'r> {
    /// This epoch, from 0.
    pub epoch: u64,
    /// Epochs in all.
    pub epochs: u64,
    /// Batches of this epoch that are done.
    pub batch: u64,
    /// Batches an epoch has, if that is known.
    pub batches: Option<u64>,
    /// Optimizer steps done since the beginning.
    pub step: u64,
    /// The last loss that was read: the last batch's, unless it is read late ([`crate::Trainer::read_loss_every`]).
    pub loss: f64,
    /// The learning rate of the first group.
    pub lr: f64,
    /// Since the run, or its resumption, began.
    pub elapsed: Duration,
    /// Batches done since then.
    pub done: u64,
    /// All losses and epochs so far. In `on_epoch` the last epoch is this one, with its metrics.
    pub history: &'r History,
}

impl Run<'_> {
    /// Batches a second.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The time left at that rate, if the length of an epoch is known.
    pub fn eta(&self) -> Option<Duration> {
        let all = self.batches?.saturating_mul(self.epochs);
        let done = self.epoch.saturating_mul(self.batches?).saturating_add(self.batch);
        let seconds = all.saturating_sub(done) as f64 / self.rate();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Called by [`crate::Trainer`] as a run goes on. All methods do nothing unless you write them.
///
/// ```
/// use gradus_core::Result;
/// use gradus_train::{Callback, Flow, Run};
/// struct StopAtLoss(f64);
/// impl Callback for StopAtLoss {
///     fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
///         Ok(if run.loss < self.0 { Flow::Stop("good enough".into()) } else { Flow::Continue })
///     }
/// }
/// ```
pub trait Callback {
    /// Before the first batch.
    fn on_start(&mut self, run: &Run<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// After each optimizer step.
    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        let _ = run;
        Ok(Flow::Continue)
    }

    /// After each epoch and its validation.
    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        let _ = run;
        Ok(Flow::Continue)
    }

    /// When the run is over, for whatever reason but an error.
    fn on_end(&mut self, run: &Run<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// What a resumed run needs of it.
    fn state(&self) -> StateDict {
        StateDict::new()
    }

    /// Goes back to that.
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let _ = state;
        Ok(())
    }
}

impl<C: Callback + ?Sized> Callback for &mut C {
    fn on_start(&mut self, run: &Run<'_>) -> Result<()> {
        (**self).on_start(run)
    }
    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        (**self).on_step(run)
    }
    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        (**self).on_epoch(run)
    }
    fn on_end(&mut self, run: &Run<'_>) -> Result<()> {
        (**self).on_end(run)
    }
    fn state(&self) -> StateDict {
        (**self).state()
    }
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        (**self).load_state(state)
    }
}
