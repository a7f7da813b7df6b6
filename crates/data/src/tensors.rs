//! Tensors as data sets: one item a row.

use crate::{Dataset, ReadResult, dataset::outside};
use gradus_core::{Error, Result, Tensor};
use std::path::Path;

/// The slices of a tensor along its first axis.
#[derive(Clone, Debug)]
pub struct Rows(Tensor);

impl Rows {
    /// Takes a tensor with at least one axis, and computes it now: workers only read it.
    #[track_caller]
    pub fn new(tensor: &Tensor) -> Result<Rows> {
        if tensor.rank() == 0 {
            let why = "a tensor without axes has no rows";
            return Err(Error::shape("Rows", &[tensor.shape()], why).operand(tensor).hint("use unsqueeze(0)"));
        }
        let tensor = tensor.detach().contiguous();
        tensor.eval()?;
        Ok(Rows(tensor))
    }

    /// The whole tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

impl Dataset for Rows {
    type Item = Tensor;
    fn len(&self) -> usize {
        self.0.dims().first().copied().unwrap_or(0)
    }
    fn get(&self, index: usize) -> Result<Tensor> {
        if index >= self.len() {
            return Err(outside("get", index, self.len()));
        }
        self.0.select(0, index as i64)
    }
}

/// Pairs of rows of two tensors, as PyTorch's `TensorDataset`.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_data::{Dataset, TensorDataset};
/// let data = TensorDataset::new(&Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), &Tensor::from([0i64, 1]))?;
/// let (x, y) = data.get(1)?;
/// assert_eq!((x.to_vec::<f32>()?, y.item::<i64>()?), (vec![3.0, 4.0], 1));
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset {
    x: Rows,
    y: Rows,
}

impl TensorDataset {
    /// Inputs and targets with the same number of rows.
    #[track_caller]
    pub fn new(x: &Tensor, y: &Tensor) -> Result<TensorDataset> {
        let rows = |t: &Tensor| t.dims().first().copied();
        if rows(x) != rows(y) {
            let why = format!("inputs {} and targets {} differ in their first axis", x.shape(), y.shape());
            return Err(Error::shape("TensorDataset", &[x.shape(), y.shape()], why).operand(x).operand(y));
        }
        Ok(TensorDataset { x: Rows::new(x)?, y: Rows::new(y)? })
    }

    /// Two arrays of a file of tensors: `.npz`, `.safetensors`, `.pt`.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>, x: &str, y: &str) -> ReadResult<TensorDataset> {
        let state = gradus_io::load(&path)?;
        let named = |name| state.tensor(name).map_err(|e| e.with_path(&path));
        Ok(TensorDataset::new(named(x)?, named(y)?)?)
    }

    /// All inputs and all targets.
    pub fn tensors(&self) -> (&Tensor, &Tensor) {
        (self.x.tensor(), self.y.tensor())
    }
}

impl Dataset for TensorDataset {
    type Item = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.x.len()
    }
    fn get(&self, index: usize) -> Result<(Tensor, Tensor)> {
        Ok((self.x.get(index)?, self.y.get(index)?))
    }
}
