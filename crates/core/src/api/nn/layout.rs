//! Channels last: how images lie in memory on devices whose convolutions want it so.
//!
//! A 16-bit convolution over images on such a device is made over `[n, h, w, c]`, and its result is a view of that as
//! `[n, c, h, w]`: shapes are what they always are. Elementwise operations and reductions on such a view are made on what
//! lies under it, and viewed the same way: `permute(x) + y = permute(x + unpermute(y))`. So a network's images stay with
//! their channels last from one convolution to the next, gradients and optimizer states of the weights too, and no copy
//! goes between the two orders. Nodes are made on top of the view, not around it: a gradient for it, or a hook on it,
//! finds its way.
//!
//! On the CPU, images of f32 are with their channels last if that is how they came. Convolutions without gradients that are
//! best done as they lie leave them so.

use super::conv_product as product;
use crate::{
    DType, Device, Result, Tensor, autocast, is_grad_enabled,
    op::{Conv, ConvKind, Op, ReduceOp},
    view::ViewOp,
};
use smallvec::SmallVec;
use std::{panic::Location, sync::Arc};

/// `[n, h, w, c]` seen as `[n, c, h, w]`: where each axis comes from.
pub(super) const FIRST: [usize; 4] = [0, 3, 1, 2];
/// And back.
const LAST: [usize; 4] = [0, 2, 3, 1];

fn permuted(t: &Tensor, order: [usize; 4], at: &'static Location<'static>) -> Tensor {
    let op = ViewOp::Permute(order.into_iter().collect());
    let shape = op.shape(t.shape());
    Tensor::build(Op::View(op), &[t], shape, t.dtype(), t.device(), at)
}

/// Whether a tensor is `[n, h, w, c]` seen as `[n, c, h, w]`, on a device that keeps it so.
fn is_last(t: &Tensor) -> bool {
    let node = t.node();
    match &node.op {
        Op::View(ViewOp::Permute(p)) => p[..] == FIRST && t.device().backend().channels_last(),
        // The same elements under another name.
        Op::Detach | Op::WithVjp(_) => node.peek(|inputs, _| inputs.first().is_some_and(is_last)),
        _ => false,
    }
}

/// What lies under a view with the channels first. Without a gradient to come nobody can ask for the view on the way: it
/// is passed over.
fn under(t: &Tensor, at: &'static Location<'static>) -> Tensor {
    if matches!(&t.node().op, Op::View(ViewOp::Permute(p)) if p[..] == FIRST)
        && !t.requires_grad()
        && let Some(base) = t.node().peek(|inputs, _| inputs.first().cloned())
    {
        return base;
    }
    permuted(t, LAST, at)
}

/// What lies under a tensor that is `[n, h, w, c]` seen as `[n, c, h, w]`, on any device: by how it was made, or, of a
/// variable, by how its elements lie.
#[track_caller]
pub(super) fn under_last(t: &Tensor) -> Option<Tensor> {
    let t = t.resolve();
    let last = match &t.node().op {
        Op::View(ViewOp::Permute(p)) => p[..] == FIRST,
        Op::Snapshot(_) => t.node().value().is_some_and(|v| {
            let turned = ViewOp::Permute(LAST.into_iter().collect());
            !v.view.is_contiguous() && v.view.apply(&turned).is_some_and(|v| v.is_contiguous())
        }),
        _ => false,
    };
    last.then(|| under(&t, Location::caller()))
}

/// An operand with its channels last. One that lies otherwise is copied here, once for the convolution and its gradient.
fn ordered(t: &Tensor, at: &'static Location<'static>) -> Tensor {
    let view = under(t, at);
    if is_last(t) {
        return view;
    }
    let shape = view.shape().clone();
    Tensor::build(Op::Contiguous, &[&view], shape, t.dtype(), t.device(), at)
}

