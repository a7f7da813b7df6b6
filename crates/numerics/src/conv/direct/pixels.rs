//! Convolution by windows: a few output positions meet vectors of output channels, for all elements
//! of their patches, which are read where they lie in a padded copy of a part of the images.
//!
//! Weights are packed with the output channels in the lanes, once a call, or by those who need them where they are
//! many ([`panels`](super::panels)); the outputs of a block are transposed when they are final.

use super::frame::{Block, Blocks, Frame, Places, Taps, fill, for_alike};
use super::indexed::{Indexed, count_panels, for_some_panels, indexed};
use super::{Job, Sink, pitch};
use crate::conv::patches::Geometry;
use crate::conv::turn::turn;
use crate::gemm::{Panel, pack_panel};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Own, Shared, for_tasks};
use std::ops::Range;

/// Output positions of a block.
pub(super) const POSITIONS: usize = 192;

/// Fewer windows are gathered.
const FEWEST: usize = 8;

/// Weights that each thread packs for itself: in less time than half of them take from another core's cache where cores have no
/// cache in common.
const ALONE: usize = 1 << 15;

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

pub(super) struct Classes {
    /// Those of every stretch of slices that see the same elements along the depth, and where the stretch ends.
    sets: Vec<(usize, Set)>,
    /// Channels whose elements there are.
    channels: usize,
}

/// The classes of some slices.
struct Set {
    elements: Places,
    all: [Class; CLASSES],
    count: usize,
}

/// The windows of a block, and where those of each class end.
pub(super) struct Windows {
    places: Places,
    ends: [usize; CLASSES],
    set: usize,
}

// SAFETY: read only, once made.
unsafe impl Sync for Classes {}

impl Set {
    /// The classes of outputs that see the elements `deep` along the depth, with those of `channels` channels.
    fn new(frame: &Frame<'_>, g: &Geometry, blocks: &Blocks, deep: Range<usize>, channels: usize) -> Set {
        let [_, kh, kw] = g.kernel;
        let [images, block, _] = blocks.size;
        // Which (rows, columns, elements) there are; counted first, then kept.
        let each = |whole: bool, f: &mut dyn FnMut(Range<usize>, Range<usize>, Taps)| {
            let (rows, columns) = (0..g.output[1], 0..g.output[2]);
            if whole {
                return f(rows, columns, [deep.clone(), 0..kh, 0..kw]);
            }
            for_alike(g, 1, rows, |rows, down| {
                if images * rows.len().min(block) < ALIKE {
                    return f(rows, columns.clone(), [deep.clone(), down, 0..kw]);
                }
                for_alike(g, 2, columns.clone(), |columns, across| {
                    f(rows.clone(), columns, [deep.clone(), down.clone(), across]);
                });
            });
        };
        let mut count = 0;
        each(false, &mut |_, _, _| count += 1);
        let whole = count > CLASSES;
        let count = if whole { 1 } else { count };
        let mut elements = Places::new(count * channels * deep.len() * kh * kw);
        let (mut all, mut i) = (std::array::from_fn(|_| Class::default()), 0);
        each(whole, &mut |rows, columns, taps| {
            let from = elements.len();
            frame.elements(channels, &taps, &mut elements);
            all[i] = Class { rows, columns, elements: from..elements.len() };
            i += 1;
        });
        Set { elements, all, count }
    }

    fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all[..self.count].iter()
    }
}

impl Classes {
    /// The classes of all outputs, with the elements of `channels` channels.
    pub(super) fn new(frame: &Frame<'_>, g: &Geometry, blocks: &Blocks, channels: usize) -> Classes {
        let mut sets = Vec::with_capacity(1);
        // A cube of 5 with kernels of 5 sees a quarter of their slices on zeros.
        for_alike(g, 0, 0..g.output[0], |slices, deep| {
            sets.push((slices.end, Set::new(frame, g, blocks, deep, channels)));
        });
        Classes { sets, channels }
    }

