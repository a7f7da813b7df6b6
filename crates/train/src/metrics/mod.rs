//! How good predictions are.
//!
//! Each metric takes batches in and gives a number for all of them, so a test set of any size fits:
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_train::metrics::{ConfusionMatrix, TopK};
//! let mut confusion = ConfusionMatrix::new(3);
//! let mut top2 = TopK::new(2);
//! let logits = Tensor::from([[2.0f32, 1.0, 0.0], [0.0, 1.0, 3.0]]);
//! let target = Tensor::from([0i64, 1]);
//! confusion.update(&logits, &target)?;
//! top2.update(&logits, &target)?;
//! assert_eq!((confusion.accuracy(), top2.value()), (0.5, 1.0));
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod confusion;
mod regression;

pub use confusion::{Average, ConfusionMatrix};
pub use regression::Regression;

use gradus_core::{Error, Result, Tensor};

/// The part of rows whose largest score is the target's.
///
/// ```
/// use gradus_core::Tensor;
/// let logits = Tensor::from([[2.0f32, 1.0], [3.0, 4.0]]);
/// assert_eq!(gradus_train::metrics::accuracy(&logits, &Tensor::from([0i64, 0]))?, 0.5);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[track_caller]
pub fn accuracy(scores: &Tensor, target: &Tensor) -> Result<f64> {
    top_k_accuracy(scores, target, 1)
}

/// The part of rows where the target's score is among the `k` largest.
#[track_caller]
pub fn top_k_accuracy(scores: &Tensor, target: &Tensor, k: usize) -> Result<f64> {
    let mut top = TopK::new(k);
    top.update(scores, target)?;
    Ok(top.value())
}

/// Targets as numbers of classes, one a row of the scores.
#[track_caller]
fn classes(op: &str, target: &Tensor, rows: usize, count: usize) -> Result<Vec<usize>> {
    if target.dtype().is_float() || target.numel() != rows {
        let why =
            format!("{rows} rows need as many whole numbers as targets, not {} {}", target.dtype(), target.shape());
        return Err(Error::shape(op, &[target.shape()], why).operand(target));
    }
    let numbers = target.to_vec::<i64>()?;
    let class = |t: i64| usize::try_from(t).ok().filter(|t| *t < count);
    let fault = |t: i64| Error::value(op, format!("a target is {t}, and there are {count} classes")).operand(target);
    numbers.into_iter().map(|t| class(t).ok_or_else(|| fault(t))).collect()
}

/// Accuracy among the `k` largest scores, over batches; 1 is plain accuracy.
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    right: u64,
    all: u64,
}

impl TopK {
    /// Nothing seen so far.
    pub fn new(k: usize) -> TopK {
        TopK { k, right: 0, all: 0 }
    }

    /// Takes a batch in: scores with classes on the last axis, and a class for each row. Of equal scores the first
    /// counts as larger; a score that is not a number is never right.
    #[track_caller]
    pub fn update(&mut self, scores: &Tensor, target: &Tensor) -> Result<()> {
        let Some(&count) = scores.dims().last().filter(|n| **n > 0) else {
            let why = format!("scores need classes on their last axis, not {}", scores.shape());
            return Err(Error::shape("top_k", &[scores.shape()], why).operand(scores));
        };
        let rows = scores.to_vec::<f64>()?;
        let targets = classes("top_k", target, rows.len() / count, count)?;
        for (row, t) in rows.chunks(count).zip(targets) {
            let own = row.get(t).copied().unwrap_or(f64::NAN);
            let before = row.iter().enumerate().filter(|(i, x)| **x > own || (**x == own && *i < t)).count();
            self.right += (!own.is_nan() && before < self.k) as u64;
            self.all += 1;
        }
        Ok(())
    }

    /// The part of rows that were right; NaN if there were none.
    pub fn value(&self) -> f64 {
        self.right as f64 / self.all as f64
    }
}

/// A mean of numbers with weights: of losses by batch, weighted by their sizes.
///
/// ```
/// use gradus_train::metrics::Mean;
/// let mut loss = Mean::default();
/// loss.update(0.5, 64.0);
/// loss.update(0.2, 16.0);
/// assert!((loss.value() - 0.44).abs() < 1e-12);
/// assert!((loss.perplexity() - 0.44f64.exp()).abs() < 1e-12); // if it was cross entropy by token
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Takes a number in.
    pub fn update(&mut self, x: f64, weight: f64) {
        self.sum += x * weight;
        self.weight += weight;
    }

    /// The mean; NaN if there was nothing.
    pub fn value(&self) -> f64 {
        self.sum / self.weight
    }

    /// Its exponential: the perplexity, where the numbers are cross entropies by token.
    pub fn perplexity(&self) -> f64 {
        self.value().exp()
    }
}

/// The perplexity of predictions: the exponential of their mean cross entropy.
#[track_caller]
pub fn perplexity(logits: &Tensor, target: &Tensor) -> Result<f64> {
    Ok(logits.cross_entropy(target)?.item::<f64>()?.exp())
}
