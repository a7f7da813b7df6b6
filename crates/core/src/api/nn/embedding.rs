//! Look-up tables of vectors, and bags of them.

use crate::api::same_device;
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{HostOp, Op, ReduceOp, ScatterMode},
};

/// How [`Tensor::embedding_with`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingOptions {
    /// A row that gets no gradient; negative counts from the end.
    pub padding_idx: Option<i64>,
    /// Rows that are longer are scaled down to this norm (in the result: the table stays as it is).
    pub max_norm: Option<f64>,
    /// The norm that `max_norm` bounds.
    pub norm_type: f64,
    /// Divide gradients by how often each index occurs.
    pub scale_grad_by_freq: bool,
}

impl Default for EmbeddingOptions {
    fn default() -> Self {
        EmbeddingOptions { padding_idx: None, max_norm: None, norm_type: 2.0, scale_grad_by_freq: false }
    }
}

/// How a bag of vectors becomes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean (0 for an empty bag).
    #[default]
    Mean,
    /// The largest of each element (0 for an empty bag).
    Max,
}

/// How [`Tensor::embedding_bag`] works.
#[derive(Clone, Default)]
pub struct EmbeddingBagOptions {
    /// Where each bag starts, for indices without an axis of bags.
    pub offsets: Option<Tensor>,
    /// How a bag becomes one vector.
    pub mode: BagMode,
    /// A factor for each index, with [`BagMode::Sum`] only.
    pub per_sample_weights: Option<Tensor>,
    /// Indices of this value do not count; negative counts from the end.
    pub padding_idx: Option<i64>,
    /// The last offset is where the last bag ends.
    pub include_last_offset: bool,
}

impl Tensor {
    /// The rows of this table at `indices`: shape `[.., D]`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let table = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let rows = table.embedding(&Tensor::from([1i64, 0, 1])).unwrap();
    /// assert_eq!(rows.to_vec::<f32>().unwrap(), [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        let (_, dim) = self.check_table("embedding", indices)?;
        let index = indices.as_index("embedding")?;
        if self.device().backend().limits().row_tables.contains(&self.dtype()) && index.numel() > 0 {
            let flat = index.reshape_to(&index.numel().into());
            let rows = self.make(Op::Host(HostOp::TakeRows), &[self, &flat], [index.numel(), dim].into(), self.dtype());
            return Ok(rows.reshape_to(&index.shape().inserted(index.rank(), dim)));
        }
        let flat = index.reshape_to(&[index.numel(), 1].into()).expand_to(&[index.numel(), dim].into());
        Ok(self.gather(0, &flat)?.reshape_to(&index.shape().inserted(index.rank(), dim)))
    }

    /// [`Tensor::embedding`] with a padding row, bounded norms or gradients by frequency.
    #[track_caller]
    pub fn embedding_with(&self, indices: &Tensor, options: &EmbeddingOptions) -> Result<Tensor> {
        let (rows, _) = self.check_table("embedding", indices)?;
        let index = indices.as_index("embedding")?;
        let mut out = self.embedding(&index)?;
        let last = out.rank() - 1;
        if options.scale_grad_by_freq {
            let flat = index.reshape_to(&index.numel().into());
            let ones = Tensor::ones(flat.shape(), DType::I64).to(&flat.device());
            let counts = Tensor::zeros_on(rows.into(), DType::I64, flat.device()).scatter_add(0, &flat, &ones)?;
            let often = counts.gather(0, &flat)?.to_dtype(out.dtype()).reshape_to(&index.shape().inserted(last, 1));
            out = (&out / often).valued(&out);
        }
        if let Some(max) = options.max_norm {
            let norm = out.p_norm_keep(options.norm_type, last);
            let scale = norm.raw_gt(&norm.scalar_like(max)).raw_where(&(max / (&norm + 1e-7)), &norm.ones_like());
            out = out.valued(&(&out * scale));
        }
        if let Some(pad) = padding("embedding", options.padding_idx, rows)? {
            let padded = index.eq(pad)?.reshape_to(&index.shape().inserted(last, 1));
            out = padded.raw_where(&out.detach(), &out);
        }
        Ok(out)
    }

    /// The table's extents, if the table and the indices are what they should be.
    #[track_caller]
    fn check_table(&self, name: &str, indices: &Tensor) -> Result<(usize, usize)> {
        same_device(name, &[self, indices])?;
        match *self.dims() {
            [rows, dim] => Ok((rows, dim)),
            _ => {
                let why = format!("the table must be a matrix, not {}", self.shape());
                Err(Error::shape(name, &[self.shape()], why).operand(self).operand(indices))
            }
        }
    }

    /// Bags of rows of this table, each made into one vector: indices are `[B, L]`, or flat with `offsets`.
    #[track_caller]
    pub fn embedding_bag(&self, indices: &Tensor, options: &EmbeddingBagOptions) -> Result<Tensor> {
        let name = "embedding_bag";
        let (rows, dim) = self.check_table(name, indices)?;
        let index = indices.as_index(name)?;
        if let Some(w) = &options.per_sample_weights {
            if options.mode != BagMode::Sum {
                return Err(Error::value(name, "weights for each index need the mode Sum").operand(w));
            }
            if w.shape() != index.shape() {
                let why = format!("weights {} for indices {}", w.shape(), index.shape());
                return Err(Error::shape(name, &[index.shape(), w.shape()], why).operand(&index).operand(w));
            }
        }
        let (bag, bags) = bags_of(name, &index, options)?;
        let n = index.numel();
        let flat = index.reshape_to(&n.into());
        let counts = match padding(name, options.padding_idx, rows)? {
            Some(pad) => flat.ne(pad)?,
            None => Tensor::full_on(n.into(), true.into(), DType::Bool, flat.device()),
        };
        let column: Shape = [n, 1].into();
        let counts = counts.reshape_to(&column);
        let vectors = self.embedding(&flat)?;
        let vectors = match &options.per_sample_weights {
            Some(w) => vectors * w.to_dtype(self.dtype()).reshape_to(&column),
            None => vectors,
        };
        let out: Shape = [bags, dim].into();
        let to = |width: usize| bag.reshape_to(&column).expand_to(&[n, width].into());
        let zeros = Tensor::zeros_on(out.clone(), self.dtype(), self.device());
        let here = counts.to_dtype(self.dtype());
        let in_bag = || Tensor::zeros_on([bags, 1].into(), self.dtype(), self.device()).scatter_add(0, &to(1), &here);
        let sum = |v: &Tensor| match index.rank() {
            // An axis of bags is an ordinary sum.
            2 => Ok(v.reshape_to(&[bags, n / bags.max(1), dim].into()).reduce_one(ReduceOp::Sum, 1).reshape_to(&out)),
            _ => zeros.scatter_add(0, &to(dim), v),
        };
        match options.mode {
            BagMode::Sum => sum(&counts.raw_where(&vectors, &vectors.zeros_like())),
            BagMode::Mean => {
                let total = sum(&counts.raw_where(&vectors, &vectors.zeros_like()))?;
                Ok(total / in_bag()?.at_least(1.0))
            }
            BagMode::Max => {
                let low = vectors.scalar_like(f64::NEG_INFINITY);
                let base = Tensor::full_on(out, f64::NEG_INFINITY.into(), self.dtype(), self.device());
                let top = base.scatter_mode(name, ScatterMode::Max, 0, &to(dim), &counts.raw_where(&vectors, &low))?;
                let empty = in_bag()?.eq(0.0)?;
                Ok(empty.raw_where(&top.zeros_like(), &top))
            }
        }
    }
}

