//! The Moore-Penrose pseudoinverse.

use super::svd::svd;
use super::{LinalgError, for_batch, load, split, store};
use crate::element::Real;

/// The pseudoinverse (`n` by `m`) of each `m` by `n` matrix. Singular values up to the larger of `atol` and `rtol`
/// times the largest count as zero.
///
/// ```
/// let mut p = [0.0f64; 2];
/// gradus_numerics::linalg::pinv(&[3.0, 4.0], 1, 2, 1, 0.0, 1e-15, &mut p)?;
/// assert!((p[0] - 0.12).abs() < 1e-15 && (p[1] - 0.16).abs() < 1e-15);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn pinv<T: Real>(
    a: &[T],
    batch: usize,
    m: usize,
    n: usize,
    atol: f64,
    rtol: f64,
    out: &mut [T],
) -> Result<(), LinalgError> {
    let k = m.min(n);
    for_batch(split(out, batch, n * m), 20 * m * n * k, |i, out| {
        let a = load(a, i, m * n);
        let (mut u, mut s, mut vh) = (vec![0.0; m * k], vec![0.0; k], vec![0.0; k * n]);
        svd(&a, 1, m, n, false, &mut u, &mut s, &mut vh).map_err(|_| LinalgError::NoConvergence { batch: i })?;
        let least = s.first().map_or(0.0, |largest| atol.max(rtol * largest));
        let rank = s.iter().take_while(|&&s| s > least).count();
        let p: Vec<f64> =
            (0..n * m).map(|p| (0..rank).map(|j| vh[j * n + p / m] / s[j] * u[(p % m) * k + j]).sum()).collect();
        store(out, &p);
        Ok(())
    })
}
