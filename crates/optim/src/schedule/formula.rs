//! The formulas, in the form PyTorch computes them: each from the rate before, so that they can be chained.

use super::{Ask, Schedule};
use crate::Optimizer;
use gradus_core::{Error, Result};
use std::f64::consts::PI;

/// Sets the learning rates of all groups.
pub fn apply(schedule: &Schedule, opt: &mut dyn Optimizer, bases: &[f64], epoch: u64, ask: Ask) -> Result<()> {
    if let Schedule::OneCycle(cycle) = schedule {
        return cycle.apply(opt, epoch);
    }
    for (group, &base) in bases.iter().enumerate() {
        let lr = opt.option(group, "lr").unwrap_or(base);
        let new = if ask == Ask::Begin { closed(schedule, base, lr) } else { next(schedule, base, lr, epoch, ask) };
        opt.set_option(group, "lr", new);
    }
    Ok(())
}

fn next(schedule: &Schedule, base: f64, lr: f64, epoch: u64, ask: Ask) -> f64 {
    let (first, t) = (ask == Ask::First, epoch as f64);
    match schedule {
        Schedule::Constant { factor, .. } if epoch == 0 => lr * factor,
        Schedule::Constant { factor, total_iters } if epoch == *total_iters => lr * (1.0 / factor),
        Schedule::Linear { start_factor, .. } if epoch == 0 => lr * start_factor,
        Schedule::Linear { start_factor, end_factor, total_iters } if epoch <= *total_iters => {
            let slope = end_factor - start_factor;
            lr * (1.0 + slope / (*total_iters as f64 * start_factor + (t - 1.0) * slope))
        }
        Schedule::Step { step_size, gamma } if epoch > 0 && epoch.is_multiple_of(*step_size) => lr * gamma,
        Schedule::MultiStep { milestones, gamma } => {
            lr * gamma.powi(milestones.iter().filter(|m| **m == epoch).count() as i32)
        }
        Schedule::Exponential { gamma } if !first => lr * gamma,
        Schedule::Cosine { t_max, eta_min } if !first => {
            let t_max = *t_max as f64;
            if (t - 1.0 - t_max).rem_euclid(2.0 * t_max) == 0.0 {
                return lr + (base - eta_min) * (1.0 - (PI / t_max).cos()) / 2.0;
            }
            (1.0 + (PI * t / t_max).cos()) / (1.0 + (PI * (t - 1.0) / t_max).cos()) * (lr - eta_min) + eta_min
        }
        Schedule::CosineRestarts { t_0, t_mult, eta_min } => {
            let (mut now, mut length) = (epoch, *t_0);
            while now >= length {
                now -= length;
                length = length.saturating_mul(*t_mult);
            }
            eta_min + (base - eta_min) * (1.0 + (PI * now as f64 / length as f64).cos()) / 2.0
        }
        Schedule::Polynomial { total_iters, power } if !first && epoch <= *total_iters => {
            let n = *total_iters as f64;
            lr * ((1.0 - t / n) / (1.0 - (t - 1.0) / n)).powf(*power)
        }
        Schedule::Lambda(f) => base * f(epoch),
        Schedule::Multiplicative(f) if !first => lr * f(epoch),
        Schedule::Constant { .. }
        | Schedule::Linear { .. }
        | Schedule::Step { .. }
        | Schedule::Exponential { .. }
        | Schedule::Cosine { .. }
        | Schedule::OneCycle(_)
        | Schedule::Polynomial { .. }
        | Schedule::Multiplicative(_)
        | Schedule::Sequential { .. }
        | Schedule::Chained(_) => lr,
    }
}

/// The rate of step 0, whatever the rate before was.
fn closed(schedule: &Schedule, base: f64, lr: f64) -> f64 {
    match schedule {
        Schedule::Multiplicative(f) => lr * f(0),
        Schedule::Constant { .. }
        | Schedule::Linear { .. }
        | Schedule::Step { .. }
        | Schedule::MultiStep { .. }
        | Schedule::Exponential { .. }
        | Schedule::Cosine { .. }
        | Schedule::CosineRestarts { .. }
        | Schedule::OneCycle(_)
        | Schedule::Polynomial { .. }
        | Schedule::Lambda(_)
        | Schedule::Sequential { .. }
        | Schedule::Chained(_) => next(schedule, base, base, 0, Ask::First),
    }
}

/// An error for numbers that make no schedule.
pub fn check(schedule: &Schedule) -> Result<()> {
    let fault = |why: String| Err(Error::value("schedule", why));
    let factor = |what: &str, x: f64, low_ok: bool| {
        let ok = x <= 1.0 && (x > 0.0 || low_ok && x == 0.0);
        if ok { Ok(()) } else { Err(Error::value("schedule", format!("{what} must be between 0 and 1, not {x}"))) }
    };
    let count = |what: &str, n: u64| {
        if n > 0 { Ok(()) } else { Err(Error::value("schedule", format!("{what} must be at least 1"))) }
    };
    match schedule {
        Schedule::Constant { factor: f, .. } => factor("the factor of a constant schedule", *f, false),
        Schedule::Linear { start_factor, end_factor, total_iters } => {
            factor("start_factor", *start_factor, false)?;
            factor("end_factor", *end_factor, true)?;
            count("total_iters", *total_iters)
        }
        Schedule::Step { step_size, .. } => count("step_size", *step_size),
        Schedule::Cosine { t_max, .. } => count("t_max", *t_max),
        Schedule::CosineRestarts { t_0, t_mult, .. } => {
            count("t_0", *t_0)?;
            count("t_mult", *t_mult)
        }
        Schedule::Polynomial { total_iters, .. } => count("total_iters", *total_iters),
        Schedule::OneCycle(cycle) => cycle.check(),
        Schedule::Sequential { schedules, milestones } => {
            if schedules.is_empty() || milestones.len() + 1 != schedules.len() {
                return fault(format!(
                    "a sequence of {} schedules needs one milestone fewer, not {}",
                    schedules.len(),
                    milestones.len()
                ));
            }
            if milestones.windows(2).any(|m| m[0] >= m[1]) {
                return fault(format!("milestones must grow: {milestones:?}"));
            }
            schedules.iter().try_for_each(check)
        }
        Schedule::Chained(schedules) if schedules.is_empty() => fault("a chain needs at least one schedule".into()),
        Schedule::Chained(schedules) => schedules.iter().try_for_each(check),
        Schedule::MultiStep { .. }
        | Schedule::Exponential { .. }
        | Schedule::Lambda(_)
        | Schedule::Multiplicative(_) => Ok(()),
    }
}
