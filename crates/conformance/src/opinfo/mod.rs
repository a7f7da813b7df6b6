//! PyTorch's operator samples: one safetensors file per operator, each with
//! some cases (arguments, expected outputs, cotangents, expected gradients).
//!
//! [`file`](mod@file) reads the files, [`args`] gives the arguments of a case
//! to the function that calls the operator, [`run`] runs a case through a
//! [`Backend`], [`compare`] judges the results and [`report`] counts them.

pub mod args;
pub mod compare;
mod dispatch;
pub mod file;
pub mod folder;
pub mod gradus;
pub mod host;
mod json;
pub mod report;
pub mod run;
#[cfg(test)]
pub(crate) mod testing;

pub use args::{Args, KW, Scalar, ScalarOr};
pub use file::{Arg, Case, OpFile};
pub use host::{HostArray, HostDType};
pub use report::Report;
pub use run::{Backend, Outcome};

/// An error of an operator call: whatever went wrong, with its text.
pub type OpError = Box<dyn std::error::Error + Send + Sync>;
