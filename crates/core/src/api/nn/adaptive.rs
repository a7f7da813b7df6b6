//! Pooling to a given size, and the way back from maxima.

use super::bins::{has_pools, mean_of_bins, mean_op, over_last};
use crate::api::{
    pool::{Axis, Best, maxima},
    same_device,
    sizes::Sizes,
    window::{check_spatial, joined, windows, with_lead},
};
use crate::{DType, Error, Result, Scalar, Shape, Tensor};
use gradus_numerics::pool::{Bins as Parts, Divisor, Window};
use smallvec::SmallVec;

macro_rules! adaptive_methods {
    ($($d:literal $max:ident $indices:ident $avg:ident $unpool:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("The maxima of bins that divide the last ", $d, " axes into `size`.")]
            #[track_caller]
            pub fn $max(&self, size: impl Into<Sizes>) -> Result<Tensor> {
                Ok(adaptive_max(stringify!($max), $d, self, &size.into(), false)?.0)
            }

            #[doc = concat!("As `", stringify!($max), "`, with the places of the maxima in the flattened axes.")]
            #[track_caller]
            pub fn $indices(&self, size: impl Into<Sizes>) -> Result<(Tensor, Tensor)> {
                let (y, at) = adaptive_max(stringify!($max), $d, self, &size.into(), true)?;
                Ok((y, at.ok_or_else(|| Tensor::bug("no indices"))?))
            }

            #[doc = concat!("The means of bins that divide the last ", $d, " axes into `size`.")]
            #[track_caller]
            pub fn $avg(&self, size: impl Into<Sizes>) -> Result<Tensor> {
                adaptive_avg(stringify!($avg), $d, self, &size.into())
            }

            #[doc = concat!("Puts maxima over ", $d, " axes back where their indices say, among zeros.")]
            ///
            /// Without an output size it is the one that the window, stride and padding lead back to.
            #[track_caller]
            pub fn $unpool(
                &self,
                indices: &Tensor,
                kernel: impl Into<Sizes>,
                stride: Option<Sizes>,
                padding: impl Into<Sizes>,
                output_size: Option<Sizes>,
            ) -> Result<Tensor> {
                unpool(stringify!($unpool), $d, self, indices, [&kernel.into(), &padding.into()], stride, output_size)
            }
        )*}
    };
}
adaptive_methods! {
    1 adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_avg_pool1d max_unpool1d;
    2 adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_avg_pool2d max_unpool2d;
    3 adaptive_max_pool3d adaptive_max_pool3d_with_indices adaptive_avg_pool3d max_unpool3d;
}

/// The bins of one axis: bin `o` of `out` runs from `floor(o n / out)` to `ceil((o + 1) n / out)`.
struct Bins {
    n: usize,
    out: usize,
    /// Elements of the largest bin.
    longest: usize,
    starts: Tensor,
    ends: Tensor,
}

impl Bins {
    fn new(n: usize, out: usize, like: &Tensor) -> Bins {
        let o = Tensor::arange_on(out, like.device());
        let (n64, out64) = (n as i64, out as i64);
        let divisor = Tensor::constant(Scalar::I(out64), DType::I64, like.device());
        let floor = |x: Tensor| x.floor_divide(&divisor).unwrap_or(x);
        let starts = floor(&o * n64);
        let ends = floor((o + 1i64) * n64 + (out64 - 1));
        let longest = (0..out).map(|o| ((o + 1) * n).div_ceil(out) - o * n / out).max().unwrap_or(0);
        Bins { n, out, longest, starts, ends }
    }

    /// Every element of every bin (`[out, longest]`, the last one again where a bin is shorter), and which are in it.
    #[track_caller]
    fn places(&self) -> Result<(Tensor, Tensor)> {
        let column = Shape::from([self.out, 1]);
        let at = self.starts.reshape_to(&column) + Tensor::arange_on(self.longest, self.starts.device());
        Ok((at.minimum(self.n as i64 - 1)?, at.lt(self.ends.reshape_to(&column))?))
    }
}

/// What the bins see.
struct Seen {
    /// `[lead, outs.., bins..]`.
    values: Tensor,
    /// Which of them are in a bin (`[outs.., bins..]`), if not all are.
    mask: Option<Tensor>,
    bins: Vec<Bins>,
}

