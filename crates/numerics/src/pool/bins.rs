//! Which elements of an axis belong together.

use std::ops::Range;

/// The windows of one axis: element `r` of window `o` is element `o * stride + r * dilation -
/// padding` of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Elements of the axis.
    pub n: usize,
    /// Elements of a window.
    pub size: usize,
    /// Step between windows.
    pub stride: usize,
    /// Elements before the axis that the first window reaches over.
    pub padding: usize,
    /// Distance between the elements of a window.
    pub dilation: usize,
    /// Number of windows.
    pub out: usize,
}

impl Window {
    /// The windows that fit `n` elements with padding on both sides. With `ceil` a last one may hang over the end, if
    /// it starts inside. `None` if there are none, or so many that places could not be counted.
    ///
    /// ```
    /// use gradus_numerics::pool::Window;
    /// let fit = |ceil| Window::fit(5, 2, 2, 0, 1, ceil).map(|w| (w.out, w.overhangs()));
    /// assert_eq!((fit(false), fit(true)), (Some((2, false)), Some((3, true))));
    /// ```
    pub fn fit(n: usize, size: usize, stride: usize, padding: usize, dilation: usize, ceil: bool) -> Option<Window> {
        let reach = dilation.checked_mul(size.checked_sub(1)?)?.checked_add(1)?;
        let padded = padding.checked_mul(2)?.checked_add(n)?;
        let slack = if ceil { stride.checked_sub(1)? } else { 0 };
        let mut out = padded.checked_add(slack)?.checked_sub(reach)?.checked_div(stride)? + 1;
        if ceil && (out - 1).checked_mul(stride)? >= n + padding {
            out -= 1;
        }
        let end = (out.checked_sub(1)?).checked_mul(stride)?.checked_add(reach)?;
        let limit = isize::MAX as usize / 16;
        (out > 0 && end < limit && padded < limit).then_some(Window { n, size, stride, padding, dilation, out })
    }

    /// Elements from the first to the last of a window.
    pub fn reach(&self) -> usize {
        self.dilation * (self.size - 1) + 1
    }

    /// Elements from the start of the first window to the end of the last.
    pub fn span(&self) -> usize {
        (self.out - 1) * self.stride + self.reach()
    }

    /// Elements after the axis that the last window reaches over.
    pub fn after(&self) -> usize {
        self.span().saturating_sub(self.n + self.padding)
    }

    /// Whether some window reaches over an end.
    pub fn overhangs(&self) -> bool {
        self.padding > 0 || self.after() > 0
    }

    /// Whether windows lie side by side in pairs, and reach over no end.
    pub(super) fn is_pairs(&self) -> bool {
        (self.size, self.stride, self.padding, self.dilation) == (2, 2, 0, 1) && 2 * self.out <= self.n
    }
}

/// The bins of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bins {
    /// Windows, of equal size and distance.
    Even(Window),
    /// Bin `o` runs from `floor(o n / out)` to `ceil((o + 1) n / out)`.
    Adaptive {
        /// Elements of the axis.
        n: usize,
        /// Number of bins.
        out: usize,
    },
}

impl From<Window> for Bins {
    fn from(w: Window) -> Bins {
        Bins::Even(w)
    }
}

impl Bins {
    /// Elements of the axis.
    pub fn n(&self) -> usize {
        match self {
            Bins::Even(w) => w.n,
            Bins::Adaptive { n, .. } => *n,
        }
    }

    /// Number of bins.
    pub fn out(&self) -> usize {
        match self {
            Bins::Even(w) => w.out,
            Bins::Adaptive { out, .. } => *out,
        }
    }

    /// The elements of bin `o` that are inside the axis, by their numbers in the bin.
    pub(super) fn inside(&self, o: usize) -> Range<usize> {
        match self {
            Bins::Even(w) => {
                let from = w.padding.saturating_sub(o * w.stride).div_ceil(w.dilation).min(w.size);
                let to = (w.n + w.padding).saturating_sub(o * w.stride).div_ceil(w.dilation).min(w.size);
                from..to.max(from)
            }
            Bins::Adaptive { n, out } => 0..((o + 1) * n).div_ceil(*out) - o * n / out,
        }
    }

    /// Where element `r` of bin `o` is.
    pub(super) fn at(&self, o: usize, r: usize) -> usize {
        match self {
            Bins::Even(w) => o * w.stride + r * w.dilation - w.padding,
            Bins::Adaptive { n, out } => o * n / out + r,
        }
    }

    /// The elements of bin `o`, of neighbours, that are inside the axis.
    pub(super) fn range(&self, o: usize) -> Range<usize> {
        let inside = self.inside(o);
        if inside.is_empty() {
            return 0..0;
        }
        let from = self.at(o, inside.start);
        from..from + inside.len()
    }

    /// The windows, if that is what they are.
    pub(super) fn window(&self) -> Option<&Window> {
        match self {
            Bins::Even(w) => Some(w),
            Bins::Adaptive { .. } => None,
        }
    }
}
