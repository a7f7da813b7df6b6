//! The gradient for the input of strided convolutions as a convolution of unit stride.
//!
//! Input position `u` (padding included) `= s q + r` gets weight `k` times gradient `o` where
//! `u = s o + d k`: so `o = q - (d k - r) / s` for those `k` for which that is a whole number. On the
//! grid of the `q` this is a convolution of unit stride, of which every residue `r` sees some elements.

use crate::conv::ConvParams;
use crate::conv::patches::Geometry;
use std::ops::Range;

/// One axis of the problem.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub stride: usize,
    dilation: usize,
    pub kernel: usize,
    pub pad: usize,
    pub input: usize,
    output: usize,
}

impl Axis {
    fn new(g: &Geometry, d: usize) -> Axis {
        let p = &g.params;
        let (input, output) = (g.input[d], g.output[d]);
        Axis { stride: p.stride[d], dilation: p.dilation[d], kernel: g.kernel[d], pad: p.padding[d].0, input, output }
    }

    /// How far the sums reach back on the grid.
    fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation / self.stride
    }

    /// The grid's first place.
    fn first(&self) -> usize {
        self.pad / self.stride
    }

    /// How many places there are.
    fn count(&self) -> usize {
        (self.pad + self.input - 1) / self.stride - self.first() + 1
    }

    /// The position of a residue at a place of the grid, if it is inside the input.
    pub fn position(&self, place: usize, residue: usize) -> Option<usize> {
        let at = (place + self.first()) * self.stride + residue;
        at.checked_sub(self.pad).filter(|&u| u < self.input)
    }

    /// The positions that belong to places of the grid.
    pub fn positions(&self, grid: Range<usize>) -> Range<usize> {
        let at = |q: usize| ((q + self.first()) * self.stride).saturating_sub(self.pad).min(self.input);
        at(grid.start)..at(grid.end)
    }

    /// The place of a position on the grid.
    pub fn place(&self, u: usize) -> usize {
        (u + self.pad) / self.stride - self.first()
    }

    /// The elements of the kernel that positions of a residue see, and how far back the gradient of
    /// each lies.
    pub fn elements(&self, residue: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let a = *self;
        (0..a.kernel).filter_map(move |k| {
            let back = (k * a.dilation).checked_sub(residue).filter(|b| b % a.stride == 0)? / a.stride;
            Some((k, back))
        })
    }

    /// Those of which the gradient at a position is there.
    pub fn seen(&self, u: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (q, output) = ((u + self.pad) / self.stride, self.output);
        let inside = move |&(_, back): &(usize, usize)| q.checked_sub(back).is_some_and(|o| o < output);
        self.elements((u + self.pad) % self.stride).filter(inside)
    }
}

/// The rows' axis, the columns', and the convolution of unit stride on the grid; `None` for more
/// than one plane, or padding beyond the kernel.
pub(super) fn grid(g: &Geometry) -> Option<(Axis, Axis, Geometry)> {
    let flat = g.kernel[0] == 1 && g.input[0] == 1 && g.output[0] == 1 && g.params.padding[0] == (0, 0);
    if !flat || g.inputs() == 0 {
        return None;
    }
    let (rows, columns) = (Axis::new(g, 1), Axis::new(g, 2));
    let before = |a: &Axis| Some((a.reach().checked_sub(a.first())?, 0));
    let padding = [(0, 0), before(&rows)?, before(&columns)?];
    let params = ConvParams { padding, ..ConvParams::default() };
    let kernel = [1, rows.reach() + 1, columns.reach() + 1];
    let output = [1, rows.count(), columns.count()];
    Some((rows, columns, Geometry { input: g.output, kernel, output, params }))
}
