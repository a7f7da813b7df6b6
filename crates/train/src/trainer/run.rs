//! The loop itself.

use super::{Per, Report, Stop, Trainer, late::Late};
use crate::{Callback, EpochRecord, Flow, History, LoaderState, Run, forecast_step, interrupt, locate_nan};
use gradus_core::{
    Device, Error, ErrorKind, Result, Tensor, autocast, get_rng_state, grad::Gradients, no_grad, set_rng_state,
};
use gradus_optim::{Accumulator, clip_grad_norm, clip_grad_value};
use std::time::Instant;

/// On a device of its own, the loss is read once in so many batches.
const LATE: usize = 32;

/// What changes as a run goes on.
#[derive(Default)]
pub(super) struct State {
    pub step: u64,
    pub at: LoaderState,
    /// The random numbers' position when the epoch began, so that its batches can be made again.
    pub epoch_rng: (u64, u64),
    pub loss: f64,
    /// Losses that were not read yet.
    pub late: Late,
    /// Sum and number of this epoch's losses.
    pub sum: f64,
    pub count: u64,
    pub batches: Option<u64>,
    /// Batches since this process began.
    pub done: u64,
    pub history: History,
}

impl State {
    /// Takes in the loss of a step.
    fn note(&mut self, step: u64, loss: f64) {
        self.loss = loss;
        (self.sum, self.count) = (self.sum + loss, self.count + 1);
        self.history.loss.push(step, loss);
    }

    /// Reads the losses that were not read yet.
    fn read(&mut self) -> Result<()> {
        for (step, loss) in self.late.take()? {
            if !loss.is_finite() {
                let (epoch, now) = (self.at.epoch, self.step);
                let why = format!("the loss was {loss} at step {step} (epoch {epoch}), seen at step {now}");
                return Err(Error::new("trainer", ErrorKind::Numerical(why))
                    .hint("read_loss_every(1) stops at that step and names the operation"));
            }
            self.note(step, loss);
        }
        Ok(())
    }
}

