//! Axes in another order, number or direction: what needs no new elements.

use crate::api::axis;
use crate::{Axes, Error, ErrorKind, Result, Shape, Tensor};
use smallvec::SmallVec;

impl Tensor {
    /// Axes `source` moved to the places `destination`; the others keep their order.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.movedim(0, -1).unwrap().dims(), [3, 4, 2]);
    /// ```
    #[track_caller]
    pub fn movedim(&self, source: impl Into<Axes>, destination: impl Into<Axes>) -> Result<Tensor> {
        let (from, to) = (self.named("movedim", &source.into())?, self.named("movedim", &destination.into())?);
        if from.len() != to.len() {
            let why = format!("{} axes cannot move to {} places", from.len(), to.len());
            return Err(Error::value("movedim", why).operand(self));
        }
        let mut rest = (0..self.rank()).filter(|a| !from.contains(a));
        let place = |i: usize| to.iter().position(|&t| t == i).map(|k| from[k]);
        Ok(self.permuted((0..self.rank()).filter_map(|i| place(i).or_else(|| rest.next())).collect()))
    }

    /// Positions in the order they were named, without repetition.
    #[track_caller]
    pub(crate) fn named(&self, op: &str, axes: &Axes) -> Result<SmallVec<[usize; 6]>> {
        let Axes::List(list) = axes else { return Ok((0..self.rank()).collect()) };
        let mut out: SmallVec<[usize; 6]> = SmallVec::new();
        for &a in list {
            let p = axis(op, a, self.rank())?;
            if out.contains(&p) {
                let why = "is named twice".into();
                return Err(Error::new(op, ErrorKind::Axis { axis: a, rank: self.rank(), why }).operand(self));
            }
            if self.rank() > 0 {
                out.push(p);
            }
        }
        Ok(out)
    }

    /// NumPy's name for [`Tensor::movedim`].
    #[track_caller]
    pub fn moveaxis(&self, source: impl Into<Axes>, destination: impl Into<Axes>) -> Result<Tensor> {
        self.movedim(source, destination)
    }

    /// NumPy's name for [`Tensor::transpose`].
    #[track_caller]
    pub fn swapaxes(&self, a: i64, b: i64) -> Result<Tensor> {
        self.transpose(a, b)
    }

    /// Another name for [`Tensor::transpose`].
    #[track_caller]
    pub fn swapdims(&self, a: i64, b: i64) -> Result<Tensor> {
        self.transpose(a, b)
    }

    /// All axes in reverse order.
    #[track_caller]
    #[allow(non_snake_case)] // PyTorch's name
    pub fn T(&self) -> Tensor {
        self.permuted((0..self.rank()).rev().collect())
    }

    /// Matrices in the last two axes transposed.
    #[track_caller]
    #[allow(non_snake_case)] // PyTorch's name
    pub fn mT(&self) -> Result<Tensor> {
        if self.rank() < 2 {
            let why = format!("needs matrices, not {}", self.shape());
            return Err(Error::shape("mT", &[self.shape()], why).operand(self));
        }
        Ok(self.mt())
    }

    /// The conjugate transpose of a matrix; elements are real, so the transpose.
    #[track_caller]
    #[allow(non_snake_case)] // PyTorch's name
    pub fn H(&self) -> Result<Tensor> {
        match self.rank() {
            0 | 2 => Ok(self.mt()),
            _ => Err(Error::shape("H", &[self.shape()], format!("H is for a matrix, not {}", self.shape()))
                .operand(self)
                .hint("use mH for batches of matrices")),
        }
    }

    /// The conjugate transpose of matrices in the last two axes.
    #[track_caller]
    #[allow(non_snake_case)] // PyTorch's name
    pub fn mH(&self) -> Result<Tensor> {
        self.mT()
    }

