//! The gradient for the weights: patches times gradients, over all positions.
//!
//! The product is taken as `patches @ gradients^T`, with the weights' gradient transposed at the
//! end: the patches then serve as they are gathered (or the input itself, for kernels of one
//! element), and what is transposed first is the smaller gradient.

use super::super::Problem;
use super::pitch;
use super::taps::Tables;
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// Numbers of transposed gradient that are kept at once.
const KEPT: usize = 1 << 21;

/// `columns` numbers of each of `rows` rows to their transpose, whose rows are filled up to whole
/// vectors.
#[inline(always)]
unsafe fn transpose_body<S: Simd>(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize) {
    // SAFETY: the caller gives rows that long on both sides.
    unsafe {
        for i in (0..rows).step_by(S::LANES) {
            let mut j = 0;
            if i + S::LANES <= rows {
                while j + S::LANES <= columns {
                    S::transpose(x.add(i * from + j), from, y.add(j * to + i), to);
                    j += S::LANES;
                }
            }
            for r in i..rows.min(i + S::LANES) {
                for c in j..columns {
                    *y.add(c * to + r) = *x.add(r * from + c);
                }
            }
        }
    }
}
dispatch!(unsafe fn transpose = transpose_body(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize));

/// The gradient for the weights.
pub(in super::super) fn weight_grad(isa: Isa, p: &Problem, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let job = Job::new(p, x, grad);
    assert_eq!(dw.len(), p.groups * p.o * job.depth, "the weights' size");
    if dw.is_empty() || grad.is_empty() {
        return dw.fill(0.0);
    }
    let (rows, parallel) = (p.groups * job.depth, job.parallel());
    let mut sums = scratch::take(rows * job.row);
    let shared = Shared::new(&mut sums);
    // Few weights, or too few channels for all threads.
    let few = job.depth * job.row <= 1 << 14;
    if few || (p.c < 8 && p.n >= 4 && job.depth * job.row <= 1 << 18) {
        job.by_images(isa, &shared);
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
            transpose(isa, job.depth, count, from_sums, job.row, to, job.depth);
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
    /// A row of the sums and of the transposed gradient: output channels of a group, padded.
    row: usize,
}

impl<'a> Job<'a> {
    fn new(p: &'a Problem, x: &'a [f32], grad: &'a [f32]) -> Job<'a> {
        assert_eq!(x.len(), p.n * p.groups * p.c * p.geometry.inputs(), "the input's size");
        assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
        let kernel = p.patch(1);
        Job { p, x, grad, kernel, depth: p.c * kernel, positions: p.outputs(), row: pitch(p.o) }
    }

    fn parallel(&self) -> bool {
        self.grad.len() * self.depth >= 1 << 16
    }

    /// Images that are taken together so that their gradients' transposes are about `kept` numbers.
    fn images(&self, kept: usize) -> usize {
        (kept / (self.positions * self.row * self.p.groups).max(1)).clamp(1, self.p.n.max(1))
    }

    /// The gradient of an image's group, transposed.
    ///
    /// # Safety
    ///
    /// `to` has `positions` rows of `row` numbers.
    unsafe fn transpose(&self, isa: Isa, image: usize, group: usize, to: *mut f32) {
        let size = self.p.o * self.positions;
        let from = &self.grad[(image * self.p.groups + group) * size..][..size];
        // SAFETY: by the caller's promise.
        unsafe { transpose(isa, self.p.o, self.positions, from.as_ptr(), self.positions, to, self.row) }
    }

    /// Adds an image's products to the sums of some channels of a group.
    ///
    /// # Safety
    ///
    /// `g` is what [`Job::transpose`] made; `sums` has a row for each kernel element of the
    /// channels, used by nobody else.
    #[allow(clippy::too_many_arguments)]
    unsafe fn add(
        &self,
        isa: Isa,
        image: usize,
        group: usize,
        channels: Range<usize>,
        g: *const f32,
        sums: *mut f32,
        add: bool,
        tables: Option<&Tables<'_>>,
    ) {
        let geometry = &self.p.geometry;
        let inputs = geometry.inputs();
        let from = (image * self.p.groups + group) * self.p.c;
        let x = &self.x[(from + channels.start) * inputs..(from + channels.end) * inputs];
        let depth = channels.len() * self.kernel;
        let p = Product {
            m: depth,
            n: self.p.o.next_multiple_of(isa.lanes()).min(self.row),
            k: self.positions,
            a: x.as_ptr(),
            a_steps: (self.positions, 1),
            b: g,
            b_row: self.row,
            c: sums,
            c_row: self.row,
            add,
        };
        let Some(tables) = tables else {
            // SAFETY: the caller's promise; the input's planes are the patches.
            return unsafe { product(isa, &p) };
        };
        // SAFETY: the caller's promise.
        unsafe { tables.add(isa, x, 0..channels.len(), g, sums, self.row, p.n.div_ceil(isa.lanes()), add) }
    }

    /// Threads take channels; each goes through all images in order.
    fn by_channels(&self, isa: Isa, sums: &Shared<f32>) {
        let p = self.p;
        let together = self.images(KEPT);
        let size = self.positions * self.row;
        let mut g = scratch::take(together * p.groups * size);
        let g = Shared::new(&mut g);
        // At least 8 tasks, of whole tiles of the kernel where there are many channels.
        let part = (256 / self.kernel).clamp(1, p.c.div_ceil(8).max(1));
        let parts = p.c.div_ceil(part);
        let tables = (!p.geometry.is_pointwise()).then(|| Tables::new(&p.geometry, part));
        for first in (0..p.n).step_by(together) {
            let images = together.min(p.n - first);
            for_tasks(images * p.groups, self.parallel(), |t| {
                // SAFETY: tasks fill different parts of the buffer.
                unsafe { self.transpose(isa, first + t / p.groups, t % p.groups, g.ptr().add(t * size)) }
            });
            for_tasks(p.groups * parts, self.parallel(), |t| {
                let (group, from) = (t / parts, t % parts * part);
                let channels = from..p.c.min(from + part);
                // SAFETY: tasks add to the sums of different channels.
                unsafe {
                    let sums = sums.ptr().add((group * self.depth + from * self.kernel) * self.row);
                    for i in 0..images {
                        let g = g.ptr().add((i * p.groups + group) * size);
                        self.add(isa, first + i, group, channels.clone(), g, sums, first + i > 0, tables.as_ref());
                    }
                }
            });
        }
    }

    /// Few weights: threads take images; their sums are added in order.
    fn by_images(&self, isa: Isa, sums: &Shared<f32>) {
        let p = self.p;
        // At most 32 parts, whatever the number of threads.
        let together = p.n.div_ceil(32).max(1);
        let parts = p.n.div_ceil(together);
        let size = p.groups * self.depth * self.row;
        let mut partial = scratch::take(parts * size);
        let shared = Shared::new(&mut partial);
        let tables = (!p.geometry.is_pointwise()).then(|| Tables::new(&p.geometry, p.c));
        for_tasks(parts, self.parallel(), |t| {
            let mut g = scratch::take(self.positions * self.row);
            for image in t * together..p.n.min((t + 1) * together) {
                for group in 0..p.groups {
                    // SAFETY: tasks have sums of their own.
                    unsafe {
                        self.transpose(isa, image, group, g.as_mut_ptr());
                        let sums = shared.ptr().add(t * size + group * self.depth * self.row);
                        self.add(isa, image, group, 0..p.c, g.as_ptr(), sums, image > t * together, tables.as_ref());
                    }
                }
            }
        });
        // SAFETY: the caller's buffer has this size, and no task runs now.
        let total = unsafe { std::slice::from_raw_parts_mut(sums.ptr(), size) };
        total.copy_from_slice(&partial[..size]);
        for part in partial[size..parts * size].chunks_exact(size) {
            total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
        }
    }
}
