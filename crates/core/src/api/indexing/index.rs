//! NumPy-style indexing: `t.i((.., 1..3, -1, NewAxis))`.
//!
//! Each item of an index is an [`Ix`]: a place, a slice, `..` for all axes not named, a new axis, or an index tensor
//! (integers, or a bool mask). Places, slices and new axes are views; index tensors follow NumPy's rules for advanced
//! indexing and are in [`crate::api::advanced`].

use crate::api::slice::span;
use crate::{DType, Error, ErrorKind, Result, Tensor};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A new axis of extent 1 in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// One item of an index.
#[derive(Clone)]
pub enum Ix {
    /// One place of an axis, negative from the end; the axis goes.
    At(i64),
    /// Part of an axis, by Python's rules.
    Slice {
        /// First place, or the end that `step` walks away from.
        start: Option<i64>,
        /// The place before which it stops.
        end: Option<i64>,
        /// Distance between elements; negative walks back.
        step: i64,
    },
    /// All axes that no other item names.
    Ellipsis,
    /// A new axis of extent 1.
    NewAxis,
    /// Places as integers, or a bool mask over as many axes as it has.
    Tensor(Tensor),
}

/// A slice with a step: `s(1..9, 2)`, or `s(.., -1)` for all elements backwards.
///
/// ```
/// use gradus_core::{s, Tensor};
/// let x = Tensor::from([0, 1, 2, 3, 4, 5]);
/// assert_eq!(x.i(s(1..5, 2)).unwrap().to_vec::<i32>().unwrap(), [1, 3]);
/// assert_eq!(x.i(s(.., -2)).unwrap().to_vec::<i32>().unwrap(), [5, 3, 1]);
/// ```
pub fn s(range: impl Into<Ix>, step: i64) -> Ix {
    match range.into() {
        Ix::Slice { start, end, .. } => Ix::Slice { start, end, step },
        Ix::Ellipsis => Ix::Slice { start: None, end: None, step },
        other @ (Ix::At(_) | Ix::NewAxis | Ix::Tensor(_)) => other,
    }
}

/// What [`Tensor::i`] takes: one item, a tuple of up to six, or a slice of [`Ix`].
pub trait IntoIndex {
    /// The items in order.
    fn into_index(self) -> Vec<Ix>;
}

macro_rules! item {
    ($($t:ty, |$x:ident| $ix:expr;)*) => {$(
        impl From<$t> for Ix { fn from($x: $t) -> Ix { $ix } }
        impl IntoIndex for $t { fn into_index(self) -> Vec<Ix> { vec![self.into()] } }
    )*};
}

/// The end after an inclusive one; after the last element there is none.
fn after(i: i64) -> Option<i64> {
    if i == -1 { None } else { i.checked_add(1) }
}

macro_rules! integers {
    ($($t:ty),*) => {$(item! {
        $t, |i| Ix::At(i as i64);
        Range<$t>, |r| Ix::Slice { start: Some(r.start as i64), end: Some(r.end as i64), step: 1 };
        RangeFrom<$t>, |r| Ix::Slice { start: Some(r.start as i64), end: None, step: 1 };
        RangeTo<$t>, |r| Ix::Slice { start: None, end: Some(r.end as i64), step: 1 };
        RangeInclusive<$t>, |r| Ix::Slice { start: Some(*r.start() as i64), end: after(*r.end() as i64), step: 1 };
        RangeToInclusive<$t>, |r| Ix::Slice { start: None, end: after(r.end as i64), step: 1 };
    })*};
}
integers!(i32, i64, isize, usize);
item! {
    RangeFull, |_r| Ix::Ellipsis;
    NewAxis, |_n| Ix::NewAxis;
    Tensor, |t| Ix::Tensor(t);
    &Tensor, |t| Ix::Tensor(t.clone());
}

