//! Unrolling of image patches into the columns of a matrix, and the reverse.

use super::ConvParams;
use crate::element::Real;
use std::ops::Range;

/// The spatial sizes of a convolution.
pub(super) struct Geometry {
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub params: ConvParams,
}

impl Geometry {
    pub fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    pub fn outputs(&self) -> usize {
        self.output.iter().product()
    }

    /// Whether every output sees exactly the input at its own position.
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.params.stride == [1; 3] && self.params.padding == [(0, 0); 3]
    }

    /// The input coordinate under kernel element `k` at output `o`, if it is not padding.
    pub fn source(&self, d: usize, o: usize, k: usize) -> Option<usize> {
        let padded = o * self.params.stride[d] + k * self.params.dilation[d];
        padded.checked_sub(self.params.padding[d].0).filter(|&i| i < self.input[d])
    }

    /// The outputs along `d` within `outputs` for which kernel element `k` is not on padding.
    pub fn inside(&self, d: usize, k: usize, outputs: Range<usize>) -> Range<usize> {
        let (s, at) = (self.params.stride[d], k * self.params.dilation[d]);
        let front = self.params.padding[d].0;
        let low = front.saturating_sub(at).div_ceil(s);
        let high = (front + self.input[d]).saturating_sub(at).div_ceil(s);
        let low = low.clamp(outputs.start, outputs.end);
        low..high.clamp(low, outputs.end)
    }

    /// Calls `f` with every stretch of output positions `first..first + count` within one output
    /// row: the stretch's place in the block, its depth and height, and its columns.
    pub fn for_rows(&self, first: usize, count: usize, mut f: impl FnMut(usize, [usize; 2], Range<usize>)) {
        let [_, height, width] = self.output;
        let mut at = first;
        while at < first + count {
            let (row, column) = (at / width, at % width);
            let end = width.min(column + first + count - at);
            f(at - first, [row / height, row % height], column..end);
            at += end - column;
        }
    }
}

/// Kernel elements in row-major order.
pub(super) fn kernel_elements(kernel: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [kd, kh, kw] = kernel;
    (0..kd).flat_map(move |d| (0..kh).flat_map(move |h| (0..kw).map(move |w| [d, h, w])))
}

/// A kernel element's outputs along a row that are not on padding, and the input under the first of them.
struct Seen {
    outputs: Range<usize>,
    first: usize,
}

impl Seen {
    fn new(g: &Geometry, kw: usize) -> Seen {
        let outputs = g.inside(2, kw, 0..g.output[2]);
        let first = g.source(2, outputs.start, kw).unwrap_or(0);
        Seen { outputs, first }
    }

    /// Those of some columns, and the input under the first.
    #[inline(always)]
    fn within(&self, columns: &Range<usize>, stride: usize) -> (Range<usize>, usize) {
        let low = self.outputs.start.clamp(columns.start, columns.end);
        let high = self.outputs.end.clamp(low, columns.end);
        (low..high, self.first + (low - self.outputs.start.min(low)) * stride)
    }
}

/// Fills `columns`, one row per channel and kernel element, one column per output position.
pub(super) fn gather_patches<T: Real>(g: &Geometry, x: &[T], first: usize, count: usize, columns: &mut [T]) {
    if g.inputs() == 0 {
        // All is padding.
        return columns.fill(T::ZERO);
    }
    let stride = g.params.stride[2];
    let mut rows = columns.chunks_exact_mut(count);
    for x in x.chunks_exact(g.inputs()) {
        for ([kd, kh, kw], row) in kernel_elements(g.kernel).zip(&mut rows) {
            let seen = Seen::new(g, kw);
            g.for_rows(first, count, |at, [d, h], columns| {
                let row = &mut row[at..][..columns.len()];
                let (Some(d), Some(h)) = (g.source(0, d, kd), g.source(1, h, kh)) else {
                    return row.fill(T::ZERO);
                };
                let (inside, w) = seen.within(&columns, stride);
                let (left, right) = (inside.start - columns.start, inside.end - columns.start);
                row[..left].fill(T::ZERO);
                row[right..].fill(T::ZERO);
                if left < right {
                    let x = &x[(d * g.input[1] + h) * g.input[2] + w..];
                    if stride == 1 {
                        row[left..right].copy_from_slice(&x[..right - left]);
                    } else {
                        row[left..right].iter_mut().zip(x.iter().step_by(stride)).for_each(|(r, x)| *r = *x);
                    }
                }
            });
        }
    }
}

/// Adds `columns` back to where [`gather_patches`] took them from.
pub(super) fn scatter_patches<T: Real>(g: &Geometry, columns: &[T], first: usize, count: usize, x: &mut [T]) {
    let stride = g.params.stride[2];
    let mut rows = columns.chunks_exact(count);
    for x in x.chunks_exact_mut(g.inputs().max(1)) {
        for ([kd, kh, kw], row) in kernel_elements(g.kernel).zip(&mut rows) {
            let seen = Seen::new(g, kw);
            g.for_rows(first, count, |at, [d, h], columns| {
                let (Some(d), Some(h)) = (g.source(0, d, kd), g.source(1, h, kh)) else { return };
                let (inside, w) = seen.within(&columns, stride);
                if !inside.is_empty() {
                    let row = &row[at + inside.start - columns.start..][..inside.len()];
                    let x = &mut x[(d * g.input[1] + h) * g.input[2] + w..];
                    // The unit stride apart: it becomes a vector loop.
                    if stride == 1 {
                        x.iter_mut().zip(row).for_each(|(x, r)| *x += *r);
                    } else {
                        x.iter_mut().step_by(stride).zip(row).for_each(|(x, r)| *x += *r);
                    }
                }
            });
        }
    }
}
