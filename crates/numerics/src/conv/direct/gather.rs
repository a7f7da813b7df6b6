//! Unrolling of patches, by vectors.

use crate::conv::patches::{Geometry, kernel_elements};
use crate::simd::{Simd, dispatch};
use std::ops::Range;

/// `to[i] = from[i * stride]`; up to a vector behind the last number is overwritten.
#[inline(always)]
pub(super) unsafe fn copy<S: Simd>(from: *const f32, stride: usize, to: *mut f32, n: usize) {
    // SAFETY: the caller gives `n` numbers to read, and room for a vector more.
    unsafe {
        let mut i = 0;
        match stride {
            1 => {
                while i + S::LANES <= n {
                    S::store(to.add(i), S::load(from.add(i)));
                    i += S::LANES;
                }
                if i < n {
                    S::store(to.add(i), S::load_first(from.add(i), n - i));
                }
            }
            2 => {
                while i < n {
                    // Up to the last number that is wanted, which need not be followed by one.
                    let (from, left) = (from.add(2 * i), 2 * (n - i) - 1);
                    let v = if left >= 2 * S::LANES {
                        S::evens(S::load(from), S::load(from.add(S::LANES)))
                    } else {
                        let second = left.saturating_sub(S::LANES);
                        S::evens(
                            S::load_first(from, left.min(S::LANES)),
                            S::load_first(from.wrapping_add(S::LANES), second),
                        )
                    };
                    S::store(to.add(i), v);
                    i += S::LANES;
                }
            }
            _ => {
                while i < n {
                    *to.add(i) = *from.add(i * stride);
                    i += 1;
                }
            }
        }
    }
}

/// Zeros, up to a whole vector.
#[inline(always)]
pub(super) unsafe fn zero<S: Simd>(to: *mut f32, n: usize) {
    for i in (0..n).step_by(S::LANES) {
        // SAFETY: the caller gives room for a vector more.
        unsafe { S::store(to.add(i), S::zero()) }
    }
}

/// Output positions of one image: a row per channel of `x` and kernel element, `pitch` apart.
#[inline(always)]
unsafe fn gather_body<S: Simd>(
    g: &Geometry,
    x: &[f32],
    channels: usize,
    positions: Range<usize>,
    to: *mut f32,
    pitch: usize,
) {
    let stride = g.params.stride[2];
    let (inputs, kernel) = (g.inputs(), g.kernel.iter().product::<usize>());
    assert!(x.len() >= channels * inputs);
    // A row is filled from left to right, so whole vectors may be written: what is behind the
    // wanted numbers is overwritten later, or lies behind the row.
    g.for_rows(positions.start, positions.len(), |at, [d, h], columns| {
        let n = columns.len();
        for (k, [kd, kh, kw]) in kernel_elements(g.kernel).enumerate() {
            // SAFETY: the caller gives a row per kernel element and channel.
            let to = unsafe { to.add(k * pitch + at) };
            let inside = g.inside(2, kw, columns.clone());
            let source = (g.source(0, d, kd), g.source(1, h, kh), g.source(2, inside.start, kw));
            let (Some(d), Some(h), Some(w), false) = (source.0, source.1, source.2, inside.is_empty()) else {
                for c in 0..channels {
                    // SAFETY: as above.
                    unsafe { zero::<S>(to.add(c * kernel * pitch), n) };
                }
                continue;
            };
            let (left, right) = (inside.start - columns.start, inside.end - columns.start);
            let from = (d * g.input[1] + h) * g.input[2] + w;
            debug_assert!(from + (right - left - 1) * stride < inputs);
            for c in 0..channels {
                // SAFETY: `inside` are the columns whose source is in the image.
                unsafe {
                    let to = to.add(c * kernel * pitch);
                    if left > 0 {
                        zero::<S>(to, left);
                    }
                    copy::<S>(x.as_ptr().add(c * inputs + from), stride, to.add(left), right - left);
                    if right < n {
                        zero::<S>(to.add(right), n - right);
                    }
                }
            }
        }
    });
}
dispatch! {
    /// # Safety
    ///
    /// `to` has a row of that many numbers, and a vector more, for each channel of `x` and kernel
    /// element.
    pub(super) unsafe fn gather = gather_body(g: &Geometry, x: &[f32], channels: usize, positions: Range<usize>, to: *mut f32, pitch: usize)
}
