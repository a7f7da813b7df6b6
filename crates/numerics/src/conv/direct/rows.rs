//! Convolution with output positions in the lanes, for few output channels or short sums: inputs
//! are read as vectors from a padded copy, weights are spread as they lie.
//!
//! A vector holds neighbours of one row; or, where rows are short, neighbours of the padded plane,
//! of which those between two rows are left out at the end.

use super::frame::{Blocks, Places, reach};
use super::phases::{Phases, part};
use super::strips::{Strip, strip};
use super::{Job, Sink};
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::for_tasks;

/// Numbers of a padded part of an image.
const PART: usize = 1 << 15;

/// Positions of a row that are taken together, at most.
const LONG: usize = 512;

/// Multiplications that make a task.
const WORK: usize = 1 << 17;

/// How the outputs of a block lie in vectors.
pub(super) struct Layout {
    pub(super) blocks: Blocks,
    /// Whether vectors go on from row to row.
    flat: bool,
    /// Vectors of a whole block.
    vectors: usize,
}

impl Layout {
    /// Whether a block's padded part of the images stays in the cache, long as the sums may be.
    pub(super) fn fits(&self, job: &Job<'_>) -> bool {
        let g = job.geometry;
        let [_, rows, columns] = self.blocks.size;
        job.channels * g.kernel[0] * reach(g, 1, rows) * reach(g, 2, columns) <= PART
    }

    /// The distance of rows of sums until they are written, which lie `padded` apart in the input.
    pub(super) fn pitch(&self, padded: usize, lanes: usize) -> usize {
        if self.flat { padded } else { self.blocks.size[2].next_multiple_of(lanes) }
    }

    /// The vectors of a whole block: where their inputs are, and where their sums go.
    pub(super) fn places(&self, padded: usize, lanes: usize) -> Places {
        let [_, rows, width] = self.blocks.size;
        let pitch = self.pitch(padded, lanes);
        let mut vectors = Places::new(self.vectors);
        if self.flat {
            (0..self.vectors).for_each(|v| vectors.push(v * lanes, v * lanes));
        } else {
            for row in 0..rows {
                for first in (0..width).step_by(lanes) {
                    vectors.push(row * padded + first, row * pitch + first);
                }
            }
        }
        vectors
    }

    /// How many of them the first rows of a block take.
    pub(super) fn used(&self, rows: usize, padded: usize, lanes: usize) -> usize {
        Layout::row_vectors(rows, self.blocks.size[2], padded, lanes, self.flat)
    }

    fn row_vectors(rows: usize, width: usize, padded: usize, lanes: usize, flat: bool) -> usize {
        if flat { ((rows - 1) * padded + width).div_ceil(lanes) } else { rows * width.div_ceil(lanes) }
    }
}

