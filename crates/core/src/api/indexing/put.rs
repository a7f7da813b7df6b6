//! Rows and flat positions: looked up, written, added, filled.

use crate::api::{advanced::wrapped, axis, same_device};
use crate::{
    DType, Device, Error, Result, Scalar, Shape, Tensor,
    op::{HostOp, Op, ScatterMode},
};

impl Tensor {
    /// Whether an index can be a vector of places along an axis.
    #[track_caller]
    fn check_rows(&self, op: &str, a: usize, index: &Tensor) -> Result<()> {
        same_device(op, &[self, index])?;
        if index.rank() > 1 {
            let why = format!("an index for axis {a} is a vector, not {}", index.shape());
            return Err(Error::shape(op, &[self.shape(), index.shape()], why).operand(self).operand(index));
        }
        index.check_index(op)
    }

    /// A vector of places along an axis as an index of the shape that `gather` and `scatter` take.
    #[track_caller]
    pub(crate) fn row_index(&self, op: &str, a: usize, index: &Tensor) -> Result<Tensor> {
        self.check_rows(op, a, index)?;
        let n = index.numel();
        let along: Shape = (0..self.rank()).map(|d| if d == a { n } else { 1 }).collect();
        Ok(index.as_index(op)?.reshape_to(&along).expand_to(&self.shape().with(a, n)))
    }

    /// The places `index` (a vector) of an axis.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    /// let rows = x.index_select(0, &Tensor::from([2i64, 0])).unwrap();
    /// assert_eq!(rows.to_vec::<i32>().unwrap(), [5, 6, 1, 2]);
    /// ```
    #[track_caller]
    pub fn index_select(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let a = axis("index_select", dim, self.rank())?;
        if self.rank() == 0 {
            if index.numel() != 1 || index.rank() > 1 {
                let why = format!("a scalar has one place, not {}", index.shape());
                return Err(Error::shape("index_select", &[self.shape(), index.shape()], why).operand(self));
            }
            return Ok(self.ravel().index_select(0, index)?.reshape_to(self.shape()));
        }
        self.check_rows("index_select", a, index)?;
        if self.is_table(a) && index.numel() > 0 {
            // Whole rows.
            let rows = self.reshape_to(&[self.dims()[0], self.numel() / self.dims()[0]].into());
            return Ok(rows.embedding(&index.ravel())?.reshape_to(&self.shape().with(a, index.numel())));
        }
        self.gather(a as i64, &self.row_index("index_select", a, index)?)
    }

    /// Whether places of this axis are rows of a table that the backend has routines for.
    fn is_table(&self, a: usize) -> bool {
        a == 0
            && self.rank() > 1
            && self.numel() > 0
            && self.device().backend().limits().row_tables.contains(&self.dtype())
    }

    /// The source of a write into places of an axis, checked.
    #[track_caller]
    pub(crate) fn row_source(&self, op: &str, a: usize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let n = index.numel();
        let source = if source.rank() == 0 && self.rank() == 1 && n == 1 { source.ravel() } else { source.resolve() };
        source.fitted(op, self, &self.shape().with(a, n))
    }

    /// A copy with `alpha * source` added at the places `index` of an axis.
    #[track_caller]
    pub fn index_add(&self, dim: i64, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let a = axis("index_add", dim, self.rank())?;
        if self.rank() == 0 {
            return Ok(self.ravel().index_add(0, index, &source.atleast_1d(), alpha)?.reshape_to(self.shape()));
        }
        let source = self.row_source("index_add", a, index, source)?;
        let alpha = alpha.into();
        let scaled = if alpha.f64() == 1.0 { source } else { (&source * alpha).to_dtype(self.dtype()) };
        self.check_rows("index_add", a, index)?;
        if self.is_table(a) && index.numel() > 0 && matches!(self.dtype(), DType::F32 | DType::F64) {
            let (rows, width) = (self.dims()[0], self.numel() / self.dims()[0]);
            let flat = [scaled.reshape_to(&[index.numel(), width].into()), index.as_index("index_add")?.ravel()];
            let op = Op::Host(HostOp::AddRows);
            if self.device().backend().limits().layouts {
                let base = self.reshape_to(&[rows, width].into());
                let inputs = [&flat[0], &flat[1], &base];
                return Ok(self.make(op, &inputs, [rows, width].into(), self.dtype()).reshape_to(self.shape()));
            }
            let sums = self.make(op, &[&flat[0], &flat[1]], [rows, width].into(), self.dtype());
            return Ok(self + &sums.reshape_to(self.shape()));
        }
        if self.device() == Device::cpu() && index.numel() > 0 && self.dtype() != DType::Bool {
            // One index for whole rows, instead of one for every element.
            return Ok(self.scatter_rows(ScatterMode::Add, a, &index.as_index("index_add")?, &scaled));
        }
        self.scatter_add(a as i64, &self.row_index("index_add", a, index)?, &scaled)
    }

