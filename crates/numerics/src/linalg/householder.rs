//! Householder reflections one by one, in `f64`.

use super::{axpy, dot};

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
