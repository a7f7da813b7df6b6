//! Products whose left operand is not a matrix in memory but two tables of places: element `(i, k)`
//! is `a[rows[i] + columns[k]]`.
//!
//! That is what a convolution multiplies with: `rows` are the places of windows and `columns` those
//! of a kernel's elements within a window (or the other way round, for the gradient of the weights).
//! So patches are never written down. The right operand has contiguous rows, output channels in
//! the lanes; elements of the left one are spread over vectors as they are read.

use crate::simd::{Simd, dispatch_pairs};
use std::ops::Range;

/// A place in `A`, and the row of `C` (or of `B`) that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Place {
    pub at: u32,
    pub row: u32,
}

/// A product `C (+)= A @ B`, up to three vectors wide.
#[derive(Clone, Copy)]
pub(super) struct Indexed<'a> {
    pub a: *const f32,
    /// Places of `A`'s rows, and the rows of `C` they give.
    pub rows: &'a [Place],
    /// Places of `A`'s columns, and the rows of `B` they meet.
    pub columns: &'a [Place],
    /// Rows of whole vectors, and the step between them.
    pub b: *const f32,
    pub b_row: usize,
    pub c: *mut f32,
    pub c_row: usize,
    /// One to three.
    pub vectors: usize,
    /// Whether to add to what `C` holds.
    pub add: bool,
}

/// The most rows of a tile.
const MOST: usize = 12;

