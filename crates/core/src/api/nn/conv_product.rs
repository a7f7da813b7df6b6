//! Convolutions that are better done as matrix products, on devices that keep channels last.
//!
//! Windows of one pixel are a product outright. A picture's few channels fill no matrix unit: there the pixels of a window
//! are laid side by side, which is small work beside the product, and worth it where no gradient for the picture is asked.

use crate::{
    Result, Shape, Tensor, autocast,
    op::{Conv, ConvKind},
    view::ViewOp,
};
use smallvec::SmallVec;

/// Pictures with fewer channels than this are laid out in windows.
const FEW: usize = 8;
/// Inner extents of products are multiples of this.
const STEP: usize = 8;

/// The result as `[n, h, w, c]`, where a product is the better way to it.
#[track_caller]
pub(super) fn product(conv: &Conv, x: &Tensor, w: &Tensor) -> Result<Option<Tensor>> {
    let p = &conv.params;
    let plain = conv.kind == ConvKind::Forward && p.groups == 1 && conv.output.numel() > 0;
    let (rows, cols) = (conv.weight[2], conv.weight[3]);
    let whole = rows == 1 && cols == 1 && p.padding.iter().all(|&p| p == (0, 0));
    let few = conv.input[1] < FEW && p.dilation.iter().all(|&d| d == 1) && !x.requires_grad();
    // Types are what they are by now.
    autocast(None, || match (plain && whole, plain && few) {
        (true, _) => pixels(conv, x, w).map(Some),
        (false, true) => windows(conv, x, w).map(Some),
        (false, false) => Ok(None),
    })
}

fn output(conv: &Conv) -> Shape {
    let o = &conv.output;
    [o[0], o[2], o[3], o[1]].into()
}

/// One pixel a window: every so many of them, through one matrix.
#[track_caller]
pub(super) fn pixels(conv: &Conv, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (o, c) = (conv.output[1], conv.input[1]);
    let mut seen = x.permute([0, 2, 3, 1])?;
    for axis in [1, 2] {
        let (step, len) = (conv.params.stride[axis - 1], conv.output[axis + 1]);
        if step > 1 {
            seen = seen.sliced(axis, 0, step as isize, len);
        }
    }
    let pixels = conv.output.numel() / o;
    seen.reshape([pixels, c])?.matmul(&w.reshape([o, c])?.t()?)?.reshape(output(conv))
}

/// Windows side by side, with zeros up to an extent that matrix units like.
#[track_caller]
fn windows(conv: &Conv, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (o, c, rows, cols) = (conv.weight[0], conv.weight[1], conv.weight[2], conv.weight[3]);
    let sizes = (rows..rows + STEP).flat_map(|r| (cols..cols + STEP).map(move |k| (r, k)));
    let fitting = sizes.filter(|(r, k)| (c * r * k).is_multiple_of(STEP)).min_by_key(|(r, k)| r * k);
    let (r, k) = fitting.unwrap_or((rows, cols));
    let mut seen = x.resolve();
    for (i, &(before, after)) in conv.params.padding.iter().enumerate() {
        seen = seen.pad_axis(i + 2, before, after)?;
    }
    for (i, size) in [rows, cols].into_iter().enumerate() {
        seen = seen.view_op(ViewOp::Unfold { axis: i + 2, size, step: conv.params.stride[i] });
    }
    // [n, c, h, w, rows, cols] -> [n, h, w, c, r, k]
    let seen = seen.permute([0, 2, 3, 1, 4, 5])?;
    let zeros = |lead: usize| -> ViewOp {
        let amounts = std::iter::repeat_n((0, 0), lead).chain([(0, r - rows), (0, k - cols)]);
        ViewOp::Pad(amounts.collect::<SmallVec<_>>())
    };
    let pixels = conv.output.numel() / o;
    let seen = seen.view_op(zeros(4)).reshape([pixels, c * r * k])?;
    let weight = w.resolve().view_op(zeros(2)).reshape([o, c * r * k])?;
    seen.matmul(&weight.t()?)?.reshape(output(conv))
}
