//! Masks, and positions that depend on the data: those read their input.

use crate::api::{arith::Operand, broadcast_all, same_device};
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{HostOp, Op},
};
use gradus_numerics::mask::Mask;

impl Tensor {
    #[track_caller]
    fn is_mask(&self, op: &str) -> Result<()> {
        if self.dtype() == DType::Bool {
            return Ok(());
        }
        let why = format!("a mask is bool, not {}", self.dtype());
        Err(Error::dtype(op, &[self.dtype()], why).operand(self).hint("compare it with something first"))
    }

    /// A copy with one number where the mask (broadcast) is true.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([1.0f32, -2.0, 3.0]);
    /// let y = x.masked_fill(&x.lt(0.0).unwrap(), 0.0).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 0.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Operand) -> Result<Tensor> {
        mask.is_mask("masked_fill")?;
        let value = value.tensor(self).to_dtype(self.dtype());
        if value.rank() > 0 {
            let why = format!("needs one number, not {}", value.shape());
            return Err(Error::shape("masked_fill", &[self.shape(), value.shape()], why).operand(self).operand(&value));
        }
        same_device("masked_fill", &[self, mask, &value])?;
        let shape = broadcast_all("masked_fill", &[self, mask])?;
        Ok(mask.raw_where(&value.expand_to(&shape), &self.expand_to(&shape)))
    }

    /// The elements where the mask (broadcast) is true, as a vector. The mask is read.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        mask.is_mask("masked_select")?;
        same_device("masked_select", &[self, mask])?;
        let shape = broadcast_all("masked_select", &[self, mask])?;
        let x = self.expand_to(&shape);
        let at = mask.expand_to(&shape).with_elements(|bits| {
            let mask = Mask::new(bits);
            Tensor::filled(Shape::from(mask.count()), |at| mask.positions(at))
        })??;
        x.ravel().gather(0, &at.to(&self.device()))
    }

    /// A copy with the elements of `source`, in order, where the mask (broadcast) is true.
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        mask.is_mask("masked_scatter")?;
        if source.dtype() != self.dtype() {
            let why = format!("the source is {}, the target {}", source.dtype(), self.dtype());
            let e = Error::dtype("masked_scatter", &[self.dtype(), source.dtype()], why);
            return Err(e.operand(self).operand(source).hint("convert with to_dtype"));
        }
        same_device("masked_scatter", &[self, mask, source])?;
        let shape = broadcast_all("masked_scatter", &[self, mask])?;
        let (x, mask) = (self.expand_to(&shape), mask.expand_to(&shape));
        let (wanted, nth) = mask.with_elements(|bits| {
            let mask = Mask::new(bits);
            let nth = || Tensor::filled(Shape::from(bits.len()), |out| mask.ranks(out));
            // Where the source is too short, there is nothing to take.
            let enough = (1..=source.numel()).contains(&mask.count());
            (mask.count(), enough.then(nth).transpose())
        })?;
        if wanted > source.numel() {
            let why = format!("the mask is true at {wanted} places, the source has {} elements", source.numel());
            let e = Error::shape("masked_scatter", &[self.shape(), mask.shape(), source.shape()], why);
            return Err(e.operand(self).operand(&mask).operand(source));
        }
        let Some(nth) = nth? else { return Ok(x) };
        let taken = source.ravel().gather(0, &nth.to(&self.device()))?.reshape_to(&shape);
        Ok(mask.raw_where(&taken, &x))
    }

    /// The positions that are not zero, one row each. The elements are read.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[0, 3], [5, 0]]);
    /// assert_eq!(x.nonzero().unwrap().to_vec::<i64>().unwrap(), [0, 1, 1, 0]);
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let rows = self.bool().with_elements(|bits| {
            let mask = Mask::new(bits);
            Tensor::filled(Shape::from([mask.count(), self.rank()]), |rows| mask.coordinates(self.shape(), rows))
        })?;
        rows.map(|t| t.to(&self.device()))
    }

    /// As [`Tensor::nonzero`], one vector an axis: an index for [`Tensor::index`].
    #[track_caller]
    pub fn nonzero_tuple(&self) -> Result<Vec<Tensor>> {
        if self.rank() == 0 {
            return self.atleast_1d().nonzero_tuple();
        }
        self.nonzero()?.unbind(1)
    }

    /// NumPy's name for [`Tensor::nonzero`].
    #[track_caller]
    pub fn argwhere(&self) -> Result<Tensor> {
        self.nonzero()
    }

    /// The first `size` positions that are not zero, one row each; rows that are missing hold `fill`.
    #[track_caller]
    pub fn nonzero_static(&self, size: usize, fill: i64) -> Result<Tensor> {
        if size.checked_mul(self.rank()).is_none_or(|n| n >= isize::MAX as usize / 16) {
            return Err(Error::new("nonzero_static", ErrorKind::Alloc { bytes: size as u128 * 8 }));
        }
        let rows = self.bool().with_elements(|bits| {
            Tensor::filled(Shape::from([size, self.rank()]), |rows| {
                rows.fill(fill);
                Mask::new(bits).coordinates(self.shape(), rows);
            })
        })?;
        rows.map(|t| t.to(&self.device()))
    }

    /// A new last axis with a one at the class and zeros elsewhere, as i64; `None` reads the largest class.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([2i64, 0]).one_hot(None).unwrap();
    /// assert_eq!(y.to_vec::<i64>().unwrap(), [0, 0, 1, 1, 0, 0]);
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: Option<usize>) -> Result<Tensor> {
        let index = self.as_index("one_hot")?;
        let classes = match classes {
            Some(0) => return Err(Error::value("one_hot", "0 classes cannot hold anything").operand(self)),
            Some(n) => n,
            None => {
                let all = index.to_vec::<i64>()?;
                let low = all.iter().copied().min().unwrap_or(0);
                let Some(top) = all.iter().copied().max().filter(|_| low >= 0) else {
                    let why = match all.len() {
                        0 => format!("{} has no classes to count", self.shape()),
                        _ => format!("a class cannot be {low}"),
                    };
                    return Err(Error::value("one_hot", why).operand(self).hint("say how many classes there are"));
                };
                top as usize + 1
            }
        };
        let shape = self.shape().inserted(self.rank(), classes);
        if shape.checked_numel().is_none_or(|n| n > isize::MAX as usize / 16) {
            return Err(Error::new("one_hot", ErrorKind::Alloc { bytes: classes as u128 * self.numel() as u128 * 8 }));
        }
        if self.device().backend().limits().layouts {
            let index = index.resolve();
            return Ok(index.make(Op::Host(HostOp::OneHot(classes)), &[&index], shape, DType::I64));
        }
        // A look-up reports a class out of range when it runs.
        let zeros = Tensor::zeros_on(classes.into(), DType::I64, self.device());
        let class = index.reshape_to(&index.numel().into());
        let class = &class + zeros.gather(0, &class)?;
        let hot = class.unsqueeze(-1)?.raw_eq(&Tensor::arange_on(classes, self.device()));
        Ok(hot.to_dtype(DType::I64).reshape_to(&shape))
    }

    /// Positions of the row-major order as coordinates in `shape`: one tensor an axis.
    #[track_caller]
    pub fn unravel_index(&self, shape: impl Into<Shape>) -> Result<Vec<Tensor>> {
        let shape = shape.into();
        let index = self.as_index("unravel_index")?;
        if self.numel() > 0 && shape.contains(&0) {
            let why = format!("a tensor of shape {shape} has no positions");
            return Err(Error::shape("unravel_index", &[self.shape(), &shape], why).operand(self));
        }
        let mut step: i64 = 1;
        let mut out = vec![];
        for &n in shape.iter().rev() {
            let n = i64::try_from(n).unwrap_or(i64::MAX).max(1);
            out.push(index.floor_divide(step)?.remainder(n)?);
            step = step.saturating_mul(n);
        }
        out.reverse();
        Ok(out)
    }
}
