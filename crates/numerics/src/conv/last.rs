//! Convolution of `f32` images that lie with their channels last, where copying them to lie otherwise would take as long as the
//! sums themselves: with a kernel for each channel ([`channels`]), or few output channels ([`few`]).

mod channels;
mod few;

use super::{ConvParams, Problem};
use crate::simd::Isa;

/// Output channels that are summed up side by side.
const FEW: usize = 4;

/// Fewer input channels than that leave lanes idle.
const LONG: usize = 16;

/// Whether [`conv_forward_last`] has a way for a weight of these sizes (stated with the channels first).
pub fn is_forward_last(weight_shape: [usize; 5], params: &ConvParams) -> bool {
    let [o, c, ..] = weight_shape;
    let depthwise = c == 1 && o == params.groups;
    depthwise || params.groups == 1 && o <= FEW && c >= LONG
}

/// [`conv_forward`](super::conv_forward) of an input `[N, D, H, W, C]` with a weight `[O, kD, kH, kW, C / groups]`: `output` is
/// `[N, D', H', W', O]`. Shapes are stated with the channels first all the same. Where [`is_forward_last`] is false, nothing
/// is done and the answer is the same.
///
/// ```
/// use gradus_numerics::conv::{ConvParams, conv_forward_last};
/// let (x, w) = ([1.0, 10.0, 2.0, 20.0, 3.0, 30.0], [1.0, -1.0, 2.0, 0.5]);
/// let p = ConvParams { groups: 2, ..ConvParams::default() };
/// let mut y = [0.0; 4];
/// assert!(conv_forward_last(&x, [1, 2, 1, 1, 3], &w, [2, 1, 1, 1, 2], &p, &mut y));
/// assert_eq!(y, [-1.0, 30.0, -1.0, 55.0]);
/// ```
pub fn conv_forward_last(
    input: &[f32],
    input_shape: [usize; 5],
    weight: &[f32],
    weight_shape: [usize; 5],
    params: &ConvParams,
    output: &mut [f32],
) -> bool {
    if !is_forward_last(weight_shape, params) {
        return false;
    }
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return true };
    forward(Isa::detect(), &p, input, weight, output);
    true
}

pub(super) fn forward(isa: Isa, p: &Problem, x: &[f32], w: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), p.n * p.groups * p.c * p.geometry.inputs(), "the input's size");
    assert_eq!(w.len(), p.groups * p.o * p.patch(p.c), "the weights' size");
    assert_eq!(y.len(), p.n * p.groups * p.o * p.outputs(), "the output's size");
    if y.is_empty() {
    } else if x.is_empty() {
        y.fill(0.0);
    } else if p.is_depthwise() {
        channels::forward(isa, &p.geometry, p.groups, x, w, y);
    } else {
        few::forward(isa, p, x, w, y);
    }
}
