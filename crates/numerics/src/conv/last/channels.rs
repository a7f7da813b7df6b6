//! A kernel for each channel. Rows of pixels are rows of numbers, of which a vector takes as many as it has lanes, whatever the
//! number of channels: a kernel's elements repeat along with them. Some rows of outputs share each vector of elements.

use crate::conv::direct::reach;
use crate::conv::patches::{Geometry, kernel_elements};
use crate::conv::turn::turn;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Rows of outputs that are summed up side by side.
const SIDE: usize = 6;

/// Numbers of a padded part of an image: it stays in the second cache.
const PART: usize = 1 << 16;

/// Outputs of a row in a vector.
struct Vector {
    /// The place of the first window, and of the first output.
    x: usize,
    y: usize,
    /// Its channel, and how many outputs there are.
    channel: usize,
    count: usize,
}

/// Rows of outputs.
struct Rows<'a> {
    vectors: &'a [Vector],
    /// The place of each of the kernel's elements in a window.
    taps: &'a [usize],
    /// A row of numbers for each element, `w_row` apart.
    w: *const f32,
    w_row: usize,
    /// From row to row of windows, and of outputs.
    x_row: usize,
    y_row: usize,
    /// Rows of a kernel if they are neighbours and follow one another (else zero), and their length.
    near: usize,
    wide: usize,
}

#[inline(always)]
unsafe fn some_rows<S: Simd, const N: usize>(r: &Rows<'_>, x: *const f32, y: *mut f32) {
    for v in r.vectors {
        // SAFETY: the caller's promise; no more than the vector's numbers are read where there are fewer than lanes.
        unsafe {
            let (x, w) = (x.add(v.x), r.w.add(v.channel));
            let mut sums = [S::zero(); N];
            if v.count == S::LANES {
                for (k, &tap) in r.taps.iter().enumerate() {
                    let w = S::load(w.add(k * r.w_row));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(S::load(x.add(tap + i * r.x_row)), w, *sum);
                    }
                }
                sums.into_iter().enumerate().for_each(|(i, sum)| S::store(y.add(v.y + i * r.y_row), sum));
            } else {
                for (k, &tap) in r.taps.iter().enumerate() {
                    let w = S::load(w.add(k * r.w_row));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(S::load_first(x.add(tap + i * r.x_row), v.count), w, *sum);
                    }
                }
                sums.into_iter()
                    .enumerate()
                    .for_each(|(i, sum)| S::store_first(y.add(v.y + i * r.y_row), sum, v.count));
            }
        }
    }
}