impl Trainer<'_> {
    /// Runs. `batches` gives those of an epoch, and the same ones when it is asked for the same epoch again (by a seed of
    /// its own, or by this library's random numbers); `loss` makes a number of one.
    #[track_caller]
    pub fn fit<I: IntoIterator>(
        mut self,
        mut batches: impl FnMut(u64) -> I,
        mut loss: impl FnMut(I::Item) -> Result<Tensor>,
    ) -> Result<Report> {
        if self.store.is_some() {
            interrupt::watch().map_err(|e| Error::value("trainer", format!("cannot watch for Ctrl-C: {e}")))?;
        }
        let mut s = State { at: LoaderState { seed: self.seed, ..Default::default() }, ..Default::default() };
        let resumed = self.resume(&mut s)?;
        let began = Instant::now();
        self.each(&s, began, |c, run| c.on_start(run).map(|()| Flow::Continue))?;
        let mut stop = Stop::Finished;
        // The position in the middle of an epoch: its batches are made again, and those that were taken are skipped.
        let mut again = resumed.is_some().then(|| (s.at.batch, get_rng_state()));
        'run: while s.at.epoch < self.epochs {
            let (skip, now) = match again.take() {
                Some((skip, now)) => {
                    set_rng_state(s.epoch_rng);
                    (skip, Some(now))
                }
                None => {
                    s.epoch_rng = get_rng_state();
                    (0, None)
                }
            };
            let mut iter = batches(s.at.epoch).into_iter();
            s.batches = iter.size_hint().1.map(|n| n as u64);
            for _ in 0..skip {
                iter.next();
            }
            // Where none was taken, the numbers drawn for the epoch's order are the last ones.
            if let (Some(now), 1..) = (now, skip) {
                set_rng_state(now);
            }
            let mut sum = Accumulator::new();
            let mut iter = iter.peekable();
            loop {
                // Looked at before the next batch is made, so that a checkpoint is all there is to know.
                if self.max_steps.is_some_and(|most| s.step >= most) {
                    break 'run;
                }
                if interrupt::requested() && self.store.is_some() && sum.count() == 0 {
                    interrupt::clear();
                    s.read()?;
                    stop = Stop::Interrupted(self.save(&s)?);
                    break 'run;
                }
                let Some(batch) = iter.next() else { break };
                let value = match self.amp {
                    Some(low) => autocast(low, || loss(batch))?,
                    None => loss(batch)?,
                };
                s.at.batch += 1;
                let every = self.read_every.unwrap_or(if value.device() == Device::cpu() { 1 } else { LATE });
                if every > 1 {
                    s.late.push(s.step, &value, every)?;
                }
                let grads = match &self.scaler {
                    Some(scaler) => scaler.scale(&value).backward()?,
                    None => value.backward()?,
                };
                let stepped = if self.accumulate == 1 {
                    self.step(&s, &grads)?;
                    true
                } else {
                    sum.add(&grads)?;
                    let enough = sum.count() == self.accumulate || iter.peek().is_none();
                    if enough {
                        self.step(&s, &sum.take_mean()?)?;
                    }
                    enough
                };
                s.done += 1;
                if every == 1 {
                    let x = value.item::<f64>()?;
                    if !x.is_finite() {
                        s.loss = x;
                        return Err(not_finite(&s, &value));
                    }
                    s.note(s.step, x);
                } else if s.late.len() >= every {
                    s.read()?;
                }
                // Before the next batch is made: the memory of this step is then free for it.
                drop((value, grads));
                if !stepped {
                    continue;
                }
                s.step += 1;
                if let Some((schedule, Per::Step)) = &mut self.schedule {
                    schedule.step(&mut *self.opt)?;
                }
                if let Some(ema) = &mut self.ema {
                    ema.update()?;
                }
                let flow = self.each(&s, began, |c, run| c.on_step(run))?;
                if self.store.as_ref().is_some_and(|(_, every)| s.step.is_multiple_of(*every)) {
                    s.read()?;
                    self.save(&s)?;
                }
                if let Flow::Stop(why) = flow {
                    stop = Stop::Early(why);
                    break 'run;
                }
            }
            s.read()?;
            if let Flow::Stop(why) = self.end_epoch(&mut s, began)? {
                stop = Stop::Early(why);
                break;
            }
        }
        s.read()?;
        if !matches!(stop, Stop::Interrupted(_)) {
            self.save(&s)?;
        }
        self.each(&s, began, |c, run| c.on_end(run).map(|()| Flow::Continue))?;
        Ok(Report { steps: s.step, history: s.history, stop, resumed })
    }

    fn step(&mut self, s: &State, grads: &Gradients) -> Result<()> {
        let (unscaled, clipped);
        let mut grads = grads;
        if let Some(scaler) = &mut self.scaler {
            unscaled = scaler.unscale(grads)?;
            grads = &unscaled;
        }
        if self.clip_value.is_some() || self.clip_norm.is_some() {
            let mut g = grads.map(|_, g| Ok(g.clone()))?;
            if let Some(most) = self.clip_value {
                g = clip_grad_value(&g, most)?;
            }
            if let Some(most) = self.clip_norm {
                g = clip_grad_norm(&g, most, 2.0)?.0;
            }
            clipped = g;
            grads = &clipped;
        }
        if self.detect_anomaly {
            let all: Vec<&Tensor> = grads.iter().map(|(_, g)| g).collect();
            if let Some(culprit) = locate_nan(&all)? {
                let why = format!("a gradient is not finite after step {}: {culprit}", s.step);
                return Err(Error::new("trainer", ErrorKind::Numerical(why)));
            }
        }
        if self.check_memory && s.done == 0 {
            let f = forecast_step(&*self.opt, grads)?;
            if !f.fits() {
                return Err(Error::new("trainer", ErrorKind::Alloc { bytes: f.step.into() }).hint(format!(
                    "it takes {f}: use smaller batches (and accumulate), or check_memory(false) to try all the same"
                )));
            }
        }
        match &mut self.scaler {
            Some(scaler) => {
                scaler.step(&mut *self.opt, grads)?;
                scaler.update();
                Ok(())
            }
            None => self.opt.step(grads),
        }
    }

    /// Validation, the record of the epoch, schedules by epoch and callbacks.
    fn end_epoch(&mut self, s: &mut State, began: Instant) -> Result<Flow> {
        let metrics = match (&mut self.validate, &self.ema) {
            (Some(validate), Some(ema)) => ema.with(|| no_grad(validate))?,
            (Some(validate), None) => no_grad(validate)?,
            (None, _) => vec![],
        };
        let loss = s.sum / s.count.max(1) as f64;
        s.history.epochs.push(EpochRecord { epoch: s.at.epoch, step: s.step, loss, metrics });
        if let Some((schedule, Per::Epoch)) = &mut self.schedule {
            schedule.step(&mut *self.opt)?;
        }
        if let Some((plateau, name)) = &mut self.plateau {
            let Some(x) = s.history.epochs.last().and_then(|e| e.get(name)) else {
                return Err(Error::value("trainer", format!("the validation gives no `{name}` for the plateau")));
            };
            plateau.step(x, &mut *self.opt);
        }
        let flow = self.each(s, began, |c, run| c.on_epoch(run))?;
        (s.at.epoch, s.at.batch) = (s.at.epoch + 1, 0);
        (s.sum, s.count) = (0.0, 0);
        s.epoch_rng = get_rng_state();
        Ok(flow)
    }

    /// Calls all callbacks; the first that wants to stop is heard after the others were called.
    fn each(
        &mut self,
        s: &State,
        began: Instant,
        mut call: impl FnMut(&mut dyn Callback, &Run<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        let run = Run {
            epoch: s.at.epoch,
            epochs: self.epochs,
            batch: s.at.batch,
            batches: s.batches,
            step: s.step,
            loss: s.loss,
            lr: self.opt.lr(),
            elapsed: began.elapsed(),
            done: s.done,
            history: &s.history,
        };
        let mut flow = Flow::Continue;
        for c in &mut self.callbacks {
            let next = call(&mut **c, &run)?;
            if flow == Flow::Continue {
                flow = next;
            }
        }
        Ok(flow)
    }
}

/// The error of a loss that is no number, with the operation that made it.
fn not_finite(s: &State, loss: &Tensor) -> Error {
    let at = format!("the loss is {} at step {} (epoch {}, batch {})", s.loss, s.step, s.at.epoch, s.at.batch);
    let why = match locate_nan(&[loss]) {
        Ok(Some(culprit)) => format!("{at}: {culprit}"),
        Ok(None) => at,
        Err(e) => format!("{at}, and the search for its origin failed: {e}"),
    };
    Error::new("trainer", ErrorKind::Numerical(why)).operand(loss).hint("the last checkpoint is from before it")
}
