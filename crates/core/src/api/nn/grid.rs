//! Sampling at given positions.

use crate::api::{
    resize::cubic_weights,
    routine::{Routine, routine},
    same_device,
};
use crate::{
    DType, Device, Error, Result, Shape, Tensor,
    op::{GridSample, HostOp, Op},
};
use gradus_numerics::grid::{Grid, Outside};
use smallvec::SmallVec;
use std::sync::Arc;

/// How [`Tensor::grid_sample`] finds values between elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridSampleMode {
    /// Straight lines (trilinear for volumes).
    #[default]
    Bilinear,
    /// The nearest element, halves to even.
    Nearest,
    /// Cubic convolution; for images only.
    Bicubic,
}

/// What [`Tensor::grid_sample`] finds outside the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The element at the border.
    Border,
    /// The input mirrored at its border, again and again.
    Reflection,
}

/// One neighbour along one axis: which element, whether it is inside, and its weight (1 if `None`).
struct Tap {
    at: Tensor,
    inside: Tensor,
    weight: Option<Tensor>,
}

impl Tensor {
    /// Values of images `[n, c, h, w]` (or volumes `[n, c, d, h, w]`) at the positions of a grid `[n, .., 2]` (or
    /// `[n, .., 3]`): (x, y) from -1 to 1, at the centres of the corner elements (`align_corners`) or at their edges.
    #[track_caller]
    pub fn grid_sample(
        &self,
        grid: &Tensor,
        mode: GridSampleMode,
        padding: GridPadding,
        align_corners: bool,
    ) -> Result<Tensor> {
        let d = self.check_grid(grid, mode)?;
        let work = if self.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, grid) = (self.to_dtype(work), grid.to_dtype(work));
        let sample = Sample { d, mode, padding, align_corners };
        let y = match sample.spec(&x, &grid) {
            Some(spec) => routine(GridRoutine { sample, spec }, &[&x, &grid]),
            None => sample.composite(&x, &grid)?,
        };
        Ok(y.to_dtype(self.dtype()))
    }

    #[track_caller]
    fn check_grid(&self, grid: &Tensor, mode: GridSampleMode) -> Result<usize> {
        let op = "grid_sample";
        same_device(op, &[self, grid])?;
        let d = self.rank().saturating_sub(2);
        let fail = |why: String| Error::shape(op, &[self.shape(), grid.shape()], why).operand(self).operand(grid);
        let fits =
            (2..=3).contains(&d) && grid.rank() == d + 2 && grid.dims()[d + 1] == d && grid.dims()[0] == self.dims()[0];
        if !fits {
            let why = format!(
                "takes [n, c, h, w] with a grid [n, .., .., 2], or [n, c, d, h, w] with [n, .., .., .., 3], \
                 not {} with {}",
                self.shape(),
                grid.shape()
            );
            return Err(fail(why));
        }
        if self.dims()[2..].contains(&0) {
            return Err(fail(format!("there is nothing to sample in {}", self.shape())));
        }
        if mode == GridSampleMode::Bicubic && d != 2 {
            return Err(fail(format!("bicubic is for images of 4 axes, not {}", self.shape())));
        }
        if self.dtype() != grid.dtype() || !self.dtype().is_float() {
            let why = format!("input and grid must be floats of one type, not {} and {}", self.dtype(), grid.dtype());
            return Err(Error::dtype(op, &[self.dtype(), grid.dtype()], why).operand(self).operand(grid));
        }
        Ok(d)
    }

    /// The grid of an affine map: positions of an output of shape `size` (`[n, c, h, w]` or `[n, c, d, h, w]`) under
    /// the matrices `self` (`[n, 2, 3]` or `[n, 3, 4]`), for [`Tensor::grid_sample`].
    #[track_caller]
    pub fn affine_grid(&self, size: impl Into<Shape>, align_corners: bool) -> Result<Tensor> {
        let (op, size) = ("affine_grid", size.into());
        let d = size.rank().saturating_sub(2);
        let fits = (2..=3).contains(&d) && *self.shape() == [size[0], d, d + 1] && !size[2..].contains(&0);
        if !fits {
            let why = format!(
                "takes matrices [n, 2, 3] for [n, c, h, w], or [n, 3, 4] for [n, c, d, h, w], not {} for {size}",
                self.shape()
            );
            return Err(Error::shape(op, &[self.shape(), &size], why).operand(self));
        }
        if !self.dtype().is_float() {
            let why = format!("takes floats, not {}", self.dtype());
            return Err(Error::dtype(op, &[self.dtype()], why).operand(self));
        }
        let spatial = Shape::from(&size[2..]);
        let column = spatial.inserted(d, 1);
        // Homogeneous positions (x, y, [z,] 1) of every output element.
        let mut columns = vec![];
        for a in (0..d).rev() {
            let n = spatial[a];
            let ends = match (n, align_corners) {
                (1, _) => 0.0,
                (_, true) => 1.0,
                (_, false) => (n as f64 - 1.0) / n as f64,
            };
            let mut line = Shape::from(vec![1; d + 1]);
            line.0[a] = n;
            let at = Tensor::linspace(-ends, ends, n, self.dtype()).to(&self.device());
            columns.push(at.reshape_to(&line).expand_to(&column));
        }
        columns.push(Tensor::full_on(column, 1.into(), self.dtype(), self.device()));
        let base = Tensor::cat(&columns.iter().collect::<Vec<_>>(), -1)?;
        let base = base.reshape([1, spatial.numel(), d + 1])?;
        let shape: Shape = std::iter::once(size[0]).chain(spatial.iter().copied()).chain([d]).collect();
        base.expand([size[0], spatial.numel(), d + 1])?.matmul(&self.mt())?.reshape(shape)
    }
}

