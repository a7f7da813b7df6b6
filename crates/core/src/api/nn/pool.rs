//! Pooling over windows of fixed size. A window is a view; one kernel reduces it.

use super::bins::{has_pools, max_of_bins, max_op, mean_of_bins, mean_op, over_last, places_of_bins, places_op};
use crate::api::{
    sizes::Sizes,
    window::{check_spatial, inside, joined, windows, with_lead},
};
use crate::{DType, Error, Result, Scalar, Shape, Tensor, is_grad_enabled, op::ReduceOp};
use gradus_numerics::pool::{Bins, Divisor, Window};
use smallvec::SmallVec;

/// Options of maximum pooling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaxPoolOptions {
    /// Step between windows; the window's size if `None`.
    pub stride: Option<Sizes>,
    /// Elements around the input that count as minus infinity, at most half a window.
    pub padding: Sizes,
    /// Distance between the elements of a window.
    pub dilation: Sizes,
    /// Whether a last window may hang over the end.
    pub ceil_mode: bool,
}

impl Default for MaxPoolOptions {
    fn default() -> MaxPoolOptions {
        MaxPoolOptions { stride: None, padding: 0.into(), dilation: 1.into(), ceil_mode: false }
    }
}

/// Options of average pooling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AvgPoolOptions {
    /// Step between windows; the window's size if `None`.
    pub stride: Option<Sizes>,
    /// Zeros around the input, at most half a window.
    pub padding: Sizes,
    /// Whether a last window may hang over the end.
    pub ceil_mode: bool,
    /// Whether padding counts in the divisor.
    pub count_include_pad: bool,
    /// Divides by this instead of the window's size.
    pub divisor_override: Option<i64>,
}

impl Default for AvgPoolOptions {
    fn default() -> AvgPoolOptions {
        AvgPoolOptions {
            stride: None,
            padding: 0.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }
}

macro_rules! pool_methods {
    ($($d:literal $max:ident $indices:ident $avg:ident $lp:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("The maxima of windows over the last ", $d, " axes.")]
            #[track_caller]
            pub fn $max(&self, kernel: impl Into<Sizes>, options: MaxPoolOptions) -> Result<Tensor> {
                Ok(max_pool(stringify!($max), $d, self, &kernel.into(), &options, false)?.0)
            }

            #[doc = concat!("The maxima of windows over the last ", $d, " axes, and where they are in the flattened axes.")]
            #[track_caller]
            pub fn $indices(&self, kernel: impl Into<Sizes>, options: MaxPoolOptions) -> Result<(Tensor, Tensor)> {
                let (y, at) = max_pool(stringify!($max), $d, self, &kernel.into(), &options, true)?;
                Ok((y, at.ok_or_else(|| Tensor::bug("no indices"))?))
            }

            #[doc = concat!("The means of windows over the last ", $d, " axes.")]
            #[track_caller]
            pub fn $avg(&self, kernel: impl Into<Sizes>, options: AvgPoolOptions) -> Result<Tensor> {
                avg_pool(stringify!($avg), $d, self, &kernel.into(), &options)
            }

            #[doc = concat!("The `p`-norms of windows over the last ", $d, " axes.")]
            #[track_caller]
            pub fn $lp(&self, p: f64, kernel: impl Into<Sizes>, stride: Option<Sizes>, ceil_mode: bool) -> Result<Tensor> {
                lp_pool(stringify!($lp), $d, self, p, &kernel.into(), stride, ceil_mode)
            }
        )*}
    };
}
pool_methods! {
    1 max_pool1d max_pool1d_with_indices avg_pool1d lp_pool1d;
    2 max_pool2d max_pool2d_with_indices avg_pool2d lp_pool2d;
    3 max_pool3d max_pool3d_with_indices avg_pool3d lp_pool3d;
}

impl Tensor {
    /// The gradient of [`Tensor::max_pool2d_with_indices`] for `input`, from this gradient of its result.
    #[track_caller]
    pub fn max_pool2d_with_indices_backward(&self, input: &Tensor, indices: &Tensor) -> Result<Tensor> {
        let op = "max_pool2d_with_indices_backward";
        check_spatial(op, input, 2)?;
        if self.shape() != indices.shape()
            || self.dims().get(..input.rank() - 2) != input.dims().get(..input.rank() - 2)
        {
            let why = format!(
                "a gradient of shape {} with indices {} does not belong to an input {}",
                self.shape(),
                indices.shape(),
                input.shape()
            );
            let e = Error::shape(op, &[self.shape(), indices.shape(), input.shape()], why);
            return Err(e.operand(self).operand(indices).operand(input));
        }
        let flat = |t: &Tensor| joined(t, 2).flatten(1, 2);
        let zeros = flat(&Tensor::zeros_on(input.shape().clone(), self.dtype(), self.device()))?;
        zeros.scatter_add(1, &flat(indices)?, &flat(self)?)?.reshape(input.shape())
    }
}

