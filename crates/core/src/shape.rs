//! Shapes, axes and NumPy broadcasting.

use smallvec::SmallVec;
use std::{fmt, ops::Deref};

/// The extents of a tensor, outermost first. A scalar has none.
///
/// ```
/// use gradus_core::Shape;
/// let s = Shape::from([2, 3]);
/// assert_eq!((s.rank(), s.numel()), (2, 6));
/// assert_eq!(s.to_string(), "[2, 3]");
/// ```
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(pub(crate) SmallVec<[usize; 6]>);

impl Clone for Shape {
    fn clone(&self) -> Shape {
        // As one piece; a derived clone goes number by number.
        Shape(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements; saturates instead of wrapping.
    pub fn numel(&self) -> usize {
        self.checked_numel().unwrap_or(usize::MAX)
    }

    /// The number of elements, or `None` when it does not fit a `usize`.
    pub fn checked_numel(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// NumPy broadcasting of two shapes, or `None` where two extents differ and neither is 1.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let at = |s: &Shape, i: usize| if i + s.rank() >= rank { s[i + s.rank() - rank] } else { 1 };
        (0..rank)
            .map(|i| match (at(self, i), at(other, i)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<SmallVec<_>>>()
            .map(Shape)
    }

    /// Whether a tensor of this shape expands to `to` by broadcasting.
    pub fn expands_to(&self, to: &Shape) -> bool {
        self == to || self.broadcast(to).as_ref() == Some(to)
    }

    /// Row-major strides, in elements.
    pub fn strides(&self) -> SmallVec<[isize; 6]> {
        let mut out = SmallVec::from_elem(0, self.rank());
        let mut step = 1isize;
        for i in (0..self.rank()).rev() {
            out[i] = step;
            step = step.saturating_mul(self[i].max(1) as isize);
        }
        out
    }

    /// This shape with the extent of `axis` replaced.
    pub fn with(&self, axis: usize, extent: usize) -> Shape {
        let mut s = self.clone();
        s.0[axis] = extent;
        s
    }

    /// This shape with `axis` removed.
    pub fn without(&self, axis: usize) -> Shape {
        let mut s = self.clone();
        s.0.remove(axis);
        s
    }

    /// This shape with an axis of this extent put in before `axis`.
    pub fn inserted(&self, axis: usize, extent: usize) -> Shape {
        let mut s = self.clone();
        s.0.insert(axis, extent);
        s
    }

    /// As a plain vector.
    pub fn to_vec(&self) -> Vec<usize> {
        self.0.to_vec()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0[..])
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0[..])
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(d: [usize; N]) -> Self {
        Shape(SmallVec::from_slice(&d))
    }
}
impl From<&[usize]> for Shape {
    fn from(d: &[usize]) -> Self {
        Shape(SmallVec::from_slice(d))
    }
}
impl From<Vec<usize>> for Shape {
    fn from(d: Vec<usize>) -> Self {
        Shape(SmallVec::from_vec(d))
    }
}
impl From<&Vec<usize>> for Shape {
    fn from(d: &Vec<usize>) -> Self {
        Shape(SmallVec::from_slice(d))
    }
}
impl From<usize> for Shape {
    fn from(d: usize) -> Self {
        Shape(SmallVec::from_slice(&[d]))
    }
}
impl From<()> for Shape {
    fn from(_: ()) -> Self {
        Shape::default()
    }
}
impl From<&Shape> for Shape {
    fn from(s: &Shape) -> Self {
        s.clone()
    }
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(it: I) -> Self {
        Shape(it.into_iter().collect())
    }
}
impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, o: &[usize; N]) -> bool {
        self.0[..] == o[..]
    }
}

/// Axes as the user writes them: one, several, negative from the end; `..` or `()` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Every axis.
    All,
    /// These, negative ones counted from the end.
    List(SmallVec<[i64; 6]>),
}

impl From<()> for Axes {
    fn from(_: ()) -> Self {
        Axes::All
    }
}
impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Axes::All
    }
}
impl From<&Shape> for Axes {
    fn from(s: &Shape) -> Self {
        Axes::List(s.iter().map(|&n| n as i64).collect())
    }
}
impl From<Shape> for Axes {
    fn from(s: Shape) -> Self {
        Axes::from(&s)
    }
}
macro_rules! axes_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Axes { fn from(a: $t) -> Self { Axes::List(SmallVec::from_slice(&[a as i64])) } }
        impl<const N: usize> From<[$t; N]> for Axes {
            fn from(a: [$t; N]) -> Self { Axes::List(a.iter().map(|&x| x as i64).collect()) }
        }
        impl From<&[$t]> for Axes { fn from(a: &[$t]) -> Self { Axes::List(a.iter().map(|&x| x as i64).collect()) } }
        impl From<Vec<$t>> for Axes { fn from(a: Vec<$t>) -> Self { Axes::List(a.iter().map(|&x| x as i64).collect()) } }
        impl From<&Vec<$t>> for Axes { fn from(a: &Vec<$t>) -> Self { Axes::List(a.iter().map(|&x| x as i64).collect()) } }
    )*};
}
axes_from!(i32, i64, isize, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let b = |a: &[usize], c: &[usize]| Shape::from(a).broadcast(&Shape::from(c)).map(|s| s.to_vec());
        assert_eq!(b(&[3], &[3, 1]), Some(vec![3, 3]));
        assert_eq!(b(&[], &[2, 0]), Some(vec![2, 0]));
        assert_eq!(b(&[1], &[0]), Some(vec![0]));
        assert_eq!(b(&[2, 3], &[2]), None);
    }

    #[test]
    fn numel_never_wraps() {
        assert_eq!(Shape::from([usize::MAX, 2]).checked_numel(), None);
        assert_eq!(Shape::from([usize::MAX, 2, 0]).checked_numel(), Some(0));
    }
}
