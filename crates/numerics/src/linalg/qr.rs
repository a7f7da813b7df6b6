//! QR factorization by Householder reflections, and least squares.

use super::number::{Number, STEP, exact};
use super::reflections::Reflections;
use super::triangular::{Solve, in_columns};
use super::work::{Work, of};
use super::{Each, LinalgError, for_matrices};
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

/// The QR factorization of each `m` by `n` matrix; see [`QrMode`] for the sizes of `q` and `r`.
///
/// ```
/// use gradus_numerics::linalg::{QrMode, qr};
/// let (mut q, mut r) = ([0.0f64; 2], [0.0]);
/// qr(&[3.0, 4.0], 1, 2, 1, QrMode::Reduced, &mut q, &mut r);
/// assert!((r[0] + 5.0).abs() < 1e-12 && (q[0] + 0.6).abs() < 1e-12);
/// ```
pub fn qr<T: Real>(a: &[T], batch: usize, m: usize, n: usize, mode: QrMode, q: &mut [T], r: &mut [T]) {
    fn run<T: Real, W: Number>(
        a: &[T],
        batch: usize,
        (m, n): (usize, usize),
        (columns, rows): (usize, usize),
        q: &mut [T],
        r: &mut [T],
    ) {
        let (q, r) = (Each::new(q, batch, m * columns), Each::new(r, batch, rows * n));
        let room = || (Reflections::<W>::new(m, n), Work::<W>::new(m, columns));
        let done = for_matrices(batch, (2 * m * n + 2 * STEP) * m.min(n), room, |(f, full), i| {
            f.factor(&a[i * m * n..][..m * n], (n, 1));
            // SAFETY: each matrix is asked for once.
            let (q, r) = unsafe { (q.at(i), r.at(i)) };
            for (j, line) in r.chunks_exact_mut(n.max(1)).enumerate() {
                line[..j.min(n)].fill(T::ZERO);
                if j < n {
                    line[j..].iter_mut().zip(f.r(j)).for_each(|(o, x)| *o = of(*x));
                }
            }
            if columns > 0 {
                f.q(full);
                for (j, line) in q.chunks_exact_mut(columns).enumerate() {
                    line.iter_mut().zip(full.line(j)).for_each(|(o, x)| *o = of(*x));
                }
            }
            Ok(())
        });
        debug_assert!(done.is_ok());
    }
    let k = m.min(n);
    let sizes = match mode {
        QrMode::Reduced => (k, k),
        QrMode::Complete => (m, m),
        QrMode::R => (0, k),
    };
    let run = if exact::<T>(k) { run::<T, f64> } else { run::<T, f32> };
    run(a, batch, (m, n), sizes, q, r);
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
    let run = if exact::<T>(m.min(n)) { least_squares::<T, f64> } else { least_squares::<T, f32> };
    run(a, batch, (m, n), b, cols, out)
}

fn least_squares<T: Real, W: Number>(
    a: &[T],
    batch: usize,
    (m, n): (usize, usize),
    b: &[T],
    cols: usize,
    out: &mut [T],
) -> Result<(), LinalgError> {
    let (k, long) = (m.min(n), m.max(n));
    let out = Each::new(out, batch, n * cols);
    let room = || (Reflections::<W>::new(long, k), Work::<W>::new(k, k), Work::<W>::new(long, cols));
    for_matrices(batch, m * n * (k + cols) + 2 * STEP * k, room, |(f, t, x), i| {
        // Wide: Aᵀ = Q R, so X = Q R⁻ᵀ B.
        let wide = m < n;
        f.factor(&a[i * m * n..][..m * n], if wide { (1, n) } else { (n, 1) });
        triangle(f, t, wide).map_err(|pivot| LinalgError::Singular { batch: i, pivot })?;
        x.clear();
        for (j, b) in b[i * m * cols..][..m * cols].chunks_exact(cols.max(1)).enumerate() {
            x.line_mut(j).iter_mut().zip(b).for_each(|(x, b)| *x = of(*b));
        }
        if wide {
            solve(t, false, x);
            f.apply(x);
        } else {
            f.apply_transposed(x);
            solve(t, true, x);
        }
        // SAFETY: each matrix is asked for once.
        let out = unsafe { out.at(i) };
        for (j, line) in out.chunks_exact_mut(cols.max(1)).enumerate() {
            line.iter_mut().zip(x.line(j)).for_each(|(o, x)| *o = of(*x));
        }
        Ok(())
    })
}

/// Copies `R`, or its transpose; `Err` is the first number on the diagonal that is zero.
fn triangle<W: Number>(f: &Reflections<W>, t: &mut Work<W>, transposed: bool) -> Result<(), usize> {
    t.clear();
    for i in 0..t.rows {
        let row = f.r(i);
        if row[0] == W::ZERO {
            return Err(i);
        }
        for (j, x) in row[..t.rows - i].iter().enumerate() {
            if transposed { t.line_mut(i + j)[i] = *x } else { t.line_mut(i)[i + j] = *x }
        }
    }
    Ok(())
}

/// Solves with a triangle for the first rows of `x`, in place.
fn solve<W: Number>(t: &Work<W>, upper: bool, x: &mut Work<W>) {
    let (n, cols, row) = (t.rows, x.columns, x.row);
    let divisors: Vec<W> = (0..n).map(|i| -t.at(i, i)).collect();
    let system = Solve { t, divisors: Some(&divisors), upper, first: 0 };
    let x = Each::new(x.data(), 1, 0);
    // SAFETY: tasks have different columns, here and below.
    let at = |i: usize, from: usize, count: usize| unsafe { x.out.part(i * row + from, count) };
    let fill = |i: usize, from: usize, y: &mut [W]| y.copy_from_slice(at(i, from, y.len()));
    let put = |i: usize, from: usize, y: &[W]| {
        at(i, from, y.len()).iter_mut().zip(y).for_each(|(x, y)| *x = -*y);
    };
    in_columns(n, cols, fill, |_, y| system.run(y), put);
}
