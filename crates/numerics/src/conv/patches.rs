//! Unrolling of image patches into the columns of a matrix, and the reverse.

use super::ConvParams;
use crate::element::Real;
use crate::scratch::{self, Scratch};
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
    /// row: the stretch's place in the block, its depth and height, and its columns. (Always inlined: vectors of `f` would
    /// else be calls, as this function has no wider ones than every CPU has.)
    #[inline(always)]
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

/// Where the elements of a channel go when the patches of some output positions are unrolled, in stretches of a row: the same for
/// all channels and images, so that it is found once.
pub(super) struct Runs {
    room: Scratch,
    count: usize,
    /// From one element of a stretch to the next in the image.
    stride: usize,
    /// Elements of a channel, and of its patches.
    inputs: usize,
    patches: usize,
    /// Whether no patch reaches beyond the image.
    full: bool,
}

/// One stretch: its first places, and how many elements.
#[repr(C)]
#[derive(Clone, Copy)]
struct Run {
    to: usize,
    from: usize,
    len: usize,
}

impl Runs {
    /// For output positions `first .. first + count`. Unrolled, there is a row for each kernel element, `pitch` apart.
    pub fn new(g: &Geometry, first: usize, count: usize, pitch: usize) -> Runs {
        let (kernel, stride) = (g.kernel.iter().product::<usize>(), g.params.stride[2]);
        let most = kernel * (count.div_ceil(g.output[2]) + 1);
        let room = scratch::take((most * size_of::<Run>()).div_ceil(size_of::<f32>()));
        let mut runs = Runs { room, count: 0, stride, inputs: g.inputs(), patches: kernel * pitch, full: false };
        let (mut n, mut there) = (0usize, 0);
        let all = runs.all_mut(most);
        for (k, [kd, kh, kw]) in kernel_elements(g.kernel).enumerate() {
            g.for_rows(first, count, |at, [d, h], columns| {
                let inside = g.inside(2, kw, columns.clone());
                let source = (g.source(0, d, kd), g.source(1, h, kh), g.source(2, inside.start, kw));
                let (false, (Some(d), Some(h), Some(w))) = (inside.is_empty(), source) else { return };
                there += inside.len();
                let to = k * pitch + at + inside.start - columns.start;
                let from = (d * g.input[1] + h) * g.input[2] + w;
                let len = inside.len();
                match n.checked_sub(1).map(|last| &mut all[last]) {
                    // Where an image has no edge between them, two rows are one stretch.
                    Some(r) if stride == 1 && (r.to + r.len, r.from + r.len) == (to, from) => r.len += len,
                    _ => {
                        all[n] = Run { to, from, len };
                        n += 1;
                    }
                }
            });
        }
        Runs { count: n, full: there == kernel * count, ..runs }
    }

    fn all_mut(&mut self, n: usize) -> &mut [Run] {
        assert!(self.room.len() * size_of::<f32>() >= n * size_of::<Run>(), "room for them");
        // SAFETY: as many bytes, aligned, and borrowed exclusively; all bits are numbers.
        unsafe { std::slice::from_raw_parts_mut(self.room.as_mut_ptr().cast(), n) }
    }

    /// Calls `f` with the first place in the unrolled patches and in the image of each stretch, and its length.
    #[inline(always)]
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        self.all().iter().for_each(|r| f(r.to, r.from, r.len));
    }

    fn all(&self) -> &[Run] {
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts(self.room.as_ptr().cast(), self.count) }
    }

    /// Zeros in all places that [`Runs::gather`] leaves alone.
    pub fn clear<T: Real>(&self, columns: &mut [T]) {
        if !self.full {
            columns.fill(T::ZERO);
        }
    }

    /// Unrolls the patches of some channels.
    pub fn gather<T: Real>(&self, x: &[T], columns: &mut [T]) {
        for (c, x) in x.chunks_exact(self.inputs.max(1)).enumerate() {
            let columns = &mut columns[c * self.patches..];
            for r in self.all() {
                let (to, len) = (&mut columns[r.to..][..r.len], r.len);
                let x = &x[r.from..];
                match self.stride {
                    1 => short(&x[..len], to),
                    s => to.iter_mut().zip(x.iter().step_by(s)).for_each(|(to, x)| *to = *x),
                }
            }
        }
    }

    /// Adds patches back to where [`Runs::gather`] took them from.
    pub fn scatter<T: Real>(&self, columns: &[T], x: &mut [T]) {
        for (c, x) in x.chunks_exact_mut(self.inputs.max(1)).enumerate() {
            let columns = &columns[c * self.patches..];
            for r in self.all() {
                let (from, len) = (&columns[r.to..][..r.len], r.len);
                let x = &mut x[r.from..];
                match self.stride {
                    1 => x[..len].iter_mut().zip(from).for_each(|(x, c)| *x += *c),
                    s => x.iter_mut().step_by(s).zip(from).for_each(|(x, c)| *x += *c),
                }
            }
        }
    }
}

/// A copy that is no call where it is short: the first and the last elements, which meet.
#[inline(always)]
fn short<T: Copy>(from: &[T], to: &mut [T]) {
    #[inline(always)]
    fn ends<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
        to[..N].copy_from_slice(&from[..N]);
        let last = from.len() - N;
        to[last..][..N].copy_from_slice(&from[last..][..N]);
    }
    match from.len() {
        1 => to[0] = from[0],
        2..=4 => ends::<T, 2>(from, to),
        5..=8 => ends::<T, 4>(from, to),
        _ => to.copy_from_slice(from),
    }
}
