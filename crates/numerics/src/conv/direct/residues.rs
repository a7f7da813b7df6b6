//! The gradient for the input as convolutions with turned kernels: each residue of the positions
//! modulo the stride sees a kernel of its own (every second element of it, say) with unit stride, so
//! that every position is written once and nothing is added up in memory.

use super::turned::Turned;
use super::{Job, Sink, Way, spread, woven};
use crate::conv::patches::Geometry;
use crate::conv::{ConvParams, Problem, adjoint};
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// One axis of the gradient for the input, for one residue of its (padded) positions.
#[derive(Clone, Copy)]
struct Part {
    /// The kernel's elements: `from + step * j` for `j < taps`, of which the last comes first.
    from: usize,
    step: usize,
    taps: usize,
    dilation: usize,
    pad: usize,
    /// The first position, and how many there are.
    first: usize,
    count: usize,
}

impl Part {
    /// `None` where this method cannot be used: padding beyond the kernel.
    fn new(g: &Geometry, d: usize, residue: usize) -> Option<Part> {
        let (s, dilation, kernel) = (g.params.stride[d], g.params.dilation[d], g.kernel[d]);
        let pad = g.params.padding[d].0;
        let taps = kernel.saturating_sub(residue).div_ceil(s);
        // Padded positions s * u + residue that are inside the input.
        let low = pad.saturating_sub(residue).div_ceil(s);
        let high = (pad + g.input[d]).saturating_sub(residue).div_ceil(s);
        let count = high.saturating_sub(low);
        let reach = (taps.max(1) - 1) * dilation;
        let first = (s * low + residue).checked_sub(pad)?;
        Some(Part { from: residue, step: s, taps, dilation, pad: reach.checked_sub(low)?, first, count })
    }
}

/// The gradient for the input; `false` where it cannot be had this way.
pub(in super::super) fn input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    let g = &p.geometry;
    let stride = g.params.stride;
    let (outputs, strided) = (p.n * p.outputs(), stride != [1; 3]);
    // Products that add to the gradient are faster for few outputs, or where channels do not fill vectors.
    if outputs < if p.c < 32 { 256 } else { 48 } {
        return false;
    }
    // With few channels to write or few columns, packing the weights anew costs more than it saves.
    let few = adjoint::is_few(p);
    if strided && !few && spread::input_grad(isa, p, grad, w, dx) {
        return true;
    }
    // A residue's few taps cost as much to pack as all of them.
    if strided && w.len() > 1 << 16 && outputs < 256 {
        return false;
    }
    if strided && woven::input_grad(isa, p, grad, w, dx) {
        return true;
    }
    if few {
        return false;
    }
    if (0..3).any(|d| stride[d] > 1 && g.params.dilation[d] > 1) {
        return false;
    }
    let mut jobs = Vec::new();
    for residue in crate::conv::patches::kernel_elements(stride) {
        let parts = [0, 1, 2].map(|d| Part::new(g, d, residue[d]));
        let [Some(a), Some(b), Some(c)] = parts else { return false };
        jobs.push([a, b, c]);
    }
    assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
    assert_eq!(dx.len(), p.n * p.groups * p.c * g.inputs(), "the input's size");
    if jobs.iter().any(|parts| parts.iter().any(|p| p.taps == 0)) {
        dx.fill(0.0);
    }
    let kernel: usize = g.kernel.iter().product();
    let no_epilogue = Epilogue::default();
    for parts in jobs {
        let taps = parts.map(|p| p.taps);
        let (size, outputs) = (taps.iter().product::<usize>(), parts.map(|p| p.count));
        if size == 0 || outputs.contains(&0) {
            continue;
        }
        let depth = p.o * size;
        let offsets: Vec<usize> = crate::conv::patches::kernel_elements(taps)
            .map(|j| [0, 1, 2].map(|d| parts[d].from + parts[d].step * (taps[d] - 1 - j[d])))
            .map(|k| (k[0] * g.kernel[1] + k[1]) * g.kernel[2] + k[2])
            .collect();
        let params = ConvParams {
            stride: [1; 3],
            padding: parts.map(|p| (p.pad, 0)),
            dilation: parts.map(|p| p.dilation),
            groups: p.groups,
        };
        let geometry = Geometry { input: g.output, kernel: taps, output: outputs, params };
        let y = Shared::new(dx);
        let sink = if stride == [1; 3] {
            Sink::Planes { y, epilogue: &no_epilogue }
        } else {
            Sink::Spread { y, size: g.input, first: parts.map(|p| p.first), stride }
        };
        let (images, groups) = (p.n, p.groups);
        let turned = Some(Turned { size: kernel, taps: &offsets });
        let mut job =
            Job { images, groups, channels: p.o, rows: p.c, geometry: &geometry, x: grad, weights: w, turned, sink };
        if kernel == 1 && job.is_direct(isa) {
            job.run(isa);
            continue;
        }
        if p.n * p.o * p.c > 0 && matches!(job.way(isa), Way::Pixels) {
            job.by_pixels(isa, images * geometry.outputs() * groups * p.c * depth >= 1 << 16);
            continue;
        }
        // Weights of this residue: rows are input channels, turned kernels of each output channel.
        let mut weights = scratch::take(p.groups * p.c * depth);
        let packed = Shared::new(&mut weights);
        // Some input channels at a time: what is read then are whole lines, and what is written are few streams.
        let some = 16.min(p.c);
        let heaps = p.c.div_ceil(some);
        for_tasks(p.groups * heaps, p.groups * p.c * depth >= 1 << 14, |t| {
            let (group, first) = (t / heaps, t % heaps * some);
            for o in 0..p.o {
                for c in first..p.c.min(first + some) {
                    let from = &w[((group * p.o + o) * p.c + c) * kernel..][..kernel];
                    // SAFETY: tasks write different rows.
                    let to = unsafe {
                        let to = packed.ptr().add((group * p.c + c) * depth + o * size);
                        std::slice::from_raw_parts_mut(to, size)
                    };
                    to.iter_mut().zip(&offsets).for_each(|(to, &k)| *to = from[k]);
                }
            }
        });
        (job.weights, job.turned) = (&weights, None);
        job.run(isa);
    }
    true
}
