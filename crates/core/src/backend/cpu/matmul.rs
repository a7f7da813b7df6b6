//! Matrix products and convolutions: slots to slices, then the numerics crate.

use super::{
    super::{Matmul, Slot, Tail},
    address,
};
use crate::{
    DType, Device, Error, Result, Tensor,
    graph::Buffer,
    op::{Conv, ConvKind},
};
use gradus_numerics::{
    Activation, Epilogue, Real,
    conv::{
        ConvParams, conv_forward, conv_forward_fused, conv_forward_halves, conv_forward_last, conv_forward_pairs,
        conv_input_grad, conv_input_grad_halves, conv_input_grad_pairs, conv_weight_grad, conv_weight_grad_halves,
        conv_weight_grad_pairs, is_forward_last,
    },
    gemm::{BatchOffset, Dims, Gemm, Half, Layout, Operand, batched_gemm, gemm_biased, gemm_fused},
};
use half::{bf16, f16};
use smallvec::SmallVec;

/// Matrices of a batch whose places need no memory of their own.
const FEW: usize = 64;

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
    let batches: SmallVec<[BatchOffset; FEW]> =
        (0..batch).map(|i| BatchOffset { a: offsets_a[i], b: offsets_b[i], c: i * m * n }).collect();
    batched_gemm(Dims::new(m, n, k), one, a, b, zero, out, Layout::row_major(n), &batches);
}

/// A product of matrices with a vector added to each row, block by block as they are finished.
pub fn run_with(spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Tail<'_>, c: Slot<'_>) -> Result<()> {
    let [m, k, n] = spec.mkn;
    if spec.batch.iter().any(|&d| d != 1) {
        return Err(Tensor::bug("a bias for a batch of products"));
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let d = Dims::new(m, n, k);
    match spec.dtype {
        // SAFETY: the planner gives a vector of this size, and `c` memory of its own of exactly this size.
        DType::F32 => unsafe {
            let (x, y, out) = with(spec, a, b, &c);
            gemm_fused(d, x, y, out, &epilogue(&tail, n));
        },
        // SAFETY: as above.
        DType::F64 => unsafe {
            let (x, y, out) = with(spec, a, b, &c);
            let bias = std::slice::from_raw_parts(address(&tail.bias, DType::F64).cast(), n);
            gemm_biased(d, x, y, bias, tail.relu, out);
        },
        _ => return Err(Tensor::bug("a bias for a product that takes none")),
    }
    Ok(())
}

/// Operands and result of a product alone, of a matrix that has elements.
///
/// # Safety
/// The strides address elements inside the input buffers, and `c` is memory of its own of exactly the result's size.
unsafe fn with<'a, T>(
    spec: &Matmul,
    a: Slot<'a>,
    b: Slot<'a>,
    c: &Slot<'a>,
) -> (Operand<'a, T>, Operand<'a, T>, &'a mut [T]) {
    let [m, k, n] = spec.mkn;
    let empty = || Operand::new(&[], Layout::row_major(0));
    // SAFETY: the caller's promise.
    unsafe {
        let out = std::slice::from_raw_parts_mut(address(c, spec.dtype).cast(), m * n);
        if k == 0 {
            return (empty(), empty(), out);
        }
        (operand(spec, a, &spec.a, [m, k]).0, operand(spec, b, &spec.b, [k, n]).0, out)
    }
}

/// What the end of a product or a convolution is to the numerics crate.
///
/// # Safety
/// The bias has `n` numbers, and lives as long as its buffer.
unsafe fn epilogue<'a>(tail: &Tail<'a>, n: usize) -> Epilogue<'a> {
    // SAFETY: the caller's promise.
    let bias = unsafe { std::slice::from_raw_parts(address(&tail.bias, DType::F32).cast::<f32>(), n) };
    let activation = if tail.relu { Activation::Relu } else { Activation::None };
    Epilogue { bias: Some(bias), activation, ..Epilogue::default() }
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
) -> (Operand<'a, T>, SmallVec<[usize; FEW]>) {
    let r = spec.batch.len();
    let dims: SmallVec<[usize; 8]> = spec.batch.iter().copied().chain([rows, cols]).collect();
    let span = |d: usize| (dims[d] as isize - 1) * strides[d];
    let lo: isize = (0..dims.len()).map(span).filter(|&s| s < 0).sum();
    let hi: isize = (0..dims.len()).map(span).filter(|&s| s > 0).sum();
    let first = address(&s, spec.dtype).cast::<T>().wrapping_offset(lo);
    // SAFETY: the caller's promise.
    let data = unsafe { std::slice::from_raw_parts(first, (hi - lo) as usize + 1) };
    // The places of an axis's matrices, for each place of the axes before it.
    let mut places: SmallVec<[usize; FEW]> = SmallVec::from_slice(&[-lo as usize]);
    for (&extent, &stride) in spec.batch.iter().zip(strides) {
        if extent != 1 {
            let step = |p: usize| (0..extent).map(move |i| p.wrapping_add_signed(i as isize * stride));
            places = places.into_iter().flat_map(step).collect();
        }
    }
    (Operand::new(data, Layout { offset: 0, rs: strides[r], cs: strides[r + 1] }), places)
}

