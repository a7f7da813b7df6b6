//! Parts of images with their zeros around them: every window of a block of outputs lies inside,
//! and no element of it needs a case of its own.

use super::gather::{copy, zero};
use super::indexed::Place;
use crate::conv::patches::Geometry;
use crate::scratch::{self, Scratch};
use crate::simd::{Simd, dispatch, prefetch};
use std::ops::{Deref, Range};

/// Outputs whose windows are framed together: whole images, or rows of one slice of one image, or
/// columns of one row, which follow one another in the output. Or the same slice of several images
/// ([`Blocks::of_slices`]), which follow one another in each image alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub images: Range<usize>,
    /// The slice along the depth; all of them (of one) where there are several images.
    pub depth: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Block {
    /// The first output, counted over all images.
    pub fn first(&self, g: &Geometry) -> usize {
        let row = (self.images.start * g.output[0] + self.depth) * g.output[1] + self.rows.start;
        row * g.output[2] + self.columns.start
    }

    pub fn len(&self) -> usize {
        self.images.len() * self.rows.len() * self.columns.len()
    }
}

/// How outputs are cut into blocks of about as many: by the sizes alone.
pub(super) struct Blocks {
    images: usize,
    output: [usize; 3],
    /// Images, rows and columns of a block.
    pub size: [usize; 3],
}

impl Blocks {
    pub fn new(images: usize, output: [usize; 3], wanted: usize) -> Blocks {
        let [depth, height, width] = output;
        let even = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.max(1)).max(1));
        let size = if depth == 1 && height * width * 2 <= wanted {
            [even(images, wanted / (height * width).max(1)), height, width]
        } else if width <= wanted * 3 / 2 {
            [1, even(height, (wanted + width / 2) / width.max(1)), width]
        } else {
            [1, 1, even(width, wanted)]
        };
        Blocks { images, output, size }
    }

    /// As [`Blocks::new`], but small slices of several images are taken together.
    pub fn of_slices(images: usize, output: [usize; 3], wanted: usize) -> Blocks {
        Blocks { output, ..Blocks::new(images, [1, output[1], output[2]], wanted) }
    }

    /// Whole rows of one image, about as many.
    pub fn of_rows(images: usize, output: [usize; 3], rows: usize) -> Blocks {
        let parts = output[1].div_ceil(rows.max(1)).max(1);
        Blocks { images, output, size: [1, output[1].div_ceil(parts), output[2]] }
    }

    /// Parts of one row, of about as many columns and whole vectors.
    pub fn of_columns(images: usize, output: [usize; 3], columns: usize, lanes: usize) -> Blocks {
        let parts = output[2].div_ceil(columns.max(1)).max(1);
        let columns = output[2].div_ceil(parts).next_multiple_of(lanes).min(output[2]);
        Blocks { images, output, size: [1, 1, columns] }
    }

    /// How many there are along images, depth, rows and columns.
    fn counts(&self) -> [usize; 4] {
        let [_, height, width] = self.output;
        let [i, h, w] = self.size.map(|n| n.max(1));
        [self.images.div_ceil(i), self.output[0], height.div_ceil(h), width.div_ceil(w)]
    }

    pub fn count(&self) -> usize {
        self.counts().iter().product()
    }

    pub fn get(&self, i: usize) -> Block {
        let [_, depth, down, across] = self.counts();
        let part = |i: usize, size: usize, n: usize| i * size..n.min((i + 1) * size);
        Block {
            images: part(i / across / down / depth, self.size[0], self.images),
            depth: i / across / down % depth,
            rows: part(i / across % down, self.size[1], self.output[1]),
            columns: part(i % across, self.size[2], self.output[2]),
        }
    }
}

/// The sizes of a frame: images, in them channels, in them the slices that a window sees, in them
/// rows.
pub(super) struct Frame<'a> {
    g: &'a Geometry,
    width: usize,
    slice: usize,
    pub channel: usize,
    image: usize,
    images: usize,
}

