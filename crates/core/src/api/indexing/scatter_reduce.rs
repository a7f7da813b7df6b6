//! Scattering with a reduction where several elements land on one.

use crate::api::axis;
use crate::{DType, Result, Scalar, Tensor, op::ReduceOp, op::ScatterMode};

/// How elements that land on one place are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduction {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean; integers round down.
    Mean,
    /// The largest.
    Amax,
    /// The smallest.
    Amin,
}

impl Tensor {
    /// A copy with `src` combined in at `index` along `dim`; without `include_self`, what was there does not count.
    ///
    /// ```
    /// use gradus_core::{ScatterReduction, Tensor};
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let (at, src) = (Tensor::from([0i64, 0, 2]), Tensor::from([4.0f32, 6.0, 9.0]));
    /// let y = x.scatter_reduce(0, &at, &src, ScatterReduction::Mean, false).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 2.0, 9.0]);
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        dim: i64,
        index: &Tensor,
        src: &Tensor,
        reduce: ScatterReduction,
        include_self: bool,
    ) -> Result<Tensor> {
        let a = axis("scatter_reduce", dim, self.rank())? as i64;
        let (mode, identity) = match reduce {
            ScatterReduction::Sum | ScatterReduction::Mean => (ScatterMode::Add, Scalar::I(0)),
            ScatterReduction::Prod => (ScatterMode::Mul, Scalar::I(1)),
            ScatterReduction::Amax => (ScatterMode::Max, lowest(ReduceOp::Max, self.dtype())),
            ScatterReduction::Amin => (ScatterMode::Min, lowest(ReduceOp::Min, self.dtype())),
        };
        let base = if include_self {
            self.resolve()
        } else {
            // Where something lands, the combination starts from nothing.
            let hit = self.full_like(0).bool().scatter_value(a, index, true)?;
            hit.raw_where(&self.full_like(identity), self)
        };
        let out = base.scatter_mode("scatter_reduce", mode, a, index, src)?;
        if reduce != ScatterReduction::Mean {
            return Ok(out);
        }
        let count = if self.dtype().is_float() { self.dtype() } else { DType::I64 };
        let start = Tensor::full_on(self.shape().clone(), Scalar::I(include_self as i64), count, self.device());
        let ones = Tensor::full_on(index.shape().clone(), Scalar::I(1), count, self.device());
        let n = start.scatter_add(a, index, &ones)?;
        let n = n.maximum(1)?;
        Ok(if self.dtype().is_float() { out / n } else { out.floor_divide(&n)?.to_dtype(self.dtype()) })
    }

    /// As [`Tensor::scatter_reduce`] for whole places of an axis: `index` is a vector.
    #[track_caller]
    pub fn index_reduce(
        &self,
        dim: i64,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduction,
        include_self: bool,
    ) -> Result<Tensor> {
        let a = axis("index_reduce", dim, self.rank())?;
        if self.rank() == 0 {
            let one = self.ravel().index_reduce(0, index, &source.atleast_1d(), reduce, include_self)?;
            return Ok(one.reshape_to(self.shape()));
        }
        let source = self.row_source("index_reduce", a, index, source)?;
        let index = self.row_index("index_reduce", a, index)?;
        self.scatter_reduce(a as i64, &index, &source, reduce, include_self)
    }
}

/// What an extremum starts from in the element type itself (i64's ends do not fit a narrower integer).
fn lowest(op: ReduceOp, dtype: DType) -> Scalar {
    let ends = match dtype {
        DType::U8 => Some((0, u8::MAX as i64)),
        DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
        DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
        DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
        DType::Bool | DType::I64 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
    };
    match ends {
        Some((low, high)) => Scalar::I(if op == ReduceOp::Max { low } else { high }),
        None => op.identity(dtype),
    }
}
