//! Convolution by windows where weights are many: tasks take some vectors of the output channels, pack the weights of
//! each panel of them themselves, and go through all windows of several blocks with it while it is in the cache.
//!
//! What a thread reads it has written itself, frames too: those of a heap of blocks are kept for its next task. To read
//! them out of another core's cache takes as long as the sums where cores have no cache in common.

use super::frame::{Blocks, Frame, fill};
use super::indexed::for_panels;
use super::pixels::{Classes, POSITIONS, Windows};
use super::{Job, indexed::count_panels};
use crate::scratch::{self, Scratch};
use crate::simd::Isa;
use crate::tasks::{Own, for_tasks};
use std::ops::Range;

/// More weights of a group than that leave the L2 cache between two blocks.
pub(super) const MANY: usize = 1 << 17;

/// So many already pay where there are no more outputs than one block has.
const MANY_FOR_ONE: usize = 1 << 15;

/// Numbers of framed images, at most: each panel reads them all.
pub(super) const FRAMED: usize = 1 << 22;

/// Outputs that a panel is packed for, about: packing takes a hundredth of their time.
const TOGETHER: usize = 512;

/// Blocks of a task, at most.
const MOST: usize = 8;

/// Tasks that the work is cut into, about.
const TASKS: usize = 8;

/// What is done with panels and blocks.
pub(super) trait Panelled: Sync {
    /// The windows of a block.
    type Windows: Send;
    fn windows(&self, block: usize) -> Self::Windows;

    /// Frames all channels of a block.
    ///
    /// # Safety
    ///
    /// There is room for a frame at `to`.
    unsafe fn fill(&self, isa: Isa, group: usize, block: usize, to: *mut f32);

    /// Packs a panel's weights (its first vector, and how many) of some channels: a row of vectors for each element.
    ///
    /// # Safety
    ///
    /// There is room for them at `to`.
    unsafe fn pack(&self, isa: Isa, group: usize, panel: (usize, usize), channels: Range<usize>, to: *mut f32);

    /// The sums of a block's windows over `channels` channels, for a panel `b` of weights: rows of `c`.
    ///
    /// # Safety
    ///
    /// `a` is a frame of that block from the first of these channels on, `b` is what was packed of them, and `c` has a row
    /// for each window.
    #[allow(clippy::too_many_arguments)]
    unsafe fn multiply(
        &self,
        isa: Isa,
        windows: &Self::Windows,
        a: *const f32,
        b: (*const f32, usize),
        c: (*mut f32, usize),
        channels: usize,
        add: bool,
    );

    /// Writes a block's sums of some output channels to their places.
    ///
    /// # Safety
    ///
    /// `sums` has a number for each of the channels in each of its rows, `row` apart, one for each window.
    unsafe fn finish(&self, isa: Isa, group: usize, block: usize, rows: Range<usize>, sums: *const f32, row: usize);
}

/// The sizes of what is done.
pub(super) struct Sizes {
    pub groups: usize,
    /// Blocks, and the windows of the largest of them.
    pub blocks: usize,
    pub windows: usize,
    /// Output channels of a group.
    pub rows: usize,
    /// Channels that sums go over, how many of them are taken at once, and the elements of each.
    pub channels: usize,
    pub part: usize,
    pub kernel: usize,
    /// Numbers of a frame, and from channel to channel of it.
    pub frame: usize,
    pub channel: usize,
}

/// The frames and windows of a heap of blocks.
struct Heap<W> {
    number: usize,
    frames: Scratch,
    windows: [Option<W>; MOST],
}

