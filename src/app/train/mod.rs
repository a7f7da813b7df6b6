//! `train`: what all trainings have in common.

mod classify;
mod gpt;
mod sine;
#[cfg(test)]
mod tests;

use super::{
    devices,
    fail::{Done, Failure},
    json::Json,
    out::Out,
    plot::Plot,
};
use clap::ArgMatches;
use gradus::{
    DType, Device, Error, Result,
    io::{self, Meta, StateDict},
    manual_seed,
    train::{
        Callback, Checkpoints, EpochRecord, Flow, FnState, History, Progress, Report, Run, Stop, Trainer, interrupt,
    },
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub use gpt::{Written, write};

/// The flags that all trainings take, with the task's own values where the user gave none.
pub struct Settings {
    task: String,
    epochs: u64,
    batch_size: usize,
    lr: f64,
    seed: u64,
    out: PathBuf,
    curve: Option<PathBuf>,
    checkpoint: Option<PathBuf>,
    resume: bool,
    device: Device,
    amp: Option<DType>,
}

/// A task's own values.
struct Defaults {
    epochs: usize,
    batch_size: usize,
    lr: f64,
    out: &'static str,
}

/// `gradus train TASK`
pub fn run(task: &str, m: &ArgMatches, out: &Out) -> Done {
    let settings = |d: Defaults| Settings::new(task, m, d);
    match task {
        "sine" => {
            let d = Defaults { epochs: 20, batch_size: 256, lr: 1e-2, out: "gradus-sine.safetensors" };
            sine::run(&settings(d)?, out)
        }
        "digits" => {
            let d = Defaults { epochs: 24, batch_size: 64, lr: 5e-3, out: "gradus-digits.safetensors" };
            classify::digits(&settings(d)?, out)
        }
        "mnist" => {
            let d = Defaults { epochs: 3, batch_size: 128, lr: 4e-3, out: "gradus-mnist.safetensors" };
            let model = m.get_one::<String>("model").map_or("convnet", String::as_str);
            classify::mnist(&settings(d)?, &folder(m), model, out)
        }
        "cifar10" => {
            let d = Defaults { epochs: 10, batch_size: 128, lr: 4e-3, out: "gradus-cifar10.safetensors" };
            classify::cifar10(&settings(d)?, &folder(m), out)
        }
        "char-gpt" => {
            let d = Defaults { epochs: 8, batch_size: 12, lr: 1e-3, out: "gradus-gpt.safetensors" };
            gpt::run(&settings(d)?, m, out)
        }
        other => Err(Failure::Usage(format!("there is no task {other}"))),
    }
}

fn folder(m: &ArgMatches) -> PathBuf {
    m.get_one::<PathBuf>("data").cloned().unwrap_or_default()
}

impl Settings {
    fn new(task: &str, m: &ArgMatches, d: Defaults) -> Result<Settings, Failure> {
        let out: PathBuf = m.get_one::<PathBuf>("out").cloned().unwrap_or_else(|| d.out.into());
        if out.extension().is_none_or(|e| e != "safetensors") {
            return Err(Failure::Usage(format!("--out must end in .safetensors, and {} does not", out.display())));
        }
        let curve = m.get_one::<PathBuf>("curve").cloned();
        if let Some(curve) = curve.as_ref().filter(|c| c.extension().is_none_or(|e| e != "svg")) {
            return Err(Failure::Usage(format!("--curve must end in .svg, and {} does not", curve.display())));
        }
        // Better to say so now than after the training.
        for path in [Some(&out), curve.as_ref()].into_iter().flatten() {
            check_folder(path)?;
        }
        let count = |name: &str, default: usize| m.get_one::<usize>(name).copied().unwrap_or(default);
        let settings = Settings {
            task: task.to_string(),
            epochs: count("epochs", d.epochs) as u64,
            batch_size: count("batch-size", d.batch_size),
            lr: m.get_one::<f64>("lr").copied().unwrap_or(d.lr),
            seed: m.get_one::<u64>("seed").copied().unwrap_or(0),
            out,
            curve,
            checkpoint: m.get_one::<PathBuf>("checkpoint").cloned(),
            resume: m.get_flag("resume"),
            device: devices::named(m.get_one::<String>("device").map_or("cpu", String::as_str))?,
            amp: match m.get_one::<String>("amp").map(String::as_str) {
                Some("bf16") => Some(DType::BF16),
                Some("f16") => Some(DType::F16),
                Some(_) | None => None,
            },
        };
        manual_seed(settings.seed);
        Ok(settings)
    }

    /// The folder of checkpoints: with some in it only to go on, and to go on only with some in it.
    fn store(&self) -> Result<Option<Checkpoints>, Failure> {
        let Some(folder) = &self.checkpoint else { return Ok(None) };
        let store = Checkpoints::open(folder)?;
        let shown = folder.display();
        match (store.steps().is_empty(), self.resume) {
            (true, true) => Err(Failure::Usage(format!("{shown} has no checkpoint to go on from"))),
            (false, false) => Err(Failure::Usage(format!(
                "{shown} has checkpoints of an earlier run: add --resume to go on with it, or name another folder"
            ))),
            (true, false) | (false, true) => Ok(Some(store)),
        }
    }

    /// Adds to a loop what all have: checkpoints of the model and its settings, progress, and an end on Ctrl-C that
    /// loses nothing.
    fn equip<'a>(
        &'a self,
        trainer: Trainer<'a>,
        save: impl Fn() -> StateDict + 'a,
        load: impl FnMut(&StateDict) -> Result<()> + 'a,
        every: u64,
    ) -> Result<Trainer<'a>, Failure> {
        let store = self.store()?;
        interrupt::watch().map_err(|e| Failure::Run(format!("cannot watch for Ctrl-C: {e}")))?;
        let settings = FnState::new(|| self.state(), |state: &StateDict| self.check(state));
        let trainer = trainer
            .epochs(self.epochs)
            .seed(self.seed)
            .part("settings", settings)
            .part("model", FnState::new(save, load))
            .on(Progress::new());
        let trainer = match self.amp {
            Some(dtype) => trainer.amp(dtype),
            None => trainer,
        };
        Ok(match store {
            Some(store) => trainer.checkpoints(store, every),
            None => trainer.on(StopOnCtrlC),
        })
    }

    /// What must be the same when a run goes on. The device need not be: a run may go on elsewhere.
    fn fixed(&self) -> [(&'static str, Meta); 6] {
        [
            ("task", self.task.as_str().into()),
            ("epochs", Meta::Int(self.epochs as i64)),
            ("batch-size", Meta::Int(self.batch_size as i64)),
            ("lr", Meta::Float(self.lr)),
            ("seed", self.seed.to_string().into()),
            ("amp", self.amp.map_or("off".into(), |d| d.to_string().into())),
        ]
    }

    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        state.metadata_mut().extend(self.fixed().map(|(k, v)| (k.to_string(), v)));
        state
    }

    fn check(&self, state: &StateDict) -> Result<()> {
        for (key, here) in self.fixed() {
            // Checkpoints from before there was mixed precision say nothing of it.
            let silent = if key == "amp" { "off" } else { "nothing" };
            let there = state.metadata().get(key).map_or(silent.into(), Meta::to_string);
            if there != here.to_string() {
                let why = format!("the checkpoint was made with --{key} {there}, not {here}");
                return Err(Error::value("resume", why).hint("give the same settings to go on"));
            }
        }
        Ok(())
    }
}