    /// One axis as several; one of the extents may be -1.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 12], DType::F32).unflatten(1, [3, -1]).unwrap().dims(), [2, 3, 4]);
    /// ```
    #[track_caller]
    pub fn unflatten(&self, dim: i64, sizes: impl Into<Axes>) -> Result<Tensor> {
        let a = axis("unflatten", dim, self.rank())?;
        let sizes = sizes.into();
        let (Axes::List(list), Some(&n)) = (&sizes, self.dims().get(a)) else {
            let why = format!("{} has no axis {dim} to take apart", self.shape());
            return Err(Error::shape("unflatten", &[self.shape()], why).operand(self));
        };
        let fail = || {
            let why = format!("axis {a} of {} has {n} elements, which do not fill {:?}", self.shape(), &list[..]);
            Error::shape("unflatten", &[self.shape()], why).operand(self)
        };
        let known = list.iter().filter(|&&d| d != -1).try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
        let known = known.ok_or_else(fail)?;
        let rest = match list.iter().filter(|&&d| d == -1).count() {
            0 if known == n && !list.is_empty() => 1,
            1 if known > 0 && n.is_multiple_of(known) => n / known,
            _ => return Err(fail()),
        };
        let parts = list.iter().map(|&d| if d == -1 { rest } else { d as usize });
        let d = self.dims();
        Ok(self.reshape_to(&d[..a].iter().copied().chain(parts).chain(d[a + 1..].iter().copied()).collect()))
    }

    /// All elements in one axis.
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.reshape_to(&Shape::from(self.numel()))
    }

    /// The shape of `other`.
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Result<Tensor> {
        self.reshape(other.shape())
    }

    /// The shape of `other`.
    #[track_caller]
    pub fn view_as(&self, other: &Tensor) -> Result<Tensor> {
        self.reshape(other.shape())
    }

    /// Broadcast to the shape of `other`.
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        self.expand(other.shape())
    }

    /// A quarter turn, `k` times, from the first of two axes towards the second.
    #[track_caller]
    pub fn rot90(&self, k: i64, dims: [i64; 2]) -> Result<Tensor> {
        let named = self.named("rot90", &Axes::from(dims))?;
        let &[a, b] = &named[..] else {
            let why = format!("a turn needs two axes, and {} has none", self.shape());
            return Err(Error::shape("rot90", &[self.shape()], why).operand(self));
        };
        let (a, b) = (a as i64, b as i64);
        match k.rem_euclid(4) {
            0 => Ok(self.resolve()),
            1 => self.flip(b)?.transpose(a, b),
            2 => self.flip([a, b]),
            _ => self.flip(a)?.transpose(a, b),
        }
    }

    /// Columns in reverse.
    #[track_caller]
    pub fn fliplr(&self) -> Result<Tensor> {
        if self.rank() < 2 {
            let why = format!("needs two axes, not {}", self.shape());
            return Err(Error::shape("fliplr", &[self.shape()], why).operand(self));
        }
        self.flip(1)
    }

    /// Rows in reverse.
    #[track_caller]
    pub fn flipud(&self) -> Result<Tensor> {
        if self.rank() < 1 {
            return Err(Error::shape("flipud", &[self.shape()], "needs an axis, not a scalar").operand(self));
        }
        self.flip(0)
    }

    /// At least one axis.
    #[track_caller]
    pub fn atleast_1d(&self) -> Tensor {
        if self.rank() == 0 { self.ravel() } else { self.resolve() }
    }

    /// At least two axes; a vector is a row.
    #[track_caller]
    pub fn atleast_2d(&self) -> Tensor {
        match self.rank() {
            0 | 1 => self.reshape_to(&Shape::from([1, self.numel()])),
            _ => self.resolve(),
        }
    }

    /// At least three axes; a vector lies along the middle one, a matrix along the first two.
    #[track_caller]
    pub fn atleast_3d(&self) -> Tensor {
        match *self.dims() {
            [] | [_] => self.reshape_to(&Shape::from([1, self.numel(), 1])),
            [m, n] => self.reshape_to(&Shape::from([m, n, 1])),
            _ => self.resolve(),
        }
    }
}
