//! QR factorization by Householder reflections, and least squares.

use super::triangular::substitute;
use super::{LinalgError, axpy, dot, for_batch, load, split, store, transpose};
use crate::element::Real;

/// Which parts of a QR factorization to compute; `k` is the smaller of `m` and `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QrMode {
    /// `Q` is `m` by `k`, `R` is `k` by `n`.
    Reduced,
    /// `Q` is `m` by `m`, `R` is `m` by `n`.
    Complete,
    /// `Q` is empty, `R` is `k` by `n`.
    R,
}

/// The reflections that triangularize an `m` by `n` matrix. Kept transposed: what is a column of
/// the matrix is contiguous here.
pub(super) struct Householder {
    /// Column `j` (row `j` here): `R` down to the diagonal, below it the vector of reflection `j`
    /// without its leading one.
    columns: Vec<f64>,
    factors: Vec<f64>,
    m: usize,
    n: usize,
}

impl Householder {
    /// Factors the matrix whose transpose is `columns`.
    pub fn new(mut columns: Vec<f64>, m: usize, n: usize) -> Self {
        let mut factors = Vec::new();
        for k in 0..m.min(n) {
            let (done, rest) = columns.split_at_mut((k + 1) * m);
            let x = &mut done[k * m + k..];
            let factor = reflector(x);
            for column in rest.chunks_exact_mut(m) {
                reflect(&x[1..], factor, &mut column[k..]);
            }
            factors.push(factor);
        }
        Householder { columns, factors, m, n }
    }

    /// Multiplies a vector of `m` by `Q`.
    pub fn apply(&self, x: &mut [f64]) {
        for k in (0..self.factors.len()).rev() {
            reflect(&self.columns[k * self.m + k + 1..(k + 1) * self.m], self.factors[k], &mut x[k..]);
        }
    }

    /// Multiplies a vector of `m` by `Qᵀ`.
    pub fn apply_transposed(&self, x: &mut [f64]) {
        for k in 0..self.factors.len() {
            reflect(&self.columns[k * self.m + k + 1..(k + 1) * self.m], self.factors[k], &mut x[k..]);
        }
    }

    /// The first `count` columns of `Q`, one after the other.
    pub fn q_columns(&self, count: usize) -> Vec<f64> {
        let mut q = vec![0.0; count * self.m];
        for (j, column) in q.chunks_exact_mut(self.m.max(1)).enumerate() {
            column[j] = 1.0;
            self.apply(column);
        }
        q
    }

    /// The first `rows` rows of `R`, row-major.
    pub fn r(&self, rows: usize) -> Vec<f64> {
        let mut r = vec![0.0; rows * self.n];
        for i in 0..rows.min(self.n) {
            for j in i..self.n {
                r[i * self.n + j] = self.columns[j * self.m + i];
            }
        }
        r
    }
}

/// Turns `x` into the reflection that maps it to `(beta, 0, …)`: `x[0]` becomes `beta` and the
/// rest the vector. LAPACK's convention: the sign of `beta` is opposite to that of `x[0]`, except
/// that nothing is done when the rest is zero already. Returns LAPACK's tau.
fn reflector(x: &mut [f64]) -> f64 {
    let (alpha, rest) = (x[0], &x[1..]);
    let scale = rest.iter().fold(0.0f64, |s, x| s.max(x.abs()));
    if scale == 0.0 {
        return 0.0;
    }
    let norm = rest.iter().map(|x| (x / scale) * (x / scale)).sum::<f64>().sqrt() * scale;
    let beta = -alpha.hypot(norm).copysign(alpha);
    x[1..].iter_mut().for_each(|x| *x /= alpha - beta);
    x[0] = beta;
    (beta - alpha) / beta
}

/// Applies the reflection with vector `(1, v)` to `x`.
fn reflect(v: &[f64], factor: f64, x: &mut [f64]) {
    let (head, tail) = x.split_at_mut(1);
    let s = factor * (head[0] + dot(v, tail));
    head[0] -= s;
    axpy(tail, -s, v);
}

/// The QR factorization of each `m` by `n` matrix; see [`QrMode`] for the sizes of `q` and `r`.
///
/// ```
/// use gradus_numerics::linalg::{QrMode, qr};
/// let (mut q, mut r) = ([0.0f64; 2], [0.0]);
/// qr(&[3.0, 4.0], 1, 2, 1, QrMode::Reduced, &mut q, &mut r);
/// assert!((r[0] + 5.0).abs() < 1e-12 && (q[0] + 0.6).abs() < 1e-12);
/// ```
pub fn qr<T: Real>(a: &[T], batch: usize, m: usize, n: usize, mode: QrMode, q: &mut [T], r: &mut [T]) {
    let k = m.min(n);
    let (columns, rows) = match mode {
        QrMode::Reduced => (k, k),
        QrMode::Complete => (m, m),
        QrMode::R => (0, k),
    };
    let parts = split(q, batch, m * columns).into_iter().zip(split(r, batch, rows * n)).collect();
    let done = for_batch(parts, 4 * m * n * k, |i, (q, r)| {
        let h = Householder::new(transpose(&load(a, i, m * n), m, n), m, n);
        store(q, &transpose(&h.q_columns(columns), columns, m));
        store(r, &h.r(rows));
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// Solves `min |A X - B|` for each `m` by `n` matrix of full rank, `B` being `m` by `cols` and `X`
/// `n` by `cols`; with fewer rows than columns, the solution of least norm.
///
/// ```
/// let mut x = [0.0f64];
/// gradus_numerics::linalg::lstsq(&[1.0, 1.0], 1, 2, 1, &[1.0, 3.0], 1, &mut x)?;
/// assert!((x[0] - 2.0).abs() < 1e-12);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn lstsq<T: Real>(
    a: &[T],
    batch: usize,
    m: usize,
    n: usize,
    b: &[T],
    cols: usize,
    out: &mut [T],
) -> Result<(), LinalgError> {
    let k = m.min(n);
    for_batch(split(out, batch, n * cols), 2 * m * n * (k + cols), |i, out| {
        let (a, b) = (load(a, i, m * n), load(b, i, m * cols));
        let wide = m < n;
        // Wide: Aᵀ = Q R, so X = Q R⁻ᵀ B. The rows of A are the columns of Aᵀ already.
        let h = if wide { Householder::new(a, n, m) } else { Householder::new(transpose(&a, m, n), m, n) };
        let r = h.r(k);
        if let Some(pivot) = (0..k).find(|&i| r[i * k + i] == 0.0) {
            return Err(LinalgError::Singular { batch: i, pivot });
        }
        let x = if wide {
            let mut y = b;
            substitute(&transpose(&r, k, k), k, false, false, &mut y, cols);
            let mut x = vec![0.0; n * cols];
            x[..m * cols].copy_from_slice(&y);
            let mut x = transpose(&x, n, cols);
            x.chunks_exact_mut(n.max(1)).for_each(|x| h.apply(x));
            transpose(&x, cols, n)
        } else {
            let mut y = transpose(&b, m, cols);
            y.chunks_exact_mut(m.max(1)).for_each(|y| h.apply_transposed(y));
            let mut x = transpose(&y, cols, m);
            x.truncate(n * cols);
            substitute(&r, n, true, false, &mut x, cols);
            x
        };
        store(out, &x);
        Ok(())
    })
}
