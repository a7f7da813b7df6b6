//! The loop, and what can be asked of it.

mod late;
mod run;
mod save;

use crate::{Callback, Checkpoints, History};
use gradus_core::{DType, Result};
use gradus_io::Stateful;
use gradus_optim::{Ema, GradScaler, LrScheduler, Optimizer, ReduceLrOnPlateau};
use std::path::PathBuf;

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
    read_every: Option<usize>,
    amp: Option<DType>,
    scaler: Option<GradScaler>,
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
            read_every: None,
            amp: None,
            scaler: None,
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

    /// Reads the loss once in so many batches: what was not read yet is then read at once. Unless told, it is 1 on the
    /// CPU, where reading is free, and 32 elsewhere: reading waits for the device, which should have the next step by
    /// then. The end of an epoch, a checkpoint and the end of the run read all there is, so the history is the same.
    ///
    /// A loss that is not finite is found when it is read. With 1, the error names the operation that made it.
    pub fn read_loss_every(self, batches: usize) -> Self {
        Trainer { read_every: Some(batches.max(1)), ..self }
    }

    /// Makes the loss in mixed precision ([`gradus_core::autocast`]): products in `bf16` or `f16`, weights in f32. With
    /// f16 the loss is scaled ([`GradScaler`]), and a step whose gradients are not finite is left out.
    pub fn amp(self, dtype: DType) -> Self {
        Trainer { amp: Some(dtype), scaler: (dtype == DType::F16).then(GradScaler::new), ..self }
    }

    /// Scales the loss by one of your own making.
    pub fn grad_scaler(self, scaler: GradScaler) -> Self {
        Trainer { scaler: Some(scaler), ..self }
    }

    /// Looks at every gradient before it is used: a NaN ends the run with the operation of the backward pass that made it.
    /// It costs time, so it is for the search; a NaN in the loss is found without it.
    pub fn detect_anomaly(self, detect_anomaly: bool) -> Self {
        Trainer { detect_anomaly, ..self }
    }
}
