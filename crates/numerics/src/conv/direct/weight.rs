//! The gradient for the weights: patches times gradients, over all positions.
//!
//! The product is taken as `patches @ gradients^T`, with the weights' gradient transposed at the
//! end: the patches then serve as they are gathered (or the input itself, for kernels of one
//! element), and what is transposed first is the smaller gradient.

use super::dots;
use super::taps::Tables;
use crate::conv::Problem;
use crate::conv::turn::turn;
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Own, Shared, for_tasks};
use std::ops::Range;

/// Numbers of transposed gradient that a thread keeps at once.
const KEPT: usize = 1 << 19;

/// Parts of the sums where threads share positions: all but the first are written by one thread and read by another.
const PARTS: usize = 8;

/// Positions of all images that make it worth to add up the parts of more sums.
const LONG: usize = 1 << 11;

/// Sums that are added up by a task.
const TOTAL: usize = 1 << 12;

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
    let (rows, parallel) = (p.groups * job.depth, job.parallel());
    let mut sums = scratch::take(rows * job.row);
    let shared = Shared::new(&mut sums);
    // Few weights, or too few channels for all threads.
    let few = job.depth * job.row <= if p.n * p.outputs() >= LONG { 1 << 16 } else { 1 << 14 };
    if few || (p.c < 8 && p.n >= 4 && job.depth * job.row <= 1 << 18) {
        job.by_blocks(isa, &shared);
    } else {
        job.by_channels(isa, &shared);
    }
    let dw = Shared::new(dw);
    for_tasks(p.groups * p.o.div_ceil(16), parallel, |t| {
        let (group, from) = (t / p.o.div_ceil(16), t % p.o.div_ceil(16) * 16);
        let count = 16.min(p.o - from);
        // SAFETY: tasks write the weights of different output channels.
        unsafe {
            let from_sums = shared.ptr().add(group * job.depth * job.row + from);
            let to = dw.ptr().add((group * p.o + from) * job.depth);
            turn(isa, job.depth, count, from_sums, job.row, to, job.depth);
        }
    });
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
    fn by_channels(&self, isa: Isa, sums: &Shared<f32>) {
        let p = self.p;
        let together = self.images(KEPT);
        let size = self.positions * self.row;
        // At least 8 tasks, of whole tiles of the kernel where there are many channels.
        let part = (256 / self.kernel).clamp(1, p.c.div_ceil(8).max(1));
        let parts = p.c.div_ceil(part);
        let blocks = Blocks::new(p, part);
        for first in (0..p.n).step_by(together) {
            let images = together.min(p.n - first);
            let own = Own::default();
            for_tasks(p.groups * parts, self.parallel(), |t| {
                let (group, from) = (t / parts, t % parts * part);
                let channels = from..p.c.min(from + part);
                let (kept, g) = own.take().filter(|(kept, _)| *kept == group).unwrap_or_else(|| {
                    let mut g = scratch::take(images * size);
                    for i in 0..images {
                        // SAFETY: the buffer has a part for each image.
                        unsafe {
                            let to = g.as_mut_ptr().add(i * size);
                            self.transpose(isa, first + i, group, 0..self.positions, to);
                        }
                    }
                    (group, g)
                });
                // SAFETY: tasks add to the sums of different channels.
                unsafe {
                    let sums = sums.ptr().add((group * self.depth + from * self.kernel) * self.row);
                    for (i, b) in (0..images).flat_map(|i| (0..blocks.count).map(move |b| (i, b))) {
                        let block = blocks.get(b);
                        let g = g.as_ptr().add(i * size + block.positions().start * self.row);
                        self.add(isa, first + i, group, channels.clone(), &block, g, sums, first + i + b > 0);
                    }
                }
                own.keep((kept, g));
            });
        }
    }

    /// Few weights: threads take groups, and blocks of images; the sums of these are added in order.
    fn by_blocks(&self, isa: Isa, sums: &Shared<f32>) {
        let p = self.p;
        let blocks = Blocks::new(p, p.c);
        let count = p.n * blocks.count;
        // At most that many tasks, or as many as groups, whatever the number of threads.
        let together = count.div_ceil(PARTS.div_ceil(p.groups)).max(1);
        let parts = count.div_ceil(together);
        let size = self.depth * self.row;
        // The first part's are the sums themselves.
        let mut partial = scratch::take((parts - 1) * p.groups * size);
        let partial = Shared::new(&mut partial);
        for_tasks(parts * p.groups, self.parallel(), |t| {
            let (part, group) = (t / p.groups, t % p.groups);
            let mut g = scratch::take(blocks.most() * self.row);
            for i in part * together..count.min((part + 1) * together) {
                let (image, block) = (i / blocks.count, blocks.get(i % blocks.count));
                // SAFETY: tasks have sums of their own.
                unsafe {
                    self.transpose(isa, image, group, block.positions(), g.as_mut_ptr());
                    let to = match part {
                        0 => sums.ptr().add(group * size),
                        _ => partial.ptr().add(((part - 1) * p.groups + group) * size),
                    };
                    self.add(isa, image, group, 0..p.c, &block, g.as_ptr(), to, i > part * together);
                }
            }
        });
        let cuts = size.div_ceil(TOTAL);
        for_tasks(p.groups * cuts, self.parallel() && parts > 1, |t| {
            let (group, from) = (t / cuts, t % cuts * TOTAL);
            let n = TOTAL.min(size - from);
            // SAFETY: the buffers have these sizes, and tasks take different sums.
            unsafe {
                let total = std::slice::from_raw_parts_mut(sums.ptr().add(group * size + from), n);
                for part in 1..parts {
                    let from = partial.ptr().add(((part - 1) * p.groups + group) * size + from);
                    let part = std::slice::from_raw_parts(from, n);
                    total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
                }
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