/// The bag of each index, and how many bags there are.
#[track_caller]
fn bags_of(name: &str, index: &Tensor, options: &EmbeddingBagOptions) -> Result<(Tensor, usize)> {
    let fail = |why: String| Error::shape(name, &[index.shape()], why).operand(index);
    let at = |n: usize| Tensor::arange_on(n, index.device());
    match (&options.offsets, index.dims()) {
        (None, &[bags, len]) => {
            let bag = at(bags).reshape_to(&[bags, 1].into()).expand_to(&[bags, len].into());
            Ok((bag.reshape_to(&(bags * len).into()), bags))
        }
        (Some(offsets), &[n]) => {
            let offsets = offsets.as_index(name)?;
            same_device(name, &[index, &offsets])?;
            let ends = options.include_last_offset as usize;
            if offsets.rank() != 1 || offsets.numel() < ends {
                return Err(fail(format!("offsets must be a vector, not {}", offsets.shape())).operand(&offsets));
            }
            // How many bags have started by here, less one.
            let bags = offsets.numel() - ends;
            let starts = offsets.sliced(0, 0, 1, bags);
            let begun = at(n).reshape_to(&[n, 1].into()).raw_ge(&starts);
            Ok((begun.to_dtype(DType::I64).sum_dim(1, false)? - 1, bags))
        }
        (Some(_), _) => Err(fail(format!("with offsets, indices must be a vector, not {}", index.shape()))),
        (None, _) => Err(fail(format!("indices must be [B, L], or a vector with offsets, not {}", index.shape()))),
    }
}

/// A padding index as a row.
#[track_caller]
fn padding(name: &str, at: Option<i64>, rows: usize) -> Result<Option<i64>> {
    let Some(i) = at else { return Ok(None) };
    let n = rows as i64;
    if !(-n..n).contains(&i) {
        return Err(Error::new(name, ErrorKind::Index { index: i, size: rows, why: " (padding_idx)".into() }));
    }
    Ok(Some(if i < 0 { i + n } else { i }))
}