/// How a grid is sampled.
#[derive(Clone, Copy)]
struct Sample {
    /// Spatial axes.
    d: usize,
    mode: GridSampleMode,
    padding: GridPadding,
    align_corners: bool,
}

impl Sample {
    fn shape(&self, x: &Tensor, grid: &Tensor) -> Shape {
        x.dims()[..2].iter().chain(&grid.dims()[1..=self.d]).copied().collect()
    }

    /// What the CPU's routine takes.
    fn spec(&self, x: &Tensor, grid: &Tensor) -> Option<Grid> {
        let &[images, channels, ref spatial @ ..] = x.dims() else { return None };
        let mut size = [1; 3];
        size[3 - self.d..].copy_from_slice(spatial);
        let nearest = match self.mode {
            GridSampleMode::Bilinear => false,
            GridSampleMode::Nearest => true,
            GridSampleMode::Bicubic => return None,
        };
        let outside = match self.padding {
            GridPadding::Zeros => Outside::Zeros,
            GridPadding::Border => Outside::Border,
            GridPadding::Reflection => Outside::Reflection,
        };
        let count = grid.dims()[1..=self.d].iter().product();
        let spec =
            Grid { images, channels, size, volume: self.d == 3, count, nearest, outside, align: self.align_corners };
        let some = x.numel() > 0 && grid.numel() > 0;
        (x.device() == Device::cpu() && some && spec.fits()).then_some(spec)
    }

    /// The definition, of tensors of one type.
    #[track_caller]
    fn composite(&self, x: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let d = self.d;
        let (n, c, spatial) = (x.dims()[0], x.dims()[1], &x.dims()[2..]);
        let count: usize = grid.dims()[1..=d].iter().product();
        let shape = self.shape(x, grid);
        let values = x.reshape([n, c, spatial.iter().product()])?;
        let mut axes: SmallVec<[Vec<Tap>; 3]> = SmallVec::new();
        for (a, &size) in spatial.iter().enumerate() {
            // The grid names the last axis first.
            let g = grid.select(-1, (d - 1 - a) as i64)?.reshape([n, 1, count])?;
            let edge = Edge { size, padding: self.padding, align_corners: self.align_corners };
            axes.push(edge.taps(&edge.position(&g), self.mode)?);
        }
        let mut sum: Option<Tensor> = None;
        let combinations: usize = axes.iter().map(Vec::len).product();
        for k in 0..combinations {
            let mut rest = k;
            let mut stride = 1i64;
            let mut place: Option<(Tensor, Tensor)> = None;
            let mut weight: Option<Tensor> = None;
            for (taps, &size) in axes.iter().zip(spatial).rev() {
                let tap = &taps[rest % taps.len()];
                rest /= taps.len();
                place = Some(match place {
                    Some((at, inside)) => (at + &tap.at * stride, inside.raw_and(&tap.inside)),
                    None => (tap.at.clone(), tap.inside.clone()),
                });
                weight = match (weight, &tap.weight) {
                    (Some(w), Some(t)) => Some(w * t),
                    (w, t) => w.or_else(|| t.clone()),
                };
                stride *= size as i64;
            }
            let (at, inside) = place.ok_or_else(|| Tensor::bug("a grid without axes"))?;
            let value = values.gather(2, &at.expand([n, c, count])?)?;
            let value = inside.where_(&value, 0.0)?;
            let part = match weight {
                Some(w) => value * w,
                None => value,
            };
            sum = Some(match sum {
                Some(s) => s + part,
                None => part,
            });
        }
        let sum = sum.ok_or_else(|| Tensor::bug("a grid without taps"))?;
        Ok(sum.reshape_to(&shape))
    }
}