pub fn conv(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    if spec.channels_last {
        if dtype == DType::F32 && spec.kind == ConvKind::Forward && forward_last(spec, &a, &b, &c) {
            return Ok(());
        }
        return last_conv(spec, dtype, a, b, c);
    }
    match dtype {
        DType::F32 => typed_conv::<f32>(spec, dtype, a, b, c),
        DType::F64 => typed_conv::<f64>(spec, dtype, a, b, c),
        DType::F16 => {
            wide_conv::<f16>(spec, dtype, &a, &b, &c);
            Ok(())
        }
        DType::BF16 => {
            if !paired_conv(spec, &a, &b, &c) {
                wide_conv::<bf16>(spec, dtype, &a, &b, &c);
            }
            Ok(())
        }
        d @ (DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64) => {
            Err(Tensor::bug(format!("a convolution of {d} reached the backend")))
        }
    }
}

/// A convolution in f32 with a number added to each channel.
pub fn conv_with(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, tail: Tail<'_>, c: Slot<'_>) -> Result<()> {
    if dtype != DType::F32 || spec.kind != ConvKind::Forward || spec.channels_last {
        return Err(Tensor::bug("a bias for a convolution that takes none"));
    }
    let (params, input, weight) = geometry(spec);
    // SAFETY: the planner gives contiguous buffers of exactly these shapes, the output memory of its own, and a bias of
    // one number a channel.
    unsafe {
        let read = |s: &Slot<'_>, n: usize| std::slice::from_raw_parts(address(s, dtype).cast::<f32>(), n);
        let (x, w) = (read(&a, spec.input.numel()), read(&b, spec.weight.numel()));
        let out = std::slice::from_raw_parts_mut(address(&c, dtype).cast::<f32>(), spec.output.numel());
        conv_forward_fused(x, input, w, weight, &params, &epilogue(&tail, spec.weight[0]), out);
    }
    Ok(())
}

/// A convolution's parameters and the shapes of its input and weight, over three spatial axes.
fn geometry(spec: &Conv) -> (ConvParams, [usize; 5], [usize; 5]) {
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
    (params, five(&spec.input), five(&spec.weight))
}

