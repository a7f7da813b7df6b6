//! A folder of checkpoints: the last few, and the newest that is whole.

use crate::Checkpoint;
use gradus_io::{Error, ErrorKind, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder of checkpoints, by step. It belongs to one run: two that write to it remove each other's files.
///
/// ```
/// use gradus_train::{Checkpoint, Checkpoints};
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Checkpoints::open(dir.path().join("run"))?.keep(2);
/// for step in [10, 20, 30] {
///     store.save(step, &Checkpoint::new())?;
/// }
/// assert_eq!(store.steps(), [20, 30]);
///
/// // The newest one is damaged: the one before it steps in.
/// std::fs::write(store.path(30), b"half a fi").unwrap();
/// let latest = store.load_latest()?.unwrap();
/// assert_eq!((latest.step, latest.damaged.len()), (20, 1));
/// # Ok::<(), gradus_io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

/// The newest checkpoint that is whole.
pub struct Loaded {
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// The step it was saved at.
    pub step: u64,
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with newer ones.
    pub damaged: Vec<Error>,
}

const ENDING: &str = ".safetensors";

impl Checkpoints {
    /// The folder, made if it is not there. Parts of files that a killed process left are removed.
    pub fn open(folder: impl AsRef<Path>) -> Result<Checkpoints> {
        let folder = folder.as_ref().to_path_buf();
        fs::create_dir_all(&folder).map_err(|source| {
            Error::new(ErrorKind::Io { doing: "cannot make the folder", source }).with_path(&folder)
        })?;
        sweep(&folder);
        Ok(Checkpoints { folder, keep: 3 })
    }

    /// Keeps this many of the newest (3 unless told; at least 1).
    pub fn keep(self, keep: usize) -> Checkpoints {
        Checkpoints { keep: keep.max(1), ..self }
    }

    /// The file of a step.
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step:010}{ENDING}"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The steps there are checkpoints of, oldest first.
    pub fn steps(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let step = |name: &str| name.strip_prefix("step-")?.strip_suffix(ENDING)?.parse().ok();
        let mut steps: Vec<u64> = entries.filter_map(|e| step(e.file_name().to_str()?)).collect();
        steps.sort_unstable();
        steps
    }

    /// Saves a checkpoint, then removes the oldest beyond those to keep. When saving fails, none is removed.
    pub fn save(&self, step: u64, checkpoint: &Checkpoint) -> Result<PathBuf> {
        let path = self.path(step);
        checkpoint.save(&path)?;
        // Steps beyond this one are of a run that was left: going on from an older checkpoint must not lose to them.
        let steps = self.steps();
        let (older, newer): (Vec<u64>, Vec<u64>) = steps.into_iter().filter(|s| *s != step).partition(|s| *s < step);
        let surplus = (older.len() + 1).saturating_sub(self.keep);
        for old in older.into_iter().take(surplus).chain(newer) {
            // One that cannot be removed does no harm but to the disk.
            let _ = fs::remove_file(self.path(old));
        }
        Ok(path)
    }

    /// The newest checkpoint that is whole; none if there is none at all, and an error if all are damaged.
    pub fn load_latest(&self) -> Result<Option<Loaded>> {
        let mut damaged = vec![];
        for step in self.steps().into_iter().rev() {
            let path = self.path(step);
            match Checkpoint::load(&path) {
                Ok(checkpoint) => return Ok(Some(Loaded { checkpoint, step, path, damaged })),
                Err(e) => damaged.push(e),
            }
        }
        let count = damaged.len();
        match damaged.into_iter().next() {
            Some(newest) => Err(newest.hint(format!("none of the {count} checkpoints can be used"))),
            None => Ok(None),
        }
    }
}

/// Removes temporary files whose writer is gone: a process that is killed cannot do it itself.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(writer) else { continue };
        if is_gone(pid) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process that writes `.step-0000000010.safetensors.PID-N.tmp`.
fn writer(name: &str) -> Option<u32> {
    let inner = name.strip_prefix(".step-")?.strip_suffix(".tmp")?;
    inner.rsplit('.').next()?.split('-').next()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn is_gone(pid: u32) -> bool {
    pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists()
}

/// Elsewhere there is no way to ask without a dependency: such files stay.
#[cfg(not(target_os = "linux"))]
fn is_gone(_pid: u32) -> bool {
    false
}
