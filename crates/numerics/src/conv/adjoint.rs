//! The gradient for the input as the adjoint of the convolution: what every element of a patch gets from all output channels, by one
//! product over positions of several images, added to where the patch was taken from.
//!
//! No lane is idle, however few the input channels are. With channels in the lanes ([`direct`](super::direct)), ten of them
//! take as long as sixteen.

use super::patches::Runs;
use super::{Problem, Room};
use crate::gemm::Out;
use crate::micro::{Product, product};
use crate::simd::Isa;
use crate::tasks::for_tasks;

/// Positions of a block, at most.
const COLUMNS: usize = 512;

/// Numbers that the elements of a task's patches get: they stay in the second cache.
const GIVEN: usize = 1 << 16;

/// Rows of a product that are worth a task.
const ROWS: usize = 64;

/// Output channels below which adding to the input takes longer than the idle lanes.
const MANY: usize = 128;

/// Whether this takes less time: a quarter of the lanes would be idle with the input channels in them, for sums that are long
/// enough.
pub(super) fn pays(isa: Isa, p: &Problem) -> bool {
    let (g, idle) = (&p.geometry, p.c.next_multiple_of(isa.lanes()) - p.c);
    // (Pairs of bf16 are half as many.)
    let sums = p.o * if Some(isa) == Isa::pairs() { 2 } else { 1 };
    let strided = g.params.stride != [1; 3];
    // With strides in three dimensions there are else eight convolutions with a few elements each, whatever the lanes.
    // Nor does it multiply with the zeros around the gradient.
    let fewer = idle * 8 > p.c && g.inputs() * 4 > p.outputs() * 5;
    let worth = if strided { g.kernel[0] > 1 && sums >= MANY / 2 } else { sums >= MANY && (idle * 3 > p.c || fewer) };
    p.groups == 1 && worth && p.outputs() <= COLUMNS
}

/// Whether input channels are so few that this, or unrolled patches, take less time than positions in the lanes: estimates of cycles
/// for each output position.
pub(super) fn is_few(p: &Problem) -> bool {
    let (g, lanes) = (&p.geometry, 16.0);
    let [(width, kernel), (o, c)] = [(g.output[2], p.patch(1)), (p.o, p.c)].map(|(a, b)| (a as f64, b as f64));
    // A stretch of a row costs that much, however short.
    let stretch = (10.0 + width / if g.params.stride[2] > 1 { 1.0 } else { 8.0 }) / width;
    let added = kernel * c * (o / lanes * 0.55 + stretch);
    // Vectors go on from row to row, over the zeros between rows.
    let reach = width + (g.kernel[2] - 1) as f64 * g.params.dilation[2] as f64;
    let vectors = (reach / width).min((width / lanes).ceil() * lanes / width) / lanes;
    let residues = if g.kernel[0] > 1 { g.params.stride.iter().product::<usize>() } else { 1 } as f64;
    let framed = o * g.kernel[0] as f64 * residues * stretch * 1.4;
    p.c < 8 && added < kernel * c * o * vectors * (0.52 + 0.25 / c) + framed
}

/// The gradient for the input, of a problem that is not empty; `false` where images have too many positions.
pub(super) fn input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    let (positions, inputs, kernel) = (p.outputs(), p.geometry.inputs(), p.patch(1));
    if positions > COLUMNS || p.n * p.c * inputs * p.o == 0 {
        return false;
    }
    // As many images as fit, in blocks of equal size.
    let blocks = p.n.div_ceil((COLUMNS / positions).min(p.n));
    let together = p.n.div_ceil(blocks);
    let columns = together * positions;
    // An odd number of cache lines, so that rows do not fall on the same ones.
    let pitch = (columns.div_ceil(16) | 1) * 16;
    // At least 16 tasks where channels have rows enough for it.
    let fitting = (GIVEN / (kernel * pitch)).max(1);
    let some = p.c.div_ceil(16usize.div_ceil(blocks * p.groups)).max(ROWS.div_ceil(kernel)).min(fitting).min(p.c);
    // Of equal size.
    let some = p.c.div_ceil(p.c.div_ceil(some));
    let parts = p.c.div_ceil(some);
    let parallel = p.n * p.groups * p.o * positions * p.c * kernel >= 1 << 16;
    // The gradients of a block's images side by side.
    let mut beside = Room::<f32>::new(blocks * p.groups * p.o * pitch);
    let beside = Out::new(beside.numbers());
    let images = |block: usize| block * together..p.n.min((block + 1) * together);
    let few = (ROWS * 4 / columns).max(1);
    let heaps = p.o.div_ceil(few);
    for_tasks(blocks * p.groups * heaps, grad.len() >= 1 << 14, |t| {
        let (first, of) = (t % heaps * few, t / heaps);
        let (group, block) = (of % p.groups, of / p.groups);
        for o in first..p.o.min(first + few) {
            for (i, image) in images(block).enumerate() {
                let from = &grad[((image * p.groups + group) * p.o + o) * positions..][..positions];
                // SAFETY: tasks write the rows of different channels.
                let to = unsafe { beside.part((of * p.o + o) * pitch + i * positions, positions) };
                to.copy_from_slice(from);
            }
        }
    });
    let runs = Runs::new(&p.geometry, 0, positions, pitch);
    let dx = Out::new(dx);
    for_tasks(blocks * p.groups * parts, parallel, |t| {
        let (first, of) = (t % parts * some, t / parts);
        let (group, block) = (of % p.groups, of / p.groups);
        let (channels, images) = (some.min(p.c - first), images(block));
        let mut given = Room::<f32>::new(some * kernel * pitch);
        let given = given.numbers();
        let from = &w[group * p.o * p.c * kernel..][..p.o * p.c * kernel];
        // SAFETY: the weights and the gradients are rows of these lengths, and there is a row for each element; tasks write
        // different channels or images.
        unsafe {
            let multiplied = Product {
                m: channels * kernel,
                n: images.len() * positions,
                k: p.o,
                a: from[first * kernel..].as_ptr(),
                a_steps: (1, p.c * kernel),
                b: beside.part(of * p.o * pitch, p.o * pitch).as_ptr(),
                b_row: pitch,
                c: given.as_mut_ptr(),
                c_row: pitch,
                add: false,
            };
            product(isa, &multiplied);
            for (i, image) in images.enumerate() {
                let dx = dx.part(((image * p.groups + group) * p.c + first) * inputs, channels * inputs);
                dx.fill(0.0);
                runs.scatter(&given[i * positions..], dx);
            }
        }
    });
    true
}
