//! The loop itself.

use super::{Per, Report, Stop, Trainer, late::Late};
use crate::{Callback, EpochRecord, Flow, History, LoaderState, Run, forecast_step, interrupt, locate_nan};
use gradus_core::{
    DType, Device, Error, ErrorKind, Result, Tensor, autocast, compile, get_rng_state, grad::Gradients, no_grad,
    set_rng_state,
};
use gradus_optim::{Accumulator, Optimizer, clip_grad_norm, clip_grad_value};
use std::time::Instant;

/// On a device of its own, the loss is read once in so many batches.
const LATE: usize = 32;

/// Whether a batch is the last of its epoch; asking makes the next one.
type Last<'l> = &'l mut dyn FnMut() -> bool;

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

impl<'a> Trainer<'a> {
    /// Runs. `batches` gives those of an epoch, and the same ones when it is asked for the same epoch again (by a seed of
    /// its own, or by this library's random numbers); `loss` makes a number of one.
    #[track_caller]
    pub fn fit<I: IntoIterator>(
        self,
        batches: impl FnMut(u64) -> I,
        mut loss: impl FnMut(I::Item) -> Result<Tensor>,
    ) -> Result<Report> {
        let mut sum = Accumulator::new();
        self.drive(batches, |t, s, batch, last| t.plain(s, &mut sum, last, || loss(batch)))
    }

