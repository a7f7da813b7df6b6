//! What happened so far: losses by step, metrics by epoch.

use gradus_core::{Result, Tensor};
use gradus_io::{Meta, StateDict, Stateful};

/// Numbers by step. A long run keeps every second of them, then every fourth, so that it never grows beyond a few
/// thousand.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    points: Vec<(u64, f64)>,
    stride: u64,
    count: u64,
}

const MOST: usize = 4096;

impl Default for Series {
    fn default() -> Self {
        Series { points: vec![], stride: 1, count: 0 }
    }
}

impl Series {
    /// Adds the number of a step.
    pub fn push(&mut self, step: u64, value: f64) {
        if self.count.is_multiple_of(self.stride) {
            self.points.push((step, value));
        }
        self.count += 1;
        if self.points.len() >= MOST {
            let mut k = 0;
            self.points.retain(|_| (k += 1, k % 2 == 1).1);
            self.stride *= 2;
        }
    }

    /// Steps and numbers that are kept.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.points
    }
}

/// An epoch's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochRecord {
    /// Which epoch, from 0.
    pub epoch: u64,
    /// The step at its end.
    pub step: u64,
    /// The mean loss of its batches.
    pub loss: f64,
    /// What the validation gave, by name and in order.
    pub metrics: Vec<(String, f64)>,
}

impl EpochRecord {
    /// A number by name; `loss` is the training loss.
    pub fn get(&self, name: &str) -> Option<f64> {
        let metric = self.metrics.iter().find(|(n, _)| n == name).map(|(_, x)| *x);
        metric.or_else(|| (name == "loss").then_some(self.loss))
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The loss by step.
    pub loss: Series,
    /// Epochs that are done.
    pub epochs: Vec<EpochRecord>,
}

impl History {
    /// A metric by epoch: its steps and numbers.
    pub fn metric(&self, name: &str) -> Vec<(u64, f64)> {
        self.epochs.iter().filter_map(|e| Some((e.step, e.get(name)?))).collect()
    }

    /// Names of all metrics, in the order they first appeared.
    pub fn metric_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![];
        for (name, _) in self.epochs.iter().flat_map(|e| &e.metrics) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

impl Stateful for History {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        let (steps, losses): (Vec<i64>, Vec<f64>) = self.loss.points.iter().map(|(s, x)| (*s as i64, *x)).unzip();
        state.insert("steps", Tensor::from(steps));
        state.insert("losses", Tensor::from(losses));
        let meta = state.metadata_mut();
        meta.insert("stride".into(), Meta::Int(self.loss.stride as i64));
        meta.insert("count".into(), Meta::Int(self.loss.count as i64));
        meta.insert("epochs".into(), Meta::Int(self.epochs.len() as i64));
        for (i, e) in self.epochs.iter().enumerate() {
            meta.insert(format!("epoch.{i}"), Meta::Int(e.epoch as i64));
            meta.insert(format!("epoch.{i}.step"), Meta::Int(e.step as i64));
            meta.insert(format!("epoch.{i}.loss"), Meta::Float(e.loss));
            for (k, (name, x)) in e.metrics.iter().enumerate() {
                meta.insert(format!("epoch.{i}.metric.{k}"), Meta::Str(name.clone()));
                meta.insert(format!("epoch.{i}.metric.{k}.value"), Meta::Float(*x));
            }
        }
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let count = |key: &str| state.integer(key).map(|n| u64::try_from(n).unwrap_or(0));
        let (steps, losses) = (state.tensor("steps")?.to_vec::<i64>()?, state.tensor("losses")?.to_vec::<f64>()?);
        let points = steps.into_iter().zip(losses).map(|(s, x)| (u64::try_from(s).unwrap_or(0), x)).collect();
        let loss = Series { points, stride: count("stride")?.max(1), count: count("count")? };
        let mut epochs = vec![];
        for i in 0..count("epochs")? {
            let mut metrics = vec![];
            while let Some(name) = state.metadata().get(&format!("epoch.{i}.metric.{}", metrics.len())) {
                let value = state.number(&format!("epoch.{i}.metric.{}.value", metrics.len()))?;
                metrics.push((name.to_string(), value));
            }
            let (epoch, step) = (count(&format!("epoch.{i}"))?, count(&format!("epoch.{i}.step"))?);
            epochs.push(EpochRecord { epoch, step, loss: state.number(&format!("epoch.{i}.loss"))?, metrics });
        }
        *self = History { loss, epochs };
        Ok(())
    }
}
