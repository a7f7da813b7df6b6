//! p-norms over any axes, distances, and limiting norms.

use super::{axes, axis};
use crate::{Axes, Error, Result, Tensor, op::ReduceOp};
use smallvec::SmallVec;

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

    /// p-norms over axes. The gradient of a norm that is zero is zero.
    #[track_caller]
    pub fn norm_dim(&self, p: f64, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("norm", &dim.into(), self.rank())?;
        if p.is_nan() {
            return Err(Error::value("norm", "the order of a norm cannot be NaN").operand(self));
        }
        let x = self.floated();
        if p.is_infinite() || p < 0.0 {
            // No identity: an empty row has no least element.
            x.not_empty("norm", &a)?;
        }
        Ok(x.norm_keep(p, a.clone()).reshape_to(&x.reduced_shape(&a, keepdim)))
    }

    /// The p-norm of floats over checked axes, which stay with extent 1.
    #[track_caller]
    fn norm_keep(&self, p: f64, a: SmallVec<[usize; 6]>) -> Tensor {
        let sum = |t: Tensor| t.reduce_keep(ReduceOp::Sum, a.clone());
        let zero = self.scalar_like(0.0);
        if p == 0.0 {
            // A count; the second term is zero and makes the gradient one that is zero, not one that is missing.
            let count = self.raw_eq(&zero).logical_not().to_dtype(self.dtype());
            return sum(count + self.sign() * 0.0);
        }
        if p.is_infinite() {
            let op = if p > 0.0 { ReduceOp::Max } else { ReduceOp::Min };
            return self.abs().reduce_keep(op, a);
        }
        if p == 1.0 {
            return sum(self.abs());
        }
        // |0|^p is 0 or infinite, and so is the norm then: both are cut out, so that no 0 * inf reaches a gradient.
        let flat = if p > 0.0 { 0.0 } else { f64::INFINITY };
        let total = if p == 2.0 {
            sum(self * self)
        } else {
            let empty = self.raw_eq(&zero);
            let size = self.with_constant(&empty, 1.0).abs();
            sum(size.raw_pow(&self.scalar_like(p)).with_constant(&empty, flat))
        };
        let degenerate = total.raw_eq(&self.scalar_like(flat));
        let safe = total.with_constant(&degenerate, 1.0);
        let root = if p == 2.0 { safe.sqrt() } else { safe.raw_pow(&self.scalar_like(1.0 / p)) };
        root.with_constant(&degenerate, 0.0)
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
