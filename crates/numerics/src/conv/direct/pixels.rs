//! Convolution by windows: a few output positions meet vectors of output channels, for all elements
//! of their patches, which are read where they lie in a padded copy of a part of the images.
//!
//! Weights are packed with the output channels in the lanes, once a call; the outputs of a block are
//! transposed when they are final.

use super::frame::{Block, Blocks, Frame, Places, Taps, fill, for_alike};
use super::indexed::{Indexed, count_panels, for_some_panels, indexed};
use super::{Job, Sink, pitch};
use crate::conv::patches::Geometry;
use crate::conv::turn::turn;
use crate::gemm::{Panel, pack_panel};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// Output positions of a block.
const POSITIONS: usize = 192;

/// The longest part of a sum that is taken at once: a panel of weights stays in the L2 cache.
const DEEP: usize = 512;

/// Outputs whose windows see the same elements of the kernel: what lies on zeros is left out.
#[derive(Clone, Default)]
struct Class {
    rows: Range<usize>,
    columns: Range<usize>,
    elements: Range<usize>,
}

/// The most classes that are told apart.
const CLASSES: usize = 64;

/// Fewer windows of a block than that are not worth a class of their own.
const ALIKE: usize = 4;

struct Classes {
    elements: Places,
    all: [Class; CLASSES],
    count: usize,
}

// SAFETY: read only, once made.
unsafe impl Sync for Classes {}

impl Classes {
    /// The classes of all outputs, with the elements of `channels` channels.
    fn new(frame: &Frame<'_>, g: &Geometry, blocks: &Blocks, channels: usize) -> Classes {
        let [kd, kh, kw] = g.kernel;
        let [images, block, _] = blocks.size;
        // Which (rows, columns, elements) there are; counted first, then kept.
        let each = |whole: bool, f: &mut dyn FnMut(Range<usize>, Range<usize>, Taps)| {
            let (rows, columns) = (0..g.output[1], 0..g.output[2]);
            if whole {
                return f(rows, columns, [0..kd, 0..kh, 0..kw]);
            }
            for_alike(g, 1, rows, |rows, down| {
                if images * rows.len().min(block) < ALIKE {
                    return f(rows, columns.clone(), [0..kd, down, 0..kw]);
                }
                for_alike(g, 2, columns.clone(), |columns, across| {
                    f(rows.clone(), columns, [0..kd, down.clone(), across]);
                });
            });
        };
        let mut count = 0;
        each(false, &mut |_, _, _| count += 1);
        let whole = count > CLASSES;
        let count = if whole { 1 } else { count };
        let mut elements = Places::new(count * channels * kd * kh * kw);
        let (mut all, mut i) = (std::array::from_fn(|_| Class::default()), 0);
        each(whole, &mut |rows, columns, taps| {
            let from = elements.len();
            frame.elements(channels, &taps, &mut elements);
            all[i] = Class { rows, columns, elements: from..elements.len() };
            i += 1;
        });
        Classes { elements, all, count }
    }

    fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all[..self.count].iter()
    }

    /// The windows of a block, class by class, and where each class ends.
    fn windows(&self, frame: &Frame<'_>, block: &Block) -> (Places, [usize; CLASSES]) {
        let both = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start)..a.end.min(b.end);
        let (mut windows, mut ends) = (Places::new(block.len()), [0; CLASSES]);
        for (class, end) in self.iter().zip(&mut ends) {
            let (rows, columns) = (both(&class.rows, &block.rows), both(&class.columns, &block.columns));
            frame.windows(block, rows, columns, &mut windows);
            *end = windows.len();
        }
        (windows, ends)
    }
}

