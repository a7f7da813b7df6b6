//! States inside states: how a checkpoint is put together from its parts.

use crate::{Meta, StateDict};
use gradus_core::{Error, Result, Tensor};

/// What can be written down and put back, exactly: a model, an optimizer, a schedule.
pub trait Stateful {
    /// Tensors and plain values that bring this back to where it is now.
    fn state(&self) -> StateDict;

    /// Goes back to a state. What does not fit is an error that says what, and leaves everything as it was.
    fn load_state(&mut self, state: &StateDict) -> Result<()>;
}

impl<S: Stateful + ?Sized> Stateful for &mut S {
    fn state(&self) -> StateDict {
        (**self).state()
    }
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        (**self).load_state(state)
    }
}

impl<S: Stateful + ?Sized> Stateful for Box<S> {
    fn state(&self) -> StateDict {
        (**self).state()
    }
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        (**self).load_state(state)
    }
}

impl StateDict {
    /// Puts all of `part` in, under `prefix` and a dot.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// use gradus_io::StateDict;
    /// let model = StateDict::from_iter([("weight", Tensor::from([1.0f32]))]);
    /// let mut all = StateDict::new();
    /// all.insert_under("model", &model);
    /// assert!(all.contains("model.weight") && all.under("model").contains("weight"));
    /// ```
    pub fn insert_under(&mut self, prefix: &str, part: &StateDict) {
        for (name, t) in part.iter() {
            self.insert(format!("{prefix}.{name}"), t.clone());
        }
        for (key, value) in part.metadata() {
            self.metadata_mut().insert(format!("{prefix}.{key}"), value.clone());
        }
    }

    /// What lies under `prefix` and a dot, without it.
    pub fn under(&self, prefix: &str) -> StateDict {
        let inner = |name: &str| name.strip_prefix(prefix)?.strip_prefix('.').map(str::to_owned);
        let mut part: StateDict = self.iter().filter_map(|(n, t)| Some((inner(n)?, t.clone()))).collect();
        *part.metadata_mut() = self.metadata().iter().filter_map(|(k, v)| Some((inner(k)?, v.clone()))).collect();
        part
    }

    /// A number beside the tensors, or an error that names it.
    #[track_caller]
    pub fn number(&self, key: &str) -> Result<f64> {
        self.value_of(key, "a number", Meta::as_f64)
    }

    /// A whole number beside the tensors, or an error that names it.
    #[track_caller]
    pub fn integer(&self, key: &str) -> Result<i64> {
        self.value_of(key, "a whole number", Meta::as_i64)
    }

    /// A truth value beside the tensors, or an error that names it.
    #[track_caller]
    pub fn flag(&self, key: &str) -> Result<bool> {
        self.value_of(key, "true or false", Meta::as_bool)
    }

    #[track_caller]
    fn value_of<T>(&self, key: &str, what: &str, read: impl Fn(&Meta) -> Option<T>) -> Result<T> {
        match self.metadata().get(key) {
            Some(m) => read(m).ok_or_else(|| {
                let found = crate::error::shorten(&m.to_string());
                Error::value("load_state", format!("`{key}` should be {what}, not `{found}`"))
            }),
            None => Err(Error::value("load_state", format!("the state has no `{key}`"))
                .hint("it was saved by something else, or by another version")),
        }
    }

    /// A tensor of the shape and type of `like`, or an error that says what differs.
    #[track_caller]
    pub fn tensor_like(&self, name: &str, like: &Tensor) -> Result<Tensor> {
        let t = self.tensor(name)?;
        if t.shape() != like.shape() {
            let why = format!("`{name}` is {} in the state and {} here", t.shape(), like.shape());
            return Err(Error::shape("load_state", &[t.shape(), like.shape()], why).operand(like));
        }
        if t.dtype() != like.dtype() {
            let why = format!("`{name}` is {} in the state and {} here", t.dtype(), like.dtype());
            return Err(Error::dtype("load_state", &[t.dtype(), like.dtype()], why).operand(like));
        }
        Ok(t.to(&like.device()))
    }
}