/// One tile of `R` rows and `W` vectors.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const W: usize>(p: &Indexed<'_>, i: usize) {
    // Tiles of more sums than registers are never asked for, and need not be compiled.
    if R * W > S::ROWS * 3 {
        return;
    }
    // SAFETY: the rows are inside the product, whose places are valid by the caller's promise.
    unsafe {
        let rows: [usize; R] = std::array::from_fn(|r| p.rows.get_unchecked(i + r).at as usize);
        let mut sums = [[S::zero(); W]; R];
        for k in p.columns {
            let (a, b) = (p.a.add(k.at as usize), p.b.add(k.row as usize * p.b_row));
            let v: [S::V; W] = std::array::from_fn(|w| S::load(b.add(w * S::LANES)));
            for (sums, &row) in sums.iter_mut().zip(&rows) {
                let x = S::splat(*a.add(row));
                for (sum, v) in sums.iter_mut().zip(v) {
                    *sum = S::fma(x, v, *sum);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let c = p.c.add(p.rows.get_unchecked(i + r).row as usize * p.c_row);
            for (w, sum) in sums.into_iter().enumerate() {
                let at = c.add(w * S::LANES);
                S::store(at, if p.add { S::add(S::load(at), sum) } else { sum });
            }
        }
    }
}

/// All rows, in tiles of as equal heights as can be.
#[inline(always)]
unsafe fn tiles<S: Simd, const W: usize>(p: &Indexed<'_>) {
    // (With 12 rows of two, elements of `A` that are read early would push sums out of registers.)
    let most = if W == 2 { S::ROWS * 5 / 4 } else { (S::ROWS * 3 / W).min(MOST) };
    let tiles = p.rows.len().div_ceil(most);
    let mut i = 0;
    for t in 0..tiles {
        let rows = (p.rows.len() - i).div_ceil(tiles - t);
        // SAFETY: the caller's promise.
        unsafe {
            match rows {
                1 => tile::<S, 1, W>(p, i),
                2 => tile::<S, 2, W>(p, i),
                3 => tile::<S, 3, W>(p, i),
                4 => tile::<S, 4, W>(p, i),
                5 => tile::<S, 5, W>(p, i),
                6 => tile::<S, 6, W>(p, i),
                7 => tile::<S, 7, W>(p, i),
                8 => tile::<S, 8, W>(p, i),
                9 => tile::<S, 9, W>(p, i),
                10 => tile::<S, 10, W>(p, i),
                11 => tile::<S, 11, W>(p, i),
                _ => tile::<S, 12, W>(p, i),
            }
        }
        i += rows;
    }
}

#[inline(always)]
unsafe fn indexed_body<S: Simd>(p: &Indexed<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match p.vectors {
            1 => tiles::<S, 1>(p),
            2 => tiles::<S, 2>(p),
            _ => tiles::<S, 3>(p),
        }
    }
}
dispatch_pairs! {
    /// Runs a product on this thread. Every element of `C` is one sum over the columns, in order.
    ///
    /// # Safety
    ///
    /// All places of `A` and whole vectors of `B` may be read, and those of `C` written by this
    /// thread alone.
    pub(super) unsafe fn indexed = indexed_body(p: &Indexed<'_>)
}

/// Panels of whole vectors: three each, but the last are two and two rather than three and one.
/// Calls `f` with each panel's first vector and its number of them.
pub(super) fn for_panels(vectors: usize, mut f: impl FnMut(usize, usize)) {
    let mut first = 0;
    while first < vectors {
        let n = match vectors - first {
            4 => 2,
            left => left.min(3),
        };
        f(first, n);
        first += n;
    }
}

/// How many panels there are.
pub(super) fn count_panels(vectors: usize) -> usize {
    let mut count = 0;
    for_panels(vectors, |_, _| count += 1);
    count
}

/// [`for_panels`] for some of them; gives the vectors that these have.
pub(super) fn for_some_panels(vectors: usize, some: Range<usize>, mut f: impl FnMut(usize, usize)) -> Range<usize> {
    let (mut i, mut done) = (0, 0..0);
    for_panels(vectors, |vector, n| {
        if some.contains(&i) {
            done = if i == some.start { vector } else { done.start }..vector + n;
            f(vector, n);
        }
        i += 1;
    });
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::testing::Random;

    #[test]
    fn panels_cover_all_vectors() {
        for vectors in 0..20 {
            let mut next = 0;
            for_panels(vectors, |first, n| {
                assert_eq!(first, next);
                assert!((1..=3).contains(&n) && (n > 1 || vectors == 1));
                next += n;
            });
            assert_eq!(next, vectors);
            let mut next = 0;
            for i in 0..count_panels(vectors) {
                let done = for_some_panels(vectors, i..i + 1, |first, n| assert_eq!((first, n > 0), (next, true)));
                assert_eq!(done.start, next);
                next = done.end;
            }
            assert_eq!(next, vectors);
        }
    }

    #[test]
    fn products_by_tables() {
        let mut r = Random(3);
        for isa in Isa::every() {
            for _ in 0..100 {
                let (m, k, vectors) = (1 + r.below(30), r.below(40), 1 + r.below(3));
                let n = vectors * isa.lanes();
                let a = r.f32s(200);
                let table = |r: &mut Random, n: usize| -> Vec<Place> {
                    // Rows in any order.
                    let step = [1, 7, 11].into_iter().find(|&s| !n.is_multiple_of(s)).unwrap_or(1);
                    (0..n).map(|i| Place { at: r.below(100) as u32, row: (i * step % n.max(1)) as u32 }).collect()
                };
                let (rows, columns) = (table(&mut r, m), table(&mut r, k));
                let (b, first) = (r.f32s(k * n), r.f32s(m * n));
                let (mut c, add) = (first.clone(), r.below(2) == 1);
                let p = Indexed {
                    a: a.as_ptr(),
                    rows: &rows,
                    columns: &columns,
                    b: b.as_ptr(),
                    b_row: n,
                    c: c.as_mut_ptr(),
                    c_row: n,
                    vectors,
                    add,
                };
                // SAFETY: the slices have these sizes, and places are below twice a hundred.
                unsafe { indexed(isa, &p) };
                for i in 0..m * n {
                    let at = rows[i / n].row as usize * n + i % n;
                    let mut expected = if add { f64::from(first[at]) } else { 0.0 };
                    for column in &columns {
                        let x = a[(rows[i / n].at + column.at) as usize];
                        expected += f64::from(x) * f64::from(b[column.row as usize * n + i % n]);
                    }
                    assert!((f64::from(c[at]) - expected).abs() < 1e-4, "{isa:?} {m} {n} {k} at {i}");
                }
            }
        }
    }
}
