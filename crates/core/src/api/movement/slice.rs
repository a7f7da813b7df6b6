//! Slices of an axis: taken out, and written over.

use crate::api::axis;
use crate::{Error, ErrorKind, Result, Shape, Tensor};
use smallvec::SmallVec;

/// Python's rule for `start:end:step` on `n` elements: first position and count. Ends beyond the axis are cut.
pub(crate) fn span(n: usize, start: Option<i64>, end: Option<i64>, step: i64) -> (usize, usize) {
    let len = n as i64;
    let wrap = |i: i64| if i < 0 { i.saturating_add(len) } else { i };
    if step > 0 {
        let from = start.map_or(0, wrap).clamp(0, len);
        let to = end.map_or(len, wrap).clamp(from, len);
        (from as usize, ((to - from) as u64).div_ceil(step as u64) as usize)
    } else {
        let from = start.map_or(len - 1, wrap).clamp(-1, len - 1);
        let to = end.map_or(-1, wrap).clamp(-1, from.max(-1));
        (from.max(0) as usize, ((from - to) as u64).div_ceil(step.unsigned_abs()) as usize)
    }
}

impl Tensor {
    /// `start:end:step` of an axis, by Python's rules; a negative step walks back.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([0, 1, 2, 3, 4]);
    /// assert_eq!(x.slice(0, Some(-3), None, 1).unwrap().to_vec::<i32>().unwrap(), [2, 3, 4]);
    /// assert_eq!(x.slice(0, None, None, -2).unwrap().to_vec::<i32>().unwrap(), [4, 2, 0]);
    /// ```
    #[track_caller]
    pub fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
        let (a, from, len) = self.slice_span("slice", dim, start, end, step)?;
        Ok(self.sliced(a, from, step as isize, len))
    }

    #[track_caller]
    fn slice_span(
        &self,
        op: &str,
        dim: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<(usize, usize, usize)> {
        let a = axis(op, dim, self.rank())?;
        let Some(&n) = self.dims().get(a) else {
            return Err(Error::shape(op, &[self.shape()], "a scalar has no axis to slice").operand(self));
        };
        if step == 0 {
            return Err(Error::value(op, format!("a step of 0 along axis {a} of {}", self.shape())).operand(self));
        }
        let (from, len) = span(n, start, end, step);
        Ok((a, from, len))
    }

    /// A copy with `src` written over `start:end:step` of an axis.
    #[track_caller]
    pub fn slice_scatter(
        &self,
        src: &Tensor,
        dim: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<Tensor> {
        let (a, from, len) = self.slice_span("slice_scatter", dim, start, end, step)?;
        let shape = self.shape().with(a, len);
        let src = src.to_dtype(self.dtype()).fitted("slice_scatter", self, &shape)?;
        if len == 0 {
            return Ok(self.resolve());
        }
        // Row i of the result comes from the source where (i - from) / step is one of its rows.
        let (src, from) = if step < 0 {
            (src.flip(a as i64)?, (from as i64 + (len as i64 - 1) * step) as usize)
        } else {
            (src, from)
        };
        let (n, step) = (self.dims()[a], step.unsigned_abs() as usize);
        if step == 1 {
            let parts = [self.sliced(a, 0, 1, from), src, self.sliced(a, from + len, 1, n - from - len)];
            let parts: Vec<&Tensor> = parts.iter().filter(|p| p.dims()[a] > 0).collect();
            return Tensor::cat(&parts, a as i64);
        }
        let i = Tensor::arange_on(len, self.device()) * step as i64 + from as i64;
        self.index_copy(a as i64, &i, &src)
    }

    /// A copy with `src` written over one place of an axis.
    #[track_caller]
    pub fn select_scatter(&self, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
        let a = axis("select_scatter", dim, self.rank())?;
        let n = self.dims().get(a).copied().unwrap_or(0);
        let i = if index < 0 { index + n as i64 } else { index };
        if i < 0 || i >= n as i64 {
            let why = format!(" (axis {a} of {})", self.shape());
            return Err(Error::new("select_scatter", ErrorKind::Index { index, size: n, why }).operand(self));
        }
        let src = src.to_dtype(self.dtype()).fitted("select_scatter", self, &self.shape().without(a))?;
        self.slice_scatter(&src.unsqueeze(a as i64)?, a as i64, Some(i), Some(i + 1), 1)
    }

    /// As [`Tensor::narrow`], in memory of its own.
    #[track_caller]
    pub fn narrow_copy(&self, dim: i64, start: usize, len: usize) -> Result<Tensor> {
        Ok(self.narrow(dim, start, len)?.contiguous())
    }

    /// Elements `offset + sum(index * strides)` of this tensor's row-major order, as a copy: PyTorch's `as_strided`.
    #[track_caller]
    pub fn as_strided(&self, shape: impl Into<Shape>, strides: &[usize], offset: usize) -> Result<Tensor> {
        let shape = shape.into();
        if strides.len() != shape.rank() {
            let why = format!("{} strides for shape {shape}", strides.len());
            return Err(Error::shape("as_strided", &[self.shape(), &shape], why).operand(self));
        }
        let last = shape
            .iter()
            .zip(strides)
            .try_fold(offset, |at, (&n, &s)| n.saturating_sub(1).checked_mul(s).and_then(|d| at.checked_add(d)));
        if shape.numel() > 0 && last.is_none_or(|l| l >= self.numel()) {
            let why = format!(
                "shape {shape} with strides {strides:?} from {offset} goes beyond the {} elements of {}",
                self.numel(),
                self.shape()
            );
            return Err(Error::shape("as_strided", &[self.shape(), &shape], why).operand(self));
        }
        let mut at = Tensor::arange_on(1, self.device()).reshape_to(&Shape::default()) + offset as i64;
        for (k, (&n, &s)) in shape.iter().zip(strides).enumerate() {
            let ones: SmallVec<[usize; 6]> = (0..shape.rank()).map(|d| if d == k { n } else { 1 }).collect();
            at = at + (Tensor::arange_on(n, self.device()) * s as i64).reshape_to(&Shape::from(&ones[..]));
        }
        self.take(&at.expand_to(&shape))
    }
}
