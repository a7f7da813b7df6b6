//! Winograd's convolution F(4 x 4, 3 x 3): tiles of 6 x 6 inputs become tiles of 4 x 4 outputs
//! with 36 multiplications a channel instead of 144.
//!
//! Weights and tiles are transformed to 36 points; at each point, channels are mixed by a matrix
//! product; the result is transformed back. The error is less than twice that of direct sums (see
//! `transform`).
//!
//! Either the weights are transformed first and threads take blocks of tiles (large images), or
//! the tiles first and threads take output channels with their weights (many channels, few tiles):
//! the larger of the two then never leaves the cache. Which it is follows from the sizes alone.

mod tiles;
mod transform;
mod weight;

use crate::epilogue::Epilogue;
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
pub(super) use tiles::Weights;
use tiles::{POINTS, Place, Run, SLACK};
pub(super) use weight::weight_grad;

/// A convolution of 3 x 3 kernels with unit stride, from `inner` to `outer` channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub images: usize,
    pub inner: usize,
    pub outer: usize,
    /// Rows and columns of the input planes.
    pub input: (usize, usize),
    /// Rows and columns of the output planes.
    pub output: (usize, usize),
    /// Zeros above and left of the input; those below and right follow from the sizes.
    pub pad: (usize, usize),
    /// Which of how many groups of that many channels each.
    pub group: (usize, usize),
}

/// A row of points is padded, so that the rows of the points do not fall on the same cache lines.
fn padded(n: usize) -> usize {
    // An odd number of cache lines.
    (n + SLACK).div_ceil(16) / 2 * 32 + 16
}

impl Plan {
    /// The plane of a channel of this group, of an array with `channels` a group.
    fn plane(&self, channels: usize, image: usize, c: usize) -> usize {
        (image * self.group.1 + self.group.0) * channels + c
    }

    /// Tiles down and across an image.
    fn tiles(&self) -> (usize, usize) {
        (self.output.0.div_ceil(4), self.output.1.div_ceil(4))
    }

    fn total(&self) -> usize {
        self.images * self.tiles().0 * self.tiles().1
    }

    /// Whether this should take less time than direct sums.
    pub fn pays(&self) -> bool {
        let reads = if self.outer < 16 { 20 } else { 40 } * self.inner;
        self.fits() && self.cycles() < self.direct(self.outer as f64) + self.positions() * reads as f64
    }

    /// The same for the gradient of the weights.
    pub fn pays_for_weights(&self) -> bool {
        // Output channels are in the lanes there, or positions of a row where channels are few.
        let by_rows = (self.outer * self.output.1.next_multiple_of(16)) as f64 / self.output.1 as f64;
        let sums = by_rows.min(self.outer.next_multiple_of(16) as f64);
        self.fits() && self.cycles_for_weights() < self.direct(sums)
    }

    /// Whether this should take less time than direct sums of pairs of `bf16`, of which two count as one.
    pub fn pays_beside_pairs(&self) -> bool {
        let half = Plan { inner: self.inner.div_ceil(2), ..*self };
        self.fits() && self.cycles() < half.direct(self.outer as f64)
    }

    /// The same for the gradient of the weights.
    pub fn pays_for_weights_beside_pairs(&self) -> bool {
        let half = Plan { images: self.images.div_ceil(2), ..*self };
        self.fits() && self.cycles_for_weights() < half.direct(self.outer as f64)
    }

    fn fits(&self) -> bool {
        self.pad.0 <= 2 && self.pad.1 <= 2 && self.inner >= 8 && self.outer >= 8 && self.total() > 0
    }

    /// Vectors of output positions.
    fn positions(&self) -> f64 {
        (self.images * self.output.0 * self.output.1).div_ceil(16) as f64
    }

