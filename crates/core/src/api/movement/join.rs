//! Several tensors as one: stacks, grids and products.

use crate::api::same_device;
use crate::{DType, Error, ErrorKind, Result, Shape, Tensor};

/// How the first two inputs of [`Tensor::meshgrid`] lie in the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// Matrix order: the first input varies along axis 0.
    #[default]
    Ij,
    /// Cartesian order: the first input varies along axis 1.
    Xy,
}

impl Tensor {
    #[track_caller]
    fn joined(op: &str, tensors: &[&Tensor], shape: fn(&Tensor) -> Tensor, dim: i64) -> Result<Tensor> {
        if tensors.is_empty() {
            return Err(Error::value(op, "there is nothing to join"));
        }
        let parts: Vec<Tensor> = tensors.iter().map(|t| shape(t)).collect();
        // Vectors follow each other along the only axis they have.
        let dim = dim.min(parts[0].rank() as i64 - 1);
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), dim)
    }

    /// Tensors side by side: along axis 1, or 0 for vectors.
    #[track_caller]
    pub fn hstack(tensors: &[&Tensor]) -> Result<Tensor> {
        Tensor::joined("hstack", tensors, Tensor::atleast_1d, 1)
    }

    /// Tensors on top of each other: along axis 0, vectors as rows.
    #[track_caller]
    pub fn vstack(tensors: &[&Tensor]) -> Result<Tensor> {
        Tensor::joined("vstack", tensors, Tensor::atleast_2d, 0)
    }

    /// Another name for [`Tensor::vstack`].
    #[track_caller]
    pub fn row_stack(tensors: &[&Tensor]) -> Result<Tensor> {
        Tensor::vstack(tensors)
    }

    /// Tensors behind each other: along axis 2.
    #[track_caller]
    pub fn dstack(tensors: &[&Tensor]) -> Result<Tensor> {
        Tensor::joined("dstack", tensors, Tensor::atleast_3d, 2)
    }

    /// Vectors as the columns of a matrix; matrices side by side.
    #[track_caller]
    pub fn column_stack(tensors: &[&Tensor]) -> Result<Tensor> {
        let column = |t: &Tensor| if t.rank() < 2 { t.reshape_to(&Shape::from([t.numel(), 1])) } else { t.resolve() };
        Tensor::joined("column_stack", tensors, column, 1)
    }

    /// Matrices along the diagonal of a larger one, zeros elsewhere; vectors count as rows.
    #[track_caller]
    pub fn block_diag(tensors: &[&Tensor]) -> Result<Tensor> {
        if tensors.is_empty() {
            return Ok(Tensor::zeros([1, 0], DType::F32));
        }
        same_device("block_diag", tensors)?;
        if let Some(t) = tensors.iter().find(|t| t.rank() > 2) {
            let why = format!("needs matrices, not {}", t.shape());
            return Err(Error::shape("block_diag", &[t.shape()], why).operand(t));
        }
        let blocks: Vec<Tensor> = tensors.iter().map(|t| t.atleast_2d()).collect();
        let width: usize = blocks.iter().map(|b| b.dims()[1]).sum();
        let mut left = 0;
        let mut rows = vec![];
        for b in &blocks {
            let n = b.dims()[1];
            rows.push(b.pad_axis(1, left, width - left - n)?);
            left += n;
        }
        Tensor::cat(&rows.iter().collect::<Vec<_>>(), 0)
    }

    /// Vectors as coordinates: one tensor each, all of the shape that the lengths make.
    ///
    /// ```
    /// use gradus_core::{Indexing, Tensor};
    /// let (x, y) = (Tensor::from([1, 2, 3]), Tensor::from([4, 5]));
    /// let grid = Tensor::meshgrid(&[&x, &y], Indexing::Ij).unwrap();
    /// assert_eq!(grid[1].to_vec::<i32>().unwrap(), [4, 5, 4, 5, 4, 5]);
    /// ```
    #[track_caller]
    pub fn meshgrid(tensors: &[&Tensor], indexing: Indexing) -> Result<Vec<Tensor>> {
        let Some(first) = tensors.first() else {
            return Err(Error::value("meshgrid", "there are no coordinates"));
        };
        same_device("meshgrid", tensors)?;
        for t in tensors {
            if t.rank() > 1 {
                let why = format!("coordinates are vectors, not {}", t.shape());
                return Err(Error::shape("meshgrid", &[t.shape()], why).operand(t));
            }
            if t.dtype() != first.dtype() {
                let why = format!("coordinates have one type, not {} and {}", first.dtype(), t.dtype());
                let e = Error::dtype("meshgrid", &[first.dtype(), t.dtype()], why);
                return Err(e.operand(first).operand(t));
            }
        }
        let n = tensors.len();
        let axis = |k: usize| if indexing == Indexing::Xy && n > 1 && k < 2 { 1 - k } else { k };
        let mut shape = Shape::from(vec![1; n]);
        tensors.iter().enumerate().for_each(|(k, t)| shape = shape.with(axis(k), t.numel()));
        let ones = Shape::from(vec![1; n]);
        let along = |(k, t): (usize, &&Tensor)| t.reshape_to(&ones.with(axis(k), t.numel())).expand_to(&shape);
        Ok(tensors.iter().enumerate().map(along).collect())
    }

    /// All choices of one element from each vector, as rows.
    #[track_caller]
    pub fn cartesian_prod(tensors: &[&Tensor]) -> Result<Tensor> {
        if let &[one] = tensors {
            if one.rank() != 1 {
                let why = format!("choices are vectors, not {}", one.shape());
                return Err(Error::shape("cartesian_prod", &[one.shape()], why).operand(one));
            }
            return Ok(one.resolve());
        }
        let grid: Vec<Tensor> = Tensor::meshgrid(tensors, Indexing::Ij)?
            .iter()
            .map(|t| t.ravel().reshape_to(&[t.numel(), 1].into()))
            .collect();
        Tensor::cat(&grid.iter().collect::<Vec<_>>(), 1)
    }

    /// All choices of `r` elements of a vector, in order, as rows.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let c = Tensor::from([1, 2, 3]).combinations(2, false).unwrap();
    /// assert_eq!(c.to_vec::<i32>().unwrap(), [1, 2, 1, 3, 2, 3]);
    /// ```
    #[track_caller]
    pub fn combinations(&self, r: usize, with_replacement: bool) -> Result<Tensor> {
        if self.rank() != 1 {
            let why = format!("needs a vector, not {}", self.shape());
            return Err(Error::shape("combinations", &[self.shape()], why).operand(self));
        }
        if r == 0 {
            return Ok(Tensor::zeros_on(Shape::from(0), self.dtype(), self.device()));
        }
        let n = self.numel();
        let mut index: Vec<i64> = vec![];
        let mut row: Vec<usize> = (0..r).map(|k| if with_replacement { 0 } else { k }).collect();
        let mut rows = 0usize;
        // The highest value that place k may take, so that the places after it still fit.
        let top = |k: usize| if with_replacement { n.checked_sub(1) } else { (n + k).checked_sub(r) };
        let fits = |row: &[usize]| row.iter().enumerate().all(|(k, &v)| top(k).is_some_and(|t| v <= t));
        while fits(&row) {
            index.extend(row.iter().map(|&v| v as i64));
            rows += 1;
            if index.len() > isize::MAX as usize / 64 {
                return Err(Error::new("combinations", ErrorKind::Alloc { bytes: index.len() as u128 * 8 }));
            }
            let Some(k) = (0..r).rev().find(|&k| top(k).is_some_and(|t| row[k] < t)) else { break };
            let next = row[k] + 1;
            (k..r).for_each(|j| row[j] = if with_replacement { next } else { next + j - k });
        }
        let index = Tensor::from_vec(index, [rows * r])?.to(&self.device());
        self.index_select(0, &index)?.reshape([rows, r])
    }
}
