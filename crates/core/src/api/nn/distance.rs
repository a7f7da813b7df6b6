//! Lengths, distances and angles between vectors along one axis.

use crate::api::axis;
use crate::{
    Error, Result, Tensor,
    op::{Composite, ReduceOp},
};

impl Tensor {
    /// The p-norm along one position, which stays with extent 1. The gradient of a norm that is 0 is 0, and so is the
    /// part of an element that is 0, as in PyTorch.
    #[track_caller]
    pub(crate) fn p_norm_keep(&self, p: f64, axis: usize) -> Tensor {
        let x = self.as_float();
        let zero = |t: &Tensor| t.raw_eq(&t.zeros_like());
        let one = |t: &Tensor| t.scalar_like(1.0);
        // What follows a root or a power sees 1 in place of 0, and a second selection puts the 0 back.
        let root = |s: Tensor, f: &dyn Fn(&Tensor) -> Tensor| {
            let flat = zero(&s);
            flat.raw_where(&s.zeros_like(), &f(&flat.raw_where(&one(&s), &s)))
        };
        if p == 2.0 {
            return root((&x * &x).reduce_one(ReduceOp::Sum, axis), &Tensor::sqrt);
        }
        if p == f64::INFINITY {
            return x.abs().reduce_one(ReduceOp::Max, axis);
        }
        if p == f64::NEG_INFINITY {
            return x.abs().reduce_one(ReduceOp::Min, axis);
        }
        if p == 0.0 {
            return zero(&x).logical_not().to_dtype(x.dtype()).reduce_one(ReduceOp::Sum, axis);
        }
        let size = x.abs();
        if p == 1.0 {
            return size.reduce_one(ReduceOp::Sum, axis);
        }
        let flat = zero(&size);
        let at_zero = size.scalar_like(if p > 0.0 { 0.0 } else { f64::INFINITY });
        let power = flat.raw_where(&one(&size), &size).raw_pow(&size.scalar_like(p));
        let sum = flat.raw_where(&at_zero, &power).reduce_one(ReduceOp::Sum, axis);
        root(sum, &|s| s.raw_pow(&s.scalar_like(1.0 / p)))
    }

    /// The value of `to` with the gradient of this.
    #[track_caller]
    pub(crate) fn valued(&self, to: &Tensor) -> Tensor {
        self + (to - self).detach()
    }

    /// Each vector along `dim` divided by its p-norm (by `eps`, where that is smaller).
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([3.0f64, 4.0]).normalize(2.0, 0, 1e-12).unwrap();
    /// assert_eq!(y.to_vec::<f64>().unwrap(), [0.6, 0.8]);
    /// ```
    #[track_caller]
    pub fn normalize(&self, p: f64, dim: i64, eps: f64) -> Result<Tensor> {
        let a = axis("normalize", dim, self.rank())?;
        static UNIT: Composite = Composite {
            name: "normalize",
            build: |x, how| {
                let x = x[0].as_float();
                let norm = x.p_norm_keep(f64::from_bits(how[1]), how[0] as usize).at_least(f64::from_bits(how[2]));
                x / norm
            },
        };
        let how = [a as u64, p.to_bits(), eps.to_bits()];
        Ok(Tensor::composed(&UNIT, &[self], &how, self.shape().clone(), self.dtype().to_float()))
    }

    /// The cosine of the angle between vectors along `dim`; lengths below `eps` count as `eps`.
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
        let (x, y) = self.pair("cosine_similarity", other)?;
        let a = axis("cosine_similarity", dim, x.rank())?;
        static COSINE: Composite = Composite {
            name: "cosine_similarity",
            build: |x, how| {
                let (a, eps) = (how[0] as usize, f64::from_bits(how[1]));
                let unit = |t: &Tensor| {
                    let norm = t.p_norm_keep(2.0, a);
                    // The bound is invisible to gradients, as in PyTorch.
                    t / norm.valued(&norm.at_least(eps))
                };
                let axes = if x[0].rank() == 0 { Default::default() } else { [a].into_iter().collect() };
                (unit(&x[0]) * unit(&x[1])).reduce_dims(ReduceOp::Sum, axes, false)
            },
        };
        let shape = if x.rank() == 0 { x.shape().clone() } else { x.shape().without(a) };
        Ok(Tensor::composed(&COSINE, &[&x, &y], &[a as u64, eps.to_bits()], shape, x.dtype()))
    }

    /// The p-norm of `self - other + eps` along the last axis.
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
        let (x, y) = self.pair("pairwise_distance", other)?;
        if x.rank() == 0 {
            let why = "scalars have no last axis";
            return Err(Error::shape("pairwise_distance", &[self.shape(), other.shape()], why)
                .operand(self)
                .operand(other));
        }
        let last = x.rank() - 1;
        let d = (x - y + eps).p_norm_keep(p, last);
        Ok(if keepdim { d } else { d.reshape_to(&d.shape().without(last)) })
    }

    /// Two tensors of one float type and shape; inside `autocast` that is no 16-bit type.
    #[track_caller]
    pub(crate) fn pair(&self, name: &str, other: &Tensor) -> Result<(Tensor, Tensor)> {
        crate::api::same_device(name, &[self, other])?;
        let shape = crate::api::broadcast_all(name, &[self, other])?;
        let (x, y) = (self.high(), other.high());
        let d = crate::api::promote(&x, &y).to_float();
        Ok((x.to_dtype(d).expand_to(&shape), y.to_dtype(d).expand_to(&shape)))
    }
}
