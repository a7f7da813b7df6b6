//! Matrix products and convolutions: slots to slices, then the numerics crate.

use super::{
    super::{Matmul, Slot},
    address,
};
use crate::{
    DType, Error, Result, Tensor,
    op::{Conv, ConvKind},
};
use gradus_numerics::{
    Real,
    conv::{ConvParams, conv_forward, conv_input_grad, conv_weight_grad},
    gemm::{BatchOffset, Dims, Gemm, Layout, Operand, batched_gemm},
};
use half::{bf16, f16};

pub fn run(spec: &Matmul, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    match spec.dtype {
        DType::F32 => typed::<f32>(spec, a, b, c, 1.0, 0.0),
        DType::F64 => typed::<f64>(spec, a, b, c, 1.0, 0.0),
        DType::F16 => typed::<f16>(spec, a, b, c, f16::ONE, f16::ZERO),
        DType::BF16 => typed::<bf16>(spec, a, b, c, bf16::ONE, bf16::ZERO),
        DType::I64 => typed::<i64>(spec, a, b, c, 1, 0),
        DType::I32 => typed::<i32>(spec, a, b, c, 1, 0),
        d @ (DType::Bool | DType::U8 | DType::I8 | DType::I16) => {
            return Err(Error::dtype("matmul", &[d], format!("no matrix product of {d}")));
        }
    }
    Ok(())
}

fn typed<T: Gemm>(spec: &Matmul, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>, one: T, zero: T) {
    let [m, k, n] = spec.mkn;
    let batch: usize = spec.batch.iter().product();
    if m == 0 || n == 0 || batch == 0 {
        return;
    }
    // SAFETY: the planner gives `c` memory of its own of exactly this size.
    let out = unsafe { std::slice::from_raw_parts_mut(address(&c, spec.dtype).cast::<T>(), batch * m * n) };
    if k == 0 {
        return out.fill(zero);
    }
    // SAFETY: the strides address elements inside the input buffers.
    let (a, offsets_a) = unsafe { operand::<T>(spec, a, &spec.a, [m, k]) };
    // SAFETY: as above.
    let (b, offsets_b) = unsafe { operand::<T>(spec, b, &spec.b, [k, n]) };
    let batches: Vec<BatchOffset> =
        (0..batch).map(|i| BatchOffset { a: offsets_a[i], b: offsets_b[i], c: i * m * n }).collect();
    batched_gemm(Dims::new(m, n, k), one, a, b, zero, out, Layout::row_major(n), &batches);
}

/// A strided operand as a slice from its lowest element, and the place of each matrix of the batch in it.
///
/// # Safety
/// Every address of the strides lies in the slot's buffer, and no extent is zero.
unsafe fn operand<'a, T>(
    spec: &Matmul,
    s: Slot<'a>,
    strides: &[isize],
    [rows, cols]: [usize; 2],
) -> (Operand<'a, T>, Vec<usize>) {
    let r = spec.batch.len();
    let dims: Vec<usize> = spec.batch.iter().copied().chain([rows, cols]).collect();
    let span = |d: usize| (dims[d] as isize - 1) * strides[d];
    let lo: isize = (0..dims.len()).map(span).filter(|&s| s < 0).sum();
    let hi: isize = (0..dims.len()).map(span).filter(|&s| s > 0).sum();
    let first = address(&s, spec.dtype).cast::<T>().wrapping_offset(lo);
    // SAFETY: the caller's promise.
    let data = unsafe { std::slice::from_raw_parts(first, (hi - lo) as usize + 1) };
    let count: usize = spec.batch.iter().product();
    let places = (0..count)
        .map(|mut i| {
            let mut at = -lo;
            for d in (0..r).rev() {
                at += (i % spec.batch[d]) as isize * strides[d];
                i /= spec.batch[d];
            }
            at as usize
        })
        .collect();
    (Operand::new(data, Layout { offset: 0, rs: strides[r], cs: strides[r + 1] }), places)
}

pub fn conv(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    match dtype {
        DType::F32 => typed_conv::<f32>(spec, dtype, a, b, c),
        DType::F64 => typed_conv::<f64>(spec, dtype, a, b, c),
        d => Err(Tensor::bug(format!("a convolution of {d} reached the backend"))),
    }
}

fn typed_conv<T: Real>(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    let params = ConvParams {
        stride: lead(&spec.params.stride, 1),
        padding: lead(&spec.params.padding, (0, 0)),
        dilation: lead(&spec.params.dilation, 1),
        groups: spec.params.groups,
    };
    let five = |s: &[usize]| {
        let [d, h, w] = lead(&s[2..], 1);
        [s[0], s[1], d, h, w]
    };
    let (input, weight) = (five(&spec.input), five(&spec.weight));
    // SAFETY: the planner gives contiguous buffers of exactly these shapes, the output memory of its own.
    let (read, out) = unsafe {
        let read = |s: &Slot<'_>, n: usize| std::slice::from_raw_parts(address(s, dtype).cast::<T>(), n);
        (read, std::slice::from_raw_parts_mut(address(&c, dtype).cast::<T>(), spec.shape().numel()))
    };
    let (ni, nw, no) = (spec.input.numel(), spec.weight.numel(), spec.output.numel());
    match spec.kind {
        ConvKind::Forward => conv_forward(read(&a, ni), input, read(&b, nw), weight, &params, out),
        ConvKind::InputGrad => conv_input_grad(read(&a, no), read(&b, nw), weight, input, &params, out),
        ConvKind::WeightGrad => conv_weight_grad(read(&b, ni), input, read(&a, no), weight, &params, out),
    }
    Ok(())
}

/// Up to three values, filled up in front.
fn lead<T: Copy>(xs: &[T], fill: T) -> [T; 3] {
    let mut out = [fill; 3];
    out[3 - xs.len()..].copy_from_slice(xs);
    out
}
