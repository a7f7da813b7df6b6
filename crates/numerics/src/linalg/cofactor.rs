//! Cofactor matrices: the gradient of the determinant.

use super::lu::Factored;
use super::svd::svd;
use super::{LinalgError, for_batch, load, split, store};
use crate::element::Real;

/// The matrix of cofactors of each matrix: `det(A) A⁻ᵀ` where that exists, and its limit elsewhere.
///
/// ```
/// let mut c = [0.0f64; 4];
/// gradus_numerics::linalg::cofactor(&[1.0, 2.0, 2.0, 4.0], 1, 2, &mut c)?; // singular
/// for (c, want) in c.iter().zip([4.0, -2.0, -2.0, 1.0]) {
///     assert!((c - want).abs() < 1e-12);
/// }
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn cofactor<T: Real>(a: &[T], batch: usize, n: usize, out: &mut [T]) -> Result<(), LinalgError> {
    for_batch(split(out, batch, n * n), 20 * n * n * n, |i, out| {
        let a = load(a, i, n * n);
        store(out, &one(&a, n).ok_or(LinalgError::NoConvergence { batch: i })?);
        Ok(())
    })
}

fn factor(a: &[f64], n: usize) -> Factored<f64> {
    let mut f = Factored::new(n, n);
    f.factor(a);
    f
}

fn one(a: &[f64], n: usize) -> Option<Vec<f64>> {
    if a.iter().any(|x| !x.is_finite()) {
        return Some(vec![f64::NAN; n * n]);
    }
    let f = factor(a, n);
    let (low, high) = f.diagonal().fold((f64::INFINITY, 0.0f64), |(l, h), x| (l.min(x.abs()), h.max(x.abs())));
    if low > 1e-6 * high {
        // Well conditioned as far as the pivots tell: det(A) times the inverse, transposed.
        let det = f.parity() * f.diagonal().product::<f64>();
        let mut x = vec![0.0; n * n];
        f.inverse(&mut x);
        return Some((0..n * n).map(|p| det * x[(p % n) * n + p / n]).collect());
    }
    // A = U S Vh: the cofactors of S are the products of the other singular values, and those of an orthogonal
    // matrix are the matrix itself times its determinant.
    let (mut u, mut s, mut vh) = (vec![0.0; n * n], vec![0.0; n], vec![0.0; n * n]);
    svd(a, 1, n, n, false, &mut u, &mut s, &mut vh).ok()?;
    let det = |q: &[f64]| {
        let f = factor(q, n);
        f.parity() * f.diagonal().product::<f64>().signum()
    };
    let sign = det(&u) * det(&vh);
    let others: Vec<f64> = (0..n).map(|i| sign * (0..n).filter(|&j| j != i).map(|j| s[j]).product::<f64>()).collect();
    Some((0..n * n).map(|p| (0..n).map(|k| u[p / n * n + k] * others[k] * vh[k * n + p % n]).sum()).collect())
}
