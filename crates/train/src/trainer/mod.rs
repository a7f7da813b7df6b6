//! The loop.

use crate::{
    Callback, Checkpoint, Checkpoints, EpochRecord, Flow, History, LoaderState, Params, Run, forecast_step, interrupt,
    locate_nan,
};
use gradus_core::{Error, ErrorKind, Result, Tensor, get_rng_state, grad::Gradients, no_grad, set_rng_state};
use gradus_io::{Meta, Stateful};
use gradus_optim::{Accumulator, Ema, LrScheduler, Optimizer, ReduceLrOnPlateau, clip_grad_norm, clip_grad_value};
use std::{path::PathBuf, time::Instant};

/// How often a schedule steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// After every optimizer step.
    Step,
    /// After every epoch.
    Epoch,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All epochs (or steps) are done.
    Finished,
    /// A callback wanted it, and why.
    Early(String),
    /// Ctrl-C, and the checkpoint that was written.
    Interrupted(Option<PathBuf>),
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Optimizer steps since the very beginning.
    pub steps: u64,
    /// Losses and metrics since the very beginning.
    pub history: History,
    /// Why it ended.
    pub stop: Stop,
    /// The checkpoint it went on from.
    pub resumed: Option<PathBuf>,
}

type Validate<'a> = Box<dyn FnMut() -> Result<Vec<(String, f64)>> + 'a>;

/// A training loop: as much of it as you ask for.
///
/// ```
/// use gradus_core::{Tensor, manual_seed};
/// use gradus_optim::{Adam, LrScheduler, Schedule};
/// use gradus_train::{Checkpoints, EarlyStopping, Per, Progress, Trainer};
/// # let dir = tempfile::tempdir().unwrap();
/// manual_seed(0);
/// let (x, w) = (Tensor::randn([64, 3]), Tensor::var("w", Tensor::from([0.0f32; 3])));
/// let y = x.matmul(&Tensor::from([1.0f32, -2.0, 0.5]))?;
/// let loss = |x: &Tensor, y: &Tensor| Ok((x.matmul(&w)? - y).square().mean());
///
/// let mut opt = Adam::new([&w], 0.1);
/// let schedule = LrScheduler::new(&mut opt, Schedule::Exponential { gamma: 0.95 })?;
/// let report = Trainer::new(opt)
///     .epochs(40)
///     .schedule(schedule, Per::Epoch)
///     .clip_grad_norm(1.0)
///     .validate(|| Ok(vec![("val_loss".into(), loss(&x, &y)?.item::<f64>()?)]))
///     .on(Progress::lines(std::io::sink()))
///     .on(EarlyStopping::new("val_loss").patience(5))
///     .checkpoints(Checkpoints::open(dir.path())?, 100) // resumes from there, too
///     .fit(
///         |_epoch| (0..4).map(|i| 16 * i),
///         |at| loss(&x.narrow(0, at, 16)?, &y.narrow(0, at, 16)?),
///     )?;
/// assert!(report.history.epochs.last().unwrap().get("val_loss").unwrap() < 0.05);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct Trainer<'a> {
    opt: Box<dyn Optimizer + 'a>,
    epochs: u64,
    max_steps: Option<u64>,
    schedule: Option<(LrScheduler, Per)>,
    plateau: Option<(ReduceLrOnPlateau, String)>,
    clip_norm: Option<f64>,
    clip_value: Option<f64>,
    accumulate: usize,
    ema: Option<Ema>,
    parts: Vec<(String, Box<dyn Stateful + 'a>)>,
    callbacks: Vec<Box<dyn Callback + 'a>>,
    validate: Option<Validate<'a>>,
    store: Option<(Checkpoints, u64)>,
    check_memory: bool,
    detect_anomaly: bool,
    seed: u64,
}

/// What changes as a run goes on.
#[derive(Default)]
struct State {
    step: u64,
    at: LoaderState,
    /// The random numbers' position when the epoch began, so that its batches can be made again.
    epoch_rng: (u64, u64),
    loss: f64,
    /// Sum and number of this epoch's losses.
    sum: f64,
    count: u64,
    batches: Option<u64>,
    /// Batches since this process began.
    done: u64,
    history: History,
}