pub(super) fn run<P: Panelled>(isa: Isa, parallel: bool, s: &Sizes, job: &P) {
    let lanes = isa.lanes();
    let vectors = s.rows.div_ceil(lanes);
    let heaps = s.blocks.div_ceil((TOGETHER / s.windows.max(1)).clamp(1, MOST));
    let together = s.blocks.div_ceil(heaps);
    let heaps = s.blocks.div_ceil(together);
    // An even number of parts, so that two threads have as much to do.
    let all = s.groups * heaps;
    let parts = (vectors / 3).min(TASKS.div_ceil(all)).max(if all < 2 { 2 } else { 1 }).min(vectors);
    let parts = if parts > 1 { parts / 2 * 2 } else { 1 };
    let own = Own::default();
    for_tasks(all * parts, parallel, |t| {
        let (number, i) = (t / parts, t % parts);
        let (group, first) = (number % s.groups, number / s.groups * together);
        let blocks = first..s.blocks.min(first + together);
        let mine = vectors * i / parts..vectors * (i + 1) / parts;
        // Rows that do not fall on the same cache lines.
        let row = (mine.len() * lanes).div_ceil(16) / 2 * 32 + 16;
        let heap = own.take().filter(|h: &Heap<P::Windows>| h.number == number).unwrap_or_else(|| {
            let mut frames = scratch::take(blocks.len() * s.frame);
            for (i, block) in blocks.clone().enumerate() {
                // SAFETY: frames have places of their own.
                unsafe { job.fill(isa, group, block, frames.as_mut_ptr().add(i * s.frame)) };
            }
            let window = |i: usize| (i < blocks.len()).then(|| job.windows(first + i));
            Heap { number, frames, windows: std::array::from_fn(window) }
        });
        let mut sums = scratch::take(blocks.len() * s.windows * row);
        let mut packed = scratch::take(3 * lanes * s.part * s.kernel);
        for from in (0..s.channels).step_by(s.part) {
            let channels = from..s.channels.min(from + s.part);
            for_panels(mine.len(), |vector, n| {
                // SAFETY: the buffers have a row for each element of these channels and for each window of the blocks.
                unsafe {
                    let b = packed.as_mut_ptr();
                    job.pack(isa, group, (mine.start + vector, n), channels.clone(), b);
                    for (i, windows) in heap.windows.iter().enumerate() {
                        let Some(windows) = windows else { break };
                        let a = heap.frames.as_ptr().add(i * s.frame + from * s.channel);
                        let c = sums.as_mut_ptr().add(i * s.windows * row + vector * lanes);
                        job.multiply(isa, windows, a, (b, n), (c, row), channels.len(), from > 0);
                    }
                }
            });
        }
        let rows = mine.start * lanes..s.rows.min(mine.end * lanes);
        for (i, block) in blocks.enumerate() {
            // SAFETY: the buffer has a row for each window.
            unsafe {
                job.finish(isa, group, block, rows.clone(), sums.as_ptr().add(i * s.windows * row), row);
            }
        }
        own.keep(heap);
    });
}

/// The windows of a [`Job`] over panels.
struct Pixels<'a> {
    job: &'a Job<'a>,
    blocks: Blocks,
    frame: Frame<'a>,
    classes: Classes,
}

impl Panelled for Pixels<'_> {
    type Windows = Windows;

    fn windows(&self, block: usize) -> Windows {
        self.classes.windows(&self.frame, &self.blocks.get(block))
    }

    unsafe fn fill(&self, isa: Isa, group: usize, block: usize, to: *mut f32) {
        let job = self.job;
        let (step, from) = (job.groups * job.channels * job.geometry.inputs(), group * job.channels);
        // SAFETY: the caller's promise.
        unsafe { fill(isa, &self.frame, &self.blocks.get(block), job.x, step, from..from + job.channels, to) }
    }

    unsafe fn pack(&self, isa: Isa, group: usize, panel: (usize, usize), channels: Range<usize>, to: *mut f32) {
        let kernel = self.job.depth() / self.job.channels;
        // SAFETY: the caller's promise.
        unsafe { self.job.pack(isa, group, panel, channels.start * kernel..channels.end * kernel, to) }
    }

    unsafe fn multiply(
        &self,
        isa: Isa,
        windows: &Windows,
        a: *const f32,
        b: (*const f32, usize),
        c: (*mut f32, usize),
        channels: usize,
        add: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.classes.multiply(isa, windows, a, b, c, channels, add) }
    }

    unsafe fn finish(&self, isa: Isa, group: usize, block: usize, rows: Range<usize>, sums: *const f32, row: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.job.turn(isa, group, &self.blocks.get(block), rows, sums, row) }
    }
}

impl Job<'_> {
    /// `false` where weights are few, unless there is a single block (`one`) of outputs anyway.
    pub(super) fn by_panels(&self, isa: Isa, one: bool, parallel: bool) -> bool {
        let (g, depth) = (self.geometry, self.depth());
        let vectors = self.rows.div_ceil(isa.lanes());
        // Few vectors are shared evenly by halves of the outputs.
        let half = (self.images * g.outputs()).div_ceil(2).clamp(64, POSITIONS);
        let blocks = Blocks::of_slices(self.images, g.output, if self.groups * vectors < 6 { half } else { POSITIONS });
        let frame = Frame::new(g, &blocks, self.channels);
        let (frames, weights) = (self.groups * blocks.count() * frame.len(), self.rows * depth);
        let many = weights > if self.images * g.outputs() <= POSITIONS { MANY_FOR_ONE } else { MANY };
        if !one && (!many || self.groups * count_panels(vectors) < 3 || frames > FRAMED) {
            return false;
        }
        let part = self.deep();
        let sizes = Sizes {
            groups: self.groups,
            blocks: blocks.count(),
            windows: blocks.get(0).len(),
            rows: self.rows,
            channels: self.channels,
            part,
            kernel: depth / self.channels,
            frame: frame.len(),
            channel: frame.channel,
        };
        let classes = Classes::new(&frame, g, &blocks, part);
        run(isa, parallel, &sizes, &Pixels { job: self, blocks, frame, classes });
        true
    }
}