    /// A copy with rows combined in at the places `index` of an axis, a vector of i64. The source is of the shape of all
    /// these rows, or one number.
    #[track_caller]
    pub(crate) fn scatter_rows(&self, mode: ScatterMode, a: usize, index: &Tensor, source: &Tensor) -> Tensor {
        let along: Shape = (0..self.rank()).map(|d| if d == a { index.numel() } else { 1 }).collect();
        let source = match (source.rank(), index.numel()) {
            // One place and one number would be one element.
            (0, 1) => source.expand_to(&self.shape().with(a, 1)),
            (0, _) => source.reshape_to(&vec![1; self.rank()].into()),
            _ => source.resolve(),
        };
        let op = Op::Host(HostOp::Scatter { axis: a, mode });
        self.make(op, &[self, &index.reshape_to(&along), &source], self.shape().clone(), self.dtype())
    }

    /// A copy with `source` written at the places `index` of an axis; the last of several stays.
    #[track_caller]
    pub fn index_copy(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let a = axis("index_copy", dim, self.rank())?;
        if self.rank() == 0 {
            return Ok(self.ravel().index_copy(0, index, &source.atleast_1d())?.reshape_to(self.shape()));
        }
        let source = self.row_source("index_copy", a, index, source)?;
        self.check_rows("index_copy", a, index)?;
        Ok(self.scatter_rows(ScatterMode::Assign, a, &index.as_index("index_copy")?, &source))
    }

    /// A copy with one number at the places `index` of an axis. Negative places count from the end.
    #[track_caller]
    pub fn index_fill(&self, dim: i64, index: &Tensor, value: impl crate::api::arith::Operand) -> Result<Tensor> {
        let a = axis("index_fill", dim, self.rank())?;
        let value = value.tensor(self).to_dtype(self.dtype());
        if value.rank() > 0 {
            let why = format!("needs one number, not {}", value.shape());
            return Err(Error::shape("index_fill", &[self.shape(), value.shape()], why).operand(self).operand(&value));
        }
        if self.rank() == 0 {
            return Ok(self.ravel().index_fill(0, index, &value)?.reshape_to(self.shape()));
        }
        let index = wrapped(&index.as_index("index_fill")?, self.dims()[a]);
        self.check_rows("index_fill", a, &index)?;
        same_device("index_fill", &[self, &value])?;
        Ok(self.scatter_rows(ScatterMode::Assign, a, &index, &value))
    }

    /// A copy with one number at `index` along `dim`.
    #[track_caller]
    pub fn scatter_value(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let value = Tensor::constant(value.into(), self.dtype(), self.device());
        self.scatter(dim, index, &value.expand_to(index.shape()))
    }

    /// Elements of the row-major order at `index`, negative from the end, in the shape of the index.
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        same_device("take", &[self, index])?;
        let i = wrapped(&index.as_index("take")?, self.numel());
        if self.numel() == 0 && index.numel() > 0 {
            let why = format!("nothing can be taken from {}", self.shape());
            return Err(Error::new("take", crate::ErrorKind::Empty(why)).operand(self).operand(index));
        }
        Ok(self.ravel().gather(0, &i.ravel())?.reshape_to(index.shape()))
    }

    /// A copy with `source` written, or added, at positions of the row-major order, negative from the end.
    #[track_caller]
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        if index.numel() != source.numel() {
            let why = format!("{} places for {} elements", index.numel(), source.numel());
            let e = Error::shape("put", &[self.shape(), index.shape(), source.shape()], why);
            return Err(e.operand(self).operand(index).operand(source));
        }
        let i = wrapped(&index.as_index("put")?, self.numel()).ravel();
        let (flat, source) = (self.ravel(), source.ravel());
        let done = if accumulate { flat.scatter_add(0, &i, &source)? } else { flat.scatter(0, &i, &source)? };
        Ok(done.reshape_to(self.shape()))
    }

    /// As [`Tensor::gather`], where the other axes broadcast and negative places count from the end; without an axis, of the flat elements.
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor, dim: Option<i64>) -> Result<Tensor> {
        let Some(dim) = dim else {
            let index = wrapped(&index.as_index("take_along_dim")?, self.numel());
            return self.ravel().gather(0, &index.ravel());
        };
        let a = axis("take_along_dim", dim, self.rank())?;
        let (own, other) = (self.shape(), index.shape());
        let fail = || {
            let why = format!("{other} does not broadcast with {own} beside axis {a}");
            Error::shape("take_along_dim", &[own, other], why).operand(self).operand(index)
        };
        if own.rank() != other.rank() || own.rank() == 0 {
            return Err(fail());
        }
        let common = own.with(a, 1).broadcast(&other.with(a, 1)).ok_or_else(fail)?;
        let x = self.expand_to(&common.with(a, own[a]));
        let index = wrapped(&index.as_index("take_along_dim")?, own[a]);
        x.gather(a as i64, &index.expand_to(&common.with(a, other[a])))
    }
}
