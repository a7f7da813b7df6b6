//! LU factorization with partial pivoting, and what follows from it.

use super::{LinalgError, axpy, for_batch, load, split, store, two_rows};
use crate::element::Real;

/// A factored `m` by `n` matrix: `L` below the diagonal, `U` on and above it.
pub(super) struct Factored {
    lu: Vec<f64>,
    n: usize,
    /// Row `k` was swapped with row `swaps[k]` at step `k`.
    swaps: Vec<usize>,
    /// The first pivot that is exactly zero.
    zero: Option<usize>,
}

/// Factors by rows: row-major storage makes the update of a row a contiguous loop.
pub(super) fn factor(mut a: Vec<f64>, m: usize, n: usize) -> Factored {
    let (mut swaps, mut zero) = (Vec::new(), None);
    for k in 0..m.min(n) {
        // LAPACK's choice: the first of the largest. A NaN counts as large, so that it shows.
        let mut p = k;
        for i in k + 1..m {
            let (new, old) = (a[i * n + k].abs(), a[p * n + k].abs());
            if new > old || (new.is_nan() && !old.is_nan()) {
                p = i;
            }
        }
        swaps.push(p);
        if p != k {
            let (x, y) = two_rows(&mut a, n, k, p);
            x.swap_with_slice(y);
        }
        let pivot = a[k * n + k];
        if pivot == 0.0 {
            zero = zero.or(Some(k));
            continue;
        }
        for i in k + 1..m {
            let (above, row) = two_rows(&mut a, n, k, i);
            let factor = row[k] / pivot;
            row[k] = factor;
            axpy(&mut row[k + 1..], -factor, &above[k + 1..]);
        }
    }
    Factored { lu: a, n, swaps, zero }
}

impl Factored {
    /// The rows of the original matrix in the order of the factors.
    fn permutation(&self, m: usize) -> Vec<usize> {
        let mut p: Vec<usize> = (0..m).collect();
        self.swaps.iter().enumerate().for_each(|(k, &s)| p.swap(k, s));
        p
    }

    pub(super) fn diagonal(&self) -> impl Iterator<Item = f64> {
        (0..self.swaps.len()).map(|i| self.lu[i * self.n + i])
    }

    /// Minus one for an odd permutation.
    pub(super) fn parity(&self) -> f64 {
        let odd = self.swaps.iter().enumerate().filter(|(k, s)| k != *s).count() % 2;
        if odd == 1 { -1.0 } else { 1.0 }
    }

    /// Solves for the columns of `b`, a row-major `n` by `cols` matrix, in place.
    pub(super) fn solve(&self, b: &mut [f64], cols: usize) {
        let n = self.n;
        for (k, &s) in self.swaps.iter().enumerate() {
            if k != s {
                let (x, y) = two_rows(b, cols, k, s);
                x.swap_with_slice(y);
            }
        }
        for i in 1..n {
            for k in 0..i {
                let (x, row) = two_rows(b, cols, k, i);
                axpy(row, -self.lu[i * n + k], x);
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                let (row, x) = two_rows(b, cols, i, k);
                axpy(row, -self.lu[i * n + k], x);
            }
            let pivot = self.lu[i * n + i];
            b[i * cols..][..cols].iter_mut().for_each(|x| *x /= pivot);
        }
    }
}

