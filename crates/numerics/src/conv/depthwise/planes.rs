//! Depthwise convolution of `f32` planes by vectors.
//!
//! A plane is copied with its zeros around it, so that no window needs a case of its own; then
//! every vector of outputs is summed up in a register.

use super::super::patches::Geometry;
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, fold};
use crate::tasks::{Shared, for_tasks};

/// What a plane's kernel needs to know.
#[derive(Clone, Copy)]
struct Shape {
    /// The padded plane's width.
    width: usize,
    kernel: (usize, usize),
    stride: (usize, usize),
    dilation: (usize, usize),
    output: (usize, usize),
}

/// A plane with zeros around it.
struct Frame {
    shape: Shape,
    input: (usize, usize),
    pad: (usize, usize),
    len: usize,
}

impl Frame {
    /// For one plane deep arrays and strides that vectors can read.
    fn new(g: &Geometry) -> Option<Frame> {
        let p = &g.params;
        let flat = g.kernel[0] == 1 && g.input[0] == 1 && g.output[0] == 1 && p.padding[0] == (0, 0);
        if !flat || p.stride[2] > 2 {
            return None;
        }
        let (kernel, output) = ((g.kernel[1], g.kernel[2]), (g.output[1], g.output[2]));
        let (stride, dilation) = ((p.stride[1], p.stride[2]), (p.dilation[1], p.dilation[2]));
        let rows = (output.0 - 1) * stride.0 + (kernel.0 - 1) * dilation.0 + 1;
        let width = (output.1 - 1) * stride.1 + (kernel.1 - 1) * dilation.1 + 1;
        let shape = Shape { width, kernel, stride, dilation, output };
        // Vectors read up to twice their length beyond the last column.
        Some(Frame {
            shape,
            input: (g.input[1], g.input[2]),
            pad: (p.padding[1].0, p.padding[2].0),
            len: rows * width + 48,
        })
    }

    /// Copies a plane into the frame, whose border is zero.
    fn fill(&self, x: &[f32], frame: &mut [f32]) {
        let rows = (self.len - 48) / self.shape.width;
        let n = self.input.1.min(self.shape.width.saturating_sub(self.pad.1));
        for r in 0..self.input.0.min(rows.saturating_sub(self.pad.0)) {
            let to = (r + self.pad.0) * self.shape.width + self.pad.1;
            frame[to..to + n].copy_from_slice(&x[r * self.input.1..][..n]);
        }
    }
}

/// Planes of a task, whatever the number of threads.
fn chunk(plane: usize) -> usize {
    ((1 << 13) / plane.max(1)).max(1)
}

