//! Variance, deviation and covariance.

use crate::api::{axes, same_device};
use crate::{
    Axes, DType, Error, Result, Shape, Tensor,
    op::{Composite, ReduceOp},
};
use smallvec::SmallVec;

type Positions = SmallVec<[usize; 6]>;

/// Options of [`Tensor::cov`].
#[derive(Clone, Debug)]
pub struct Covariance {
    /// What is taken off the number of observations: 1 for samples, 0 for whole populations.
    pub correction: f64,
    /// How often each observation was made (integers).
    pub fweights: Option<Tensor>,
    /// How much each observation counts.
    pub aweights: Option<Tensor>,
}

impl Default for Covariance {
    fn default() -> Self {
        Covariance { correction: 1.0, fweights: None, aweights: None }
    }
}

impl Tensor {
    /// Variances and means over axes, in floats. `correction` is what is taken off the number of elements: 1 for
    /// samples (PyTorch's default), 0 for whole populations.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([[1.0f64, 3.0], [5.0, 5.0]]);
    /// let (v, m) = x.var_mean_dim(1, 1, false).unwrap();
    /// assert_eq!(v.to_vec::<f64>().unwrap(), [2.0, 0.0]);
    /// assert_eq!(m.to_vec::<f64>().unwrap(), [2.0, 5.0]);
    /// ```
    #[track_caller]
    pub fn var_mean_dim(
        &self,
        dim: impl Into<Axes>,
        correction: impl Into<f64>,
        keepdim: bool,
    ) -> Result<(Tensor, Tensor)> {
        let a = axes("var_mean", &dim.into(), self.rank())?;
        Ok(self.moments(&a, correction.into(), keepdim))
    }

    #[track_caller]
    fn moments(&self, a: &[usize], correction: f64, keepdim: bool) -> (Tensor, Tensor) {
        let x = self.floated();
        let n: usize = a.iter().map(|&d| x.dims()[d]).product();
        let mean = x.reduce_keep(ReduceOp::Sum, a.into()) / n as f64;
        let off = &x - &mean;
        // Too few elements divide by zero: NaN or infinity, as in PyTorch.
        let var = (&off * &off).reduce_keep(ReduceOp::Sum, a.into()) / (n as f64 - correction).max(0.0);
        let shape = x.reduced_shape(a, keepdim);
        (var.reshape_to(&shape), mean.reshape_to(&shape))
    }

    /// Variances, or their roots, over axes.
    #[track_caller]
    fn spread(&self, root: bool, over: &[usize], correction: f64, keepdim: bool) -> Tensor {
        fn variances(x: &Tensor, settings: &[u64]) -> Tensor {
            let over: Positions = settings[2..].iter().map(|&a| a as usize).collect();
            x.moments(&over, f64::from_bits(settings[0]), settings[1] == 1).0
        }
        static VAR: Composite = Composite { name: "var", build: |x, settings| variances(&x[0], settings) };
        static STD: Composite = Composite { name: "std", build: |x, settings| variances(&x[0], settings).deviation() };
        let shape = self.reduced_shape(over, keepdim);
        let settings = [correction.to_bits(), keepdim as u64].into_iter().chain(over.iter().map(|&a| a as u64));
        let settings: SmallVec<[u64; 8]> = settings.collect();
        Tensor::composed(if root { &STD } else { &VAR }, &[self], &settings, shape, self.dtype().to_float())
    }

    /// The root of a variance; its gradient is 0 where the variance is.
    #[track_caller]
    fn deviation(&self) -> Tensor {
        let flat = self.raw_eq(&self.scalar_like(0.0));
        self.with_constant(&flat, 1.0).sqrt().with_constant(&flat, 0.0)
    }

