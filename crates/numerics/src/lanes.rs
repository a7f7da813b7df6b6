//! The `(outer, n, inner)` view of an array along one axis.

/// An array seen along one axis: `outer` blocks of `n` rows of `inner` elements.
///
/// The axis has length `n`; a *lane* is the `n` elements that share the other indices, `inner`
/// elements apart.
///
/// ```
/// use gradus_numerics::Lanes;
/// let l = Lanes::of(&[2, 3, 4], 1);
/// assert_eq!(l, Lanes { outer: 2, n: 3, inner: 4 });
/// assert_eq!(l.len(), 24);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub n: usize,
    /// The product of the sizes after the axis.
    pub inner: usize,
}

impl Lanes {
    /// The lanes of `shape` along `axis`; a shape without dimensions has one lane of one element.
    pub fn of(shape: &[usize], axis: usize) -> Self {
        if shape.is_empty() {
            return Lanes { outer: 1, n: 1, inner: 1 };
        }
        Lanes { outer: shape[..axis].iter().product(), n: shape[axis], inner: shape[axis + 1..].iter().product() }
    }

    /// Rows of `n` elements each, one after the other.
    pub fn rows(rows: usize, n: usize) -> Self {
        Lanes { outer: rows, n, inner: 1 }
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.outer * self.n * self.inner
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The same lanes with another length.
    pub fn with_n(self, n: usize) -> Self {
        Lanes { n, ..self }
    }

    /// The number of lanes.
    pub fn count(self) -> usize {
        self.outer * self.inner
    }
}

/// Work below this many simple element operations is not worth waking other threads for.
pub(crate) const PARALLEL_WORK: usize = 1 << 16;