    /// As [`Trainer::fit`] for batches that are tensors, with the whole step compiled ([`gradus_core::compile`]): after a few
    /// batches of one shape, forward pass, backward pass and update are replayed without building a graph. `loss` must
    /// then do the same for all batches of a shape; what cannot be replayed runs as it is.
    ///
    /// ```
    /// use gradus_core::{Result, Tensor};
    /// use gradus_optim::Adam;
    /// use gradus_train::Trainer;
    /// let (x, w) = (Tensor::randn([8, 4, 2]), Tensor::var("w", Tensor::from([0.0f32, 0.0])));
    /// let y = x.matmul(&Tensor::from([1.0f32, -2.0]))?;
    /// let batches = || (0..8).map(|i| Ok([x.select(0, i)?, y.select(0, i)?]));
    /// let loss = |[x, y]: [&Tensor; 2]| Ok((x.matmul(&w)? - y).square().mean());
    /// let report = Trainer::new(Adam::new([&w], 0.1)).epochs(30).fit_compiled(|_| batches(), loss)?;
    /// assert!(report.history.epochs.last().unwrap().loss < 1e-2);
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    pub fn fit_compiled<const N: usize, I: IntoIterator<Item = Result<[Tensor; N]>>>(
        self,
        batches: impl FnMut(u64) -> I,
        mut loss: impl FnMut([&Tensor; N]) -> Result<Tensor>,
    ) -> Result<Report> {
        if self.accumulate != 1 || self.scaler.is_some() || self.detect_anomaly {
            // These look at numbers between the passes.
            return self.fit(batches, |batch| loss(batch?.each_ref()));
        }
        let (amp, clip, mut check) = (self.amp, (self.clip_value, self.clip_norm), self.check_memory);
        let mut step = compile(|opt: &mut Box<dyn Optimizer + 'a>, batch: [&Tensor; N]| {
            let value = mixed(amp, || loss(batch))?;
            let grads = clipped(value.backward()?, clip)?;
            if std::mem::take(&mut check) {
                check_step(&**opt, &grads)?;
            }
            opt.step(&grads)?;
            Ok(value)
        });
        self.drive(batches, |t, s, batch, _| {
            let value = step.call(&mut t.opt, batch?.each_ref())?;
            s.at.batch += 1;
            let every = t.every(&value);
            if every > 1 {
                s.late.push(s.step, &value, every)?;
            }
            Ok((value, true))
        })
    }

    /// Once in how many batches the loss is read.
    fn every(&self, value: &Tensor) -> usize {
        self.read_every.unwrap_or(if value.device() == Device::cpu() { 1 } else { LATE })
    }

    /// One batch as it comes: its loss, and whether the optimizer has stepped.
    fn plain(
        &mut self,
        s: &mut State,
        sum: &mut Accumulator,
        last: Last<'_>,
        loss: impl FnOnce() -> Result<Tensor>,
    ) -> Result<(Tensor, bool)> {
        let value = mixed(self.amp, loss)?;
        s.at.batch += 1;
        let every = self.every(&value);
        if every > 1 {
            s.late.push(s.step, &value, every)?;
        }
        let grads = match &self.scaler {
            Some(scaler) => scaler.scale(&value).backward()?,
            None => value.backward()?,
        };
        if self.accumulate == 1 {
            self.step(s, &grads)?;
            return Ok((value, true));
        }
        sum.add(&grads)?;
        let enough = sum.count() == self.accumulate || last();
        if enough {
            self.step(s, &sum.take_mean()?)?;
        }
        Ok((value, enough))
    }

    /// The loop around what is done with a batch.
    fn drive<I: IntoIterator>(
        mut self,
        mut batches: impl FnMut(u64) -> I,
        mut pass: impl FnMut(&mut Trainer<'a>, &mut State, I::Item, Last<'_>) -> Result<(Tensor, bool)>,
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
            let mut iter = iter.peekable();
            let mut whole = true;
            loop {
                // Looked at before the next batch is made, so that a checkpoint is all there is to know.
                if self.max_steps.is_some_and(|most| s.step >= most) {
                    break 'run;
                }
                if interrupt::requested() && self.store.is_some() && whole {
                    interrupt::clear();
                    s.read()?;
                    stop = Stop::Interrupted(self.save(&s)?);
                    break 'run;
                }
                let Some(batch) = iter.next() else { break };
                let (value, stepped) = pass(&mut self, &mut s, batch, &mut || iter.peek().is_none())?;
                whole = stepped;
                let every = self.every(&value);
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
                drop(value);
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
        let unscaled;
        let mut grads = grads;
        if let Some(scaler) = &mut self.scaler {
            unscaled = scaler.unscale(grads)?;
            grads = &unscaled;
        }
        let bounded;
        if self.clip_value.is_some() || self.clip_norm.is_some() {
            bounded = clipped(grads.map(|_, g| Ok(g.clone()))?, (self.clip_value, self.clip_norm))?;
            grads = &bounded;
        }
        if self.detect_anomaly {
            let all: Vec<&Tensor> = grads.iter().map(|(_, g)| g).collect();
            if let Some(culprit) = locate_nan(&all)? {
                let why = format!("a gradient is not finite after step {}: {culprit}", s.step);
                return Err(Error::new("trainer", ErrorKind::Numerical(why)));
            }
        }
        if self.check_memory && s.done == 0 {
            check_step(&*self.opt, grads)?;
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

/// Runs `f` in mixed precision, if there is a low type.
fn mixed<R>(low: Option<DType>, f: impl FnOnce() -> R) -> R {
    match low {
        Some(low) => autocast(low, f),
        None => f(),
    }
}

/// Gradients within these bounds: of elements, and of their common norm.
fn clipped(grads: Gradients, (value, norm): (Option<f64>, Option<f64>)) -> Result<Gradients> {
    let grads = match value {
        Some(most) => clip_grad_value(&grads, most)?,
        None => grads,
    };
    match norm {
        Some(most) => Ok(clip_grad_norm(&grads, most, 2.0)?.0),
        None => Ok(grads),
    }
}

/// An error if a step will not fit into memory.
fn check_step(opt: &dyn Optimizer, grads: &Gradients) -> Result<()> {
    let f = forecast_step(opt, grads)?;
    if f.fits() {
        return Ok(());
    }
    Err(Error::new("trainer", ErrorKind::Alloc { bytes: f.step.into() }).hint(format!(
        "it takes {f}: use smaller batches (and accumulate), or check_memory(false) to try all the same"
    )))
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