    /// The windows of a block, class by class.
    pub(super) fn windows(&self, frame: &Frame<'_>, block: &Block) -> Windows {
        let both = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start)..a.end.min(b.end);
        let (mut windows, mut ends) = (Places::new(block.len()), [0; CLASSES]);
        let set = self.sets.iter().position(|&(end, _)| block.depth < end).unwrap_or(0);
        for (class, end) in self.sets[set].1.iter().zip(&mut ends) {
            let (rows, columns) = (both(&class.rows, &block.rows), both(&class.columns, &block.columns));
            frame.windows(block, rows, columns, &mut windows);
            *end = windows.len();
        }
        Windows { places: windows, ends, set }
    }

    /// The sums of a block's windows over `channels` channels, for a panel `b` of weights: rows of `c`.
    ///
    /// # Safety
    ///
    /// `a` is a frame of that block, `b` has a row of that many vectors for each element of the channels, and `c` has one
    /// for each window, used by nobody else.
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn multiply(
        &self,
        isa: Isa,
        windows: &Windows,
        a: *const f32,
        (b, vectors): (*const f32, usize),
        (c, c_row): (*mut f32, usize),
        channels: usize,
        add: bool,
    ) {
        let (mut start, set) = (0, &self.sets[windows.set].1);
        for (class, &end) in set.iter().zip(&windows.ends) {
            let rows = &windows.places[start..end];
            start = end;
            let count = class.elements.len() / self.channels * channels;
            let columns = &set.elements[class.elements.clone()][..count];
            let p = Indexed { a, rows, columns, b, b_row: vectors * isa.lanes(), c, c_row, vectors, add };
            // SAFETY: the caller's promise.
            unsafe { indexed(isa, &p) };
        }
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
        // Few columns are gathered faster where a patch is a column as it lies, or where there are many weights to pack for them.
        let gathered = columns < 48 && g.is_pointwise() || columns < 24 && self.rows > 256;
        (dense && small && columns >= FEWEST && !gathered)
            .then(|| padded * 1.03 * self.depth() as f64 / isa.lanes() as f64 + around)
    }

    /// Packs some rows of a panel of `n` vectors of a group's weights: one for each element of a
    /// patch, with the output channels in the lanes.
    ///
    /// # Safety
    ///
    /// There is room at `to`, used by nobody else.
    pub(super) unsafe fn pack(
        &self,
        isa: Isa,
        group: usize,
        (vector, n): (usize, usize),
        elements: Range<usize>,
        to: *mut f32,
    ) {
        let (depth, lanes) = (self.depth(), isa.lanes());
        let columns = (self.rows - vector * lanes).min(n * lanes);
        if let Some(turned) = self.turned {
            // SAFETY: as below.
            return unsafe {
                self.pack_turned(
                    isa,
                    turned,
                    group,
                    vector * lanes..vector * lanes + columns,
                    elements,
                    (to, n * lanes),
                )
            };
        }
        let from = &self.weights[(group * self.rows + vector * lanes) * depth..][..columns * depth];
        let b = from[elements.start..].as_ptr();
        let panel = Panel { depth: elements.len(), columns, b, steps: (1, depth) };
        // SAFETY: the panel is inside the weights; the rest is the caller's promise.
        unsafe { pack_panel(isa, &panel, to, n * lanes) }
    }

    pub(super) fn by_pixels(&self, isa: Isa, parallel: bool) {
        let columns = self.images * self.geometry.outputs();
        // At least 8 tasks where the work allows: blocks, and parts of the output channels.
        let blocks = Blocks::of_slices(self.images, self.geometry.output, columns.div_ceil(8).clamp(64, POSITIONS));
        if !self.by_panels(isa, blocks.count() == 1, parallel) {
            self.by_blocks(isa, &blocks, parallel);
        }
    }

    /// Tasks take blocks of outputs, and read weights that were packed before, all of them.
    fn by_blocks(&self, isa: Isa, blocks: &Blocks, parallel: bool) {
        let (g, depth, lanes) = (self.geometry, self.depth(), isa.lanes());
        let kernel = depth / self.channels;
        let row = self.rows.next_multiple_of(lanes);
        let vectors = row / lanes;
        let count = self.groups * blocks.count();
        let panels = count_panels(vectors);
        let some = panels.div_ceil(8usize.div_ceil(count).min(panels));
        let parts = panels.div_ceil(some);
        let pack = |weights: *mut f32, group: usize, some: Range<usize>| {
            for_some_panels(vectors, some, |vector, n| {
                // SAFETY: panels have places of their own.
                unsafe {
                    let to = weights.add((group * row + vector * lanes) * depth);
                    self.pack(isa, group, (vector, n), 0..depth, to);
                }
            });
        };
        // Few are packed by each thread for itself.
        let (size, alone) = (self.groups * row * depth, self.weights.len() <= ALONE);
        let mut weights = scratch::take(if alone { 0 } else { size });
        let weights = Shared::new(&mut weights);
        if !alone {
            for_tasks(self.groups * panels, true, |t| pack(weights.ptr(), t / panels, t % panels..t % panels + 1));
        }
        let part = self.deep();
        let frame = Frame::new(g, blocks, part);
        // Tables too are each thread's own: it takes as long to make them as to read what another core wrote.
        let own = Own::default();
        let step = self.groups * self.channels * g.inputs();
        for_tasks(count * parts, parallel, |t| {
            let (t, mine) = (t / parts, t % parts * some..(t % parts + 1) * some);
            let (group, block) = (t % self.groups, blocks.get(t / self.groups));
            let kept = own.take().unwrap_or_else(|| {
                let mut mine = scratch::take(if alone { size } else { 0 });
                let some = if alone { 0..self.groups } else { 0..0 };
                some.for_each(|group| pack(mine.as_mut_ptr(), group, 0..panels));
                (mine, Classes::new(&frame, g, blocks, part))
            });
            let (weights, classes) = (if alone { kept.0.as_ptr() } else { weights.ptr().cast_const() }, &kept.1);
            let windows = classes.windows(&frame, &block);
            let mut framed = scratch::take(frame.len());
            let mut sums = scratch::take(block.len() * row);
            let mut done = 0..0;
            for first in (0..self.channels).step_by(part) {
                let channels = first..self.channels.min(first + part);
                let from = group * self.channels;
                // SAFETY: the frame has this length, and places in it are those of its windows; the
                // buffers have a row for each element and window.
                unsafe {
                    let a = framed.as_mut_ptr();
                    fill(isa, &frame, &block, self.x, step, from + channels.start..from + channels.end, a);
                    done = for_some_panels(vectors, mine.clone(), |vector, n| {
                        let b = weights.add((group * row + vector * lanes) * depth);
                        let b = b.add(channels.start * kernel * n * lanes);
                        let c = (sums.as_mut_ptr().add(vector * lanes), row);
                        classes.multiply(isa, &windows, a, (b, n), c, channels.len(), first > 0);
                    });
                }
            }
            let done = done.start * lanes..self.rows.min(done.end * lanes);
            // SAFETY: the buffer has a row for each window.
            unsafe { self.turn(isa, group, &block, done.clone(), sums.as_ptr().add(done.start), row) };
            own.keep(kept);
        });
    }

    /// Channels of a part of the sum: whole ones, in parts of equal length.
    pub(super) fn deep(&self) -> usize {
        self.channels.div_ceil(self.depth().div_ceil(DEEP))
    }

    /// Transposes a block's sums of some output channels and writes them to their places.
    ///
    /// # Safety
    ///
    /// `sums` has a number for each of these channels in each of its rows, `row` apart, and there is a row for each
    /// output of the block.
    pub(super) unsafe fn turn(
        &self,
        isa: Isa,
        group: usize,
        block: &Block,
        rows: Range<usize>,
        sums: *const f32,
        row: usize,
    ) {
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
                turn(isa, count, rows.len(), sums, row, to, positions);
                self.finish_rows(isa, channel, rows.len(), plane, position..position + count, y, epilogue);
            }
            return;
        }
        let step = pitch(count);
        let mut turned = scratch::take(16 * step);
        for from in rows.clone().step_by(16) {
            let channels = from..rows.end.min(from + 16);
            // SAFETY: the buffer has a row for each of the channels.
            unsafe {
                let sums = sums.add(from - rows.start);
                turn(isa, count, channels.len(), sums, row, turned.as_mut_ptr(), step);
            }
            // Slices of several images are not neighbours.
            let (parts, apart) = if self.geometry.output[0] > 1 { (block.images.len(), positions) } else { (1, 0) };
            let count = count / parts;
            for i in 0..parts {
                let turned = &turned[i * count..];
                self.write(isa, group, channels.clone(), first + i * apart, count, turned, step);
            }
        }
    }
}
