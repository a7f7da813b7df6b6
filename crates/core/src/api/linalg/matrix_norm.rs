//! Norms of vectors and matrices, and condition numbers.

use crate::api::{axes, axis};
use crate::{
    Axes, Error, Result, Scalar, Shape, Tensor,
    op::{Composite, ReduceOp},
};
use smallvec::SmallVec;

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormOrd {
    /// Frobenius: the root of the sum of squares.
    Fro,
    /// Nuclear: the sum of singular values.
    Nuc,
    /// The norm of this order.
    P(f64),
}

impl From<f64> for NormOrd {
    fn from(p: f64) -> Self {
        NormOrd::P(p)
    }
}

impl From<i32> for NormOrd {
    fn from(p: i32) -> Self {
        NormOrd::P(p.into())
    }
}

impl Tensor {
    #[track_caller]
    pub(super) fn check_float(&self, name: &str) -> Result<()> {
        if self.dtype().is_float() {
            return Ok(());
        }
        let why = format!("needs floats, not {}", self.dtype());
        Err(Error::dtype(name, &[self.dtype()], why).operand(self).hint("convert it with to_dtype"))
    }

    /// PyTorch's `torch.linalg.norm`: of matrices for two axes, of vectors for one. Without an order it is the root of
    /// the sum of squares over all these axes.
    #[track_caller]
    pub fn linalg_norm(&self, ord: Option<NormOrd>, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let dim = dim.into();
        let Some(ord) = ord else { return self.vector_norm(2.0, dim, keepdim) };
        let count = match &dim {
            Axes::All => self.rank(),
            Axes::List(l) => l.len(),
        };
        match (count, ord) {
            (2, _) => self.matrix_norm(ord, self.matrix_axes("linalg_norm", &dim)?, keepdim),
            (0 | 1, NormOrd::P(p)) => self.vector_norm(p, dim, keepdim),
            _ => {
                let why = format!("the norm {ord:?} over {count} axes of {} is not defined", self.shape());
                Err(Error::value("linalg_norm", why).operand(self).hint("name one axis or two"))
            }
        }
    }

    /// Exactly two different axes, in the order given.
    #[track_caller]
    fn matrix_axes(&self, name: &str, dim: &Axes) -> Result<[i64; 2]> {
        match dim {
            Axes::All if self.rank() == 2 => Ok([0, 1]),
            Axes::List(l) if l.len() == 2 => Ok([l[0], l[1]]),
            _ => Err(Error::value(name, format!("needs two axes of {}, not {dim:?}", self.shape())).operand(self)),
        }
    }

    /// `(sum |x|^p)^(1/p)` over axes; `p = 0` counts what is not zero, infinite `p` is the largest or smallest.
    /// Gradients are 0 where the norm is.
    #[track_caller]
    pub fn vector_norm(&self, p: f64, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.check_float("vector_norm")?;
        let over: SmallVec<[usize; 6]> = axes("vector_norm", &dim.into(), self.rank())?;
        let dims: Vec<usize> = over.to_vec();
        if p.is_nan() {
            return Err(Error::value("vector_norm", "the order is NaN").operand(self));
        }
        if p < 0.0 || p == f64::INFINITY {
            self.not_empty("vector_norm", &over)?;
        }
        if p == 0.0 {
            // A zero counts as itself times nothing, so that the gradient is there, and is zero.
            return self.ne(0.0)?.where_(self.scalar_like(1.0), &(self * 0.0))?.sum_dim(dims, keepdim);
        }
        if p.is_infinite() {
            let a = self.abs();
            return if p > 0.0 { a.amax(dims, keepdim) } else { a.amin(dims, keepdim) };
        }
        if p == 1.0 {
            return self.abs().sum_dim(dims, keepdim);
        }
        if p == 2.0 {
            static EUCLID: Composite = Composite {
                name: "vector_norm",
                build: |x, settings| {
                    let axes = settings[1..].iter().map(|&a| a as usize).collect();
                    root((&x[0] * &x[0]).high().reduce_dims(ReduceOp::Sum, axes, settings[0] == 1), 2.0)
                },
            };
            let settings: SmallVec<[u64; 7]> =
                [keepdim as u64].into_iter().chain(over.iter().map(|&a| a as u64)).collect();
            let shape = self.reduced_shape(&over, keepdim);
            return Ok(Tensor::composed(&EUCLID, &[self], &settings, shape, self.dtype()));
        }
        // A zero's power is a constant, so that no infinite slope meets it.
        let a = self.abs();
        let zero = a.eq(0.0)?;
        let powers = zero.where_(a.scalar_like(1.0), &a)?.pow(p)?;
        let powers = zero.where_(a.scalar_like(0f64.powf(p)), &powers)?;
        Ok(root(powers.sum_dim(dims, keepdim)?, p))
    }

