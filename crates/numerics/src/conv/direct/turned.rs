//! Weights of a gradient for the input, packed from where they lie.
//!
//! Such a gradient is a convolution from output to input channels with some elements of the kernels, the last first.
//! A matrix of them would be as large as the weights, which is written once and read once: more time than the sums of
//! small images take.

use super::Job;
use crate::conv::turn::turn_body;
use crate::gemm::{Panel, pack_panel};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, prefetch};
use std::ops::Range;

/// How weights lie: kernels of `size` elements, those of an output channel (that sums go over) side by side, of which
/// `taps` are used.
#[derive(Clone, Copy)]
pub(super) struct Turned<'a> {
    pub size: usize,
    /// Each below `size`.
    pub taps: &'a [usize],
}

/// Kernels to turn: `rows` of them side by side, of each of `channels` channels, which are `step` numbers apart.
struct Kernels<'a> {
    data: &'a [f32],
    rows: usize,
    channels: usize,
    step: usize,
    turned: Turned<'a>,
}

/// One row of `row` numbers for each tap of each channel, by way of `room`.
#[inline(always)]
unsafe fn pack_body<S: Simd>(k: &Kernels<'_>, room: &mut [f32], to: *mut f32, row: usize) {
    let Turned { size, taps } = k.turned;
    assert!(room.len() >= size.max(S::LANES) * S::LANES, "a turned kernel in each lane");
    for channel in 0..k.channels {
        for from in (0..k.rows).step_by(S::LANES) {
            let count = (k.rows - from).min(S::LANES);
            let weights = &k.data[channel * k.step + from * size..];
            assert!(weights.len() >= count * size, "kernels inside the weights");
            // More of each kernel than it has is the next one: squares are turned faster.
            let wide = if weights.len() >= count * size + S::LANES { size.max(S::LANES) } else { size };
            // SAFETY: the kernels are inside the weights, and the room has a row for each number of them; those of the
            // output are the caller's promise, and lanes beyond the last row may hold anything.
            unsafe {
                let next = weights.as_ptr().wrapping_add(k.step);
                (0..count * size).step_by(16).for_each(|i| prefetch(next.wrapping_add(i)));
                turn_body::<S>(count, wide, weights.as_ptr(), size, room.as_mut_ptr(), S::LANES);
                for (j, &tap) in taps.iter().enumerate() {
                    debug_assert!(tap < size);
                    let numbers = S::load(room.as_ptr().add(tap * S::LANES));
                    S::store(to.add((channel * taps.len() + j) * row + from), numbers);
                }
            }
        }
    }
}
dispatch!(unsafe fn pack = pack_body(k: &Kernels<'_>, room: &mut [f32], to: *mut f32, row: usize));

/// Packs all elements of `rows` kernels of `size` side by side, of each of `channels` channels, which are `step` numbers
/// apart: one row of `row` numbers for each element of each channel.
///
/// # Safety
///
/// There is room at `to` for rows of whole vectors, used by nobody else.
pub(super) unsafe fn pack_kernels(
    isa: Isa,
    data: &[f32],
    (rows, channels, step): (usize, usize, usize),
    turned: Turned<'_>,
    (to, row): (*mut f32, usize),
) {
    let mut room = scratch::take(turned.size.max(isa.lanes()) * isa.lanes());
    // SAFETY: the caller's promise.
    unsafe { pack(isa, &Kernels { data, rows, channels, step, turned }, &mut room, to, row) }
}

impl Job<'_> {
    /// Packs the elements `elements` (whole channels) of the rows `rows`: one row of `row` numbers for each element.
    ///
    /// # Safety
    ///
    /// There is room at `to` for rows of whole vectors, used by nobody else.
    pub(super) unsafe fn pack_turned(
        &self,
        isa: Isa,
        turned: Turned<'_>,
        group: usize,
        rows: Range<usize>,
        elements: Range<usize>,
        (to, row): (*mut f32, usize),
    ) {
        let first = elements.start / turned.taps.len();
        let at = ((group * self.channels + first) * self.rows + rows.start) * turned.size;
        let (rows, channels) = (rows.len(), elements.len() / turned.taps.len());
        let step = self.rows * turned.size;
        if turned.size == 1 {
            // Rows as they lie.
            let from = &self.weights[at..];
            assert!(from.len() >= (channels - 1) * step + rows, "kernels inside the weights");
            let panel = Panel { depth: channels, columns: rows, b: from.as_ptr(), steps: (step, 1) };
            // SAFETY: the panel is inside the weights; the rest is the caller's promise.
            return unsafe { pack_panel(isa, &panel, to, row) };
        }
        // SAFETY: the caller's promise.
        unsafe { pack_kernels(isa, &self.weights[at..], (rows, channels, step), turned, (to, row)) }
    }
}
