//! Medians, quantiles and modes.

use crate::api::{arith::Operand, axis};
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor, is_grad_enabled,
    op::{HostOp, Op, Rank, ReduceOp},
};
use smallvec::{SmallVec, smallvec};

/// What a quantile between two elements is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// On the straight line between them.
    #[default]
    Linear,
    /// The smaller.
    Lower,
    /// The larger.
    Higher,
    /// Half way.
    Midpoint,
    /// The nearer, by rank; halves to even.
    Nearest,
}

impl Tensor {
    /// Where the lower median of an axis is, the axis kept. A NaN is the median, or is passed over.
    #[track_caller]
    fn median_at(&self, name: &str, dim: i64, skip_nan: bool) -> Result<Tensor> {
        let a = axis(name, dim, self.rank())?;
        if self.rank() == 0 {
            return Ok(self.order(a, false));
        }
        self.not_empty(name, &[a])?;
        Ok(self.selected(a, if skip_nan { Rank::NanMedian } else { Rank::Median }))
    }

    /// The lower median of all elements; NaN if there is one. Ties share the gradient.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([4.0f32, 1.0, 3.0, 2.0]).median().unwrap().item::<f32>().unwrap(), 2.0);
    /// ```
    #[track_caller]
    pub fn median(&self) -> Result<Tensor> {
        self.median_of_all("median", false)
    }

    /// The lower median of all elements that are not NaN. Ties share the gradient.
    #[track_caller]
    pub fn nanmedian(&self) -> Result<Tensor> {
        self.median_of_all("nanmedian", true)
    }

    #[track_caller]
    fn median_of_all(&self, name: &str, skip_nan: bool) -> Result<Tensor> {
        let flat = self.reshape_to(&Shape::from(self.numel()));
        if flat.numel() == 0 && self.dtype().is_float() {
            return Ok(self.scalar_like(f64::NAN)); // as in PyTorch
        }
        let at = flat.median_at(name, 0, skip_nan)?;
        let (value, _) = flat.detach().taken(name, 0, &at, false)?;
        if !(self.dtype().is_float() && is_grad_enabled() && self.requires_grad()) {
            return Ok(value);
        }
        // The maximum of what equals it is the same number, and spreads its gradient over all of them.
        let hit = flat.raw_eq(&value).raw_or(&value.isnan().raw_and(&flat.isnan()));
        Ok(hit.raw_where(&flat, &flat.scalar_like(f64::NEG_INFINITY)).reduce_dims(ReduceOp::Max, smallvec![0], false))
    }