    /// Cycles of a core with 16 lanes, fitted to measurements.
    fn cycles(&self) -> f64 {
        let (inner, outer, vectors) = (self.inner as f64, self.outer as f64, self.total().div_ceil(16) as f64);
        let mixing = POINTS as f64 * vectors * inner * outer * 1.1;
        let all = mixing + (inner + outer) * (vectors * 650.0 + self.images as f64 * 150.0) + inner * outer * 18.0;
        // Groups follow one another, each with too little work to share it well.
        if self.group.1 > 1 { all * 1.25 } else { all }
    }

    /// The same for the gradient of the weights: the points of an image are made for both operands, and those of small
    /// images for longer than they are multiplied (`64x40x10x10`: 0.96 ms, 0.49 by direct sums).
    fn cycles_for_weights(&self) -> f64 {
        self.cycles() + ((self.inner + self.outer) * self.images) as f64 * 850.0
    }

    /// Cycles of direct sums of `outer` channels, which leave out zeros around the image.
    fn direct(&self, outer: f64) -> f64 {
        let inside = |output: usize, input: usize, pad: usize| {
            let below = (output + 2).saturating_sub(pad + input);
            1.0 - (pad * (pad + 1) + below * (below + 1)) as f64 / (6 * output) as f64
        };
        let rows = inside(self.output.0, self.input.0, self.pad.0);
        let columns = if self.images >= 4 { inside(self.output.1, self.input.1, self.pad.1) } else { 1.0 };
        let sums = 9.3 * self.inner as f64 * outer * rows * columns;
        self.positions() * (sums + 14.0 * self.outer as f64)
    }

    /// Calls `f` with the pieces of `count` rows of tiles from `first` on that lie in one image:
    /// the image, the run, and its first tile in the block.
    fn runs(&self, size: (usize, usize), first: usize, count: usize, mut f: impl FnMut(usize, Run, usize)) {
        let (down, across) = self.tiles();
        let mut at = first;
        while at < first + count {
            let (image, row) = (at / down, at % down);
            let rows = (down - row).min(first + count - at);
            let run = Run { size, pad: self.pad, across, first: row, rows };
            f(image, run, (at - first) * across);
            at += rows;
        }
    }

    /// Rows of tiles in a block of about `tiles` tiles; their number wastes few lanes.
    fn rows(&self, tiles: usize) -> usize {
        let (down, across) = self.tiles();
        let most = (tiles / across).clamp(1, self.images * down);
        let waste = |rows: usize| {
            let n = rows * across;
            (n.div_ceil(16) * 16 - n) as f64 / n as f64
        };
        // Of the upper half, the one that wastes least; the larger of equals.
        (most.div_ceil(2)..=most).min_by(|&a, &b| waste(a).total_cmp(&waste(b)).then(b.cmp(&a))).unwrap_or(most)
    }
}

