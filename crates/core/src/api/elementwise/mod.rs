//! Functions of one, two or three tensors, element by element.

pub(crate) mod arith;
pub(crate) mod compose;
pub(crate) mod operators;
pub(crate) mod unary;
