//! Convolutions of types other than `f32`, as matrix products over unrolled patches, in blocks of fixed size: a part of an image's
//! output positions, or all of several images where they are few. A product of a few columns costs mostly what it takes to begin.

use super::patches::Runs;
use super::{Problem, Room, few};
use crate::element::Real;
use crate::gemm::{Dims, Layout, Operand, Out, product_into};
use smallvec::SmallVec;
use std::ops::Range;

/// Elements of an unrolled block of patches; a block of `f32` stays within the L2 cache.
const BLOCK: usize = 1 << 16;

/// Images of fewer output positions are taken together.
const FEW: usize = 128;

/// Blocks that there should be for threads to share.
const SHARES: usize = 8;

/// How output positions are cut into blocks.
pub(super) struct Blocks {
    /// Positions of an image, and those of a block of it.
    positions: usize,
    block: usize,
    /// Blocks of an image, or images of a block.
    cuts: usize,
    together: usize,
    /// Blocks of all images.
    count: usize,
    images: usize,
    runs: SmallVec<[Runs; 1]>,
}

/// One of them.
struct Block<'a> {
    images: Range<usize>,
    /// Positions of each image, and the first of them.
    first: usize,
    count: usize,
    runs: &'a Runs,
}

impl Blocks {
    /// For patches of which `rows` elements are unrolled at once; as many blocks as threads share, unless they share something else
    /// (`whole`).
    pub(super) fn new(p: &Problem, rows: usize, whole: bool) -> Blocks {
        let positions = p.outputs();
        let most = (BLOCK / rows.max(1)).clamp(64, 1 << 14);
        let shared = if whole { p.n } else { (p.n * p.groups).div_ceil(SHARES) }.clamp(1, p.n.max(1));
        let together = if positions < FEW { (most.max(FEW) / positions).clamp(1, shared) } else { 1 };
        let block = most.min(positions);
        let block = if together > 1 { positions } else { block };
        let cuts = positions.div_ceil(block);
        let runs = (0..cuts).map(|i| {
            let first = i * block;
            Runs::new(&p.geometry, first, block.min(positions - first), block * together)
        });
        let count = p.n.div_ceil(together) * cuts;
        Blocks { positions, block, cuts, together, count, images: p.n, runs: runs.collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// From one row of an unrolled block to the next.
    pub(super) fn pitch(&self) -> usize {
        self.block * self.together
    }

    fn get(&self, i: usize) -> Block<'_> {
        let (span, cut) = (i / self.cuts, i % self.cuts);
        let first = cut * self.block;
        Block {
            images: span * self.together..self.images.min((span + 1) * self.together),
            first,
            count: self.block.min(self.positions - first),
            runs: &self.runs[cut],
        }
    }

    /// The patches of some channels of a group in block `i` as a matrix, which lies in `room` or where it always has.
    pub(super) fn patches<'a, T: Real>(
        &self,
        p: &Problem,
        (i, group, channels): (usize, usize, Range<usize>),
        x: &'a [T],
        room: &'a mut [T],
    ) -> (Operand<'a, T>, usize) {
        let b = self.get(i);
        let inputs = p.geometry.inputs();
        let some = |image: usize| ((image * p.groups + group) * p.c + channels.start) * inputs;
        if p.geometry.is_pointwise() && self.together == 1 {
            let at = some(b.images.start);
            return (
                Operand::new(&x[at..at + channels.len() * inputs], Layout::row_major(inputs).at(b.first)),
                b.count,
            );
        }
        let room = &mut room[..channels.len() * p.patch(1) * self.pitch()];
        b.runs.clear(room);
        for (at, image) in b.images.clone().enumerate() {
            b.runs.gather(&x[some(image)..][..channels.len() * inputs], &mut room[at * b.count..]);
        }
        (Operand::new(&*room, Layout::row_major(self.pitch())), b.images.len() * b.count)
    }

    /// The output's channels of a group in block `i` as a matrix, in the same way.
    pub(super) fn outputs<'a, T: Real>(
        &self,
        p: &Problem,
        (i, group): (usize, usize),
        y: &'a [T],
        room: &'a mut [T],
    ) -> Operand<'a, T> {
        let b = self.get(i);
        let some = |image: usize| (image * p.groups + group) * p.o * self.positions;
        if self.together == 1 {
            let y = &y[some(b.images.start)..][..p.o * self.positions];
            return Operand::new(y, Layout::row_major(self.positions).at(b.first));
        }
        for (at, image) in b.images.clone().enumerate() {
            let rows = y[some(image)..][..p.o * self.positions].chunks_exact(self.positions);
            for (row, to) in rows.zip(room.chunks_mut(self.pitch())) {
                to[at * self.positions..][..self.positions].copy_from_slice(row);
            }
        }
        Operand::new(&*room, Layout::row_major(self.pitch()))
    }

    /// Elements of the room that [`Blocks::patches`] of so many rows, and [`Blocks::outputs`], need.
    pub(super) fn room(&self, p: &Problem, rows: usize) -> (usize, usize) {
        let together = self.together > 1;
        let patches = if p.geometry.is_pointwise() && !together { 0 } else { rows * self.pitch() };
        (patches, if together { p.o * self.pitch() } else { 0 })
    }
}

