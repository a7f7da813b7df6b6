//! Depthwise convolution of `f32` planes by vectors.
//!
//! A plane is copied with its zeros around it, so that no window needs a case of its own; then
//! every vector of outputs is summed up in a register. Of deeper arrays, the planes that an output plane sees are
//! copied row by row in turn: their kernel is then one of as many rows more, in one plane.

mod rows;
mod taps;

use super::super::patches::Geometry;
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use rows::{Out, plane};
use taps::{fold_all, plane_weight};

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

impl Shape {
    /// Whether windows are squares of neighbours, and follow one another.
    fn is_square(&self) -> bool {
        self.kernel.0 == self.kernel.1 && self.stride == (1, 1) && self.dilation == (1, 1)
    }
}

/// A plane with zeros around it.
struct Frame {
    shape: Shape,
    input: (usize, usize),
    pad: (usize, usize),
    /// The distance of the plane's elements in the frame: zeros lie between them.
    spread: (usize, usize),
    /// Planes whose rows take turns.
    deep: usize,
    len: usize,
}

impl Frame {
    /// For strides that vectors can read; rows that take turns must be neighbours in the kernel.
    fn new(g: &Geometry, spread: (usize, usize)) -> Option<Frame> {
        let (p, deep) = (&g.params, g.kernel[0]);
        if p.stride[2] > 2 || deep == 0 || deep > 1 && p.dilation[1] != 1 {
            return None;
        }
        let output = (g.output[1], g.output[2]);
        let rows = ((output.0 - 1) * p.stride[1] + (g.kernel[1] - 1) * p.dilation[1] + 1) * deep;
        let width = (output.1 - 1) * p.stride[2] + (g.kernel[2] - 1) * p.dilation[2] + 1;
        let kernel = (g.kernel[1] * deep, g.kernel[2]);
        let (stride, dilation) = ((p.stride[1] * deep, p.stride[2]), (p.dilation[1], p.dilation[2]));
        let shape = Shape { width, kernel, stride, dilation, output };
        // Vectors read up to twice their length beyond the last column.
        Some(Frame {
            shape,
            input: (g.input[1], g.input[2]),
            pad: (p.padding[1].0, p.padding[2].0),
            spread,
            deep,
            len: rows * width + 48,
        })
    }

    /// Copies the planes that output plane `depth` sees into the frame, whose border is zero.
    fn fill_deep(&self, isa: Isa, g: &Geometry, x: &[f32], depth: usize, zeros: &[f32], frame: &mut [f32]) {
        let plane = self.input.0 * self.input.1;
        for turn in 0..self.deep {
            match g.source(0, depth, turn) {
                Some(at) => self.fill(isa, &x[at * plane..][..plane], self.input.1, turn, frame),
                // What the plane before left there.
                None => self.fill(isa, zeros, 0, turn, frame),
            }
        }
    }

    /// Copies a plane of rows `row` apart into the frame, whose border is zero, where those of this turn are.
    fn fill(&self, isa: Isa, x: &[f32], row: usize, turn: usize, frame: &mut [f32]) {
        let rows = (self.len - 48) / self.shape.width / self.deep;
        // As many as have a place in the frame.
        let fit = |room: usize, n: usize, spread: usize| n.min(room.div_ceil(spread));
        let n = fit(self.shape.width.saturating_sub(self.pad.1), self.input.1, self.spread.1);
        let rows = fit(rows.saturating_sub(self.pad.0), self.input.0, self.spread.0);
        assert!(x.len() >= rows.saturating_sub(1) * row + n && frame.len() >= self.len, "the frame holds the plane");
        let first = (self.pad.0 * self.deep + turn) * self.shape.width + self.pad.1;
        let step = self.spread.0 * self.deep * self.shape.width;
        // SAFETY: the last row and column that fit are inside the frame.
        unsafe { copy_rows(isa, rows, n, (x.as_ptr(), row), (frame.as_mut_ptr().add(first), step), self.spread.1) }
    }
}

/// The elements of a kernel by rows that take turns: `[depth, rows, columns]` becomes `[rows, depth, columns]`.
fn in_turns(g: &Geometry, w: &[f32], turned: bool, to: &mut [f32]) {
    let [deep, high, wide] = g.kernel;
    for (i, to) in to.chunks_exact_mut(wide.max(1)).enumerate() {
        let (h, d) = (i / deep, i % deep);
        let from = |d: usize, h: usize| &w[(d * high + h) * wide..][..wide];
        if turned {
            to.iter_mut().zip(from(deep - 1 - d, high - 1 - h).iter().rev()).for_each(|(t, w)| *t = *w);
        } else {
            to.copy_from_slice(from(d, h));
        }
    }
}

/// Copies rows to a frame, `spread` apart.
#[inline(always)]
unsafe fn copy_rows_body<S: Simd>(
    rows: usize,
    n: usize,
    (x, from): (*const f32, usize),
    (y, to): (*mut f32, usize),
    spread: usize,
) {
    for r in 0..rows {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (x.add(r * from), y.add(r * to));
            if spread == 1 {
                let mut i = 0;
                while i + S::LANES <= n {
                    S::store(y.add(i), S::load(x.add(i)));
                    i += S::LANES;
                }
                if i < n {
                    S::store_first(y.add(i), S::load_first(x.add(i), n - i), n - i);
                }
            } else if spread == 2 {
                for i in (0..n).step_by(S::LANES) {
                    let left = (n - i).min(S::LANES);
                    // The last has no zero behind it.
                    let all = 2 * left - 1;
                    let [a, b] = S::interleave2(S::load_first(x.add(i), left), S::zero());
                    S::store_first(y.add(2 * i), a, all.min(S::LANES));
                    if all > S::LANES {
                        S::store_first(y.add(2 * i + S::LANES), b, all - S::LANES);
                    }
                }
            } else {
                for i in 0..n {
                    *y.add(i * spread) = *x.add(i);
                }
            }
        }
    }
}
dispatch!(unsafe fn copy_rows = copy_rows_body(rows: usize, n: usize, from: (*const f32, usize), to: (*mut f32, usize), spread: usize));

