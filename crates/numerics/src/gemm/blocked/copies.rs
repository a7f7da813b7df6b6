//! Copies of `A`, where it lies so that products would wait for it.

use super::Blocked;
use crate::gemm::Dims;
use crate::gemm::tile::{Panel, Tiled};
use crate::scratch::{self, Of};
use crate::tasks::{Shared, for_tasks};

/// On chips that wait sooner ([`Blocked::eager`]) `A` that lies across is turned first where it meets as many columns.
const STRAIGHTENED: usize = 96;

/// Rows, or columns, that a task copies.
const TOGETHER: usize = 32;

impl<T: Tiled> Blocked<T> {
    /// A copy of `A` that is better to read, and its steps.
    pub(super) fn copy(&self, parallel: bool) -> Option<(Of<T>, (usize, usize))> {
        let across = self.a_steps.1 != 1 && self.d.k > 1;
        if self.eager() && across && self.d.m > TOGETHER && self.d.n >= STRAIGHTENED {
            let (copy, row) = self.straight(parallel);
            return Some((copy, (row, 1)));
        }
        self.falls_together().then(|| {
            let (copy, row) = self.copied(parallel);
            (copy, (1, row))
        })
    }

    /// Whether the numbers of a row of `A` lie so far apart, and at such steps, that a strip of them falls on few sets of the
    /// caches: products of transposed matrices whose sides are powers of two would take three times as long.
    fn falls_together(&self) -> bool {
        let step = self.a_steps.1 * size_of::<T>();
        self.a_steps.0 == 1 && step.is_multiple_of(2048) && self.d.k >= 64 && self.d.m.min(self.d.n) >= 32
    }

    /// The columns of `A` at steps of an odd number of lines, and the step.
    fn copied(&self, parallel: bool) -> (Of<T>, usize) {
        let line = 64 / size_of::<T>();
        let (m, k, from) = (self.d.m, self.d.k, self.a_steps.1);
        let row = (m.div_ceil(line) | 1) * line;
        let mut copy = scratch::of::<T>(row * k);
        let to = Shared::new(&mut copy[..]);
        for_tasks(k.div_ceil(TOGETHER), parallel, |t| {
            for p in t * TOGETHER..k.min((t + 1) * TOGETHER) {
                // SAFETY: columns of `A` have `m` contiguous numbers, and places of their own here.
                unsafe { self.a.add(p * from).copy_to_nonoverlapping(to.ptr().add(p * row), m) };
            }
        });
        (copy, row)
    }

    /// The rows of `A`, contiguous and at steps of an odd number of lines, and the step.
    fn straight(&self, parallel: bool) -> (Of<T>, usize) {
        let line = 64 / size_of::<T>();
        let Dims { m, k, .. } = self.d;
        let row = (k.div_ceil(line) | 1) * line;
        let mut copy = scratch::of::<T>(row * m);
        let to = Shared::new(&mut copy[..]);
        for_tasks(m.div_ceil(TOGETHER), parallel, |t| {
            let rows = t * TOGETHER..m.min((t + 1) * TOGETHER);
            let a = self.a.wrapping_add(rows.start * self.a_steps.0);
            let block = Panel { depth: rows.len(), columns: k, b: a, steps: self.a_steps };
            // SAFETY: rows of `A`, which have places of their own here.
            unsafe { T::pack(self.isa, &block, to.ptr().add(rows.start * row), row) };
        });
        (copy, row)
    }
}
