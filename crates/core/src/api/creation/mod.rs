//! Tensors from numbers, from nothing, and at random.

pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod init;
#[cfg(feature = "ndarray")]
pub(crate) mod ndarray;
pub(crate) mod random;
