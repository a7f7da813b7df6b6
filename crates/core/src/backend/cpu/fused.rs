//! Operations with a kernel of their own: pooling, rows of tables, attention.

use super::library::{of, out_of};
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Array, Attention, MaxPool},
};
use gradus_numerics::{
    Lanes, Num, Real,
    attention::{self, Mask, MaskData, Rows, Saved},
    border::{self, Border},
    pool::{MeanPool, Pool, Pooled},
    scatter::{self, IndexError, Mode, Negative},
};
use smallvec::SmallVec;

pub fn max_pool<T: Pooled>(which: MaxPool, p: &Pool, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    match (which, inputs) {
        (MaxPool::Max, [x]) => T::max_pool(p, of(x), out_of(out)),
        (MaxPool::Pick, [x, v]) => T::max_pool_pick(p, of(x), of(v), out_of(out)),
        (MaxPool::Places, [x]) => T::max_pool_indices(p, of(x), out_of(out)),
        (MaxPool::Grad, [x, g]) => T::max_pool_grad(p, of(x), of(g), out_of(out)),
        (MaxPool::Max | MaxPool::Pick | MaxPool::Places | MaxPool::Grad, _) => {
            return Err(Tensor::bug("inputs of a pooling"));
        }
    }
    Ok(())
}

pub fn mean_pool<T: Pooled>(p: &MeanPool, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    T::mean_pool(p, of(x), out_of(out));
    Ok(())
}

pub fn mean_pool_grad<T: Pooled>(p: &MeanPool, grad: &Array<'_>, out: &mut [u8]) -> Result<()> {
    T::mean_pool_grad(p, of(grad), out_of(out));
    Ok(())
}

pub fn border_grad<T: Real>(b: &Border, grad: &Array<'_>, out: &mut [u8]) -> Result<()> {
    border::border_grad::<T>(b, of(grad), out_of(out));
    Ok(())
}

fn outside(e: IndexError) -> Error {
    let IndexError { position, index, size } = e;
    let why = format!(" (axis 0, at position {position} of the index)");
    Error::new("embedding", ErrorKind::Index { index, size, why })
}

pub fn take_rows<T: Num>(inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [x, index] = inputs else { return Err(Tensor::bug("take_rows takes two inputs")) };
    let l = Lanes::of(&x.shape, 0);
    scatter::select_rows(l, of::<T>(x), of(index), out_of(out), Negative::Reject).map_err(outside)
}

pub fn add_rows<T: Num>(inputs: &[Array<'_>], out: &mut [u8], shape: &Shape) -> Result<()> {
    let (x, index, base) = match inputs {
        [x, index] => (x, index, None),
        [x, index, base] => (x, index, Some(of::<T>(base))),
        _ => return Err(Tensor::bug("add_rows takes two inputs or three")),
    };
    let l = Lanes::of(shape, 0);
    if base.is_none() {
        out.fill(0);
    }
    scatter::index_rows(base, l, out_of::<T>(out), of(index), of(x), Mode::Add, Negative::Reject).map_err(outside)
}

pub fn one_hot(classes: usize, index: &Array<'_>, out: &mut [u8]) -> Result<()> {
    scatter::one_hot(of(index), classes, out_of(out)).map_err(|IndexError { position, index, size }| {
        let why = format!(" (a class, at position {position} of the index)");
        Error::new("one_hot", ErrorKind::Index { index, size, why })
    })
}

/// Where each matrix of a batch starts, and the step between rows.
fn places(a: &Attention, k: usize) -> Result<(SmallVec<[usize; 64]>, usize, usize)> {
    let strides = a.strides.get(k).ok_or_else(|| Tensor::bug("attention without strides"))?;
    let (r, batch) = (a.lead.rank(), a.batch());
    let start = |mut i: usize| {
        let mut at = 0;
        for d in (0..r).rev() {
            at += (i % a.lead[d]) * strides[d] as usize;
            i /= a.lead[d];
        }
        at
    };
    Ok(((0..batch).map(start).collect(), strides[r] as usize, strides[r + 1] as usize))
}

/// Calls `f` with the inputs as rows, and the mask.
fn with_rows<R>(
    a: &Attention,
    inputs: &[Array<'_>],
    f: impl FnOnce(&attention::Attention, [Rows<'_>; 3], Option<Mask<'_>>) -> R,
) -> Result<R> {
    if inputs.len() < 3 + a.masked as usize {
        return Err(Tensor::bug("inputs of an attention"));
    }
    let [(qs, q_row, _), (ks, k_row, _), (vs, v_row, _)] = [places(a, 0)?, places(a, 1)?, places(a, 2)?];
    let rows = [
        Rows { data: of(&inputs[0]), starts: &qs, row: q_row },
        Rows { data: of(&inputs[1]), starts: &ks, row: k_row },
        Rows { data: of(&inputs[2]), starts: &vs, row: v_row },
    ];
    let [queries, keys, width, value] = a.sizes;
    let (scale, causal) = (f32::from_bits(a.scale), a.causal);
    let heads = a.heads();
    let sizes = attention::Attention { batch: a.batch(), queries, keys, width, value, scale, causal, heads };
    if !a.masked {
        return Ok(f(&sizes, rows, None));
    }
    let (starts, row, column) = places(a, 3)?;
    let data = match inputs[3].dtype {
        DType::Bool => MaskData::Keep(of(&inputs[3])),
        DType::F32 => MaskData::Add(of(&inputs[3])),
        d => return Err(Tensor::bug(format!("a mask of {d}"))),
    };
    Ok(f(&sizes, rows, Some(Mask { data, starts: &starts, row, column })))
}

pub fn attention(a: &Attention, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [queries, _, _, value] = a.sizes;
    with_rows(a, inputs, |sizes, [q, k, v], mask| {
        let (out, sums) = out_of::<f32>(out).split_at_mut(a.batch() * queries * value);
        attention::attention(sizes, q, k, v, mask, out, sums);
    })
}

pub fn attention_grad(a: &Attention, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let (masked, batch) = (a.masked as usize, a.batch());
    let [queries, keys, width, value] = a.sizes;
    let [saved, grad] = inputs.get(3 + masked..).unwrap_or_default() else {
        return Err(Tensor::bug("inputs of an attention's gradient"));
    };
    let (starts, row, _) = places(a, 4 + masked)?;
    let grad = Rows { data: of(grad), starts: &starts, row };
    with_rows(a, inputs, |sizes, [q, k, v], mask| {
        let (o, sums) = of::<f32>(saved).split_at(batch * queries * value);
        let (dq, rest) = out_of::<f32>(out).split_at_mut(batch * queries * width);
        let (dk, dv) = rest.split_at_mut(batch * keys * width);
        attention::attention_grad(sizes, &Saved { q, k, v, mask, out: o, sums }, grad, dq, dk, dv);
    })
}