/// Convolves `x` with the weights into `y`.
pub(super) fn convolve(isa: Isa, p: &Plan, x: &[f32], w: &Weights<'_>, y: &mut [f32], e: &Epilogue<'_>) {
    assert!(w.data.len() > (p.outer - 1) * w.row + (p.inner - 1) * w.inner + 8);
    assert_eq!(x.len(), p.images * p.group.1 * p.inner * p.input.0 * p.input.1);
    assert_eq!(y.len(), p.images * p.group.1 * p.outer * p.output.0 * p.output.1);
    e.check(p.group.1 * p.outer, y.len());
    let y = Shared::new(y);
    let (down, across) = p.tiles();
    let all = p.images * down;
    if p.outer > p.total() || p.total() <= 128 {
        // All tiles first, then output channels with their weights.
        let block = Block::new(p, all * across, p.outer.min(8));
        let mut v = scratch::take(block.v_len());
        let v_all = Shared::new(&mut v);
        for_tasks(p.inner.div_ceil(8), p.inner * p.total() >= 1 << 10, |t| {
            // SAFETY: tasks write the points of different channels.
            unsafe { block.gather(isa, x, 0, all, t * 8..p.inner.min(t * 8 + 8), v_all.ptr()) }
        });
        for_tasks(p.outer.div_ceil(block.outer), p.inner * p.outer * p.total() >= 1 << 15, |t| {
            let rows = t * block.outer..p.outer.min((t + 1) * block.outer);
            let depth = padded(p.inner);
            let point = block.outer * depth + 16;
            let mut u = scratch::take(POINTS * point);
            let mut m = scratch::take(block.m_len());
            // SAFETY: rows are inside the weights, buffers have the sizes that `Block` computes,
            // and tasks write different channels of the output.
            unsafe {
                tiles::weights(isa, w, rows.clone(), p.inner, u.as_mut_ptr(), depth, point);
                let u = Points { data: u.as_ptr(), row: depth, point };
                block.mix(isa, u, v_all.ptr(), rows.len(), all, m.as_mut_ptr());
                block.scatter(isa, &mut m, 0, all, rows, &y, e);
            }
        });
    } else {
        let depth = padded(p.inner);
        let point = p.outer * depth + 16;
        let mut u = scratch::take(POINTS * point);
        let all_u = Shared::new(&mut u);
        for_tasks(p.outer.div_ceil(8), p.outer * p.inner >= 1 << 10, |t| {
            let rows = t * 8..p.outer.min(t * 8 + 8);
            let to = all_u.ptr().wrapping_add(rows.start * depth);
            // SAFETY: the rows are inside the weights, and tasks write different ones.
            unsafe { tiles::weights(isa, w, rows, p.inner, to, depth, point) };
        });
        let u = Points { data: all_u.ptr(), row: depth, point };
        let u = &u;
        // The points of a block's inputs should stay in the L2 cache, and 8 threads have work.
        let tiles = (1 << 18) / (POINTS * p.inner);
        let rows = p.rows(tiles.clamp(48, 128).min((p.total() / 8).max(16)));
        let block = Block::new(p, rows * across, (1 << 16) / (POINTS * rows * across) / 8 * 8);
        for_tasks(all.div_ceil(rows), p.inner * p.outer * p.total() >= 1 << 15, |t| {
            let (first, count) = (t * rows, rows.min(all - t * rows));
            let (mut v, mut m) = (scratch::take(block.v_len()), scratch::take(block.m_len()));
            // SAFETY: buffers have the sizes that `Block` computes, and tasks write different rows.
            unsafe {
                block.gather(isa, x, first, count, 0..p.inner, v.as_mut_ptr());
                for from in (0..p.outer).step_by(block.outer) {
                    let rows = from..p.outer.min(from + block.outer);
                    let part = Points { data: u.data.add(from * depth), ..*u };
                    block.mix(isa, part, v.as_ptr(), rows.len(), count, m.as_mut_ptr());
                    block.scatter(isa, &mut m, first, count, rows, &y, e);
                }
            }
        });
    }
}

/// Transformed numbers: point `p` of row `r` at `data + p * point + r * row`.
#[derive(Clone, Copy)]
struct Points {
    data: *const f32,
    row: usize,
    point: usize,
}

// SAFETY: read only, while the buffer behind it lives.
unsafe impl Sync for Points {}

/// The sizes of a block's buffers.
struct Block<'a> {
    plan: &'a Plan,
    /// Tiles in a row of a buffer, padded.
    row: usize,
    /// Output channels that are mixed and transformed back together.
    outer: usize,
}

