//! Cholesky factorization.

use super::{LinalgError, dot, for_batch, load, split, store, transpose, two_rows};
use crate::element::Real;

/// The factor of each symmetric positive definite matrix: `A = L Lᵀ`, or `A = Uᵀ U` if `upper`.
///
/// Only that triangle of `A` is read; the other triangle of the result is zero.
///
/// ```
/// let mut l = [0.0f64; 4];
/// gradus_numerics::linalg::cholesky(&[4.0, 2.0, 2.0, 5.0], 1, 2, false, &mut l)?;
/// assert_eq!(l, [2.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn cholesky<T: Real>(a: &[T], batch: usize, n: usize, upper: bool, out: &mut [T]) -> Result<(), LinalgError> {
    for_batch(split(out, batch, n * n), n * n * n / 3, |i, out| {
        let mut l = load(a, i, n * n);
        if upper {
            l = transpose(&l, n, n);
        }
        factor(&mut l, n).map_err(|minor| LinalgError::NotPositiveDefinite { batch: i, minor })?;
        store(out, &if upper { transpose(&l, n, n) } else { l });
        Ok(())
    })
}

/// The lower factor in place, from the lower triangle; `Err` is the order of the failing minor.
fn factor(a: &mut [f64], n: usize) -> Result<(), usize> {
    for i in 0..n {
        // Row by row: each element needs the dot product of two finished pieces of rows.
        for j in 0..i {
            let (above, row) = two_rows(a, n, j, i);
            row[j] = (row[j] - dot(&above[..j], &row[..j])) / above[j];
        }
        let row = &mut a[i * n..][..n];
        let square = row[i] - dot(&row[..i], &row[..i]);
        // A NaN is not positive either.
        if !(square > 0.0 && square.is_finite()) {
            return Err(i + 1);
        }
        row[i] = square.sqrt();
        row[i + 1..].fill(0.0);
    }
    Ok(())
}
