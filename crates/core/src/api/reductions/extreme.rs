//! The largest and the smallest, and where they are.

use crate::api::axis;
use crate::{
    Axes, DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Composite, ReduceOp},
};
use smallvec::smallvec;

impl Tensor {
    /// `0, 1, 2, ...` along one axis of this tensor, extent 1 elsewhere.
    #[track_caller]
    pub(crate) fn positions(&self, axis: usize) -> Tensor {
        let n = self.dims()[axis];
        let shape: Shape = (0..self.rank()).map(|d| if d == axis { n } else { 1 }).collect();
        Tensor::arange_on(n, self.device()).reshape_to(&shape)
    }

    /// Where the first largest (or smallest) element of an axis is, the axis kept. NaN beats every number.
    #[track_caller]
    fn arg_extreme(&self, name: &str, op: ReduceOp, dim: i64) -> Result<Tensor> {
        self.place_of_extreme(name, op, dim, true)
    }

    /// The same, the axis kept or not.
    #[track_caller]
    fn place_of_extreme(&self, name: &str, op: ReduceOp, dim: i64, keepdim: bool) -> Result<Tensor> {
        static ARGMAX: Composite = Composite { name: "argmax", build: |x, at| x[0].first_extreme(ReduceOp::Max, at) };
        static ARGMIN: Composite = Composite { name: "argmin", build: |x, at| x[0].first_extreme(ReduceOp::Min, at) };
        let a = axis(name, dim, self.rank())?;
        if self.rank() == 0 {
            return Ok(Tensor::zeros_on(Shape::default(), DType::I64, self.device()));
        }
        self.not_empty(name, &[a])?;
        let of = if op == ReduceOp::Max { &ARGMAX } else { &ARGMIN };
        let shape = if keepdim { self.shape().with(a, 1) } else { self.shape().without(a) };
        if self.dims()[a] == 1 {
            // The only one is at place zero, whatever it is.
            return Ok(Tensor::zeros_on(shape, DType::I64, self.device()));
        }
        Ok(Tensor::composed(of, &[&self.detach()], &[a as u64, keepdim as u64], shape, DType::I64))
    }

    /// The definition; `at` is the axis, and whether it stays.
    #[track_caller]
    fn first_extreme(&self, op: ReduceOp, at: &[u64]) -> Tensor {
        let (x, a) = (self, at[0] as usize);
        let best = x.reduce_keep(op, smallvec![a]);
        let mut hit = x.raw_eq(&best);
        if x.dtype().is_float() {
            // The best is NaN as soon as one element is, and NaN equals nothing.
            hit = hit.raw_or(&x.isnan());
        }
        let places = x.positions(a);
        let none = Tensor::constant(crate::Scalar::I(i64::MAX), DType::I64, x.device());
        hit.raw_where(&places, &none).reduce_keep(ReduceOp::Min, smallvec![a]).drop_axis(a, at[1] == 1)
    }

    /// An axis of extent 1 gone, unless it is to stay.
    #[track_caller]
    pub(crate) fn drop_axis(&self, axis: usize, keepdim: bool) -> Tensor {
        if keepdim || self.rank() == 0 { self.resolve() } else { self.reshape_to(&self.shape().without(axis)) }
    }

    /// The position of the first largest element in row-major order; a NaN counts as largest.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([1, 7, 7]).argmax().unwrap().item::<i64>().unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn argmax(&self) -> Result<Tensor> {
        self.reshape_to(&Shape::from(self.numel())).place_of_extreme("argmax", ReduceOp::Max, 0, false)
    }

    /// The position of the first smallest element in row-major order; a NaN counts as smallest.
    #[track_caller]
    pub fn argmin(&self) -> Result<Tensor> {
        self.reshape_to(&Shape::from(self.numel())).place_of_extreme("argmin", ReduceOp::Min, 0, false)
    }

    /// Positions of the first largest elements along an axis.
    #[track_caller]
    pub fn argmax_dim(&self, dim: i64, keepdim: bool) -> Result<Tensor> {
        self.place_of_extreme("argmax", ReduceOp::Max, dim, keepdim)
    }

    /// Positions of the first smallest elements along an axis.
    #[track_caller]
    pub fn argmin_dim(&self, dim: i64, keepdim: bool) -> Result<Tensor> {
        self.place_of_extreme("argmin", ReduceOp::Min, dim, keepdim)
    }

    /// The largest of all elements; ties share the gradient.
    #[track_caller]
    pub fn max(&self) -> Result<Tensor> {
        self.over_all("max", ReduceOp::Max)
    }

    /// The smallest of all elements; ties share the gradient.
    #[track_caller]
    pub fn min(&self) -> Result<Tensor> {
        self.over_all("min", ReduceOp::Min)
    }

    #[track_caller]
    fn over_all(&self, name: &str, op: ReduceOp) -> Result<Tensor> {
        if self.numel() == 0 {
            let why = format!("nothing to choose from: shape {} has no elements", self.shape());
            return Err(Error::new(name, ErrorKind::Empty(why)).operand(self));
        }
        Ok(self.reduce_dims(op, (0..self.rank()).collect(), false))
    }

    /// The largest elements along an axis and their positions; the gradient goes to those positions.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (v, i) = Tensor::from([[1.0f32, 5.0], [8.0, 2.0]]).max_dim(1, false).unwrap();
    /// assert_eq!(v.to_vec::<f32>().unwrap(), [5.0, 8.0]);
    /// assert_eq!(i.to_vec::<i64>().unwrap(), [1, 0]);
    /// ```
    #[track_caller]
    pub fn max_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.extreme_and_place("max", ReduceOp::Max, dim, keepdim)
    }

    /// The smallest elements along an axis and their positions; the gradient goes to those positions.
    #[track_caller]
    pub fn min_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        self.extreme_and_place("min", ReduceOp::Min, dim, keepdim)
    }

    /// The elements at one position a lane, and the positions; both without the axis unless it is to stay.
    #[track_caller]
    pub(crate) fn taken(&self, name: &str, dim: i64, at: &Tensor, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let a = axis(name, dim, self.rank())?;
        if self.rank() == 0 {
            return Ok((self.resolve(), at.clone()));
        }
        Ok((self.gather(a as i64, at)?.drop_axis(a, keepdim), at.drop_axis(a, keepdim)))
    }

    /// The extreme elements and their positions.
    #[track_caller]
    fn extreme_and_place(&self, name: &str, op: ReduceOp, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let at = self.arg_extreme(name, op, dim)?;
        if self.rank() == 0 || self.requires_grad() {
            return self.taken(name, dim, &at, keepdim);
        }
        // Known from looking for the place; a look-up would only be for the gradient.
        let a = axis(name, dim, self.rank())?;
        Ok((self.reduce_keep(op, smallvec![a]).drop_axis(a, keepdim), at.drop_axis(a, keepdim)))
    }

    /// The smallest and the largest over axes (`..` for all); ties share the gradient.
    #[track_caller]
    pub fn aminmax(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let dim = dim.into();
        Ok((self.amin(dim.clone(), keepdim)?, self.amax(dim, keepdim)?))
    }
}
