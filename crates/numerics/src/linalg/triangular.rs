//! Triangular systems.

use super::{axpy, for_batch, load, split, store, transpose, two_rows};
use crate::element::Real;

/// Which triangular system to solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triangular {
    /// The upper triangle of `A` is used, else the lower; the other is not read.
    pub upper: bool,
    /// Solve with `Aᵀ` in the place of `A`.
    pub transpose: bool,
    /// Take the diagonal to be ones.
    pub unit: bool,
    /// Solve `X A = B` in the place of `A X = B`.
    pub right: bool,
}

/// Solves `A X = B` for each triangular `n` by `n` matrix, `B` and `X` being `n` by `cols`; or
/// `X A = B` if `right`, these being `cols` by `n`.
///
/// A zero on the diagonal gives infinities or NaN, as a division does.
///
/// ```
/// use gradus_numerics::linalg::{Triangular, solve_triangular};
/// let (a, mut x) = ([2.0f64, 0.0, 1.0, 1.0], [0.0; 2]);
/// solve_triangular(&a, 1, 2, &[4.0, 5.0], 1, Triangular::default(), &mut x);
/// assert_eq!(x, [2.0, 3.0]);
/// ```
pub fn solve_triangular<T: Real>(
    a: &[T],
    batch: usize,
    n: usize,
    b: &[T],
    cols: usize,
    which: Triangular,
    out: &mut [T],
) {
    let done = for_batch(split(out, batch, n * cols), n * n * cols, |i, out| {
        let (a, b) = (load(a, i, n * n), load(b, i, n * cols));
        // X A = B is Aᵀ Xᵀ = Bᵀ.
        let flip = which.transpose != which.right;
        let a = if flip { transpose(&a, n, n) } else { a };
        let mut x = if which.right { transpose(&b, cols, n) } else { b };
        substitute(&a, n, which.upper != flip, which.unit, &mut x, cols);
        store(out, &if which.right { transpose(&x, n, cols) } else { x });
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// Solves `A X = B` in place, `x` holding `B` at first.
pub(super) fn substitute(a: &[f64], n: usize, upper: bool, unit: bool, x: &mut [f64], cols: usize) {
    let row = |i: usize, x: &mut [f64]| {
        for k in if upper { i + 1..n } else { 0..i } {
            let (row, other) = if k > i {
                two_rows(x, cols, i, k)
            } else {
                let (other, row) = two_rows(x, cols, k, i);
                (row, other)
            };
            axpy(row, -a[i * n + k], other);
        }
        if !unit {
            x[i * cols..][..cols].iter_mut().for_each(|x| *x /= a[i * n + i]);
        }
    };
    if upper {
        (0..n).rev().for_each(|i| row(i, x));
    } else {
        (0..n).for_each(|i| row(i, x));
    }
}
