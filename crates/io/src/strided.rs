//! Elements that lie strided in a file, made row-major; and the tensor of them.

use crate::{Error, Result};
use gradus_core::{DType, Tensor};
use std::borrow::Cow;

/// The number of elements, or `None` when it does not fit.
pub(crate) fn numel(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Row-major strides, in elements.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut step = 1usize;
    let mut out: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&d| {
            let s = step;
            step = step.saturating_mul(d.max(1));
            s
        })
        .collect();
    out.reverse();
    out
}

/// Whether these strides are row-major, as far as the elements can tell.
pub(crate) fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    shape.contains(&0) || shape.iter().zip(row_major(shape)).zip(strides).all(|((&d, want), &s)| d <= 1 || s == want)
}

/// One past the last element that a strided view reads, counted from its first; `None` when it does not fit.
pub(crate) fn span(shape: &[usize], strides: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let reach = |n: usize, (&d, &s): (&usize, &usize)| (d - 1).checked_mul(s).and_then(|r| n.checked_add(r));
    shape.iter().zip(strides).try_fold(1usize, reach)
}

/// A strided view of `bytes`, row-major. `None` when the view reaches outside of them.
pub(crate) fn gather<'a>(bytes: &'a [u8], size: usize, shape: &[usize], strides: &[usize]) -> Option<Cow<'a, [u8]>> {
    let n = numel(shape)?;
    if n == 0 {
        return Some(Cow::Borrowed(&[]));
    }
    let bytes = bytes.get(..span(shape, strides)?.checked_mul(size)?)?;
    if is_row_major(shape, strides) {
        return Some(Cow::Borrowed(bytes));
    }
    let mut out = Vec::with_capacity(n.checked_mul(size)?);
    let mut index = vec![0usize; shape.len()];
    let mut at = 0usize; // in elements
    for _ in 0..n {
        out.extend_from_slice(bytes.get(at * size..(at + 1) * size)?);
        // Counts up like an odometer, the last axis fastest; `at` follows.
        for ((i, &d), &s) in index.iter_mut().zip(shape).zip(strides).rev() {
            *i += 1;
            at += s;
            if *i < d {
                break;
            }
            at -= d * s;
            *i = 0;
        }
    }
    Some(Cow::Owned(out))
}

/// The bytes with each element's order turned around.
pub(crate) fn swapped(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    out
}

/// A tensor of little-endian elements; a fault names the tensor.
pub(crate) fn tensor(name: &str, bytes: &[u8], shape: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::from_bytes(bytes, shape, dtype).map_err(|e| Error::tensor(name, e))
}
