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

pub(super) fn bytes_of_mut(x: &mut [f32]) -> &mut [u8] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, backend::cpu::library, op::HostOp};
    use std::sync::Arc;

    fn array<'a>(d: DType, n: usize, bytes: &'a [u8]) -> Array<'a> {
        Array { dtype: d, shape: n.into(), bytes }
    }

    /// Numbers that bf16 holds exactly.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + seed * 11) % 29) as f32 / 16.0 - 0.9).map(|x| bf16::from_f32(x).to_f32()).collect()
    }

    fn narrowed(x: &[f32]) -> Vec<u8> {
        x.iter().flat_map(|&x| bf16::from_f32(x).to_ne_bytes()).collect()
    }

    /// bf16 with heads inside is f32 with heads outside, turned and rounded; gradients as well.
    #[test]
    fn sixteen_bits_follow_the_kernel_of_32() {
        let (b, h, n, w) = (2, 3, 5, 4);
        let count = b * h * n * w;
        let strides = vec![[h * n * w, n * w, w, 1].map(|s| s as isize).into_iter().collect(); 3];
        let mut a = Attention {
            lead: [b, h].into(),
            sizes: [n, n, w, w],
            scale: 0.5f32.to_bits(),
            causal: true,
            masked: false,
            heads_inside: true,
            joined: false,
            strides,
        };
        let x: Vec<Vec<f32>> = (0..4).map(|k| numbers(count, k)).collect();
        let halves: Vec<Vec<u8>> = x.iter().map(|x| narrowed(x)).collect();
        let plain = Attention { heads_inside: false, ..a.clone() };
        let (all, all16) = (a.packed(DType::F32).1, a.packed(DType::BF16).1);
        let (mut want, mut got) = (vec![0f32; all], vec![0u16; all16]);
        let inputs: Vec<Array<'_>> = x[..3].iter().map(|x| array(DType::F32, count, bytes_of(x))).collect();
        let op = |a: &Attention| HostOp::Attention(Arc::new(a.clone()));
        library::run(&op(&plain), &inputs, bytes_of_mut(&mut want), &(DType::F32, all.into())).unwrap();
        let inputs16: Vec<Array<'_>> = halves[..3].iter().map(|x| array(DType::BF16, count, x)).collect();
        // SAFETY: a u16 is two bytes.
        let bytes =
            |x: &mut Vec<u16>| unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast::<u8>(), x.len() * 2) };
        library::run(&op(&a), &inputs16, bytes(&mut got), &(DType::BF16, all16.into())).unwrap();
        // Element (b, h, r, c), and where it lies with the heads inside.
        let turned = |want: &[f32], got: &[u16]| {
            for (i, &x) in want.iter().enumerate() {
                let (c, r, head, batch) = (i % w, i / w % n, i / (w * n) % h, i / (w * n * h));
                let there = ((batch * n + r) * h + head) * w + c;
                assert_eq!(bf16::from_bits(got[there]), bf16::from_f32(x), "element {i}");
            }
        };
        turned(&want[..count], &got[..count]);
        let sums: Vec<f32> = got[a.packed(DType::BF16).0..]
            .chunks(2)
            .map(|w| f32::from_bits(w[0] as u32 | (w[1] as u32) << 16))
            .collect();
        assert_eq!(sums, want[count..]);

        // Backward, from what forward has rounded.
        let strides4 = a.strides[0].clone();
        a.strides.extend([strides4.clone(), strides4]);
        let plain = Attention { heads_inside: false, ..a.clone() };
        let mut rounded = want.clone();
        rounded[..count].iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32());
        let op = |a: &Attention| HostOp::AttentionGrad(Arc::new(a.clone()));
        let (mut want, mut grads) = (vec![0f32; 3 * count], vec![0u16; 3 * count]);
        let mut inputs: Vec<Array<'_>> = x[..3].iter().map(|x| array(DType::F32, count, bytes_of(x))).collect();
        inputs.extend([array(DType::F32, all, bytes_of(&rounded)), array(DType::F32, count, bytes_of(&x[3]))]);
        let spec: (DType, Shape) = (DType::F32, (3 * count).into());
        library::run(&op(&plain), &inputs, bytes_of_mut(&mut want), &spec).unwrap();
        let saved = bytes(&mut got).to_vec();
        let mut inputs16: Vec<Array<'_>> = halves[..3].iter().map(|x| array(DType::BF16, count, x)).collect();
        inputs16.extend([array(DType::BF16, all16, &saved), array(DType::BF16, count, &halves[3])]);
        library::run(&op(&a), &inputs16, bytes(&mut grads), &(DType::BF16, (3 * count).into())).unwrap();
        for k in 0..3 {
            turned(&want[k * count..(k + 1) * count], &grads[k * count..(k + 1) * count]);
        }

        // Joined: the same numbers, the three side by side in every row.
        let joined = Attention { joined: true, ..a };
        let mut together = vec![0u16; 3 * count];
        let inputs16: Vec<Array<'_>> =
            inputs16.iter().map(|x| Array { dtype: x.dtype, shape: x.shape.clone(), bytes: x.bytes }).collect();
        library::run(&op(&joined), &inputs16, bytes(&mut together), &(DType::BF16, (3 * count).into())).unwrap();
        for (i, &x) in grads.iter().enumerate() {
            let (k, row, c) = (i / count, i % count / (h * w), i % (h * w));
            assert_eq!(together[(row * 3 + k) * h * w + c], x, "element {i}");
        }
    }
}
