//! Depthwise convolution of `f32` planes by vectors.
//!
//! A plane is copied with its zeros around it, so that no window needs a case of its own; then
//! every vector of outputs is summed up in a register.

use super::super::patches::Geometry;
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, fold};
use crate::tasks::{Shared, for_tasks};

/// What a plane's kernel needs to know.
#[derive(Clone, Copy)]
struct Shape {
    /// The padded plane's width.
    width: usize,
    kernel: (usize, usize),
    stride: (usize, usize),
    dilation: (usize, usize),
    output: (usize, usize),
}

impl Shape {
    /// Whether windows are squares of neighbours, and follow one another.
    fn is_square(&self) -> bool {
        self.kernel.0 == self.kernel.1 && self.stride == (1, 1) && self.dilation == (1, 1)
    }
}

/// A plane with zeros around it.
struct Frame {
    shape: Shape,
    input: (usize, usize),
    pad: (usize, usize),
    /// The distance of the plane's elements in the frame: zeros lie between them.
    spread: (usize, usize),
    len: usize,
}

impl Frame {
    /// For one plane deep arrays and strides that vectors can read.
    fn new(g: &Geometry, spread: (usize, usize)) -> Option<Frame> {
        let p = &g.params;
        let flat = g.kernel[0] == 1 && g.input[0] == 1 && g.output[0] == 1 && p.padding[0] == (0, 0);
        if !flat || p.stride[2] > 2 {
            return None;
        }
        let (kernel, output) = ((g.kernel[1], g.kernel[2]), (g.output[1], g.output[2]));
        let (stride, dilation) = ((p.stride[1], p.stride[2]), (p.dilation[1], p.dilation[2]));
        let rows = (output.0 - 1) * stride.0 + (kernel.0 - 1) * dilation.0 + 1;
        let width = (output.1 - 1) * stride.1 + (kernel.1 - 1) * dilation.1 + 1;
        let shape = Shape { width, kernel, stride, dilation, output };
        // Vectors read up to twice their length beyond the last column.
        Some(Frame {
            shape,
            input: (g.input[1], g.input[2]),
            pad: (p.padding[1].0, p.padding[2].0),
            spread,
            len: rows * width + 48,
        })
    }

    /// Copies a plane into the frame, whose border is zero.
    fn fill(&self, isa: Isa, x: &[f32], frame: &mut [f32]) {
        let rows = (self.len - 48) / self.shape.width;
        // As many as have a place in the frame.
        let fit = |room: usize, n: usize, spread: usize| n.min(room.div_ceil(spread));
        let n = fit(self.shape.width.saturating_sub(self.pad.1), self.input.1, self.spread.1);
        let rows = fit(rows.saturating_sub(self.pad.0), self.input.0, self.spread.0);
        assert!(x.len() >= rows * self.input.1 && frame.len() >= self.len, "the frame holds the plane");
        let first = self.pad.0 * self.shape.width + self.pad.1;
        let step = self.spread.0 * self.shape.width;
        // SAFETY: the last row and column that fit are inside the frame.
        unsafe {
            copy_rows(isa, rows, n, (x.as_ptr(), self.input.1), (frame.as_mut_ptr().add(first), step), self.spread.1)
        }
    }
}

/// Copies rows to a frame, `spread` apart.
#[inline(always)]
unsafe fn copy_rows_body<S: Simd>(
    rows: usize,
    n: usize,
    (x, from): (*const f32, usize),
    (y, to): (*mut f32, usize),
    spread: usize,
) {
    for r in 0..rows {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (x.add(r * from), y.add(r * to));
            if spread == 1 {
                let mut i = 0;
                while i + S::LANES <= n {
                    S::store(y.add(i), S::load(x.add(i)));
                    i += S::LANES;
                }
                if i < n {
                    S::store_first(y.add(i), S::load_first(x.add(i), n - i), n - i);
                }
            } else if spread == 2 {
                for i in (0..n).step_by(S::LANES) {
                    let left = (n - i).min(S::LANES);
                    // The last has no zero behind it.
                    let all = 2 * left - 1;
                    let [a, b] = S::interleave2(S::load_first(x.add(i), left), S::zero());
                    S::store_first(y.add(2 * i), a, all.min(S::LANES));
                    if all > S::LANES {
                        S::store_first(y.add(2 * i + S::LANES), b, all - S::LANES);
                    }
                }
            } else {
                for i in 0..n {
                    *y.add(i * spread) = *x.add(i);
                }
            }
        }
    }
}
dispatch!(unsafe fn copy_rows = copy_rows_body(rows: usize, n: usize, from: (*const f32, usize), to: (*mut f32, usize), spread: usize));