impl Job<'_> {
    /// How the outputs would lie; `cut` says whether a block may be a part of a row.
    pub(super) fn layout(&self, isa: Isa, cut: bool) -> Layout {
        let (g, lanes) = (self.geometry, isa.lanes());
        let [_, sh, sw] = g.params.stride;
        // A plane's width in a padded part, of which there are `sh * sw` of a channel.
        let padded = (g.output[2] - 1) + ((g.kernel[2] - 1) * g.params.dilation[2]) / sw + 1;
        let row = self.channels * g.kernel[0] * sh * sw * padded;
        let above = (g.kernel[1] - 1) * g.params.dilation[1] / sh;
        let rows = (PART / row.max(1)).saturating_sub(above).clamp(1, g.output[1]);
        // At least 8 blocks where the work allows.
        let wanted = 8usize.div_ceil(self.images * self.groups).min((g.outputs() / 128).max(1));
        let rows = rows.min(g.output[1].div_ceil(wanted));
        let mut blocks = Blocks::of_rows(self.images, g.output, rows);
        let rows = blocks.size[1];
        if rows == 1 && cut {
            // Sequences: parts of a row, of which the sums of some channels stay in the first cache.
            let few = 8usize.div_ceil(self.groups * blocks.count()).min((g.output[2] / 128).max(1));
            blocks = Blocks::of_columns(self.images, g.output, g.output[2].div_ceil(few).min(LONG), lanes);
        }
        let width = blocks.size[2];
        let padded = padded - g.output[2] + width;
        let count = |flat| Layout::row_vectors(rows, width, padded, lanes, flat);
        let flat = count(true) < count(false);
        Layout { blocks, flat, vectors: count(flat) }
    }

    /// Cycles of a vector unit a position and output channel, about.
    pub(super) fn cost_by_rows(&self, layout: &Layout) -> f64 {
        let positions = (layout.blocks.size[1] * layout.blocks.size[2]) as f64;
        let vectors = layout.vectors as f64 / positions;
        // Fewer rows share what is read; sums are written once, or twice.
        let reads = 1.03 + 0.5 / self.rows.min(8) as f64;
        vectors * (self.depth() as f64 * reads + if layout.flat { 7.0 } else { 5.0 })
    }

    pub(super) fn by_rows(&self, isa: Isa, layout: &Layout, parallel: bool) {
        let (g, depth, lanes) = (self.geometry, self.depth(), isa.lanes());
        let blocks = &layout.blocks;
        let phases = Phases::new(g, blocks, self.channels);
        let mut elements = Places::new(depth);
        phases.elements(&mut elements);
        // Rows are kept `pitch` apart until they are written.
        let [_, rows, width] = blocks.size;
        let pitch = layout.pitch(phases.width, lanes);
        let vectors = layout.places(phases.width, lanes);
        let (elements, vectors) = (&elements[..], &vectors[..]);
        let channels = self.groups * self.rows;
        let positions = g.outputs();
        let tasks = self.groups * blocks.count();
        let together = (WORK / (self.rows * depth * rows * width).max(1)).clamp(1, tasks.div_ceil(16).max(1));
        for_tasks(tasks.div_ceil(together), parallel, |t| {
            let mut framed = scratch::take(phases.len());
            // Some channels at a time, so that their sums stay in the first cache.
            let some = (4096 / (rows * pitch)).clamp(8, 64).min(self.rows);
            let step = (rows * pitch).next_multiple_of(16) + 16;
            let mut sums = scratch::take(some * step + lanes);
            for t in t * together..tasks.min((t + 1) * together) {
                let (group, block) = (t % self.groups, blocks.get(t / self.groups));
                let image = block.images.start;
                let (first, count) = (block.first(g) - image * positions, block.len());
                let high = block.rows.len();
                let used = layout.used(high, phases.width, lanes);
                let from = (image * self.groups + group) * self.channels;
                // SAFETY: the buffers have these lengths; places are inside them, and tasks write
                // different outputs.
                unsafe {
                    part(isa, &phases, &block, self.x, from..from + self.channels, framed.as_mut_ptr());
                    for from in (0..self.rows).step_by(some) {
                        let n = some.min(self.rows - from);
                        let channel = group * self.rows + from;
                        let s = Strip {
                            channels: n,
                            weights: self.weights.as_ptr().add(channel * depth),
                            weights_row: depth,
                            elements,
                            x: framed.as_ptr(),
                            vectors: &vectors[..used],
                            y: sums.as_mut_ptr(),
                            y_row: step,
                        };
                        strip(isa, &s);
                        match &self.sink {
                            Sink::Planes { y, epilogue } => {
                                for c in channel..channel + n {
                                    let plane = image * channels + c;
                                    let at = plane * positions + first;
                                    let sums = sums.as_ptr().add((c - channel) * step);
                                    let width = block.columns.len();
                                    let to = Rows { at, rows: high, width, pitch };
                                    write_rows(isa, epilogue, c, sums, &to, y.ptr());
                                    epilogue.call(plane, first..first + count, y.ptr().add(at));
                                }
                            }
                            Sink::Spread { .. } => {
                                // Without what lies between the rows.
                                for c in 0..n {
                                    for r in 0..high {
                                        let from = c * step + r * pitch;
                                        sums.copy_within(from..from + width, c * step + r * width);
                                    }
                                }
                                self.write(isa, group, from..from + n, block.first(g), count, &sums, step);
                            }
                        }
                    }
                }
            }
        });
    }
}

/// Rows of an output plane.
struct Rows {
    at: usize,
    rows: usize,
    width: usize,
    /// The distance of the rows before they are written.
    pitch: usize,
}

/// Writes rows of one channel through the epilogue.
#[inline(always)]
unsafe fn write_rows_body<S: Simd>(e: &Epilogue<'_>, channel: usize, from: *const f32, to: &Rows, y: *mut f32) {
    for r in 0..to.rows {
        for i in (0..to.width).step_by(S::LANES) {
            let left = (to.width - i).min(S::LANES);
            let at = to.at + r * to.width + i;
            // SAFETY: the caller gives rows of whole vectors, and room for the outputs.
            unsafe {
                let v = e.channel::<S>(S::load(from.add(r * to.pitch + i)), channel, at, left);
                if left == S::LANES {
                    S::store(y.add(at), v);
                } else {
                    S::store_first(y.add(at), v, left);
                }
            }
        }
    }
}
dispatch!(unsafe fn write_rows = write_rows_body(e: &Epilogue<'_>, channel: usize, from: *const f32, to: &Rows, y: *mut f32));
