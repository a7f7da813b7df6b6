//! Matrix products, factorisations and what is built on them.

pub(crate) mod distances;
pub(crate) mod einsum;
pub(crate) mod factor;
pub(crate) mod matmul;
pub(crate) mod matrix_norm;
pub(crate) mod products;
pub(crate) mod solve;
