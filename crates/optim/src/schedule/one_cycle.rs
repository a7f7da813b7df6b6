//! The one-cycle policy (Smith and Topin).

use crate::Optimizer;
use gradus_core::{Error, Result};
use std::f64::consts::PI;

/// Options of [`crate::Schedule::OneCycle`], as PyTorch's `OneCycleLR` has them. One scheduler step a batch.
///
/// ```
/// use gradus_optim::{OneCycle, Schedule};
/// let schedule = Schedule::OneCycle(OneCycle::new(0.1, 1000));
/// ```
#[derive(Clone, Debug)]
pub struct OneCycle {
    /// The peak.
    pub max_lr: f64,
    /// Steps in all.
    pub total_steps: u64,
    /// The part of them that goes up.
    pub pct_start: f64,
    /// The shape of the way.
    pub anneal: Anneal,
    /// Whether the momentum (or Adam's first beta) goes the other way round.
    pub cycle_momentum: bool,
    /// The momentum at the peak.
    pub base_momentum: f64,
    /// The momentum at both ends.
    pub max_momentum: f64,
    /// The first rate is the peak divided by this.
    pub div_factor: f64,
    /// The last rate is the first divided by this.
    pub final_div_factor: f64,
    /// Down to the first rate as fast as up, then on to the last one.
    pub three_phase: bool,
}

/// The way between two rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anneal {
    /// Half a cosine.
    Cos,
    /// A straight line.
    Linear,
}

/// From a rate and a momentum to others, up to a step.
struct Phase {
    end: f64,
    lr: (f64, f64),
    momentum: (f64, f64),
}

impl OneCycle {
    /// PyTorch's defaults with this peak and this many steps.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycle {
        OneCycle {
            max_lr,
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.total_steps == 0 || !(0.0..=1.0).contains(&self.pct_start) {
            let why = format!("one cycle of {} steps, {} of them up, cannot be", self.total_steps, self.pct_start);
            return Err(Error::value("schedule", why));
        }
        Ok(())
    }

    fn phases(&self) -> Vec<Phase> {
        let (first, peak) = (self.max_lr / self.div_factor, self.max_lr);
        let last = first / self.final_div_factor;
        let (high, low) = (self.max_momentum, self.base_momentum);
        let total = self.total_steps as f64;
        let up = Phase { end: self.pct_start * total - 1.0, lr: (first, peak), momentum: (high, low) };
        if self.three_phase {
            let end = 2.0 * self.pct_start * total - 2.0;
            let down = Phase { end, lr: (peak, first), momentum: (low, high) };
            return vec![up, down, Phase { end: total - 1.0, lr: (first, last), momentum: (high, high) }];
        }
        vec![up, Phase { end: total - 1.0, lr: (peak, last), momentum: (low, high) }]
    }

    pub(super) fn apply(&self, opt: &mut dyn Optimizer, step: u64) -> Result<()> {
        if step > self.total_steps {
            let why = format!("step {step} of one cycle of {} steps", self.total_steps);
            return Err(Error::value("schedule", why).hint("give total_steps as epochs times batches"));
        }
        let (t, mut start) = (step as f64, 0.0);
        let phases = self.phases();
        for (i, p) in phases.iter().enumerate() {
            if t > p.end && i + 1 < phases.len() {
                start = p.end;
                continue;
            }
            let part = if p.end > start { (t - start) / (p.end - start) } else { 1.0 };
            for group in 0..opt.group_count() {
                opt.set_option(group, "lr", self.between(p.lr, part));
                if self.cycle_momentum && !opt.set_option(group, "beta1", self.between(p.momentum, part)) {
                    opt.set_option(group, "momentum", self.between(p.momentum, part));
                }
            }
            break;
        }
        Ok(())
    }

    fn between(&self, (from, to): (f64, f64), part: f64) -> f64 {
        match self.anneal {
            Anneal::Cos => to + (from - to) / 2.0 * ((PI * part).cos() + 1.0),
            Anneal::Linear => (to - from) * part + from,
        }
    }
}
