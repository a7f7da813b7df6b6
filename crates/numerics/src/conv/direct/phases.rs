//! Padded parts of images, taken apart by their positions modulo the stride: what neighbouring
//! outputs see of them are then neighbours, for any stride.

use super::frame::{AHEAD, Block, Blocks, Places, reach};
use super::gather::{copy, zero};
use crate::conv::patches::Geometry;
use crate::scratch;
use crate::simd::{Simd, dispatch, prefetch};
use std::ops::Range;

/// The sizes of such a part: channels, in them the slices that a window sees, in them a plane for
/// each residue of rows and columns.
pub(super) struct Phases<'a> {
    g: &'a Geometry,
    /// Rows and columns of a plane.
    rows: usize,
    pub width: usize,
    channel: usize,
    channels: usize,
}

impl<'a> Phases<'a> {
    /// For `channels` channels of any of the blocks, which have one image each.
    pub fn new(g: &'a Geometry, blocks: &Blocks, channels: usize) -> Phases<'a> {
        let [_, rows, columns] = blocks.size;
        let [_, sh, sw] = g.params.stride;
        let (rows, width) = (reach(g, 1, rows).div_ceil(sh), reach(g, 2, columns).div_ceil(sw));
        let channel = g.kernel[0] * sh * sw * rows * width;
        Phases { g, rows, width, channel, channels }
    }

    /// Numbers of it, with room for what vectors read and write beyond the last.
    pub fn len(&self) -> usize {
        self.channels * self.channel + 32
    }

    /// The first number of a row of the plane that belongs to a row and residue.
    fn row(&self, c: usize, d: usize, h: usize, residue: usize) -> usize {
        let [_, sh, sw] = self.g.params.stride;
        let plane = (d * sh + h % sh) * sw + residue;
        c * self.channel + (plane * self.rows + h / sh) * self.width
    }

    /// The place of an element of a patch, relative to the output at the same row and column of a
    /// plane.
    pub fn element(&self, c: usize, d: usize, h: usize, w: usize) -> usize {
        let ([_, dh, dw], sw) = (self.g.params.dilation, self.g.params.stride[2]);
        self.row(c, d, h * dh, w * dw % sw) + w * dw / sw
    }

    /// Adds the places of a patch's elements; their rows are their numbers in the patch.
    pub fn elements(&self, to: &mut Places) {
        let [kd, kh, kw] = self.g.kernel;
        for c in 0..self.channels {
            for d in 0..kd {
                for h in 0..kh {
                    for w in 0..kw {
                        to.push(self.element(c, d, h, w), ((c * kd + d) * kh + h) * kw + w);
                    }
                }
            }
        }
    }
}

/// Fills the planes with `channels` of `x`, one image of a block.
#[inline(always)]
unsafe fn part_body<S: Simd>(f: &Phases<'_>, block: &Block, x: &[f32], channels: Range<usize>, to: *mut f32) {
    let g = f.g;
    let [_, height, width] = g.input;
    let (inputs, [_, sh, sw], pad) = (g.inputs(), g.params.stride, g.params.padding[2].0);
    let (top, left) = (block.rows.start * sh, block.columns.start * sw);
    let rows = reach(g, 1, block.rows.len());
    // Where vectors of every second number would be put together with cases for both ends, rows are
    // first copied between zeros, which are written once.
    let spare = if sw == 2 { 2 * f.width } else { 0 };
    let mut padded = scratch::take(rows * spare + 2 * S::LANES);
    padded.fill(0.0);
    let padded = padded.as_mut_ptr();
    let before = pad.saturating_sub(left).min(spare);
    let first_column = left.saturating_sub(pad);
    let inside = width.saturating_sub(first_column).min(spare - before);
    for (c, channel) in channels.enumerate() {
        let plane = &x[channel * inputs..][..inputs];
        for kd in 0..g.kernel[0] {
            let depth = g.source(0, block.depth, kd);
            let row = |r: usize| (top + r).checked_sub(g.params.padding[1].0).filter(|&r| r < height);
            if let (2, true, Some(depth)) = (sw, inside > 0, depth) {
                for (r, row) in (0..rows).filter_map(|r| Some((r, row(r)?))) {
                    let from = (depth * height + row) * width + first_column;
                    // SAFETY: these columns are inside the image, and the buffer's rows are filled from
                    // the first to the last, behind which there is room.
                    unsafe {
                        let from = plane.as_ptr().add(from);
                        prefetch(from.wrapping_add(AHEAD));
                        prefetch(from.wrapping_add(AHEAD + 16));
                        copy::<S>(from, 1, padded.add(r * spare + before), inside);
                    }
                }
            }
            for (first, residue) in (0..sh).flat_map(|h| (0..sw).map(move |w| (h, w))) {
                // The columns whose source is inside the image.
                let start = left + residue;
                let low = pad.saturating_sub(start).div_ceil(sw).min(f.width);
                let high = (pad + width).saturating_sub(start).div_ceil(sw).clamp(low, f.width);
                let plane_to = f.row(c, kd, first, residue);
                for (i, r) in (first..rows).step_by(sh).enumerate() {
                    // SAFETY: rows are inside the planes and are filled from the first to the last,
                    // so what is written behind one is overwritten, or lies behind the last, where
                    // there is room; what is read is inside the image, or the buffer.
                    unsafe {
                        let to = to.add(plane_to + i * f.width);
                        let (Some(depth), Some(row), true) = (depth, row(r), low < high) else {
                            zero::<S>(to, f.width);
                            continue;
                        };
                        if sw == 2 {
                            let from = padded.add(r * spare);
                            for i in (0..f.width).step_by(S::LANES) {
                                let (a, b) = (S::load(from.add(2 * i)), S::load(from.add(2 * i + S::LANES)));
                                S::store(to.add(i), if residue == 0 { S::evens(a, b) } else { S::odds(a, b) });
                            }
                            continue;
                        }
                        zero::<S>(to, low);
                        let from = (depth * height + row) * width + start + low * sw - pad;
                        copy::<S>(plane.as_ptr().add(from), sw, to.add(low), high - low);
                        zero::<S>(to.add(high), f.width - high);
                    }
                }
            }
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// `to` has the length that `f` says.
    pub(super) unsafe fn part = part_body(f: &Phases<'_>, block: &Block, x: &[f32], channels: Range<usize>, to: *mut f32)
}
