//! Attention in the 16-bit types: through f32. It is here for devices that have such a kernel, where that kernel cannot be
//! used.

use super::{fused, library::of};
use crate::{
    DType, Result, Tensor,
    op::{Array, Attention},
};
use half::{bf16, f16};

/// Whether an attention is none of the CPU's own.
pub fn foreign(inputs: &[Array<'_>]) -> bool {
    inputs.first().is_some_and(|x| x.dtype != DType::F32)
}

fn wide(x: &Array<'_>) -> Result<Vec<f32>> {
    Ok(match x.dtype {
        DType::F32 => of::<f32>(x).to_vec(),
        DType::F16 => of::<f16>(x).iter().map(|x| x.to_f32()).collect(),
        DType::BF16 => of::<bf16>(x).iter().map(|x| x.to_f32()).collect(),
        d => return Err(Tensor::bug(format!("attention in {d}"))),
    })
}

fn bytes_of(x: &[f32]) -> &[u8] {
    // SAFETY: an f32 is four bytes, and any bytes are such.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), size_of_val(x)) }
}

fn bytes_of_mut(x: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above; the slice is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), size_of_val(x)) }
}

/// Writes numbers in type `d`.
fn narrow(x: &[f32], d: DType, out: &mut [u8]) {
    let size = d.size();
    for (e, &x) in out.chunks_mut(size).zip(x) {
        match d {
            DType::F16 => e.copy_from_slice(&f16::from_f32(x).to_ne_bytes()),
            DType::BF16 => e.copy_from_slice(&bf16::from_f32(x).to_ne_bytes()),
            _ => e.copy_from_slice(&x.to_ne_bytes()),
        }
    }
}

/// The inputs in f32 (a mask as it is).
fn with_wide<R>(a: &Attention, inputs: &[Array<'_>], f: impl FnOnce(&[Array<'_>]) -> R) -> Result<R> {
    let is_mask = |i: usize| a.masked && i == 3;
    let all: Vec<Vec<f32>> =
        inputs.iter().enumerate().map(|(i, x)| if is_mask(i) { Ok(vec![]) } else { wide(x) }).collect::<Result<_>>()?;
    let arrays: Vec<Array<'_>> = inputs
        .iter()
        .zip(&all)
        .enumerate()
        .map(|(i, (x, w))| match is_mask(i) {
            true => Array { dtype: x.dtype, shape: x.shape.clone(), bytes: x.bytes },
            false => Array { dtype: DType::F32, shape: x.shape.clone(), bytes: bytes_of(w) },
        })
        .collect();
    Ok(f(&arrays))
}

pub fn attention(a: &Attention, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [queries, _, _, value] = a.sizes;
    let (n, d) = (a.batch() * queries * value, inputs[0].dtype);
    let mut plain = vec![0f32; a.packed(DType::F32).1];
    with_wide(a, inputs, |x| fused::attention(a, x, bytes_of_mut(&mut plain)))??;
    narrow(&plain[..n], d, out);
    let at = a.packed(d).0 * d.size();
    let sums = bytes_of(&plain[n..]);
    out[at..at + sums.len()].copy_from_slice(sums);
    Ok(())
}

pub fn attention_grad(a: &Attention, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [queries, keys, width, value] = a.sizes;
    let (batch, d, saved) = (a.batch(), inputs[0].dtype, 3 + a.masked as usize);
    let given = inputs.get(saved).ok_or_else(|| Tensor::bug("inputs of an attention's gradient"))?;
    let n = batch * queries * value;
    let mut plain = vec![0f32; a.packed(DType::F32).1];
    plain[..n].copy_from_slice(&wide(given)?[..n]);
    let at = a.packed(d).0 * d.size();
    bytes_of_mut(&mut plain[n..]).copy_from_slice(&given.bytes[at..at + batch * queries * size_of::<f32>()]);
    let counts = [queries * width, keys * width, keys * value].map(|n| n * batch);
    let mut grads = vec![0f32; counts.iter().sum()];
    with_wide(a, inputs, |x| {
        let mut arrays: Vec<Array<'_>> =
            x.iter().map(|x| Array { dtype: x.dtype, shape: x.shape.clone(), bytes: x.bytes }).collect();
        arrays[saved] = Array { dtype: DType::F32, shape: plain.len().into(), bytes: bytes_of(&plain) };
        fused::attention_grad(a, &arrays, bytes_of_mut(&mut grads))
    })??;
    narrow(&grads, d, out);
    Ok(())
}