impl Block<'_> {
    fn new(plan: &Plan, tiles: usize, outer: usize) -> Block<'_> {
        Block { plan, row: padded(tiles), outer: outer.clamp(1, plan.outer.next_multiple_of(8)).max(8).min(plan.outer) }
    }

    /// The step between points of the inputs, and of the outputs.
    fn v_point(&self) -> usize {
        self.plan.inner * self.row + 16
    }

    fn m_point(&self) -> usize {
        self.outer * self.row + 16
    }

    fn v_len(&self) -> usize {
        POINTS * self.v_point() + SLACK
    }

    fn m_len(&self) -> usize {
        POINTS * self.m_point() + SLACK
    }

    /// Transforms the tiles of rows `first .. first + count` of some channels.
    ///
    /// # Safety
    ///
    /// `v` has `v_len` numbers, and no other thread uses these channels' points.
    unsafe fn gather(
        &self,
        isa: Isa,
        x: &[f32],
        first: usize,
        count: usize,
        channels: std::ops::Range<usize>,
        v: *mut f32,
    ) {
        let p = self.plan;
        let size = p.input.0 * p.input.1;
        let biggest = Run { size: p.input, pad: p.pad, across: p.tiles().1, first: 0, rows: p.tiles().0.min(count) };
        let mut work = scratch::take(biggest.scratch());
        for c in channels {
            p.runs(p.input, first, count, |image, run, at| {
                let plane = &x[p.plane(p.inner, image, c) * size..][..size];
                // SAFETY: the plane has the run's size, and `v` room for `row` tiles a channel.
                unsafe {
                    let to = v.add(c * self.row + at);
                    tiles::input(isa, &run, plane.as_ptr(), work.as_mut_ptr(), to, self.v_point());
                }
            });
        }
    }

    /// Mixes channels at every point: `m = u v`.
    ///
    /// # Safety
    ///
    /// `u` has `rows` rows, `v` `v_len` numbers of `count` rows of tiles, and `m` `m_len`.
    unsafe fn mix(&self, isa: Isa, u: Points, v: *const f32, rows: usize, count: usize, m: *mut f32) {
        // Whole vectors: what lies behind the last tile does not matter.
        let n = (count * self.plan.tiles().1).next_multiple_of(isa.lanes());
        for point in 0..POINTS {
            // SAFETY: rows of `row` numbers are inside the buffers.
            unsafe {
                let product_of_point = Product {
                    m: rows,
                    n,
                    k: self.plan.inner,
                    a: u.data.add(point * u.point),
                    a_steps: (u.row, 1),
                    b: v.add(point * self.v_point()),
                    b_row: self.row,
                    c: m.add(point * self.m_point()),
                    c_row: self.row,
                    add: false,
                };
                product(isa, &product_of_point);
            }
        }
    }

    /// Transforms mixed points back into the output's rows.
    ///
    /// # Safety
    ///
    /// `m` is what [`Block::mix`] made, and no other thread writes these parts of the output.
    #[allow(clippy::too_many_arguments)]
    unsafe fn scatter(
        &self,
        isa: Isa,
        m: &mut [f32],
        first: usize,
        count: usize,
        channels: std::ops::Range<usize>,
        y: &Shared<f32>,
        e: &Epilogue<'_>,
    ) {
        let p = self.plan;
        let tiles = count * p.tiles().1;
        let pitch = tiles + SLACK;
        let mut planes = scratch::take(16 * pitch + SLACK);
        for channel in channels.clone() {
            // SAFETY: by the caller's promise; runs lie inside planes of the output.
            unsafe {
                let points = m.as_ptr().add((channel - channels.start) * self.row);
                tiles::output(isa, tiles, points, self.m_point(), planes.as_mut_ptr());
                p.runs(p.output, first, count, |image, run, at| {
                    let plane = p.plane(p.outer, image, channel);
                    let place =
                        Place { channel: p.group.0 * p.outer + channel, plane: plane * p.output.0 * p.output.1 };
                    tiles::write(isa, &run, planes.as_ptr().add(at), pitch, e, place, y.ptr());
                    let width = p.output.1;
                    let rows = 4 * run.first..p.output.0.min(4 * (run.first + run.rows));
                    let columns = rows.start * width..rows.end * width;
                    let from = y.ptr().add(place.plane + columns.start);
                    e.call(plane, columns, from);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
