//! Strided views: an affine map from a tensor's index to an element of a buffer, with affine bounds for padding.
//!
//! Permute, expand, slice, flip and window are changes of strides; pad is a bound ("outside it, the value is zero");
//! what strides cannot say (some reshapes) is a copy, and [`View::apply`] answers `None` there.

use crate::Shape;
use smallvec::SmallVec;

pub(crate) type Coefs = SmallVec<[isize; 6]>;

/// One movement of data that strides can express on a contiguous tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewOp {
    /// The same elements in row-major order under another shape.
    Reshape(Shape),
    /// Axes in a new order: axis `i` of the result is axis `p[i]` of the input.
    Permute(SmallVec<[usize; 6]>),
    /// NumPy broadcasting to this shape.
    Expand(Shape),
    /// `len` elements of `axis` from `start`, `step` apart (negative walks back).
    Slice {
        /// The axis that is cut.
        axis: usize,
        /// First element.
        start: usize,
        /// Distance between elements; never 0.
        step: isize,
        /// Number of elements.
        len: usize,
    },
    /// Overlapping windows of `size` along `axis`, `step` apart; the window becomes the last axis.
    Unfold {
        /// The axis windows run along.
        axis: usize,
        /// Window length.
        size: usize,
        /// Distance between windows.
        step: usize,
    },
    /// Zeros before and after each axis.
    Pad(SmallVec<[(usize, usize); 6]>),
}

impl ViewOp {
    /// The shape that results from `shape`. The arguments were checked when the node was made.
    pub fn shape(&self, shape: &Shape) -> Shape {
        match self {
            ViewOp::Reshape(s) | ViewOp::Expand(s) => s.clone(),
            ViewOp::Permute(p) => p.iter().map(|&i| shape[i]).collect(),
            ViewOp::Slice { axis, len, .. } => shape.with(*axis, *len),
            ViewOp::Unfold { axis, size, step } => {
                let mut s = shape.with(*axis, (shape[*axis] - size) / step + 1);
                s.0.push(*size);
                s
            }
            ViewOp::Pad(p) => shape.iter().zip(p).map(|(&n, &(a, b))| a + n + b).collect(),
        }
    }
}

/// `lo <= sum(coefs * index) < hi`: where it fails, the element is zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// One factor an axis.
    pub coefs: Coefs,
    /// Inclusive lower end.
    pub lo: isize,
    /// Exclusive upper end.
    pub hi: isize,
}

/// How a tensor's elements lie in a buffer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Extents.
    pub shape: Shape,
    /// Elements to step in the buffer for one step along each axis.
    pub strides: Coefs,
    /// Position of the first element.
    pub offset: isize,
    /// Padding, if any.
    pub bounds: SmallVec<[Bound; 1]>,
}

impl Clone for View {
    fn clone(&self) -> View {
        let bounds = if self.bounds.is_empty() { SmallVec::new() } else { self.bounds.clone() };
        // As one piece; a derived clone goes number by number.
        View { shape: self.shape.clone(), strides: SmallVec::from_slice(&self.strides), offset: self.offset, bounds }
    }
}

impl View {
    /// Row-major, from element 0.
    pub fn contiguous(shape: &Shape) -> View {
        View { shape: shape.clone(), strides: shape.strides(), offset: 0, bounds: SmallVec::new() }
    }

    /// Whether the elements lie one after the other, in row-major order, without padding.
    pub fn is_contiguous(&self) -> bool {
        if !self.bounds.is_empty() {
            return false;
        }
        // Without elements every order is right, and the other extents may be too large to multiply.
        if self.shape.contains(&0) {
            return true;
        }
        let mut step = 1isize;
        for (&n, &s) in self.shape.iter().zip(&self.strides).rev() {
            if n != 1 && s != step {
                return false;
            }
            step *= n as isize;
        }
        true
    }

    /// This view followed by `op`, or `None` when strides cannot express it.
    pub fn apply(&self, op: &ViewOp) -> Option<View> {
        match op {
            ViewOp::Reshape(to) => self.reshape(to),
            ViewOp::Permute(p) => Some(self.map(op, |c| p.iter().map(|&i| c[i]).collect())),
            ViewOp::Expand(to) => {
                let lead = to.rank() - self.shape.rank();
                let at = |c: &Coefs, i: usize| {
                    if i < lead || self.shape[i - lead] != to[i] { 0 } else { c[i - lead] }
                };
                Some(self.map(op, |c| (0..to.rank()).map(|i| at(c, i)).collect()))
            }
            ViewOp::Slice { axis, start, step, .. } => {
                let mut v = self.map(op, |c| {
                    let mut c = c.clone();
                    c[*axis] *= step;
                    c
                });
                v.offset += *start as isize * self.strides[*axis];
                for (b, old) in v.bounds.iter_mut().zip(&self.bounds) {
                    let moved = *start as isize * old.coefs[*axis];
                    b.lo -= moved;
                    b.hi -= moved;
                }
                Some(v)
            }
            ViewOp::Unfold { axis, step, .. } => Some(self.map(op, |c| {
                let mut c = c.clone();
                c.push(c[*axis]);
                c[*axis] *= *step as isize;
                c
            })),
            ViewOp::Pad(amounts) => {
                let mut v = self.map(op, |c| c.clone());
                for (axis, &(before, after)) in amounts.iter().enumerate() {
                    let before = before as isize;
                    v.offset -= before * self.strides[axis];
                    for b in &mut v.bounds {
                        b.lo += before * b.coefs[axis];
                        b.hi += before * b.coefs[axis];
                    }
                    if before != 0 || after != 0 {
                        let mut coefs: Coefs = SmallVec::from_elem(0, self.shape.rank());
                        coefs[axis] = 1;
                        v.bounds.push(Bound { coefs, lo: before, hi: before + self.shape[axis] as isize });
                    }
                }
                Some(v)
            }
        }
    }

