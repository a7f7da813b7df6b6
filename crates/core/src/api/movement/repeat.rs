//! Elements more than once, or further along.

use crate::api::{axis, layout};
use crate::{Axes, DType, Error, ErrorKind, Result, Shape, Tensor};

use std::panic::Location;

impl Tensor {
    /// Elements shifted along axes; what falls off one end comes back at the other.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).roll(1, 0).unwrap().to_vec::<i32>().unwrap(), [3, 1, 2]);
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Into<Axes>, dims: impl Into<Axes>) -> Result<Tensor> {
        let (shifts, dims) = (shifts.into(), dims.into());
        let Axes::List(shifts) = &shifts else { return Err(Error::value("roll", "shifts are missing").operand(self)) };
        let no_dims = matches!(&dims, Axes::All) || matches!(&dims, Axes::List(l) if l.is_empty());
        if no_dims {
            // Without axes the elements are one long row.
            let &[by] = &shifts[..] else { return Err(self.roll_count(shifts.len(), 0)) };
            return Ok(self.ravel().rolled(0, by)?.reshape_to(self.shape()));
        }
        let Axes::List(dims) = &dims else { return Ok(self.resolve()) };
        if dims.len() != shifts.len() {
            return Err(self.roll_count(shifts.len(), dims.len()));
        }
        let mut out = self.resolve();
        for (&by, &d) in shifts.iter().zip(dims) {
            let a = axis("roll", d, self.rank())?;
            out = if self.rank() == 0 { out } else { out.rolled(a, by)? };
        }
        Ok(out)
    }

    #[track_caller]
    fn roll_count(&self, shifts: usize, dims: usize) -> Error {
        Error::value("roll", format!("{shifts} shifts for {dims} axes")).operand(self)
    }

    #[track_caller]
    fn rolled(&self, a: usize, by: i64) -> Result<Tensor> {
        let n = self.dims()[a];
        let k = if n == 0 { 0 } else { by.rem_euclid(n as i64) as usize };
        if k == 0 {
            return Ok(self.resolve());
        }
        let rolled =
            |x: &Tensor, a: usize| Tensor::cat(&[&x.sliced(a, n - k, 1, k), &x.sliced(a, 0, 1, n - k)], a as i64);
        let beneath =
            layout::beneath(&[self.resolve()], Location::caller(), |under, order| rolled(&under[0], order[a]));
        beneath.unwrap_or_else(|| rolled(self, a))
    }

    /// The whole tensor `repeats` times along each axis; more repeats than axes add axes in front.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).repeat([2, 2]).unwrap().to_vec::<i32>().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2]);
    /// ```
    #[track_caller]
    pub fn repeat(&self, repeats: impl Into<Shape>) -> Result<Tensor> {
        let repeats = repeats.into();
        if repeats.rank() < self.rank() {
            let why = format!("{repeats} names fewer repeats than {} has axes", self.shape());
            return Err(Error::shape("repeat", &[self.shape()], why).operand(self).hint("use tile"));
        }
        self.repeated("repeat", &repeats)
    }

    /// As [`Tensor::repeat`]; with fewer repeats than axes the last axes are meant.
    #[track_caller]
    pub fn tile(&self, repeats: impl Into<Shape>) -> Result<Tensor> {
        let repeats = repeats.into();
        let lead = self.rank().saturating_sub(repeats.rank());
        self.repeated("tile", &std::iter::repeat_n(1, lead).chain(repeats.iter().copied()).collect())
    }

    #[track_caller]
    fn repeated(&self, op: &str, repeats: &Shape) -> Result<Tensor> {
        let lead = repeats.rank() - self.rank();
        let dims: Vec<usize> = std::iter::repeat_n(1, lead).chain(self.dims().iter().copied()).collect();
        let out = dims.iter().zip(&repeats[..]).map(|(&n, &r)| n.checked_mul(r)).collect::<Option<Shape>>();
        let Some(out) = out.filter(|s| s.checked_numel().is_some_and(|n| n < isize::MAX as usize / 16)) else {
            let why = format!("{} repeated {repeats} times is too large", self.shape());
            return Err(Error::value(op, why).operand(self));
        };
        if repeats.iter().all(|&r| r == 1) {
            return Ok(self.reshape_to(&out));
        }
        // Axis n as [r, n]: the repeats are a broadcast, and only the last reshape copies.
        let narrow: Shape = dims.iter().flat_map(|&n| [1, n]).collect();
        let wide: Shape = dims.iter().zip(&repeats[..]).flat_map(|(&n, &r)| [r, n]).collect();
        Ok(self.reshape_to(&narrow).expand_to(&wide).reshape_to(&out))
    }

    /// Each element `repeats` times in a row along an axis.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).repeat_interleave(2, 0).unwrap().to_vec::<i32>().unwrap(), [1, 1, 2, 2]);
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: usize, dim: i64) -> Result<Tensor> {
        let a = axis("repeat_interleave", dim, self.rank())?;
        let x = self.atleast_1d();
        let n = x.dims()[a];
        let Some(total) = n.checked_mul(repeats).filter(|&t| t < isize::MAX as usize / 16) else {
            let why = format!("axis {a} of {} repeated {repeats} times is too large", self.shape());
            return Err(Error::value("repeat_interleave", why).operand(self));
        };
        let wide = x.shape().inserted(a + 1, repeats);
        Ok(x.reshape_to(&x.shape().inserted(a + 1, 1)).expand_to(&wide).reshape_to(&x.shape().with(a, total)))
    }

    /// Each element of an axis its own number of times in a row. The numbers are read to know the shape.
    #[track_caller]
    pub fn repeat_interleave_each(&self, repeats: &Tensor, dim: i64) -> Result<Tensor> {
        let a = axis("repeat_interleave", dim, self.rank())?;
        let x = self.atleast_1d();
        let n = x.dims()[a];
        let counts = repeats.as_index("repeat_interleave")?;
        if counts.rank() > 1 || (counts.numel() != n && counts.numel() != 1) {
            let why = format!("{} repeats for axis {a} of {}", counts.shape(), self.shape());
            let e = Error::shape("repeat_interleave", &[self.shape(), repeats.shape()], why);
            return Err(e.operand(self).operand(repeats));
        }
        let counts = counts.to_vec::<i64>()?;
        let mut index: Vec<i64> = vec![];
        for i in 0..n {
            let c = counts.get(i).or(counts.first()).copied().unwrap_or(0);
            if c < 0 {
                let why = format!("element {i} cannot repeat {c} times");
                return Err(Error::value("repeat_interleave", why).operand(repeats));
            }
            if index.len() as u128 + c as u128 > isize::MAX as u128 / 16 {
                return Err(Error::new("repeat_interleave", ErrorKind::Alloc { bytes: c as u128 * 8 }));
            }
            index.extend(std::iter::repeat_n(i as i64, c as usize));
        }
        let len = index.len();
        let index = Tensor::from_vec(index, [len])?.to(&self.device());
        x.index_select(a as i64, &index)
    }

    /// `0, 0, 1, ...`: the index of each element, as often as these counts say.
    #[track_caller]
    pub fn repeat_interleave_index(&self) -> Result<Tensor> {
        if self.rank() != 1 {
            let why = format!("counts are a vector, not {}", self.shape());
            return Err(Error::shape("repeat_interleave", &[self.shape()], why).operand(self));
        }
        Tensor::arange_on(self.numel(), self.device()).to_dtype(DType::I64).repeat_interleave_each(self, 0)
    }
}
