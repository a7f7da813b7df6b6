//! Convolution by windows: a few output positions meet vectors of output channels, for all elements
//! of their patches, which are read where they lie in a padded copy of a part of the images.
//!
//! Weights are packed with the output channels in the lanes, once a call; the outputs of a block are
//! transposed when they are final.

use super::frame::{Block, Blocks, Frame, Places, Taps, fill, for_alike, taps};
use super::indexed::{Indexed, for_panels, indexed};
use super::weight::transpose;
use super::{Job, pitch};
use crate::conv::patches::Geometry;
use crate::gemm::{Panel, pack_panel};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// Output positions of a block.
const POSITIONS: usize = 192;

/// The longest part of a sum that is taken at once: a panel of weights stays in the L2 cache.
const DEEP: usize = 512;

/// Windows of a block that see the same elements of the kernel: what lies on zeros is left out.
#[derive(Clone, Default)]
struct Class {
    windows: Range<usize>,
    elements: Range<usize>,
}

/// The most classes that are told apart.
const CLASSES: usize = 48;

/// Fewer windows than that are not worth a class of their own.
const ALIKE: usize = 6;

struct Classes {
    windows: Places,
    elements: Places,
    all: [Class; CLASSES],
    count: usize,
}

impl Classes {
    /// The classes of a block, with the elements of `channels` channels.
    fn new(frame: &Frame<'_>, g: &Geometry, block: &Block, channels: usize) -> Classes {
        let patch = channels * g.kernel.iter().product::<usize>();
        let deep = taps(g, 0, block.depth);
        let (height, width) = (block.rows.clone(), block.columns.clone());
        let mut wide = 0;
        for_alike(g, 2, width.clone(), |_, _| wide += 1);
        // Which (rows, columns, elements) there are; counted first, then kept.
        let each = |f: &mut dyn FnMut(Range<usize>, Range<usize>, Taps)| {
            let mut high = 0;
            for_alike(g, 1, height.clone(), |_, _| high += 1);
            if high * wide > CLASSES {
                return f(height.clone(), width.clone(), [deep.clone(), 0..g.kernel[1], 0..g.kernel[2]]);
            }
            for_alike(g, 1, height.clone(), |rows, kh| {
                if block.images.len() * rows.len() < ALIKE {
                    return f(rows, width.clone(), [deep.clone(), kh, 0..g.kernel[2]]);
                }
                for_alike(g, 2, width.clone(), |columns, kw| f(rows.clone(), columns, [deep.clone(), kh.clone(), kw]));
            });
        };
        let mut count = 0;
        each(&mut |_, _, _| count += 1);
        let (mut windows, mut elements) = (Places::new(block.len()), Places::new(count * patch));
        let (mut all, mut i) = (std::array::from_fn(|_| Class::default()), 0);
        each(&mut |rows, columns, taps| {
            let (w, e) = (windows.len(), elements.len());
            frame.windows(block, rows, columns, &mut windows);
            frame.elements(channels, &taps, &mut elements);
            all[i] = Class { windows: w..windows.len(), elements: e..elements.len() };
            i += 1;
        });
        Classes { windows, elements, all, count }
    }

    fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all[..self.count].iter()
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
        let around = 0.25 * self.depth() as f64 / columns as f64 + 0.6;
        (dense && small && columns >= 48).then(|| padded * 1.03 * self.depth() as f64 / isa.lanes() as f64 + around)
    }

    /// Packs the weights: for each group and panel of output channels, a row for each element of a
    /// patch.
    fn pack(&self, isa: Isa, packed: &Shared<f32>) {
        let (depth, lanes) = (self.depth(), isa.lanes());
        let vectors = self.rows.div_ceil(lanes);
        let parallel = self.weights.len() >= 1 << 14;
        for_tasks(self.groups * vectors, parallel, |t| {
            let (group, vector) = (t / vectors, t % vectors);
            for_panels(vectors, |first, n| {
                if (first..first + n).contains(&vector) {
                    let columns = (self.rows - vector * lanes).min(lanes);
                    let from = &self.weights[(group * self.rows + vector * lanes) * depth..][..columns * depth];
                    let panel = Panel { depth, columns, b: from.as_ptr(), steps: (1, depth) };
                    let to = (group * vectors + first) * lanes * depth + (vector - first) * lanes;
                    // SAFETY: the panel is inside the weights, and its place inside the buffer.
                    unsafe { pack_panel(isa, &panel, packed.ptr().add(to), n * lanes) }
                }
            });
        });
    }

    pub(super) fn by_pixels(&self, isa: Isa, parallel: bool) {
        let (g, depth, lanes) = (self.geometry, self.depth(), isa.lanes());
        let kernel = depth / self.channels;
        let row = self.rows.next_multiple_of(lanes);
        let mut weights = scratch::take(self.groups * row * depth);
        let weights = Shared::new(&mut weights);
        self.pack(isa, &weights);
        let columns = self.images * g.outputs();
        // At least 16 blocks where the work allows.
        let wanted = columns.div_ceil(16).clamp(24, POSITIONS);
        let blocks = Blocks::new(self.images, g.output, wanted);
        // Whole channels, in parts of equal length.
        let part = self.channels.div_ceil(depth.div_ceil(DEEP));
        let frame = Frame::new(g, &blocks, part);
        for_tasks(self.groups * blocks.count(), parallel, |t| {
            let (group, block) = (t % self.groups, blocks.get(t / self.groups));
            let classes = Classes::new(&frame, g, &block, part);
            let mut framed = scratch::take(frame.len());
            let mut sums = scratch::take(block.len() * row);
            for first in (0..self.channels).step_by(part) {
                let channels = first..self.channels.min(first + part);
                let from = group * self.channels;
                let step = self.groups * self.channels * g.inputs();
                // SAFETY: the frame has this length, and places in it are those of its windows; the
                // buffers have a row for each element and window.
                unsafe {
                    fill(
                        isa,
                        &frame,
                        &block,
                        self.x,
                        step,
                        from + channels.start..from + channels.end,
                        framed.as_mut_ptr(),
                    );
                    for_panels(row / lanes, |vector, n| {
                        let panel = (group * row + vector * lanes) * depth + first * kernel * n * lanes;
                        for class in classes.iter() {
                            let elements = class.elements.len() / part * channels.len();
                            let p = Indexed {
                                a: framed.as_ptr(),
                                rows: &classes.windows[class.windows.clone()],
                                columns: &classes.elements[class.elements.clone()][..elements],
                                b: weights.ptr().add(panel),
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
            self.turn(isa, group, &block, &sums, row);
        });
    }

    /// Transposes a block's sums, some channels at a time, and writes them to their places.
    fn turn(&self, isa: Isa, group: usize, block: &Block, sums: &[f32], row: usize) {
        let (first, count) = (block.first(self.geometry), block.len());
        let step = pitch(count);
        let mut turned = scratch::take(16 * step);
        for from in (0..self.rows).step_by(16) {
            let channels = from..self.rows.min(from + 16);
            // SAFETY: the buffer has a row for each of the channels.
            unsafe {
                let sums = sums.as_ptr().add(from);
                transpose(isa, count, channels.len(), sums, row, turned.as_mut_ptr(), step);
            }
            self.write(isa, group, channels, first, count, &turned, step);
        }
    }
}
