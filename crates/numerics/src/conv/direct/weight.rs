//! The gradient for the weights: patches times gradients, over all positions.
//!
//! The product is taken as `patches @ gradients^T`, with the weights' gradient transposed at the
//! end: the patches then serve as they are gathered (or the input itself, for kernels of one
//! element), and what is transposed first is the smaller gradient.

use super::dots;
use super::pairs::Pairs;
use super::taps::Tables;
use crate::conv::Problem;
use crate::conv::turn::turn;
use crate::micro::{Product, product};
use crate::scratch::{self, Scratch};
use crate::simd::Isa;
use crate::tasks::{Own, Shared, for_tasks};
use smallvec::SmallVec;
use std::ops::Range;

/// Numbers of transposed gradient that a thread keeps at once.
const KEPT: usize = 1 << 19;

/// Parts of the sums where threads share positions.
pub(super) const PARTS: usize = 8;

/// Positions of all images that make it worth to add up the parts of more sums.
const LONG: usize = 1 << 11;

/// Tasks that write the weights of a group, about.
const WRITERS: usize = 8;

/// The gradient for the weights.
pub(in super::super) fn weight_grad(isa: Isa, p: &Problem, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let job = Job::new(p, x, grad);
    assert_eq!(dw.len(), p.groups * p.o * job.depth, "the weights' size");
    if dw.is_empty() || grad.is_empty() {
        return dw.fill(0.0);
    }
    if dots::pays(isa, p) {
        return dots::weight_grad(isa, p, x, grad, dw);
    }
    let dw = Shared::new(dw);
    // Few weights, or too few channels for all threads.
    let few = job.depth * job.row <= if p.n * p.outputs() >= LONG { 1 << 16 } else { 1 << 14 };
    if few || (p.c < 8 && p.n >= 4 && job.depth * job.row <= 1 << 18) {
        job.by_blocks(isa, &dw);
    } else {
        job.by_channels(isa, &dw);
    }
}

struct Job<'a> {
    p: &'a Problem,
    x: &'a [f32],
    grad: &'a [f32],
    /// Elements of a kernel, and of a patch.
    kernel: usize,
    depth: usize,
    positions: usize,
    /// A row of the sums and of the transposed gradient: output channels of a group, padded to an
    /// odd number of cache lines, so that rows do not fall on the same ones.
    row: usize,
}

