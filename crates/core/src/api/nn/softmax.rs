//! Softmax and its relatives along one axis.

use crate::api::axis;
use crate::{
    DType, Result, Tensor,
    op::{Composite, ReduceOp},
};
use smallvec::SmallVec;

impl Tensor {
    /// In a float type that can add up many terms: half-precision numbers become f32, as PyTorch accumulates them.
    #[track_caller]
    pub(crate) fn wide(&self) -> Tensor {
        match self.dtype().to_float() {
            DType::F16 | DType::BF16 => self.to_dtype(DType::F32),
            d => self.to_dtype(d),
        }
    }

    /// A result of [`Tensor::wide`] operands, back in the float type of `of`; inside [`crate::autocast`] it stays wide.
    #[track_caller]
    pub(crate) fn back_to(&self, of: &Tensor) -> Tensor {
        if crate::autocast_dtype().is_some() {
            return self.resolve();
        }
        self.to_dtype(of.dtype().to_float())
    }

    /// A reduction over one position (none, for a scalar) that keeps it.
    #[track_caller]
    pub(crate) fn reduce_one(&self, op: ReduceOp, axis: usize) -> Tensor {
        let axes = if self.rank() == 0 { SmallVec::new() } else { SmallVec::from_slice(&[axis]) };
        self.reduce_keep(op, axes)
    }

    /// Less the largest along an axis, so that exponentials cannot overflow. What softmax-like functions make of it does
    /// not depend on the shift, so the shift is constant for gradients.
    #[track_caller]
    pub(crate) fn shifted(&self, axis: usize) -> Tensor {
        self - self.reduce_one(ReduceOp::Max, axis).detach()
    }

    /// `e^x / sum(e^x)` along `dim`; for another element type, convert first.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([1000.0f32, 1000.0]).softmax(0).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [0.5, 0.5]);
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: i64) -> Result<Tensor> {
        static SOFTMAX: Composite = Composite {
            name: "softmax",
            build: |x, at| {
                let (x, a) = (&x[0], at[0] as usize);
                let e = x.wide().shifted(a).exp();
                // One division a row; the sum is at least 1.
                (&e * (1.0 / e.reduce_one(ReduceOp::Sum, a))).back_to(x)
            },
        };
        let a = axis("softmax", dim, self.rank())?;
        Ok(Tensor::composed(&SOFTMAX, &[self], &[a as u64], self.shape().clone(), self.dtype().to_float()))
    }

    /// The logarithm of [`Tensor::softmax`], right where that underflows.
    #[track_caller]
    pub fn log_softmax(&self, dim: i64) -> Result<Tensor> {
        static LOG_SOFTMAX: Composite =
            Composite { name: "log_softmax", build: |x, at| x[0].wide().log_softmax_at(at[0] as usize).back_to(&x[0]) };
        let a = axis("log_softmax", dim, self.rank())?;
        Ok(Tensor::composed(&LOG_SOFTMAX, &[self], &[a as u64], self.shape().clone(), self.dtype().to_float()))
    }

    #[track_caller]
    pub(crate) fn log_softmax_at(&self, axis: usize) -> Tensor {
        let z = self.shifted(axis);
        &z - z.exp().reduce_one(ReduceOp::Sum, axis).log()
    }

    /// Softmax of `-x` along `dim`.
    #[track_caller]
    pub fn softmin(&self, dim: i64) -> Result<Tensor> {
        axis("softmin", dim, self.rank())?;
        self.neg_float().softmax(dim)
    }

    #[track_caller]
    fn neg_float(&self) -> Tensor {
        -self.high().to_dtype(self.high().dtype().to_float())
    }

    /// Softmax in which a row without any finite entry is zeros rather than NaN: attention's rule for rows that may
    /// look at nothing.
    #[track_caller]
    pub(crate) fn safe_softmax(&self, axis: usize) -> Tensor {
        let x = self.wide();
        let top = x.reduce_one(ReduceOp::Max, axis).detach();
        let nothing = top.raw_eq(&top.scalar_like(f64::NEG_INFINITY));
        let e = (&x - nothing.raw_where(&top.zeros_like(), &top)).exp();
        let sum = e.reduce_one(ReduceOp::Sum, axis);
        (&e / nothing.raw_where(&sum.ones_like(), &sum)).back_to(self)
    }
}
