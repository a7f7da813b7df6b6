//! Between images and points: the 2-d transforms of rows of tiles.
//!
//! Lanes are tiles. Along a row, tiles are four numbers apart: rows are taken apart by their place
//! in a tile (`deinterleave4`), transformed, and kept in planes by their row modulo four. In those
//! planes the tiles of all rows follow each other, so the transform down the columns runs over
//! full vectors whatever the image's width.

// Indices of registers: an iterator says less, and may not unroll.
#![allow(clippy::needless_range_loop)]

use super::transform;
use crate::epilogue::Epilogue;
use crate::simd::{Simd, dispatch};

/// Points of a tile.
pub(super) const POINTS: usize = 36;

/// What the widest vector may read or write behind the last tile.
pub(super) const SLACK: usize = 16;

/// A run of whole rows of tiles of one plane.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Rows and columns of the plane.
    pub size: (usize, usize),
    /// Zeros above and left of the plane that tiles start in.
    pub pad: (usize, usize),
    /// Tiles in a row.
    pub across: usize,
    /// The first row of tiles, and how many.
    pub first: usize,
    pub rows: usize,
}

impl Run {
    /// Numbers of working memory the transforms below need.
    pub fn scratch(&self) -> usize {
        // Six times four planes of rows + 1 rows of tiles, and a line of the image.
        24 * ((self.rows + 1) * self.across + SLACK) + 4 * self.across + 8 + 5 * SLACK
    }
}

/// One line of a plane with its zeros, in `line`, which is zero where no line ever reaches.
#[inline(always)]
unsafe fn line_at<S: Simd>(run: &Run, plane: *const f32, row: usize, line: *mut f32, len: usize) -> bool {
    let Some(row) = row.checked_sub(run.pad.0).filter(|&r| r < run.size.0) else { return false };
    let n = run.size.1.min(len - run.pad.1);
    // SAFETY: the row is inside the plane, and the line is longer than `len` by more than a vector;
    // what is written behind the row are zeros.
    unsafe {
        let (from, to) = (plane.add(row * run.size.1), line.add(run.pad.1));
        let mut i = 0;
        while i + S::LANES <= n {
            S::store(to.add(i), S::load(from.add(i)));
            i += S::LANES;
        }
        if i < n {
            S::store(to.add(i), S::load_first(from.add(i), n - i));
        }
    }
    true
}

/// `Bt d B` of a run's tiles: point `p` of tile `t` to `out[p * point + t]`, and up to [`SLACK`]
/// numbers after the last tile are overwritten.
#[inline(always)]
unsafe fn input_body<S: Simd>(run: &Run, plane: *const f32, scratch: *mut f32, out: *mut f32, point: usize) {
    // SAFETY: the caller gives a plane of `size`, `scratch()` numbers and room for all points.
    unsafe {
        let (across, pitch) = (run.across, (run.rows + 1) * run.across + SLACK);
        let len = 4 * across + 2;
        let line = scratch.add(24 * pitch);
        std::slice::from_raw_parts_mut(line, len + 4 + 5 * SLACK).fill(0.0);
        for row in 0..4 * run.rows + 2 {
            let there = line_at::<S>(run, plane, 4 * run.first + row, line, len);
            let to = scratch.add(row % 4 * pitch + row / 4 * across);
            for t in (0..across).step_by(S::LANES) {
                let points = if there {
                    let [a, b, c, d] = S::deinterleave4(line.add(4 * t));
                    let [e, f, _, _] = S::deinterleave4(line.add(4 * t + 4));
                    transform::input::<S>([a, b, c, d, e, f])
                } else {
                    [S::zero(); 6]
                };
                for (j, v) in points.into_iter().enumerate() {
                    S::store(to.add(4 * j * pitch + t), v);
                }
            }
        }
        for t in (0..run.rows * across).step_by(S::LANES) {
            for j in 0..6 {
                let d = std::array::from_fn(|i| S::load(scratch.add((4 * j + i % 4) * pitch + i / 4 * across + t)));
                for (i, v) in transform::input::<S>(d).into_iter().enumerate() {
                    S::store(out.add((6 * i + j) * point + t), v);
                }
            }
        }
    }
}

