#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub use gradus_core::*;
pub use gradus_scalar as scalar;

/// What most programs want in scope.
pub mod prelude {
    pub use gradus_core::{DType, Device, Element, Result, Scalar, Shape, Tensor, manual_seed, no_grad};
    pub use gradus_scalar::{constant, var};
}
