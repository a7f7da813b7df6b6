//! The engine of gradus: lazy tensors, exact gradients, plans, kernels and the CPU backend.
//!
//! The way data flows, one room a step: `api` makes [`graph`] nodes, [`grad`] turns graph into more graph, [`plan`]
//! turns the wanted part of it into [`kernel`]s, and a [`backend`] runs them.

#![warn(missing_docs)]

mod api;
mod autocast;
pub mod backend;
mod dtype;
mod error;
pub mod grad;
pub mod graph;
mod hash;
pub mod kernel;
pub mod op;
pub mod plan;
pub mod replay;
mod shape;
mod view;

pub use api::*;
pub use autocast::{autocast, autocast_dtype};
pub use backend::Device;
pub use dtype::{DType, Element, Scalar};
pub use error::{Error, ErrorKind, Result};
pub use graph::{Tensor, VarId, enable_grad, is_grad_enabled, live_bytes, live_nodes, no_grad, share_scalars};
pub use replay::{Compiled, compile};
pub use shape::{Axes, Shape};
pub use view::{Bound, View, ViewOp};
