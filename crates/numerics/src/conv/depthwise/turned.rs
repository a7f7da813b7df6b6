//! The gradient for depthwise kernels with channels in the lanes, for small planes: planes of as
//! many channels are transposed, so that no lane is idle whatever the plane's width.

use super::super::patches::Geometry;
use super::super::turn::turn;
use super::channels::is_flat;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// The sizes of transposed planes.
struct Planes {
    /// Rows and columns of a plane of the input, and of the zeros above and left of it.
    input: (usize, usize),
    pad: (usize, usize),
    /// Rows and columns with all zeros.
    framed: (usize, usize),
    output: (usize, usize),
    kernel: (usize, usize),
    stride: (usize, usize),
    dilation: (usize, usize),
}

impl Planes {
    fn new(g: &Geometry) -> Planes {
        let of = |x: [usize; 3]| (x[1], x[2]);
        let reach = |d: usize| {
            let seen = (g.output[d] - 1) * g.params.stride[d] + (g.kernel[d] - 1) * g.params.dilation[d] + 1;
            seen.max(g.params.padding[d].0 + g.input[d])
        };
        Planes {
            input: of(g.input),
            pad: (g.params.padding[1].0, g.params.padding[2].0),
            framed: (reach(1), reach(2)),
            output: of(g.output),
            kernel: of(g.kernel),
            stride: of(g.params.stride),
            dilation: of(g.params.dilation),
        }
    }

    /// Vectors of a plane with its zeros.
    fn plane(&self) -> usize {
        self.framed.0 * self.framed.1
    }
}

/// Whether this takes less time than going by rows: estimates of cycles for as many planes as lanes.
pub(super) fn pays(g: &Geometry, channels: usize, lanes: usize) -> bool {
    let p = Planes::new(g);
    // As much as stays in the second cache.
    let (framed, most) = (p.plane() * g.input[0], if is_flat(g) { 1 << 11 } else { 1 << 12 });
    if channels * 2 < lanes || framed.max(g.inputs()).max(g.outputs()) > most {
        return false;
    }
    let taps = g.kernel.iter().product::<usize>();
    let turning = (g.inputs() + g.outputs()) * 9 + framed * 2 + 300;
    let turned = turning + g.outputs() * (taps + 2);
    // Only square kernels keep all sums in registers there, and strided vectors are put together.
    let square = p.kernel.0 == p.kernel.1 && p.stride == (1, 1) && p.dilation == (1, 1) && p.kernel.1 <= 5;
    let vector = if square { taps + 3 } else { taps * 5 / 2 * p.stride.1.min(2) + 8 };
    let [deep, kernel] = [g.output[0], g.kernel[0]];
    let by_rows = g.input[0] * p.input.0 * 8 + deep * p.output.0 * (12 * kernel + p.output.1.div_ceil(lanes) * vector);
    // The last channels' lanes may be idle.
    turned * channels.div_ceil(lanes) < by_rows * channels
}

/// Copies transposed rows to their places between the zeros.
#[inline(always)]
unsafe fn frame_body<S: Simd>(p: &Planes, from: *const f32, to: *mut f32) {
    let wide = p.input.1;
    for r in 0..p.input.0 {
        // SAFETY: the caller's buffers have these sizes.
        unsafe {
            let from = from.add(r * wide * S::LANES);
            let to = to.add(((r + p.pad.0) * p.framed.1 + p.pad.1) * S::LANES);
            for i in 0..wide {
                S::store(to.add(i * S::LANES), S::load(from.add(i * S::LANES)));
            }
        }
    }
}
dispatch!(unsafe fn frame = frame_body(p: &Planes, from: *const f32, to: *mut f32));

/// Adds to the sums of `H` rows of `W` elements of the kernel, from `(kh, kw)` on.
#[inline(always)]
unsafe fn taps<S: Simd, const H: usize, const W: usize>(
    p: &Planes,
    (kh, kw): (usize, usize),
    x: *const f32,
    g: *const f32,
    sums: *mut f32,
) {
    // SAFETY: the caller gives all elements under the outputs, and a vector for each element.
    unsafe {
        let at = |h: usize, w: usize| sums.add(((kh + h) * p.kernel.1 + kw + w) * S::LANES);
        let mut all: [[S::V; W]; H] = std::array::from_fn(|h| std::array::from_fn(|w| S::load(at(h, w))));
        let (down, across) = (p.dilation.0 * p.framed.1 * S::LANES, p.dilation.1 * S::LANES);
        for row in 0..p.output.0 {
            let top = (row * p.stride.0 + kh * p.dilation.0) * p.framed.1 + kw * p.dilation.1;
            let mut x = x.add(top * S::LANES);
            let g = g.add(row * p.output.1 * S::LANES);
            for i in 0..p.output.1 {
                let d = S::load(g.add(i * S::LANES));
                for (h, sums) in all.iter_mut().enumerate() {
                    for (w, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(S::load(x.add(h * down + w * across)), d, *sum);
                    }
                }
                x = x.wrapping_add(p.stride.1 * S::LANES);
            }
        }
        for (h, sums) in all.into_iter().enumerate() {
            sums.into_iter().enumerate().for_each(|(w, v)| S::store(at(h, w), v));
        }
    }
}