/// A convolution of f32 images on the CPU that lie with their channels last, where it is best done as they lie: nothing
/// is turned first (27x380x18x18 to one channel: 3.6 ms, 0.2 as they lie).
#[track_caller]
fn as_it_lies(conv: &Conv, x: &Tensor, w: &Tensor) -> Result<Option<Tensor>> {
    let at = Location::caller();
    let p = &conv.params;
    let images = x.rank() == 4 && x.dtype() == DType::F32 && x.device() == Device::cpu();
    // Gradients are taken with the channels first.
    let noted = is_grad_enabled() && (x.requires_grad() || w.requires_grad());
    if !images || noted || conv.kind != ConvKind::Forward || conv.output.numel() == 0 {
        return Ok(None);
    }
    let whole = conv.weight[2..] == [1, 1] && p.padding.iter().all(|&p| p == (0, 0));
    let pixels = p.groups == 1 && whole && conv.input[1] > 0;
    let Some(under) = (pixels || x.device().backend().reads_last(conv)).then(|| under_last(x)).flatten() else {
        return Ok(None);
    };
    if pixels {
        let y = autocast(None, || product::pixels(conv, &permuted(&under, FIRST, at), w))?;
        return Ok(Some(permuted(&y, FIRST, at)));
    }
    let conv = Conv { channels_last: true, ..conv.clone() };
    let (w, shape) = (ordered(w, at), conv.shape());
    let y = Tensor::build(Op::Conv(Arc::new(conv)), &[&under, &w], shape, x.dtype(), x.device(), at);
    Ok(Some(permuted(&y, FIRST, at)))
}

/// A number added to each channel of images that lie with their channels last, on the CPU: they stay there.
#[track_caller]
pub(super) fn with_bias(y: &Tensor, bias: &Tensor) -> Option<Result<Tensor>> {
    let last = matches!(&y.node().op, Op::View(ViewOp::Permute(p)) if p[..] == FIRST);
    let at = Location::caller();
    (last && y.device() == Device::cpu()).then(|| Ok(permuted(&under(y, at).add(bias)?, FIRST, at)))
}

/// The node of a convolution, in the order that the device wants; as a matrix product where that is the better way.
#[track_caller]
pub(super) fn node(conv: Conv, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let at = Location::caller();
    let images = a.rank() == 4 && matches!(a.dtype(), DType::F16 | DType::BF16);
    if let Some(y) = as_it_lies(&conv, a, b)? {
        return Ok(y);
    }
    if !(images && conv.params.groups == 1 && a.device().backend().channels_last()) {
        let shape = conv.shape();
        return Ok(Tensor::build(Op::Conv(Arc::new(conv)), &[a, b], shape, a.dtype(), a.device(), at));
    }
    if let Some(y) = product::product(&conv, a, b)? {
        return Ok(permuted(&y, FIRST, at));
    }
    let conv = Conv { channels_last: true, ..conv };
    let (a, b, shape) = (ordered(a, at), ordered(b, at), conv.shape());
    Ok(permuted(&Tensor::build(Op::Conv(Arc::new(conv)), &[&a, &b], shape, a.dtype(), a.device(), at), FIRST, at))
}

/// A view of a tensor with its axes in this order.
pub(super) fn ordered_by(t: &Tensor, order: &[usize], at: &'static Location<'static>) -> Tensor {
    let op = ViewOp::Permute(order.into());
    let shape = op.shape(t.shape());
    Tensor::build(Op::View(op), &[t], shape, t.dtype(), t.device(), at)
}

/// The order that takes the axes of this one back to where they came from.
fn back(order: &[usize]) -> SmallVec<[usize; 6]> {
    let mut back: SmallVec<[usize; 6]> = order.iter().map(|_| 0).collect();
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    back
}

/// The order of the axes of a tensor on the CPU that lies across. Where rows stay rows nothing is won by leaving elements where they
/// are, and readers may want them side by side.
fn lies_across(t: &Tensor) -> Option<&[usize]> {
    match &t.node().op {
        Op::View(ViewOp::Permute(p)) if p.last() != Some(&(p.len() - 1)) && t.device().backend().limits().layouts => {
            Some(p)
        }
        _ => None,
    }
}

/// Whether a tensor, or what it is a view of, has been computed. What has not may be a reduction of rows that fuses with what is
/// done to these rows next.
fn is_there(t: &Tensor) -> bool {
    let mut t = t.clone();
    while matches!(t.node().op, Op::View(_)) && t.node().peek(|_, value| value.is_none()) {
        let Some(under) = t.node().peek(|inputs, _| inputs.first().cloned()) else { break };
        t = under;
    }
    t.node().peek(|_, value| value.is_some()) || matches!(t.node().op, Op::Data | Op::Snapshot(_))
}

