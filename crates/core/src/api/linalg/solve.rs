//! Determinants, inverses and linear systems beyond the plain ones.

use crate::{DType, Error, Result, Scalar, Shape, Tensor, op::Linalg};

/// What [`Tensor::lstsq`] finds.
#[derive(Clone)]
pub struct Lstsq {
    /// The solution of least squares, the one of least norm where several are equally good.
    pub solution: Tensor,
    /// The squared norm of `A X - B` for each column if there are more equations than unknowns; empty otherwise.
    pub residuals: Tensor,
    /// The rank of each `A`.
    pub rank: Tensor,
    /// The singular values of each `A`.
    pub singular_values: Tensor,
}

impl Tensor {
    /// Determinants. The gradient is right for singular matrices too, to second order.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let a = Tensor::var("a", Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]));
    /// let d = a.det().unwrap();
    /// let g = d.backward().unwrap().wrt(&a).unwrap().to_vec::<f64>().unwrap();
    /// assert!(d.item::<f64>().unwrap().abs() < 1e-12);
    /// assert!(g.iter().zip([4.0, -2.0, -2.0, 1.0]).all(|(x, y)| (x - y).abs() < 1e-12));
    /// ```
    #[track_caller]
    pub fn det(&self) -> Result<Tensor> {
        self.check_matrix("det", true)?;
        Ok(self.linalg_op(Linalg::Det, &[], Shape::from(&self.dims()[..self.rank() - 2])))
    }

    /// The cofactors of square matrices; the caller has checked them.
    #[track_caller]
    pub(crate) fn cofactor(&self) -> Tensor {
        self.linalg_op(Linalg::Cofactor, &[], self.shape().clone())
    }

    /// Logarithms of determinants: NaN for a negative one.
    #[track_caller]
    pub fn logdet(&self) -> Result<Tensor> {
        self.check_matrix("logdet", true)?;
        let (sign, log) = self.slogdet()?;
        sign.detach().lt(0.0)?.where_(log.scalar_like(f64::NAN), &log)
    }

    /// Inverse matrices, and for each 0 or the number (from one) of the pivot that is zero: the inverse is then NaN.
    #[track_caller]
    pub fn inv_ex(&self) -> Result<(Tensor, Tensor)> {
        let (n, _) = self.check_matrix("inv_ex", true)?;
        let info = self.zero_pivot()?;
        let bad = info.ne(0)?.unsqueeze(-1)?.unsqueeze(-1)?;
        let x = bad.where_(self.identity(n), self)?.inv()?;
        Ok((bad.where_(x.scalar_like(f64::NAN), &x)?, info))
    }

    /// The solution of [`Tensor::solve`], and for each matrix 0 or the number (from one) of the pivot that is zero: the
    /// solution is then NaN.
    #[track_caller]
    pub fn solve_ex(&self, b: &Tensor) -> Result<(Tensor, Tensor)> {
        let (n, _) = self.check_matrix("solve_ex", true)?;
        let info = self.zero_pivot()?;
        let bad = info.ne(0)?.unsqueeze(-1)?.unsqueeze(-1)?;
        let x = bad.where_(self.identity(n), self)?.solve(b)?;
        let vector = self.is_vector_rhs(b);
        let bad = if vector { bad.squeeze(-1)? } else { bad };
        Ok((bad.where_(x.scalar_like(f64::NAN), &x)?, info))
    }

    /// The number (from one) of the first zero pivot of each matrix as i32; 0 where there is none.
    #[track_caller]
    fn zero_pivot(&self) -> Result<Tensor> {
        let (_, _, u) = self.detach().lu()?;
        let n = self.dims()[self.rank() - 1];
        if n == 0 {
            let shape = Shape::from(&self.dims()[..self.rank() - 2]);
            return Ok(Tensor::zeros_on(shape, DType::I32, self.device()));
        }
        let i = Tensor::arange_on(n, self.device());
        let diagonal = i.unsqueeze(1)?.eq(&i)?;
        let zero = diagonal.logical_and(&u.eq(0.0)?)?;
        let beyond = Tensor::constant(Scalar::I(n as i64 + 1), DType::I64, self.device());
        let first = zero.where_(&(i + 1), &beyond)?.amin([-2, -1], false)?;
        first
            .gt(Tensor::constant(Scalar::I(n as i64), DType::I64, self.device()))?
            .where_(0i64, &first)
            .map(|t| t.to_dtype(DType::I32))
    }

    /// Whether `b` is a vector, or a batch of them, as a right-hand side for this.
    pub(crate) fn is_vector_rhs(&self, b: &Tensor) -> bool {
        let r = self.rank();
        b.rank() == 1 || (b.rank() + 1 == r && b.dims() == &self.dims()[..r - 1])
    }

    /// The solution `X` of `X A = B`: [`Tensor::solve`] from the other side.
    #[track_caller]
    pub fn solve_right(&self, b: &Tensor) -> Result<Tensor> {
        self.check_matrix("solve_right", true)?;
        if self.is_vector_rhs(b) { self.mt().solve(b) } else { Ok(self.mt().solve(&b.mt())?.mt()) }
    }

