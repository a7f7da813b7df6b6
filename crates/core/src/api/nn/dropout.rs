//! Dropout: elements or whole channels set to zero at random while training.

use crate::api::{broadcast_all, same_device};
use crate::{DType, Error, Result, Shape, Tensor};

/// What alpha dropout puts in place of a dropped element: minus selu's scale times its alpha.
const ALPHA: f64 = 1.758_099_340_847_376_6;

impl Tensor {
    /// Where a uniform number is below `1 - p`: true means keep.
    #[track_caller]
    fn keep(&self, shape: Shape, p: f64) -> Tensor {
        let u = Tensor::uniform_on(shape, DType::F32, self.device());
        u.scalar_like(1.0 - p).raw_gt(&u)
    }

    #[track_caller]
    fn check_p(&self, name: &str, p: f64) -> Result<()> {
        if (0.0..=1.0).contains(&p) {
            return Ok(());
        }
        Err(Error::value(name, format!("a probability must be between 0 and 1, not {p}")).operand(self))
    }

    /// One flag for each sample and channel (the first two axes).
    #[track_caller]
    fn channels(&self, name: &str) -> Result<Shape> {
        if self.rank() < 2 {
            let why = format!("needs a batch and channels, not {}", self.shape());
            return Err(Error::shape(name, &[self.shape()], why).operand(self));
        }
        Ok(self.dims().iter().enumerate().map(|(d, &n)| if d < 2 { n } else { 1 }).collect())
    }

    /// Each element 0 with probability `p`, the others divided by `1 - p`; itself when not training.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// let y = Tensor::ones([1000], DType::F32).dropout(0.5, true).unwrap().to_vec::<f32>().unwrap();
    /// assert!(y.iter().all(|&v| v == 0.0 || v == 2.0));
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.check_p("dropout", p)?;
        if !training || p == 0.0 {
            return Ok(self.resolve());
        }
        self.dropout_with(&self.keep(self.shape().clone(), p), p)
    }

    /// [`Tensor::dropout`] with a given mask (bool, true where kept; it broadcasts) in place of a random one.
    #[track_caller]
    pub fn dropout_with(&self, keep: &Tensor, p: f64) -> Result<Tensor> {
        self.check_p("dropout", p)?;
        self.check_keep("dropout", keep)?;
        // At p = 1 all is dropped, and there is nothing to scale up.
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        let x = self.as_float();
        Ok(&x * (keep.to_dtype(x.dtype()) * scale))
    }

    #[track_caller]
    fn check_keep(&self, name: &str, keep: &Tensor) -> Result<()> {
        if keep.dtype() != DType::Bool {
            let why = format!("the mask must be bool, not {}", keep.dtype());
            return Err(Error::dtype(name, &[keep.dtype()], why).operand(self).operand(keep));
        }
        same_device(name, &[self, keep])?;
        if broadcast_all(name, &[self, keep])? != *self.shape() {
            let why = format!("a mask of shape {} does not fit {}", keep.shape(), self.shape());
            return Err(Error::shape(name, &[self.shape(), keep.shape()], why).operand(self).operand(keep));
        }
        Ok(())
    }

    /// Dropout of whole channels: all of `x[n, c]` together.
    #[track_caller]
    pub fn feature_dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.check_p("feature_dropout", p)?;
        let shape = self.channels("feature_dropout")?;
        if !training || p == 0.0 {
            return Ok(self.resolve());
        }
        self.dropout_with(&self.keep(shape, p), p)
    }

    /// Dropout that keeps the mean and variance of selu's outputs.
    #[track_caller]
    pub fn alpha_dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.check_p("alpha_dropout", p)?;
        if !training || p == 0.0 {
            return Ok(self.resolve());
        }
        self.alpha_dropout_with(&self.keep(self.shape().clone(), p), p)
    }

    /// [`Tensor::alpha_dropout`] of whole channels.
    #[track_caller]
    pub fn feature_alpha_dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.check_p("feature_alpha_dropout", p)?;
        let shape = self.channels("feature_alpha_dropout")?;
        if !training || p == 0.0 {
            return Ok(self.resolve());
        }
        self.alpha_dropout_with(&self.keep(shape, p), p)
    }

    /// [`Tensor::alpha_dropout`] with a given mask (bool, true where kept; it broadcasts) in place of a random one.
    #[track_caller]
    pub fn alpha_dropout_with(&self, keep: &Tensor, p: f64) -> Result<Tensor> {
        self.check_p("alpha_dropout", p)?;
        self.check_keep("alpha_dropout", keep)?;
        let x = self.as_float();
        if p == 1.0 {
            return Ok(x * 0.0);
        }
        let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
        let keep = keep.to_dtype(x.dtype());
        // Kept: a x + a alpha p; dropped: -alpha a + a alpha p.
        let shift = (&keep - 1.0) * (ALPHA * a) + ALPHA * a * p;
        Ok(&x * (keep * a) + shift)
    }
}