/// An elementwise operation over inputs that all lie across in one and the same way, or are there and repeated over the others: the
/// result lies as they do, as PyTorch has it, and no element moves.
fn across(op: &Op, inputs: &[&Tensor], dtype: DType, at: &'static Location<'static>) -> Option<Tensor> {
    let order = inputs.iter().find_map(|t| lies_across(t))?;
    let repeated = |t: &Tensor| match &t.node().op {
        Op::View(ViewOp::Expand(_)) => is_there(t),
        op => matches!(op, Op::Scalar(_)),
    };
    if !inputs.iter().all(|t| lies_across(t) == Some(order) || repeated(t)) {
        return None;
    }
    let back = back(order);
    let lower: SmallVec<[Tensor; 3]> = inputs.iter().map(|t| ordered_by(t, &back, at)).collect();
    let refs: SmallVec<[&Tensor; 3]> = lower.iter().collect();
    let made = Tensor::build(op.clone(), &refs, refs[0].shape().clone(), dtype, refs[0].device(), at);
    Some(ordered_by(&made, order, at))
}

/// An operation that takes axes one by one, as joining or padding does, over tensors that all lie across in one and the same way: it is
/// made of what lies under them, where axis `a` is `order[a]`, and viewed as they are.
pub(crate) fn beneath(
    inputs: &[Tensor],
    at: &'static Location<'static>,
    make: impl FnOnce(&[Tensor], &[usize]) -> Result<Tensor>,
) -> Option<Result<Tensor>> {
    let order = lies_across(inputs.first()?)?;
    if !inputs.iter().all(|t| lies_across(t) == Some(order)) {
        return None;
    }
    let back = back(order);
    let lower: Vec<Tensor> = inputs.iter().map(|t| ordered_by(t, &back, at)).collect();
    Some(make(&lower, order).map(|made| ordered_by(&made, order, at)))
}

/// What lies under a tensor that lies across, without a gradient to come, and the order of its axes: functions of single elements
/// that are made of others are made of that, and viewed in that order.
pub(super) fn under_across(t: &Tensor, at: &'static Location<'static>) -> Option<(Tensor, SmallVec<[usize; 6]>)> {
    let order = lies_across(t).filter(|_| !t.requires_grad())?;
    let base = t.node().peek(|inputs, _| inputs.first().cloned());
    Some((base.unwrap_or_else(|| ordered_by(t, &back(order), at)), order.into()))
}

/// An elementwise operation or a conversion over inputs of which one has its channels last: so has the result.
pub(crate) fn pointwise(op: &Op, inputs: &[&Tensor], dtype: DType, at: &'static Location<'static>) -> Option<Tensor> {
    if let Some(made) = across(op, inputs, dtype, at) {
        return Some(made);
    }
    if !inputs.iter().any(|t| is_last(t)) {
        return None;
    }
    let lower: SmallVec<[Tensor; 3]> = inputs.iter().map(|t| under(t, at)).collect();
    let refs: SmallVec<[&Tensor; 3]> = lower.iter().collect();
    let made = Tensor::build(op.clone(), &refs, refs[0].shape().clone(), dtype, refs[0].device(), at);
    Some(permuted(&made, FIRST, at))
}

/// A reduction of a tensor with its channels last: they stay there.
#[track_caller]
pub(crate) fn reduction(t: &Tensor, op: ReduceOp, axes: &[usize]) -> Option<Tensor> {
    if !is_last(t) {
        return None;
    }
    let at = Location::caller();
    let under = under(t, at);
    let mut axes: SmallVec<[usize; 6]> = axes.iter().map(|&a| FIRST[a]).collect();
    axes.sort_unstable();
    let mut shape = under.shape().clone();
    axes.iter().for_each(|&a| shape.0[a] = 1);
    let made = Tensor::build(Op::Reduce { op, axes }, &[&under], shape, t.dtype(), t.device(), at);
    Some(permuted(&made, FIRST, at))
}
