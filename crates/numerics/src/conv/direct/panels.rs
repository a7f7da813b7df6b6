//! Convolution by windows where weights are many: tasks take panels of them, each packs its own, and goes through all
//! windows of several blocks with it while it is in the cache.

use super::Job;
use super::frame::{Blocks, Frame, fill};
use super::indexed::{count_panels, for_some_panels};
use super::pixels::{Classes, POSITIONS};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// More weights of a group than that leave the L2 cache between two blocks.
const MANY: usize = 1 << 17;

/// So many already pay where there are no more outputs than one block has.
const MANY_FOR_ONE: usize = 1 << 15;

/// Numbers of framed images, at most: each panel reads them all.
const FRAMED: usize = 1 << 22;

/// Outputs that a panel is packed for, about: packing takes a hundredth of their time.
const TOGETHER: usize = 512;

/// Blocks of a task, at most.
const MOST: usize = 8;

impl Job<'_> {
    /// `false` where weights are few, unless there is a single block (`one`) of outputs anyway.
    pub(super) fn by_panels(&self, isa: Isa, one: bool, parallel: bool) -> bool {
        let (g, depth, lanes) = (self.geometry, self.depth(), isa.lanes());
        let vectors = self.rows.div_ceil(lanes);
        let panels = count_panels(vectors);
        // Few panels are shared evenly by halves of the outputs.
        let half = (self.images * g.outputs()).div_ceil(2).clamp(64, POSITIONS);
        let blocks = Blocks::new(self.images, g.output, if self.groups * panels < 8 { half } else { POSITIONS });
        let frame = Frame::new(g, &blocks, self.channels);
        let (frames, weights) = (self.groups * blocks.count() * frame.len(), self.rows * depth);
        let many = weights > if self.images * g.outputs() <= POSITIONS { MANY_FOR_ONE } else { MANY };
        if !one && (!many || self.groups * panels < 3 || frames > FRAMED) {
            return false;
        }
        let (part, step) = (self.deep(), self.groups * self.channels * g.inputs());
        let kernel = depth / self.channels;
        let classes = Classes::new(&frame, g, &blocks, part);
        let mut framed = scratch::take(frames);
        let framed = Shared::new(&mut framed);
        let place = |group: usize, block: usize| (group * blocks.count() + block) * frame.len();
        let some = self.channels.div_ceil(16usize.div_ceil(blocks.count()));
        let parts = self.channels.div_ceil(some);
        for_tasks(self.groups * blocks.count() * parts, parallel, |t| {
            let (group, block, first) = (t / parts / blocks.count(), t / parts % blocks.count(), t % parts * some);
            let channels = group * self.channels + first..group * self.channels + self.channels.min(first + some);
            // SAFETY: tasks fill different channels of different frames.
            unsafe {
                let to = framed.ptr().add(place(group, block) + first * frame.channel);
                fill(isa, &frame, &blocks.get(block), self.x, step, channels, to);
            }
        });
        // At least 8 tasks where the work allows.
        let fewer = (blocks.count() / 8usize.div_ceil(self.groups * panels)).max(1);
        let together = (TOGETHER / blocks.get(0).len()).clamp(1, MOST).min(fewer);
        let heaps = self.groups * blocks.count().div_ceil(together);
        let some = panels.div_ceil(8usize.div_ceil(heaps).min(panels));
        let parts = panels.div_ceil(some);
        for_tasks(heaps * parts, parallel, |t| {
            // The last panels are the narrow ones, and so are the last heaps: threads, who take neighbouring tasks, get some of
            // each kind.
            let (heap, p) = (t % heaps, t / heaps);
            let p = if p % 2 == 0 { p / 2 } else { parts - 1 - p / 2 };
            let mine = p * some..(p + 1) * some;
            let (group, first) = (heap % self.groups, heap / self.groups * together);
            let mine_blocks = first..blocks.count().min(first + together);
            let windows: [_; MOST] = std::array::from_fn(|i| {
                let block = first + i;
                mine_blocks.contains(&block).then(|| classes.windows(&frame, &blocks.get(block)))
            });
            let done = for_some_panels(vectors, mine.clone(), |_, _| {});
            // Rows that do not fall on the same cache lines.
            let row = (done.len() * lanes).div_ceil(16) / 2 * 32 + 16;
            let start: [usize; MOST] = std::array::from_fn(|i| i * blocks.get(0).len() * row);
            let mut sums = scratch::take(mine_blocks.len() * blocks.get(0).len() * row);
            let mut packed = scratch::take(3 * lanes * part * kernel);
            for from in (0..self.channels).step_by(part) {
                let channels = from..self.channels.min(from + part);
                for_some_panels(vectors, mine.clone(), |vector, n| {
                    // SAFETY: the buffers have a row for each element of these channels and for each window of the blocks,
                    // none of which is larger than the first.
                    unsafe {
                        let b = packed.as_mut_ptr();
                        self.pack(isa, group, (vector, n), channels.start * kernel..channels.end * kernel, b);
                        for (i, windows) in windows.iter().enumerate() {
                            let Some(windows) = windows else { break };
                            let a = framed.ptr().add(place(group, first + i) + from * frame.channel);
                            let c = sums.as_mut_ptr().add(start[i] + (vector - done.start) * lanes);
                            classes.multiply(isa, windows, a, (b, n), (c, row), channels.len(), from > 0);
                        }
                    }
                });
            }
            let rows = done.start * lanes..self.rows.min(done.end * lanes);
            for (block, start) in mine_blocks.clone().zip(start) {
                // SAFETY: the buffer has a row for each window.
                unsafe { self.turn(isa, group, &blocks.get(block), rows.clone(), sums.as_ptr().add(start), row) };
            }
        });
        true
    }
}
