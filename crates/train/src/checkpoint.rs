//! One file that a training run can go on from.

use gradus_core::{Error, get_rng_state, set_rng_state};
use gradus_io::{Meta, Result, StateDict, Stateful, safetensors};
use std::path::Path;

/// Where a loader is: enough to go on with the very next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoaderState {
    /// The epoch it is in.
    pub epoch: u64,
    /// How many batches of it were taken.
    pub batch: u64,
    /// What its shuffling started from.
    pub seed: u64,
}

/// Everything a run needs to go on: states by name (weights, optimizer, schedule), the random numbers' position and the
/// loader's.
///
/// On disk it is a safetensors file with a checksum: other programs can read the weights, and damage is found on load.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{Adam, Optimizer};
/// use gradus_train::{Checkpoint, LoaderState, Params};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("run.safetensors");
/// let w = Tensor::var("w", Tensor::from([1.0f32, 2.0]));
/// let mut opt = Adam::new([&w], 0.1);
/// opt.step(&w.square().sum().backward()?)?;
///
/// Checkpoint::new() // takes the random state along
///     .with("model", &Params::of([&w]))
///     .with("optimizer", &opt)
///     .with_loader(LoaderState { epoch: 3, batch: 17, seed: 0 })
///     .save(&path)?;
///
/// let saved = Checkpoint::load(&path)?;
/// saved.restore("model", &mut Params::of([&w]))?;
/// saved.restore("optimizer", &mut opt)?;
/// saved.restore_rng()?;
/// assert_eq!(saved.loader()?.batch, 17);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    state: StateDict,
}

const FORMAT: &str = "gradus-checkpoint";

impl Default for Checkpoint {
    fn default() -> Self {
        Checkpoint::new()
    }
}

impl Checkpoint {
    /// Nothing but the random numbers' position, as it is now.
    pub fn new() -> Checkpoint {
        let mut state = StateDict::new();
        state.metadata_mut().insert("format".into(), FORMAT.into());
        let mut checkpoint = Checkpoint { state };
        checkpoint.set_pair("rng", get_rng_state());
        checkpoint
    }

    /// With the state of something, under a name.
    pub fn with(self, name: &str, part: &(impl Stateful + ?Sized)) -> Checkpoint {
        self.with_state(name, &part.state())
    }

    /// With a state, under a name.
    pub fn with_state(mut self, name: &str, state: &StateDict) -> Checkpoint {
        self.state.insert_under(name, state);
        // A part without tensors and numbers is a part all the same.
        self.state.metadata_mut().insert(format!("part.{name}"), Meta::Bool(true));
        self
    }

    /// With the position of the loader.
    pub fn with_loader(mut self, loader: LoaderState) -> Checkpoint {
        self.set_pair("loader", (loader.epoch, loader.batch));
        self.set_pair("loader.shuffle", (loader.seed, 0));
        self
    }

    /// With a plain value of your own.
    pub fn with_value(mut self, key: &str, value: impl Into<Meta>) -> Checkpoint {
        self.state.metadata_mut().insert(format!("value.{key}"), value.into());
        self
    }

    /// The state under a name.
    #[track_caller]
    pub fn part(&self, name: &str) -> gradus_core::Result<StateDict> {
        if self.has(name) {
            return Ok(self.state.under(name));
        }
        let known: Vec<&str> = self.state.metadata().keys().filter_map(|k| k.strip_prefix("part.")).collect();
        let why = format!("the checkpoint has no part `{name}`; it has: {}", known.join(", "));
        Err(Error::value("checkpoint", why))
    }

    /// Whether there is a state under a name.
    pub fn has(&self, name: &str) -> bool {
        self.state.metadata().contains_key(&format!("part.{name}"))
    }

    /// Puts something back to its state under a name.
    #[track_caller]
    pub fn restore(&self, name: &str, part: &mut (impl Stateful + ?Sized)) -> gradus_core::Result<()> {
        part.load_state(&self.part(name)?)
    }

    /// Puts the random numbers back to where they were.
    pub fn restore_rng(&self) -> gradus_core::Result<()> {
        set_rng_state(self.pair("rng")?);
        Ok(())
    }

    /// The position of the loader.
    pub fn loader(&self) -> gradus_core::Result<LoaderState> {
        let ((epoch, batch), (seed, _)) = (self.pair("loader")?, self.pair("loader.shuffle")?);
        Ok(LoaderState { epoch, batch, seed })
    }

    /// A plain value of your own.
    pub fn value(&self, key: &str) -> Option<&Meta> {
        self.state.metadata().get(&format!("value.{key}"))
    }

    /// Two numbers of 64 bits, as text: a state's integers are signed.
    pub(crate) fn set_pair(&mut self, key: &str, (a, b): (u64, u64)) {
        self.state.metadata_mut().insert(key.into(), Meta::Str(format!("{a},{b}")));
    }

    pub(crate) fn pair(&self, key: &str) -> gradus_core::Result<(u64, u64)> {
        let text = self.state.metadata().get(key).and_then(Meta::as_str);
        let numbers = text.and_then(|t| t.split_once(',')).and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers.ok_or_else(|| Error::value("checkpoint", format!("the checkpoint has no `{key}`")))
    }

    /// Writes it: beside the target, flushed to the disk, then renamed. When anything fails, the old file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        safetensors::save_checked(path, &self.state)
    }

    /// Reads it, and makes sure that it is what was written.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        let state = safetensors::load_checked(path)?;
        if state.metadata().get("format").and_then(Meta::as_str) != Some(FORMAT) {
            let found = "a whole file that is no checkpoint".to_string();
            return Err(gradus_io::Error::new(gradus_io::ErrorKind::UnknownFormat { found }).with_path(path));
        }
        Ok(Checkpoint { state })
    }
}