/// `A y At` of a run's tiles of a gradient: as [`input`], with tiles that do not overlap.
#[inline(always)]
unsafe fn output_grad_body<S: Simd>(run: &Run, plane: *const f32, scratch: *mut f32, out: *mut f32, point: usize) {
    // SAFETY: as above.
    unsafe {
        let (across, pitch) = (run.across, (run.rows + 1) * run.across + SLACK);
        let len = 4 * across;
        let line = scratch.add(24 * pitch);
        std::slice::from_raw_parts_mut(line, len + 6 + 5 * SLACK).fill(0.0);
        for row in 0..4 * run.rows {
            let there = line_at::<S>(run, plane, 4 * run.first + row, line, len);
            let to = scratch.add(row % 4 * pitch + row / 4 * across);
            for t in (0..across).step_by(S::LANES) {
                let points =
                    if there { transform::output_grad::<S>(S::deinterleave4(line.add(4 * t))) } else { [S::zero(); 6] };
                for (j, v) in points.into_iter().enumerate() {
                    S::store(to.add(4 * j * pitch + t), v);
                }
            }
        }
        for t in (0..run.rows * across).step_by(S::LANES) {
            for j in 0..6 {
                let y = std::array::from_fn(|i| S::load(scratch.add((4 * j + i) * pitch + t)));
                for (i, v) in transform::output_grad::<S>(y).into_iter().enumerate() {
                    S::store(out.add((6 * i + j) * point + t), v);
                }
            }
        }
    }
}

/// `At m A` of `tiles` tiles to 16 planes in `scratch`, `tiles + SLACK` apart.
#[inline(always)]
unsafe fn output_body<S: Simd>(tiles: usize, points: *const f32, point: usize, scratch: *mut f32) {
    // SAFETY: the caller gives all points, and room for 16 planes.
    unsafe {
        let pitch = tiles + SLACK;
        for t in (0..tiles).step_by(S::LANES) {
            let mut half = [[S::zero(); 6]; 4];
            for j in 0..6 {
                let m = std::array::from_fn(|i| S::load(points.add((6 * i + j) * point + t)));
                for (i, v) in transform::output::<S>(m).into_iter().enumerate() {
                    half[i][j] = v;
                }
            }
            for (i, row) in half.into_iter().enumerate() {
                for (j, v) in transform::output::<S>(row).into_iter().enumerate() {
                    S::store(scratch.add((4 * i + j) * pitch + t), v);
                }
            }
        }
    }
}

/// Where [`write`] puts a run: the plane's channel and the number of its first element.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub channel: usize,
    pub plane: usize,
}

/// The run's tiles, from the planes of [`output`] (`pitch` apart), to the rows of an output plane.
#[inline(always)]
unsafe fn write_body<S: Simd>(run: &Run, from: *const f32, pitch: usize, e: &Epilogue<'_>, at: Place, out: *mut f32) {
    let (height, width) = run.size;
    // SAFETY: rows and columns are inside the plane; the epilogue's sizes were checked.
    unsafe {
        for row in 0..(4 * run.rows).min(height - 4 * run.first) {
            let planes = from.add(row % 4 * 4 * pitch + row / 4 * run.across);
            let first = at.plane + (4 * run.first + row) * width;
            for t in (0..run.across).step_by(S::LANES) {
                let parts = S::interleave4(std::array::from_fn(|j| S::load(planes.add(j * pitch + t))));
                for (i, v) in parts.into_iter().enumerate() {
                    let column = 4 * t + i * S::LANES;
                    if column < width {
                        let n = (width - column).min(S::LANES);
                        let v = e.channel::<S>(v, at.channel, first + column, n);
                        if n == S::LANES {
                            S::store(out.add(first + column), v);
                        } else {
                            S::store_first(out.add(first + column), v, n);
                        }
                    }
                }
            }
        }
    }
}

/// Weights: number `i` of row `r` and inner index `k` is `data[r * row + k * inner + i]`.
#[derive(Clone, Copy)]
pub(in super::super) struct Weights<'a> {
    pub data: &'a [f32],
    pub row: usize,
    pub inner: usize,
    /// Whether the kernels are turned by 180 degrees.
    pub flip: bool,
}

