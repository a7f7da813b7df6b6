//! Reductions over any axes.

use crate::api::{axes, layout};
use crate::{
    Axes, DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Composite, Op, ReduceOp},
};
use smallvec::SmallVec;

impl Tensor {
    /// A reduction over positions that were checked, keeping them with extent 1.
    #[track_caller]
    pub(crate) fn reduce_keep(&self, op: ReduceOp, axes: SmallVec<[usize; 6]>) -> Tensor {
        if axes.is_empty() {
            return self.resolve();
        }
        if let Some(kept) = layout::reduction(self, op, &axes) {
            return kept;
        }
        let mut shape = self.shape().clone();
        axes.iter().for_each(|&a| shape.0[a] = 1);
        self.make(Op::Reduce { op, axes }, &[self], shape, self.dtype())
    }

    #[track_caller]
    pub(crate) fn reduce_dims(&self, op: ReduceOp, axes: SmallVec<[usize; 6]>, keepdim: bool) -> Tensor {
        if keepdim || axes.is_empty() {
            return self.reduce_keep(op, axes);
        }
        fn reduced(x: &Tensor, op: ReduceOp, axes: &[u64]) -> Tensor {
            let axes: SmallVec<[usize; 6]> = axes.iter().map(|&a| a as usize).collect();
            x.reduce_keep(op, axes.clone()).reshape_to(&x.reduced_shape(&axes, false))
        }
        static SUM: Composite = Composite { name: "sum", build: |x, axes| reduced(&x[0], ReduceOp::Sum, axes) };
        static PROD: Composite = Composite { name: "prod", build: |x, axes| reduced(&x[0], ReduceOp::Prod, axes) };
        static MAX: Composite = Composite { name: "amax", build: |x, axes| reduced(&x[0], ReduceOp::Max, axes) };
        static MIN: Composite = Composite { name: "amin", build: |x, axes| reduced(&x[0], ReduceOp::Min, axes) };
        let of = match op {
            ReduceOp::Sum => &SUM,
            ReduceOp::Prod => &PROD,
            ReduceOp::Max => &MAX,
            ReduceOp::Min => &MIN,
        };
        let settings: SmallVec<[u64; 6]> = axes.iter().map(|&a| a as u64).collect();
        Tensor::composed(of, &[self], &settings, self.reduced_shape(&axes, false), self.dtype())
    }

    /// Integers and bools add up as i64, 16-bit floats inside `autocast` as f32.
    #[track_caller]
    fn summable(&self) -> Tensor {
        if self.dtype().is_float() { self.high() } else { self.to_dtype(DType::I64) }
    }

    /// The sum of all elements.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).sum().item::<f32>().unwrap(), 10.0);
    /// ```
    #[track_caller]
    pub fn sum(&self) -> Tensor {
        let all = (0..self.rank()).collect();
        self.summable().reduce_dims(ReduceOp::Sum, all, false)
    }

