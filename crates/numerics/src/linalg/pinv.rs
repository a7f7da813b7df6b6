//! The Moore-Penrose pseudoinverse.

use super::number::STEP;
use super::reflections::Reflections;
use super::svd::svd;
use super::triangular::{Solve, in_columns};
use super::work::{Work, of};
use super::{Each, LinalgError, for_matrices, load};
use crate::element::Real;

/// Up to this condition (in the norm of all elements) the inverse of a triangle is as good as singular values.
const CONDITION: f64 = 1e7;

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
    let (k, long) = (m.min(n), m.max(n));
    let out = Each::new(out, batch, n * m);
    let room = || (Reflections::<f64>::new(long, k), Work::<f64>::new(long, k), Work::<f64>::new(k, long));
    for_matrices(batch, 2 * m * n * k + 4 * STEP * k, room, |(f, q, x), i| {
        let a = &a[i * m * n..][..m * n];
        // SAFETY: each matrix is asked for once.
        let out = unsafe { out.at(i) };
        f.factor(a, if m < n { (1, n) } else { (n, 1) });
        if k > 0 && full_rank(f, q, x, atol, rtol) {
            for (r, line) in out.chunks_exact_mut(m).enumerate() {
                // Of the transpose if the matrix is wide.
                line.iter_mut().enumerate().for_each(|(c, o)| *o = of(if m < n { x.at(c, r) } else { x.at(r, c) }));
            }
            return Ok(());
        }
        by_values(a, (m, n), (atol, rtol), out).ok_or(LinalgError::NoConvergence { batch: i })
    })
}

/// `x = R⁻¹ Qᵀ`, the pseudoinverse if no singular value counts as zero. Says whether that is certain: all of them are at
/// least the reciprocal of the inverse's norm, and at most the norm of `R`.
fn full_rank(f: &Reflections<f64>, q: &mut Work<f64>, x: &mut Work<f64>, atol: f64, rtol: f64) -> bool {
    let (n, long) = (x.rows, x.columns);
    let mut t = Work::<f64>::new(n, n);
    t.clear();
    (0..n).for_each(|i| t.line_mut(i)[i..].copy_from_slice(f.r(i)));
    let norm = |w: &Work<f64>| (0..n).flat_map(|i| w.line(i)).map(|x| x * x).sum::<f64>().sqrt();
    let largest = norm(&t);
    if !(largest > 1e-100 && largest < 1e100) || (0..n).any(|i| t.at(i, i) == 0.0) {
        return false;
    }
    f.q(q);
    let divisors: Vec<f64> = (0..n).map(|i| -t.at(i, i)).collect();
    let system = Solve { t: &t, divisors: Some(&divisors), upper: true, first: 0 };
    let (q, row) = (&*q, x.row);
    let all = Each::new(x.data(), 1, 0);
    let fill = |i: usize, from: usize, y: &mut [f64]| {
        y.iter_mut().enumerate().for_each(|(j, y)| *y = q.at(from + j, i));
    };
    let put = |i: usize, from: usize, y: &[f64]| {
        // SAFETY: tasks have different columns.
        unsafe { all.out.part(i * row + from, y.len()) }.iter_mut().zip(y).for_each(|(x, y)| *x = -y);
    };
    in_columns(n, long, fill, |_, y| system.run(y), put);
    let inverse = norm(x);
    inverse * largest < CONDITION && 0.999 / inverse > atol.max(rtol * largest)
}

/// By the singular values that count.
fn by_values<T: Real>(a: &[T], (m, n): (usize, usize), (atol, rtol): (f64, f64), out: &mut [T]) -> Option<()> {
    let k = m.min(n);
    let a = load(a, 0, m * n);
    let (mut u, mut s, mut vh) = (vec![0.0; m * k], vec![0.0; k], vec![0.0; k * n]);
    svd(&a, 1, m, n, false, &mut u, &mut s, &mut vh).ok()?;
    let least = s.first().map_or(0.0, |largest| atol.max(rtol * largest));
    let rank = s.iter().take_while(|&&s| s > least).count();
    for (p, o) in out.iter_mut().enumerate() {
        *o = T::from_f64((0..rank).map(|j| vh[j * n + p / m] / s[j] * u[(p % m) * k + j]).sum());
    }
    Some(())
}
