//! Windows along spatial axes as strided views: what pooling and patches stand on.

use crate::{DType, Error, Result, Scalar, Shape, Tensor, view::ViewOp};
use gradus_numerics::pool::Window;
use smallvec::SmallVec;

/// Windows of the last axes, zeros where they hang over: `[lead.., outs.., windows..]`.
#[track_caller]
pub(crate) fn windows(x: &Tensor, all: &[Window]) -> Result<Tensor> {
    let lead = x.rank() - all.len();
    let mut x = x.resolve();
    for (a, w) in all.iter().enumerate() {
        let axis = lead + a;
        x = x.pad_axis(axis, w.padding, w.after())?;
        if w.stride == w.size && w.dilation == 1 {
            // Side by side: a split axis, whose gradient needs no sum.
            let cut = x.sliced(axis, 0, 1, w.out * w.size);
            let split = cut.reshape_to(&cut.shape().with(axis, w.out).inserted(axis + 1, w.size));
            let mut order: SmallVec<[usize; 6]> = (0..split.rank()).filter(|&d| d != axis + 1).collect();
            order.push(axis + 1);
            x = split.permuted(order);
        } else {
            let seen = x.view_op(ViewOp::Unfold { axis, size: w.reach(), step: w.stride });
            let last = seen.rank() - 1;
            x = seen.sliced(axis, 0, 1, w.out).sliced(last, 0, w.dilation as isize, w.size);
        }
    }
    Ok(x)
}

/// Where the windows see elements: `[outs.., windows..]`, or `None` if they do everywhere.
#[track_caller]
pub(crate) fn inside(x: &Tensor, all: &[Window]) -> Result<Option<Tensor>> {
    if !all.iter().any(Window::overhangs) {
        return Ok(None);
    }
    let spatial: Shape = all.iter().map(|w| w.n).collect();
    windows(&Tensor::full_on(spatial, Scalar::B(true), DType::Bool, x.device()), all).map(Some)
}

/// The axes before the last `d` as one: `[lead, spatial..]`.
#[track_caller]
pub(crate) fn joined(x: &Tensor, d: usize) -> Tensor {
    let lead = x.rank() - d;
    let n: usize = x.dims()[..lead].iter().product();
    x.reshape_to(&std::iter::once(n).chain(x.dims()[lead..].iter().copied()).collect())
}

/// The axes before the last `d` of `x`, then `tail`.
pub(crate) fn with_lead(x: &Tensor, d: usize, tail: impl IntoIterator<Item = usize>) -> Shape {
    x.dims()[..x.rank() - d].iter().copied().chain(tail).collect()
}

/// An input of `d` spatial axes, with channels, perhaps with a batch; nothing but the batch is empty.
#[track_caller]
pub(crate) fn check_spatial(op: &str, x: &Tensor, d: usize) -> Result<()> {
    if x.rank() != d + 1 && x.rank() != d + 2 {
        let why = format!("takes {} or {} axes, not {}", d + 1, d + 2, x.shape());
        return Err(Error::shape(op, &[x.shape()], why).operand(x));
    }
    if x.dims()[x.rank() - d..].contains(&0) {
        let why = format!("the spatial axes of {} must not be empty", x.shape());
        return Err(Error::shape(op, &[x.shape()], why).operand(x));
    }
    Ok(())
}
