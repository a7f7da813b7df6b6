//! Looking up and putting back by index.

use crate::api::{axis, same_device};
use crate::{
    DType, Error, Result, Tensor,
    op::{HostOp, Op, ScatterMode},
};

impl Tensor {
    /// An index tensor as i64.
    #[track_caller]
    pub(crate) fn as_index(&self, op: &str) -> Result<Tensor> {
        self.check_index(op)?;
        Ok(self.to_dtype(DType::I64))
    }

    /// Whether this can be an index tensor.
    #[track_caller]
    pub(crate) fn check_index(&self, op: &str) -> Result<()> {
        if self.dtype().is_int() {
            return Ok(());
        }
        let why = format!("an index must be integers, not {}", self.dtype());
        Err(Error::dtype(op, &[self.dtype()], why).operand(self))
    }

    /// `out[.., i, ..] = self[.., index[.., i, ..], ..]` along `dim`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// let y = x.gather(1, &Tensor::from([[0i64, 0], [1, 0]])).unwrap();
    /// assert_eq!(y.to_vec::<i32>().unwrap(), [1, 1, 4, 3]);
    /// ```
    #[track_caller]
    pub fn gather(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let a = axis("gather", dim, self.rank())?;
        same_device("gather", &[self, index])?;
        let index = index.as_index("gather")?;
        if index.numel() == 0 {
            // Nothing is looked up, so any shape does, as in PyTorch. The slice keeps the way of the gradient.
            return Ok(self.ravel().sliced(0, 0, 1, 0).reshape_to(index.shape()));
        }
        if self.rank() == 0 || index.rank() == 0 {
            // Scalars count as vectors of one, as in PyTorch.
            let x = if self.rank() == 0 { self.reshape_to(&1.into()) } else { self.resolve() };
            let i = if index.rank() == 0 { index.reshape_to(&1.into()) } else { index.clone() };
            return x.gather(dim, &i)?.reshape(index.shape());
        }
        let fits = index.rank() == self.rank() && (0..self.rank()).all(|d| d == a || index.dims()[d] <= self.dims()[d]);
        if !fits {
            let why = format!("an index of shape {} does not fit {} along axis {a}", index.shape(), self.shape());
            return Err(Error::shape("gather", &[self.shape(), index.shape()], why).operand(self).operand(&index));
        }
        Ok(self.make(Op::Gather { axis: a }, &[self, &index], index.shape().clone(), self.dtype()))
    }

    /// A copy with `src` written at `index` along `dim`; the last of several stays.
    #[track_caller]
    pub fn scatter(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        self.scatter_mode("scatter", ScatterMode::Assign, dim, index, src)
    }

    /// A copy with `src` added at `index` along `dim`.
    #[track_caller]
    pub fn scatter_add(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        self.scatter_mode("scatter_add", ScatterMode::Add, dim, index, src)
    }

    #[track_caller]
    pub(crate) fn scatter_mode(
        &self,
        name: &str,
        mode: ScatterMode,
        dim: i64,
        index: &Tensor,
        src: &Tensor,
    ) -> Result<Tensor> {
        let a = axis(name, dim, self.rank())?;
        same_device(name, &[self, index, src])?;
        let index = index.as_index(name)?;
        if src.dtype() != self.dtype() {
            let why = format!("the source is {}, the target {}", src.dtype(), self.dtype());
            return Err(Error::dtype(name, &[self.dtype(), src.dtype()], why)
                .operand(self)
                .operand(src)
                .hint("convert with to_dtype"));
        }
        if self.rank() == 0 || index.rank() == 0 || src.rank() == 0 {
            let one = |t: &Tensor| if t.rank() == 0 { t.reshape_to(&1.into()) } else { t.resolve() };
            return one(self).scatter_mode(name, mode, dim, &one(&index), &one(src))?.reshape(self.shape());
        }
        let fits = index.rank() == self.rank()
            && src.rank() == self.rank()
            && (0..self.rank())
                .all(|d| index.dims()[d] <= src.dims()[d] && (d == a || index.dims()[d] <= self.dims()[d]));
        if !fits {
            let why = format!(
                "index {} and source {} do not fit {} along axis {a}",
                index.shape(),
                src.shape(),
                self.shape()
            );
            return Err(Error::shape(name, &[self.shape(), index.shape(), src.shape()], why)
                .operand(self)
                .operand(&index)
                .operand(src));
        }
        // Only the part of the source that the index covers is read.
        let mut src = src.resolve();
        for d in 0..index.rank() {
            src = src.sliced(d, 0, 1, index.dims()[d]);
        }
        let op = Op::Host(HostOp::Scatter { axis: a, mode });
        Ok(self.make(op, &[self, &index, &src], self.shape().clone(), self.dtype()))
    }
}
