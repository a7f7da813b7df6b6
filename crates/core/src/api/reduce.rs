//! Reductions over any axes.

use super::axes;
use crate::{
    Axes, DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Op, ReduceOp},
};
use smallvec::SmallVec;

impl Tensor {
    /// A reduction over positions that were checked, keeping them with extent 1.
    #[track_caller]
    pub(crate) fn reduce_keep(&self, op: ReduceOp, axes: SmallVec<[usize; 6]>) -> Tensor {
        if axes.is_empty() {
            return self.resolve();
        }
        let mut shape = self.shape().clone();
        axes.iter().for_each(|&a| shape.0[a] = 1);
        self.make(Op::Reduce { op, axes }, &[self], shape, self.dtype())
    }

    #[track_caller]
    pub(crate) fn reduce_dims(&self, op: ReduceOp, axes: SmallVec<[usize; 6]>, keepdim: bool) -> Tensor {
        let kept = self.reduce_keep(op, axes.clone());
        if keepdim {
            return kept;
        }
        let shape: Shape = (0..self.rank()).filter(|d| !axes.contains(d)).map(|d| self.dims()[d]).collect();
        kept.reshape_to(&shape)
    }

    /// Integers and bools add up as i64.
    fn summable(&self) -> Tensor {
        if self.dtype().is_float() { self.resolve() } else { self.to_dtype(DType::I64) }
    }

    /// The sum of all elements.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).sum().item::<f32>().unwrap(), 10.0);
    /// ```
    #[track_caller]
    pub fn sum(&self) -> Tensor {
        let all = (0..self.rank()).collect();
        self.summable().reduce_dims(ReduceOp::Sum, all, false)
    }

    /// Sums over axes.
    #[track_caller]
    pub fn sum_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("sum", &dim.into(), self.rank())?;
        Ok(self.summable().reduce_dims(ReduceOp::Sum, a, keepdim))
    }

    /// The product of all elements.
    #[track_caller]
    pub fn prod(&self) -> Tensor {
        let all = (0..self.rank()).collect();
        self.summable().reduce_dims(ReduceOp::Prod, all, false)
    }

    /// Products over axes.
    #[track_caller]
    pub fn prod_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("prod", &dim.into(), self.rank())?;
        Ok(self.summable().reduce_dims(ReduceOp::Prod, a, keepdim))
    }

    /// Means over axes; integers become floats.
    #[track_caller]
    pub fn mean_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("mean", &dim.into(), self.rank())?;
        let n: usize = a.iter().map(|&d| self.dims()[d]).product();
        let x = self.to_dtype(self.dtype().to_float());
        Ok(x.reduce_dims(ReduceOp::Sum, a, keepdim) / n as f64)
    }

    /// The mean of all elements; integers become floats.
    #[track_caller]
    pub fn mean(&self) -> Tensor {
        let n = self.numel();
        self.to_dtype(self.dtype().to_float()).sum() / n as f64
    }

    /// The largest elements over axes.
    #[track_caller]
    pub fn amax(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.extremum("amax", ReduceOp::Max, dim.into(), keepdim)
    }

    /// The smallest elements over axes.
    #[track_caller]
    pub fn amin(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.extremum("amin", ReduceOp::Min, dim.into(), keepdim)
    }

    #[track_caller]
    fn extremum(&self, name: &str, op: ReduceOp, dim: Axes, keepdim: bool) -> Result<Tensor> {
        let a = axes(name, &dim, self.rank())?;
        self.not_empty(name, &a)?;
        Ok(self.reduce_dims(op, a, keepdim))
    }

    /// An error if a reduction without identity would run over nothing.
    #[track_caller]
    pub(crate) fn not_empty(&self, name: &str, axes: &[usize]) -> Result<()> {
        if axes.iter().any(|&a| self.dims()[a] == 0) {
            let why = format!("nothing to choose from: {} is empty along axes {axes:?}", self.shape());
            return Err(Error::new(name, ErrorKind::Empty(why)).operand(self));
        }
        Ok(())
    }

    /// This gradient summed down to `shape`: what was broadcast forward is added up backward.
    #[track_caller]
    pub fn sum_to(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.resolve());
        }
        if !shape.expands_to(self.shape()) {
            let why = format!("{} is not a broadcast of {shape}", self.shape());
            return Err(Error::shape("sum_to", &[self.shape(), shape], why).operand(self));
        }
        let lead = self.rank() - shape.rank();
        let axes = (0..self.rank()).filter(|&d| d < lead || (shape[d - lead] == 1 && self.dims()[d] != 1)).collect();
        Ok(self.reduce_keep(ReduceOp::Sum, axes).reshape_to(shape))
    }
}