    /// Lower medians along an axis and where they are; NaN where there is one.
    #[track_caller]
    pub fn median_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.taken("median", dim, &self.median_at("median", dim, false)?, keepdim)
    }

    /// Lower medians of the elements that are not NaN along an axis, and where they are.
    #[track_caller]
    pub fn nanmedian_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.taken("nanmedian", dim, &self.median_at("nanmedian", dim, true)?, keepdim)
    }

    /// The most frequent elements along an axis (the smallest of equally frequent ones), and where they are last.
    #[track_caller]
    pub fn mode(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let a = axis("mode", dim, self.rank())?;
        if self.rank() == 0 {
            return self.taken("mode", dim, &self.order(a, false), keepdim);
        }
        self.not_empty("mode", &[a])?;
        let x = self.detach().transpose(a as i64, -1)?;
        let last = x.rank() - 1;
        let at = x.make(Op::Host(HostOp::Mode), &[&x], x.shape().with(last, 1), DType::I64);
        self.taken("mode", dim, &at.transpose(a as i64, -1)?, keepdim)
    }

    /// The `q`-quantiles of all elements: `q` between 0 and 1, a number or a vector of several.
    ///
    /// ```
    /// use gradus_core::{Interpolation, Tensor};
    /// let x = Tensor::from([1.0f64, 2.0, 3.0, 10.0]);
    /// assert_eq!(x.quantile(0.5, Interpolation::Linear).unwrap().item::<f64>().unwrap(), 2.5);
    /// ```
    #[track_caller]
    pub fn quantile(&self, q: impl Operand, how: Interpolation) -> Result<Tensor> {
        self.reshape_to(&Shape::from(self.numel())).quantiles("quantile", &q.tensor(self), 0, false, how, false)
    }

    /// The `q`-quantiles along an axis; several quantiles become a new first axis.
    #[track_caller]
    pub fn quantile_dim(&self, q: impl Operand, dim: i64, keepdim: bool, how: Interpolation) -> Result<Tensor> {
        self.quantiles("quantile", &q.tensor(self), dim, keepdim, how, false)
    }

    /// The `q`-quantiles of all elements that are not NaN.
    #[track_caller]
    pub fn nanquantile(&self, q: impl Operand, how: Interpolation) -> Result<Tensor> {
        self.reshape_to(&Shape::from(self.numel())).quantiles("nanquantile", &q.tensor(self), 0, false, how, true)
    }

    /// The `q`-quantiles along an axis of the elements that are not NaN.
    #[track_caller]
    pub fn nanquantile_dim(&self, q: impl Operand, dim: i64, keepdim: bool, how: Interpolation) -> Result<Tensor> {
        self.quantiles("nanquantile", &q.tensor(self), dim, keepdim, how, true)
    }

    #[track_caller]
    fn quantiles(
        &self,
        name: &str,
        q: &Tensor,
        dim: i64,
        keepdim: bool,
        how: Interpolation,
        skip_nan: bool,
    ) -> Result<Tensor> {
        if self.numel() == 0 {
            let why = format!("nothing to choose from: shape {} has no elements", self.shape());
            return Err(Error::new(name, ErrorKind::Empty(why)).operand(self));
        }
        if q.rank() > 1 {
            let why = format!("q must be a number or a vector, not {}", q.shape());
            return Err(Error::shape(name, &[q.shape()], why).operand(self).operand(q));
        }
        crate::api::same_device(name, &[self, q])?;
        if let Some(bad) = q.to_vec::<f64>()?.into_iter().find(|q| !(0.0..=1.0).contains(q)) {
            return Err(Error::value(name, format!("q must be between 0 and 1, not {bad}")).operand(self).operand(q));
        }
        let a = axis(name, dim, self.rank())?;
        let (rank, last) = (self.rank().max(1), self.rank().max(1) - 1);
        let x = if self.rank() == 0 { self.reshape_to(&Shape::from(1)) } else { self.resolve() };
        let half = matches!(x.dtype(), DType::F16 | DType::BF16);
        let x = if half { x.to_dtype(DType::F32) } else { x.floated() };
        // The axis goes last, and the several quantiles take its place.
        let order: SmallVec<[usize; 6]> = (0..rank).filter(|&d| d != a).chain([a]).collect();
        let (sorted, _) = x.permuted(order).sort(-1, false)?;
        let n = sorted.dims()[last] as f64;
        let q = q.to_dtype(x.dtype());
        let nans = sorted.detach().isnan().to_dtype(x.dtype()).sum_dim(-1, true)?;
        let zero = x.scalar_like(0.0);
        let ranks = if skip_nan {
            let r = (n - 1.0 - &nans) * &q;
            let below = zero.raw_gt(&r);
            r.with_constant(&below, 0.0)
        } else {
            // A NaN is last in order: every rank goes there.
            nans.raw_gt(&zero).raw_where(&x.scalar_like(n - 1.0), &(&q * (n - 1.0)))
        };
        let at = |r: Tensor| sorted.gather(-1, &r.detach().to_dtype(DType::I64));
        let found = match how {
            Interpolation::Lower => at(ranks.floor())?,
            Interpolation::Higher => at(ranks.ceil())?,
            Interpolation::Nearest => at(ranks.round())?,
            Interpolation::Midpoint => at(ranks.floor())?.lerp(&at(ranks.ceil())?, 0.5)?,
            Interpolation::Linear => {
                let below = ranks.floor();
                at(below.clone())?.lerp(&at(ranks.ceil())?, &(&ranks - below))?
            }
        };
        let found = found.permuted(std::iter::once(last).chain(0..last).collect());
        let kept = keepdim && self.rank() > 0;
        let tail = x.reduced_shape(&[a], kept);
        let shape: Shape = q.shape().iter().chain(tail.iter()).copied().collect();
        Ok(found.reshape_to(&shape).to_dtype(if half { self.dtype() } else { x.dtype() }))
    }
}
