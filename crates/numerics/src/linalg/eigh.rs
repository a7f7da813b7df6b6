//! Eigenvalues and eigenvectors of symmetric matrices.

use super::{LinalgError, axpy, dot, for_batch, load, split, store, transpose};
use crate::element::Real;

/// The eigenvalues (ascending) and eigenvectors (columns of `vectors`) of each symmetric matrix,
/// of which only the upper or the lower triangle is read.
///
/// ```
/// let (mut w, mut v) = ([0.0f64; 2], [0.0; 4]);
/// gradus_numerics::linalg::eigh(&[2.0, 0.0, 1.0, 2.0], 1, 2, false, &mut w, &mut v)?;
/// assert!((w[0] - 1.0).abs() < 1e-12 && (w[1] - 3.0).abs() < 1e-12);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn eigh<T: Real>(
    a: &[T],
    batch: usize,
    n: usize,
    upper: bool,
    values: &mut [T],
    vectors: &mut [T],
) -> Result<(), LinalgError> {
    let parts = split(values, batch, n).into_iter().zip(split(vectors, batch, n * n)).collect();
    for_batch(parts, 9 * n * n * n, |i, (values, vectors)| {
        let mut a = load(a, i, n * n);
        for r in 0..n {
            for c in 0..r {
                let x = if upper { a[c * n + r] } else { a[r * n + c] };
                (a[r * n + c], a[c * n + r]) = (x, x);
            }
        }
        let (w, v) = decompose(a, n).ok_or(LinalgError::NoConvergence { batch: i })?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| w[a].total_cmp(&w[b]));
        let sorted: Vec<f64> = order.iter().flat_map(|&j| &v[j * n..][..n]).copied().collect();
        store(values, &order.iter().map(|&j| w[j]).collect::<Vec<_>>());
        store(vectors, &transpose(&sorted, n, n));
        Ok(())
    })
}

/// Eigenvalues and, as rows, eigenvectors of a full symmetric matrix; `None` if the iteration
/// does not end.
fn decompose(a: Vec<f64>, n: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    // Scaled to about one, so that squares neither overflow nor vanish.
    let scale = a.iter().fold(0.0f64, |s, x| s.max(x.abs()));
    if scale == 0.0 {
        let mut v = vec![0.0; n * n];
        v.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
        return Some((vec![0.0; n], v));
    }
    let mut a = a;
    a.iter_mut().for_each(|x| *x /= scale);
    let (mut d, mut e, mut q) = tridiagonalize(a, n);
    diagonalize(&mut d, &mut e, &mut q, n)?;
    d.iter_mut().for_each(|x| *x *= scale);
    Some((d, q))
}

/// Householder reduction to tridiagonal form `A = Qᵀ T Q`: the diagonal, the off-diagonal, and
/// `Q` (rows are the basis vectors).
fn tridiagonalize(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut reflections: Vec<(Vec<f64>, f64)> = Vec::new();
    for k in 0..n.saturating_sub(2) {
        // The reflection of column k below the diagonal; v is normalized to vᵀv = 2.
        let mut v: Vec<f64> = (k + 1..n).map(|i| a[i * n + k]).collect();
        let scale = v[1..].iter().fold(0.0f64, |s, x| s.max(x.abs()));
        if scale == 0.0 {
            reflections.push((Vec::new(), 0.0));
            continue;
        }
        let scale = scale.max(v[0].abs());
        v.iter_mut().for_each(|x| *x /= scale);
        let norm = dot(&v, &v).sqrt();
        let beta = -norm.copysign(v[0]);
        v[0] -= beta;
        let factor = 2.0 / dot(&v, &v);
        // A := H A H on the trailing block, with p = factor * A v, w = p - (factor/2 pᵀv) v.
        let first = k + 1;
        let mut w: Vec<f64> = (first..n).map(|i| factor * dot(&a[i * n + first..(i + 1) * n], &v)).collect();
        let half = factor / 2.0 * dot(&w, &v);
        axpy(&mut w, -half, &v);
        for i in first..n {
            let row = &mut a[i * n + first..(i + 1) * n];
            axpy(row, -v[i - first], &w);
            axpy(row, -w[i - first], &v);
        }
        a[first * n + k] = beta * scale;
        a[k * n + first] = beta * scale;
        reflections.push((v, factor));
    }
    let d = (0..n).map(|i| a[i * n + i]).collect();
    let e = (0..n).map(|i| if i + 1 < n { a[(i + 1) * n + i] } else { 0.0 }).collect();
    // Row j of Q is H_0 H_1 … e_j.
    let mut q = vec![0.0; n * n];
    for (j, row) in q.chunks_exact_mut(n.max(1)).enumerate() {
        row[j] = 1.0;
        for (k, (v, factor)) in reflections.iter().enumerate().rev() {
            if !v.is_empty() {
                let s = factor * dot(v, &row[k + 1..]);
                axpy(&mut row[k + 1..], -s, v);
            }
        }
    }
    (d, e, q)
}

/// Implicit QL iteration on the tridiagonal matrix, rotating the rows of `q` along.
fn diagonalize(d: &mut [f64], e: &mut [f64], q: &mut [f64], n: usize) -> Option<()> {
    for l in 0..n {
        for iteration in 0.. {
            // The first negligible off-diagonal element at or after l splits the matrix.
            let m = (l..n - 1).find(|&m| e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs())).unwrap_or(n - 1);
            if m == l {
                break;
            }
            if iteration == 60 {
                return None;
            }
            // Wilkinson's shift.
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let r = g.hypot(1.0);
            let mut g = d[m] - d[l] + e[l] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    // Underflow: the matrix splits here.
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    split = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                let (x, y) = super::two_rows(q, n, i, i + 1);
                for (x, y) in x.iter_mut().zip(y) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
            }
            if !split {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
    Some(())
}