/// The routine for what the composite defines.
#[derive(Clone, Copy)]
struct GridRoutine {
    sample: Sample,
    spec: Grid,
}

impl Routine for GridRoutine {
    fn name(&self) -> &'static str {
        "grid_sample"
    }

    fn value(&self, x: &[Tensor]) -> Tensor {
        let op = Op::Host(HostOp::GridSample(GridSample::Values, Arc::new(self.spec)));
        x[0].make(op, &[&x[0], &x[1]], self.sample.shape(&x[0], &x[1]), x[0].dtype())
    }

    fn gradients(&self, grad: &Tensor, _: &Tensor, x: &[Tensor]) -> Result<Vec<Tensor>> {
        let op = |which| Op::Host(HostOp::GridSample(which, Arc::new(self.spec)));
        let (images, grid) = (&x[0], &x[1]);
        let dx = grad.make(op(GridSample::ImageGrad), &[grid, grad], images.shape().clone(), grad.dtype());
        let dgrid = grad.make(op(GridSample::GridGrad), &[images, grid, grad], grid.shape().clone(), grad.dtype());
        Ok(vec![dx, dgrid])
    }

    fn composite(&self, x: &[Tensor]) -> Result<Tensor> {
        self.sample.composite(&x[0], &x[1])
    }
}

/// One axis of the input and what lies beyond it.
struct Edge {
    size: usize,
    padding: GridPadding,
    align_corners: bool,
}

impl Edge {
    /// From -1..1 to elements.
    fn position(&self, g: &Tensor) -> Tensor {
        let n = self.size as f64;
        if self.align_corners { (g + 1.0) * ((n - 1.0) / 2.0) } else { ((g + 1.0) * n - 1.0) / 2.0 }
    }

    /// A position brought inside, where the padding says so. Its slope is 0 where it was cut off.
    fn inside(&self, x: &Tensor) -> Result<Tensor> {
        match self.padding {
            GridPadding::Zeros => Ok(x.clone()),
            GridPadding::Border => self.clip(x),
            GridPadding::Reflection => self.clip(&self.reflect(x)?),
        }
    }

    fn clip(&self, x: &Tensor) -> Result<Tensor> {
        let top = (self.size - 1) as f64;
        x.le(0.0)?.where_(0.0, x.ge(top)?.where_(top, x)?)
    }

    fn reflect(&self, x: &Tensor) -> Result<Tensor> {
        let n = self.size as f64;
        let (low, span) = if self.align_corners { (0.0, n - 1.0) } else { (-0.5, n) };
        if span == 0.0 {
            return Ok(x.zeros_like());
        }
        let x = x - low;
        let x = x.lt(0.0)?.where_(-&x, &x)?;
        // How often it crosses the whole axis is a constant for gradients.
        let flips = (x.detach() / span).floor();
        let extra = &x - &flips * span;
        let odd = flips.remainder(2.0)?.ne(0.0)?;
        Ok(odd.where_(span - &extra, &extra)? + low)
    }

    /// An element, if it is inside.
    fn tap(&self, at: &Tensor, weight: Option<Tensor>) -> Result<Tap> {
        let inside = at.ge(0.0)?.raw_and(&at.le((self.size - 1) as f64)?);
        // Compared as floats first: what is far outside, or NaN, is no integer.
        let at = inside.where_(at, 0.0)?.to_dtype(DType::I64);
        Ok(Tap { at, inside, weight })
    }

    /// The neighbours of a position.
    fn taps(&self, x: &Tensor, mode: GridSampleMode) -> Result<Vec<Tap>> {
        match mode {
            GridSampleMode::Nearest => Ok(vec![self.tap(&self.inside(x)?.detach().round(), None)?]),
            GridSampleMode::Bilinear => {
                let x = self.inside(x)?;
                let low = x.detach().floor();
                let t = &x - &low;
                Ok(vec![self.tap(&low, Some(1.0 - &t))?, self.tap(&(&low + 1.0), Some(t))?])
            }
            GridSampleMode::Bicubic => {
                let low = x.detach().floor();
                let weights = cubic_weights(&(x - &low), -0.75);
                let taps = weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]);
                taps.map(|(w, k)| self.tap(&self.inside(&(&low + k))?, Some(w))).collect()
            }
        }
    }
}
