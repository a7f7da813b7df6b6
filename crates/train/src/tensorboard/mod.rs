//! Event files for TensorBoard: records with checksums around a hand-written protocol buffer.

mod crc32c;
mod proto;

use crate::{Callback, Flow, Run};
use crc32c::masked;
use gradus_core::{Error, Result};
use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

/// Writes scalars to an event file that TensorBoard reads.
///
/// ```
/// use gradus_train::EventWriter;
/// # let dir = tempfile::tempdir().unwrap();
/// # let folder = dir.path();
/// let mut events = EventWriter::create(folder)?;
/// events.scalar("train/loss", 1, 0.7)?;
/// events.scalar("train/loss", 2, 0.5)?;
/// events.flush()?;
/// // then: tensorboard --logdir FOLDER
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct EventWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

fn fault(path: &Path, e: std::io::Error) -> Error {
    Error::value("tensorboard", format!("{}: cannot write: {e}", path.display()))
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

impl EventWriter {
    /// A new file in a folder, which is made if it is not there.
    pub fn create(folder: impl AsRef<Path>) -> Result<EventWriter> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(|e| fault(folder, e))?;
        // TensorBoard wants `tfevents` in the name, and reads files in the order of the seconds.
        let n = COUNT.fetch_add(1, Relaxed);
        let name = format!("events.out.tfevents.{:010}.gradus.{}.{n}", now() as u64, process::id());
        let path = folder.join(name);
        let file = File::create(&path).map_err(|e| fault(&path, e))?;
        let mut writer = EventWriter { path, out: BufWriter::new(file) };
        writer.record(&proto::version(now()))?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number of a curve, at a step.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64) -> Result<()> {
        self.record(&proto::scalar(now(), step, tag, value as f32))
    }

    /// Length, its checksum, the data, their checksum.
    fn record(&mut self, data: &[u8]) -> Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let parts: [&[u8]; 4] = [&length, &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()];
        parts.iter().try_for_each(|p| self.out.write_all(p)).map_err(|e| fault(&self.path, e))
    }

    /// Makes what was written visible to others.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|e| fault(&self.path, e))
    }
}

/// Sends a run to TensorBoard: the loss and the learning rate by step, the epochs' metrics.
pub struct TensorBoard {
    folder: PathBuf,
    writer: Option<EventWriter>,
    every: u64,
}

impl TensorBoard {
    /// Event files in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> TensorBoard {
        TensorBoard { folder: folder.into(), writer: None, every: 1 }
    }

    /// The loss of every so many steps only.
    pub fn every(self, steps: u64) -> TensorBoard {
        TensorBoard { every: steps.max(1), ..self }
    }

    fn writer(&mut self) -> Result<&mut EventWriter> {
        self.writer.as_mut().ok_or_else(|| Error::value("tensorboard", "it was not started"))
    }
}

impl Callback for TensorBoard {
    fn on_start(&mut self, _run: &Run<'_>) -> Result<()> {
        self.writer = Some(EventWriter::create(&self.folder)?);
        Ok(())
    }

    fn on_step(&mut self, run: &Run<'_>) -> Result<Flow> {
        if run.step.is_multiple_of(self.every) {
            let writer = self.writer()?;
            writer.scalar("train/loss", run.step, run.loss)?;
            writer.scalar("train/lr", run.step, run.lr)?;
        }
        Ok(Flow::Continue)
    }

    fn on_epoch(&mut self, run: &Run<'_>) -> Result<Flow> {
        let writer = self.writer()?;
        if let Some(e) = run.history.epochs.last() {
            writer.scalar("epoch/loss", e.step, e.loss)?;
            for (name, x) in &e.metrics {
                writer.scalar(&format!("epoch/{name}"), e.step, *x)?;
            }
        }
        writer.flush()?;
        Ok(Flow::Continue)
    }

    fn on_end(&mut self, _run: &Run<'_>) -> Result<()> {
        self.writer()?.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_framed_as_tensorflow_frames_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut w = EventWriter::create(dir.path().join("a/b")).unwrap();
        w.scalar("loss", 3, 0.5).unwrap();
        w.flush().unwrap();
        let bytes = fs::read(w.path()).unwrap();
        let mut rest = &bytes[..];
        let mut records = vec![];
        while !rest.is_empty() {
            let n = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let sum = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(sum(8), masked(&rest[..8]));
            assert_eq!(sum(12 + n), masked(&rest[12..12 + n]));
            records.push(rest[12..12 + n].to_vec());
            rest = &rest[16 + n..];
        }
        assert_eq!(records.len(), 2);
        assert!(records[0].ends_with(b"brain.Event:2"));
        // step 3, then a summary of one value: tag "loss", simple_value 0.5.
        let tail = [&[0x10, 3, 0x2a, 13, 0x0a, 11, 0x0a, 4][..], b"loss", &[0x15, 0, 0, 0, 0x3f]].concat();
        assert!(records[1].ends_with(&tail), "{:?}", records[1]);
    }
}
