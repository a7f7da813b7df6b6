//! Convolutions whose finished images are handed on while they are in the cache.

use super::{ConvParams, Problem, as_f32, conv_forward, fast};
use crate::element::Real;
use crate::epilogue::{Epilogue, Then};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::for_tasks;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// What [`conv_forward_then`] calls with an image and the channels of it that are final.
pub type FinishedImage<'a> = &'a (dyn Fn(usize, Range<usize>) + Sync);

/// Batches of fewer images than this hand on parts of images, for all threads to have some.
const FEW: usize = 4;

/// Numbers of the channels that are handed on together where images are few.
const PART: usize = 1 << 14;

/// [`conv_forward`], calling `then` with an image and a range of its (output) channels when their
/// planes are final: on the thread that made the last of them, while they are in the cache.
///
/// A range is all channels of the image, or some of them where there are less than four images;
/// ranges do not overlap and together are all channels, and what they are depends on the sizes
/// alone. Images may be finished in any order and at the same time, so `then` may read and write
/// the planes it was called with only. For an empty output it is not called.
///
/// # Safety
///
/// `output` is valid for the output's elements, and during the call only this function uses them,
/// and `then` those of its planes.
pub unsafe fn conv_forward_then<T: Real>(
    input: &[T],
    input_shape: [usize; 5],
    weight: &[T],
    weight_shape: [usize; 5],
    params: &ConvParams,
    output: *mut T,
    then: FinishedImage<'_>,
) {
    let Some(p) = Problem::new(input_shape, weight_shape, params) else { return };
    let (channels, positions) = (p.groups * p.o, p.outputs());
    let len = p.n * channels * positions;
    if len == 0 {
        return;
    }
    let part = PART.div_ceil(positions).min(channels);
    let parts = channels.div_ceil(part);
    let all = |out: *mut T, parallel: bool| {
        // SAFETY: by the caller's promise; nobody else uses it until the slice is gone.
        let out = unsafe { std::slice::from_raw_parts_mut(out, len) };
        conv_forward(input, input_shape, weight, weight_shape, params, out);
        for_tasks(p.n * parts, parallel, |t| {
            let first = t % parts * part;
            then(t / parts, first..channels.min(first + part));
        });
    };
    let (Some(x), Some(w)) = (as_f32(input), as_f32(weight)) else { return all(output, true) };
    if p.n < FEW {
        return all(output, len >= 1 << 15);
    }
    // How many numbers of each image are final.
    let mut counts = scratch::take(p.n);
    counts.fill(0.0);
    // SAFETY: an atomic has the size and alignment of an `f32`, and zero bits; the buffer is ours.
    let counts = unsafe { std::slice::from_raw_parts(counts.as_mut_ptr().cast::<AtomicU32>(), p.n) };
    let whole = (channels * positions) as u32;
    let count = |plane: usize, columns: Range<usize>, _: &mut [f32]| {
        let (image, n) = (plane / channels, columns.len() as u32);
        // Whoever brings the last number sees what the others wrote.
        if counts[image].fetch_add(n, Ordering::AcqRel) + n == whole {
            then(image, 0..channels);
        }
    };
    // SAFETY: the elements are `f32`, and the caller's promise.
    let y = unsafe { std::slice::from_raw_parts_mut(output.cast::<f32>(), len) };
    let e = Epilogue { then: Some(Then(&count)), ..Epilogue::default() };
    if channels * positions > u32::MAX as usize || !fast::forward(Isa::detect(), &p, x, w, y, &e) {
        all(output, true);
    }
}
