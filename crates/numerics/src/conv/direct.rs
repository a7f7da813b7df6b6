//! Convolution in `f32` by direct sums.
//!
//! Patches are read where they lie in a padded copy of a part of the images: with output channels in
//! the lanes ([`pixels`]), or output positions where channels are few ([`rows`]). Kernels of one
//! element read the input itself; few columns of many channels are gathered first and multiplied
//! with the weights as they lie.

mod dots;
mod frame;
mod gather;
mod grid;
mod indexed;
mod pairs;
mod panels;
mod phases;
mod pixels;
mod residues;
mod rows;
mod spread;
mod strips;
mod taps;
mod thinned;
mod turned;
mod weight;
mod woven;

use super::patches::Geometry;
use super::{ConvParams, Problem};
use crate::epilogue::Epilogue;
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
pub(super) use frame::{reach, taps};
use gather::gather;
pub(super) use residues::input_grad;
use turned::Turned;
pub(super) use weight::weight_grad;
#[cfg(test)]
pub(super) use {dots::weight_grad as row_weight_grad, woven::input_grad as woven_input_grad};

/// Numbers of a block of the patch matrix.
const BLOCK: usize = 1 << 16;

/// A convolution with matrices as weights.
struct Job<'a> {
    images: usize,
    groups: usize,
    /// Input channels of a group.
    channels: usize,
    /// Output channels of a group.
    rows: usize,
    geometry: &'a Geometry,
    x: &'a [f32],
    /// Rows of `channels * kernel` numbers, group by group.
    weights: &'a [f32],
    /// How weights lie that are those of a gradient: [`Job::by_pixels`] knows of it, and [`Job::run`] where
    /// [`Job::is_direct`].
    turned: Option<Turned<'a>>,
    sink: Sink<'a>,
}

/// A way to go.
enum Way {
    Pixels,
    Rows(rows::Layout),
    Gather,
}

/// Where outputs go.
enum Sink<'a> {
    /// Planes of the geometry's output size.
    Planes { y: Shared<f32>, epilogue: &'a Epilogue<'a> },
    /// Every `stride`-th position of larger planes, from `first` on.
    Spread { y: Shared<f32>, size: [usize; 3], first: [usize; 3], stride: [usize; 3] },
}

pub(super) fn forward(isa: Isa, p: &Problem, x: &[f32], w: &[f32], y: &mut [f32], epilogue: &Epilogue<'_>) {
    assert_eq!(x.len(), p.n * p.groups * p.c * p.geometry.inputs(), "the input's size");
    assert_eq!(y.len(), p.n * p.groups * p.o * p.outputs(), "the output's size");
    epilogue.check(p.groups * p.o, y.len());
    let sink = Sink::Planes { y: Shared::new(y), epilogue };
    let (images, groups, channels, rows) = (p.n, p.groups, p.c, p.o);
    if p.geometry.is_pointwise() {
        // Planes are rows of it: as one long row each, they are copied at once.
        let row = [1, 1, p.outputs()];
        let geometry = Geometry { input: row, kernel: [1; 3], output: row, params: ConvParams::default() };
        return Job { images, groups, channels, rows, geometry: &geometry, x, weights: w, turned: None, sink }.run(isa);
    }
    if thinned::is_thinned(&p.geometry) && !x.is_empty() {
        let (x, geometry) = thinned::thin(isa, &p.geometry, x);
        return Job { images, groups, channels, rows, geometry: &geometry, x: &x, weights: w, turned: None, sink }
            .run(isa);
    }
    Job { images, groups, channels, rows, geometry: &p.geometry, x, weights: w, turned: None, sink }.run(isa);
}