fn check_folder(path: &Path) -> Result<(), Failure> {
    match path.parent().filter(|f| !f.as_os_str().is_empty() && !f.is_dir()) {
        Some(folder) => {
            Err(Failure::Usage(format!("there is no folder {} to save {} in", folder.display(), path.display())))
        }
        None => Ok(()),
    }
}

/// Without checkpoints, Ctrl-C ends the training, and what was learned so far is saved.
struct StopOnCtrlC;

impl Callback for StopOnCtrlC {
    fn on_step(&mut self, _: &Run<'_>) -> Result<Flow> {
        match interrupt::requested() {
            true => {
                interrupt::clear();
                Ok(Flow::Stop("Ctrl-C".into()))
            }
            false => Ok(Flow::Continue),
        }
    }
}

/// The loss by step, and metrics by epoch.
fn curve(title: &str, history: &History) -> Plot {
    let numbers = |points: &[(u64, f64)]| points.iter().map(|&(s, v)| (s as f64, v)).collect::<Vec<_>>();
    let mut series = vec![("training loss".to_string(), numbers(&smooth(history.loss.points())))];
    let validation = history.metric("val_loss");
    if !validation.is_empty() {
        series.push(("validation loss".into(), numbers(&validation)));
    }
    Plot { title: title.into(), x_label: "step".into(), y_label: "loss".into(), log: false, series }
}

/// Means over stretches, so that a curve of noisy steps can be read.
fn smooth(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let each = points.len().div_ceil(120).max(1);
    let mean = |c: &[(u64, f64)]| {
        let middle = c.get(c.len() / 2).map_or(0, |p| p.0);
        (middle, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)
    };
    points.chunks(each).map(mean).collect()
}

/// Shows the curve, saves the model, and says how it ended.
fn finish(s: &Settings, report: &Report, state: &StateDict, result: Vec<(&str, Json)>, out: &Out) -> Done {
    let plot = curve(&format!("{}: loss", s.task), &report.history);
    out.say(plot.text(60, 10));
    if let Some(path) = &s.curve {
        plot.save(path)?;
        out.say(format!("drew {}", path.display()));
    }
    io::save(&s.out, state)?;
    let stopped = match &report.stop {
        Stop::Finished => None,
        Stop::Early(why) => Some(why.clone()),
        Stop::Interrupted(_) => Some("Ctrl-C".to_string()),
    };
    if let Some(why) = &stopped {
        out.say(format!("stopped early by {why}, after {} steps", report.steps));
    }
    if let Stop::Interrupted(Some(path)) = &report.stop {
        out.say(format!("checkpoint {}: add --resume to go on", path.display()));
    }
    out.say(format!("saved {}", s.out.display()));
    let epoch = |e: &EpochRecord| {
        let metrics = e.metrics.iter().map(|(n, v)| (n.as_str(), Json::from(*v)));
        Json::object(
            [("epoch", Json::from(e.epoch + 1)), ("step", e.step.into()), ("loss", e.loss.into())]
                .into_iter()
                .chain(metrics),
        )
    };
    let mut fields = vec![("task", Json::from(s.task.as_str()))];
    fields.extend(result);
    fields.extend([
        ("steps", report.steps.into()),
        ("epochs", Json::List(report.history.epochs.iter().map(epoch).collect())),
        ("stopped", stopped.clone().map_or(Json::Null, Json::Str)),
        ("model", s.out.display().to_string().into()),
    ]);
    out.finish(Json::object(fields));
    Ok(if stopped.is_some() { ExitCode::from(130) } else { ExitCode::SUCCESS })
}