/// Runs tasks `0..count` of about `work` multiplications each, over threads if it pays; a single
/// task may use threads itself.
fn for_tasks(count: usize, work: usize, task: impl Fn(usize, bool) + Sync) {
    if count > 1 && count.saturating_mul(work) >= 1 << 19 {
        let together = ((1 << 17) / work.max(1)).max(1);
        crate::tasks::for_tasks(count.div_ceil(together), true, |t| {
            (t * together..count.min((t + 1) * together)).for_each(|t| task(t, false));
        });
    } else {
        (0..count).for_each(|t| task(t, true));
    }
}

/// The convolution of a problem that is not empty.
pub(super) fn forward<T: Real>(p: &Problem, input: &[T], weight: &[T], output: &mut [T]) {
    let patch = p.patch(p.c);
    let blocks = Blocks::new(p, patch, false);
    let positions = p.outputs();
    let out = Out::new(output);
    let task = |t: usize, parallel: bool| {
        let (group, i) = (t % p.groups, t / p.groups);
        let (columns, sums) = blocks.room(p, patch);
        let (mut columns, mut sums) = (Room::new(columns), Room::new(sums));
        let (b, sums) = (blocks.get(i), sums.numbers());
        let (x, count) = blocks.patches(p, (i, group, 0..p.c), input, columns.numbers());
        let w = Operand::new(&weight[group * p.o * patch..][..p.o * patch], Layout::row_major(patch));
        let d = Dims::new(p.o, count, patch);
        let at = |image: usize| (image * p.groups + group) * p.o * positions;
        // SAFETY: tasks write different images, groups or positions of the output, which is
        // borrowed exclusively for this call.
        unsafe {
            if blocks.together == 1 {
                let lc = Layout::row_major(positions).at(at(b.images.start) + b.first);
                return product_into(d, T::ONE, w, x, T::ZERO, &out, lc, parallel);
            }
            product_into(d, T::ONE, w, x, T::ZERO, &Out::new(sums), Layout::row_major(blocks.pitch()), parallel);
            for (k, image) in b.images.clone().enumerate() {
                let rows = out.part(at(image), p.o * positions).chunks_exact_mut(positions);
                for (to, from) in rows.zip(sums.chunks(blocks.pitch())) {
                    to.copy_from_slice(&from[k * positions..][..positions]);
                }
            }
        }
    };
    for_tasks(blocks.count() * p.groups, p.o * patch * blocks.pitch(), task);
}

/// The gradient for the input of a problem that is not empty.
pub(super) fn input_grad<T: Real>(p: &Problem, grad: &[T], weight: &[T], input_grad: &mut [T]) {
    if few::pays(p) {
        return few::input_grad(p, grad, weight, input_grad);
    }
    let (patch, inputs, kernel) = (p.patch(p.c), p.geometry.inputs(), p.patch(1));
    let blocks = Blocks::new(p, patch, false);
    let spans = blocks.count() / blocks.cuts;
    // Tasks take images, or some channels of them where they are few: at least 16 of them, if each has rows enough.
    let some = p.c.div_ceil(16usize.div_ceil(spans * p.groups)).max(64usize.div_ceil(kernel)).min(p.c);
    let parts = p.c.div_ceil(some);
    let out = Out::new(input_grad);
    let task = |t: usize, parallel: bool| {
        let (from, group, span) = (t % parts * some, t / parts % p.groups, t / parts / p.groups);
        let channels = some.min(p.c - from);
        let rows = channels * kernel;
        let w = Layout::row_major(patch).at(group * p.o * patch + from * kernel).transposed();
        let w = Operand::new(weight, w);
        let place = |image: usize| ((image * p.groups + group) * p.c + from) * inputs;
        let (mut sums, mut columns) = (Room::new(blocks.room(p, 0).1), Room::new(rows * blocks.pitch()));
        let (sums, columns) = (sums.numbers(), columns.numbers());
        if !(p.geometry.is_pointwise() && blocks.together == 1) {
            for image in blocks.get(span * blocks.cuts).images.clone() {
                // SAFETY: as below.
                unsafe { out.part(place(image), channels * inputs) }.fill(T::ZERO);
            }
        }
        for i in span * blocks.cuts..(span + 1) * blocks.cuts {
            let b = blocks.get(i);
            let d = Dims::new(rows, b.images.len() * b.count, p.o);
            let g = blocks.outputs(p, (i, group), grad, sums);
            // SAFETY: tasks write different channels of the gradient, which is borrowed exclusively for this call, and have blocks
            // of their own.
            unsafe {
                if p.geometry.is_pointwise() && blocks.together == 1 {
                    let lc = Layout::row_major(inputs).at(place(b.images.start) + b.first);
                    product_into(d, T::ONE, w, g, T::ZERO, &out, lc, parallel);
                    continue;
                }
                product_into(d, T::ONE, w, g, T::ZERO, &Out::new(columns), Layout::row_major(blocks.pitch()), parallel);
                for (at, image) in b.images.clone().enumerate() {
                    b.runs.scatter(&columns[at * b.count..], out.part(place(image), channels * inputs));
                }
            }
        }
    };
    for_tasks(spans * p.groups * parts, p.o * some * kernel * blocks.cuts * blocks.pitch(), task);
}
