//! Running sums, products and extrema along an axis.

use crate::api::{axis, layout};
use crate::{
    DType, Result, Tensor,
    op::{HostOp, Op, ScanOp},
};

use std::panic::Location;

impl Tensor {
    #[track_caller]
    pub(super) fn scan(&self, op: ScanOp, axis: usize, dtype: DType) -> Tensor {
        let made =
            |x: &Tensor, axis: usize| x.make(Op::Host(HostOp::Scan { op, axis }), &[x], x.shape().clone(), dtype);
        let beneath = layout::beneath(std::slice::from_ref(self), Location::caller(), |under, order| {
            Ok(made(&under[0], order[axis]))
        });
        beneath.and_then(Result::ok).unwrap_or_else(|| made(self, axis))
    }

    /// Integers and bools run as i64, 16-bit floats inside `autocast` as f32.
    #[track_caller]
    fn scannable(&self, float: bool) -> Tensor {
        match (self.dtype().is_float(), float) {
            (true, _) => self.high(),
            (false, true) => self.to_dtype(DType::F32),
            (false, false) => self.to_dtype(DType::I64),
        }
    }

    /// Running sum.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0).unwrap().to_vec::<i64>().unwrap(), [1, 3, 6]);
    /// ```
    #[track_caller]
    pub fn cumsum(&self, dim: i64) -> Result<Tensor> {
        let a = axis("cumsum", dim, self.rank())?;
        let x = self.scannable(false);
        Ok(if x.rank() == 0 { x } else { x.scan(ScanOp::Sum, a, x.dtype()) })
    }

    /// Running product.
    #[track_caller]
    pub fn cumprod(&self, dim: i64) -> Result<Tensor> {
        let a = axis("cumprod", dim, self.rank())?;
        let x = self.scannable(false);
        Ok(if x.rank() == 0 { x } else { x.scan(ScanOp::Prod, a, x.dtype()) })
    }

    /// Running log of the sum of exponentials.
    #[track_caller]
    pub fn logcumsumexp(&self, dim: i64) -> Result<Tensor> {
        let a = axis("logcumsumexp", dim, self.rank())?;
        let x = self.scannable(true);
        Ok(if x.rank() == 0 { x } else { x.scan(ScanOp::LogSumExp, a, x.dtype()) })
    }

    /// Running maximum and where it was.
    #[track_caller]
    pub fn cummax(&self, dim: i64) -> Result<(Tensor, Tensor)> {
        self.cumextremum("cummax", [ScanOp::Max, ScanOp::ArgMax], dim)
    }

    /// Running minimum and where it was.
    #[track_caller]
    pub fn cummin(&self, dim: i64) -> Result<(Tensor, Tensor)> {
        self.cumextremum("cummin", [ScanOp::Min, ScanOp::ArgMin], dim)
    }

    #[track_caller]
    fn cumextremum(&self, name: &str, [values, places]: [ScanOp; 2], dim: i64) -> Result<(Tensor, Tensor)> {
        let a = axis(name, dim, self.rank())?;
        if self.rank() == 0 {
            return Ok((self.resolve(), Tensor::zeros_on(self.shape().clone(), DType::I64, self.device())));
        }
        // Twice through `x` is faster than looking up what the positions name, and each is done only if it is read.
        Ok((self.scan(values, a, self.dtype()), self.scan(places, a, DType::I64)))
    }
}