/// The windows of all spatial axes, with every number checked.
#[track_caller]
fn fit(
    op: &str,
    x: &Tensor,
    d: usize,
    kernel: &Sizes,
    stride: Option<&Sizes>,
    [padding, dilation]: [&Sizes; 2],
    ceil: bool,
) -> Result<SmallVec<[Window; 3]>> {
    check_spatial(op, x, d)?;
    let size = kernel.spread_positive(op, "kernel_size", d)?;
    let stride = match stride {
        Some(s) => s.spread_positive(op, "stride", d)?,
        None => size.clone(),
    };
    let (padding, dilation) = (padding.spread(op, "padding", d)?, dilation.spread_positive(op, "dilation", d)?);
    (0..d)
        .map(|a| {
            let n = x.dims()[x.rank() - d + a];
            let reach = dilation[a].saturating_mul(size[a] - 1).saturating_add(1);
            if padding[a] > reach / 2 {
                let why = format!("padding {} of axis {a} is more than half the window of {reach}", padding[a]);
                return Err(Error::value(op, why).operand(x));
            }
            Window::fit(n, size[a], stride[a], padding[a], dilation[a], ceil).ok_or_else(|| {
                let why = format!(
                    "a window of {} (dilation {}) does not fit axis {a}: {n} elements with padding {}",
                    size[a], dilation[a], padding[a]
                );
                Error::shape(op, &[x.shape()], why).operand(x)
            })
        })
        .collect()
}

#[track_caller]
fn max_pool(
    op: &str,
    d: usize,
    x: &Tensor,
    kernel: &Sizes,
    o: &MaxPoolOptions,
    indices: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let ws = fit(op, x, d, kernel, o.stride.as_ref(), [&o.padding, &o.dilation], o.ceil_mode)?;
    let shape = with_lead(x, d, ws.iter().map(|w| w.out));
    // Not for windows that may see nothing.
    if has_pools(x) && !ws.iter().any(|w| w.dilation > 1 && w.overhangs()) {
        let bins: SmallVec<[Bins; 3]> = ws.iter().copied().map(Bins::Even).collect();
        return maxima(x, d, &bins, &shape, indices);
    }
    let flat = joined(x, d);
    let mask = inside(&flat, &ws)?;
    let mut best = Best::of(&windows(&flat.detach(), &ws)?, mask.as_ref(), d)?;
    // A dilated window can have elements on both sides of the input and none in it.
    best.blind = ws.iter().any(|w| w.dilation > 1 && w.overhangs());
    let traced = x.requires_grad() && is_grad_enabled();
    if !(indices || traced) {
        return Ok((best.value.reshape_to(&shape), None));
    }
    // Element `r` of window `o` is element `o * stride - padding + r * dilation` of the axis.
    let mut stride = 1;
    let mut axes: SmallVec<[Axis; 3]> = SmallVec::new();
    for w in ws.iter().rev() {
        let step = w.stride * stride;
        let origins = Tensor::arange_on((w.out - 1) * step + 1, x.device()).sliced(0, 0, step as isize, w.out);
        axes.push(Axis { size: w.size, step: w.dilation * stride, origins, before: w.padding * stride });
        stride *= w.n;
    }
    axes.reverse();
    let (y, at) = best.pick(&flat, &axes)?;
    Ok((y.reshape_to(&shape), Some(at.reshape_to(&shape))))
}

/// The maxima of bins by the CPU's kernels, and their places if they are wanted. (Each is a kernel of its own: what nobody
/// reads is not computed.)
#[track_caller]
pub(super) fn maxima(
    x: &Tensor,
    d: usize,
    bins: &[Bins],
    shape: &Shape,
    places: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    if let Some(y) = over_last(x, bins, max_op) {
        return Ok((y, if places { over_last(&x.detach(), bins, places_op) } else { None }));
    }
    let flat = joined(x, d);
    let at = places.then(|| places_of_bins(&flat, bins)).transpose()?;
    Ok((max_of_bins(&flat, bins).reshape_to(shape), at.map(|at| at.reshape_to(shape))))
}

