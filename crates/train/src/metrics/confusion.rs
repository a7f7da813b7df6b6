//! Which classes are taken for which.

use super::classes;
use gradus_core::{Error, Result, Tensor};
use std::fmt;

/// How numbers of classes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// All classes count the same.
    Macro,
    /// All rows count the same; for one label a row this is the accuracy.
    Micro,
    /// Classes count by how often they occur.
    Weighted,
}

/// Counts of predictions by target: rows are targets, columns what was predicted.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_train::metrics::{Average, ConfusionMatrix};
/// let mut m = ConfusionMatrix::new(2).labels(["cat", "dog"]);
/// m.update(&Tensor::from([0i64, 1, 1, 1]), &Tensor::from([0i64, 0, 1, 1]))?; // predicted, target
/// assert_eq!((m.accuracy(), m.recall(0), m.precision(1)), (0.75, 0.5, 2.0 / 3.0));
/// assert!((m.f1_score(Average::Macro) - (2.0 / 3.0 + 0.8) / 2.0).abs() < 1e-12);
/// println!("{m}");
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ConfusionMatrix {
    classes: usize,
    counts: Vec<u64>,
    labels: Vec<String>,
}

impl ConfusionMatrix {
    /// Nothing seen so far, of this many classes.
    pub fn new(classes: usize) -> ConfusionMatrix {
        let labels = (0..classes).map(|c| c.to_string()).collect();
        ConfusionMatrix { classes, counts: vec![0; classes.saturating_mul(classes)], labels }
    }

    /// With names for the classes, for printing.
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> ConfusionMatrix {
        for (have, new) in self.labels.iter_mut().zip(labels) {
            *have = new.into();
        }
        self
    }

    /// Takes a batch in: scores with classes on the last axis (the largest is the prediction) or predicted classes as
    /// whole numbers, and the targets.
    #[track_caller]
    pub fn update(&mut self, predicted: &Tensor, target: &Tensor) -> Result<()> {
        let n = self.classes;
        let predicted = if predicted.dtype().is_float() {
            if predicted.dims().last() != Some(&n) {
                let why = format!("scores of {n} classes are wanted, not {}", predicted.shape());
                return Err(Error::shape("confusion", &[predicted.shape()], why).operand(predicted));
            }
            predicted.argmax_dim(-1, false)?
        } else {
            predicted.clone()
        };
        let rows = predicted.numel();
        let (predicted, target) = (classes("confusion", &predicted, rows, n)?, classes("confusion", target, rows, n)?);
        for (p, t) in predicted.into_iter().zip(target) {
            if let Some(count) = self.counts.get_mut(t * n + p) {
                *count += 1;
            }
        }
        Ok(())
    }

    /// How often `target` was taken for `predicted`.
    pub fn count(&self, target: usize, predicted: usize) -> u64 {
        let inside = target < self.classes && predicted < self.classes;
        if inside { self.counts.get(target * self.classes + predicted).copied().unwrap_or(0) } else { 0 }
    }

    fn of_target(&self, class: usize) -> u64 {
        (0..self.classes).map(|p| self.count(class, p)).sum()
    }

    fn of_prediction(&self, class: usize) -> u64 {
        (0..self.classes).map(|t| self.count(t, class)).sum()
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The part of rows that were right; NaN if there were none.
    pub fn accuracy(&self) -> f64 {
        (0..self.classes).map(|c| self.count(c, c)).sum::<u64>() as f64 / self.total() as f64
    }

    /// Of what was taken for a class, the part that was it; 0 if nothing was.
    pub fn precision(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.of_prediction(class))
    }

    /// Of what was a class, the part that was taken for it; 0 if nothing was.
    pub fn recall(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.of_target(class))
    }

    /// The harmonic mean of both.
    pub fn f1(&self, class: usize) -> f64 {
        ratio(2 * self.count(class, class), self.of_target(class) + self.of_prediction(class))
    }

    /// Precision over all classes.
    pub fn precision_score(&self, average: Average) -> f64 {
        self.average(average, Self::precision)
    }

    /// Recall over all classes.
    pub fn recall_score(&self, average: Average) -> f64 {
        self.average(average, Self::recall)
    }

    /// F1 over all classes.
    pub fn f1_score(&self, average: Average) -> f64 {
        self.average(average, Self::f1)
    }

    /// As scikit-learn does it: classes that neither occur nor are predicted do not count.
    fn average(&self, average: Average, of: impl Fn(&Self, usize) -> f64) -> f64 {
        let seen = |c: &usize| self.of_target(*c) + self.of_prediction(*c) > 0;
        match average {
            Average::Micro => self.accuracy(),
            Average::Macro => {
                let n = (0..self.classes).filter(seen).count();
                (0..self.classes).filter(seen).map(|c| of(self, c)).sum::<f64>() / n as f64
            }
            Average::Weighted => {
                let sum: f64 = (0..self.classes).map(|c| of(self, c) * self.of_target(c) as f64).sum();
                sum / self.total() as f64
            }
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl fmt::Display for ConfusionMatrix {
    /// A table with targets down and predictions across; zeros are dots, so that errors stand out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chars = |s: &str| s.chars().count();
        let most = self.counts.iter().max().map_or(1, |c| c.to_string().len());
        let side = self.labels.iter().map(|l| chars(l)).max().unwrap_or(0).max(chars("target"));
        let cell = self.labels.iter().map(|l| chars(l)).max().unwrap_or(0).max(most);
        write!(f, "{:>side$} │", "target")?;
        for label in &self.labels {
            write!(f, " {label:>cell$}")?;
        }
        writeln!(f, " │ recall")?;
        writeln!(f, "{}┼{}┼{}", "─".repeat(side + 1), "─".repeat((cell + 1) * self.classes + 1), "─".repeat(7))?;
        for (t, label) in self.labels.iter().enumerate() {
            write!(f, "{label:>side$} │")?;
            for p in 0..self.classes {
                match self.count(t, p) {
                    0 => write!(f, " {:>cell$}", "·")?,
                    n => write!(f, " {n:>cell$}")?,
                }
            }
            writeln!(f, " │ {:>5.1}%", 100.0 * self.recall(t))?;
        }
        write!(f, "accuracy {:.4}, macro F1 {:.4}", self.accuracy(), self.f1_score(Average::Macro))
    }
}
