//! Convolutions of `bf16` by the instruction that multiplies pairs of them: twice as many multiplications a cycle as in
//! `f32`. A sum is taken in `f32` and rounded once, at its end. The instruction takes numbers below 2^-126 as zero.
//!
//! What is multiplied are pairs of neighbours along an axis that sums go over: input channels, output channels for the
//! gradient of the input, images for that of the weights (rows of outputs of a single one). A pair is as wide as an `f32`, and so these are the convolutions
//! of [`direct`](super::direct) with half as long an axis, whose kernels only multiply in another way.

use super::patches::Geometry;
use super::{ConvParams, Problem, direct, fast};
use crate::epilogue::Epilogue;
use crate::gemm::{Dims, Layout, Operand, gemm, narrow};
use crate::scratch::{self, Scratch};
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use half::bf16;

/// Numbers of a task that makes pairs.
const CHUNK: usize = 1 << 14;

/// Pairs of neighbours along the middle axis of `[outer, count, inner]`; beside the last of an odd number is zero.
fn pairs(x: &[bf16], [outer, count, inner]: [usize; 3]) -> Scratch {
    assert_eq!(x.len(), outer * count * inner, "the operand's size");
    let half = count.div_ceil(2);
    let rows = outer * half;
    let mut room = scratch::take(rows * inner);
    let to = Shared::new(&mut room);
    // Rows are cut where they are long, and taken together where they are short.
    let (some, length) = ((CHUNK / inner.max(1)).max(1), inner.min(CHUNK));
    let cuts = inner.div_ceil(length.max(1));
    for_tasks(rows.div_ceil(some) * cuts, rows * inner >= CHUNK, |t| {
        let (first, from) = (t / cuts * some, t % cuts * length);
        let n = length.min(inner - from);
        for row in first..rows.min(first + some) {
            let at = (row / half * count + row % half * 2) * inner + from;
            let one = &x[at..][..n];
            let other = if row % half * 2 + 1 < count { &x[at + inner..][..n] } else { &[][..] };
            // SAFETY: rows and their parts are places of their own, inside the room.
            unsafe { zip(one, other, to.ptr().add(row * inner + from)) };
        }
    });
    room
}

/// Pairs of the numbers of two stretches; the second is as long as the first, or empty for zeros.
///
/// # Safety
///
/// There is room for as many at `to`, used by nobody else, and the CPU has AVX-512 as [`Isa::pairs`] wants it.
unsafe fn zip(x: &[bf16], y: &[bf16], to: *mut f32) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn zip(x: &[bf16], y: &[bf16], to: *mut f32) {
        use std::arch::x86_64::*;
        for i in (0..x.len()).step_by(16) {
            let left = x.len() - i;
            let mask = if left >= 16 { 0xffff } else { (1u16 << left) - 1 };
            let other = if y.is_empty() { 0 } else { mask };
            // SAFETY: numbers inside the slices, and the caller's room.
            unsafe {
                let x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x.as_ptr().add(i).cast()));
                let y = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(other, y.as_ptr().wrapping_add(i).cast()));
                let both = _mm512_or_si512(x, _mm512_slli_epi32::<16>(y));
                _mm512_mask_storeu_epi32(to.add(i).cast(), mask, both);
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        zip(x, y, to);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (x, y, to);
    }
}

/// Pairs of the rows that two neighbouring rows of outputs see, of a single image and an even number of such rows; and the problem
/// that these are: half as many outputs, and twice the stride. Zeros above and below are rows too.
fn rows_apart(x: &[bf16], p: Problem) -> (Scratch, Problem) {
    let g = &p.geometry;
    let ([deep, high, wide], stride, pad) = (g.input, g.params.stride[1], g.params.padding[1].0);
    let half = g.output[1] / 2;
    let rows = (half - 1) * 2 * stride + (g.kernel[1] - 1) * g.params.dilation[1] + 1;
    let planes = p.groups * p.c * deep;
    assert_eq!(x.len(), planes * high * wide, "the operand's size");
    let mut room = scratch::take(planes * rows * wide);
    let to = Shared::new(&mut room);
    let some = (CHUNK / (rows * wide).max(1)).max(1);
    for_tasks(planes.div_ceil(some), planes * rows * wide >= CHUNK, |t| {
        for plane in t * some..planes.min((t + 1) * some) {
            let x = &x[plane * high * wide..][..high * wide];
            let row = |r: usize| r.checked_sub(pad).and_then(|r| x.get(r * wide..(r + 1) * wide));
            for r in 0..rows {
                // SAFETY: rows are places of their own, inside the room.
                unsafe {
                    let to = to.ptr().add((plane * rows + r) * wide);
                    match (row(r), row(r + stride)) {
                        (Some(one), other) => zip(one, other.unwrap_or(&[]), to),
                        (None, Some(other)) => {
                            zip(other, &[], to);
                            (0..wide).for_each(|i| *to.add(i) = f32::from_bits((*to.add(i)).to_bits() << 16));
                        }
                        (None, None) => (0..wide).for_each(|i| *to.add(i) = 0.0),
                    }
                }
            }
        }
    });
    let mut geometry = Geometry { input: [deep, rows, wide], kernel: g.kernel, output: g.output, params: g.params };
    geometry.output[1] = half;
    (geometry.params.stride[1], geometry.params.padding[1]) = (2 * stride, (0, 0));
    (room, Problem { geometry, ..p })
}