fn typed_conv<T: Real>(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    let (params, input, weight) = geometry(spec);
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

/// Whether images are read with their channels last where they lie so.
pub fn reads_last(spec: &Conv) -> bool {
    let (params, _, weight) = geometry(spec);
    is_forward_last(weight, &params)
}

/// A convolution of f32 with the channels last; `false` where there is no way for it.
fn forward_last(spec: &Conv, a: &Slot<'_>, b: &Slot<'_>, c: &Slot<'_>) -> bool {
    let (params, input, weight) = geometry(spec);
    let [na, nb, nc] = spec.operands().map(|s| s.numel());
    let at = |s: &Slot<'_>| address(s, DType::F32).cast::<f32>();
    // SAFETY: the planner gives contiguous buffers of exactly these shapes, the output memory of its own.
    let (a, b, out) = unsafe {
        let read = |s: &Slot<'_>, n: usize| std::slice::from_raw_parts(at(s), n);
        (read(a, na), read(b, nb), std::slice::from_raw_parts_mut(at(c), nc))
    };
    conv_forward_last(a, input, b, weight, &params, out)
}

/// A convolution with the channels last, by way of copies with the channels first: no CPU plan asks for it, but what a
/// GPU's library has no way for comes here.
fn last_conv(spec: &Conv, dtype: DType, a: Slot<'_>, b: Slot<'_>, c: Slot<'_>) -> Result<()> {
    let (cpu, size) = (Device::cpu(), dtype.size());
    let shapes = spec.operands();
    let [first, second, result] = [0, 1, 2].map(|i| Buffer::alloc(cpu, shapes[i].numel() * size));
    let (first, second, result) = (first?, second?, result?);
    for (from, to, shape) in [(&a, &first, shapes[0]), (&b, &second, shapes[1])] {
        // SAFETY: both have exactly the bytes of the shape, and the copy's memory is its own.
        unsafe { exchange(address(from, dtype), to.raw() as *mut u8, shape, size, false) };
    }
    let spec = &Conv { channels_last: false, ..spec.clone() };
    let slot = |buffer| Slot { buffer, offset: 0 };
    conv(spec, dtype, slot(&first), slot(&second), slot(&result))?;
    // SAFETY: as above; the result's memory is its own.
    unsafe { exchange(result.raw() as *mut u8, address(&c, dtype), shapes[2], size, true) };
    Ok(())
}

/// Copies elements of `size` bytes of a shape `[n, c, ..]` between channels first and (`to_last`: in that direction) last.
///
/// # Safety
/// Both addresses have that many elements, and do not overlap.
unsafe fn exchange(from: *const u8, to: *mut u8, shape: &[usize], size: usize, to_last: bool) {
    let (n, c, rest) = (shape[0], shape[1], shape[2..].iter().product::<usize>());
    for (i, k, r) in (0..n).flat_map(|i| (0..c).flat_map(move |k| (0..rest).map(move |r| (i, k, r)))) {
        let (first, last) = (((i * c + k) * rest + r) * size, ((i * rest + r) * c + k) * size);
        let (f, t) = if to_last { (first, last) } else { (last, first) };
        // SAFETY: the caller's promise; both places are inside.
        unsafe { std::ptr::copy_nonoverlapping(from.add(f), to.add(t), size) };
    }
}

/// A convolution of bf16 by instructions for it; `false` where there are none, or f32 is faster.
fn paired_conv(spec: &Conv, a: &Slot<'_>, b: &Slot<'_>, c: &Slot<'_>) -> bool {
    let (params, input, weight) = geometry(spec);
    let [na, nb, nc] = spec.operands().map(|s| s.numel());
    let at = |s: &Slot<'_>| address(s, DType::BF16).cast::<bf16>();
    // SAFETY: the planner gives contiguous buffers of exactly these shapes, the output memory of its own.
    let (a, b, out) = unsafe {
        let read = |s: &Slot<'_>, n: usize| std::slice::from_raw_parts(at(s), n);
        (read(a, na), read(b, nb), std::slice::from_raw_parts_mut(at(c), nc))
    };
    match spec.kind {
        ConvKind::Forward => conv_forward_pairs(a, input, b, weight, &params, out),
        ConvKind::InputGrad => conv_input_grad_pairs(a, b, weight, input, &params, out),
        ConvKind::WeightGrad => conv_weight_grad_pairs(b, input, a, weight, &params, out),
    }
}

/// A convolution of 16-bit numbers: in f32, and rounded once.
fn wide_conv<T: Half>(spec: &Conv, dtype: DType, a: &Slot<'_>, b: &Slot<'_>, c: &Slot<'_>) {
    let (params, input, weight) = geometry(spec);
    let [na, nb, nc] = spec.operands().map(|s| s.numel());
    let at = |s: &Slot<'_>| address(s, dtype).cast::<T>();
    // SAFETY: the planner gives contiguous buffers of exactly these shapes, the output memory of its own.
    let (a, b, out) = unsafe {
        let read = |s: &Slot<'_>, n: usize| std::slice::from_raw_parts(at(s), n);
        (read(a, na), read(b, nb), std::slice::from_raw_parts_mut(at(c), nc))
    };
    match spec.kind {
        ConvKind::Forward => conv_forward_halves(a, input, b, weight, &params, out),
        ConvKind::InputGrad => conv_input_grad_halves(a, b, weight, input, &params, out),
        ConvKind::WeightGrad => conv_weight_grad_halves(b, input, a, weight, &params, out),
    }
}

/// Up to three values, filled up in front.
fn lead<T: Copy>(xs: &[T], fill: T) -> [T; 3] {
    let mut out = [fill; 3];
    out[3 - xs.len()..].copy_from_slice(xs);
    out
}
