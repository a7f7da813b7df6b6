//! Logs that other programs read: CSV and JSON lines, one an epoch.

use crate::{Callback, Flow, Run};
use gradus_core::{Error, Result};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

fn fault(path: &Path, e: std::io::Error) -> Error {
    Error::value("log", format!("{}: cannot write: {e}", path.display()))
}

/// The numbers of an epoch, by name and in order.
fn row(run: &Run<'_>) -> Vec<(String, f64)> {
    let Some(e) = run.history.epochs.last() else { return vec![] };
    let fixed = [("epoch", e.epoch as f64), ("step", e.step as f64), ("loss", e.loss), ("lr", run.lr)];
    let time = ("seconds".to_string(), run.elapsed.as_secs_f64());
    fixed.map(|(n, x)| (n.to_string(), x)).into_iter().chain(e.metrics.iter().cloned()).chain([time]).collect()
}

/// Whole lines of an older run are kept when it is resumed; a line that a crash cut is not.
fn reopen(path: &Path, from: u64, epoch_of: impl Fn(&str) -> Option<u64>) -> std::io::Result<(File, bool)> {
    let old = if from == 0 { String::new() } else { fs::read_to_string(path).unwrap_or_default() };
    let whole = old.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    let kept: String = whole.filter(|l| epoch_of(l).is_none_or(|e| e < from)).collect();
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
    file.write_all(kept.as_bytes())?;
    Ok((file, kept.is_empty()))
}

/// A CSV file with a line an epoch: epoch, step, loss, lr, the metrics of the validation, seconds.
///
/// A resumed run goes on where it was; a new one begins anew.
pub struct CsvLog {
    path: PathBuf,
    file: Option<File>,
    header: bool,
}

impl CsvLog {
    /// A log at a path.
    pub fn new(path: impl Into<PathBuf>) -> CsvLog {
        CsvLog { path: path.into(), file: None, header: true }
    }
}

/// A field of CSV: quoted where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

impl Callback for CsvLog {
    fn on_start(&mut self, run: &Run<'_>) -> Result<()> {
        let epoch = |line: &str| line.split(',').next()?.parse().ok();
        let (file, header) = reopen(&self.path, run.epoch, epoch).map_err(|e| fault(&self.path, e))?;
        (self.file, self.header) = (Some(file), header);
        Ok(())
    }

    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        let row = row(run);
        let names: Vec<String> = row.iter().map(|(n, _)| quoted(n)).collect();
        let numbers: Vec<String> = row.iter().map(|(_, x)| format!("{x}")).collect();
        let header = if std::mem::take(&mut self.header) { names.join(",") + "\n" } else { String::new() };
        let line = format!("{header}{}\n", numbers.join(","));
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()).map_err(|e| fault(&self.path, e))?,
            None => return Err(Error::value("log", "it was not started")),
        }
        Ok(Flow::Continue)
    }
}

/// A file of JSON lines, one an epoch, with the same numbers as [`CsvLog`]. What is not finite is null.
pub struct JsonLog {
    path: PathBuf,
    file: Option<File>,
}

impl JsonLog {
    /// A log at a path.
    pub fn new(path: impl Into<PathBuf>) -> JsonLog {
        JsonLog { path: path.into(), file: None }
    }
}

fn json(row: &[(String, f64)]) -> String {
    let mut out = String::from("{");
    for (i, (name, x)) in row.iter().enumerate() {
        out.push_str(if i == 0 { "\"" } else { ",\"" });
        for c in name.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        let number = if x.is_finite() { format!("{x}") } else { "null".into() };
        out.push_str(&format!("\":{number}"));
    }
    out + "}\n"
}

impl Callback for JsonLog {
    fn on_start(&mut self, run: &Run<'_>) -> Result<()> {
        let epoch = |line: &str| line.strip_prefix("{\"epoch\":")?.split(',').next()?.parse().ok();
        let (file, _) = reopen(&self.path, run.epoch, epoch).map_err(|e| fault(&self.path, e))?;
        self.file = Some(file);
        Ok(())
    }

    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        match &mut self.file {
            Some(file) => file.write_all(json(&row(run)).as_bytes()).map_err(|e| fault(&self.path, e))?,
            None => return Err(Error::value("log", "it was not started")),
        }
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_any_kind() {
        let row = [("a\"b".to_string(), 1.5), ("n".to_string(), f64::NAN), ("big".to_string(), 1e300)];
        let text = json(&row);
        assert!(text.starts_with("{\"a\\\"b\":1.5,\"n\":null,\"big\":1"), "{text}");
        assert_eq!(quoted("top-1, %"), "\"top-1, %\"");
    }
}