/// The least value of a tensor's element type: what a maximum starts from.
fn lowest(x: &Tensor) -> Tensor {
    Tensor::constant(ReduceOp::Max.identity(x.dtype()), x.dtype(), x.device())
}

/// How the windows of one axis lie: element `r` of window `o` is, among all elements of the spatial axes, at
/// `origins[o] - before + r * step` along this one.
pub(crate) struct Axis {
    pub size: usize,
    pub step: usize,
    pub origins: Tensor,
    pub before: usize,
}

/// The maximum of each window and its place in it.
pub(crate) struct Best {
    /// `[lead, outs..]`.
    pub value: Tensor,
    /// Which element of the window, in row-major order; the number of elements if the window sees none.
    place: Tensor,
    count: i64,
    /// Whether a window may see nothing.
    blind: bool,
}

impl Best {
    /// Over the last `d` axes of `[lead, outs.., windows..]`: the first of equal ones, and the last NaN if there is
    /// one, as PyTorch's loop finds them.
    #[track_caller]
    pub fn of(x: &Tensor, mask: Option<&Tensor>, d: usize) -> Result<Best> {
        let split = x.rank() - d;
        let axes: SmallVec<[usize; 6]> = (split..x.rank()).collect();
        let rows = Shape::from(&x.dims()[..split]);
        let (sizes, count) = (&x.dims()[split..], x.dims()[split..].iter().product::<usize>());
        let seen = match mask {
            Some(m) => m.where_(x, lowest(x))?,
            None => x.resolve(),
        };
        let value = seen.reduce_keep(ReduceOp::Max, axes.clone());
        let hit = seen.eq(&value)?;
        let hit = match mask {
            Some(m) => hit.raw_and(m),
            None => hit,
        };
        // Keys whose least one wins: NaNs from the last to the first, then equals from the first to the last, then
        // nothing. They are views of 0, 1, 2, .., so no kernel makes them.
        let (all, shape) = (Tensor::arange_on(2 * count, x.device()), Shape::from(sizes));
        let forward = all.sliced(0, count, 1, count).reshape_to(&shape).expand_to(x.shape());
        let none = Tensor::constant(Scalar::I(2 * count as i64), DType::I64, x.device());
        let mut key = hit.raw_where(&forward, &none);
        if x.dtype().is_float() {
            let backward = all.sliced(0, count - 1, -1, count).reshape_to(&shape).expand_to(x.shape());
            key = seen.isnan().raw_where(&backward, &key);
        }
        let key = key.reduce_keep(ReduceOp::Min, axes).reshape_to(&rows);
        let count = count as i64;
        let mut place = &key - count;
        if x.dtype().is_float() {
            place = key.lt(count)?.raw_where(&(-&key + (count - 1)), &place);
        }
        Ok(Best { value: value.reshape_to(&rows), place, count, blind: false })
    }

    /// The values as elements of `flat` (`[lead, spatial..]`), so that gradients go to them alone, and their places in
    /// the spatial axes as one.
    #[track_caller]
    pub fn pick(&self, flat: &Tensor, axes: &[Axis]) -> Result<(Tensor, Tensor)> {
        let (rank, d) = (self.place.rank(), axes.len());
        // The value of a window that sees nothing is minus infinity, and its place does not matter.
        let nothing = self.blind.then(|| self.place.ge(self.count)).transpose()?;
        let mut rest = self.place.clone();
        let before: usize = axes.iter().map(|a| a.before).sum();
        let mut at: Option<Tensor> = None;
        for (a, axis) in axes.iter().enumerate().rev() {
            let within = if a == 0 {
                rest.clone()
            } else {
                let outer = rest.floor_divide(axis.size as i64)?;
                let within = &rest - &outer * axis.size as i64;
                rest = outer;
                within
            };
            let mut shape = Shape::from(vec![1; rank]);
            shape.0[rank - d + a] = axis.origins.numel();
            let part = within * axis.step as i64 + axis.origins.reshape_to(&shape);
            at = Some(match at {
                Some(at) => at + part,
                None => part,
            });
        }
        let mut at = at.ok_or_else(|| Tensor::bug("pooling over no axes"))?;
        if before > 0 {
            at = at - before as i64;
        }
        if let Some(n) = &nothing {
            at = n.where_(0, &at)?;
        }
        let (lead, total) = (flat.dims()[0], flat.dims()[1..].iter().product::<usize>());
        let outs: usize = self.place.dims()[1..].iter().product();
        let table = flat.reshape([lead, total])?;
        let mut y = table.gather(1, &at.reshape([lead, outs])?)?.reshape(self.place.shape())?;
        if let Some(n) = &nothing {
            y = n.where_(lowest(&y), &y)?;
        }
        Ok((y, at))
    }
}

