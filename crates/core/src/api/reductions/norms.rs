//! p-norms, distances, and limiting norms.

use crate::api::axis;
use crate::{Axes, Error, Result, Tensor};

impl Tensor {
    /// The p-norm of all elements, for any `p`: 2, 1, 0 (how many are not zero), infinities, fractions.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([3.0f64, -4.0]);
    /// assert_eq!(x.norm(2.0).unwrap().item::<f64>().unwrap(), 5.0);
    /// assert_eq!(x.norm(f64::INFINITY).unwrap().item::<f64>().unwrap(), 4.0);
    /// ```
    #[track_caller]
    pub fn norm(&self, p: f64) -> Result<Tensor> {
        self.norm_dim(p, .., false)
    }

    /// p-norms over axes; integers become floats. The gradient of a norm that is zero is zero.
    #[track_caller]
    pub fn norm_dim(&self, p: f64, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.high().floated().vector_norm(p, dim, keepdim)
    }

    /// The p-norm of `self - other`.
    #[track_caller]
    pub fn dist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        self.sub(other)?.norm(p)
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
        let norm = self.norm_dim(p, others, true)?;
        // PyTorch's 1e-7 keeps the scaled norm on the safe side of the limit.
        let scale = norm.gt(maxnorm)?.where_(&(maxnorm / (&norm + 1e-7)), 1.0)?;
        Ok(self.floated() * scale)
    }
}
