//! Normalisations.

mod batch;
mod instance;
mod rows;
mod running;

pub use batch::{BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use instance::{InstanceNorm1d, InstanceNorm2d, InstanceNorm3d};
pub use rows::{GroupNorm, LayerNorm, LocalResponseNorm, RmsNorm};

use crate::Param;
use gradus_core::{DType, Shape, Tensor};

/// A weight of ones and a bias of zeros.
#[track_caller]
fn ones_and_zeros(shape: impl Into<Shape>) -> (Param, Param) {
    let shape = shape.into();
    (Param::new(Tensor::ones(&shape, DType::F32)), Param::new(Tensor::zeros(&shape, DType::F32)))
}