impl<'a> Trainer<'a> {
    /// A loop around an optimizer, or a reference to one.
    pub fn new(opt: impl Optimizer + 'a) -> Trainer<'a> {
        Trainer {
            opt: Box::new(opt),
            epochs: 1,
            max_steps: None,
            schedule: None,
            plateau: None,
            clip_norm: None,
            clip_value: None,
            accumulate: 1,
            ema: None,
            parts: vec![],
            callbacks: vec![],
            validate: None,
            store: None,
            check_memory: true,
            detect_anomaly: false,
            seed: 0,
        }
    }

    /// How often all batches are gone through (once unless told).
    pub fn epochs(self, epochs: u64) -> Self {
        Trainer { epochs, ..self }
    }

    /// No more than this many optimizer steps.
    pub fn max_steps(self, max_steps: u64) -> Self {
        Trainer { max_steps: Some(max_steps), ..self }
    }

    /// Steps a schedule.
    pub fn schedule(self, schedule: LrScheduler, per: Per) -> Self {
        Trainer { schedule: Some((schedule, per)), ..self }
    }

    /// Lowers the learning rate when a metric of the validation stops improving.
    pub fn plateau(self, plateau: ReduceLrOnPlateau, metric: impl Into<String>) -> Self {
        Trainer { plateau: Some((plateau, metric.into())), ..self }
    }

    /// Scales gradients whose common norm is larger.
    pub fn clip_grad_norm(self, max_norm: f64) -> Self {
        Trainer { clip_norm: Some(max_norm), ..self }
    }

    /// Cuts off elements of gradients that are larger.
    pub fn clip_grad_value(self, clip_value: f64) -> Self {
        Trainer { clip_value: Some(clip_value), ..self }
    }

    /// Takes the mean gradient of this many batches for each step; what is left at the end of an epoch makes one too.
    pub fn accumulate(self, batches: usize) -> Self {
        Trainer { accumulate: batches.max(1), ..self }
    }

    /// Keeps an average of the weights, and validates with it.
    pub fn ema(self, ema: Ema) -> Self {
        Trainer { ema: Some(ema), ..self }
    }

    /// What checkpoints hold besides the optimizer and its variables: a model's buffers, a loader. Call it `model` to
    /// take the place of the variables.
    pub fn part(mut self, name: impl Into<String>, part: impl Stateful + 'a) -> Self {
        self.parts.push((name.into(), Box::new(part)));
        self
    }

    /// Called as the run goes on, in the order they were added.
    pub fn on(mut self, callback: impl Callback + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// Metrics after each epoch, by name; no gradients are recorded.
    pub fn validate(self, metrics: impl FnMut() -> Result<Vec<(String, f64)>> + 'a) -> Self {
        Trainer { validate: Some(Box::new(metrics)), ..self }
    }

    /// Saves a checkpoint every so many steps and at the end, resumes from the newest whole one, and makes Ctrl-C save
    /// and end the run.
    pub fn checkpoints(self, store: Checkpoints, every: u64) -> Self {
        Trainer { store: Some((store, every.max(1))), ..self }
    }

    /// The loader's seed, which goes into checkpoints.
    pub fn seed(self, seed: u64) -> Self {
        Trainer { seed, ..self }
    }

    /// Whether a first step that needs more memory than there is ends the run before it begins (it does unless told).
    pub fn check_memory(self, check_memory: bool) -> Self {
        Trainer { check_memory, ..self }
    }

    /// Looks at every gradient before it is used: a NaN ends the run with the operation of the backward pass that made it.
    /// It costs time, so it is for the search; a NaN in the loss is found without it.
    pub fn detect_anomaly(self, detect_anomaly: bool) -> Self {
        Trainer { detect_anomaly, ..self }
    }

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
                    stop = Stop::Interrupted(self.save(&s)?);
                    break 'run;
                }
                let Some(batch) = iter.next() else { break };
                let value = loss(batch)?;
                s.at.batch += 1;
                let grads = value.backward()?;
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
                s.loss = value.item::<f64>()?;
                if !s.loss.is_finite() {
                    return Err(not_finite(&s, &value));
                }
                (s.sum, s.count, s.done) = (s.sum + s.loss, s.count + 1, s.done + 1);
                s.history.loss.push(s.step, s.loss);
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
                    self.save(&s)?;
                }
                if let Flow::Stop(why) = flow {
                    stop = Stop::Early(why);
                    break 'run;
                }
            }
            if let Flow::Stop(why) = self.end_epoch(&mut s, began)? {
                stop = Stop::Early(why);
                break;
            }
        }
        if !matches!(stop, Stop::Interrupted(_)) {
            self.save(&s)?;
        }
        self.each(&s, began, |c, run| c.on_end(run).map(|()| Flow::Continue))?;
        Ok(Report { steps: s.step, history: s.history, stop, resumed })
    }

    fn step(&mut self, s: &State, grads: &Gradients) -> Result<()> {
        let clipped;
        let mut grads = grads;
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
        self.opt.step(grads)
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

    fn save(&self, s: &State) -> Result<Option<PathBuf>> {
        let Some((store, _)) = &self.store else { return Ok(None) };
        let mut c = Checkpoint::new()
            .with("optimizer", &*self.opt)
            .with("history", &s.history)
            .with_loader(s.at)
            .with_value("step", s.step as i64)
            .with_value("loss", Meta::Float(s.loss))
            .with_value("sum", Meta::Float(s.sum))
            .with_value("count", s.count as i64);
        c.set_pair("epoch_rng", s.epoch_rng);
        if !self.parts.iter().any(|(name, _)| name == "model") {
            c = c.with("model", &Params::of(&self.opt.params()));
        }
        if let Some((schedule, _)) = &self.schedule {
            c = c.with("schedule", schedule);
        }
        if let Some((plateau, _)) = &self.plateau {
            c = c.with("plateau", plateau);
        }
        if let Some(ema) = &self.ema {
            c = c.with("ema", ema);
        }
        for (name, part) in &self.parts {
            c = c.with(name, &**part);
        }
        for (i, callback) in self.callbacks.iter().enumerate() {
            c = c.with_state(&format!("callback{i}"), &callback.state());
        }
        Ok(Some(store.save(s.step, &c)?))
    }

    fn resume(&mut self, s: &mut State) -> Result<Option<PathBuf>> {
        let Some((store, _)) = &self.store else { return Ok(None) };
        let Some(found) = store.load_latest()? else { return Ok(None) };
        for e in &found.damaged {
            eprintln!("warning: {e}\n  going on from step {}", found.step);
        }
        let c = &found.checkpoint;
        if !self.parts.iter().any(|(name, _)| name == "model") {
            c.restore("model", &mut Params::of(&self.opt.params()))?;
        }
        c.restore("optimizer", &mut *self.opt)?;
        if let Some((schedule, _)) = &mut self.schedule {
            c.restore("schedule", schedule)?;
        }
        if let Some((plateau, _)) = &mut self.plateau {
            c.restore("plateau", plateau)?;
        }
        if let Some(ema) = &mut self.ema {
            c.restore("ema", ema)?;
        }
        for (name, part) in &mut self.parts {
            c.restore(name, &mut **part)?;
        }
        for (i, callback) in self.callbacks.iter_mut().enumerate() {
            let name = format!("callback{i}");
            if c.has(&name) {
                callback.load_state(&c.part(&name)?)?;
            }
        }
        c.restore("history", &mut s.history)?;
        let number = |key: &str| c.value(key).and_then(Meta::as_f64).unwrap_or(0.0);
        let count = |key: &str| c.value(key).and_then(Meta::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        (s.step, s.count) = (count("step"), count("count"));
        (s.loss, s.sum) = (number("loss"), number("sum"));
        s.at = c.loader()?;
        s.epoch_rng = c.pair("epoch_rng")?;
        c.restore_rng()?;
        Ok(Some(found.path))
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
