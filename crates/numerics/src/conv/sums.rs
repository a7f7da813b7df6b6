//! The gradient for the weights of types other than `f32`: products of unrolled patches and gradients.

use super::patches::gather_patches;
use super::{BLOCK, Problem, Room};
use crate::element::Real;
use crate::gemm::{Dims, Layout, Operand, Out, product_into};
use crate::tasks::for_tasks;

/// Weights of a group up to which threads share images, with sums of their own that are added up at the end.
const FEW: usize = 1 << 16;

/// Tasks, about, whatever the number of threads.
const TASKS: usize = 8;

/// The gradient for the weights, for a problem that is not empty.
pub(super) fn weight_grad<T: Real>(p: &Problem, input: &[T], grad: &[T], weight_grad: &mut [T]) {
    let (positions, patch, inputs, kernel) = (p.outputs(), p.patch(p.c), p.geometry.inputs(), p.patch(1));
    if p.n * p.o * patch * positions == 0 {
        return weight_grad.fill(T::ZERO);
    }
    // Tasks take some channels, and some of the blocks of positions of all images.
    let few = p.o * patch <= FEW;
    let channels = if few { p.c } else { (256 / kernel).clamp(1, p.c.div_ceil(TASKS)) };
    let cuts = p.c.div_ceil(channels);
    let block = (BLOCK / (channels * kernel)).clamp(64, 1 << 14).min(positions);
    let blocks = positions.div_ceil(block);
    let parts = if few { TASKS.div_ceil(p.groups).min(p.n * blocks) } else { 1 };
    let together = (p.n * blocks).div_ceil(parts);
    let parts = (p.n * blocks).div_ceil(together);
    // Sums have a row for each element of a patch: the patches are multiplied as they lie.
    let size = patch * p.o;
    let mut sums = Room::new(parts * p.groups * size);
    let out = Out::new(sums.numbers());
    let work = p.n * p.groups * size * positions >= 1 << 16;
    for_tasks(parts * p.groups * cuts, work, |t| {
        let (part, group, from) = (t / cuts / p.groups, t / cuts % p.groups, t % cuts * channels);
        let channels = channels.min(p.c - from);
        let width = channels * kernel;
        let mut columns = Room::new(if p.geometry.is_pointwise() { 0 } else { width * block });
        let mut more = Room::new(if together > 1 { width * p.o } else { 0 });
        let (columns, more) = (columns.numbers(), more.numbers());
        let at = (part * p.groups + group) * size + from * kernel * p.o;
        for i in part * together..(p.n * blocks).min((part + 1) * together) {
            let (image, first) = (i / blocks * p.groups + group, i % blocks * block);
            let count = block.min(positions - first);
            let x = &input[(image * p.c + from) * inputs..][..channels * inputs];
            let g = &grad[image * p.o * positions..][..p.o * positions];
            let g = Operand::new(g, Layout::row_major(positions).at(first).transposed());
            let a = if p.geometry.is_pointwise() {
                Operand::new(x, Layout::row_major(positions).at(first))
            } else {
                let columns = &mut columns[..width * count];
                gather_patches(&p.geometry, x, first, count, columns);
                Operand::new(&*columns, Layout::row_major(count))
            };
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
    let sums = sums.numbers();
    let (total, others) = sums.split_at_mut(p.groups * size);
    for part in others.chunks_exact(p.groups * size) {
        total.iter_mut().zip(part).for_each(|(t, p)| *t += *p);
    }
    for (dw, total) in weight_grad.chunks_exact_mut(size).zip(total.chunks_exact(size)) {
        // By squares, whose lines stay in the first cache.
        for (o, k) in (0..p.o).step_by(16).flat_map(|o| (0..patch).step_by(16).map(move |k| (o, k))) {
            for i in o..p.o.min(o + 16) {
                (k..patch.min(k + 16)).for_each(|j| dw[i * patch + j] = total[j * p.o + i]);
            }
        }
    }
}