    /// Sums over axes.
    #[track_caller]
    pub fn sum_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("sum", &dim.into(), self.rank())?;
        Ok(self.summable().reduce_dims(ReduceOp::Sum, a, keepdim))
    }

    /// The product of all elements.
    #[track_caller]
    pub fn prod(&self) -> Tensor {
        let all = (0..self.rank()).collect();
        self.summable().reduce_dims(ReduceOp::Prod, all, false)
    }

    /// Products over axes.
    #[track_caller]
    pub fn prod_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("prod", &dim.into(), self.rank())?;
        Ok(self.summable().reduce_dims(ReduceOp::Prod, a, keepdim))
    }

    /// Means over axes; integers become floats.
    #[track_caller]
    pub fn mean_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("mean", &dim.into(), self.rank())?;
        Ok(self.means(&a, keepdim, false))
    }

    /// The mean of all elements; integers become floats.
    #[track_caller]
    pub fn mean(&self) -> Tensor {
        self.means(&(0..self.rank()).collect::<SmallVec<[usize; 6]>>(), false, true)
    }

    #[track_caller]
    fn means(&self, axes: &[usize], keepdim: bool, all: bool) -> Tensor {
        static MEAN: Composite = Composite {
            name: "mean",
            build: |x, settings| {
                let axes: SmallVec<[usize; 6]> = settings[1..].iter().map(|&a| a as usize).collect();
                let n = axes.iter().map(|&d| x[0].dims()[d]).collect::<Shape>().numel();
                let x = x[0].to_dtype(x[0].dtype().to_float());
                // The sum of all adds 16 bits up in f32, inside `autocast`.
                let x = if settings[0] & 2 == 2 { x.high() } else { x };
                x.reduce_dims(ReduceOp::Sum, axes, settings[0] & 1 == 1) / n as f64
            },
        };
        let settings: SmallVec<[u64; 7]> =
            [keepdim as u64 | (all as u64) << 1].into_iter().chain(axes.iter().map(|&a| a as u64)).collect();
        let shape = self.reduced_shape(axes, keepdim);
        Tensor::composed(&MEAN, &[self], &settings, shape, self.dtype().to_float())
    }

    /// The largest elements over axes.
    #[track_caller]
    pub fn amax(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.extremum("amax", ReduceOp::Max, dim.into(), keepdim)
    }

    /// The smallest elements over axes.
    #[track_caller]
    pub fn amin(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.extremum("amin", ReduceOp::Min, dim.into(), keepdim)
    }

    #[track_caller]
    fn extremum(&self, name: &str, op: ReduceOp, dim: Axes, keepdim: bool) -> Result<Tensor> {
        let a = axes(name, &dim, self.rank())?;
        self.not_empty(name, &a)?;
        Ok(self.reduce_dims(op, a, keepdim))
    }

    /// Whether any element is true (numbers: not zero).
    #[track_caller]
    pub fn any(&self) -> Tensor {
        self.truth(ReduceOp::Max, (0..self.rank()).collect(), false)
    }

    /// Whether any element is true, over axes.
    #[track_caller]
    pub fn any_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        Ok(self.truth(ReduceOp::Max, axes("any", &dim.into(), self.rank())?, keepdim))
    }

    /// Whether all elements are true (numbers: not zero).
    #[track_caller]
    pub fn all(&self) -> Tensor {
        self.truth(ReduceOp::Min, (0..self.rank()).collect(), false)
    }

    /// Whether all elements are true, over axes.
    #[track_caller]
    pub fn all_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        Ok(self.truth(ReduceOp::Min, axes("all", &dim.into(), self.rank())?, keepdim))
    }

    #[track_caller]
    fn truth(&self, op: ReduceOp, axes: SmallVec<[usize; 6]>, keepdim: bool) -> Tensor {
        let found = self.to_dtype(DType::Bool).reduce_dims(op, axes, keepdim);
        // Bytes were PyTorch's bools once, and still answer in bytes.
        if self.dtype() == DType::U8 { found.to_dtype(DType::U8) } else { found }
    }

    /// How many elements are not zero.
    #[track_caller]
    pub fn count_nonzero(&self) -> Tensor {
        self.to_dtype(DType::Bool).sum()
    }

    /// How many elements are not zero, over axes.
    #[track_caller]
    pub fn count_nonzero_dim(&self, dim: impl Into<Axes>) -> Result<Tensor> {
        let a = axes("count_nonzero", &dim.into(), self.rank())?;
        Ok(self.to_dtype(DType::Bool).summable().reduce_dims(ReduceOp::Sum, a, false))
    }

    /// The sum of the elements that are not NaN.
    #[track_caller]
    pub fn nansum(&self) -> Tensor {
        self.with_constant(&self.isnan(), 0.0).sum()
    }

    /// Sums of the elements that are not NaN, over axes.
    #[track_caller]
    pub fn nansum_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        self.with_constant(&self.isnan(), 0.0).sum_dim(dim, keepdim)
    }

    /// The mean of the elements that are not NaN.
    #[track_caller]
    pub fn nanmean(&self) -> Tensor {
        let n = self.isnan().logical_not().sum();
        self.floated().nansum() / n
    }

    /// Means of the elements that are not NaN, over axes.
    #[track_caller]
    pub fn nanmean_dim(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let dim = dim.into();
        let n = self.isnan().logical_not().sum_dim(dim.clone(), keepdim)?;
        self.floated().nansum_dim(dim, keepdim)?.div(&n)
    }

    /// `ln(sum(e^x))` over axes, without overflow.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([1000.0f64, 1000.0]).logsumexp(0, false).unwrap();
    /// assert!((y.item::<f64>().unwrap() - (1000.0 + 2f64.ln())).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, dim: impl Into<Axes>, keepdim: bool) -> Result<Tensor> {
        let a = axes("logsumexp", &dim.into(), self.rank())?;
        static LOG_SUM: Composite = Composite {
            name: "logsumexp",
            build: |x, settings| {
                let (x, keepdim) = (&x[0], settings[0] == 1);
                let a: SmallVec<[usize; 6]> = settings[1..].iter().map(|&a| a as usize).collect();
                // The shift cancels, so no gradient flows through it; an infinite one would make inf - inf.
                let top = x.detach().reduce_keep(ReduceOp::Max, a.clone());
                let top = top.with_constant(&top.isinf(), 0.0);
                let kept = (x - &top).exp().reduce_keep(ReduceOp::Sum, a.clone()).log() + &top;
                kept.reshape_to(&x.reduced_shape(&a, keepdim))
            },
        };
        let x = self.high().floated();
        let settings: SmallVec<[u64; 7]> = [keepdim as u64].into_iter().chain(a.iter().map(|&a| a as u64)).collect();
        Ok(Tensor::composed(&LOG_SUM, &[&x], &settings, x.reduced_shape(&a, keepdim), x.dtype()))
    }

    /// The shape that a reduction over checked axes leaves.
    pub(crate) fn reduced_shape(&self, axes: &[usize], keepdim: bool) -> Shape {
        let all = self.dims().iter().enumerate();
        if keepdim {
            return all.map(|(d, &n)| if axes.contains(&d) { 1 } else { n }).collect();
        }
        all.filter(|(d, _)| !axes.contains(d)).map(|(_, &n)| n).collect()
    }

    /// This summed down to a shape that broadcasts to it, under PyTorch's name.
    #[track_caller]
    pub fn sum_to_size(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        self.sum_to(&shape.into())
    }

    /// An error if a reduction without identity would run over nothing.
    #[track_caller]
    pub(crate) fn not_empty(&self, name: &str, axes: &[usize]) -> Result<()> {
        if axes.iter().any(|&a| self.dims()[a] == 0) {
            let why = format!("nothing to choose from: {} is empty along axes {axes:?}", self.shape());
            return Err(Error::new(name, ErrorKind::Empty(why)).operand(self));
        }
        Ok(())
    }

    /// This gradient summed down to `shape`: what was broadcast forward is added up backward.
    #[track_caller]
    pub fn sum_to(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.resolve());
        }
        if !shape.expands_to(self.shape()) {
            let why = format!("{} is not a broadcast of {shape}", self.shape());
            return Err(Error::shape("sum_to", &[self.shape(), shape], why).operand(self));
        }
        let lead = self.rank() - shape.rank();
        let axes = (0..self.rank()).filter(|&d| d < lead || (shape[d - lead] == 1 && self.dims()[d] != 1)).collect();
        Ok(self.reduce_keep(ReduceOp::Sum, axes).reshape_to(shape))
    }
}