/// The determinant of each matrix.
///
/// ```
/// let mut d = [0.0f64];
/// gradus_numerics::linalg::det(&[1.0, 2.0, 3.0, 4.0], 1, 2, &mut d);
/// assert!((d[0] + 2.0).abs() < 1e-12);
/// ```
pub fn det<T: Real>(a: &[T], batch: usize, n: usize, out: &mut [T]) {
    let done = for_batch(split(out, batch, 1), n * n * n, |i, out| {
        let f = factor(load(a, i, n * n), n, n);
        out[0] = T::from_f64(f.parity() * f.diagonal().product::<f64>());
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// The sign and the logarithm of the absolute value of each determinant; zero and minus infinity
/// for a singular matrix.
pub fn slogdet<T: Real>(a: &[T], batch: usize, n: usize, sign: &mut [T], log_abs: &mut [T]) {
    let items = split(sign, batch, 1).into_iter().zip(split(log_abs, batch, 1)).collect();
    let done = for_batch(items, n * n * n, |i, (sign, log_abs)| {
        let f = factor(load(a, i, n * n), n, n);
        // `signum` would make a sign out of a zero.
        let signs = f.diagonal().map(|x| if x == 0.0 { 0.0 } else { x.signum() });
        sign[0] = T::from_f64(f.parity() * signs.product::<f64>());
        log_abs[0] = T::from_f64(f.diagonal().map(|x| x.abs().ln()).sum());
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// The inverse of each matrix.
pub fn inv<T: Real>(a: &[T], batch: usize, n: usize, out: &mut [T]) -> Result<(), LinalgError> {
    for_batch(split(out, batch, n * n), 3 * n * n * n, |i, out| {
        let mut x = vec![0.0; n * n];
        x.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
        solve_one(load(a, i, n * n), n, &mut x, n, i)?;
        store(out, &x);
        Ok(())
    })
}

fn solve_one(a: Vec<f64>, n: usize, x: &mut [f64], cols: usize, batch: usize) -> Result<(), LinalgError> {
    let f = factor(a, n, n);
    if let Some(pivot) = f.zero {
        return Err(LinalgError::Singular { batch, pivot });
    }
    f.solve(x, cols);
    Ok(())
}

/// Solves `A X = B` for each matrix, `B` and `X` being `n` by `cols`.
///
/// ```
/// let mut x = [0.0f64; 2];
/// gradus_numerics::linalg::solve(&[2.0, 0.0, 0.0, 4.0], 1, 2, &[2.0, 2.0], 1, &mut x)?;
/// assert_eq!(x, [1.0, 0.5]);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn solve<T: Real>(a: &[T], batch: usize, n: usize, b: &[T], cols: usize, out: &mut [T]) -> Result<(), LinalgError> {
    for_batch(split(out, batch, n * cols), n * n * (n + 2 * cols), |i, out| {
        let mut x = load(b, i, n * cols);
        solve_one(load(a, i, n * n), n, &mut x, cols, i)?;
        store(out, &x);
        Ok(())
    })
}

/// Factors each `m` by `n` matrix as `A[perm] = L U`, with `L` `m` by `k`, `U` `k` by `n` and `k`
/// the smaller size. As a matrix, `P[perm[i], i]` is one and `A = P L U`.
#[allow(clippy::many_single_char_names)]
pub fn lu<T: Real>(a: &[T], batch: usize, m: usize, n: usize, perm: &mut [i64], l: &mut [T], u: &mut [T]) {
    let k = m.min(n);
    let parts = split(perm, batch, m).into_iter().zip(split(l, batch, m * k)).zip(split(u, batch, k * n)).collect();
    let done = for_batch(parts, m * n * k, |i, ((perm, l), u)| {
        let f = factor(load(a, i, m * n), m, n);
        perm.iter_mut().zip(f.permutation(m)).for_each(|(o, p)| *o = p as i64);
        for r in 0..m {
            for c in 0..k {
                l[r * k + c] =
                    if c < r { T::from_f64(f.lu[r * n + c]) } else { T::from_f64(f64::from(u8::from(c == r))) };
            }
        }
        for r in 0..k {
            for c in 0..n {
                u[r * n + c] = if c >= r { T::from_f64(f.lu[r * n + c]) } else { T::ZERO };
            }
        }
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// The compact factorization of each `m` by `n` matrix: `L` below the diagonal of `out`, `U` on
/// and above it; at step `k` row `k` was swapped with row `pivots[k]` (counting from zero).
pub fn lu_factor<T: Real>(a: &[T], batch: usize, m: usize, n: usize, out: &mut [T], pivots: &mut [i64]) {
    let parts = split(out, batch, m * n).into_iter().zip(split(pivots, batch, m.min(n))).collect();
    let done = for_batch(parts, m * n * m.min(n), |i, (out, pivots)| {
        let f = factor(load(a, i, m * n), m, n);
        store(out, &f.lu);
        pivots.iter_mut().zip(f.swaps).for_each(|(o, s)| *o = s as i64);
        Ok(())
    });
    debug_assert!(done.is_ok());
}
