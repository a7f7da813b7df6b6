//! Many elements to few: sums, extrema, statistics, norms; running and sorted along an axis.

pub(crate) mod calculus;
pub(crate) mod count;
pub(crate) mod extreme;
pub(crate) mod norms;
pub(crate) mod quantile;
pub(crate) mod reduce;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod stats;