#[track_caller]
fn avg_pool(op: &str, d: usize, x: &Tensor, kernel: &Sizes, o: &AvgPoolOptions) -> Result<Tensor> {
    if x.dtype() == DType::Bool {
        return Err(Error::dtype(op, &[x.dtype()], "takes numbers, not bool").operand(x));
    }
    let ws = fit(op, x, d, kernel, o.stride.as_ref(), [&o.padding, &1.into()], o.ceil_mode)?;
    // One window over all is a sum like any other.
    let single = ws.iter().all(|w| w.out == 1 && w.size == w.n && !w.overhangs());
    if has_pools(x) && !single && o.divisor_override != Some(0) {
        let bins: SmallVec<[Bins; 3]> = ws.iter().copied().map(Bins::Even).collect();
        let divisor = match o.divisor_override {
            Some(n) => Divisor::Fixed(n),
            None if o.count_include_pad => Divisor::Padded,
            None => Divisor::Inside,
        };
        if let Some(y) = over_last(x, &bins, |bins, inner| mean_op(bins, divisor, inner)) {
            return Ok(y);
        }
        let means = mean_of_bins(&joined(x, d), &bins, divisor);
        return Ok(means.reshape_to(&with_lead(x, d, ws.iter().map(|w| w.out))));
    }
    let last: Vec<i64> = (-(d as i64)..0).collect();
    let sum = if single { x.sum_dim(last, true)? } else { windows(&joined(x, d), &ws)?.sum_dim(last, false)? };
    // How many elements the windows of an axis count: one number, or one a window.
    let same = |w: &Window| {
        if o.count_include_pad { w.span() <= w.n + 2 * w.padding } else { !w.overhangs() }
    };
    let divisor = match o.divisor_override {
        Some(0) => return Err(Error::value(op, "divisor_override must not be 0").operand(x)),
        Some(n) => Tensor::constant(Scalar::I(n), DType::I64, x.device()),
        None if ws.iter().all(same) => {
            let n: usize = ws.iter().map(|w| w.size).product();
            Tensor::constant(Scalar::I(n as i64), DType::I64, x.device())
        }
        None => {
            let mut product: Option<Tensor> = None;
            for (a, w) in ws.iter().enumerate() {
                let pad = w.padding as i64;
                let start = Tensor::arange_on(w.out, x.device()) * w.stride as i64 - pad;
                let (lo, hi) = if o.count_include_pad { (-pad, w.n as i64 + pad) } else { (0, w.n as i64) };
                let end = (&start + w.size as i64).minimum(hi)?;
                let mut shape = Shape::from(vec![1; d]);
                shape.0[a] = w.out;
                let count = (end - start.maximum(lo)?).reshape_to(&shape);
                product = Some(match product {
                    Some(p) => p * count,
                    None => count,
                });
            }
            product.ok_or_else(|| Tensor::bug("pooling over no axes"))?
        }
    };
    let mean = if x.dtype().is_float() { sum.div(divisor.to_dtype(x.dtype()))? } else { sum.trunc_divide(&divisor)? };
    Ok(mean.to_dtype(x.dtype()).reshape_to(&with_lead(x, d, ws.iter().map(|w| w.out))))
}

#[track_caller]
fn lp_pool(
    op: &str,
    d: usize,
    x: &Tensor,
    p: f64,
    kernel: &Sizes,
    stride: Option<Sizes>,
    ceil_mode: bool,
) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(op, &[x.dtype()], format!("takes floats, not {}", x.dtype())).operand(x));
    }
    if p == 0.0 || p.is_nan() {
        return Err(Error::value(op, format!("there is no {p}-norm to pool with")).operand(x));
    }
    let size: usize = kernel.spread(op, "kernel_size", d)?.iter().product();
    let mean = avg_pool(op, d, &x.pow(p)?, kernel, &AvgPoolOptions { stride, ceil_mode, ..Default::default() })?;
    // The root is infinitely steep at 0: a number in its place keeps NaN out of the gradient, which is 0 there.
    let some = mean.ne(0.0)?;
    let sum = some.where_(&mean, 1.0)? * size as f64;
    some.where_(sum.pow(1.0 / p)?, if p > 0.0 { 0.0 } else { f64::INFINITY })
}
