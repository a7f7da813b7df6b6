//! Diagonals: taken out, put in, written over.

use crate::api::axis;
use crate::{DType, Error, ErrorKind, Result, Shape, Tensor, op::Composite};
use gradus_numerics::triangle::Triangle;

impl Tensor {
    /// Two different axes.
    #[track_caller]
    fn two_axes(&self, op: &str, dim1: i64, dim2: i64, rank: usize) -> Result<(usize, usize)> {
        if rank < 2 {
            let why = format!("needs two axes, not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        let (a, b) = (axis(op, dim1, rank)?, axis(op, dim2, rank)?);
        if a == b {
            let why = "is named twice".into();
            return Err(Error::new(op, ErrorKind::Axis { axis: dim2, rank, why }).operand(self));
        }
        Ok((a, b))
    }

    /// The diagonal of two axes, `offset` above (or below) the main one, as a new last axis.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.diagonal(1, 0, 1).unwrap().to_vec::<i32>().unwrap(), [2, 6]);
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let (a, b) = self.two_axes("diagonal", dim1, dim2, self.rank())?;
        Ok(self.movedim([a, b], [-2, -1])?.diagonal_of(offset))
    }

    /// The diagonal of the last two axes, which there are.
    #[track_caller]
    fn diagonal_of(&self, offset: i64) -> Tensor {
        let (batch, axes) = self.dims().split_at(self.rank() - 2);
        let (m, n) = (axes[0], axes[1]);
        let down = usize::try_from(offset.saturating_neg()).unwrap_or(0);
        let right = usize::try_from(offset).unwrap_or(0);
        let len = m.saturating_sub(down).min(n.saturating_sub(right));
        // In row-major order, neighbours on a diagonal are n + 1 elements apart.
        let flat: Shape = batch.iter().copied().chain([m * n]).collect();
        let start = if len == 0 { 0 } else { down * n + right };
        self.reshape_to(&flat).sliced(batch.len(), start, n as isize + 1, len)
    }

    /// The last axis as the diagonal of a matrix in two new axes, zeros elsewhere.
    #[track_caller]
    pub fn diag_embed(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        if self.rank() == 0 {
            return Err(Error::shape("diag_embed", &[self.shape()], "needs an axis, not a scalar").operand(self));
        }
        let (a, b) = self.two_axes("diag_embed", dim1, dim2, self.rank() + 1)?;
        if !self.requires_grad() {
            return self.embedded(offset, a, b);
        }
        // The gradient looks at the diagonal alone.
        let back = move |g: &Tensor, _: &Tensor, _: &[Tensor]| Ok(vec![Some(g.diagonal(offset, a as i64, b as i64)?)]);
        crate::grad::custom_vjp("diag_embed", |x| x[0].embedded(offset, a, b), back, &[self])
    }

    /// [`Tensor::diag_embed`] by a mask.
    #[track_caller]
    fn embedded(&self, offset: i64, a: usize, b: usize) -> Result<Tensor> {
        static EMBED: Composite = Composite {
            name: "diag_embed",
            build: |x, at| {
                let (x, offset, last) = (&x[0], at[0] as i64, x[0].rank() - 1);
                let n = x.dims()[last];
                // Above the main diagonal, row i holds element i; below it, column j holds element j.
                let lane = x.reshape_to(&x.shape().inserted(last + usize::from(offset >= 0), 1));
                let places = |shape: [usize; 2]| Tensor::arange_on(n, x.device()).reshape_to(&Shape::from(shape));
                places([1, n]).raw_eq(&(places([n, 1]) + offset)).raw_where(&lane, &x.scalar_like(0.0))
            },
        };
        let last = self.rank() - 1;
        let shift = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        let x = if shift > 0 { self.pad_axis(last, 0, shift)? } else { self.resolve() };
        let n = x.dims()[last];
        let shape = x.shape().inserted(last, n);
        let out = Tensor::composed(&EMBED, &[&x], &[offset as u64], shape, x.dtype());
        if (a, b) == (last, last + 1) { Ok(out) } else { out.movedim([-2, -1], [a, b]) }
    }

    /// A vector as a diagonal matrix; the diagonal of a matrix.
    #[track_caller]
    pub fn diag(&self, diagonal: i64) -> Result<Tensor> {
        match self.rank() {
            1 => self.diag_embed(diagonal, -2, -1),
            2 => self.diagonal(diagonal, 0, 1),
            _ => {
                Err(Error::shape("diag", &[self.shape()], format!("needs a vector or a matrix, not {}", self.shape()))
                    .operand(self)
                    .hint("use diagonal or diag_embed"))
            }
        }
    }

    /// All elements along the diagonal of a matrix.
    #[track_caller]
    pub fn diagflat(&self, offset: i64) -> Result<Tensor> {
        self.ravel().diag_embed(offset, -2, -1)
    }

    /// A copy with `src` written over a diagonal.
    #[track_caller]
    pub fn diagonal_scatter(&self, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let (a, b) = self.two_axes("diagonal_scatter", dim1, dim2, self.rank())?;
        let target = self.diagonal(offset, dim1, dim2)?;
        let src = src.fitted("diagonal_scatter", self, target.shape())?;
        let x = self.movedim([a, b], [-2, -1])?;
        let r = self.rank();
        let row = Tensor::arange_on(x.dims()[r - 2], self.device()).unsqueeze(1)?;
        let col = Tensor::arange_on(x.dims()[r - 1], self.device()).unsqueeze(0)?;
        // The source on its diagonal, in a matrix of the target's size.
        let len = src.dims()[r - 2];
        let on = col.raw_eq(&(row + offset));
        let lane = if offset >= 0 {
            src.pad_axis(r - 2, 0, x.dims()[r - 2].saturating_sub(len))?.unsqueeze(-1)?
        } else {
            src.pad_axis(r - 2, 0, x.dims()[r - 1].saturating_sub(len))?.unsqueeze(-2)?
        };
        on.raw_where(&lane.expand_to(x.shape()), &x).movedim([-2, -1], [a, b])
    }

    /// This as the source of a scatter into `target`: same type and exactly this shape.
    #[track_caller]
    pub(crate) fn fitted(&self, op: &str, target: &Tensor, shape: &Shape) -> Result<Tensor> {
        crate::api::same_device(op, &[target, self])?;
        if self.shape() != shape {
            let why = format!("a source of shape {} does not fit {shape} of {}", self.shape(), target.shape());
            return Err(Error::shape(op, &[target.shape(), self.shape()], why).operand(target).operand(self));
        }
        if self.dtype() != target.dtype() {
            let why = format!("the source is {}, the target {}", self.dtype(), target.dtype());
            let e = Error::dtype(op, &[target.dtype(), self.dtype()], why);
            return Err(e.operand(target).operand(self).hint("convert with to_dtype"));
        }
        Ok(self.resolve())
    }

    /// The sum of a matrix's diagonal.
    #[track_caller]
    pub fn trace(&self) -> Result<Tensor> {
        if self.rank() != 2 {
            let why = format!("needs a matrix, not {}", self.shape());
            return Err(Error::shape("trace", &[self.shape()], why).operand(self));
        }
        static TRACE: Composite = Composite { name: "trace", build: |x, _| x[0].diagonal_of(0).sum() };
        let dtype = if self.dtype().is_float() { self.dtype() } else { DType::I64 };
        Ok(Tensor::composed(&TRACE, &[self], &[], Shape::from([0usize; 0]), dtype))
    }

    /// Rows and columns of the lower triangle of a `rows` by `cols` matrix, as a `[2, count]` tensor of i64.
    #[track_caller]
    pub fn tril_indices(rows: usize, cols: usize, offset: i64) -> Result<Tensor> {
        triangle("tril_indices", rows, cols, |i| (0, (i as i64).saturating_add(offset).saturating_add(1)))
    }

    /// Rows and columns of the upper triangle of a `rows` by `cols` matrix, as a `[2, count]` tensor of i64.
    #[track_caller]
    pub fn triu_indices(rows: usize, cols: usize, offset: i64) -> Result<Tensor> {
        triangle("triu_indices", rows, cols, |i| ((i as i64).saturating_add(offset), i64::MAX))
    }
}

/// Rows and columns where each row runs over `range(row)`.
#[track_caller]
fn triangle(op: &str, rows: usize, cols: usize, range: impl Fn(usize) -> (i64, i64)) -> Result<Tensor> {
    if rows.checked_mul(cols).is_none_or(|n| n > isize::MAX as usize / 32) {
        return Err(Error::new(op, ErrorKind::Alloc { bytes: rows as u128 * cols as u128 * 16 }));
    }
    let end = cols as i64;
    let rows = (0..rows).map(|i| {
        let (from, to) = range(i);
        from.clamp(0, end) as usize..to.clamp(0, end) as usize
    });
    let triangle = Triangle::new(rows);
    Tensor::filled(Shape::from([2, triangle.count()]), |out| triangle.places(out))
}