impl Job<'_> {
    /// Rows of the patch matrix.
    fn depth(&self) -> usize {
        self.channels * self.geometry.kernel.iter().product::<usize>()
    }

    /// Which way should take the least time, for sums that are not empty.
    fn way(&self, isa: Isa) -> Way {
        let (g, columns) = (self.geometry, self.images * self.geometry.outputs());
        let pixels = self.cost_by_pixels(isa);
        let layout = self.layout(isa, true);
        let dense = (0..3).all(|d| g.params.stride[d] <= g.kernel[d]);
        let short = self.depth() <= 1024 || layout.fits(self);
        let rows = (dense && columns >= 48 && short).then(|| self.cost_by_rows(&layout));
        match (pixels, rows) {
            (Some(pixels), rows) if rows.is_none_or(|rows| pixels <= rows) => Way::Pixels,
            (_, Some(_)) => Way::Rows(layout),
            (_, None) => Way::Gather,
        }
    }

    /// Whether the input itself serves: unless vectors of its short planes would be half empty.
    fn is_direct(&self, isa: Isa) -> bool {
        let positions = self.geometry.outputs();
        let wasted = positions.next_multiple_of(isa.lanes()) - positions;
        self.geometry.is_pointwise() && positions >= 48 && wasted * 8 <= positions
    }

    fn run(&self, isa: Isa) {
        let (depth, positions) = (self.depth(), self.geometry.outputs());
        let columns = self.images * positions;
        if self.rows == 0 || columns == 0 {
            return;
        }
        assert_eq!(self.weights.len(), self.groups * self.rows * depth, "the weights' size");
        let parallel = columns * self.groups * self.rows * depth.max(1) >= 1 << 16;
        let direct = self.is_direct(isa);
        if !direct && depth > 0 {
            // Patches are read where they lie, unless there are too few columns.
            match self.way(isa) {
                Way::Pixels => return self.by_pixels(isa, parallel),
                Way::Rows(layout) => return self.by_rows(isa, &layout, parallel),
                Way::Gather => {}
            }
        }
        if columns <= 512 && !direct && self.rows >= 32 {
            // Few columns: gather them all, then split the rows.
            let pitch = pitch(columns);
            let mut patches = scratch::take(self.groups * depth * pitch);
            let shared = Shared::new(&mut patches);
            let part = self.channels.div_ceil(16).max(1);
            let parts = self.channels.div_ceil(part);
            for_tasks(self.groups * parts, parallel, |t| {
                let (group, from) = (t / parts, t % parts * part);
                let channels = from..self.channels.min(from + part);
                // SAFETY: tasks write the rows of different channels.
                unsafe { self.gather(isa, group, channels, 0, columns, shared.ptr().add(group * depth * pitch), pitch) }
            });
            let parts = self.rows.div_ceil(16);
            for_tasks(self.groups * parts, parallel, |t| {
                let (group, from) = (t / parts, t % parts * 16);
                let rows = from..self.rows.min(from + 16);
                let b = Matrix { data: shared.ptr().wrapping_add(group * depth * pitch), row: pitch };
                self.multiply(isa, group, rows, 0, columns, b);
            });
            return;
        }
        // At least 16 blocks where the work allows, of whole tiles of the kernel.
        let width = (BLOCK / depth.max(1)).min(columns.div_ceil(16)).clamp(48, 768) / 48 * 48;
        // The input itself serves one image at a time.
        let (span, spans) = if direct { (positions, self.images) } else { (columns, 1) };
        let blocks = span.div_ceil(width);
        for_tasks(self.groups * spans * blocks, parallel, |t| {
            let (group, t) = (t % self.groups, t / self.groups);
            let (span_at, from) = (t / blocks, t % blocks * width);
            let (first, count) = (span_at * span + from, width.min(span - from));
            if direct {
                let at = (span_at * self.groups + group) * self.channels * positions + from;
                let b = Matrix { data: self.x[at..].as_ptr(), row: positions };
                return self.multiply(isa, group, 0..self.rows, first, count, b);
            }
            let pitch = pitch(width);
            let mut patches = scratch::take(depth * pitch);
            // SAFETY: the buffer has a row for each row of the patch matrix.
            unsafe { self.gather(isa, group, 0..self.channels, first, count, patches.as_mut_ptr(), pitch) };
            self.multiply(isa, group, 0..self.rows, first, count, Matrix { data: patches.as_ptr(), row: pitch });
        });
    }

    /// Calls `f` with the stretches of columns `first .. first + count` that lie in one image: the
    /// image, its first position, how many, and where in the block.
    fn stretches(&self, first: usize, count: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
        let positions = self.geometry.outputs();
        let mut at = first;
        while at < first + count {
            let (image, position) = (at / positions, at % positions);
            let n = (positions - position).min(first + count - at);
            f(image, position, n, at - first);
            at += n;
        }
    }

    /// Gathers the rows of `channels` of the patch matrix.
    ///
    /// # Safety
    ///
    /// `to` has `depth` rows, `pitch` apart; nobody else uses those of these channels.
    #[allow(clippy::too_many_arguments)]
    unsafe fn gather(
        &self,
        isa: Isa,
        group: usize,
        channels: std::ops::Range<usize>,
        first: usize,
        count: usize,
        to: *mut f32,
        pitch: usize,
    ) {
        let (inputs, kernel) = (self.geometry.inputs(), self.geometry.kernel.iter().product::<usize>());
        self.stretches(first, count, |image, position, n, at| {
            let from = (image * self.groups + group) * self.channels;
            let x = &self.x[(from + channels.start) * inputs..(from + channels.end) * inputs];
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.add(channels.start * kernel * pitch + at);
                gather(isa, self.geometry, x, channels.len(), position..position + n, to, pitch);
            }
        });
    }

    /// Multiplies some rows of the weights with a block and writes the result to its place.
    fn multiply(&self, isa: Isa, group: usize, rows: std::ops::Range<usize>, first: usize, count: usize, b: Matrix) {
        let (depth, positions) = (self.depth(), self.geometry.outputs());
        let channel = group * self.rows + rows.start;
        // Those of a gradient lie the other way round, if they come here.
        let (weights, a_steps) = match self.turned {
            Some(_) => (&self.weights[group * self.rows * depth + rows.start..], (1, self.rows)),
            None => (&self.weights[channel * depth..], (depth, 1)),
        };
        let (image, position) = (first / positions, first % positions);
        let mut p = Product {
            m: rows.len(),
            n: count,
            k: depth,
            a: weights.as_ptr(),
            a_steps,
            b: b.data,
            b_row: b.row,
            c: std::ptr::null_mut(),
            c_row: positions,
            add: false,
        };
        let channels = self.groups * self.rows;
        if let Sink::Planes { y, epilogue } = &self.sink
            && position + count <= positions
        {
            // In one image: straight to the output.
            let at = (image * channels + channel) * positions + position;
            // SAFETY: the block's rows lie inside the output, and tasks write different blocks.
            unsafe {
                p.c = y.ptr().add(at);
                product(isa, &p);
                let plane = image * channels + channel;
                self.finish_rows(isa, channel, rows.len(), plane, position..position + count, y, epilogue);
            }
            return;
        }
        let row = pitch(count);
        let mut c = scratch::take(rows.len() * row);
        (p.c, p.c_row) = (c.as_mut_ptr(), row);
        // SAFETY: the buffer has a row for each row of the block.
        unsafe { product(isa, &p) };
        self.write(isa, group, rows, first, count, &c, row);
    }

    /// The epilogue of some positions of neighbouring channels, whose sums are in their places.
    ///
    /// # Safety
    ///
    /// The channels' planes are inside the output, and these positions are this thread's.
    #[allow(clippy::too_many_arguments)]
    unsafe fn finish_rows(
        &self,
        isa: Isa,
        channel: usize,
        count: usize,
        plane: usize,
        positions: std::ops::Range<usize>,
        y: &Shared<f32>,
        epilogue: &Epilogue<'_>,
    ) {
        if epilogue.is_none() {
            return;
        }
        for r in 0..count {
            let at = (plane + r) * self.geometry.outputs() + positions.start;
            // SAFETY: by the caller's promise.
            unsafe {
                let numbers = y.ptr().add(at);
                if !epilogue.is_only_then() {
                    finish(isa, epilogue, channel + r, numbers, at, positions.len(), y.ptr());
                }
                epilogue.call(plane + r, positions.clone(), numbers);
            }
        }
    }

    /// Writes a block of outputs, with a row for each channel, to its place.
    #[allow(clippy::too_many_arguments)]
    fn write(
        &self,
        isa: Isa,
        group: usize,
        rows: std::ops::Range<usize>,
        first: usize,
        count: usize,
        c: &[f32],
        row: usize,
    ) {
        let positions = self.geometry.outputs();
        let (channels, channel) = (self.groups * self.rows, group * self.rows + rows.start);
        self.stretches(first, count, |image, position, n, at| {
            for r in 0..rows.len() {
                let from = &c[r * row + at..][..n];
                let plane = image * channels + channel + r;
                match &self.sink {
                    Sink::Planes { y, epilogue } => {
                        // SAFETY: the stretch lies inside a plane of the output, and is ours alone.
                        unsafe {
                            let to = plane * positions + position;
                            finish(isa, epilogue, channel + r, from.as_ptr(), to, n, y.ptr());
                            epilogue.call(plane, position..position + n, y.ptr().add(to));
                        }
                    }
                    Sink::Spread { y, size, first, stride } => {
                        let start = plane * size.iter().product::<usize>();
                        self.geometry.for_rows(position, n, |at, [d, h], columns| {
                            let row = (first[0] + stride[0] * d) * size[1] + first[1] + stride[1] * h;
                            let to = start + row * size[2] + first[2] + stride[2] * columns.start;
                            for (i, v) in from[at..at + columns.len()].iter().enumerate() {
                                // SAFETY: these positions are inside the plane, and ours alone.
                                unsafe { *y.ptr().add(to + i * stride[2]) = *v };
                            }
                        });
                    }
                }
            }
        });
    }
}

/// A matrix of contiguous rows.
struct Matrix {
    data: *const f32,
    row: usize,
}

/// The length of a buffer's rows: room for a vector more, and an odd number of cache lines, so
/// that rows do not fall on the same ones.
fn pitch(n: usize) -> usize {
    (n + 16).div_ceil(16) / 2 * 32 + 16
}

/// Moves `n` numbers of one channel to `y[at..]` through the epilogue.
#[inline(always)]
unsafe fn finish_body<S: Simd>(e: &Epilogue<'_>, channel: usize, from: *const f32, at: usize, n: usize, y: *mut f32) {
    for i in (0..n).step_by(S::LANES) {
        let left = (n - i).min(S::LANES);
        // SAFETY: the caller gives `n` numbers, and room for them.
        unsafe {
            let v = S::load_first(from.add(i), left);
            S::store_first(y.add(at + i), e.channel::<S>(v, channel, at + i, left), left);
        }
    }
}
dispatch!(unsafe fn finish = finish_body(e: &Epilogue<'_>, channel: usize, from: *const f32, at: usize, n: usize, y: *mut f32));
