//! Cutting a data set into parts.

use crate::{Dataset, adapt::Subset};
use gradus_core::{Error, Result};
use std::sync::Arc;

/// The stream that splits draw from; loaders count theirs from 0.
pub(crate) const STREAM: u64 = u64::MAX;

/// Parts of `order` of these lengths.
#[track_caller]
pub(crate) fn cut<D: Dataset>(data: D, order: Vec<usize>, lengths: &[usize]) -> Result<Vec<Subset<Arc<D>>>> {
    let total = lengths.iter().try_fold(0usize, |n, &l| n.checked_add(l));
    if total != Some(data.len()) {
        let why = format!("parts of {lengths:?} items do not add up to the {} there are", data.len());
        return Err(Error::value("split", why));
    }
    let data = Arc::new(data);
    let mut rest = order.as_slice();
    let mut parts = vec![];
    for &len in lengths {
        let (part, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        parts.push(Subset::new(data.clone(), part.to_vec())?);
        rest = after;
    }
    Ok(parts)
}

/// Lengths of the parts of `n` items by fractions: each rounded down, the remainder handed out from the first part on.
#[track_caller]
pub(crate) fn lengths(n: usize, fractions: &[f64]) -> Result<Vec<usize>> {
    let bad = fractions.iter().any(|f| !(0.0..=1.0).contains(f));
    if bad || (fractions.iter().sum::<f64>() - 1.0).abs() > 1e-6 {
        let why = format!("fractions must lie between 0 and 1 and add up to 1, and {fractions:?} do not");
        return Err(Error::value("random_split", why));
    }
    let mut lengths: Vec<usize> = fractions.iter().map(|f| (n as f64 * f) as usize).collect();
    let missing = n.saturating_sub(lengths.iter().sum());
    for i in 0..missing {
        let count = lengths.len();
        if let Some(l) = lengths.get_mut(i % count) {
            *l += 1;
        }
    }
    Ok(lengths)
}
