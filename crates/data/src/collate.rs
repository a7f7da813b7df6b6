//! Items put together into batches.

use gradus_core::{DType, Device, Element, Error, Result, Tensor};
use std::path::PathBuf;

/// What a loader's items become together.
///
/// Numbers become a tensor `[n]`, tensors one with a new first axis, vectors of numbers `[n, length]`, images
/// `[n, channels, height, width]`; pairs and triples are put together part by part; texts become a vector.
///
/// ```
/// use gradus_data::Collate;
/// let (x, y) = Collate::collate(vec![(vec![1.0f32, 2.0], 0i64), (vec![3.0, 4.0], 1)])?;
/// assert_eq!((x.dims(), y.to_vec::<i64>()?), (&[2, 2][..], vec![0, 1]));
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub trait Collate: Sized {
    /// What several of them are together.
    type Batch: Send + 'static;
    /// Puts them together.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

macro_rules! collate_numbers {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(items: Vec<$t>) -> Result<Tensor> {
                Tensor::from_slice(&items, items.len())
            }
        }
        impl Collate for Vec<$t> {
            type Batch = Tensor;
            fn collate(items: Vec<Vec<$t>>) -> Result<Tensor> {
                rows(&items)
            }
        }
    )*};
}
collate_numbers!(f64, f32, i64, i32, i16, i8, u8, bool);

fn rows<T: Element>(items: &[Vec<T>]) -> Result<Tensor> {
    let len = items.first().map_or(0, Vec::len);
    if let Some((i, bad)) = items.iter().enumerate().find(|(_, v)| v.len() != len) {
        return Err(unlike(i, &format!("{} numbers", bad.len()), &format!("{len}")));
    }
    Tensor::from_slice(&items.concat(), [items.len(), len])
}

/// An item that does not fit beside the first one.
pub(crate) fn unlike(at: usize, item: &str, first: &str) -> Error {
    let why = format!("items of a batch must agree: item {at} has {item}, the first one {first}");
    Error::value("collate", why)
        .hint("bring them to one size first (map, a transform), or give the loader a collate function")
}

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(items: Vec<Tensor>) -> Result<Tensor> {
        let Some(first) = items.first() else {
            return Err(Error::value("collate", "there are no items to put together"));
        };
        let shown = |t: &Tensor| format!("{} {}", t.dtype(), t.shape());
        if let Some((i, bad)) =
            items.iter().enumerate().find(|(_, t)| t.shape() != first.shape() || t.dtype() != first.dtype())
        {
            return Err(unlike(i, &shown(bad), &shown(first)));
        }
        if items.iter().any(|t| t.device() != Device::cpu()) {
            return Tensor::stack(&items.iter().collect::<Vec<_>>(), 0);
        }
        // Rows of a data set are computed already: copying their bytes needs no plan.
        let mut bytes = Vec::with_capacity(items.len() * first.numel() * first.dtype().size());
        for t in &items {
            bytes.extend(t.to_bytes()?);
        }
        let shape: Vec<usize> = std::iter::once(items.len()).chain(first.dims().iter().copied()).collect();
        Tensor::from_bytes(&bytes, shape, first.dtype())
    }
}

macro_rules! collate_lists {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Vec<$t>;
            fn collate(items: Vec<$t>) -> Result<Vec<$t>> {
                Ok(items)
            }
        }
    )*};
}
collate_lists!(String, PathBuf, Vec<String>);

impl Collate for usize {
    type Batch = Tensor;
    fn collate(items: Vec<usize>) -> Result<Tensor> {
        Ok(Tensor::from_slice(&items.iter().map(|&i| i as i64).collect::<Vec<_>>(), items.len())?.to_dtype(DType::I64))
    }
}

impl<A: Collate, B: Collate> Collate for (A, B) {
    type Batch = (A::Batch, B::Batch);
    fn collate(items: Vec<(A, B)>) -> Result<Self::Batch> {
        let (a, b) = items.into_iter().unzip();
        Ok((A::collate(a)?, B::collate(b)?))
    }
}

impl<A: Collate, B: Collate, C: Collate> Collate for (A, B, C) {
    type Batch = (A::Batch, B::Batch, C::Batch);
    fn collate(items: Vec<(A, B, C)>) -> Result<Self::Batch> {
        let (a, (b, c)): (Vec<A>, (Vec<B>, Vec<C>)) = items.into_iter().map(|(a, b, c)| (a, (b, c))).unzip();
        Ok((A::collate(a)?, B::collate(b)?, C::collate(c)?))
    }
}
