//! The choice of an algorithm for `f32`.

use super::winograd::{self, Plan, Weights};
use super::{ConvParams, Problem};
use super::{adjoint, depthwise, direct, scattered};
use crate::epilogue::Epilogue;
use crate::gemm::{Dims, Layout, Operand, gemm_fused};
use crate::simd::Isa;
use crate::tasks::for_chunks;

/// The sizes for Winograd's algorithm, where it can be used.
fn winograd_plan(p: &Problem) -> Option<Plan> {
    let g = &p.geometry;
    let fits = g.kernel == [1, 3, 3]
        && g.params.stride == [1; 3]
        && g.params.dilation == [1; 3]
        && g.input[0] == 1
        && g.output[0] == 1
        && g.params.padding[1].0 <= 2
        && g.params.padding[2].0 <= 2;
    fits.then_some(Plan {
        images: p.n,
        inner: p.c,
        outer: p.o,
        input: (g.input[1], g.input[2]),
        output: (g.output[1], g.output[2]),
        pad: (g.params.padding[1].0, g.params.padding[2].0),
        group: (0, p.groups),
    })
}

/// The sizes for Winograd's algorithm for the gradient of the input: a convolution of the gradient with the kernels turned,
/// from outputs to inputs.
fn winograd_back(p: &Problem) -> Option<Plan> {
    winograd_plan(p).map(|plan| Plan {
        inner: plan.outer,
        outer: plan.inner,
        input: plan.output,
        output: plan.input,
        pad: (2 - plan.pad.0, 2 - plan.pad.1),
        ..plan
    })
}

/// Whether Winograd's algorithm should take less time than direct sums of pairs.
pub(super) fn is_winograd(p: &Problem) -> bool {
    winograd_plan(p).is_some_and(|plan| plan.pays_beside_pairs())
}

/// The same for the gradient of the input.
pub(super) fn is_winograd_back(p: &Problem) -> bool {
    winograd_back(p).is_some_and(|plan| plan.pays_beside_pairs())
}

/// The same for the gradient of the weights.
pub(super) fn is_winograd_for_weights(p: &Problem) -> bool {
    winograd_plan(p).is_some_and(|plan| plan.pays_for_weights_beside_pairs())
}

/// The forward convolution, if there is a fast algorithm for it.
pub(super) fn forward(isa: Isa, p: &Problem, x: &[f32], w: &[f32], y: &mut [f32], e: &Epilogue<'_>) -> bool {
    assert_eq!(w.len(), p.groups * p.o * p.patch(p.c), "the weights' size");
    e.check(p.groups * p.o, y.len());
    if p.is_whole() && e.then.is_none() {
        // Images are rows of a matrix, and what they give are rows too.
        let (x, row) = (Operand::new(x, Layout::row_major(p.patch(p.c))), Layout::row_major(p.patch(p.c)).transposed());
        gemm_fused(Dims::new(p.n, p.o, p.patch(p.c)), x, Operand::new(w, row), y, e);
        return true;
    }
    if let Some(plan) = winograd_plan(p).filter(Plan::pays) {
        for (group, w) in w.chunks_exact(p.o * p.c * 9).enumerate() {
            let w = Weights { data: w, row: p.c * 9, inner: 9, flip: false };
            winograd::convolve(isa, &Plan { group: (group, p.groups), ..plan }, x, &w, y, e);
        }
    } else if p.is_depthwise() && depthwise::forward_f32(isa, &p.geometry, p.groups, x, w, y, e) {
    } else if p.is_depthwise() && e.is_none() {
        return false;
    } else if scattered::pays(p, e) {
        scattered::forward(isa, p, x, w, y);
    } else {
        direct::forward(isa, p, x, w, y, e);
    }
    true
}

/// The gradient for the input, if there is a fast algorithm for it.
pub(super) fn input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    assert_eq!(w.len(), p.groups * p.o * p.patch(p.c), "the weights' size");
    if let Some(plan) = winograd_back(p).filter(Plan::pays) {
        for (group, w) in w.chunks_exact(p.o * p.c * 9).enumerate() {
            let plan = Plan { group: (group, p.groups), ..plan };
            let w = Weights { data: w, row: 9, inner: p.c * 9, flip: true };
            winograd::convolve(isa, &plan, grad, &w, dx, &Epilogue::default());
        }
        return true;
    }
    if p.is_depthwise() {
        return depthwise::input_grad_f32(isa, &p.geometry, p.groups, grad, w, dx);
    }
    summed_input_grad(isa, p, grad, w, dx)
}

/// The gradient for the input by direct sums, if that is fast.
pub(super) fn summed_input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    adjoint::pays(isa, p) && adjoint::input_grad(isa, p, grad, w, dx)
        || direct::input_grad(isa, p, grad, w, dx)
        || adjoint::input_grad(isa, p, grad, w, dx)
}

/// The gradient for the weights, if there is a fast algorithm for it.
pub(super) fn weight_grad(isa: Isa, p: &Problem, x: &[f32], grad: &[f32], dw: &mut [f32]) -> bool {
    assert_eq!(dw.len(), p.groups * p.o * p.patch(p.c), "the weights' size");
    if let Some(plan) = winograd_plan(p).filter(Plan::pays_for_weights) {
        // Threads take groups where there are several: what a group does is little to share.
        let each = p.groups > 2 || p.groups == rayon::current_num_threads();
        for_chunks(dw, p.o * p.c * 9, 1, each, |(group, dw)| {
            winograd::weight_grad(isa, &Plan { group: (group, p.groups), ..plan }, x, grad, dw);
        });
    } else if p.is_depthwise() {
        return depthwise::weight_grad_f32(isa, &p.geometry, p.groups, x, grad, dw);
    } else {
        direct::weight_grad(isa, p, x, grad, dw);
    }
    true
}

/// [`conv_forward`](super::conv_forward) followed by an [`Epilogue`] over the output's channels,
/// applied while the output is in the cache.
///
/// ```
/// use gradus_numerics::conv::{ConvParams, conv_forward_fused};
/// use gradus_numerics::{Activation, Epilogue};
/// let (x, w) = ([1.0f32, 2.0, 3.0], [1.0, -1.0]);
/// let e = Epilogue { bias: Some(&[1.5]), activation: Activation::Relu, ..Epilogue::default() };
/// let mut y = [0.0; 2];
/// conv_forward_fused(&x, [1, 1, 1, 1, 3], &w, [1, 1, 1, 1, 2], &ConvParams::default(), &e, &mut y);
/// assert_eq!(y, [0.5, 0.5]);
/// ```
pub fn conv_forward_fused(
    input: &[f32],
    input_shape: [usize; 5],
    weight: &[f32],
    weight_shape: [usize; 5],
    params: &ConvParams,
    epilogue: &Epilogue<'_>,
    output: &mut [f32],
) {
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return };
    if !forward(Isa::detect(), &p, input, weight, output, epilogue) {
        super::conv_forward(input, input_shape, weight, weight_shape, params, output);
    }
}