/// Planes of a task, whatever the number of threads.
fn chunk(plane: usize) -> usize {
    ((1 << 13) / plane.max(1)).max(1)
}

/// The convolution of every plane with its kernel; `false` where there is no kernel for it. `turned`
/// takes the kernels from the last element to the first; `spread` puts zeros between the elements
/// of `x`.
#[allow(clippy::too_many_arguments)]
pub(super) fn forward(
    isa: Isa,
    g: &Geometry,
    channels: usize,
    x: &[f32],
    w: &[f32],
    turned: bool,
    spread: (usize, usize),
    y: &mut [f32],
    e: &Epilogue<'_>,
) -> bool {
    let Some(frame) = Frame::new(g, spread) else { return false };
    let (inputs, depths, size) = (g.inputs(), g.output[0], g.kernel.iter().product::<usize>());
    let outputs = g.output[1] * g.output[2];
    let planes = y.len() / outputs;
    let out = Shared::new(y);
    let chunk = chunk(outputs);
    for_tasks(planes.div_ceil(chunk), planes * outputs * size >= 1 << 15, |t| {
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        let mut taps = scratch::take(size + frame.input.1);
        taps.fill(0.0);
        let (taps, zeros) = taps.split_at_mut(size);
        for i in t * chunk..planes.min((t + 1) * chunk) {
            let (image, depth) = (i / depths, i % depths);
            let channel = image % channels;
            in_turns(g, &w[channel * size..][..size], turned, taps);
            frame.fill_deep(isa, g, &x[image * inputs..][..inputs], depth, zeros, &mut framed);
            // SAFETY: tasks write different planes; the frame has room for every window.
            unsafe {
                let to = Out { y: out.ptr(), at: i * outputs, channel, epilogue: e };
                plane(isa, &frame.shape, &framed, taps, &to);
                e.call(image, depth * outputs..(depth + 1) * outputs, out.ptr().add(i * outputs));
            }
        }
    });
    true
}

/// The gradient for the kernels; `false` where there is no kernel for it.
pub(super) fn weight_grad(isa: Isa, g: &Geometry, channels: usize, x: &[f32], grad: &[f32], dw: &mut [f32]) -> bool {
    // Planes by themselves, whichever others a window sees.
    let flat = |s: [usize; 3]| [1, s[1], s[2]];
    let one = Geometry { input: flat(g.input), kernel: flat(g.kernel), output: flat(g.output), params: g.params };
    let Some(frame) = Frame::new(&one, (1, 1)) else { return false };
    let (inputs, outputs, size) = (g.inputs(), g.outputs(), g.kernel.iter().product::<usize>());
    let one_size = g.kernel[1] * g.kernel[2];
    let images = grad.len() / (channels * outputs).max(1);
    // Channels that lie side by side, and at least 16 tasks where there are as many images: the same sums for any number
    // of threads.
    let lanes = isa.lanes();
    let together = (SUMS / (size * lanes).max(1)).clamp(1, 16);
    let blocks = channels.div_ceil(together);
    let some = images.div_ceil(16usize.div_ceil(blocks)).max(1);
    let parts = images.div_ceil(some).max(1);
    let mut partial = scratch::take(parts * dw.len());
    let out = Shared::new(&mut partial);
    for_tasks(blocks * parts, grad.len() * size >= 1 << 15, |t| {
        let (part, first) = (t / blocks, t % blocks * together);
        let n = together.min(channels - first);
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        // A vector of sums for each element of the kernels, over these images in order.
        let mut sums = scratch::take(n * size * lanes);
        sums.fill(0.0);
        for image in part * some..images.min((part + 1) * some) {
            for c in 0..n {
                let i = image * channels + first + c;
                let sums = &mut sums[c * size * lanes..][..size * lanes];
                let [x, dy] = [&x[i * inputs..][..inputs], &grad[i * outputs..][..outputs]];
                for (d, x) in x.chunks_exact(one.inputs().max(1)).enumerate() {
                    frame.fill(isa, x, frame.input.1, 0, &mut framed);
                    // The output planes that see it, and by which of the kernel's.
                    let pairs = (0..g.kernel[0]).flat_map(|k| (0..g.output[0]).map(move |o| (k, o)));
                    for (k, o) in pairs.filter(|&(k, o)| g.source(0, o, k) == Some(d)) {
                        let (dy, sums) = (&dy[o * one.outputs()..], &mut sums[k * one_size * lanes..]);
                        // SAFETY: the frame has room for every window, and there are as many sums as elements.
                        unsafe {
                            plane_weight(isa, &frame.shape, &framed, &dy[..one.outputs()], sums.as_mut_ptr());
                        }
                    }
                }
            }
        }
        // SAFETY: tasks write the kernels of different channels or parts.
        unsafe {
            let at = (part * channels + first) * size;
            fold_all(isa, &sums, std::slice::from_raw_parts_mut(out.ptr().add(at), n * size));
        }
    });
    dw.copy_from_slice(&partial[..dw.len()]);
    for part in partial[..parts * dw.len()].chunks_exact(dw.len().max(1)).skip(1) {
        dw.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
    true
}

/// Sums that a task keeps: they stay in the first cache.
const SUMS: usize = 1 << 12;