/// The convolution of every plane with its kernel; `false` where there is no kernel for it. `turned`
/// takes the kernels from the last element to the first.
#[allow(clippy::too_many_arguments)]
pub(super) fn forward(
    isa: Isa,
    g: &Geometry,
    channels: usize,
    x: &[f32],
    w: &[f32],
    turned: bool,
    y: &mut [f32],
    e: &Epilogue<'_>,
) -> bool {
    let Some(frame) = Frame::new(g) else { return false };
    let (inputs, outputs, size) = (g.inputs(), g.outputs(), g.kernel.iter().product::<usize>());
    let planes = y.len() / outputs;
    let out = Shared::new(y);
    let chunk = chunk(outputs);
    for_tasks(planes.div_ceil(chunk), planes * outputs * size >= 1 << 15, |t| {
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        let mut taps = vec![0.0; size];
        for i in t * chunk..planes.min((t + 1) * chunk) {
            let channel = i % channels;
            taps.copy_from_slice(&w[channel * size..][..size]);
            if turned {
                taps.reverse();
            }
            frame.fill(&x[i * inputs..][..inputs], &mut framed);
            // SAFETY: tasks write different planes; the frame has room for every window.
            unsafe {
                plane(isa, &frame.shape, &framed, &taps, e, channel, i * outputs, out.ptr());
                e.call(i, 0..outputs, out.ptr().add(i * outputs));
            }
        }
    });
    true
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn plane_body<S: Simd>(
    s: &Shape,
    x: &[f32],
    w: &[f32],
    e: &Epilogue<'_>,
    channel: usize,
    at: usize,
    y: *mut f32,
) {
    for row in 0..s.output.0 {
        for first in (0..s.output.1).step_by(S::LANES) {
            let n = (s.output.1 - first).min(S::LANES);
            // SAFETY: the frame has a row for each kernel row, and two vectors behind its end.
            unsafe {
                let mut sum = S::zero();
                for kh in 0..s.kernel.0 {
                    let from = (row * s.stride.0 + kh * s.dilation.0) * s.width + first * s.stride.1;
                    for kw in 0..s.kernel.1 {
                        let p = x.as_ptr().add(from + kw * s.dilation.1);
                        let v =
                            if s.stride.1 == 1 { S::load(p) } else { S::evens(S::load(p), S::load(p.add(S::LANES))) };
                        sum = S::fma(v, S::splat(*w.get_unchecked(kh * s.kernel.1 + kw)), sum);
                    }
                }
                let to = at + row * s.output.1 + first;
                S::store_first(y.add(to), e.channel::<S>(sum, channel, to, n), n);
            }
        }
    }
}
dispatch!(unsafe fn plane = plane_body(s: &Shape, x: &[f32], w: &[f32], e: &Epilogue<'_>, channel: usize, at: usize, y: *mut f32));

/// The gradient for the kernels; `false` where there is no kernel for it.
pub(super) fn weight_grad(isa: Isa, g: &Geometry, channels: usize, x: &[f32], grad: &[f32], dw: &mut [f32]) -> bool {
    let Some(frame) = Frame::new(g) else { return false };
    let (inputs, outputs, size) = (g.inputs(), g.outputs(), g.kernel.iter().product::<usize>());
    let images = grad.len() / (channels * outputs).max(1);
    let out = Shared::new(dw);
    for_tasks(channels, grad.len() * size >= 1 << 15, |c| {
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        // SAFETY: tasks write the kernels of different channels.
        let dw = unsafe { std::slice::from_raw_parts_mut(out.ptr().add(c * size), size) };
        dw.fill(0.0);
        for image in 0..images {
            let i = image * channels + c;
            frame.fill(&x[i * inputs..][..inputs], &mut framed);
            // SAFETY: the frame has room for every window.
            unsafe { plane_weight(isa, &frame.shape, &framed, &grad[i * outputs..][..outputs], dw) };
        }
    });
    true
}

#[inline(always)]
unsafe fn plane_weight_body<S: Simd>(s: &Shape, x: &[f32], g: &[f32], dw: &mut [f32]) {
    for kh in 0..s.kernel.0 {
        for kw in 0..s.kernel.1 {
            // SAFETY: as above; gradients are read up to their row's end.
            unsafe {
                let mut sum = S::zero();
                for row in 0..s.output.0 {
                    let from = (row * s.stride.0 + kh * s.dilation.0) * s.width + kw * s.dilation.1;
                    for first in (0..s.output.1).step_by(S::LANES) {
                        let n = (s.output.1 - first).min(S::LANES);
                        let p = x.as_ptr().add(from + first * s.stride.1);
                        // Nothing behind the row is read: zeros of the gradient times a NaN there
                        // would be one.
                        let v = if s.stride.1 == 1 {
                            S::load_first(p, n)
                        } else {
                            let left = 2 * n - 1;
                            let second = left.saturating_sub(S::LANES);
                            S::evens(S::load_first(p, left.min(S::LANES)), S::load_first(p.add(S::LANES), second))
                        };
                        let d = S::load_first(g.as_ptr().add(row * s.output.1 + first), n);
                        sum = S::fma(v, d, sum);
                    }
                }
                dw[kh * s.kernel.1 + kw] += fold::<S>(sum, |a, b| a + b);
            }
        }
    }
}
dispatch!(unsafe fn plane_weight = plane_weight_body(s: &Shape, x: &[f32], g: &[f32], dw: &mut [f32]));
