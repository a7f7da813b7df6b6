//! Elements moved without arithmetic: shapes, axes, slices, joins, padding.

pub(crate) mod axes;
pub(crate) mod diag;
pub(crate) mod join;
pub(crate) mod pad;
pub(crate) mod repeat;
pub(crate) mod reshape;
pub(crate) mod slice;
pub(crate) mod split;