    /// The solution `X` of `X A = B` where only one triangle of `A` counts.
    #[track_caller]
    pub fn solve_triangular_right(&self, b: &Tensor, upper: bool, unitriangular: bool) -> Result<Tensor> {
        self.check_matrix("solve_triangular_right", true)?;
        b.check_matrix("solve_triangular_right", false)?;
        Ok(self.mt().solve_triangular(&b.mt(), !upper, unitriangular)?.mt())
    }

    /// PyTorch's older form of [`Tensor::solve_triangular`]: this is the right-hand side; also gives back `a`.
    #[track_caller]
    pub fn triangular_solve(
        &self,
        a: &Tensor,
        upper: bool,
        transpose: bool,
        unitriangular: bool,
    ) -> Result<(Tensor, Tensor)> {
        a.check_matrix("triangular_solve", true)?;
        self.check_matrix("triangular_solve", false)?;
        let x = match transpose {
            true => a.mt().solve_triangular(self, !upper, unitriangular)?,
            false => a.solve_triangular(self, upper, unitriangular)?,
        };
        let batch: Vec<usize> = x.dims()[..x.rank() - 2].to_vec();
        let shape: Shape = batch.into_iter().chain(a.dims()[a.rank() - 2..].iter().copied()).collect();
        Ok((x, a.expand(shape)?))
    }

    /// Pseudoinverses. Singular values up to the larger of `atol` (0 if not given) and `rtol` (if neither is given, the
    /// larger extent times the type's epsilon) times the largest count as zero.
    #[track_caller]
    pub fn pinv(&self, atol: Option<f64>, rtol: Option<f64>) -> Result<Tensor> {
        let (m, n) = self.check_matrix("pinv", false)?;
        let (atol, rtol) = self.tolerances(atol, rtol);
        let scalar = |x: f64| self.scalar_like(x).reshape_to(&1.into());
        let limits = Tensor::cat(&[&scalar(atol), &scalar(rtol)], 0)?;
        let shape: Shape = self.dims()[..self.rank() - 2].iter().copied().chain([n, m]).collect();
        Ok(self.linalg_op(Linalg::Pinv, &[&limits], shape))
    }

    fn tolerances(&self, atol: Option<f64>, rtol: Option<f64>) -> (f64, f64) {
        let eps = if self.dtype() == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
        let size = self.dims().iter().rev().take(2).max().copied().unwrap_or(0);
        let usual = if atol.is_some_and(|a| a > 0.0) { 0.0 } else { size as f64 * eps };
        (atol.unwrap_or(0.0), rtol.unwrap_or(usual))
    }

    /// The number of singular values above the tolerances of [`Tensor::pinv`], as i64.
    #[track_caller]
    pub fn matrix_rank(&self, atol: Option<f64>, rtol: Option<f64>) -> Result<Tensor> {
        let (m, n) = self.check_matrix("matrix_rank", false)?;
        let s = self.detach().svdvals()?;
        if m.min(n) == 0 {
            return Ok(Tensor::zeros_on(Shape::from(&self.dims()[..self.rank() - 2]), DType::I64, self.device()));
        }
        let (atol, rtol) = self.tolerances(atol, rtol);
        let least = (s.amax(-1, true)? * rtol).maximum(atol)?;
        s.gt(&least)?.sum_dim(-1, false)
    }

    /// The solution `X` of least squares of `A X = B` (of least norm where several are equally good).
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor, rcond: Option<f64>) -> Result<Lstsq> {
        let (m, n) = self.check_matrix("lstsq", false)?;
        let vector = self.is_vector_rhs(b);
        let rhs = if vector { b.unsqueeze(-1)? } else { b.resolve() };
        rhs.check_matrix("lstsq", false)?;
        if rhs.dims()[rhs.rank() - 2] != m {
            let why = format!("{m} equations, but the right-hand side is {}", b.shape());
            return Err(Error::shape("lstsq", &[self.shape(), b.shape()], why).operand(self).operand(b));
        }
        let x = self.pinv(None, rcond)?.matmul(&rhs)?;
        let residuals = match m > n {
            true => (self.matmul(&x)? - &rhs).square().sum_dim(-2, false)?,
            false => Tensor::zeros_on(0.into(), self.dtype(), self.device()),
        };
        Ok(Lstsq {
            solution: if vector { x.squeeze(-1)? } else { x },
            residuals,
            rank: self.matrix_rank(None, rcond)?,
            singular_values: self.svdvals()?,
        })
    }

    /// The matrix exponential.
    #[track_caller]
    pub fn matrix_exp(&self) -> Result<Tensor> {
        self.check_matrix("matrix_exp", true)?;
        Ok(self.linalg_op(Linalg::Exp, &[], self.shape().clone()))
    }
}
