//! Resampling of the spatial axes. Every mode but `Area` is, axis by axis, a weighted sum of a few looked-up elements.

use super::resize_taps;
use crate::api::sizes::Sizes;
use crate::{DType, Error, Result, Shape, Tensor};
use smallvec::SmallVec;

/// How [`Tensor::interpolate`] finds values between elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InterpolateMode {
    /// The element at `floor(i * scale)`.
    #[default]
    Nearest,
    /// The element at `floor((i + 0.5) * scale)`.
    NearestExact,
    /// Straight lines, over one axis.
    Linear,
    /// Straight lines, over two axes.
    Bilinear,
    /// Cubic convolution, over two axes.
    Bicubic,
    /// Straight lines, over three axes.
    Trilinear,
    /// Means of bins, as adaptive average pooling.
    Area,
}

impl InterpolateMode {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            InterpolateMode::Nearest => "nearest",
            InterpolateMode::NearestExact => "nearest-exact",
            InterpolateMode::Linear => "linear",
            InterpolateMode::Bilinear => "bilinear",
            InterpolateMode::Bicubic => "bicubic",
            InterpolateMode::Trilinear => "trilinear",
            InterpolateMode::Area => "area",
        }
    }

    /// The number of spatial axes it is for, if it is for one number only.
    fn axes(self) -> Option<usize> {
        match self {
            InterpolateMode::Linear => Some(1),
            InterpolateMode::Bilinear | InterpolateMode::Bicubic => Some(2),
            InterpolateMode::Trilinear => Some(3),
            InterpolateMode::Nearest | InterpolateMode::NearestExact | InterpolateMode::Area => None,
        }
    }
}

/// Options of [`Tensor::interpolate`]. Either a size or a scale factor is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InterpolateOptions {
    /// Extents of the result.
    pub size: Option<Sizes>,
    /// Extents of the result over those of the input: one for all axes, or one an axis.
    pub scale_factor: Option<Vec<f64>>,
    /// How values between elements are found.
    pub mode: InterpolateMode,
    /// Whether the centres of the corner elements stay in place (linear and cubic modes).
    pub align_corners: Option<bool>,
    /// Whether positions come from the rounded sizes instead of the scale factor as given.
    pub recompute_scale_factor: bool,
    /// Whether windows grow when an image shrinks (bilinear and bicubic).
    pub antialias: bool,
}

/// One axis to resample: its extents before and after, and the scale factor if positions come from it.
pub(super) struct Resized {
    pub n: usize,
    pub out: usize,
    factor: Option<f64>,
}

/// Elements of an axis (i64, one an output) and their weights (1 if `None`).
type Taps = Vec<(Tensor, Option<Tensor>)>;

