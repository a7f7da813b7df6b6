//! Pooling by kernels over bins of two axes: of planes, or of images whose channels lie last.

use super::layout;
use crate::{
    DType, Result, Shape, Tensor,
    op::{HostOp, MaxPool, Op},
};
use gradus_numerics::pool::{Bins, Divisor, MeanPool, Pool, Window};
use smallvec::SmallVec;
use std::sync::Arc;

/// Whether a tensor's device has kernels of its own for pooling and resampling.
pub(super) fn has_kernels(x: &Tensor) -> bool {
    x.device().backend().limits().planes.contains(&x.dtype())
}

/// Whether it has some for pooling a tensor.
pub(super) fn has_pools(x: &Tensor) -> bool {
    let float = matches!(x.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    float && x.device().backend().limits().planes.contains(&DType::F32)
}

/// The numbers as the kernels take them: those of 16 bits as f32, which holds them and their sums.
fn taken(x: &Tensor) -> Tensor {
    if x.dtype() == DType::F64 { x.clone() } else { x.to_dtype(DType::F32) }
}

/// Each element of an axis a bin of its own.
fn whole(n: usize) -> Bins {
    Bins::Even(Window { n, size: 1, stride: 1, padding: 0, dilation: 1, out: n })
}

/// A map over bins of the last axes of `[lead, spatial..]`, by kernels for two axes at a time: of three, the first is
/// left to the second kernel. `make` is told whether it is the last.
#[track_caller]
fn over_bins(flat: &Tensor, bins: &[Bins], make: impl Fn([Bins; 2], bool) -> HostOp) -> Tensor {
    let run = |x: &Tensor, pair, last, shape: &[usize]| {
        x.make(Op::Host(make(pair, last)), &[x], Shape::from(shape), x.dtype())
    };
    let (lead, dtype, flat) = (flat.dims()[0], flat.dtype(), &taken(flat));
    let y = match bins {
        [w] => run(flat, [whole(1), *w], true, &[lead, w.out()]),
        [h, w] => run(flat, [*h, *w], true, &[lead, h.out(), w.out()]),
        [d, h, w] => {
            let (planes, outs) = (lead * d.n(), h.out() * w.out());
            let x = flat.reshape_to(&Shape::from([planes, h.n(), w.n()]));
            let x = run(&x, [*h, *w], false, &[planes, h.out(), w.out()]);
            let x = x.reshape_to(&Shape::from([lead, d.n(), outs]));
            let y = run(&x, [*d, whole(outs)], true, &[lead, d.out(), outs]);
            y.reshape_to(&Shape::from([lead, d.out(), h.out(), w.out()]))
        }
        _ => flat.clone(),
    };
    y.to_dtype(dtype)
}

/// A map over bins of the last two axes of images whose channels lie last, where they lie: `make` is told the bins and how
/// many channels. So they stay last, and nothing is turned; nor are their gradients.
#[track_caller]
pub(super) fn over_last(x: &Tensor, bins: &[Bins], make: impl Fn([Bins; 2], usize) -> HostOp) -> Option<Tensor> {
    let ([h, w], [n, c, ..]) = (bins, x.dims()) else { return None };
    // Vectors run along the channels.
    if *c < FEW_CHANNELS {
        return None;
    }
    let under = taken(&layout::under_last(x)?);
    let shape = Shape::from([*n, h.out(), w.out(), *c]);
    let op = make([*h, *w], *c);
    let places = matches!(op, HostOp::MaxPool(MaxPool::Places, _));
    let (made, wanted) = if places { (DType::I64, DType::I64) } else { (under.dtype(), x.dtype()) };
    let y = under.make(Op::Host(op), &[&under], shape, made).to_dtype(wanted);
    Some(y.permuted(SmallVec::from_slice(&layout::FIRST)))
}

/// The maxima of windows, of planes or of `inner` channels that lie last.
pub(super) fn max_op(windows: [Bins; 2], inner: usize) -> HostOp {
    HostOp::MaxPool(MaxPool::Max, Arc::new(Pool { windows, inner }))
}

/// Where they are.
pub(super) fn places_op(windows: [Bins; 2], inner: usize) -> HostOp {
    HostOp::MaxPool(MaxPool::Places, Arc::new(Pool { windows, inner }))
}

/// The means of bins, as above.
pub(super) fn mean_op(bins: [Bins; 2], divisor: Divisor, inner: usize) -> HostOp {
    HostOp::MeanPool(Arc::new(MeanPool { bins, divisor, inner }))
}

/// With fewer channels a vector of them is too empty.
const FEW_CHANNELS: usize = 8;

/// The maxima of bins of the last axes of `[lead, spatial..]`. (Of equal ones, and of NaNs, taking the depth last finds
/// the same as taking all at once.)
#[track_caller]
pub(super) fn max_of_bins(flat: &Tensor, bins: &[Bins]) -> Tensor {
    over_bins(flat, bins, |windows, _| max_op(windows, 1))
}

/// Where these maxima are, counted through the spatial axes.
#[track_caller]
pub(super) fn places_of_bins(flat: &Tensor, bins: &[Bins]) -> Result<Tensor> {
    let places = |x: &Tensor, pair, shape: Shape| x.make(Op::Host(places_op(pair, 1)), &[x], shape, DType::I64);
    let (lead, x) = (flat.dims()[0], &taken(&flat.detach()));
    Ok(match bins {
        [w] => places(x, [whole(1), *w], Shape::from([lead, w.out()])),
        [h, w] => places(x, [*h, *w], Shape::from([lead, h.out(), w.out()])),
        [d, h, w] => {
            // The place in its plane of what was found along the depth.
            let (planes, outs) = (lead * d.n(), h.out() * w.out());
            let x = x.reshape_to(&Shape::from([planes, h.n(), w.n()]));
            let best = max_of_bins(&x, &[*h, *w]).reshape_to(&Shape::from([lead, d.n(), outs]));
            let within = places(&x, [*h, *w], Shape::from([planes, h.out(), w.out()]));
            let along = places(&best, [*d, whole(outs)], Shape::from([lead, d.out() * outs]));
            let within = within.reshape_to(&Shape::from([lead, d.n() * outs])).gather(1, &along)?;
            let at = within + along.floor_divide(outs as i64)? * (h.n() * w.n()) as i64;
            at.reshape_to(&Shape::from([lead, d.out(), h.out(), w.out()]))
        }
        _ => flat.to_dtype(DType::I64),
    })
}

/// The means of bins of the last axes of `[lead, spatial..]`.
#[track_caller]
pub(super) fn mean_of_bins(flat: &Tensor, bins: &[Bins], divisor: Divisor) -> Tensor {
    over_bins(flat, bins, |bins, last| {
        let divisor = match divisor {
            Divisor::Fixed(_) if !last => Divisor::Fixed(1),
            Divisor::Fixed(_) | Divisor::Padded | Divisor::Inside => divisor,
        };
        mean_op(bins, divisor, 1)
    })
}