#[inline(always)]
unsafe fn add_body<S: Simd>(p: &Planes, x: *const f32, g: *const f32, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        match p.kernel {
            (3, 3) => return taps::<S, 3, 3>(p, (0, 0), x, g, sums),
            // There are registers for 25 sums.
            (5, 5) if S::LANES == 16 => return taps::<S, 5, 5>(p, (0, 0), x, g, sums),
            _ => {}
        }
        for kh in 0..p.kernel.0 {
            let mut kw = 0;
            while kw < p.kernel.1 {
                let left = p.kernel.1 - kw;
                kw += match left {
                    1 | 2 => {
                        taps::<S, 1, 1>(p, (kh, kw), x, g, sums);
                        1
                    }
                    3 | 4 => {
                        taps::<S, 1, 3>(p, (kh, kw), x, g, sums);
                        3
                    }
                    5 | 6 => {
                        taps::<S, 1, 5>(p, (kh, kw), x, g, sums);
                        5
                    }
                    _ => {
                        taps::<S, 1, 7>(p, (kh, kw), x, g, sums);
                        7
                    }
                };
            }
        }
    }
}
dispatch! {
    /// Adds the products of transposed planes to the sums of all elements of the kernel.
    ///
    /// # Safety
    ///
    /// `x` is framed, `g` has the outputs' size, and `sums` a vector for each element.
    unsafe fn add = add_body(p: &Planes, x: *const f32, g: *const f32, sums: *mut f32)
}

/// The gradient for the kernels.
pub(in super::super) fn weight_grad(isa: Isa, g: &Geometry, channels: usize, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let (p, lanes, kernel) = (Planes::new(g), isa.lanes(), g.kernel.iter().product::<usize>());
    let (inputs, outputs) = (g.inputs(), g.outputs());
    // Vectors of a plane: of the input with and without its zeros, of the output and of the kernel.
    let size = [p.plane(), p.input.0 * p.input.1, p.output.0 * p.output.1, p.kernel.0 * p.kernel.1].map(|n| n * lanes);
    let images = grad.len() / (channels * outputs).max(1);
    assert_eq!((x.len(), dw.len()), (images * channels * inputs, channels * kernel), "the operands' sizes");
    // At least 16 tasks where there are as many images; their sums are added in order.
    let blocks = channels.div_ceil(lanes);
    let some = images.div_ceil(16usize.div_ceil(blocks)).max(1);
    let parts = images.div_ceil(some).max(1);
    let mut partial = scratch::take(parts * dw.len());
    let out = Shared::new(&mut partial);
    for_tasks(blocks * parts, grad.len() * kernel >= 1 << 15, |t| {
        let (block, first) = (t % blocks, t / blocks * some);
        let from = block * lanes;
        let n = lanes.min(channels - from);
        let mut turned = scratch::take(inputs.max(outputs) * lanes);
        let mut framed = scratch::take(g.input[0] * size[0]);
        framed.fill(0.0);
        let mut sums = scratch::take(kernel * lanes);
        sums.fill(0.0);
        // SAFETY: the buffers have room for these planes, and tasks write different kernels.
        unsafe {
            for image in first..images.min(first + some) {
                let plane = image * channels + from;
                turn(isa, n, inputs, x[plane * inputs..].as_ptr(), inputs, turned.as_mut_ptr(), lanes);
                for d in 0..g.input[0] {
                    frame(isa, &p, turned.as_ptr().add(d * size[1]), framed.as_mut_ptr().add(d * size[0]));
                }
                turn(isa, n, outputs, grad[plane * outputs..].as_ptr(), outputs, turned.as_mut_ptr(), lanes);
                for (kd, d) in (0..g.kernel[0]).flat_map(|kd| (0..g.output[0]).map(move |d| (kd, d))) {
                    let Some(at) = g.source(0, d, kd) else { continue };
                    let (x, dy) = (framed.as_ptr().add(at * size[0]), turned.as_ptr().add(d * size[2]));
                    add(isa, &p, x, dy, sums.as_mut_ptr().add(kd * size[3]));
                }
            }
            let to = out.ptr().add((t / blocks * channels + from) * kernel);
            turn(isa, kernel, n, sums.as_ptr(), lanes, to, kernel);
        }
    });
    dw.copy_from_slice(&partial[..dw.len()]);
    for part in partial[..parts * dw.len()].chunks_exact(dw.len().max(1)).skip(1) {
        dw.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
}