/// [`SIDE`] rows for kernels of `K` neighbouring rows that follow one another: every vector that is read serves all the outputs
/// above it.
#[inline(always)]
unsafe fn near_rows<S: Simd, const K: usize>(r: &Rows<'_>, x: *const f32, y: *mut f32) {
    for v in r.vectors {
        // SAFETY: as in `some_rows`.
        unsafe {
            let (x, w) = (x.add(v.x), r.w.add(v.channel));
            let mut sums = [S::zero(); SIDE];
            for (plane, taps) in r.taps.chunks_exact(K * r.wide).enumerate() {
                for (k, &tap) in taps[..r.wide].iter().enumerate() {
                    let w = w.add((plane * K * r.wide + k) * r.w_row);
                    let w: [S::V; K] = std::array::from_fn(|h| S::load(w.add(h * r.wide * r.w_row)));
                    let x = x.add(tap);
                    for row in 0..SIDE + K - 1 {
                        let x = x.add(row * r.x_row);
                        let x = if v.count == S::LANES { S::load(x) } else { S::load_first(x, v.count) };
                        for (i, sum) in sums.iter_mut().enumerate() {
                            if i <= row && row - i < K {
                                *sum = S::fma(x, w[row - i], *sum);
                            }
                        }
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                let y = y.add(v.y + i * r.y_row);
                if v.count == S::LANES { S::store(y, sum) } else { S::store_first(y, sum, v.count) }
            }
        }
    }
}

#[inline(always)]
unsafe fn rows_body<S: Simd>(r: &Rows<'_>, count: usize, x: *const f32, y: *mut f32) {
    for first in (0..count).step_by(SIDE) {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (x.add(first * r.x_row), y.add(first * r.y_row));
            match count - first {
                SIDE.. if r.near == 2 => near_rows::<S, 2>(r, x, y),
                SIDE.. if r.near == 3 => near_rows::<S, 3>(r, x, y),
                SIDE.. if r.near == 4 => near_rows::<S, 4>(r, x, y),
                SIDE.. if r.near == 5 => near_rows::<S, 5>(r, x, y),
                SIDE.. if r.near == 7 => near_rows::<S, 7>(r, x, y),
                1 => some_rows::<S, 1>(r, x, y),
                2 => some_rows::<S, 2>(r, x, y),
                3 => some_rows::<S, 3>(r, x, y),
                4 => some_rows::<S, 4>(r, x, y),
                5 => some_rows::<S, 5>(r, x, y),
                _ => some_rows::<S, SIDE>(r, x, y),
            }
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// Every window of `count` rows is inside `x`, and `y` has as many rows of outputs, used by nobody else.
    unsafe fn rows = rows_body(r: &Rows<'_>, count: usize, x: *const f32, y: *mut f32)
}

/// The vectors of a row of outputs.
fn vectors(g: &Geometry, channels: usize, lanes: usize) -> Vec<Vector> {
    let (wide, stride) = (g.output[2], g.params.stride[2]);
    if stride == 1 {
        let all = wide * channels;
        let vector = |at: usize| Vector { x: at, y: at, channel: at % channels, count: lanes.min(all - at) };
        return (0..all).step_by(lanes).map(vector).collect();
    }
    let pixel = |w: usize| {
        (0..channels).step_by(lanes).map(move |c| Vector {
            x: w * stride * channels + c,
            y: w * channels + c,
            channel: c,
            count: lanes.min(channels - c),
        })
    };
    (0..wide).flat_map(pixel).collect()
}

/// Rows of the input that some outputs see, with zeros where there are none.
struct Part {
    /// Numbers of a row, and rows of a plane.
    row: usize,
    rows: usize,
}

impl Part {
    /// Copies what `count` rows of outputs from `(depth, first)` on see.
    fn fill(
        &self,
        g: &Geometry,
        channels: usize,
        x: &[f32],
        (depth, first, count): (usize, usize, usize),
        to: &mut [f32],
    ) {
        let line = g.input[2] * channels;
        let left = (g.params.padding[2].0 * channels).min(self.row);
        let n = line.min(self.row - left);
        for kd in 0..g.kernel[0] {
            let plane = g.source(0, depth, kd);
            for r in 0..reach(g, 1, count) {
                let to = &mut to[(kd * self.rows + r) * self.row..][..self.row];
                let row =
                    (first * g.params.stride[1] + r).checked_sub(g.params.padding[1].0).filter(|&r| r < g.input[1]);
                let (Some(plane), Some(row)) = (plane, row) else {
                    to.fill(0.0);
                    continue;
                };
                to[..left].fill(0.0);
                to[left..left + n].copy_from_slice(&x[(plane * g.input[1] + row) * line..][..n]);
                to[left + n..].fill(0.0);
            }
        }
    }
}

/// The convolution.
pub(super) fn forward(isa: Isa, g: &Geometry, channels: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let (lanes, kernel) = (isa.lanes(), g.kernel.iter().product::<usize>());
    // A row for each element, that goes on from the last channel to the first.
    let w_row = channels + lanes;
    let mut weights = scratch::take(kernel * w_row);
    // SAFETY: the buffer has a row for each element.
    unsafe { turn(isa, channels, kernel, w.as_ptr(), kernel, weights.as_mut_ptr(), w_row) };
    for row in weights[..kernel * w_row].chunks_exact_mut(w_row) {
        (channels..w_row).for_each(|i| row[i] = row[i - channels]);
    }
    let vectors = vectors(g, channels, lanes);
    let [depths, high, wide] = g.output;
    let padded = g.params.padding != [(0, 0); 3];
    let seen = reach(g, 2, wide) * channels;
    let line = if padded { seen } else { g.input[2] * channels };
    // At least 16 tasks where there are as many rows, and parts that stay in the cache.
    let above = (g.kernel[1] - 1) * g.params.dilation[1];
    let fitting = (PART / (line * g.kernel[0]).max(1)).saturating_sub(above) / g.params.stride[1];
    let images = x.len() / (g.inputs() * channels);
    let tasks = 16usize.div_ceil(images * depths);
    let some = fitting.max(SIDE).min(high.div_ceil(tasks).next_multiple_of(SIDE)).min(high);
    let part = Part { row: line, rows: reach(g, 1, some) };
    // From plane to plane and row to row of a window.
    let [down, across] = [if padded { part.rows } else { g.input[1] * g.params.dilation[0] }, g.params.dilation[1]];
    let tap = |[d, h, w]: [usize; 3]| (d * down + h * across) * line + w * g.params.dilation[2] * channels;
    let taps: Vec<usize> = kernel_elements(g.kernel).map(tap).collect();
    let (x_row, y_row) = (g.params.stride[1] * line, wide * channels);
    let near = if (g.params.stride[1], g.params.dilation[1]) == (1, 1) { g.kernel[1] } else { 0 };
    let kw = g.kernel[2];
    let r = |w: *const f32| Rows { vectors: &vectors, taps: &taps, w, w_row, x_row, y_row, near, wide: kw };
    let (blocks, out, weights) = (high.div_ceil(some), Shared::new(y), Shared::new(&mut weights));
    for_tasks(images * depths * blocks, images * g.outputs() * channels * kernel >= 1 << 15, |t| {
        let (image, depth, first) = (t / blocks / depths, t / blocks % depths, t % blocks * some);
        let count = some.min(high - first);
        let x = &x[image * g.inputs() * channels..][..g.inputs() * channels];
        let to = ((image * depths + depth) * high + first) * y_row;
        let mut framed = scratch::take(if padded { g.kernel[0] * part.rows * line } else { 0 });
        let from = if padded {
            part.fill(g, channels, x, (depth, first, count), &mut framed);
            framed.as_ptr()
        } else {
            x[(depth * g.params.stride[0] * g.input[1] + first * g.params.stride[1]) * line..].as_ptr()
        };
        // SAFETY: windows lie inside the image, or the part of it; tasks write different rows.
        unsafe { rows(isa, &r(weights.ptr()), count, from, out.ptr().add(to)) };
    });
}
