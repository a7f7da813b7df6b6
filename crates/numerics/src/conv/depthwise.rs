//! Convolution where every channel has its own kernel: planes are handled directly.

mod channels;
mod planes;
mod scaled;
mod turned;

use super::ConvParams;
use super::patches::{Geometry, kernel_elements};
use crate::element::Real;
use crate::epilogue::Epilogue;
use crate::lanes::PARALLEL_WORK;
use crate::simd::Isa;
use crate::tasks::for_chunks;
use channels::Plan;
#[cfg(test)]
pub(super) use turned::weight_grad as turned_weight_grad;

/// For every kernel element, and every output row it reaches, calls `f` with the element's
/// number, the range of the output and the first position of the input; the input advances by
/// the stride.
fn for_rows(g: &Geometry, mut f: impl FnMut(usize, std::ops::Range<usize>, usize)) {
    for (k, [kd, kh, kw]) in kernel_elements(g.kernel).enumerate() {
        let inside = g.inside(2, kw, 0..g.output[2]);
        let Some(w) = g.source(2, inside.start, kw) else { continue };
        for od in 0..g.output[0] {
            let Some(d) = g.source(0, od, kd) else { continue };
            for oh in 0..g.output[1] {
                let Some(h) = g.source(1, oh, kh) else { continue };
                let row = (od * g.output[1] + oh) * g.output[2];
                f(k, row + inside.start..row + inside.end, (d * g.input[1] + h) * g.input[2] + w);
            }
        }
    }
}

/// Runs `f` on every plane of `out`, over threads when the whole is worth it.
fn for_planes<T: Real>(out: &mut [T], plane: usize, work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if plane > 0 {
        for_chunks(out, plane, 1, work >= PARALLEL_WORK, |(i, out)| f(i, out));
    }
}

fn kernel_size(g: &Geometry) -> usize {
    g.kernel.iter().product()
}

pub(super) fn forward<T: Real>(g: &Geometry, channels: usize, input: &[T], weight: &[T], output: &mut [T]) {
    let (size, inputs, step) = (kernel_size(g), g.inputs(), g.params.stride[2]);
    let work = output.len() * size;
    for_planes(output, g.outputs(), work, |i, out| {
        let (x, w) = (&input[i * inputs..][..inputs], &weight[i % channels * size..][..size]);
        out.fill(T::ZERO);
        for_rows(g, |k, row, from| {
            let (out, x, w) = (&mut out[row], &x[from..], w[k]);
            if step == 1 {
                out.iter_mut().zip(x).for_each(|(o, x)| *o += w * *x);
            } else {
                out.iter_mut().zip(x.iter().step_by(step)).for_each(|(o, x)| *o += w * *x);
            }
        });
    });
}

pub(super) fn input_grad<T: Real>(g: &Geometry, channels: usize, grad: &[T], weight: &[T], dx: &mut [T]) {
    let (size, outputs, step) = (kernel_size(g), g.outputs(), g.params.stride[2]);
    for_planes(dx, g.inputs(), grad.len() * size, |i, dx| {
        let (grad, w) = (&grad[i * outputs..][..outputs], &weight[i % channels * size..][..size]);
        for_rows(g, |k, row, from| {
            let (dx, w) = (&mut dx[from..], w[k]);
            if step == 1 {
                dx.iter_mut().zip(&grad[row]).for_each(|(d, g)| *d += w * *g);
            } else {
                dx.iter_mut().step_by(step).zip(&grad[row]).for_each(|(d, g)| *d += w * *g);
            }
        });
    });
}

pub(super) fn weight_grad<T: Real>(g: &Geometry, channels: usize, input: &[T], grad: &[T], dw: &mut [T]) {
    let (size, inputs, outputs, step) = (kernel_size(g), g.inputs(), g.outputs(), g.params.stride[2]);
    for_planes(dw, size, grad.len() * size, |c, dw| {
        // A channel's images in order: the same sum for any number of threads.
        for (n, grad) in grad.chunks_exact(outputs.max(1)).enumerate().filter(|(i, _)| i % channels == c) {
            let x = &input[n * inputs..][..inputs];
            for_rows(g, |k, row, from| {
                let (x, grad) = (&x[from..], &grad[row]);
                dw[k] += if step == 1 {
                    dot(grad, x)
                } else {
                    grad.iter().zip(x.iter().step_by(step)).map(|(g, x)| *g * *x).sum()
                };
            });
        }
    });
}

/// The dot product over the length of `a`, in eight sums side by side: one sum would have to be
/// taken in order, an addition at a time.
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let b = &b[..a.len()];
    let mut sums = [T::ZERO; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: T = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| *a * *b).sum();
    for (a, b) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.into_iter().sum::<T>().add(rest)
}

/// The forward convolution of `f32` by vectors; `false` where there is no kernel for it.
pub(super) fn forward_f32(
    isa: Isa,
    g: &Geometry,
    channels: usize,
    x: &[f32],
    w: &[f32],
    y: &mut [f32],
    e: &Epilogue<'_>,
) -> bool {
    if g.is_pointwise() {
        scaled::forward(isa, g.outputs(), channels, x, w, y, e);
        return true;
    }
    if let Some(plan) = Plan::forward(g, isa.lanes()).filter(|_| channels * 2 >= isa.lanes()) {
        channels::run(isa, &plan, channels, x, w, y, e);
        return true;
    }
    planes::forward(isa, g, channels, x, w, false, (1, 1), y, e)
}

/// The gradient for the input by vectors: a convolution of the gradient, with zeros between its
/// elements where there are strides, with turned kernels.
pub(super) fn input_grad_f32(isa: Isa, g: &Geometry, channels: usize, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    if g.is_pointwise() {
        scaled::forward(isa, g.outputs(), channels, grad, w, dx, &Epilogue::default());
        return true;
    }
    if let Some(plan) = Plan::backward(g, isa.lanes()).filter(|_| channels * 2 >= isa.lanes()) {
        channels::run(isa, &plan, channels, grad, w, dx, &Epilogue::default());
        return true;
    }
    let stride = g.params.stride;
    // More zeros than that, and going from element to element is faster.
    if stride[0] != 1 || stride[1] > 2 || stride[2] > 2 {
        return false;
    }
    let reach = [0, 1, 2].map(|d| (g.kernel[d] - 1) * g.params.dilation[d]);
    let pad = [0, 1, 2].map(|d| reach[d].checked_sub(g.params.padding[d].0));
    let [Some(a), Some(b), Some(c)] = pad else { return false };
    let params = ConvParams { padding: [(a, 0), (b, 0), (c, 0)], stride: [1; 3], ..g.params };
    let back = Geometry { input: g.output, kernel: g.kernel, output: g.input, params };
    if g.inputs() == 0 {
        return true;
    }
    planes::forward(isa, &back, channels, grad, w, true, (stride[1], stride[2]), dx, &Epilogue::default())
}

/// The gradient for the kernels by vectors; `false` where there is no kernel for it.
pub(super) fn weight_grad_f32(
    isa: Isa,
    g: &Geometry,
    channels: usize,
    x: &[f32],
    grad: &[f32],
    dw: &mut [f32],
) -> bool {
    if turned::pays(g, channels, isa.lanes()) {
        turned::weight_grad(isa, g, channels, x, grad, dw);
        return true;
    }
    planes::weight_grad(isa, g, channels, x, grad, dw)
}
