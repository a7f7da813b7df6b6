//! A loader's place.

use gradus_core::{Error, Result};
use std::{fmt, str::FromStr};

/// The place of a loader: everything that decides which batches come next.
///
/// It prints as a short text and reads back from it, for checkpoints.
///
/// ```
/// use gradus_data::LoaderState;
/// let at = LoaderState { seed: 7, epoch: 2, batch: 31 };
/// assert_eq!(at.to_string(), "seed=7 epoch=2 batch=31");
/// assert_eq!(at.to_string().parse::<LoaderState>()?, at);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoaderState {
    /// Names the orders and the draws.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Batches of this epoch that were given out.
    pub batch: u64,
}

impl fmt::Display for LoaderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={} epoch={} batch={}", self.seed, self.epoch, self.batch)
    }
}

impl FromStr for LoaderState {
    type Err = Error;
    fn from_str(text: &str) -> Result<LoaderState> {
        let wrong = || Error::value("LoaderState", format!("`seed=N epoch=N batch=N` was expected, not {text:?}"));
        let mut parts = text.split(' ');
        let mut next = |name: &str| {
            let value = parts.next()?.strip_prefix(name)?.strip_prefix('=')?;
            value.parse::<u64>().ok()
        };
        let state = (|| Some(LoaderState { seed: next("seed")?, epoch: next("epoch")?, batch: next("batch")? }))();
        match (state, parts.next()) {
            (Some(state), None) => Ok(state),
            _ => Err(wrong()),
        }
    }
}
