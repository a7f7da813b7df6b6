//! Outputs of a plane, some rows of vectors at a time.

use super::Shape;
use crate::epilogue::Epilogue;
use crate::simd::{Simd, dispatch};

/// Where a plane's outputs go, and what is done to them.
pub(super) struct Out<'a> {
    pub y: *mut f32,
    /// The plane's first element.
    pub at: usize,
    pub channel: usize,
    pub epilogue: &'a Epilogue<'a>,
}

/// A vector of every (second) number.
#[inline(always)]
pub(super) unsafe fn read<S: Simd>(p: *const f32, stride: usize) -> S::V {
    // SAFETY: the caller gives a vector's numbers, or two.
    unsafe { if stride == 1 { S::load(p) } else { S::evens(S::load(p), S::load(p.add(S::LANES))) } }
}

/// `N` rows of outputs from `row` on: as many sums side by side, for one would wait for itself.
/// Kernels are `K` wide, any width if that is zero.
#[inline(always)]
unsafe fn rows<S: Simd, const N: usize, const K: usize>(s: &Shape, x: &[f32], w: &[f32], row: usize, out: &Out<'_>) {
    let wide = if K == 0 { s.kernel.1 } else { K };
    for first in (0..s.output.1).step_by(S::LANES) {
        let n = (s.output.1 - first).min(S::LANES);
        // SAFETY: the frame has a row for each kernel row, and two vectors behind its end.
        unsafe {
            let mut sums = [S::zero(); N];
            for kh in 0..s.kernel.0 {
                let from = x.as_ptr().add((row * s.stride.0 + kh * s.dilation.0) * s.width + first * s.stride.1);
                for kw in 0..wide {
                    let tap = S::splat(*w.get_unchecked(kh * wide + kw));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let p = from.add(i * s.stride.0 * s.width + kw * s.dilation.1);
                        *sum = S::fma(read::<S>(p, s.stride.1), tap, *sum);
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                let to = out.at + (row + i) * s.output.1 + first;
                S::store_first(out.y.add(to), out.epilogue.channel::<S>(sum, out.channel, to, n), n);
            }
        }
    }
}

/// [`rows`] for kernels of `K` by `K` neighbours and unit strides: every vector that is read serves
/// all the outputs above it.
#[inline(always)]
unsafe fn square_rows<S: Simd, const N: usize, const K: usize>(
    s: &Shape,
    x: &[f32],
    w: &[f32],
    row: usize,
    out: &Out<'_>,
) {
    // SAFETY: as in `rows`.
    unsafe {
        for first in (0..s.output.1).step_by(S::LANES) {
            let n = (s.output.1 - first).min(S::LANES);
            let from = x.as_ptr().add(row * s.width + first);
            let mut sums = [S::zero(); N];
            for r in 0..N + K - 1 {
                for kw in 0..K {
                    let v = S::load(from.add(r * s.width + kw));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        if i <= r && r - i < K {
                            *sum = S::fma(v, S::splat(*w.get_unchecked((r - i) * K + kw)), *sum);
                        }
                    }
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                let to = out.at + (row + i) * s.output.1 + first;
                S::store_first(out.y.add(to), out.epilogue.channel::<S>(sum, out.channel, to, n), n);
            }
        }
    }
}

/// Adds row `r` of the frame to outputs `i` of a group of four.
#[inline(always)]
unsafe fn step<S: Simd, const K: usize>(
    sums: &mut [S::V; 4],
    i: std::ops::Range<usize>,
    from: *const f32,
    w: *const f32,
    r: usize,
) {
    // Elements spread over vectors are not to be kept for the next row: there are more of them than
    // registers, and reading them back takes longer than spreading them again.
    let w = std::hint::black_box(w);
    // SAFETY: the caller gives a row of the frame and a kernel.
    unsafe {
        for kw in 0..K {
            let v = S::load(from.add(kw));
            for i in i.clone() {
                sums[i] = S::fma(v, S::splat(*w.add((r - i) * K + kw)), sums[i]);
            }
        }
    }
}

/// Four rows of outputs for larger kernels: [`square_rows`] would not be unrolled.
#[inline(always)]
unsafe fn four_rows<S: Simd, const K: usize>(s: &Shape, x: &[f32], w: &[f32], row: usize, out: &Out<'_>) {
    // SAFETY: as in `rows`.
    unsafe {
        for first in (0..s.output.1).step_by(S::LANES) {
            let w = w.as_ptr();
            let n = (s.output.1 - first).min(S::LANES);
            let from = x.as_ptr().add(row * s.width + first);
            let mut sums = [S::zero(); 4];
            step::<S, K>(&mut sums, 0..1, from, w, 0);
            step::<S, K>(&mut sums, 0..2, from.add(s.width), w, 1);
            step::<S, K>(&mut sums, 0..3, from.add(2 * s.width), w, 2);
            for r in 3..K {
                step::<S, K>(&mut sums, 0..4, from.add(r * s.width), w, r);
            }
            step::<S, K>(&mut sums, 1..4, from.add(K * s.width), w, K);
            step::<S, K>(&mut sums, 2..4, from.add((K + 1) * s.width), w, K + 1);
            step::<S, K>(&mut sums, 3..4, from.add((K + 2) * s.width), w, K + 2);
            for (i, sum) in sums.into_iter().enumerate() {
                let to = out.at + (row + i) * s.output.1 + first;
                S::store_first(out.y.add(to), out.epilogue.channel::<S>(sum, out.channel, to, n), n);
            }
        }
    }
}

/// Whole planes of those.
#[inline(always)]
unsafe fn square_of<S: Simd, const K: usize>(s: &Shape, x: &[f32], w: &[f32], out: &Out<'_>) {
    let mut row = 0;
    while row < s.output.0 {
        let left = s.output.0 - row;
        // SAFETY: the caller's promise; rows are inside the output.
        unsafe {
            match left {
                1 => rows::<S, 1, K>(s, x, w, row, out),
                2 => rows::<S, 2, K>(s, x, w, row, out),
                3 => rows::<S, 3, K>(s, x, w, row, out),
                _ if K == 3 => square_rows::<S, 4, K>(s, x, w, row, out),
                _ => four_rows::<S, K>(s, x, w, row, out),
            }
        }
        row += left.min(4);
    }
}

#[inline(always)]
unsafe fn plane_of<S: Simd, const K: usize>(s: &Shape, x: &[f32], w: &[f32], out: &Out<'_>) {
    let mut row = 0;
    while row < s.output.0 {
        let left = s.output.0 - row;
        // SAFETY: the caller's promise; rows are inside the output.
        unsafe {
            match left {
                1 => rows::<S, 1, K>(s, x, w, row, out),
                2 => rows::<S, 2, K>(s, x, w, row, out),
                3 => rows::<S, 3, K>(s, x, w, row, out),
                _ => rows::<S, 4, K>(s, x, w, row, out),
            }
        }
        row += left.min(4);
    }
}

#[inline(always)]
unsafe fn plane_body<S: Simd>(s: &Shape, x: &[f32], w: &[f32], out: &Out<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match s.kernel.1 {
            3 if s.is_square() => square_of::<S, 3>(s, x, w, out),
            5 if s.is_square() => square_of::<S, 5>(s, x, w, out),
            7 if s.is_square() => square_of::<S, 7>(s, x, w, out),
            3 => plane_of::<S, 3>(s, x, w, out),
            5 => plane_of::<S, 5>(s, x, w, out),
            7 => plane_of::<S, 7>(s, x, w, out),
            _ => plane_of::<S, 0>(s, x, w, out),
        }
    }
}
dispatch! {
    /// Convolves a plane.
    ///
    /// # Safety
    ///
    /// The frame has room for every window and two vectors more, and the outputs are this thread's.
    pub(super) unsafe fn plane = plane_body(s: &Shape, x: &[f32], w: &[f32], out: &Out<'_>)
}
