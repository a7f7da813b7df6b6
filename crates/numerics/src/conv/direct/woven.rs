//! The gradient for the input of strided convolutions with positions in the lanes, for channels
//! that would fill no vectors: the residues of a row's positions are summed up one after the other
//! and woven together when they are written. Weights are read as they lie.

use super::frame::Places;
use super::grid::{Axis, grid};
use super::phases::{Phases, part};
use super::strips::{Strip, strip};
use super::{Job, Sink};
use crate::conv::Problem;
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Multiplications that make a task.
const WORK: usize = 1 << 17;

/// Numbers of sums that are kept before they are written.
const KEPT: usize = 1 << 13;

/// The gradient for the input; `false` where it cannot be had this way.
pub(in super::super) fn input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    let (g, kernel) = (&p.geometry, p.patch(1));
    let small = (p.o * p.c).checked_mul(kernel).is_some_and(|n| n < u32::MAX as usize);
    if g.params.stride[2] > 2 || p.o == 0 || p.c == 0 || !small {
        return false;
    }
    let Some((rows, columns, grid)) = grid(g) else { return false };
    assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
    assert_eq!(w.len(), p.groups * p.o * p.c * kernel, "the weights' size");
    assert_eq!(dx.len(), p.n * p.groups * p.c * g.inputs(), "the input's size");
    let sink = Sink::Planes { y: Shared::new(dx), epilogue: &Epilogue::default() };
    let (images, groups) = (p.n, p.groups);
    let job =
        Job { images, groups, channels: p.o, rows: p.c, geometry: &grid, x: grad, weights: w, turned: None, sink };
    // A frame of many channels would leave the cache.
    if job.channels * (grid.output[2] + grid.kernel[2]) * (grid.kernel[1] + 1) > 1 << 16 {
        return false;
    }
    job.by_residues(isa, &rows, &columns, kernel);
    true
}

impl Job<'_> {
    fn by_residues(&self, isa: Isa, down: &Axis, across: &Axis, kernel: usize) {
        let (Sink::Planes { y: dx, .. } | Sink::Spread { y: dx, .. }) = &self.sink;
        let (g, lanes) = (self.geometry, isa.lanes());
        let layout = self.layout(isa, false);
        let blocks = &layout.blocks;
        let phases = Phases::new(g, blocks, self.channels);
        let vectors = layout.places(phases.width, lanes);
        let vectors = &vectors[..];
        // The elements that each residue of rows, and in it of columns, sees; and where they end.
        let mut elements = Places::new(self.channels * kernel);
        let mut ends = Places::new(down.stride * across.stride);
        for (rh, rw) in (0..down.stride).flat_map(|h| (0..across.stride).map(move |w| (h, w))) {
            for c in 0..self.channels {
                for (kh, up) in down.elements(rh) {
                    for (kw, left) in across.elements(rw) {
                        let at = phases.element(c, 0, g.kernel[1] - 1 - up, g.kernel[2] - 1 - left);
                        elements.push(at, c * self.rows * kernel + kh * across.kernel + kw);
                    }
                }
            }
            ends.push(0, elements.len());
        }
        let (elements, ends) = (&elements[..], &ends[..]);
        let [_, rows, width] = blocks.size;
        let (inputs, pitch) = (down.input * across.input, layout.pitch(phases.width, lanes));
        let tasks = self.groups * blocks.count();
        let work = self.rows * self.channels * kernel * rows * width;
        let together = (WORK / work.max(1)).clamp(1, tasks.div_ceil(16).max(1));
        for_tasks(tasks.div_ceil(together), tasks * work >= 1 << 16, |t| {
            let mut framed = scratch::take(phases.len());
            let step = (rows * pitch).next_multiple_of(16) + 16;
            // Some channels at a time, so that their sums stay in the first cache.
            let some = (KEPT / (across.stride * step)).clamp(8, 64).min(self.rows);
            let mut sums = scratch::take(across.stride * some * step + 2 * lanes);
            for t in t * together..tasks.min((t + 1) * together) {
                let (group, block) = (t % self.groups, blocks.get(t / self.groups));
                let image = block.images.start * self.groups + group;
                let used = layout.used(block.rows.len(), phases.width, lanes);
                let mine = image * self.channels..(image + 1) * self.channels;
                // SAFETY: the buffers have these lengths; places are inside them, and tasks write
                // different rows.
                unsafe {
                    part(isa, &phases, &block, self.x, mine, framed.as_mut_ptr());
                    for from in (0..self.rows).step_by(some) {
                        let n = some.min(self.rows - from);
                        let weights = self.weights.as_ptr().add((group * self.channels * self.rows + from) * kernel);
                        for rh in 0..down.stride {
                            for rw in 0..across.stride {
                                let i = rh * across.stride + rw;
                                let first = if i == 0 { 0 } else { ends[i - 1].row as usize };
                                let s = Strip {
                                    channels: n,
                                    weights,
                                    weights_row: kernel,
                                    elements: &elements[first..ends[i].row as usize],
                                    x: framed.as_ptr(),
                                    vectors: &vectors[..used],
                                    y: sums.as_mut_ptr().add(rw * some * step),
                                    y_row: step,
                                };
                                strip(isa, &s);
                            }
                            for q in block.rows.clone() {
                                let Some(u) = down.position(q, rh) else { continue };
                                let from_row = sums.as_ptr().add((q - block.rows.start) * pitch);
                                let to = dx.ptr().add((image * self.rows + from) * inputs + u * across.input);
                                let rows = Woven {
                                    rows: n,
                                    columns: across.input,
                                    step: (step, inputs),
                                    other: some * step,
                                    stride: across.stride,
                                    first: across.pad % across.stride,
                                };
                                weave(isa, &rows, from_row, to);
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Rows of as many channels, each from the sums of one or two residues.
struct Woven {
    rows: usize,
    columns: usize,
    /// From channel to channel, in the sums and in the output.
    step: (usize, usize),
    /// From the sums of one residue to those of the other.
    other: usize,
    stride: usize,
    /// The residue of the first column.
    first: usize,
}

#[inline(always)]
unsafe fn weave_body<S: Simd>(w: &Woven, from: *const f32, to: *mut f32) {
    for r in 0..w.rows {
        // SAFETY: the caller gives sums for all columns, and room for them.
        unsafe {
            let (from, to) = (from.add(r * w.step.0), to.add(r * w.step.1));
            if w.stride == 1 {
                for i in (0..w.columns).step_by(S::LANES) {
                    let left = (w.columns - i).min(S::LANES);
                    S::store_first(to.add(i), S::load(from.add(i)), left);
                }
                continue;
            }
            // Starting with the second residue, the first one follows from the next place.
            let (a, b) = if w.first == 0 { (from, from.add(w.other)) } else { (from.add(w.other), from.add(1)) };
            for i in (0..w.columns).step_by(2 * S::LANES) {
                let left = w.columns - i;
                let [low, high] = S::interleave2(S::load(a.add(i / 2)), S::load(b.add(i / 2)));
                if left >= 2 * S::LANES {
                    S::store(to.add(i), low);
                    S::store(to.add(i + S::LANES), high);
                } else {
                    S::store_first(to.add(i), low, left.min(S::LANES));
                    S::store_first(to.wrapping_add(i + S::LANES), high, left.saturating_sub(S::LANES));
                }
            }
        }
    }
}
dispatch!(unsafe fn weave = weave_body(w: &Woven, from: *const f32, to: *mut f32));