    /// A norm of matrices in the axes `dim` (rows, columns): Frobenius, nuclear, 1 and infinity (largest column or row
    /// sum), 2 (largest singular value); negative orders are the smallest.
    #[track_caller]
    pub fn matrix_norm(&self, ord: impl Into<NormOrd>, dim: [i64; 2], keepdim: bool) -> Result<Tensor> {
        let ord = ord.into();
        self.check_float("matrix_norm")?;
        if self.rank() < 2 {
            let why = format!("needs matrices, not {}", self.shape());
            return Err(Error::shape("matrix_norm", &[self.shape()], why).operand(self));
        }
        let both = axes("matrix_norm", &Axes::from(dim), self.rank())?;
        let (rows, cols) = (axis("matrix_norm", dim[0], self.rank())?, axis("matrix_norm", dim[1], self.rank())?);
        let order = (0..self.rank()).filter(|d| !both.contains(d)).chain([rows, cols]).collect();
        let x = self.permuted(order);
        let sums = |over: i64| x.abs().sum_dim(over, false);
        let flat = match ord {
            NormOrd::Fro => x.vector_norm(2.0, [-2, -1], false)?,
            NormOrd::Nuc => x.svdvals()?.sum_dim(-1, false)?,
            NormOrd::P(1.0) => sums(-2)?.amax(-1, false)?,
            NormOrd::P(-1.0) => sums(-2)?.amin(-1, false)?,
            NormOrd::P(f64::INFINITY) => sums(-1)?.amax(-1, false)?,
            NormOrd::P(f64::NEG_INFINITY) => sums(-1)?.amin(-1, false)?,
            NormOrd::P(2.0) => x.svdvals()?.amax(-1, false)?,
            NormOrd::P(-2.0) => x.svdvals()?.amin(-1, false)?,
            NormOrd::P(p) => {
                let why = format!("there is no norm of order {p} of matrices");
                return Err(Error::value("matrix_norm", why)
                    .operand(self)
                    .hint("orders: 1, 2, inf and their negatives"));
            }
        };
        if !keepdim {
            return Ok(flat);
        }
        let shape: Shape = (0..self.rank()).map(|d| if both.contains(&d) { 1 } else { self.dims()[d] }).collect();
        Ok(flat.reshape_to(&shape))
    }

    /// The condition number in a norm (2 if not given): `|A| |A^-1|`, infinite for singular matrices.
    #[track_caller]
    pub fn cond(&self, p: Option<NormOrd>) -> Result<Tensor> {
        let p = p.unwrap_or(NormOrd::P(2.0));
        let (m, n) = self.check_matrix("cond", !matches!(p, NormOrd::P(2.0 | -2.0)))?;
        if m == 0 || n == 0 {
            // Nothing is perfectly conditioned, as in PyTorch.
            return Ok(Tensor::zeros_on(Shape::from(&self.dims()[..self.rank() - 2]), self.dtype(), self.device()));
        }
        if matches!(p, NormOrd::P(2.0 | -2.0)) {
            let s = self.svdvals()?;
            let (largest, smallest) = (s.select(-1, 0)?, s.select(-1, -1)?);
            return if p == NormOrd::P(2.0) { largest.div(&smallest) } else { smallest.div(&largest) };
        }
        let (inverse, info) = self.inv_ex()?;
        let product = self.matrix_norm(p, [-2, -1], false)? * inverse.matrix_norm(p, [-2, -1], false)?;
        info.eq(0)?.where_(&product, product.scalar_like(f64::INFINITY))
    }
}

/// `sum ^ (1/p)`, flat where the sum is 0 or infinite.
#[track_caller]
fn root(sum: Tensor, p: f64) -> Tensor {
    let (zero, infinite) = (sum.raw_eq(&sum.scalar_like(0.0)), sum.raw_eq(&sum.scalar_like(f64::INFINITY)));
    let safe = zero.raw_or(&infinite).raw_where(&sum.full_like(Scalar::F(1.0)), &sum);
    let value = if p == 2.0 { safe.sqrt() } else { safe.raw_pow(&safe.scalar_like(1.0 / p)) };
    let (at_zero, at_infinity) = if p > 0.0 { (0.0, f64::INFINITY) } else { (f64::INFINITY, 0.0) };
    let value = zero.raw_where(&sum.scalar_like(at_zero), &value);
    infinite.raw_where(&sum.scalar_like(at_infinity), &value)
}
