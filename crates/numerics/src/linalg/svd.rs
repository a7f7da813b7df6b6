//! Singular value decomposition by one-sided Jacobi rotations.

use super::householder::Householder;
use super::{LinalgError, dot, for_batch, load, split, store, transpose, two_rows};
use crate::element::Real;

/// The decomposition `A = U S Vh` of each `m` by `n` matrix, singular values descending.
///
/// With `k` the smaller size, `s` has `k` values, `u` is `m` by `k` and `vh` is `k` by `n`; if
/// `full`, they are `m` by `m` and `n` by `n`.
///
/// ```
/// let (mut u, mut s, mut vh) = ([0.0f64; 4], [0.0; 2], [0.0; 4]);
/// gradus_numerics::linalg::svd(&[0.0, 3.0, 4.0, 0.0], 1, 2, 2, false, &mut u, &mut s, &mut vh)?;
/// assert!((s[0] - 4.0).abs() < 1e-12 && (s[1] - 3.0).abs() < 1e-12);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
#[allow(clippy::too_many_arguments)]
pub fn svd<T: Real>(
    a: &[T],
    batch: usize,
    m: usize,
    n: usize,
    full: bool,
    u: &mut [T],
    s: &mut [T],
    vh: &mut [T],
) -> Result<(), LinalgError> {
    let k = m.min(n);
    let (columns, rows) = if full { (m, n) } else { (k, k) };
    let parts =
        split(u, batch, m * columns).into_iter().zip(split(s, batch, k)).zip(split(vh, batch, rows * n)).collect();
    for_batch(parts, 20 * m * n * k, |i, ((u, s), vh)| {
        let a = load(a, i, m * n);
        let error = LinalgError::NoConvergence { batch: i };
        // The decomposition of a tall matrix, given by its columns; a wide one is transposed.
        if m >= n {
            let (left, values, right) = tall(transpose(&a, m, n), m, n, columns).ok_or(error)?;
            store(u, &transpose(&left, columns, m));
            store(s, &values);
            store(vh, &right);
        } else {
            let (left, values, right) = tall(a, n, m, rows).ok_or(error)?;
            store(u, &transpose(&right, m, m));
            store(s, &values);
            store(vh, &left);
        }
        Ok(())
    })
}

/// Of an `m` by `n` matrix with `m >= n`, given by its columns: `count` left singular vectors
/// (rows here), the values, and the right singular vectors (rows here).
fn tall(mut a: Vec<f64>, m: usize, n: usize, count: usize) -> Option<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let scale = a.iter().fold(0.0f64, |s, x| s.max(x.abs()));
    if scale > 0.0 {
        a.iter_mut().for_each(|x| *x /= scale);
    }
    // A = Q R shortens the columns to n. Rotating the rows of R instead of its columns (they are
    // graded) needs fewer sweeps: Rᵀ = W S Zᵀ, so A = (Q Z) S Wᵀ.
    let h = Householder::new(a, m, n);
    let mut g = h.r(n);
    let mut z = vec![0.0; n * n];
    z.iter_mut().step_by(n + 1).for_each(|z| *z = 1.0);
    rotate(&mut g, &mut z, n)?;

    let norms: Vec<f64> = g.chunks_exact(n.max(1)).map(|g| dot(g, g).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| norms[b].total_cmp(&norms[a]));

    // Right vectors: the normalized rows of g, completed where a value is (next to) zero.
    let rank = order.iter().take_while(|&&j| norms[j] > TINY).count();
    let mut found = Vec::with_capacity(n * n);
    for &j in &order[..rank] {
        found.extend(g[j * n..][..n].iter().map(|x| x / norms[j]));
    }
    let right = complete(found, rank, n, n);
    // Left vectors: Z is a full basis already, and so is Q.
    let mut left = vec![0.0; count * m];
    for (p, row) in left.chunks_exact_mut(m.max(1)).enumerate() {
        match order.get(p) {
            Some(&j) => row[..n].copy_from_slice(&z[j * n..][..n]),
            None => row[p] = 1.0,
        }
        h.apply(row);
    }
    Some((left, order.iter().map(|&j| norms[j] * scale).collect(), right))
}

/// Below this, relative to the matrix, squares underflow and a value counts as zero.
const TINY: f64 = 1e-140;

/// Rotates pairs of rows of `g` until all are orthogonal, and the rows of `z` along.
fn rotate(g: &mut [f64], z: &mut [f64], n: usize) -> Option<()> {
    let tolerance = f64::EPSILON * (n as f64).sqrt();
    for _ in 0..80 {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let (x, y) = two_rows(g, n, p, q);
                let (xx, yy, xy) = (dot(x, x), dot(y, y), dot(x, y));
                // Larger rows first: the values come out nearly sorted and converge faster.
                let swap = xx < yy;
                if xy.abs() <= tolerance * xx.sqrt() * yy.sqrt() || xx.min(yy) < TINY * TINY {
                    if swap {
                        x.swap_with_slice(y);
                        let (x, y) = two_rows(z, n, p, q);
                        x.swap_with_slice(y);
                    }
                    continue;
                }
                rotated = true;
                let zeta = (yy - xx) / (2.0 * xy);
                let t = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = c * t;
                let turn = |x: &mut [f64], y: &mut [f64]| {
                    for (x, y) in x.iter_mut().zip(y) {
                        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                    }
                };
                turn(x, y);
                let (a, b) = two_rows(z, n, p, q);
                turn(a, b);
            }
        }
        if !rotated {
            return Some(());
        }
    }
    None
}

/// Extends `rank` orthonormal rows of `n` to `count` of them.
fn complete(mut rows: Vec<f64>, rank: usize, n: usize, count: usize) -> Vec<f64> {
    if rank < count {
        // The remaining columns of Q are orthogonal to the first ones, which span the rows.
        let q = Householder::new(rows.clone(), n, rank).q_columns(count);
        rows.extend_from_slice(&q[rank * n..]);
    }
    rows
}