    /// The variance of all elements ([`Tensor::var`] makes variables); see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn variance(&self, correction: impl Into<f64>) -> Tensor {
        self.spread(false, &(0..self.rank()).collect::<Positions>(), correction.into(), false)
    }

    /// Variances over axes; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn var_dim(&self, dim: impl Into<Axes>, correction: impl Into<f64>, keepdim: bool) -> Result<Tensor> {
        Ok(self.spread(false, &axes("var", &dim.into(), self.rank())?, correction.into(), keepdim))
    }

    /// The deviation of all elements; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn std(&self, correction: impl Into<f64>) -> Tensor {
        self.spread(true, &(0..self.rank()).collect::<Positions>(), correction.into(), false)
    }

    /// Deviations over axes; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn std_dim(&self, dim: impl Into<Axes>, correction: impl Into<f64>, keepdim: bool) -> Result<Tensor> {
        Ok(self.spread(true, &axes("std", &dim.into(), self.rank())?, correction.into(), keepdim))
    }

    /// Variance and mean of all elements; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn var_mean(&self, correction: impl Into<f64>) -> (Tensor, Tensor) {
        let all: Vec<usize> = (0..self.rank()).collect();
        self.moments(&all, correction.into(), false)
    }

    /// Deviation and mean of all elements; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn std_mean(&self, correction: impl Into<f64>) -> (Tensor, Tensor) {
        let (var, mean) = self.var_mean(correction);
        (var.deviation(), mean)
    }

    /// Deviations and means over axes; see [`Tensor::var_mean_dim`].
    #[track_caller]
    pub fn std_mean_dim(
        &self,
        dim: impl Into<Axes>,
        correction: impl Into<f64>,
        keepdim: bool,
    ) -> Result<(Tensor, Tensor)> {
        let a = axes("std_mean", &dim.into(), self.rank())?;
        let (var, mean) = self.moments(&a, correction.into(), keepdim);
        Ok((var.deviation(), mean))
    }

    /// The covariances of variables (rows) over observations (columns); a vector is one variable.
    #[track_caller]
    pub fn cov(&self, options: Covariance) -> Result<Tensor> {
        if self.rank() > 2 {
            let why = format!("needs at most two axes (variables, observations), not {}", self.shape());
            return Err(Error::shape("cov", &[self.shape()], why).operand(self));
        }
        let x = self.floated();
        let x = if x.rank() < 2 { x.reshape_to(&Shape::from([1, x.numel()])) } else { x };
        let n = x.dims()[1];
        let Covariance { correction, fweights, aweights } = options;
        for (w, float) in [(&fweights, false), (&aweights, true)] {
            let Some(w) = w else { continue };
            same_device("cov", &[self, w])?;
            if w.rank() > 1 || w.numel() != n {
                let why = format!("{n} observations need a vector of {n} weights, not {}", w.shape());
                return Err(Error::shape("cov", &[self.shape(), w.shape()], why).operand(self).operand(w));
            }
            if w.dtype().is_float() != float || w.dtype() == DType::Bool {
                let kind = if float { "aweights must be floats" } else { "fweights must be integers" };
                let why = format!("{kind}, not {}", w.dtype());
                return Err(Error::dtype("cov", &[w.dtype()], why).operand(w));
            }
        }
        let row = |w: &Tensor| w.reshape_to(&Shape::from(n));
        let weights = match (&fweights, &aweights) {
            (Some(f), Some(a)) => Some(row(f).mul(row(a))?),
            (Some(w), None) | (None, Some(w)) => Some(row(w)),
            (None, None) => None,
        };
        // The type of everything: weights may be wider than the data.
        let d = weights.as_ref().map_or(x.dtype(), |w| x.dtype().promote(w.dtype()));
        let (x, w) = (x.to_dtype(d), weights.map(|w| w.to_dtype(d)));
        let weighted = |x: &Tensor| w.as_ref().map_or(x.clone(), |w| x * w);
        let total = w.as_ref().map_or(x.scalar_like(n as f64), Tensor::sum);
        let mean = weighted(&x).sum_dim(1, true)? / &total;
        let lost = match (&w, &aweights) {
            (Some(w), Some(a)) if correction != 0.0 => (w * row(a).to_dtype(d)).sum() * correction / &total,
            _ => x.scalar_like(correction),
        };
        let count = total - lost;
        // Nothing left to divide by is a division by zero, never a negative variance.
        let count = count.with_constant(&count.scalar_like(0.0).raw_ge(&count), 0.0);
        let off = x - mean;
        let c = off.matmul(&weighted(&off).mt())? / count;
        c.squeeze(..)
    }

    /// The correlations of variables (rows) over observations (columns); a vector is one variable.
    #[track_caller]
    pub fn corrcoef(&self) -> Result<Tensor> {
        if self.rank() > 2 {
            let why = format!("needs at most two axes (variables, observations), not {}", self.shape());
            return Err(Error::shape("corrcoef", &[self.shape()], why).operand(self));
        }
        let c = self.cov(Covariance::default())?;
        if c.rank() == 0 {
            return c.div(&c); // 1, or NaN where nothing varies
        }
        let n = c.dims()[0];
        let flat = c.reshape_to(&Shape::from(n * n));
        let dev = if n > 0 { flat.sliced(0, 0, n as isize + 1, n) } else { flat }.sqrt();
        (c / dev.unsqueeze(1)? / dev).clamp(-1.0, 1.0)
    }
}
