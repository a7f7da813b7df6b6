//! What a checkpoint of a run holds, and going on from one.

use super::{Trainer, run::State};
use crate::{Checkpoint, Params};
use gradus_core::Result;
use gradus_io::Meta;
use std::path::PathBuf;

impl Trainer<'_> {
    /// Writes a checkpoint, if that was asked for.
    pub(super) fn save(&self, s: &State) -> Result<Option<PathBuf>> {
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
        if let Some(scaler) = &self.scaler {
            c = c.with("scaler", scaler);
        }
        for (name, part) in &self.parts {
            c = c.with(name, &**part);
        }
        for (i, callback) in self.callbacks.iter().enumerate() {
            c = c.with_state(&format!("callback{i}"), &callback.state());
        }
        Ok(Some(store.save(s.step, &c)?))
    }

    /// Puts everything back to the newest whole checkpoint, if there is one.
    pub(super) fn resume(&mut self, s: &mut State) -> Result<Option<PathBuf>> {
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
        if let Some(scaler) = &mut self.scaler {
            c.restore("scaler", scaler)?;
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
