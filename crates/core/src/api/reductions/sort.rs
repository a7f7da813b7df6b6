//! Sorting, selecting by rank, and searching what is sorted.

use crate::api::{axis, promote, same_device};
use crate::{
    DType, Error, Result, Shape, Tensor,
    op::{HostOp, Op, Rank},
};

impl Tensor {
    /// The stable order of a checked axis; NaN counts as largest.
    #[track_caller]
    pub(crate) fn order(&self, axis: usize, descending: bool) -> Tensor {
        let x = self.detach();
        if x.rank() == 0 {
            return Tensor::zeros_on(Shape::default(), DType::I64, x.device());
        }
        x.make(Op::Host(HostOp::Argsort { axis, descending }), &[&x], x.shape().clone(), DType::I64)
    }

    /// Where the first `k` of that order are; `k` is no more than the axis has, of which there is one.
    #[track_caller]
    fn top(&self, axis: usize, k: usize, largest: bool) -> Tensor {
        let x = self.detach();
        x.make(Op::Host(HostOp::Topk { axis, k, largest }), &[&x], x.shape().with(axis, k), DType::I64)
    }

    /// Where the element of a rank is in that order; of the axis, which has elements, one position stays.
    #[track_caller]
    pub(crate) fn selected(&self, axis: usize, rank: Rank) -> Tensor {
        let x = self.detach();
        x.make(Op::Host(HostOp::Select { axis, rank }), &[&x], x.shape().with(axis, 1), DType::I64)
    }

    /// Positions that sort an axis; equal elements stay in order, NaN counts as largest.
    #[track_caller]
    pub fn argsort(&self, dim: i64, descending: bool) -> Result<Tensor> {
        Ok(self.order(axis("argsort", dim, self.rank())?, descending))
    }

    /// The elements of an axis in order, and where each came from; equal elements stay in order.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (v, i) = Tensor::from([3.0f32, 1.0, 2.0]).sort(0, true).unwrap();
    /// assert_eq!(v.to_vec::<f32>().unwrap(), [3.0, 2.0, 1.0]);
    /// assert_eq!(i.to_vec::<i64>().unwrap(), [0, 2, 1]);
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
        let a = axis("sort", dim, self.rank())?;
        let at = self.order(a, descending);
        Ok((self.gather(a as i64, &at)?, at))
    }

    /// Sorted along the first axis.
    #[track_caller]
    pub fn msort(&self) -> Result<Tensor> {
        Ok(self.sort(0, false)?.0)
    }

    /// The `k` largest (or smallest) elements of an axis, best first, and where they are.
    #[track_caller]
    pub fn topk(&self, k: usize, dim: i64, largest: bool) -> Result<(Tensor, Tensor)> {
        let a = axis("topk", dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if k > n {
            let why = format!("cannot take {k} of the {n} elements of axis {a} of {}", self.shape());
            return Err(Error::value("topk", why).operand(self));
        }
        if self.rank() == 0 {
            // A scalar counts as a vector of one, as in PyTorch.
            let (v, i) = self.reshape_to(&Shape::from(1)).topk(k, 0, largest)?;
            return if k == 1 { Ok((v.squeeze(0)?, i.squeeze(0)?)) } else { Ok((v, i)) };
        }
        let at = self.top(a, k, largest);
        Ok((self.gather(a as i64, &at)?, at))
    }

    /// The `k`-th smallest element of an axis (counted from 1), and where it is.
    #[track_caller]
    pub fn kthvalue(&self, k: usize, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let a = axis("kthvalue", dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if k == 0 || k > n {
            let why = format!("k must be 1..={n} for axis {a} of {}, not {k}", self.shape());
            return Err(Error::value("kthvalue", why).operand(self));
        }
        let at = if self.rank() == 0 { self.order(a, false) } else { self.selected(a, Rank::At(k - 1)) };
        self.taken("kthvalue", dim, &at, keepdim)
    }

    /// For this sorted vector (or rows of them), where each of `values` would be put in: before equal elements, or
    /// after them with `right`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let at = Tensor::from([1, 3, 5]).searchsorted(&Tensor::from([3, 6]), false).unwrap();
    /// assert_eq!(at.to_vec::<i64>().unwrap(), [1, 3]);
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        self.search("searchsorted", values, right)
    }

    #[track_caller]
    fn search(&self, name: &str, values: &Tensor, right: bool) -> Result<Tensor> {
        same_device(name, &[self, values])?;
        let r = self.rank();
        let fits = match r {
            0 => false,
            1 => true,
            _ => values.rank() == r && values.dims()[..r - 1] == self.dims()[..r - 1],
        };
        if !fits {
            let why = format!(
                "the sorted tensor must be a vector, or agree with the values in all axes but the last: {} and {}",
                self.shape(),
                values.shape()
            );
            return Err(Error::shape(name, &[self.shape(), values.shape()], why).operand(self).operand(values));
        }
        let d = promote(self, values);
        let (rows, v) = (self.detach().to_dtype(d), values.detach().to_dtype(d));
        let v = if r == 1 { v.reshape_to(&Shape::from(v.numel())) } else { v };
        let at = rows.make(Op::Host(HostOp::SearchSorted { right }), &[&rows, &v], v.shape().clone(), DType::I64);
        Ok(at.reshape_to(values.shape()))
    }

    /// The number of the bucket between sorted `boundaries` that each element falls in; a boundary belongs to the
    /// bucket on its left, or with `right` to the one on its right.
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        if boundaries.rank() != 1 {
            let why = format!("boundaries must be a vector, not {}", boundaries.shape());
            return Err(Error::shape("bucketize", &[boundaries.shape()], why).operand(boundaries));
        }
        boundaries.search("bucketize", self, right)
    }

    /// Where elements occur in `test`.
    #[track_caller]
    pub fn isin(&self, test: &Tensor) -> Result<Tensor> {
        same_device("isin", &[self, test])?;
        if test.numel() == 0 {
            return Ok(Tensor::zeros_on(self.shape().clone(), DType::Bool, self.device()));
        }
        let d = promote(self, test);
        let (x, n) = (self.detach().to_dtype(d).reshape_to(&Shape::from(self.numel())), test.numel());
        let (known, _) = test.detach().to_dtype(d).reshape_to(&Shape::from(n)).sort(0, false)?;
        // NaNs come last and equal nothing: as infinities they keep the order that searching needs.
        let line = if d.is_float() { known.with_constant(&known.isnan(), f64::INFINITY) } else { known.clone() };
        // Beyond the last one is no position: the last is compared, and differs.
        let at = line.search("isin", &x, false)?.minimum(n as i64 - 1)?;
        Ok(known.gather(0, &at)?.raw_eq(&x).reshape_to(self.shape()))
    }
}
