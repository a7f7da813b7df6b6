//! Typed access to the arguments of a sample, as a PyTorch signature names
//! them: each getter takes the argument's position and its keyword.
//!
//! Every getter marks its argument as used; [`Args::finish`] fails if one was
//! left over, so that no option of a sample is silently passed over.

mod lists;
mod scalars;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::file::{Arg, Case};
use super::host::{HostArray, HostDType};

pub use scalars::{Scalar, ScalarOr};

/// The position of an argument that is given by keyword only.
pub const KW: usize = usize::MAX;

/// An argument that is missing, of the wrong type, or left unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError(String);

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArgError {}

/// What a getter gives.
pub type Result<T> = std::result::Result<T, ArgError>;

/// The arguments of one case, with its tensors loaded as `T`.
pub struct Args<'a, T> {
    case: &'a Case,
    tensors: &'a BTreeMap<String, T>,
    used: RefCell<Used<'a>>,
}

#[derive(Default)]
struct Used<'a> {
    positions: BTreeSet<usize>,
    keywords: BTreeSet<&'a str>,
}

impl<'a, T: Clone> Args<'a, T> {
    /// The arguments of `case`, whose tensors are `tensors`, by path.
    pub fn new(case: &'a Case, tensors: &'a BTreeMap<String, T>) -> Self {
        Self { case, tensors, used: RefCell::default() }
    }

    /// The number of positional arguments.
    pub fn positional(&self) -> usize {
        self.case.args.len()
    }

    /// The number of expected outputs.
    pub fn outs(&self) -> usize {
        self.case.outs.len()
    }

    /// Expected output `k`: only to choose among results that the operator's
    /// definition allows equally, such as the signs of singular vectors.
    pub fn expected(&self, k: usize) -> Option<&'a HostArray> {
        self.case.outs.get(k)
    }

    /// The argument as it stands in the sample, marked as used.
    pub fn raw(&self, position: usize, name: &str) -> Result<Option<&'a Arg>> {
        let case = self.case;
        match (case.args.get(position), case.kwargs.get_key_value(name)) {
            (Some(_), Some(_)) => {
                Err(ArgError(format!("argument `{name}` is given both at position {position} and by name")))
            }
            (Some(arg), None) => {
                self.used.borrow_mut().positions.insert(position);
                Ok(Some(arg))
            }
            (None, Some((key, arg))) => {
                self.used.borrow_mut().keywords.insert(key);
                Ok(Some(arg))
            }
            (None, None) => Ok(None),
        }
    }

    /// The argument as it stands in the sample, without marking it as used.
    pub fn peek(&self, position: usize, name: &str) -> Option<&'a Arg> {
        let case = self.case;
        case.args.get(position).or_else(|| case.kwargs.get(name))
    }

    /// Whether the argument is given and not `None`.
    pub fn has(&self, position: usize, name: &str) -> bool {
        !matches!(self.peek(position, name), None | Some(Arg::None))
    }

    /// Whether the argument is a tensor.
    pub fn is_tensor(&self, position: usize, name: &str) -> bool {
        matches!(self.peek(position, name), Some(Arg::Tensor(_)))
    }

    /// Whether the argument is a list.
    pub fn is_list(&self, position: usize, name: &str) -> bool {
        matches!(self.peek(position, name), Some(Arg::List(_)))
    }

    /// Whether the argument is a string.
    pub fn is_str(&self, position: usize, name: &str) -> bool {
        matches!(self.peek(position, name), Some(Arg::Str(_)))
    }

    /// Whether the argument is a dtype.
    pub fn is_dtype(&self, position: usize, name: &str) -> bool {
        matches!(self.peek(position, name), Some(Arg::DType(_)))
    }

    /// Passes over the keyword argument `name`, if it is there.
    pub fn ignore(&self, name: &str) {
        if let Some((key, _)) = self.case.kwargs.get_key_value(name) {
            self.used.borrow_mut().keywords.insert(key);
        }
    }

    /// Passes over the positional argument at `position`, if it is there.
    pub fn ignore_at(&self, position: usize) {
        self.used.borrow_mut().positions.insert(position);
    }

    /// Fails if an argument of the sample was not used.
    pub fn finish(&self) -> Result<()> {
        let used = self.used.borrow();
        let positions = self.case.args.iter().enumerate();
        let positions = positions.filter(|(i, _)| !used.positions.contains(i)).map(|(i, arg)| format!("{i} ({arg})"));
        let keywords = self.case.kwargs.iter();
        let keywords = keywords
            .filter(|(name, _)| !used.keywords.contains(name.as_str()))
            .map(|(name, arg)| format!("`{name}` ({arg})"));
        match positions.chain(keywords).collect::<Vec<_>>().as_slice() {
            [] => Ok(()),
            [one] => Err(ArgError(format!("argument {one} of the sample was not used"))),
            many => Err(ArgError(format!("arguments {} of the sample were not used", many.join(", ")))),
        }
    }

    /// A tensor.
    pub fn tensor(&self, position: usize, name: &str) -> Result<T> {
        self.need(position, name, self.opt_tensor(position, name)?)
    }

    /// A tensor, or `None`, or nothing.
    pub fn opt_tensor(&self, position: usize, name: &str) -> Result<Option<T>> {
        self.get(position, name, "a tensor", |arg| self.as_tensor(arg))
    }

    /// A string.
    pub fn str(&self, position: usize, name: &str) -> Result<&'a str> {
        self.need(position, name, self.opt_str(position, name)?)
    }

    /// A string, or `None`, or nothing.
    pub fn opt_str(&self, position: usize, name: &str) -> Result<Option<&'a str>> {
        self.get(position, name, "a string", |arg| match arg {
            Arg::Str(v) => Some(v.as_str()),
            _ => None,
        })
    }

    /// A string, else `default`.
    pub fn str_or(&self, position: usize, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.opt_str(position, name)?.unwrap_or(default))
    }

    /// A dtype.
    pub fn dtype(&self, position: usize, name: &str) -> Result<HostDType> {
        self.need(position, name, self.opt_dtype(position, name)?)
    }

    /// A dtype, or `None`, or nothing.
    pub fn opt_dtype(&self, position: usize, name: &str) -> Result<Option<HostDType>> {
        self.get(position, name, "a dtype", |arg| match arg {
            Arg::DType(v) => Some(*v),
            _ => None,
        })
    }

    fn as_tensor(&self, arg: &Arg) -> Option<T> {
        match arg {
            Arg::Tensor(path) => self.tensors.get(path).cloned(),
            _ => None,
        }
    }

    /// The argument through `read`; absent and `None` are both nothing.
    fn get<V>(
        &self,
        position: usize,
        name: &str,
        kind: &str,
        read: impl FnOnce(&'a Arg) -> Option<V>,
    ) -> Result<Option<V>> {
        match self.raw(position, name)? {
            None | Some(Arg::None) => Ok(None),
            Some(arg) => match read(arg) {
                Some(value) => Ok(Some(value)),
                None => Err(ArgError(format!("argument `{name}` is {arg}, not {kind}"))),
            },
        }
    }

    fn need<V>(&self, position: usize, name: &str, value: Option<V>) -> Result<V> {
        value.ok_or_else(|| {
            ArgError(match self.peek(position, name) {
                Some(_) => format!("argument `{name}` is None"),
                None if position == KW => format!("no argument `{name}`"),
                None => format!("no argument `{name}` (position {position})"),
            })
        })
    }
}

#[cfg(test)]
mod tests;