/// What the CPU's own kernels take.
struct Binned {
    /// `[lead, spatial..]`.
    flat: Tensor,
    bins: SmallVec<[Parts; 3]>,
    /// Of the result.
    shape: Shape,
}

/// The bins for the CPU's own kernels, where they are the way.
#[track_caller]
fn binned(op: &str, d: usize, x: &Tensor, size: &Sizes) -> Result<Option<Binned>> {
    check_spatial(op, x, d)?;
    let outs = size.spread_positive(op, "output_size", d)?;
    let flat = joined(x, d);
    let spatial = &flat.dims()[1..];
    let small =
        spatial.iter().zip(&outs).all(|(n, out)| n.checked_mul(out + 1).is_some_and(|p| p <= isize::MAX as usize / 16));
    if !has_pools(x) || !small {
        return Ok(None);
    }
    let part = |(&n, &out): (&usize, &usize)| {
        let (size, stride) = (n / out, n / out);
        let even = Window { n, size, stride, padding: 0, dilation: 1, out };
        if n.is_multiple_of(out) { Parts::Even(even) } else { Parts::Adaptive { n, out } }
    };
    let bins = spatial.iter().zip(&outs).map(part).collect();
    let shape = with_lead(x, d, outs.iter().copied());
    Ok(Some(Binned { flat, bins, shape }))
}

/// Equal bins are a view; others are looked up, each padded to the largest.
#[track_caller]
fn see(op: &str, d: usize, x: &Tensor, size: &Sizes) -> Result<Seen> {
    check_spatial(op, x, d)?;
    let outs = size.spread_positive(op, "output_size", d)?;
    let flat = joined(x, d);
    let spatial = &flat.dims()[1..];
    if let Some((&n, &out)) =
        spatial.iter().zip(&outs).find(|(n, out)| n.checked_mul(**out + 1).is_none_or(|p| p > isize::MAX as usize / 16))
    {
        return Err(Error::value(op, format!("an output size of {out} for {n} elements is too large")).operand(x));
    }
    let bins: Vec<Bins> = spatial.iter().zip(&outs).map(|(&n, &out)| Bins::new(n, out, x)).collect();
    if spatial.iter().zip(&outs).all(|(n, out)| n.is_multiple_of(*out)) {
        let ws: SmallVec<[Window; 3]> =
            bins.iter().filter_map(|b| Window::fit(b.n, b.longest, b.longest, 0, 1, false)).collect();
        return Ok(Seen { values: windows(&flat, &ws)?, mask: None, bins });
    }
    // An axis of outputs and one of bin elements for each spatial axis: [o1, o2, .., l1, l2, ..].
    let grid: Shape = bins.iter().map(|b| b.out).chain(bins.iter().map(|b| b.longest)).collect();
    let mut at = Tensor::zeros_on(grid.clone(), DType::I64, x.device());
    let mut mask: Option<Tensor> = None;
    let mut stride: i64 = 1;
    for (a, b) in bins.iter().enumerate().rev() {
        let (places, within) = b.places()?;
        let mut shape = Shape::from(vec![1; 2 * d]);
        shape.0[a] = b.out;
        shape.0[d + a] = b.longest;
        at = at + places.reshape_to(&shape) * stride;
        let within = within.reshape_to(&shape);
        mask = Some(match mask {
            Some(m) => m.raw_and(&within),
            None => within,
        });
        stride *= b.n as i64;
    }
    let (lead, count) = (flat.dims()[0], grid.numel());
    let index = at.reshape([1, count])?.expand([lead, count])?;
    let values = flat.reshape([lead, stride as usize])?.gather(1, &index)?;
    let shape: Shape = std::iter::once(lead).chain(grid.iter().copied()).collect();
    Ok(Seen { values: values.reshape_to(&shape), mask: mask.map(|m| m.expand_to(&grid)), bins })
}

#[track_caller]
fn adaptive_max(op: &str, d: usize, x: &Tensor, size: &Sizes, places: bool) -> Result<(Tensor, Option<Tensor>)> {
    if let Some(b) = binned(op, d, x, size)? {
        return maxima(x, d, &b.bins, &b.shape, places);
    }
    let seen = see(op, d, x, size)?;
    let best = Best::of(&seen.values.detach(), seen.mask.as_ref(), d)?;
    let shape = with_lead(x, d, seen.bins.iter().map(|b| b.out));
    let mut stride = 1;
    let mut axes: SmallVec<[Axis; 3]> = SmallVec::new();
    for b in seen.bins.iter().rev() {
        axes.push(Axis { size: b.longest, step: stride, origins: &b.starts * stride as i64, before: 0 });
        stride *= b.n;
    }
    axes.reverse();
    let (y, at) = best.pick(&joined(x, d), &axes)?;
    Ok((y.reshape_to(&shape), Some(at.reshape_to(&shape))))
}