/// What can be done here, and with which instructions.
fn problem(input: [usize; 5], weight: [usize; 5], params: &ConvParams) -> Option<(Isa, Problem)> {
    let isa = Isa::pairs()?;
    let p = Problem::new(input, weight, params)?;
    // Without channels to add up there are no pairs.
    let empty = p.n * p.c * p.o * p.outputs() * p.geometry.inputs() == 0;
    (!empty && !p.is_depthwise()).then_some((isa, p))
}

/// [`conv_forward`](super::conv_forward) of `bf16`; `false` where the CPU cannot multiply pairs, or where `f32` is faster:
/// nothing was written then.
pub fn conv_forward_pairs(
    input: &[bf16],
    input_shape: [usize; 5],
    weight: &[bf16],
    weight_shape: [usize; 5],
    params: &ConvParams,
    output: &mut [bf16],
) -> bool {
    let Some((isa, p)) = problem(input_shape, weight_shape, params) else { return false };
    if p.is_whole() {
        let row = Layout::row_major(p.patch(p.c));
        let (x, w) = (Operand::new(input, row), Operand::new(weight, row.transposed()));
        gemm(Dims::new(p.n, p.o, p.patch(p.c)), bf16::ONE, x, w, bf16::ZERO, output, Layout::row_major(p.o));
        return true;
    }
    if fast::is_winograd(&p) || p.c == 1 {
        return false;
    }
    let x = pairs(input, [p.n * p.groups, p.c, p.geometry.inputs()]);
    let w = pairs(weight, [p.groups * p.o, p.c, p.patch(1)]);
    let p = Problem { c: p.c.div_ceil(2), ..p };
    rounded(output, |y| {
        direct::forward(isa, &p, &x, &w, y, &Epilogue::default());
        true
    })
}

/// [`conv_input_grad`](super::conv_input_grad) of `bf16`; `false` as for [`conv_forward_pairs`].
pub fn conv_input_grad_pairs(
    grad: &[bf16],
    weight: &[bf16],
    weight_shape: [usize; 5],
    input_shape: [usize; 5],
    params: &ConvParams,
    input_grad: &mut [bf16],
) -> bool {
    let Some((isa, p)) = problem(input_shape, weight_shape, params) else { return false };
    if p.is_whole() {
        let row = Layout::row_major(p.patch(p.c));
        let (g, w) = (Operand::new(grad, Layout::row_major(p.o)), Operand::new(weight, row));
        gemm(Dims::new(p.n, p.patch(p.c), p.o), bf16::ONE, g, w, bf16::ZERO, input_grad, row);
        return true;
    }
    if fast::is_winograd_back(&p) || p.o == 1 {
        return false;
    }
    let g = pairs(grad, [p.n * p.groups, p.o, p.outputs()]);
    let w = pairs(weight, [p.groups, p.o, p.patch(p.c)]);
    let p = Problem { o: p.o.div_ceil(2), ..p };
    rounded(input_grad, |dx| fast::summed_input_grad(isa, &p, &g, &w, dx))
}

/// [`conv_weight_grad`](super::conv_weight_grad) of `bf16`; `false` as for [`conv_forward_pairs`].
pub fn conv_weight_grad_pairs(
    input: &[bf16],
    input_shape: [usize; 5],
    grad: &[bf16],
    weight_shape: [usize; 5],
    params: &ConvParams,
    weight_grad: &mut [bf16],
) -> bool {
    let Some((isa, p)) = problem(input_shape, weight_shape, params) else { return false };
    if p.is_whole() {
        let row = Layout::row_major(p.patch(p.c));
        let (g, x) = (Operand::new(grad, Layout::row_major(p.o).transposed()), Operand::new(input, row));
        gemm(Dims::new(p.o, p.patch(p.c), p.n), bf16::ONE, g, x, bf16::ZERO, weight_grad, row);
        return true;
    }
    let rows = p.geometry.output[1];
    if fast::is_winograd_for_weights(&p) || p.n == 1 && !rows.is_multiple_of(2) {
        return false;
    }
    if p.n == 1 {
        let (x, p) = rows_apart(input, p);
        let g = pairs(grad, [p.groups * p.o * p.geometry.output[0], rows, p.geometry.output[2]]);
        return rounded(weight_grad, |dw| {
            direct::weight_grad(isa, &p, &x, &g, dw);
            true
        });
    }
    let x = pairs(input, [1, p.n, p.groups * p.c * p.geometry.inputs()]);
    let g = pairs(grad, [1, p.n, p.groups * p.o * p.outputs()]);
    let p = Problem { n: p.n.div_ceil(2), ..p };
    rounded(weight_grad, |dw| {
        direct::weight_grad(isa, &p, &x, &g, dw);
        true
    })
}

/// What `f` makes of a buffer, rounded.
fn rounded(to: &mut [bf16], f: impl FnOnce(&mut [f32]) -> bool) -> bool {
    let mut sums = scratch::take(to.len());
    let done = f(&mut sums);
    if done {
        narrow(&sums, to);
    }
    done
}