/// How far the windows of `n` outputs reach.
pub(in super::super) fn reach(g: &Geometry, d: usize, n: usize) -> usize {
    (n - 1) * g.params.stride[d] + (g.kernel[d] - 1) * g.params.dilation[d] + 1
}

/// A table of places in a frame, in a buffer that is not allocated anew.
pub(super) struct Places {
    buffer: Scratch,
    len: usize,
}

impl Places {
    /// An empty one with room for `most`.
    pub fn new(most: usize) -> Places {
        Places { buffer: scratch::take(2 * most), len: 0 }
    }

    /// Beyond the room that was asked for, nothing is added.
    pub fn push(&mut self, at: usize, row: usize) {
        if let Some(to) = self.buffer.get_mut(2 * self.len..2 * self.len + 2) {
            (to[0], to[1]) = (f32::from_bits(at as u32), f32::from_bits(row as u32));
            self.len += 1;
        }
    }
}

impl Deref for Places {
    type Target = [Place];
    fn deref(&self) -> &[Place] {
        // SAFETY: the buffer has that many pairs of numbers, of the same size and alignment.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.len) }
    }
}

/// The elements of a kernel along each dimension.
pub(super) type Taps = [Range<usize>; 3];

impl<'a> Frame<'a> {
    /// A frame of `channels` channels for any of the blocks.
    pub fn new(g: &'a Geometry, blocks: &Blocks, channels: usize) -> Frame<'a> {
        let [images, rows, columns] = blocks.size;
        let slice = reach(g, 1, rows) * reach(g, 2, columns);
        // Channels are not to fall on the same cache lines (an odd number of them apart), and a
        // vector that is written beyond the last row stays in its channel.
        let channel = (g.kernel[0] * slice + 15).div_ceil(32) * 32 + 16;
        Frame { g, width: reach(g, 2, columns), slice, channel, image: channels * channel, images }
    }

    /// Numbers of it, with room for a vector more.
    pub fn len(&self) -> usize {
        self.images * self.image + 16
    }

    /// The place of the window at a row and a column of the block.
    pub fn place(&self, image: usize, row: usize, column: usize) -> usize {
        let [_, sh, sw] = self.g.params.stride;
        image * self.image + row * sh * self.width + column * sw
    }

    /// The place in a window of a channel's element, of the first slice.
    pub fn element(&self, c: usize, h: usize, w: usize) -> usize {
        let [_, dh, dw] = self.g.params.dilation;
        c * self.channel + h * dh * self.width + w * dw
    }

    /// Adds the places of the windows of some rows and columns of a block; their rows are their
    /// numbers in the block.
    pub fn windows(&self, block: &Block, rows: Range<usize>, columns: Range<usize>, to: &mut Places) {
        let (height, width) = (block.rows.len(), block.columns.len());
        for image in 0..block.images.len() {
            for h in rows.clone().map(|h| h - block.rows.start) {
                for w in columns.clone().map(|w| w - block.columns.start) {
                    to.push(self.place(image, h, w), (image * height + h) * width + w);
                }
            }
        }
    }

    /// Adds the places of some elements of a patch in a window, channel by channel; their rows are
    /// their numbers in the patch.
    pub fn elements(&self, channels: usize, taps: &Taps, to: &mut Places) {
        let [_, kh, kw] = self.g.kernel;
        for c in 0..channels {
            for d in taps[0].clone() {
                for h in taps[1].clone() {
                    for w in taps[2].clone() {
                        let at = self.element(c, h, w) + d * self.slice;
                        to.push(at, ((c * self.g.kernel[0] + d) * kh + h) * kw + w);
                    }
                }
            }
        }
    }
}

/// The elements of a kernel along `d` that are inside the image at output `o`.
pub(in super::super) fn taps(g: &Geometry, d: usize, o: usize) -> Range<usize> {
    let (pad, dilation) = (g.params.padding[d].0, g.params.dilation[d]);
    let at = o * g.params.stride[d];
    let first = pad.saturating_sub(at).div_ceil(dilation).min(g.kernel[d]);
    let end = (pad + g.input[d]).saturating_sub(at).div_ceil(dilation).min(g.kernel[d]);
    first..end.max(first)
}

/// Calls `f` with the stretches of `outputs` along `d` that see the same elements of the kernel.
pub(super) fn for_alike(g: &Geometry, d: usize, outputs: Range<usize>, mut f: impl FnMut(Range<usize>, Range<usize>)) {
    let mut from = outputs.start;
    while from < outputs.end {
        let seen = taps(g, d, from);
        let end = (from + 1..outputs.end).find(|&o| taps(g, d, o) != seen).unwrap_or(outputs.end);
        f(from..end, seen);
        from = end;
    }
}

/// How many numbers ahead of what is read lines are asked for: the hardware stops at pages' ends.
pub(super) const AHEAD: usize = 768;

/// Fills a frame with `channels` of the images `x`, whose `step` is the distance of two images.
#[inline(always)]
unsafe fn fill_body<S: Simd>(
    f: &Frame<'_>,
    block: &Block,
    x: &[f32],
    step: usize,
    channels: Range<usize>,
    to: *mut f32,
) {
    let g = f.g;
    let [_, height, width] = g.input;
    let inputs = g.inputs();
    // The columns that are inside the image, and how many zeros come before them.
    let column = block.columns.start * g.params.stride[2];
    let left = g.params.padding[2].0.saturating_sub(column).min(f.width);
    let from_column = column.saturating_sub(g.params.padding[2].0);
    let n = width.saturating_sub(from_column).min(f.width - left);
    let first = block.rows.start * g.params.stride[1];
    let rows = reach(g, 1, block.rows.len());
    for (i, image) in block.images.clone().enumerate() {
        for (c, channel) in channels.clone().enumerate() {
            let plane = &x[image * step + channel * inputs..][..inputs];
            for kd in 0..g.kernel[0] {
                let depth = g.source(0, block.depth, kd);
                for r in 0..rows {
                    let row = (first + r).checked_sub(g.params.padding[1].0).filter(|&r| r < height);
                    // SAFETY: rows are inside the frame, which has a vector more, and are filled
                    // from the first to the last; what is read is inside the plane.
                    unsafe {
                        let to = to.add(i * f.image + c * f.channel + kd * f.slice + r * f.width);
                        let (Some(depth), Some(row), true) = (depth, row, n > 0) else {
                            zero::<S>(to, f.width);
                            continue;
                        };
                        if left > 0 {
                            zero::<S>(to, left);
                        }
                        let from = plane.as_ptr().add((depth * height + row) * width + from_column);
                        prefetch(from.wrapping_add(AHEAD));
                        copy::<S>(from, 1, to.add(left), n);
                        // The last vector of the copy ends in zeros.
                        let done = left + n.next_multiple_of(S::LANES);
                        if done < f.width {
                            zero::<S>(to.add(done), f.width - done);
                        }
                    }
                }
            }
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// `to` has the frame's length.
    pub(super) unsafe fn fill = fill_body(f: &Frame<'_>, block: &Block, x: &[f32], step: usize, channels: Range<usize>, to: *mut f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_outputs_in_order() {
        for (images, output) in [(1, [1, 1, 1000]), (5, [1, 4, 4]), (3, [1, 30, 17]), (2, [3, 5, 9]), (1, [1, 7, 400])]
        {
            let params = crate::conv::ConvParams::default();
            let g = Geometry { input: output, kernel: [1; 3], output, params };
            for wanted in [1, 16, 50, 192] {
                let blocks = Blocks::new(images, output, wanted);
                let mut next = 0;
                for i in 0..blocks.count() {
                    let block = blocks.get(i);
                    assert_eq!(block.first(&g), next, "{images} {output:?} {wanted} {block:?}");
                    assert!(block.len() > 0);
                    next += block.len();
                }
                assert_eq!(next, images * g.outputs());
            }
        }
    }
}
