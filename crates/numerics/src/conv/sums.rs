//! The gradient for the weights of types other than `f32`: products of unrolled patches and gradients.

use super::unrolled::Blocks;
use super::{Problem, Room};
use crate::element::Real;
use crate::gemm::{Dims, Layout, Operand, Out, product_into};
use crate::tasks::{for_chunks, for_tasks};

/// Weights of a group up to which threads share images, with sums of their own that are added up at the end.
const FEW: usize = 1 << 16;

/// Positions of all images up to which threads share channels nevertheless.
const SHORT: usize = 128;

/// Rows and columns of sums that are turned together.
const SQUARE: usize = 16;

/// Tasks, about, whatever the number of threads.
const TASKS: usize = 8;

/// The gradient for the weights, for a problem that is not empty.
pub(super) fn weight_grad<T: Real>(p: &Problem, input: &[T], grad: &[T], weight_grad: &mut [T]) {
    let (positions, patch, kernel) = (p.outputs(), p.patch(p.c), p.patch(1));
    if p.n * p.o * patch * positions == 0 {
        return weight_grad.fill(T::ZERO);
    }
    // Tasks take some channels, and some of the blocks of positions of all images.
    // Of few positions, sums of parts would be as long to add up as to make.
    let short = p.n * positions <= SHORT && p.c * p.groups >= TASKS && p.o >= 64;
    let few = p.o * patch <= FEW && !short;
    let channels = if few { p.c } else { (256 / kernel).clamp(1, p.c.div_ceil(TASKS)) };
    let cuts = p.c.div_ceil(channels);
    let blocks = Blocks::new(p, channels * kernel, short);
    let parts = if few { TASKS.div_ceil(p.groups).min(blocks.count()) } else { 1 };
    let together = blocks.count().div_ceil(parts);
    let parts = blocks.count().div_ceil(together);
    // Sums have a row for each element of a patch: the patches are multiplied as they lie.
    let size = patch * p.o;
    if parts == 1 && p.n * p.groups * size * positions >= 1 << 16 {
        return in_place(p, &blocks, channels, input, grad, weight_grad);
    }
    let mut sums = Room::new(parts * p.groups * size);
    let out = Out::new(sums.numbers());
    let work = p.n * p.groups * size * positions >= 1 << 16;
    for_tasks(parts * p.groups * cuts, work, |t| {
        let (part, group, from) = (t / cuts / p.groups, t / cuts % p.groups, t % cuts * channels);
        let channels = channels.min(p.c - from);
        let width = channels * kernel;
        let (columns, rows) = blocks.room(p, width);
        let (mut columns, mut rows) = (Room::new(columns), Room::new(rows));
        let mut more = Room::new(if together > 1 { width * p.o } else { 0 });
        let (columns, rows, more) = (columns.numbers(), rows.numbers(), more.numbers());
        let at = (part * p.groups + group) * size + from * kernel * p.o;
        for i in part * together..blocks.count().min((part + 1) * together) {
            let (a, count) = blocks.patches(p, (i, group, from..from + channels), input, columns);
            let g = blocks.outputs(p, (i, group), grad, rows);
            let g = Operand::new(g.data, g.layout.transposed());
            let (d, row) = (Dims::new(width, p.o, count), Layout::row_major(p.o));
            // SAFETY: tasks have sums of their own, in a buffer that is borrowed exclusively.
            unsafe {
                if i == part * together {
                    product_into(d, T::ONE, a, g, T::ZERO, &out, row.at(at), false);
                    continue;
                }
                product_into(d, T::ONE, a, g, T::ZERO, &Out::new(more), row, false);
                out.part(at, width * p.o).iter_mut().zip(&*more).for_each(|(s, m)| *s += *m);
            }
        }
    });
    // Parts are added up and turned by squares, whose lines stay in the first cache.
    let (sums, all) = (&*sums.numbers(), p.groups * size);
    for_chunks(weight_grad, SQUARE * patch, 1, work, |(i, dw)| {
        for k in (0..patch).step_by(SQUARE) {
            for (r, dw) in dw.chunks_exact_mut(patch).enumerate() {
                let (group, o) = ((i * SQUARE + r) / p.o, (i * SQUARE + r) % p.o);
                for (j, dw) in dw.iter_mut().enumerate().take(k + SQUARE).skip(k) {
                    let at = group * size + j * p.o + o;
                    *dw = (1..parts).fold(sums[at], |sum, part| sum.add(sums[part * all + at]));
                }
            }
        }
    });
}

/// The sums of all blocks, channel by channel, straight to their places: many weights would be written and turned for longer than
/// they are summed up (504x272x4x4 over 36 positions in `f64`: 7.4 ms, 1.8 in place).
fn in_place<T: Real>(p: &Problem, blocks: &Blocks, channels: usize, input: &[T], grad: &[T], weight_grad: &mut [T]) {
    let (patch, kernel, cuts) = (p.patch(p.c), p.patch(1), p.c.div_ceil(channels));
    let out = Out::new(weight_grad);
    for_tasks(p.groups * cuts, true, |t| {
        let (group, from) = (t / cuts, t % cuts * channels);
        let channels = channels.min(p.c - from);
        let width = channels * kernel;
        let (columns, rows) = blocks.room(p, width);
        let (mut columns, mut rows) = (Room::new(columns), Room::new(rows));
        let mut more = Room::new(if blocks.count() > 1 { width * p.o } else { 0 });
        let (columns, rows, more) = (columns.numbers(), rows.numbers(), more.numbers());
        let at = group * p.o * patch + from * kernel;
        for i in 0..blocks.count() {
            let (a, count) = blocks.patches(p, (i, group, from..from + channels), input, columns);
            let a = Operand::new(a.data, a.layout.transposed());
            let g = blocks.outputs(p, (i, group), grad, rows);
            let d = Dims::new(p.o, width, count);
            // SAFETY: tasks write the weights of different groups or channels, which are borrowed exclusively.
            unsafe {
                if i == 0 {
                    product_into(d, T::ONE, g, a, T::ZERO, &out, Layout::row_major(patch).at(at), false);
                    continue;
                }
                product_into(d, T::ONE, g, a, T::ZERO, &Out::new(more), Layout::row_major(width), false);
                for (o, more) in more.chunks_exact(width).enumerate() {
                    let sums = out.part(at + o * patch, width);
                    sums.iter_mut().zip(more).for_each(|(s, m)| *s += *m);
                }
            }
        }
    });
}
