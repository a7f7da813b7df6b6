//! Look-up tables.

use crate::{Module, Param, layer::Layer, parts::parts_plain};
use gradus_core::{BagMode, DType, EmbeddingBagOptions, EmbeddingOptions, Error, ErrorKind, Result, Tensor};

parts_plain!(EmbeddingOptions, BagMode);

/// A vector for each index.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{Embedding, Layer};
/// let words = Embedding::new(100, 16).padding_idx(0)?;
/// assert_eq!(words.forward(&Tensor::from([[5i64, 7, 0]]))?.dims(), [1, 3, 16]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`.
    pub weight: Param,
    options: EmbeddingOptions,
}

impl Embedding {
    /// So many vectors of so many numbers, normal with deviation 1 at first.
    #[track_caller]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Embedding {
        let weight = Param::new(Tensor::randn([num_embeddings, embedding_dim]));
        Embedding { weight, options: EmbeddingOptions::default() }
    }

    /// With these vectors, `[n, dim]`.
    #[track_caller]
    pub fn from_pretrained(weight: &Tensor) -> Result<Embedding> {
        if weight.rank() != 2 || !weight.dtype().is_float() {
            let why = format!("a table is a matrix of floats, not {} {}", weight.dtype(), weight.shape());
            return Err(Error::shape("Embedding", &[weight.shape()], why).operand(weight));
        }
        Ok(Embedding { weight: Param::new(weight.clone()), options: EmbeddingOptions::default() })
    }

    /// With a row that is 0 and stays so; negative counts from the end.
    #[track_caller]
    pub fn padding_idx(mut self, index: i64) -> Result<Embedding> {
        let row = zero_row("Embedding", &self.weight, index)?;
        self.options.padding_idx = Some(row);
        Ok(self)
    }

    /// With rows scaled down to this 2-norm where they are longer.
    pub fn max_norm(mut self, max_norm: f64) -> Embedding {
        self.options.max_norm = Some(max_norm);
        self
    }

    /// With gradients divided by how often an index occurs.
    pub fn scale_grad_by_freq(mut self, scale: bool) -> Embedding {
        self.options.scale_grad_by_freq = scale;
        self
    }

    fn settings(&self) -> String {
        format!("{} x {}", self.weight.dims()[0], self.weight.dims()[1])
    }
}

/// The row made 0, as a position.
#[track_caller]
fn zero_row(op: &str, weight: &Param, index: i64) -> Result<i64> {
    let rows = weight.dims()[0];
    let row = if index < 0 { index + rows as i64 } else { index };
    if !(0..rows as i64).contains(&row) {
        let why = ": the padding must be a row of the table".to_string();
        return Err(Error::new(op, ErrorKind::Index { index, size: rows, why }).operand(weight));
    }
    let at = Tensor::arange(0, rows as i64, 1, DType::I64)?.to(&weight.device()).unsqueeze(1)?;
    let cleared = at.eq(row)?.where_(0.0, weight.resolve().detach())?;
    weight.set(cleared.eval()?)?;
    Ok(row)
}

impl Layer for Embedding {
    /// Integers `[..]` to vectors `[.., dim]`.
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        if self.options == EmbeddingOptions::default() {
            return self.weight.embedding(indices);
        }
        self.weight.embedding_with(indices, &self.options)
    }
}

/// The sum, mean or maximum of the vectors of a bag of indices.
#[derive(Module)]
pub struct EmbeddingBag {
    /// `[num_embeddings, embedding_dim]`.
    pub weight: Param,
    mode: BagMode,
    padding_idx: Option<i64>,
    include_last_offset: bool,
}

impl EmbeddingBag {
    /// So many vectors of so many numbers, normal with deviation 1 at first; bags become means.
    #[track_caller]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> EmbeddingBag {
        let weight = Param::new(Tensor::randn([num_embeddings, embedding_dim]));
        EmbeddingBag { weight, mode: BagMode::Mean, padding_idx: None, include_last_offset: false }
    }

    /// With another way to make one vector of a bag.
    pub fn mode(self, mode: BagMode) -> EmbeddingBag {
        EmbeddingBag { mode, ..self }
    }

    /// With an index that does not count.
    #[track_caller]
    pub fn padding_idx(mut self, index: i64) -> Result<EmbeddingBag> {
        self.padding_idx = Some(zero_row("EmbeddingBag", &self.weight, index)?);
        Ok(self)
    }

    /// With offsets whose last is where the last bag ends.
    pub fn include_last_offset(self, include: bool) -> EmbeddingBag {
        EmbeddingBag { include_last_offset: include, ..self }
    }

    /// Bags `[n, l]`, or indices one after the other with the start of each bag; and, for sums, a weight for each index.
    #[track_caller]
    pub fn forward(&self, indices: &Tensor, offsets: Option<&Tensor>, weights: Option<&Tensor>) -> Result<Tensor> {
        let options = EmbeddingBagOptions {
            offsets: offsets.cloned(),
            mode: self.mode,
            per_sample_weights: weights.cloned(),
            padding_idx: self.padding_idx,
            include_last_offset: self.include_last_offset,
        };
        self.weight.embedding_bag(indices, &options)
    }
}