impl Tensor {
    /// The spatial axes (after batch and channels) at another size.
    ///
    /// ```
    /// use gradus_core::{InterpolateOptions, Tensor};
    /// let x = Tensor::from([[[1.0f32, 2.0]]]);
    /// let y = x.interpolate(InterpolateOptions { size: Some(4.into()), ..Default::default() }).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn interpolate(&self, options: InterpolateOptions) -> Result<Tensor> {
        let op = "interpolate";
        let mode = options.mode;
        let d = self.rank().saturating_sub(2);
        let fail = |why: String| Error::value(op, why).operand(self);
        if !(1..=3).contains(&d) || mode.axes().is_some_and(|n| n != d) {
            let need = mode.axes().map_or("3 to 5".to_string(), |n| (n + 2).to_string());
            let why = format!("mode {} takes {need} axes, not {}", mode.name(), self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        let smooth = mode.axes().is_some();
        if options.align_corners.is_some() && !smooth {
            return Err(fail(format!("align_corners is for linear and cubic modes, not {}", mode.name())));
        }
        if options.antialias && !matches!(mode, InterpolateMode::Bilinear | InterpolateMode::Bicubic) {
            return Err(fail(format!("antialias is for bilinear and bicubic, not {}", mode.name())));
        }
        if (smooth || mode == InterpolateMode::Area) && !self.dtype().is_float() {
            let why = format!("mode {} takes floats, not {}", mode.name(), self.dtype());
            return Err(Error::dtype(op, &[self.dtype()], why).operand(self));
        }
        let axes = self.resized(op, &options)?;
        if mode == InterpolateMode::Area {
            let outs: SmallVec<[usize; 3]> = axes.iter().map(|a| a.out).collect();
            return match d {
                1 => self.adaptive_avg_pool1d(&outs[..]),
                2 => self.adaptive_avg_pool2d(&outs[..]),
                _ => self.adaptive_avg_pool3d(&outs[..]),
            };
        }
        if let Some(y) = resize_taps::resampled(self, &axes, &options) {
            return Ok(y);
        }
        // Positions and weights are computed in the type of the arithmetic, as in PyTorch.
        let work = if self.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let align = options.align_corners.unwrap_or(false);
        let mut x = if smooth { self.to_dtype(work) } else { self.resolve() };
        for (a, r) in axes.iter().enumerate() {
            let i = Tensor::arange_on(r.out, self.device());
            let taps = match mode {
                InterpolateMode::Nearest => vec![(nearest(&i, r, 0.0)?, None)],
                InterpolateMode::NearestExact => vec![(nearest(&i, r, 0.5)?, None)],
                _ if options.antialias => antialiased(&i.to_dtype(work), r, align, mode)?,
                InterpolateMode::Bicubic => cubic(&i.to_dtype(work), r, align)?,
                InterpolateMode::Linear | InterpolateMode::Bilinear | InterpolateMode::Trilinear => {
                    linear(&i.to_dtype(work), r, align)?
                }
                InterpolateMode::Area => return Err(Tensor::bug("area is pooling")),
            };
            x = x.resample(a + 2, &taps)?;
        }
        Ok(x.to_dtype(self.dtype()))
    }

    /// [`Tensor::interpolate`] by straight lines between aligned corners.
    #[track_caller]
    pub fn upsample_bilinear(&self, size: Option<Sizes>, scale_factor: Option<Vec<f64>>) -> Result<Tensor> {
        let (mode, align_corners) = (InterpolateMode::Bilinear, Some(true));
        self.interpolate(InterpolateOptions { size, scale_factor, mode, align_corners, ..Default::default() })
    }

    /// [`Tensor::interpolate`] by nearest elements.
    #[track_caller]
    pub fn upsample_nearest(&self, size: Option<Sizes>, scale_factor: Option<Vec<f64>>) -> Result<Tensor> {
        self.interpolate(InterpolateOptions { size, scale_factor, ..Default::default() })
    }

    #[track_caller]
    fn resized(&self, op: &str, o: &InterpolateOptions) -> Result<SmallVec<[Resized; 3]>> {
        let spatial = &self.dims()[2..];
        let d = spatial.len();
        let fail = |why: String| Error::value(op, why).operand(self);
        let mut axes: SmallVec<[Resized; 3]> = SmallVec::new();
        match (&o.size, &o.scale_factor) {
            (Some(_), Some(_)) => return Err(fail("give a size or a scale factor, not both".into())),
            (None, None) => return Err(fail("give a size or a scale factor".into())),
            (Some(_), None) if o.recompute_scale_factor => {
                return Err(fail("recompute_scale_factor needs a scale factor, not a size".into()));
            }
            (Some(size), None) => {
                for (&n, out) in spatial.iter().zip(size.spread(op, "size", d)?) {
                    axes.push(Resized { n, out, factor: None });
                }
            }
            (None, Some(f)) => {
                if f.len() != 1 && f.len() != d {
                    return Err(fail(format!("scale factor {f:?} has {} numbers for {d} spatial axes", f.len())));
                }
                for (a, &n) in spatial.iter().enumerate() {
                    let factor = if f.len() == 1 { f[0] } else { f[a] };
                    let out = (n as f64 * factor).floor();
                    if !(out >= 1.0 && out < isize::MAX as f64 / 16.0) {
                        return Err(fail(format!("{n} elements times {factor} is no size (axis {})", a + 2)));
                    }
                    let kept = (!o.recompute_scale_factor && factor > 0.0).then_some(factor);
                    axes.push(Resized { n, out: out as usize, factor: kept });
                }
            }
        }
        if axes.iter().any(|a| a.n == 0 || a.out == 0 || a.out > isize::MAX as usize / 16) {
            let outs: Vec<usize> = axes.iter().map(|a| a.out).collect();
            let why = format!("cannot go from spatial extents {spatial:?} to {outs:?}");
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        }
        Ok(axes)
    }

    /// A weighted sum of looked-up elements along an axis.
    #[track_caller]
    fn resample(&self, axis: usize, taps: &Taps) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for (index, weight) in taps {
            let n = index.numel();
            let mut line = Shape::from(vec![1; self.rank()]);
            line.0[axis] = n;
            let index = index.reshape_to(&line).expand_to(&self.shape().with(axis, n));
            let mut part = self.gather(axis as i64, &index)?;
            if let Some(w) = weight {
                part = part * w.reshape_to(&line);
            }
            sum = Some(match sum {
                Some(s) => s + part,
                None => part,
            });
        }
        sum.ok_or_else(|| Tensor::bug("resampling without taps"))
    }
}

impl Resized {
    /// Whether nothing changes.
    pub(super) fn is_same(&self) -> bool {
        self.out == self.n && self.factor.is_none_or(|f| f == 1.0)
    }

