//! Matrix products and factorisations.

use crate::api::same_device;
use crate::{
    DType, Error, Result, Shape, Tensor,
    op::{HostOp, Linalg, Op, ewise},
};
use std::panic::Location;

impl Tensor {
    /// Matrix product with PyTorch's rank rules: vectors are rows or columns, leading axes broadcast.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(&Tensor::from([1.0f32, 1.0])).unwrap().to_vec::<f32>().unwrap(), [3.0, 7.0]);
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let at = Location::caller();
        let (left, right) = (self.low(), other.low());
        let fail = |why: String| {
            Error::shape("matmul", &[self.shape(), other.shape()], why).operand(self).operand(other).at(at)
        };
        same_device("matmul", &[self, other])?;
        if left.dtype() != right.dtype() {
            let why = format!("element types differ: {} and {}", self.dtype(), other.dtype());
            let e = Error::dtype("matmul", &[self.dtype(), other.dtype()], why).operand(self).operand(other);
            return Err(e.hint("convert one of them with to_dtype"));
        }
        if self.rank() == 0 || other.rank() == 0 {
            return Err(fail(format!("both need at least one axis: {} x {}", self.shape(), other.shape()))
                .hint("use * for scalars"));
        }
        // Vectors become matrices for the product, and the extra axis goes again after it.
        let a = if self.rank() == 1 { left.reshape_to(&self.shape().inserted(0, 1)) } else { left };
        let b = if other.rank() == 1 { right.reshape_to(&other.shape().inserted(1, 1)) } else { right };
        let (ra, rb) = (a.rank(), b.rank());
        let (m, k, k2, n) = (a.dims()[ra - 2], a.dims()[ra - 1], b.dims()[rb - 2], b.dims()[rb - 1]);
        if k != k2 {
            let why = format!("inner dimensions differ: {} x {} ({k} vs {k2})", self.shape(), other.shape());
            return Err(fail(why));
        }
        let (ba, bb) = (Shape::from(&a.dims()[..ra - 2]), Shape::from(&b.dims()[..rb - 2]));
        let Some(batch) = ba.broadcast(&bb) else {
            return Err(fail(format!("leading axes do not broadcast: {} x {}", self.shape(), other.shape())));
        };
        let with = |tail: [usize; 2]| batch.iter().copied().chain(tail).collect::<Shape>();
        // One matrix against a batch of them is one taller product.
        let out = if bb.numel() == 1 && ba.rank() >= bb.rank() && ra > 2 {
            let rows = a.reshape_to(&Shape::from([ba.numel() * m, k]));
            rows.product(&b.reshape_to(&Shape::from([k, n])), Shape::from([ba.numel() * m, n]))
                .reshape_to(&with([m, n]))
        } else {
            a.expand_to(&with([m, k])).product(&b.expand_to(&with([k, n])), with([m, n]))
        };
        let mut shape = out.shape().clone();
        if other.rank() == 1 {
            shape.0.pop();
        }
        if self.rank() == 1 {
            let at = shape.rank() - (other.rank() != 1) as usize - 1;
            shape.0.remove(at);
        }
        Ok(out.reshape_to(&shape))
    }

    /// The product node, in a type the backend multiplies.
    #[track_caller]
    fn product(&self, other: &Tensor, shape: Shape) -> Tensor {
        let d = self.dtype();
        let exact = !matches!(d, DType::F16 | DType::BF16 | DType::Bool);
        if self.dims()[self.rank() - 1] == 1 && exact {
            // A column times a row has nothing to add up, and fuses with what is around it. Products of 16 bits are stored
            // as such: a loss scale must see what overflows.
            return Tensor::ewise(&ewise::MUL, &[&self.expand_to(&shape), &other.expand_to(&shape)], d);
        }
        match d {
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::I64 | DType::I32 => {
                self.make(Op::Matmul, &[self, other], shape, d)
            }
            DType::Bool | DType::U8 | DType::I8 | DType::I16 => {
                let (a, b) = (self.to_dtype(DType::I64), other.to_dtype(DType::I64));
                self.make(Op::Matmul, &[&a, &b], shape, DType::I64).to_dtype(d)
            }
        }
    }

    /// Checks for at least two axes, square if asked, of floats the routines take.
    #[track_caller]
    pub(crate) fn check_matrix(&self, name: &str, square: bool) -> Result<(usize, usize)> {
        let r = self.rank();
        let ok = r >= 2 && (!square || self.dims()[r - 1] == self.dims()[r - 2]);
        if !ok {
            let what = if square { "square matrices" } else { "matrices" };
            let why = format!("needs {what}, not {}", self.shape());
            return Err(Error::shape(name, &[self.shape()], why).operand(self));
        }
        if !matches!(self.dtype(), DType::F32 | DType::F64) {
            let why = format!("needs f32 or f64, not {}", self.dtype());
            return Err(Error::dtype(name, &[self.dtype()], why).operand(self));
        }
        Ok((self.dims()[r - 2], self.dims()[r - 1]))
    }

    #[track_caller]
    pub(crate) fn linalg_op(&self, op: Linalg, others: &[&Tensor], shape: Shape) -> Tensor {
        let inputs: Vec<&Tensor> = std::iter::once(self).chain(others.iter().copied()).collect();
        self.make(Op::Host(HostOp::Linalg(op)), &inputs, shape, self.dtype())
    }

    /// Inverse matrices.
    #[track_caller]
    pub fn inv(&self) -> Result<Tensor> {
        self.check_matrix("inv", true)?;
        Ok(self.linalg_op(Linalg::Inv, &[], self.shape().clone()))
    }

    /// The solution `X` of `A X = B`; a vector or a batch of vectors `B` counts as columns, as in PyTorch.
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Result<Tensor> {
        self.check_matrix("solve", true)?;
        let (a, b, vector) = self.system("solve", b)?;
        let x = a.linalg_op(Linalg::Solve, &[&b], b.shape().clone());
        if vector { x.squeeze(-1) } else { Ok(x) }
    }

    /// The solution `X` of `A X = B` where only one triangle of `A` counts.
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool, unitriangular: bool) -> Result<Tensor> {
        self.check_matrix("solve_triangular", true)?;
        let (a, b, vector) = self.system("solve_triangular", b)?;
        let x = a.linalg_op(Linalg::SolveTriangular { upper, unit: unitriangular }, &[&b], b.shape().clone());
        if vector { x.squeeze(-1) } else { Ok(x) }
    }

    /// Matrix and right-hand sides with equal leading axes; whether the right-hand side was a vector.
    #[track_caller]
    fn system(&self, name: &str, b: &Tensor) -> Result<(Tensor, Tensor, bool)> {
        same_device(name, &[self, b])?;
        let at = Location::caller();
        let fail = |why: String| Error::shape(name, &[self.shape(), b.shape()], why).operand(self).operand(b).at(at);
        if self.dtype() != b.dtype() {
            let why = format!("element types differ: {} and {}", self.dtype(), b.dtype());
            return Err(Error::dtype(name, &[self.dtype(), b.dtype()], why).operand(self).operand(b));
        }
        let r = self.rank();
        let n = self.dims()[r - 1];
        let vector = self.is_vector_rhs(b);
        let rhs = if vector { b.unsqueeze(-1)? } else { b.resolve() };
        if rhs.rank() < 2 || rhs.dims()[rhs.rank() - 2] != n {
            return Err(fail(format!("{} equations, but the right-hand side is {}", n, b.shape())));
        }
        let (ba, bb) = (Shape::from(&self.dims()[..r - 2]), Shape::from(&rhs.dims()[..rhs.rank() - 2]));
        let Some(batch) = ba.broadcast(&bb) else {
            return Err(fail(format!("leading axes do not broadcast: {} and {}", self.shape(), b.shape())));
        };
        let cols = rhs.dims()[rhs.rank() - 1];
        let with = |tail: [usize; 2]| batch.iter().copied().chain(tail).collect::<Shape>();
        Ok((self.expand_to(&with([n, n])), rhs.expand_to(&with([n, cols])), vector))
    }

    /// The upper triangle from diagonal `k`; zeros elsewhere.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Result<Tensor> {
        self.triangle("triu", |row, col| col.ge(&(row + k)))
    }

    /// The lower triangle up to diagonal `k`; zeros elsewhere.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Result<Tensor> {
        self.triangle("tril", |row, col| col.le(&(row + k)))
    }

    #[track_caller]
    fn triangle(&self, name: &str, keep: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let r = self.rank();
        if r < 2 {
            return Err(
                Error::shape(name, &[self.shape()], format!("needs matrices, not {}", self.shape())).operand(self)
            );
        }
        let row = Tensor::arange_on(self.dims()[r - 2], self.device()).unsqueeze(1)?;
        let col = Tensor::arange_on(self.dims()[r - 1], self.device()).unsqueeze(0)?;
        Ok(keep(&row, &col)?.raw_where(self, &self.zeros_like()))
    }

    /// The powers `x^0, x^1, ..., x^(n - 1)` along a new last axis; without `n`, as many as the last axis is long.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let v = Tensor::from([2.0f64, 3.0]).vander(Some(3)).unwrap();
    /// assert_eq!(v.to_vec::<f64>().unwrap(), [1.0, 2.0, 4.0, 1.0, 3.0, 9.0]);
    /// ```
    #[track_caller]
    pub fn vander(&self, n: Option<usize>) -> Result<Tensor> {
        let Some(&last) = self.dims().last() else {
            return self.reshape_to(&Shape::from(1)).vander(n); // a scalar counts as one element, as in PyTorch
        };
        let n = n.unwrap_or(last);
        let x = self.unsqueeze(-1)?;
        if n < 2 {
            return Ok(self.ones_like().unsqueeze(-1)?.sliced(self.rank(), 0, 1, n));
        }
        // Running products of 1, x, x, ...: exact where powers are.
        let rest: Shape = self.dims().iter().copied().chain([n - 1]).collect();
        Tensor::cat(&[&x.ones_like(), &x.expand_to(&rest)], -1)?.cumprod(-1)
    }
}