/// Planes of a task, whatever the number of threads.
fn chunk(plane: usize) -> usize {
    ((1 << 13) / plane.max(1)).max(1)
}

/// The convolution of every plane with its kernel; `false` where there is no kernel for it. `turned`
/// takes the kernels from the last element to the first; `spread` puts zeros between the elements
/// of `x`.
#[allow(clippy::too_many_arguments)]
pub(super) fn forward(
    isa: Isa,
    g: &Geometry,
    channels: usize,
    x: &[f32],
    w: &[f32],
    turned: bool,
    spread: (usize, usize),
    y: &mut [f32],
    e: &Epilogue<'_>,
) -> bool {
    let Some(frame) = Frame::new(g, spread) else { return false };
    let (inputs, outputs, size) = (g.inputs(), g.outputs(), g.kernel.iter().product::<usize>());
    let planes = y.len() / outputs;
    let out = Shared::new(y);
    let chunk = chunk(outputs);
    for_tasks(planes.div_ceil(chunk), planes * outputs * size >= 1 << 15, |t| {
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        let mut taps = vec![0.0; size];
        for i in t * chunk..planes.min((t + 1) * chunk) {
            let channel = i % channels;
            taps.copy_from_slice(&w[channel * size..][..size]);
            if turned {
                taps.reverse();
            }
            frame.fill(isa, &x[i * inputs..][..inputs], &mut framed);
            // SAFETY: tasks write different planes; the frame has room for every window.
            unsafe {
                let to = Out { y: out.ptr(), at: i * outputs, channel, epilogue: e };
                plane(isa, &frame.shape, &framed, &taps, &to);
                e.call(i, 0..outputs, out.ptr().add(i * outputs));
            }
        }
    });
    true
}

/// Where a plane's outputs go, and what is done to them.
struct Out<'a> {
    y: *mut f32,
    /// The plane's first element.
    at: usize,
    channel: usize,
    epilogue: &'a Epilogue<'a>,
}