    /// Input elements a step of the output.
    pub(super) fn scale(&self, align: bool) -> f64 {
        match (align, self.factor) {
            (true, _) if self.out > 1 => (self.n - 1) as f64 / (self.out - 1) as f64,
            (true, _) => 0.0,
            (false, Some(f)) => 1.0 / f,
            (false, None) => self.n as f64 / self.out as f64,
        }
    }

    /// Where output `i` lies in the input.
    fn positions(&self, i: &Tensor, align: bool) -> Tensor {
        let scale = self.scale(align);
        if align { i * scale } else { (i + 0.5) * scale - 0.5 }
    }
}

/// `floor((i + shift) * scale)`, in f32 as PyTorch computes it whatever the element type.
fn nearest(i: &Tensor, r: &Resized, shift: f64) -> Result<Tensor> {
    if r.is_same() {
        return Ok(i.clone());
    }
    let at = (i.to_dtype(DType::F32) + shift) * r.scale(false);
    at.floor().to_dtype(DType::I64).minimum(r.n as i64 - 1)
}

/// The element before a position (within the axis) and how far the position is beyond it, 0 to 1.
fn split(at: &Tensor, n: usize) -> Result<(Tensor, Tensor)> {
    let whole = at.floor().minimum((n - 1) as f64)?;
    Ok((whole.to_dtype(DType::I64), (at - &whole).clamp(0.0, 1.0)?))
}

fn linear(i: &Tensor, r: &Resized, align: bool) -> Result<Taps> {
    let at = r.positions(i, align).maximum(0.0)?;
    let (low, t) = split(&at, r.n)?;
    let high = (&low + 1i64).minimum(r.n as i64 - 1)?;
    Ok(vec![(low, Some(1.0 - &t)), (high, Some(t))])
}

fn cubic(i: &Tensor, r: &Resized, align: bool) -> Result<Taps> {
    let (low, t) = split(&r.positions(i, align), r.n)?;
    let at = |k: i64| (&low + (k - 1)).clamp(0i64, r.n as i64 - 1);
    let weights = cubic_weights(&t, -0.75);
    weights.into_iter().zip(0..).map(|(w, k)| Ok((at(k)?, Some(w)))).collect()
}

/// Weights of the elements at -1, 0, 1 and 2 for a position `t` beyond element 0.
pub(crate) fn cubic_weights(t: &Tensor, a: f64) -> [Tensor; 4] {
    let u = 1.0 - t;
    [cubic_far(&(t + 1.0), a), cubic_near(t, a), cubic_near(&u, a), cubic_far(&(u + 1.0), a)]
}

/// `(a + 2) x^3 - (a + 3) x^2 + 1`, for 0 to 1.
fn cubic_near(x: &Tensor, a: f64) -> Tensor {
    (x * (a + 2.0) - (a + 3.0)) * x * x + 1.0
}

/// `a x^3 - 5 a x^2 + 8 a x - 4 a`, for 1 to 2.
fn cubic_far(x: &Tensor, a: f64) -> Tensor {
    ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
}

/// Windows that grow with the scale, so that every input element counts when an image shrinks.
fn antialiased(i: &Tensor, r: &Resized, align: bool, mode: InterpolateMode) -> Result<Taps> {
    let bicubic = mode == InterpolateMode::Bicubic;
    let scale = r.scale(align);
    let half = if bicubic { 2.0 } else { 1.0 };
    let (support, shrink) = if scale >= 1.0 { (half * scale, 1.0 / scale) } else { (half, 1.0) };
    let centre = (i + 0.5) * scale;
    let first = (&centre - support + 0.5).trunc().maximum(0.0)?;
    let end = (&centre + support + 0.5).trunc().minimum(r.n as f64)?;
    let mut taps = vec![];
    let mut total: Option<Tensor> = None;
    for j in 0..support.ceil() as usize * 2 + 1 {
        let at = &first + j as f64;
        let x = ((&at - &centre + 0.5) * shrink).abs();
        let w = if bicubic {
            let far = x.lt(2.0)?.where_(cubic_far(&x, -0.5), 0.0)?;
            x.lt(1.0)?.where_(cubic_near(&x, -0.5), far)?
        } else {
            (1.0 - &x).maximum(0.0)?
        };
        let w = at.lt(&end)?.where_(w, 0.0)?;
        total = Some(match total {
            Some(t) => t + &w,
            None => w.clone(),
        });
        taps.push((at.minimum(r.n as f64 - 1.0)?.to_dtype(DType::I64), w));
    }
    let total = total.ok_or_else(|| Tensor::bug("no taps"))?;
    let total = total.ne(0.0)?.where_(&total, 1.0)?;
    Ok(taps.into_iter().map(|(at, w)| (at, Some(w / &total))).collect())
}
