//! Looking up and putting back by position or mask.

pub(crate) mod advanced;
pub(crate) mod index;
pub(crate) mod mask;
pub(crate) mod put;
pub(crate) mod scatter;
pub(crate) mod scatter_reduce;