impl Job<'_> {
    /// Cycles of a vector unit a position and output channel, about; `None` where
    /// [`Job::by_pixels`] cannot be used or has too few positions.
    pub(super) fn cost_by_pixels(&self, isa: Isa) -> Option<f64> {
        let g = self.geometry;
        let columns = self.images * g.outputs();
        // A stride beyond the kernel would frame what no window sees.
        let dense = (0..3).all(|d| g.params.stride[d] <= g.kernel[d]);
        let small = self.depth().checked_mul(POSITIONS * 4).is_some_and(|n| n < u32::MAX as usize);
        let padded = self.rows.next_multiple_of(isa.lanes()) as f64 / self.rows as f64;
        // The weights are packed, and the outputs transposed.
        let around = 0.25 * self.depth() as f64 / columns as f64 + 1.3;
        (dense && small && columns >= 48).then(|| padded * 1.03 * self.depth() as f64 / isa.lanes() as f64 + around)
    }

    /// Packs some rows of a panel of `n` vectors of a group's weights: one for each element of a
    /// patch, with the output channels in the lanes.
    ///
    /// # Safety
    ///
    /// There is room at `to`, used by nobody else.
    unsafe fn pack(&self, isa: Isa, group: usize, (vector, n): (usize, usize), elements: Range<usize>, to: *mut f32) {
        let (depth, lanes) = (self.depth(), isa.lanes());
        let columns = (self.rows - vector * lanes).min(n * lanes);
        let from = &self.weights[(group * self.rows + vector * lanes) * depth..][..columns * depth];
        let b = from[elements.start..].as_ptr();
        let panel = Panel { depth: elements.len(), columns, b, steps: (1, depth) };
        // SAFETY: the panel is inside the weights; the rest is the caller's promise.
        unsafe { pack_panel(isa, &panel, to, n * lanes) }
    }

    pub(super) fn by_pixels(&self, isa: Isa, parallel: bool) {
        let (g, depth, lanes) = (self.geometry, self.depth(), isa.lanes());
        let kernel = depth / self.channels;
        let row = self.rows.next_multiple_of(lanes);
        let vectors = row / lanes;
        // At least 8 tasks where the work allows: blocks, and parts of the output channels.
        let wanted = (self.images * g.outputs()).div_ceil(8).clamp(64, POSITIONS);
        let blocks = Blocks::new(self.images, g.output, wanted);
        let count = self.groups * blocks.count();
        let panels = count_panels(vectors);
        let some = panels.div_ceil(8usize.div_ceil(count).min(panels));
        let parts = panels.div_ceil(some);
        // Weights that serve several blocks are packed once, before.
        let shared = blocks.count() > 1;
        let mut weights = scratch::take(if shared { self.groups * row * depth } else { 0 });
        let weights = Shared::new(&mut weights);
        if shared {
            for_tasks(self.groups * panels, self.weights.len() >= 1 << 14, |t| {
                let (group, mine) = (t / panels, t % panels);
                for_some_panels(vectors, mine..mine + 1, |vector, n| {
                    // SAFETY: panels have places of their own.
                    unsafe {
                        let to = weights.ptr().add((group * row + vector * lanes) * depth);
                        self.pack(isa, group, (vector, n), 0..depth, to);
                    }
                });
            });
        }
        // Whole channels, in parts of equal length.
        let part = self.channels.div_ceil(depth.div_ceil(DEEP));
        // A single block is framed once, for all of its output channels.
        let frame = Frame::new(g, &blocks, if shared { part } else { self.channels });
        let classes = Classes::new(&frame, g, &blocks, part);
        let step = self.groups * self.channels * g.inputs();
        let mut whole = scratch::take(if shared { 0 } else { self.groups * frame.len() });
        let whole = Shared::new(&mut whole);
        if !shared {
            let some = self.channels.div_ceil(16);
            let parts = self.channels.div_ceil(some);
            for_tasks(self.groups * parts, parallel, |t| {
                let (group, first) = (t / parts, t % parts * some);
                let from = group * self.channels;
                // SAFETY: tasks fill different channels.
                unsafe {
                    let to = whole.ptr().add(group * frame.len() + first * frame.channel);
                    let channels = from + first..from + self.channels.min(first + some);
                    fill(isa, &frame, &blocks.get(0), self.x, step, channels, to);
                }
            });
        }
        for_tasks(count * parts, parallel, |t| {
            let (t, mine) = (t / parts, t % parts * some..(t % parts + 1) * some);
            let (group, block) = (t % self.groups, blocks.get(t / self.groups));
            let (windows, ends) = classes.windows(&frame, &block);
            let mut framed = scratch::take(if shared { frame.len() } else { 0 });
            let mut packed = scratch::take(if shared { 0 } else { 3 * lanes * part * kernel });
            let mut sums = scratch::take(block.len() * row);
            let mut done = 0..0;
            for first in (0..self.channels).step_by(part) {
                let channels = first..self.channels.min(first + part);
                let from = group * self.channels;
                let elements = channels.start * kernel..channels.end * kernel;
                // SAFETY: the frame has this length, and places in it are those of its windows; the
                // buffers have a row for each element and window.
                unsafe {
                    let (from, end) = (from + channels.start, from + channels.end);
                    let mut a = framed.as_mut_ptr();
                    if shared {
                        fill(isa, &frame, &block, self.x, step, from..end, a);
                    } else {
                        a = whole.ptr().add(group * frame.len() + first * frame.channel);
                    }
                    done = for_some_panels(vectors, mine.clone(), |vector, n| {
                        let mut b = weights.ptr().add((group * row + vector * lanes) * depth);
                        b = b.add(elements.start * n * lanes);
                        if !shared {
                            b = packed.as_mut_ptr();
                            self.pack(isa, group, (vector, n), elements.clone(), b);
                        }
                        let mut start = 0;
                        for (class, &end) in classes.iter().zip(&ends) {
                            let rows = &windows[start..end];
                            start = end;
                            let count = class.elements.len() / part * channels.len();
                            let p = Indexed {
                                a,
                                rows,
                                columns: &classes.elements[class.elements.clone()][..count],
                                b,
                                b_row: n * lanes,
                                c: sums.as_mut_ptr().add(vector * lanes),
                                c_row: row,
                                vectors: n,
                                add: first > 0,
                            };
                            indexed(isa, &p);
                        }
                    });
                }
            }
            let done = done.start * lanes..self.rows.min(done.end * lanes);
            self.turn(isa, group, &block, done, &sums, row);
        });
    }

    /// Transposes a block's sums of some output channels and writes them to their places.
    fn turn(&self, isa: Isa, group: usize, block: &Block, rows: Range<usize>, sums: &[f32], row: usize) {
        let (first, count) = (block.first(self.geometry), block.len());
        let positions = self.geometry.outputs();
        if let Sink::Planes { y, epilogue } = &self.sink
            && block.images.len() == 1
        {
            // Straight to the output.
            let channel = group * self.rows + rows.start;
            let (image, position) = (first / positions, first % positions);
            let plane = image * self.groups * self.rows + channel;
            // SAFETY: the block's rows lie inside the output, and tasks write different ones.
            unsafe {
                let to = y.ptr().add(plane * positions + position);
                turn(isa, count, rows.len(), sums.as_ptr().add(rows.start), row, to, positions);
                self.finish_rows(isa, channel, rows.len(), plane, position..position + count, y, epilogue);
            }
            return;
        }
        let step = pitch(count);
        let mut turned = scratch::take(16 * step);
        for from in rows.clone().step_by(16) {
            let channels = from..rows.end.min(from + 16);
            // SAFETY: the buffer has a row for each of the channels.
            unsafe { turn(isa, count, channels.len(), sums.as_ptr().add(from), row, turned.as_mut_ptr(), step) };
            self.write(isa, group, channels, first, count, &turned, step);
        }
    }
}
