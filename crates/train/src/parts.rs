//! Things with a state, for checkpoints.

use gradus_core::{Error, Result, Tensor};
use gradus_io::{StateDict, Stateful};
use std::collections::HashSet;

/// Variables with names, as a state.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_io::Stateful;
/// use gradus_train::Params;
/// let w = Tensor::var("w", Tensor::from([1.0f32]));
/// let saved = Params::of([&w]).state();
/// w.set(&Tensor::from([2.0f32]))?;
/// Params::of([&w]).load_state(&saved)?;
/// assert_eq!(w.item::<f32>()?, 1.0);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Params {
    named: Vec<(String, Tensor)>,
}

impl Params {
    /// Variables under their own names; by number where a name is missing or not the only one.
    pub fn of<'a>(params: impl IntoIterator<Item = &'a Tensor>) -> Params {
        let params: Vec<Tensor> = params.into_iter().cloned().collect();
        let names: Vec<&str> = params.iter().filter_map(|p| p.name()).collect();
        let distinct = names.iter().collect::<HashSet<_>>().len() == params.len();
        let name = |k: usize, p: &Tensor| match p.name() {
            Some(name) if distinct => name.to_string(),
            Some(_) | None => k.to_string(),
        };
        Params { named: params.iter().enumerate().map(|(k, p)| (name(k, p), p.clone())).collect() }
    }

    /// Variables under these names.
    pub fn named<N: Into<String>>(params: impl IntoIterator<Item = (N, Tensor)>) -> Params {
        Params { named: params.into_iter().map(|(n, t)| (n.into(), t)).collect() }
    }
}

impl Stateful for Params {
    fn state(&self) -> StateDict {
        self.named.iter().map(|(n, p)| (n.as_str(), p.resolve().detach())).collect()
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        if let Some(extra) = state.names().find(|n| !self.named.iter().any(|(have, _)| have == n)) {
            return Err(Error::value("load_state", format!("the state has `{extra}`, which is no variable here")));
        }
        let values: Vec<Tensor> = self.named.iter().map(|(n, p)| state.tensor_like(n, p)).collect::<Result<_>>()?;
        self.named.iter().zip(&values).try_for_each(|((_, p), v)| p.set(v))
    }
}

/// A state made by two functions: for a model with its own way to save and load.
///
/// ```
/// use gradus_io::{StateDict, Stateful};
/// use gradus_train::FnState;
/// let mut seen = 0;
/// let mut part = FnState::new(StateDict::new, |state: &StateDict| {
///     seen += state.len();
///     Ok(())
/// });
/// part.load_state(&StateDict::new())?;
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct FnState<S, L> {
    save: S,
    load: L,
}

impl<S: Fn() -> StateDict, L: FnMut(&StateDict) -> Result<()>> FnState<S, L> {
    /// From how to save and how to load.
    pub fn new(save: S, load: L) -> FnState<S, L> {
        FnState { save, load }
    }
}

impl<S: Fn() -> StateDict, L: FnMut(&StateDict) -> Result<()>> Stateful for FnState<S, L> {
    fn state(&self) -> StateDict {
        (self.save)()
    }
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        (self.load)(state)
    }
}
