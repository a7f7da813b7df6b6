//! One tensor as several along an axis.

use crate::api::axis;
use crate::{Error, Result, Tensor};

impl Tensor {
    /// Position and extent of an axis to split along; a scalar has none.
    #[track_caller]
    fn split_axis(&self, op: &str, dim: i64) -> Result<(usize, usize)> {
        let a = axis(op, dim, self.rank())?;
        match self.dims().get(a) {
            Some(&n) => Ok((a, n)),
            None => Err(Error::shape(op, &[self.shape()], "a scalar cannot be split").operand(self)),
        }
    }

    /// Parts of `size` elements along an axis; the last one may be smaller.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let parts = Tensor::from([1, 2, 3, 4, 5]).split(2, 0).unwrap();
    /// assert_eq!(parts.iter().map(|p| p.numel()).collect::<Vec<_>>(), [2, 2, 1]);
    /// ```
    #[track_caller]
    pub fn split(&self, size: usize, dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("split", dim)?;
        if size == 0 && n > 0 {
            let why = format!("parts of 0 elements never use up the {n} of axis {a} of {}", self.shape());
            return Err(Error::value("split", why).operand(self));
        }
        if n == 0 {
            return Ok(vec![self.resolve()]);
        }
        Ok((0..n).step_by(size).map(|from| self.sliced(a, from, 1, size.min(n - from))).collect())
    }

    /// Parts of the given sizes along an axis.
    #[track_caller]
    pub fn split_with_sizes(&self, sizes: &[usize], dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("split_with_sizes", dim)?;
        if sizes.iter().try_fold(0usize, |s, &k| s.checked_add(k)) != Some(n) {
            let why = format!("sizes {sizes:?} do not add up to {n}, axis {a} of {}", self.shape());
            return Err(Error::value("split_with_sizes", why).operand(self));
        }
        let mut from = 0;
        let part = |&k: &usize| {
            from += k;
            self.sliced(a, from - k, 1, k)
        };
        Ok(sizes.iter().map(part).collect())
    }

    /// At most `chunks` parts of equal size along an axis; the last one may be smaller.
    #[track_caller]
    pub fn chunk(&self, chunks: usize, dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("chunk", dim)?;
        if chunks == 0 {
            return Err(Error::value("chunk", "0 chunks cannot hold anything").operand(self));
        }
        if n == 0 {
            return Ok(vec![self.resolve(); chunks]);
        }
        self.split(n.div_ceil(chunks), a as i64)
    }

    /// `sections` parts along an axis, as even as can be; the first ones are the larger.
    #[track_caller]
    pub fn tensor_split(&self, sections: usize, dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("tensor_split", dim)?;
        if sections == 0 {
            return Err(Error::value("tensor_split", "0 sections cannot hold anything").operand(self));
        }
        let sizes: Vec<usize> = (0..sections).map(|k| n / sections + (k < n % sections) as usize).collect();
        self.split_with_sizes(&sizes, a as i64)
    }

    /// Parts that begin at these places of an axis, negative ones counted from its end.
    #[track_caller]
    pub fn tensor_split_at(&self, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("tensor_split", dim)?;
        let place = |i: i64| if i < 0 { (i + n as i64).max(0) } else { i.min(n as i64) } as usize;
        let mut from = 0;
        let mut parts = vec![];
        for to in indices.iter().map(|&i| place(i)).chain([n]) {
            parts.push(self.sliced(a, from.min(n), 1, to.saturating_sub(from)));
            from = to;
        }
        Ok(parts)
    }

    /// The axis that a split by direction means.
    #[track_caller]
    fn direction(&self, op: &str, least: usize, dim: i64) -> Result<i64> {
        if self.rank() < least {
            let why = format!("needs {least} axes or more, not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        Ok(dim)
    }

    #[track_caller]
    fn even(&self, op: &str, sections: usize, dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis(op, dim)?;
        if sections == 0 || !n.is_multiple_of(sections) {
            let why = format!("axis {a} of {} does not split into {sections} equal parts", self.shape());
            return Err(Error::value(op, why).operand(self).hint("use tensor_split for uneven parts"));
        }
        self.tensor_split(sections, dim)
    }

    /// Equal parts from left to right: along axis 1, or 0 of a vector.
    #[track_caller]
    pub fn hsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.even("hsplit", sections, self.direction("hsplit", 1, (self.rank() > 1) as i64)?)
    }

    /// As [`Tensor::hsplit`], at given places.
    #[track_caller]
    pub fn hsplit_at(&self, indices: &[i64]) -> Result<Vec<Tensor>> {
        self.tensor_split_at(indices, self.direction("hsplit", 1, (self.rank() > 1) as i64)?)
    }

    /// Equal parts from top to bottom: along axis 0.
    #[track_caller]
    pub fn vsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.even("vsplit", sections, self.direction("vsplit", 2, 0)?)
    }

    /// As [`Tensor::vsplit`], at given places.
    #[track_caller]
    pub fn vsplit_at(&self, indices: &[i64]) -> Result<Vec<Tensor>> {
        self.tensor_split_at(indices, self.direction("vsplit", 2, 0)?)
    }

    /// Equal parts in depth: along axis 2.
    #[track_caller]
    pub fn dsplit(&self, sections: usize) -> Result<Vec<Tensor>> {
        self.even("dsplit", sections, self.direction("dsplit", 3, 2)?)
    }

    /// As [`Tensor::dsplit`], at given places.
    #[track_caller]
    pub fn dsplit_at(&self, indices: &[i64]) -> Result<Vec<Tensor>> {
        self.tensor_split_at(indices, self.direction("dsplit", 3, 2)?)
    }

    /// One tensor for each place of an axis; the axis goes.
    #[track_caller]
    pub fn unbind(&self, dim: i64) -> Result<Vec<Tensor>> {
        let (a, n) = self.split_axis("unbind", dim)?;
        (0..n).map(|i| self.select(a as i64, i as i64)).collect()
    }
}
