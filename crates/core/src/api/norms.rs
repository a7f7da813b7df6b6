//! Distances, and limiting norms.

use super::axis;
use crate::{Error, Result, Tensor};

impl Tensor {
    /// The p-norm of `self - other`.
    #[track_caller]
    pub fn dist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        self.sub(other)?.floated().vector_norm(p, .., false)
    }

    /// Every slice along `dim` whose p-norm is beyond `maxnorm` scaled down to it.
    #[track_caller]
    pub fn renorm(&self, p: f64, dim: i64, maxnorm: f64) -> Result<Tensor> {
        let d = axis("renorm", dim, self.rank())?;
        if self.rank() < 2 {
            let why = format!("needs at least two axes, not {}", self.shape());
            return Err(Error::shape("renorm", &[self.shape()], why).operand(self));
        }
        if p.is_nan() || p <= 0.0 || maxnorm.is_nan() || maxnorm < 0.0 {
            let why = format!("the order must be positive and the limit not negative: p {p}, maxnorm {maxnorm}");
            return Err(Error::value("renorm", why).operand(self));
        }
        let others: Vec<usize> = (0..self.rank()).filter(|&a| a != d).collect();
        let norm = self.floated().vector_norm(p, others, true)?;
        // PyTorch's 1e-7 keeps the scaled norm on the safe side of the limit.
        let scale = norm.gt(maxnorm)?.where_(&(maxnorm / (&norm + 1e-7)), 1.0)?;
        Ok(self.floated() * scale)
    }
}
