#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub use gradus_core::*;
pub use gradus_data as data;
pub use gradus_io as io;
pub use gradus_optim as optim;
pub use gradus_scalar as scalar;
pub use gradus_train as train;

/// What most programs want in scope.
pub mod prelude {
    pub use gradus_core::{DType, Device, Element, NewAxis, Result, Scalar, Shape, Tensor, manual_seed, no_grad, s};
    pub use gradus_io::{StateDict, Stateful};
    pub use gradus_optim::{Adam, AdamW, LrScheduler, Optimizer, Schedule, Sgd};
    pub use gradus_scalar::{constant, var};
    pub use gradus_train::{Checkpoint, Checkpoints, Trainer};
}