impl IntoIndex for Ix {
    fn into_index(self) -> Vec<Ix> {
        vec![self]
    }
}
impl IntoIndex for Vec<Ix> {
    fn into_index(self) -> Vec<Ix> {
        self
    }
}
impl IntoIndex for &[Ix] {
    fn into_index(self) -> Vec<Ix> {
        self.to_vec()
    }
}
impl<const N: usize> IntoIndex for [Ix; N] {
    fn into_index(self) -> Vec<Ix> {
        self.into()
    }
}
macro_rules! tuples {
    ($(($($t:ident $k:tt),+))*) => {$(
        impl<$($t: Into<Ix>),+> IntoIndex for ($($t,)+) {
            fn into_index(self) -> Vec<Ix> { vec![$(self.$k.into()),+] }
        }
    )*};
}
tuples! {
    (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// What is left after the views of an index: the viewed tensor, and which of its axes an index tensor looks up.
pub(crate) struct Basic {
    /// Places, slices and new axes applied.
    pub view: Tensor,
    /// One entry an axis of `view`.
    pub lookups: Vec<Option<Tensor>>,
    /// Whether a slice, an ellipsis or a new axis stands between index tensors (places count as index tensors).
    pub apart: bool,
}

impl Tensor {
    /// Elements by NumPy's rules: places, ranges, `..`, [`NewAxis`], index tensors and masks, in a tuple.
    ///
    /// ```
    /// use gradus_core::{NewAxis, Tensor};
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.i((.., 1..)).unwrap().to_vec::<i32>().unwrap(), [2, 3, 5, 6]);
    /// assert_eq!(x.i((-1, ..-1)).unwrap().to_vec::<i32>().unwrap(), [4, 5]);
    /// assert_eq!(x.i((.., NewAxis, 0)).unwrap().dims(), [2, 1]);
    /// let rows = Tensor::from([1i64, 0, 1]);
    /// assert_eq!(x.i((&rows, 2)).unwrap().to_vec::<i32>().unwrap(), [6, 3, 6]);
    /// let even = (&x % 2).eq(0).unwrap();
    /// assert_eq!(x.i(even).unwrap().to_vec::<i32>().unwrap(), [2, 4, 6]);
    /// ```
    #[track_caller]
    pub fn i(&self, index: impl IntoIndex) -> Result<Tensor> {
        let Basic { view, lookups, apart } = self.basic_index(index.into_index())?;
        view.lookup("i", lookups, apart)
    }

    /// A copy with `values` (broadcast) written where [`Tensor::i`] reads; the last of several stays.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.i_put(1.., &Tensor::from(9)).unwrap().to_vec::<i32>().unwrap(), [1, 9, 9]);
    /// ```
    #[track_caller]
    pub fn i_put(&self, index: impl IntoIndex, values: &Tensor) -> Result<Tensor> {
        // The same index on the elements' own numbers says where each value goes.
        let at = Tensor::arange_on(self.numel(), self.device()).reshape_to(self.shape()).i(index)?;
        let values = values.to_dtype(self.dtype());
        if !values.shape().expands_to(at.shape()) {
            let why = format!("values of shape {} do not broadcast to the {} places", values.shape(), at.shape());
            let e = Error::shape("i_put", &[at.shape(), values.shape()], why);
            return Err(e.operand(self).operand(&values));
        }
        self.put(&at, &values.expand_to(at.shape()), false)
    }

    /// Applies what is a view.
    #[track_caller]
    fn basic_index(&self, mut items: Vec<Ix>) -> Result<Basic> {
        let takes = |ix: &Ix| match ix {
            Ix::At(_) | Ix::Slice { .. } => 1,
            Ix::Ellipsis | Ix::NewAxis => 0,
            Ix::Tensor(t) if t.dtype() == DType::Bool => t.rank(),
            Ix::Tensor(_) => 1,
        };
        let named: usize = items.iter().map(takes).sum();
        if named > self.rank() {
            let why = format!("{named} axes are indexed, and {} has {}", self.shape(), self.rank());
            return Err(Error::shape("i", &[self.shape()], why).operand(self));
        }
        match items.iter().filter(|ix| matches!(ix, Ix::Ellipsis)).count() {
            0 => items.push(Ix::Ellipsis),
            1 => {}
            n => return Err(Error::value("i", format!("an index has one `..`, not {n}")).operand(self)),
        }
        let advanced = items.iter().any(|ix| matches!(ix, Ix::Tensor(_)));
        let mut view = self.resolve();
        let mut lookups = vec![];
        // `axis` counts axes of `view`, `source` those of this tensor (for messages).
        let (mut axis, mut source) = (0, 0);
        // Index tensors are apart when something else stands between two of them.
        let (mut seen, mut gap, mut apart) = (false, false, false);
        for ix in items {
            match &ix {
                Ix::Tensor(_) | Ix::At(_) => (seen, apart) = (true, apart || (seen && gap)),
                Ix::Slice { .. } | Ix::Ellipsis | Ix::NewAxis => gap |= seen,
            }
            match ix {
                Ix::At(index) => {
                    let n = self.dims()[source];
                    let i = if index < 0 { index.saturating_add(n as i64) } else { index };
                    if i < 0 || i >= n as i64 {
                        let why = format!(" (axis {source} of {})", self.shape());
                        return Err(Error::new("i", ErrorKind::Index { index, size: n, why }).operand(self));
                    }
                    if advanced {
                        // Beside index tensors, a place counts as one of them: it decides where their axes go.
                        lookups.push(Some(Tensor::constant(crate::Scalar::I(i), DType::I64, self.device())));
                        axis += 1;
                    } else {
                        view = view.select(axis as i64, i)?;
                    }
                    source += 1;
                }
                Ix::Slice { start, end, step } => {
                    if step == 0 {
                        let why = format!("a step of 0 along axis {source} of {}", self.shape());
                        return Err(Error::value("i", why).operand(self));
                    }
                    let (from, len) = span(self.dims()[source], start, end, step);
                    view = view.sliced(axis, from, step as isize, len);
                    lookups.push(None);
                    (axis, source) = (axis + 1, source + 1);
                }
                Ix::Ellipsis => {
                    let rest = self.rank() - named;
                    lookups.extend((0..rest).map(|_| None));
                    (axis, source) = (axis + rest, source + rest);
                }
                Ix::NewAxis => {
                    view = view.unsqueeze(axis as i64)?;
                    lookups.push(None);
                    axis += 1;
                }
                Ix::Tensor(t) if t.dtype() == DType::Bool && t.rank() == 0 => {
                    // A single truth value: a new axis of extent 1 or 0.
                    let n = t.to_vec::<bool>()?.iter().filter(|&&b| b).count();
                    view = view.unsqueeze(axis as i64)?;
                    lookups.push(Some(Tensor::zeros_on(n.into(), DType::I64, self.device())));
                    axis += 1;
                }
                Ix::Tensor(t) if t.dtype() == DType::Bool => {
                    let part = &self.dims()[source..source + t.rank()];
                    if t.dims() != part {
                        let why =
                            format!("a mask of shape {} does not fit axes {source}.. of {}", t.shape(), self.shape());
                        let e = Error::shape("i", &[self.shape(), t.shape()], why);
                        return Err(e.operand(self).operand(&t));
                    }
                    lookups.extend(t.nonzero_tuple()?.into_iter().map(Some));
                    (axis, source) = (axis + t.rank(), source + t.rank());
                }
                Ix::Tensor(t) => {
                    lookups.push(Some(t.as_index("i")?));
                    (axis, source) = (axis + 1, source + 1);
                }
            }
        }
        Ok(Basic { view, lookups, apart })
    }
}
