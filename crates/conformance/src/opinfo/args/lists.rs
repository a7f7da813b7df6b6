//! Getters of lists.

use super::super::file::Arg;
use super::scalars::{float, int};
use super::{Args, Result};

fn list<V>(arg: &Arg, read: impl FnMut(&Arg) -> Option<V>) -> Option<Vec<V>> {
    match arg {
        Arg::List(items) => items.iter().map(read).collect(),
        _ => None,
    }
}

/// A list, or one value that stands for a list of one.
fn one_or_list<V>(arg: &Arg, read: impl Fn(&Arg) -> Option<V>) -> Option<Vec<V>> {
    match read(arg) {
        Some(value) => Some(vec![value]),
        None => list(arg, read),
    }
}

/// A list of `n`, or one value (alone or in a list) that stands for all `n`.
fn spread<V: Clone>(arg: &Arg, n: usize, read: impl Fn(&Arg) -> Option<V>) -> Option<Vec<V>> {
    match one_or_list(arg, read)?.as_slice() {
        [one] => Some(vec![one.clone(); n]),
        many if many.len() == n => Some(many.to_vec()),
        _ => None,
    }
}

impl<T: Clone> Args<'_, T> {
    /// A list of tensors.
    pub fn tensors(&self, position: usize, name: &str) -> Result<Vec<T>> {
        self.need(position, name, self.opt_tensors(position, name)?)
    }

    /// A list of tensors, or `None`, or nothing.
    pub fn opt_tensors(&self, position: usize, name: &str) -> Result<Option<Vec<T>>> {
        let read = |arg: &Arg| list(arg, |item| self.as_tensor(item));
        self.get(position, name, "a list of tensors", read)
    }

    /// A list of tensors in which `None` may stand, as an index tuple has it.
    pub fn maybe_tensors(&self, position: usize, name: &str) -> Result<Vec<Option<T>>> {
        let item = |item: &Arg| match item {
            Arg::None => Some(None),
            item => self.as_tensor(item).map(Some),
        };
        let read = |arg: &Arg| list(arg, item);
        let value = self.get(position, name, "a list of tensors or None", read)?;
        self.need(position, name, value)
    }

    /// All positional arguments from `position` on, which are tensors
    /// (`f(a, b, c)`), or the one list of tensors there (`f([a, b, c])`).
    pub fn tensors_from(&self, position: usize, name: &str) -> Result<Vec<T>> {
        if self.is_list(position, name) {
            return self.tensors(position, name);
        }
        let all = position..self.positional();
        all.map(|i| self.tensor(i, name)).collect()
    }

    /// A list of integers; one integer is a list of one.
    pub fn ints(&self, position: usize, name: &str) -> Result<Vec<i64>> {
        self.need(position, name, self.opt_ints(position, name)?)
    }

    /// A list of integers (one integer is a list of one), or `None`, or nothing.
    pub fn opt_ints(&self, position: usize, name: &str) -> Result<Option<Vec<i64>>> {
        let read = |arg: &Arg| one_or_list(arg, int);
        self.get(position, name, "a list of integers", read)
    }

    /// A list of integers (one integer is a list of one), else `default`.
    pub fn ints_or(&self, position: usize, name: &str, default: &[i64]) -> Result<Vec<i64>> {
        let ints = self.opt_ints(position, name)?;
        Ok(ints.unwrap_or_else(|| default.to_vec()))
    }

    /// All positional arguments from `position` on, which are integers
    /// (`f(2, 3)`), or the one list of integers there (`f([2, 3])`).
    pub fn ints_from(&self, position: usize, name: &str) -> Result<Vec<i64>> {
        if self.is_list(position, name) || position >= self.positional() {
            return self.ints(position, name);
        }
        let all = position..self.positional();
        all.map(|i| self.int(i, name)).collect()
    }

    /// `n` integers; one integer stands for all `n` (`kernel_size=3`).
    pub fn ints_n(&self, position: usize, name: &str, n: usize) -> Result<Vec<i64>> {
        self.need(position, name, self.opt_ints_n(position, name, n)?)
    }

    /// `n` integers (one stands for all), or nothing; `None` and an empty list
    /// are nothing too.
    pub fn opt_ints_n(&self, position: usize, name: &str, n: usize) -> Result<Option<Vec<i64>>> {
        let kind = format!("{n} integers");
        let read = |arg: &Arg| match arg {
            Arg::List(items) if items.is_empty() => Some(None),
            arg => spread(arg, n, int).map(Some),
        };
        Ok(self.get(position, name, &kind, read)?.flatten())
    }

    /// `n` integers (one stands for all), else `n` times `default`.
    pub fn ints_n_or(&self, position: usize, name: &str, n: usize, default: i64) -> Result<Vec<i64>> {
        let ints = self.opt_ints_n(position, name, n)?;
        Ok(ints.unwrap_or_else(|| vec![default; n]))
    }

    /// `n` integers (one stands for all) in which `None` may stand, as an
    /// adaptive pooling's output size has it.
    pub fn maybe_ints_n(&self, position: usize, name: &str, n: usize) -> Result<Vec<Option<i64>>> {
        let item = |arg: &Arg| match arg {
            Arg::None => Some(None),
            arg => int(arg).map(Some),
        };
        let kind = format!("{n} integers or None");
        let value = self.get(position, name, &kind, |arg| spread(arg, n, item))?;
        self.need(position, name, value)
    }

    /// A list of lists of integers.
    pub fn int_lists(&self, position: usize, name: &str) -> Result<Vec<Vec<i64>>> {
        let read = |arg: &Arg| list(arg, |item| list(item, int));
        let value = self.get(position, name, "a list of lists of integers", read)?;
        self.need(position, name, value)
    }

    /// A list of numbers; one number is a list of one.
    pub fn floats(&self, position: usize, name: &str) -> Result<Vec<f64>> {
        self.need(position, name, self.opt_floats(position, name)?)
    }

    /// A list of numbers (one number is a list of one), or `None`, or nothing.
    pub fn opt_floats(&self, position: usize, name: &str) -> Result<Option<Vec<f64>>> {
        let read = |arg: &Arg| one_or_list(arg, float);
        self.get(position, name, "a list of numbers", read)
    }

    /// `n` numbers (one stands for all), or `None`, or nothing.
    pub fn opt_floats_n(&self, position: usize, name: &str, n: usize) -> Result<Option<Vec<f64>>> {
        let kind = format!("{n} numbers");
        self.get(position, name, &kind, |arg| spread(arg, n, float))
    }
}