/// A vector of every (second) number.
#[inline(always)]
unsafe fn read<S: Simd>(p: *const f32, stride: usize) -> S::V {
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
dispatch!(unsafe fn plane = plane_body(s: &Shape, x: &[f32], w: &[f32], out: &Out<'_>));

/// The gradient for the kernels; `false` where there is no kernel for it.
pub(super) fn weight_grad(isa: Isa, g: &Geometry, channels: usize, x: &[f32], grad: &[f32], dw: &mut [f32]) -> bool {
    let Some(frame) = Frame::new(g, (1, 1)) else { return false };
    let (inputs, outputs, size) = (g.inputs(), g.outputs(), g.kernel.iter().product::<usize>());
    let images = grad.len() / (channels * outputs).max(1);
    let out = Shared::new(dw);
    for_tasks(channels, grad.len() * size >= 1 << 15, |c| {
        let mut framed = scratch::take(frame.len);
        framed.fill(0.0);
        // A vector of sums for each element of the kernel, over all images in order.
        let mut sums = scratch::take(size * isa.lanes());
        sums.fill(0.0);
        for image in 0..images {
            let i = image * channels + c;
            frame.fill(isa, &x[i * inputs..][..inputs], &mut framed);
            // SAFETY: the frame has room for every window, and there are as many sums as elements.
            unsafe {
                plane_weight(isa, &frame.shape, &framed, &grad[i * outputs..][..outputs], sums.as_mut_ptr());
            }
        }
        // SAFETY: tasks write the kernels of different channels.
        unsafe {
            let dw = std::slice::from_raw_parts_mut(out.ptr().add(c * size), size);
            fold_all(isa, &sums, dw);
        }
    });
    true
}

/// Adds to the vectors of sums of `K` neighbouring elements of a kernel row, from `kw` on.
#[inline(always)]
unsafe fn taps<S: Simd, const K: usize>(s: &Shape, x: &[f32], g: &[f32], kh: usize, kw: usize, dw: *mut f32) {
    // SAFETY: the frame has room for every window; gradients are read up to their row's end; there
    // are sums for every element of the kernel.
    unsafe {
        let at = dw.add((kh * s.kernel.1 + kw) * S::LANES);
        let mut sums: [S::V; K] = std::array::from_fn(|k| S::load(at.add(k * S::LANES)));
        for row in 0..s.output.0 {
            let from = x.as_ptr().add((row * s.stride.0 + kh * s.dilation.0) * s.width + kw * s.dilation.1);
            for first in (0..s.output.1).step_by(S::LANES) {
                let n = (s.output.1 - first).min(S::LANES);
                let d = S::load_first(g.as_ptr().add(row * s.output.1 + first), n);
                for (k, sum) in sums.iter_mut().enumerate() {
                    let p = from.add(first * s.stride.1 + k * s.dilation.1);
                    // Nothing behind the row is read: zeros of the gradient times a NaN there would be
                    // one.
                    let v = if n == S::LANES {
                        read::<S>(p, s.stride.1)
                    } else if s.stride.1 == 1 {
                        S::load_first(p, n)
                    } else {
                        let left = 2 * n - 1;
                        let second = left.saturating_sub(S::LANES);
                        S::evens(S::load_first(p, left.min(S::LANES)), S::load_first(p.add(S::LANES), second))
                    };
                    *sum = S::fma(v, d, *sum);
                }
            }
        }
        for (k, sum) in sums.into_iter().enumerate() {
            S::store(at.add(k * S::LANES), sum);
        }
    }
}

/// All elements of a kernel of `K` by `K` neighbours, for unit strides: a vector of the frame meets
/// the gradients of the `K` rows that see it.
#[inline(always)]
unsafe fn square_taps<S: Simd, const K: usize>(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32) {
    // SAFETY: as in `taps`.
    unsafe {
        let mut sums: [[S::V; K]; K] =
            std::array::from_fn(|h| std::array::from_fn(|w| S::load(dw.add((h * K + w) * S::LANES))));
        for first in (0..s.output.1).step_by(S::LANES) {
            let n = (s.output.1 - first).min(S::LANES);
            let (from, g) = (x.as_ptr().add(first), g.as_ptr().add(first));
            // The gradients of rows r, r - 1, ..
            let mut d = [S::zero(); K];
            for r in 0..s.output.0 + K - 1 {
                for h in (1..K).rev() {
                    d[h] = d[h - 1];
                }
                if r < s.output.0 {
                    d[0] = S::load_first(g.add(r * s.output.1), n);
                }
                let p = from.add(r * s.width);
                let v: [S::V; K] = std::array::from_fn(|w| S::load_first(p.add(w), n));
                for (h, (sums, d)) in sums.iter_mut().zip(d).enumerate() {
                    // No zero of a row that is not there may meet a NaN.
                    if h <= r && r - h < s.output.0 {
                        for (sum, v) in sums.iter_mut().zip(v) {
                            *sum = S::fma(v, d, *sum);
                        }
                    }
                }
            }
        }
        for (h, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                S::store(dw.add((h * K + w) * S::LANES), sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn plane_weight_body<S: Simd>(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32) {
    if s.is_square() && s.kernel.1 == 3 {
        // SAFETY: the caller's promise.
        return unsafe { square_taps::<S, 3>(s, x, g, dw) };
    }
    if s.is_square() && s.kernel.1 == 5 && S::LANES == 16 {
        // SAFETY: the caller's promise. (There are registers for 25 sums.)
        return unsafe { square_taps::<S, 5>(s, x, g, dw) };
    }
    for kh in 0..s.kernel.0 {
        // SAFETY: the caller's promise.
        unsafe {
            match s.kernel.1 {
                3 => taps::<S, 3>(s, x, g, kh, 0, dw),
                5 => taps::<S, 5>(s, x, g, kh, 0, dw),
                7 => taps::<S, 7>(s, x, g, kh, 0, dw),
                wide => (0..wide).for_each(|kw| taps::<S, 1>(s, x, g, kh, kw, dw)),
            }
        }
    }
}
dispatch!(unsafe fn plane_weight = plane_weight_body(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32));

/// The sums of vectors.
#[inline(always)]
unsafe fn fold_all_body<S: Simd>(sums: &[f32], out: &mut [f32]) {
    for (sum, out) in sums.chunks_exact(S::LANES).zip(out) {
        // SAFETY: a vector's numbers are there.
        *out = unsafe { fold::<S>(S::load(sum.as_ptr()), |a, b| a + b) };
    }
}
dispatch!(unsafe fn fold_all = fold_all_body(sums: &[f32], out: &mut [f32]));
