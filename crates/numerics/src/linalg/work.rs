//! Matrices that are factored, and the products between their blocks.

use super::number::{Columns, Number};
use crate::element::Real;
use crate::gemm::{Panel, Strip, strip};
use crate::scratch::{self, Of};
use crate::simd::Isa;

/// Columns that are factored one by one.
const FEW: usize = 8;

/// `from..to` of a panel's columns, half of them after the other: the first half goes into the second one by a product.
///
/// # Safety
///
/// As of [`Number`]; behind the last column lies a vector that may be read.
pub(super) unsafe fn eliminate<W: Number>(isa: Isa, c: &Columns<W>, from: usize, to: usize, swaps: &mut [usize]) {
    if to - from <= FEW {
        // SAFETY: the caller's promise, here and below.
        return unsafe { W::eliminate(isa, c, from, to, swaps) };
    }
    let middle = from + (to - from).div_ceil(2 * FEW) * FEW;
    // SAFETY: as above; a product's parts do not overlap.
    unsafe {
        eliminate(isa, c, from, middle, swaps);
        W::carry(isa, c, from, middle, to);
        let at = |j: usize, i: usize| c.p.add(j * c.step + i);
        let sizes = (to - middle, c.m - middle, middle - from);
        add_product(
            isa,
            sizes,
            (at(middle, from), (c.step, 1)),
            (at(from, middle), c.step),
            (at(middle, middle), c.step),
        );
        eliminate(isa, c, middle, to, swaps);
    }
}

/// `C += A B` for sizes `m`, `n` and `k`. `A` has steps along its rows and columns, the rows of `B` can be read up to whole
/// vectors.
///
/// # Safety
///
/// As of [`Number`]: `C` is the caller's alone, and not a part of `A` or `B`.
pub(super) unsafe fn add_product<W: Number>(
    isa: Isa,
    sizes: (usize, usize, usize),
    a: (*const W, (usize, usize)),
    b: (*const W, usize),
    c: (*mut W, usize),
) {
    // SAFETY: the caller's promise.
    unsafe { product(isa, sizes, a, b, c, true) }
}

/// [`add_product`], or with `add` off, `C = A B`.
///
/// # Safety
///
/// As of [`add_product`].
pub(super) unsafe fn product<W: Number>(
    isa: Isa,
    (m, n, k): (usize, usize, usize),
    (a, a_steps): (*const W, (usize, usize)),
    (b, b_row): (*const W, usize),
    (c, c_row): (*mut W, usize),
    add: bool,
) {
    if m == 0 || k == 0 {
        return;
    }
    let wide = 3 * W::lanes(isa);
    for j in (0..n).step_by(wide) {
        let (b, c) = (b.wrapping_add(j), c.wrapping_add(j));
        let s = Strip { rows: m, columns: wide.min(n - j), depth: k, a, a_steps, b, b_row, c, c_row, add };
        // SAFETY: the caller's promise.
        unsafe { strip(isa, &s) };
    }
}

/// The transpose of `rows` by `columns` numbers, to rows `to_row` apart.
///
/// # Safety
///
/// As of [`Number`]; rows of the result have room for whole vectors.
pub(super) unsafe fn turn<W: Number>(
    isa: Isa,
    (rows, columns): (usize, usize),
    (from, from_row): (*const W, usize),
    (to, to_row): (*mut W, usize),
) {
    let wide = 3 * W::lanes(isa);
    for r in (0..rows).step_by(wide) {
        let b = from.wrapping_add(r * from_row);
        let p = Panel { depth: columns, columns: wide.min(rows - r), b, steps: (1, from_row) };
        // SAFETY: the caller's promise.
        unsafe { W::pack(isa, &p, to.wrapping_add(r), to_row) };
    }
}

/// Numbers of a cache line.
pub(super) const fn line<W>() -> usize {
    64 / size_of::<W>()
}

/// A matrix to be factored in rows of whole cache lines.
pub(super) struct Work<W: Number> {
    data: Of<W>,
    pub row: usize,
    pub rows: usize,
    pub columns: usize,
}

impl<W: Number> Work<W> {
    /// Room for a matrix; what it holds is anything.
    pub fn new(rows: usize, columns: usize) -> Work<W> {
        let mut row = columns.next_multiple_of(line::<W>()).max(line::<W>());
        // Rows a multiple of 4 KiB apart fall on few sets of the caches.
        if (row * size_of::<W>()).is_multiple_of(2048) {
            row += line::<W>();
        }
        // A line more, as products read whole vectors.
        Work { data: scratch::of(rows * row + line::<W>()), row, rows, columns }
    }

    /// The numbers, rows [`Work::row`] apart.
    pub fn data(&mut self) -> &mut [W] {
        &mut self.data
    }

    /// The numbers and how far rows lie apart.
    pub fn parts(&self) -> (&[W], usize) {
        (&self.data, self.row)
    }

    /// A row.
    pub fn line(&self, i: usize) -> &[W] {
        &self.data[i * self.row..][..self.columns]
    }

    /// A row that can be changed.
    pub fn line_mut(&mut self, i: usize) -> &mut [W] {
        &mut self.data[i * self.row..][..self.columns]
    }

    /// The number at a place.
    pub fn at(&self, i: usize, j: usize) -> W {
        self.data[i * self.row + j]
    }

    /// Zeros everywhere, between rows too.
    pub fn clear(&mut self) {
        self.data.fill(W::ZERO);
    }

    /// Reads a matrix whose elements are `steps` apart along its rows and columns.
    pub fn load<T: Real>(&mut self, a: &[T], steps: (usize, usize)) {
        let (row, columns) = (self.row, self.columns);
        self.data[self.rows * row..].fill(W::ZERO);
        if columns == 0 {
            return;
        }
        for (i, line) in self.data.chunks_exact_mut(row).enumerate().take(self.rows) {
            line[columns..].fill(W::ZERO);
            read(&mut line[..columns], &a[i * steps.0..], steps.1);
        }
    }
}

/// A number in another type.
#[inline(always)]
pub(super) fn of<T: Real, U: Real>(x: T) -> U {
    U::from_f64(x.to_f64())
}

/// Reads numbers that are `step` apart.
#[inline(always)]
pub(super) fn read<T: Real, W: Real>(x: &mut [W], a: &[T], step: usize) {
    if step == 1 {
        x.iter_mut().zip(a).for_each(|(x, a)| *x = of(*a));
    } else {
        x.iter_mut().zip(a.iter().step_by(step)).for_each(|(x, a)| *x = of(*a));
    }
}