    /// The same offset and bounds with every coefficient vector (strides and bounds) sent through `f`.
    fn map(&self, op: &ViewOp, f: impl Fn(&Coefs) -> Coefs) -> View {
        View {
            shape: op.shape(&self.shape),
            strides: f(&self.strides),
            offset: self.offset,
            bounds: self.bounds.iter().map(|b| Bound { coefs: f(&b.coefs), lo: b.lo, hi: b.hi }).collect(),
        }
    }

    fn reshape(&self, to: &Shape) -> Option<View> {
        let strides = reshape_coefs(&self.shape, &self.strides, to)?;
        let mut bounds = SmallVec::new();
        for b in &self.bounds {
            bounds.push(Bound { coefs: reshape_coefs(&self.shape, &b.coefs, to)?, lo: b.lo, hi: b.hi });
        }
        Some(View { shape: to.clone(), strides, offset: self.offset, bounds })
    }

    /// The lowest and highest element this view touches (ignoring bounds), or `None` when it is empty.
    pub fn extent(&self) -> Option<(isize, isize)> {
        if self.shape.contains(&0) {
            return None;
        }
        let (mut lo, mut hi) = (self.offset, self.offset);
        for (&n, &s) in self.shape.iter().zip(&self.strides) {
            let span = (n as isize - 1) * s;
            if span < 0 { lo += span } else { hi += span }
        }
        Some((lo, hi))
    }
}

/// The coefficients of a reshaped index space, where they exist: runs of old axes that are contiguous
/// with one another are split or merged freely, others must stay apart.
fn reshape_coefs(from: &[usize], coefs: &[isize], to: &[usize]) -> Option<Coefs> {
    let mut out: Coefs = SmallVec::from_elem(0, to.len());
    if from.contains(&0) {
        return Some(out);
    }
    let old: SmallVec<[(usize, isize); 6]> =
        from.iter().copied().zip(coefs.iter().copied()).filter(|&(n, _)| n != 1).collect();
    let (mut i, mut j) = (0, 0);
    while i < old.len() {
        // Take whole axes on both sides until the products agree.
        let (mut a, mut ni, mut b, mut nj) = (old[i].0, i + 1, 1, j);
        while a != b {
            if a < b {
                // Old axes merged under one new run must be contiguous with each other.
                if old[ni - 1].1 != old[ni].1 * old[ni].0 as isize {
                    return None;
                }
                a *= old[ni].0;
                ni += 1;
            } else {
                b *= to[nj];
                nj += 1;
            }
        }
        let mut step = old[ni - 1].1;
        for k in (j..nj).rev() {
            out[k] = step;
            step *= to[k] as isize;
        }
        (i, j) = (ni, nj);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn read(v: &View, data: &[i32]) -> Vec<i32> {
        let n = v.shape.numel();
        (0..n)
            .map(|mut l| {
                let mut idx = vec![0isize; v.shape.rank()];
                for d in (0..v.shape.rank()).rev() {
                    idx[d] = (l % v.shape[d]) as isize;
                    l /= v.shape[d];
                }
                let dot = |c: &Coefs| c.iter().zip(&idx).map(|(a, b)| a * b).sum::<isize>();
                if v.bounds.iter().all(|b| (b.lo..b.hi).contains(&dot(&b.coefs))) {
                    data[(v.offset + dot(&v.strides)) as usize]
                } else {
                    0
                }
            })
            .collect()
    }

    #[test]
    fn pad_slice_flip_and_unfold_compose() {
        let data: Vec<i32> = (1..=6).collect();
        let v = View::contiguous(&Shape::from([2, 3]));
        let p = v.apply(&ViewOp::Pad(smallvec![(0, 0), (1, 2)])).unwrap();
        assert_eq!(read(&p, &data), [0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0]);
        let f = p.apply(&ViewOp::Slice { axis: 1, start: 4, step: -2, len: 3 }).unwrap();
        assert_eq!(read(&f, &data), [0, 2, 0, 0, 5, 0]);
        let u = p.apply(&ViewOp::Unfold { axis: 1, size: 3, step: 2 }).unwrap();
        assert_eq!(read(&u, &data), [0, 1, 2, 2, 3, 0, 0, 4, 5, 5, 6, 0]);
        let pp = p.apply(&ViewOp::Pad(smallvec![(1, 0), (1, 0)])).unwrap();
        assert_eq!(read(&pp, &data)[7..], [0, 0, 1, 2, 3, 0, 0, 0, 0, 4, 5, 6, 0, 0]);
    }

    #[test]
    fn reshape_of_a_transposed_view_needs_a_copy() {
        let t = View::contiguous(&Shape::from([2, 3])).apply(&ViewOp::Permute(smallvec![1, 0])).unwrap();
        assert!(t.apply(&ViewOp::Reshape(Shape::from([6]))).is_none());
        let split = t.apply(&ViewOp::Reshape(Shape::from([3, 1, 2]))).unwrap();
        assert_eq!(read(&split, &[1, 2, 3, 4, 5, 6]), [1, 4, 2, 5, 3, 6]);
        assert!(View::contiguous(&Shape::from([4, 6])).reshape(&Shape::from([2, 2, 3, 2])).unwrap().is_contiguous());
    }
}