/// `G g Gt` of some rows: point `p` of inner index `k < depth` of the `r`-th of them to `out[p * point + r * pitch + k]`, and up
/// to [`SLACK`] numbers more. Rows are neighbours in memory where the kernels are those of a gradient: all are done with
/// some inner indices before the next.
#[inline(always)]
unsafe fn weights_body<S: Simd>(
    w: &Weights<'_>,
    rows: std::ops::Range<usize>,
    depth: usize,
    out: *mut f32,
    pitch: usize,
    point: usize,
) {
    // SAFETY: the caller gives weights of these sizes and room for all points.
    unsafe {
        let mut taps = [0.0f32; 16 * SLACK];
        for k in (0..depth).step_by(S::LANES) {
            for r in rows.clone() {
                let at = r * w.row + k * w.inner;
                let lanes = S::LANES.min(depth - k);
                if S::LANES == 16 && lanes == 16 && at + 15 * w.inner + 16 <= w.data.len() {
                    // What follows a kernel's nine numbers comes along.
                    S::transpose(w.data.as_ptr().add(at), w.inner, taps.as_mut_ptr(), S::LANES);
                } else {
                    for lane in 0..lanes {
                        let from = w.data.as_ptr().add(at + lane * w.inner);
                        (0..9).for_each(|i| taps[i * S::LANES + lane] = *from.add(i));
                    }
                }
                let mut half = [[S::zero(); 3]; 6];
                for j in 0..3 {
                    let g = std::array::from_fn(|i| {
                        let tap = 3 * i + j;
                        S::load(taps.as_ptr().add(if w.flip { 8 - tap } else { tap } * S::LANES))
                    });
                    for (i, v) in transform::weight::<S>(g).into_iter().enumerate() {
                        half[i][j] = v;
                    }
                }
                for (i, row) in half.into_iter().enumerate() {
                    for (j, v) in transform::weight::<S>(row).into_iter().enumerate() {
                        S::store(out.add((6 * i + j) * point + (r - rows.start) * pitch + k), v);
                    }
                }
            }
        }
    }
}

/// `Gt s G` of one row: the nine weights of inner index `k` to `out[9 k ..]`.
#[inline(always)]
unsafe fn weight_grad_body<S: Simd>(depth: usize, points: *const f32, point: usize, out: *mut f32) {
    // SAFETY: the caller gives all points (with SLACK behind them) and `9 * depth` outputs.
    unsafe {
        let mut taps = [0.0f32; 9 * SLACK];
        for k in (0..depth).step_by(S::LANES) {
            let mut half = [[S::zero(); 6]; 3];
            for j in 0..6 {
                let s = std::array::from_fn(|i| S::load(points.add((6 * i + j) * point + k)));
                for (i, v) in transform::weight_grad::<S>(s).into_iter().enumerate() {
                    half[i][j] = v;
                }
            }
            for (i, row) in half.into_iter().enumerate() {
                for (j, v) in transform::weight_grad::<S>(row).into_iter().enumerate() {
                    S::store(taps.as_mut_ptr().add((3 * i + j) * S::LANES), v);
                }
            }
            for lane in 0..S::LANES.min(depth - k) {
                for i in 0..9 {
                    *out.add((k + lane) * 9 + i) = taps[i * S::LANES + lane];
                }
            }
        }
    }
}

/// `rows` by `columns` numbers to their transpose, in whole squares of [`SLACK`].
#[inline(always)]
unsafe fn transpose_body<S: Simd>(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize) {
    for i in (0..rows).step_by(S::LANES) {
        for j in (0..columns).step_by(S::LANES) {
            // SAFETY: the caller gives room for whole squares.
            unsafe { S::transpose(x.add(i * from + j), from, y.add(j * to + i), to) }
        }
    }
}

dispatch!(pub(super) unsafe fn input = input_body(run: &Run, plane: *const f32, scratch: *mut f32, out: *mut f32, point: usize));
dispatch!(pub(super) unsafe fn output_grad = output_grad_body(run: &Run, plane: *const f32, scratch: *mut f32, out: *mut f32, point: usize));
dispatch!(pub(super) unsafe fn output = output_body(tiles: usize, points: *const f32, point: usize, scratch: *mut f32));
dispatch!(pub(super) unsafe fn write = write_body(run: &Run, from: *const f32, pitch: usize, e: &Epilogue<'_>, at: Place, out: *mut f32));
dispatch!(pub(super) unsafe fn weights = weights_body(w: &Weights<'_>, rows: std::ops::Range<usize>, depth: usize, out: *mut f32, pitch: usize, point: usize));
dispatch!(pub(super) unsafe fn weight_grad = weight_grad_body(depth: usize, points: *const f32, point: usize, out: *mut f32));
dispatch!(pub(super) unsafe fn transpose = transpose_body(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize));
