//! How far numbers are off.

use gradus_core::{Error, Result, Tensor};

/// Errors of predicted numbers, over batches.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_train::metrics::Regression;
/// let mut r = Regression::default();
/// r.update(&Tensor::from([2.5f64, 0.0, 2.0, 8.0]), &Tensor::from([3.0f64, -0.5, 2.0, 7.0]))?;
/// assert_eq!((r.mae(), r.mse()), (0.5, 0.375));
/// assert!((r.r2() - 0.9486081370449679).abs() < 1e-15); // scikit-learn's example
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Regression {
    n: f64,
    absolute: f64,
    squared: f64,
    /// Mean of the targets, and the sum of their squared distances from it.
    mean: f64,
    spread: f64,
}

impl Regression {
    /// Takes a batch in.
    #[track_caller]
    pub fn update(&mut self, predicted: &Tensor, target: &Tensor) -> Result<()> {
        if predicted.shape() != target.shape() {
            let why = format!("predictions {} and targets {} differ in shape", predicted.shape(), target.shape());
            let e = Error::shape("regression", &[predicted.shape(), target.shape()], why);
            return Err(e.operand(predicted).operand(target));
        }
        for (p, t) in predicted.to_vec::<f64>()?.into_iter().zip(target.to_vec::<f64>()?) {
            self.absolute += (p - t).abs();
            self.squared += (p - t) * (p - t);
            // Welford's update: no difference of large sums.
            self.n += 1.0;
            let before = t - self.mean;
            self.mean += before / self.n;
            self.spread += before * (t - self.mean);
        }
        Ok(())
    }

    /// Mean absolute error.
    pub fn mae(&self) -> f64 {
        self.absolute / self.n
    }

    /// Mean squared error.
    pub fn mse(&self) -> f64 {
        self.squared / self.n
    }

    /// Its root.
    pub fn rmse(&self) -> f64 {
        self.mse().sqrt()
    }

    /// The part of the targets' variance that is explained: 1 is perfect, 0 is no better than their mean. Targets that
    /// are all the same have no variance: then it is 1 for perfect predictions and 0 for others.
    pub fn r2(&self) -> f64 {
        match (self.spread == 0.0, self.squared == 0.0) {
            (true, true) => 1.0,
            (true, false) => 0.0,
            (false, _) => 1.0 - self.squared / self.spread,
        }
    }
}
