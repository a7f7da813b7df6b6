//! In which order a loader visits its items.

use crate::Rng;
use gradus_core::{Error, Result};

/// An order of indices, another one each epoch where chance is in it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Sampler {
    /// From the first to the last.
    #[default]
    Sequential,
    /// All, in random order: what `shuffle` means.
    Random,
    /// `num_samples` draws, each index as often as its weight says, as PyTorch's `WeightedRandomSampler`.
    Weighted {
        /// A weight an item, not negative; they need not add up to 1.
        weights: Vec<f64>,
        /// Draws an epoch.
        num_samples: usize,
        /// Whether an index may come more than once.
        replacement: bool,
    },
    /// These indices, in this order, every epoch.
    Indices(Vec<usize>),
}

impl Sampler {
    /// Draws an epoch, for a data set of `n` items.
    pub fn len(&self, n: usize) -> usize {
        match self {
            Sampler::Sequential | Sampler::Random => n,
            Sampler::Weighted { num_samples, .. } => *num_samples,
            Sampler::Indices(list) => list.len(),
        }
    }

    /// Whether an epoch has no draws.
    pub fn is_empty(&self, n: usize) -> bool {
        self.len(n) == 0
    }

    /// Finds what does not fit a data set of `n` items.
    #[track_caller]
    pub(crate) fn check(&self, n: usize) -> Result<()> {
        match self {
            Sampler::Sequential | Sampler::Random => Ok(()),
            Sampler::Indices(list) => match list.iter().find(|&&i| i >= n) {
                Some(bad) => {
                    Err(Error::value("DataLoader", format!("the sampler names item {bad} of a data set of {n}")))
                }
                None => Ok(()),
            },
            Sampler::Weighted { weights, num_samples, replacement } => {
                let positive = weights.iter().filter(|w| **w > 0.0).count();
                let why = if weights.len() != n {
                    format!("{} weights do not fit a data set of {n} items", weights.len())
                } else if let Some((i, w)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
                    format!("weight {i} is {w}: weights are finite and not negative")
                } else if *num_samples > 0 && positive == 0 {
                    "no weight is above zero".to_string()
                } else if !weights.iter().sum::<f64>().is_finite() {
                    "the weights add up to more than an f64 holds".to_string()
                } else if !replacement && *num_samples > positive {
                    format!("{num_samples} draws without replacement need as many weights above zero, not {positive}")
                } else {
                    return Ok(());
                };
                Err(Error::value("DataLoader", why))
            }
        }
    }

    /// The order of one epoch.
    pub(crate) fn order(&self, n: usize, rng: &mut Rng) -> Vec<usize> {
        match self {
            Sampler::Sequential => (0..n).collect(),
            Sampler::Random => rng.permutation(n),
            Sampler::Indices(list) => list.clone(),
            Sampler::Weighted { weights, num_samples, replacement: true } => {
                with_replacement(weights, *num_samples, rng)
            }
            Sampler::Weighted { weights, num_samples, replacement: false } => without(weights, *num_samples, rng),
        }
    }
}

/// A draw is a place on the line of all weights laid end to end.
fn with_replacement(weights: &[f64], count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut sum = 0.0;
    let ends: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += w;
            sum
        })
        .collect();
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    // Rounding may put a draw on the very end: it belongs to the last item that has a weight.
    (0..count)
        .map(|_| {
            let at = rng.uniform() * sum;
            ends.partition_point(|&end| end <= at).min(last)
        })
        .collect()
}

/// The items whose exponential clocks of rate `w` ring first (Efraimidis and Spirakis 2006): drawing one by one in
/// proportion to the weights that are left. The logarithm is a portable one: the order is the same everywhere.
fn without(weights: &[f64], count: usize, rng: &mut Rng) -> Vec<usize> {
    let ring = |w: f64, u: f64| if w > 0.0 { -libm::log(1.0 - u) / w } else { f64::INFINITY };
    let mut clocks: Vec<(f64, usize)> = weights.iter().enumerate().map(|(i, &w)| (ring(w, rng.uniform()), i)).collect();
    clocks.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    clocks.into_iter().take(count).map(|(_, i)| i).collect()
}
