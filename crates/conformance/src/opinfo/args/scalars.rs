//! Getters of numbers and truth values.

use super::super::file::Arg;
use super::{Args, Result};

/// A Python number, with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `bool`.
    Bool(bool),
}

impl Scalar {
    /// The value as `f64`; `true` is 1.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(v) => v as f64,
            Self::Float(v) => v,
            Self::Bool(v) => v.into(),
        }
    }
}

/// A number or a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarOr<T> {
    /// A number.
    Scalar(Scalar),
    /// A tensor.
    Tensor(T),
}

pub(super) fn scalar(arg: &Arg) -> Option<Scalar> {
    Some(match arg {
        Arg::Int(v) => Scalar::Int(*v),
        Arg::Float(v) => Scalar::Float(*v),
        Arg::Bool(v) => Scalar::Bool(*v),
        _ => return None,
    })
}

pub(super) fn int(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Int(v) => Some(*v),
        _ => None,
    }
}

pub(super) fn float(arg: &Arg) -> Option<f64> {
    scalar(arg).map(Scalar::to_f64)
}

impl<T: Clone> Args<'_, T> {
    /// An integer.
    pub fn int(&self, position: usize, name: &str) -> Result<i64> {
        self.need(position, name, self.opt_int(position, name)?)
    }

    /// An integer, or `None`, or nothing.
    pub fn opt_int(&self, position: usize, name: &str) -> Result<Option<i64>> {
        self.get(position, name, "an integer", int)
    }

    /// An integer, else `default`.
    pub fn int_or(&self, position: usize, name: &str, default: i64) -> Result<i64> {
        Ok(self.opt_int(position, name)?.unwrap_or(default))
    }

    /// An integer that is not negative.
    pub fn size(&self, position: usize, name: &str) -> Result<usize> {
        self.need(position, name, self.opt_size(position, name)?)
    }

    /// An integer that is not negative, or `None`, or nothing.
    pub fn opt_size(&self, position: usize, name: &str) -> Result<Option<usize>> {
        let read = |arg: &Arg| int(arg).and_then(|v| v.try_into().ok());
        self.get(position, name, "a size", read)
    }

    /// An integer that is not negative, else `default`.
    pub fn size_or(&self, position: usize, name: &str, default: usize) -> Result<usize> {
        Ok(self.opt_size(position, name)?.unwrap_or(default))
    }

    /// A number as `f64`; integers and bools are taken too.
    pub fn float(&self, position: usize, name: &str) -> Result<f64> {
        self.need(position, name, self.opt_float(position, name)?)
    }

    /// A number as `f64`, or `None`, or nothing.
    pub fn opt_float(&self, position: usize, name: &str) -> Result<Option<f64>> {
        self.get(position, name, "a number", float)
    }

    /// A number as `f64`, else `default`.
    pub fn float_or(&self, position: usize, name: &str, default: f64) -> Result<f64> {
        Ok(self.opt_float(position, name)?.unwrap_or(default))
    }

    /// A truth value.
    pub fn bool(&self, position: usize, name: &str) -> Result<bool> {
        self.need(position, name, self.opt_bool(position, name)?)
    }

    /// A truth value, or `None`, or nothing.
    pub fn opt_bool(&self, position: usize, name: &str) -> Result<Option<bool>> {
        self.get(position, name, "a bool", |arg| match arg {
            Arg::Bool(v) => Some(*v),
            _ => None,
        })
    }

    /// A truth value, else `default`.
    pub fn bool_or(&self, position: usize, name: &str, default: bool) -> Result<bool> {
        Ok(self.opt_bool(position, name)?.unwrap_or(default))
    }

    /// A number with its type.
    pub fn scalar(&self, position: usize, name: &str) -> Result<Scalar> {
        self.need(position, name, self.opt_scalar(position, name)?)
    }

    /// A number with its type, or `None`, or nothing.
    pub fn opt_scalar(&self, position: usize, name: &str) -> Result<Option<Scalar>> {
        self.get(position, name, "a number", scalar)
    }

    /// A number or a tensor.
    pub fn scalar_or_tensor(&self, position: usize, name: &str) -> Result<ScalarOr<T>> {
        self.need(position, name, self.opt_scalar_or_tensor(position, name)?)
    }

    /// A number or a tensor, or `None`, or nothing.
    pub fn opt_scalar_or_tensor(&self, position: usize, name: &str) -> Result<Option<ScalarOr<T>>> {
        self.get(position, name, "a number or a tensor", |arg| {
            let number = scalar(arg).map(ScalarOr::Scalar);
            number.or_else(|| self.as_tensor(arg).map(ScalarOr::Tensor))
        })
    }
}