impl<'a> Job<'a> {
    fn new(p: &'a Problem, x: &'a [f32], grad: &'a [f32]) -> Job<'a> {
        assert_eq!(x.len(), p.n * p.groups * p.c * p.geometry.inputs(), "the input's size");
        assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
        let kernel = p.patch(1);
        Job { p, x, grad, kernel, depth: p.c * kernel, positions: p.outputs(), row: (p.o.div_ceil(16) | 1) * 16 }
    }

    fn parallel(&self) -> bool {
        self.grad.len() * self.depth >= 1 << 16
    }

    /// Images that are taken together so that their gradients' transposes are about `kept` numbers.
    fn images(&self, kept: usize) -> usize {
        (kept / (self.positions * self.row).max(1)).clamp(1, self.p.n.max(1))
    }

    /// Some positions of the gradient of an image's group, transposed.
    ///
    /// # Safety
    ///
    /// `to` has a row of `row` numbers for each of the positions.
    unsafe fn transpose(&self, isa: Isa, image: usize, group: usize, positions: Range<usize>, to: *mut f32) {
        let size = self.p.o * self.positions;
        let from = &self.grad[(image * self.p.groups + group) * size..][..size];
        let from = from[positions.start..].as_ptr();
        // SAFETY: by the caller's promise.
        unsafe { turn(isa, self.p.o, positions.len(), from, self.positions, to, self.row) }
    }

    /// Adds the products of a block of an image to the sums of some channels of a group.
    ///
    /// # Safety
    ///
    /// `g` is what [`Job::transpose`] made of the block's positions; `sums` has a row for each kernel
    /// element of the channels, used by nobody else.
    #[allow(clippy::too_many_arguments)]
    unsafe fn add(
        &self,
        isa: Isa,
        image: usize,
        group: usize,
        channels: Range<usize>,
        block: &Part<'_>,
        g: *const f32,
        sums: *mut f32,
        add: bool,
    ) {
        let inputs = self.p.geometry.inputs();
        let from = (image * self.p.groups + group) * self.p.c;
        let x = &self.x[(from + channels.start) * inputs..(from + channels.end) * inputs];
        let vectors = self.p.o.div_ceil(isa.lanes());
        match block {
            Part::Positions(positions) => {
                let p = Product {
                    m: channels.len(),
                    n: (vectors * isa.lanes()).min(self.row),
                    k: positions.len(),
                    a: x[positions.start..].as_ptr(),
                    a_steps: (self.positions, 1),
                    b: g,
                    b_row: self.row,
                    c: sums,
                    c_row: self.row,
                    add,
                };
                // SAFETY: the caller's promise; the input's planes are the patches.
                unsafe { product(isa, &p) }
            }
            // SAFETY: the caller's promise.
            Part::Block(tables, i) => unsafe {
                tables.add(isa, *i, x, 0..channels.len(), g, sums, self.row, vectors, add)
            },
        }
    }

    /// Threads take channels; each goes through all images in order. The transposed gradients of some images at a time are
    /// each thread's own: to read them out of another core's cache takes longer than to transpose them once more.
    ///
    /// They write what they summed up, too: of sums that others write, half would come out of another core's cache.
    fn by_channels(&self, isa: Isa, dw: &Shared<f32>) {
        let p = self.p;
        let mut sums = scratch::take(p.groups * self.depth * self.row);
        let sums = Shared::new(&mut sums);
        let together = self.images(KEPT);
        let size = self.positions * self.row;
        // At least 8 tasks, of whole tiles of the kernel where there are many channels.
        let part = (256 / self.kernel).clamp(1, p.c.div_ceil(8).max(1));
        let parts = p.c.div_ceil(part);
        for first in (0..p.n).step_by(together) {
            let images = together.min(p.n - first);
            let own: Own<(usize, Blocks<'_>, Scratch)> = Own::default();
            for_tasks(p.groups * parts, self.parallel(), |t| {
                let (group, from) = (t / parts, t % parts * part);
                let channels = from..p.c.min(from + part);
                let (kept, blocks, g) = match own.take() {
                    Some(mine) if mine.0 == group => mine,
                    mine => {
                        let blocks = mine.map_or_else(|| Blocks::new(p, part), |(_, blocks, _)| blocks);
                        let mut g = scratch::take(images * size);
                        for i in 0..images {
                            // SAFETY: the buffer has a part for each image.
                            unsafe {
                                let to = g.as_mut_ptr().add(i * size);
                                self.transpose(isa, first + i, group, 0..self.positions, to);
                            }
                        }
                        (group, blocks, g)
                    }
                };
                // SAFETY: tasks add to the sums of different channels.
                unsafe {
                    let sums = sums.ptr().add((group * self.depth + from * self.kernel) * self.row);
                    for (i, b) in (0..images).flat_map(|i| (0..blocks.count).map(move |b| (i, b))) {
                        let block = blocks.get(b);
                        let g = g.as_ptr().add(i * size + block.positions().start * self.row);
                        self.add(isa, first + i, group, channels.clone(), &block, g, sums, first + i + b > 0);
                    }
                    if first + images == p.n {
                        self.write(isa, group, channels.start * self.kernel..channels.end * self.kernel, sums, dw);
                    }
                }
                own.keep((kept, blocks, g));
            });
        }
    }

    /// Writes the sums of some elements of a group's patches to their places.
    ///
    /// # Safety
    ///
    /// `sums` has a row for each of them, and nobody else writes their weights.
    unsafe fn write(&self, isa: Isa, group: usize, elements: Range<usize>, sums: *const f32, dw: &Shared<f32>) {
        // SAFETY: the caller's promise.
        unsafe {
            let to = dw.ptr().add(group * self.p.o * self.depth + elements.start);
            turn(isa, elements.len(), self.p.o, sums, self.row, to, self.depth);
        }
    }

    /// Few weights: threads take groups, and blocks of images, whose sums are added up by [`Pairs`].
    fn by_blocks(&self, isa: Isa, dw: &Shared<f32>) {
        let p = self.p;
        let (blocks, own) = (Blocks::new(p, p.c), Own::default());
        let count = p.n * blocks.count;
        own.keep(blocks);
        // At most that many tasks, or as many as groups, whatever the number of threads.
        let parts = PARTS.div_ceil(p.groups).min(count);
        let size = self.depth * self.row;
        let mut sums = scratch::take(parts * p.groups * size);
        let sums = Shared::new(&mut sums);
        let sums_of = |part: usize, group: usize| sums.ptr().wrapping_add((part * p.groups + group) * size);
        let pairs: SmallVec<[Pairs; 1]> = (0..p.groups).map(|_| Pairs::new(parts)).collect();
        for_tasks(parts * p.groups, self.parallel(), |t| {
            let (part, group) = (t / p.groups, t % p.groups);
            // Tables that another core made come out of its cache.
            let blocks = own.take().unwrap_or_else(|| Blocks::new(p, p.c));
            let mut g = scratch::take(blocks.most() * self.row);
            let first = count * part / parts;
            for i in first..count * (part + 1) / parts {
                let (image, block) = (i / blocks.count, blocks.get(i % blocks.count));
                // SAFETY: tasks have sums of their own.
                unsafe {
                    self.transpose(isa, image, group, block.positions(), g.as_mut_ptr());
                    self.add(isa, image, group, 0..p.c, &block, g.as_ptr(), sums_of(part, group), i > first);
                }
            }
            own.keep(blocks);
            pairs[group].done(part, |to, from| {
                // SAFETY: both are complete, and nobody else reads or writes them.
                let (to, from) = unsafe {
                    let to = std::slice::from_raw_parts_mut(sums_of(to, group), size);
                    (to, std::slice::from_raw_parts(sums_of(from, group), size))
                };
                to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
            });
        });
        let some = self.depth.div_ceil(WRITERS).next_multiple_of(16).min(self.depth);
        let writers = self.depth.div_ceil(some);
        for_tasks(p.groups * writers, self.parallel(), |t| {
            let (group, from) = (t / writers, t % writers * some);
            let elements = from..self.depth.min(from + some);
            let n = elements.len() * self.row;
            // SAFETY: the sums are complete, and tasks write different weights.
            unsafe {
                let first = sums_of(0, group).add(from * self.row);
                let Some(last) = pairs[group].last() else { return self.write(isa, group, elements, first, dw) };
                let last = std::slice::from_raw_parts(sums_of(last, group).add(from * self.row), n);
                let first = std::slice::from_raw_parts(first, n);
                let mut total = scratch::take(n);
                total.iter_mut().zip(first.iter().zip(last)).for_each(|(t, (a, b))| *t = a + b);
                self.write(isa, group, elements, total.as_ptr(), dw);
            }
        });
    }
}

/// Positions of a block where kernels have one element.
const POSITIONS: usize = 1 << 10;

/// An image's positions in blocks.
struct Blocks<'a> {
    tables: Option<Tables<'a>>,
    positions: usize,
    count: usize,
}

impl<'a> Blocks<'a> {
    /// For parts of up to `channels` channels.
    fn new(p: &'a Problem, channels: usize) -> Blocks<'a> {
        let tables = (!p.geometry.is_pointwise()).then(|| Tables::new(&p.geometry, channels));
        let count = tables.as_ref().map_or(p.outputs().div_ceil(POSITIONS), Tables::blocks);
        Blocks { tables, positions: p.outputs(), count }
    }

    fn get(&self, i: usize) -> Part<'_> {
        match &self.tables {
            Some(tables) => Part::Block(tables, i),
            None => Part::Positions(i * POSITIONS..self.positions.min((i + 1) * POSITIONS)),
        }
    }

    /// Positions of the longest.
    fn most(&self) -> usize {
        (0..self.count).map(|i| self.get(i).positions().len()).max().unwrap_or(0)
    }
}

/// One of them.
enum Part<'a> {
    /// Positions of the input itself.
    Positions(Range<usize>),
    /// Windows of a padded part.
    Block(&'a Tables<'a>, usize),
}

impl Part<'_> {
    fn positions(&self) -> Range<usize> {
        match self {
            Part::Positions(positions) => positions.clone(),
            Part::Block(tables, i) => tables.positions(*i),
        }
    }
}