#[track_caller]
fn adaptive_avg(op: &str, d: usize, x: &Tensor, size: &Sizes) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(op, &[x.dtype()], format!("takes floats, not {}", x.dtype())).operand(x));
    }
    check_spatial(op, x, d)?;
    if size.spread_positive(op, "output_size", d)?.iter().all(|&out| out == 1) {
        // One bin of all is a mean like any other, and views on the way to it take longer than small planes.
        return x.mean_dim((-(d as i64)..0).collect::<Vec<_>>(), true);
    }
    if let Some(b) = binned(op, d, x, size)? {
        let last = over_last(x, &b.bins, |bins, inner| mean_op(bins, Divisor::Inside, inner));
        return Ok(last.unwrap_or_else(|| mean_of_bins(&b.flat, &b.bins, Divisor::Inside).reshape_to(&b.shape)));
    }
    let seen = see(op, d, x, size)?;
    let last: Vec<i64> = (-(d as i64)..0).collect();
    let shape = with_lead(x, d, seen.bins.iter().map(|b| b.out));
    let Some(mask) = &seen.mask else {
        return Ok(seen.values.mean_dim(last, false)?.reshape_to(&shape));
    };
    let mut mean = mask.where_(&seen.values, 0.0)?.sum_dim(last, false)?;
    for (a, b) in seen.bins.iter().enumerate() {
        let mut column = Shape::from(vec![1; d]);
        column.0[a] = b.out;
        mean = mean / (&b.ends - &b.starts).to_dtype(x.dtype()).reshape_to(&column);
    }
    Ok(mean.reshape_to(&shape))
}

#[track_caller]
fn unpool(
    op: &str,
    d: usize,
    x: &Tensor,
    indices: &Tensor,
    [kernel, padding]: [&Sizes; 2],
    stride: Option<Sizes>,
    output_size: Option<Sizes>,
) -> Result<Tensor> {
    check_spatial(op, x, d)?;
    same_device(op, &[x, indices])?;
    if x.shape() != indices.shape() {
        let why = format!("an input of shape {} with indices of shape {}", x.shape(), indices.shape());
        return Err(Error::shape(op, &[x.shape(), indices.shape()], why).operand(x).operand(indices));
    }
    let size = kernel.spread_positive(op, "kernel_size", d)?;
    let stride = match stride {
        Some(s) => s.spread_positive(op, "stride", d)?,
        None => size.clone(),
    };
    let padding = padding.spread(op, "padding", d)?;
    let wanted = output_size.map(|s| s.spread(op, "output_size", d)).transpose()?;
    let mut outs: SmallVec<[usize; 3]> = SmallVec::new();
    for a in 0..d {
        let n = x.dims()[x.rank() - d + a];
        let natural = (n as i128 - 1) * stride[a] as i128 - 2 * padding[a] as i128 + size[a] as i128;
        let out = wanted.as_ref().map_or(natural, |w| w[a] as i128);
        if out < 1 || out > isize::MAX as i128 / 16 || (out - natural).abs() >= stride[a] as i128 {
            let why = format!(
                "an output of {out} for axis {a} does not belong to {n} windows of {} (stride {}, padding {}): \
                 {natural}, give or take less than the stride",
                size[a], stride[a], padding[a]
            );
            return Err(Error::value(op, why).operand(x));
        }
        outs.push(out as usize);
    }
    let flat = joined(x, d);
    let lead = flat.dims()[0];
    let (from, to) = (flat.dims()[1..].iter().product::<usize>(), outs.iter().product::<usize>());
    let zeros = Tensor::zeros_on(Shape::from([lead, to]), x.dtype(), x.device());
    let y = zeros.scatter(1, &indices.reshape([lead, from])?, &flat.reshape([lead, from])?)?;
    Ok(y.reshape_to(&with_lead(x, d, outs)))
}
