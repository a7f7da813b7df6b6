//! The gradient for the weights without unrolled patches: elements of the kernel meet vectors of
//! output channels, for all positions, which are read where they lie in a padded copy.

use super::frame::{Blocks, Frame, Places, fill, taps};
use super::indexed::{Indexed, for_panels, indexed};
use crate::conv::patches::Geometry;
use crate::scratch;
use crate::simd::Isa;
use std::ops::Range;

/// Output positions of a block: a panel of their gradients stays in the L2 cache.
const POSITIONS: usize = 512;

/// Fewer elements than that are not told apart by the positions that see them.
const ALIKE: usize = 8;

/// The places of all windows and elements, for any image.
pub(super) struct Tables<'a> {
    g: &'a Geometry,
    blocks: Blocks,
    frame: Frame<'a>,
    channels: usize,
    /// Elements that meet the same positions: whole rows or columns of the kernel, or one.
    high: usize,
    wide: usize,
    windows: Places,
    /// Where the windows of each block start.
    starts: Places,
    elements: Places,
}

// SAFETY: read only, once made.
unsafe impl Sync for Tables<'_> {}

impl<'a> Tables<'a> {
    /// For parts of up to `channels` channels.
    pub fn new(g: &'a Geometry, channels: usize) -> Tables<'a> {
        let blocks = Blocks::new(1, g.output, POSITIONS);
        let frame = Frame::new(g, &blocks, channels);
        let [deep, kh, kw] = g.kernel;
        let whole_rows = (0..blocks.count()).all(|i| blocks.get(i).columns == (0..g.output[2]));
        let high = if channels * kw >= ALIKE { 1 } else { kh };
        let wide = if channels >= ALIKE && high == 1 && whole_rows { 1 } else { kw };
        let mut windows = Places::new(g.outputs() * (kw / wide));
        let mut starts = Places::new(blocks.count());
        for i in 0..blocks.count() {
            let block = blocks.get(i);
            starts.push(windows.len(), 0);
            for w in (0..kw).step_by(wide) {
                frame.windows(&block, block.rows.clone(), columns(g, w, wide, block.columns.clone()), &mut windows);
            }
        }
        let mut elements = Places::new(channels * deep * kh * kw);
        for d in 0..deep {
            for h in (0..kh).step_by(high) {
                for w in (0..kw).step_by(wide) {
                    frame.elements(channels, &[d..d + 1, h..h + high, w..w + wide], &mut elements);
                }
            }
        }
        Tables { g, blocks, frame, channels, high, wide, windows, starts, elements }
    }

    /// How many blocks an image has.
    pub fn blocks(&self) -> usize {
        self.blocks.count()
    }

    /// The positions of a block.
    pub fn positions(&self, i: usize) -> Range<usize> {
        let block = self.blocks.get(i);
        let first = block.first(self.g);
        first..first + block.len()
    }

    /// Adds the products of block `i` of an image to the sums of some of its channels.
    ///
    /// # Safety
    ///
    /// `gradients` has a row of `row` numbers for each position of the block, and `sums` one for each
    /// element of the channels, used by nobody else, `vectors` vectors of which are there.
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn add(
        &self,
        isa: Isa,
        i: usize,
        x: &[f32],
        channels: Range<usize>,
        gradients: *const f32,
        sums: *mut f32,
        row: usize,
        vectors: usize,
        add: bool,
    ) {
        let g = self.g;
        let [deep, kh, kw] = g.kernel;
        let set = self.high * self.wide;
        let mut framed = scratch::take(self.frame.len());
        let block = self.blocks.get(i);
        let seen = taps(g, 0, block.depth);
        let mut next = self.starts[i].at as usize;
        // SAFETY: the frame has this length; places and rows are inside it and the buffers.
        unsafe {
            fill(isa, &self.frame, &block, x, 0, channels.clone(), framed.as_mut_ptr());
            for w in (0..kw).step_by(self.wide) {
                let columns = columns(g, w, self.wide, block.columns.clone()).len();
                let windows = &self.windows[next..next + block.rows.len() * columns];
                next += windows.len();
                for (d, h) in (0..deep).flat_map(|d| (0..kh).step_by(self.high).map(move |h| (d, h))) {
                    let rows = if !seen.contains(&d) {
                        block.rows.start..block.rows.start
                    } else if self.high == 1 {
                        g.inside(1, h, block.rows.clone())
                    } else {
                        block.rows.clone()
                    };
                    let (from, end) = (rows.start - block.rows.start, rows.end - block.rows.start);
                    let place = ((d * kh + h) * kw + w * self.high) * self.channels;
                    let p = Indexed {
                        a: framed.as_ptr(),
                        rows: &self.elements[place..][..set * channels.len()],
                        columns: &windows[from * columns..end * columns],
                        b: gradients,
                        b_row: row,
                        c: sums,
                        c_row: row,
                        vectors: 0,
                        add,
                    };
                    for_panels(vectors, |vector, n| {
                        let lanes = vector * isa.lanes();
                        indexed(isa, &Indexed { b: p.b.add(lanes), c: p.c.add(lanes), vectors: n, ..p });
                    });
                }
            }
        }
    }
}

/// The columns of outputs that see one element of the kernel's rows, or all if it is several.
fn columns(g: &Geometry, w: usize, wide: usize, columns: Range<usize>) -> Range<usize> {
    if wide == 1 { g.inside(2, w, columns) } else { columns }
}
