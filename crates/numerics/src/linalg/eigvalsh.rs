//! Eigenvalues of symmetric matrices without their eigenvectors: a reduction to three diagonals, then the QL iteration
//! without square roots of Pal, Walker and Kahan, which takes two divisions for each element.

use super::number::STEP;
use super::reflections::reflector;
use super::work::{Work, add_product, line, turn};
use super::{Each, LinalgError, for_matrices};
use crate::element::Real;
use crate::gemv::{Dots, Line};
use crate::scratch;
use crate::simd::Isa;

/// The eigenvalues (ascending) of each symmetric matrix, of which only the upper or the lower triangle is read.
///
/// ```
/// let mut w = [0.0f64; 2];
/// gradus_numerics::linalg::eigvalsh(&[2.0, 0.0, 1.0, 2.0], 1, 2, false, &mut w)?;
/// assert!((w[0] - 1.0).abs() < 1e-12 && (w[1] - 3.0).abs() < 1e-12);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn eigvalsh<T: Real>(a: &[T], batch: usize, n: usize, upper: bool, values: &mut [T]) -> Result<(), LinalgError> {
    let values = Each::new(values, batch, n);
    let steps = if upper { (1, n) } else { (n, 1) };
    let room = || (Work::<f64>::new(n, n), Work::<f64>::new(n, n), vec![0.0; n], vec![0.0; n]);
    for_matrices(batch, n * n * n + 4 * STEP * n, room, |(work, turned, d, e), i| {
        let error = LinalgError::NoConvergence { batch: i };
        work.load(&a[i * n * n..][..n * n], steps);
        mirror(work, turned);
        let scale = normalize(work).ok_or(error)?;
        tridiagonalize(work, d, e);
        iterate(d, e).ok_or(error)?;
        d.sort_unstable_by(f64::total_cmp);
        // SAFETY: each matrix is asked for once.
        unsafe { values.at(i) }.iter_mut().zip(d.iter()).for_each(|(o, x)| *o = T::from_f64(x * scale));
        Ok(())
    })
}

/// Copies the lower triangle to the upper one, by way of another matrix.
fn mirror(work: &mut Work<f64>, turned: &mut Work<f64>) {
    let (n, row) = (work.rows, work.row);
    // SAFETY: both are as large, and their rows have whole lines.
    unsafe { turn(Isa::detect(), (n, n), (work.data().as_ptr(), row), (turned.data().as_mut_ptr(), row)) };
    (0..n).for_each(|i| work.line_mut(i)[i..].copy_from_slice(&turned.line(i)[i..]));
}

/// Divides by a power of two near the largest element, so that squares neither overflow nor vanish, and returns it; `None`
/// if an element is not finite.
pub(super) fn normalize(work: &mut Work<f64>) -> Option<f64> {
    let (mut most, mut sum) = (0.0f64, 0.0f64);
    for i in 0..work.rows {
        for x in work.line(i) {
            most = most.max(x.abs());
            sum += x * 0.0;
        }
    }
    if sum != 0.0 || sum.is_nan() {
        return None;
    }
    if most == 0.0 || (most > 1e-10 && most < 1e10) {
        return Some(1.0);
    }
    // Twice, as the reciprocal of a tiny number overflows.
    let half = (most.log2() / 2.0).round().exp2();
    work.data().iter_mut().for_each(|x| *x = *x / half / half);
    Some(half * half)
}

/// Reflections after which the rest of the matrix is updated, by a product: until then it is only read, once for each.
const BLOCK: usize = 16;

/// What a block of reflections takes off the matrix, `v wᵀ + w vᵀ` for each: rows `v` and `w` by turns, zeros before the
/// row of the reflection, and room for a sum of them.
struct Pairs {
    rows: Work<f64>,
    /// How many rows there are by now.
    count: usize,
    sum: scratch::Of<f64>,
}

impl Pairs {
    /// Takes a sum of the pairs off `x`, which begins with number `from`. Row `i` counts as often as `factors` says.
    fn take(&mut self, isa: Isa, factors: &[f64], from: usize, x: &mut [f64]) {
        if self.count == 0 {
            return;
        }
        assert!(factors.len() >= self.count && from + x.len() == self.rows.columns, "a factor for each row");
        let (rows, row) = self.rows.parts();
        let rows = (rows[from..].as_ptr(), row);
        // SAFETY: as many rows of as many numbers, and room for the sum.
        unsafe { f64::axpy(isa, (1, x.len(), self.count), rows, (factors.as_ptr(), 0), self.sum.as_mut_ptr(), row) };
        x.iter_mut().zip(self.sum.iter()).for_each(|(x, sum)| *x -= sum);
    }

    /// The numbers of a column in the rows, each pair in the other order.
    fn crossed(&self, column: usize) -> [f64; 2 * BLOCK] {
        let mut all = [0.0; 2 * BLOCK];
        (0..self.count).for_each(|i| all[i] = self.rows.at(i ^ 1, column));
        all
    }
}

/// `rows` of a matrix times `x`.
fn dots(isa: Isa, (rows, row): (&[f64], usize), x: &[f64], out: &mut [f64]) {
    if out.is_empty() {
        return;
    }
    assert!(rows.len() >= (out.len() - 1) * row + x.len(), "as many rows as results");
    let rows = (rows.as_ptr(), row as isize);
    let d = Dots { sizes: (1, out.len(), x.len()), rows, x: x.as_ptr(), out: out.as_mut_ptr(), steps: (0, 1) };
    // SAFETY: as many rows of as many numbers.
    unsafe { f64::dot(isa, &d) }
}

/// Householder reduction of a full symmetric matrix to its diagonal and the one beside it.
fn tridiagonalize(work: &mut Work<f64>, d: &mut [f64], e: &mut [f64]) {
    let (n, isa) = (work.rows, Isa::detect());
    let mut pairs = Pairs { rows: Work::new(2 * BLOCK, n), count: 0, sum: scratch::of(n) };
    let mut minus = Work::<f64>::new(2 * BLOCK, n);
    for k in (0..n).step_by(BLOCK) {
        let next = n.min(k + BLOCK);
        pairs.rows.clear();
        pairs.count = 0;
        for c in k..next {
            e[c] = reflect(isa, work, &mut pairs, c, &mut d[c]);
        }
        if next == n {
            break;
        }
        for i in 0..pairs.count {
            minus.line_mut(i)[next..].iter_mut().zip(&pairs.rows.line(i ^ 1)[next..]).for_each(|(m, x)| *m = -x);
        }
        let (row, pair_row) = (work.row, minus.row);
        let (left, right) = (minus.data()[next..].as_ptr(), pairs.rows.data()[next..].as_ptr());
        let rest = work.data()[next * row + next..].as_mut_ptr();
        // SAFETY: the trailing block, and rows as long, with whole vectors.
        unsafe {
            let sizes = (n - next, n - next, pairs.count);
            add_product(isa, sizes, (left, (1, pair_row)), (right, pair_row), (rest, row));
        }
    }
}

/// The reflection of column `c`: puts its element on the diagonal into `d`, its pair to the others, and returns the element
/// beside the diagonal.
fn reflect(isa: Isa, work: &Work<f64>, pairs: &mut Pairs, c: usize, d: &mut f64) -> f64 {
    let (n, first) = (work.rows, c + 1);
    let mut column = scratch::of::<f64>(n - c);
    column.copy_from_slice(&work.line(c)[c..]);
    pairs.take(isa, &pairs.crossed(c), c, &mut column);
    *d = column[0];
    let v = &mut column[1..];
    if v.len() < 2 {
        return v.first().copied().unwrap_or(0.0);
    }
    let (beta, factor) = reflector(isa, v);
    // Rows are read from a whole vector on: before it come zeros.
    let (from, count) = (first / line::<f64>() * line::<f64>(), pairs.count);
    let at = pairs.rows.line_mut(count);
    at[first..].copy_from_slice(v);
    let (matrix, row) = work.parts();
    let (before, pair_row) = pairs.rows.parts();
    let reflector = &pairs.rows.line(count)[from..];
    // w = factor p - factor / 2 (factor pᵀ v) v, with p = A v of the matrix less the pairs
    let mut w = scratch::of::<f64>(n - first);
    dots(isa, (&matrix[first * row + from..], row), reflector, &mut w);
    let mut inner = [0.0; 2 * BLOCK];
    dots(isa, (&before[from..], pair_row), reflector, &mut inner[..count]);
    (0..count).step_by(2).for_each(|i| inner.swap(i, i + 1));
    pairs.take(isa, &inner, first, &mut w);
    w.iter_mut().for_each(|w| *w *= factor);
    let mut product = [0.0];
    dots(isa, (&w, 0), v, &mut product);
    let half = -factor / 2.0 * product[0];
    w.iter_mut().zip(v.iter()).for_each(|(w, v)| *w += half * v);
    pairs.rows.line_mut(count + 1)[first..].copy_from_slice(&w);
    pairs.count += 2;
    beta
}

/// Eigenvalues of a symmetric matrix with diagonal `d` and `e` beside it, in `d`; `None` if the iteration does not end.
fn iterate(d: &mut [f64], e: &mut [f64]) -> Option<()> {
    let n = d.len();
    // The large end last: values are found from the first on.
    if n > 1 && d[0].abs() > d[n - 1].abs() {
        d.reverse();
        e[..n - 1].reverse();
    }
    e.iter_mut().for_each(|e| *e *= *e);
    let negligible = |e: f64, x: f64, y: f64| {
        let size = f64::EPSILON * (x.abs() + y.abs());
        e <= size * size
    };
    let (mut l, mut rounds) = (0, 0);
    while l < n {
        let m = (l..n - 1).find(|&m| negligible(e[m], d[m], d[m + 1])).unwrap_or(n - 1);
        if m == l {
            l += 1;
            continue;
        }
        if m + 1 < n {
            e[m] = 0.0;
        }
        rounds += 1;
        if rounds > 40 * n {
            return None;
        }
        let root = e[l].sqrt();
        let sigma = (d[l + 1] - d[l]) / (2.0 * root);
        let sigma = d[l] - root / (sigma + sigma.hypot(1.0).copysign(sigma));
        let (mut c, mut s) = (1.0, 0.0);
        let mut gamma = d[m] - sigma;
        let mut p = gamma * gamma;
        for i in (l..m).rev() {
            let b = e[i];
            let r = p + b;
            if i + 1 < m {
                e[i + 1] = s * r;
            }
            let before = c;
            // A division by c is a product with 1 / c, which need not wait for what comes between.
            let inverse = r / p;
            if r == 0.0 {
                // Both vanish: the matrix splits here, and nothing is rotated.
                (c, s) = (1.0, 0.0);
            } else {
                (c, s) = (p / r, b / r);
            }
            let old = gamma;
            gamma = c * (d[i] - sigma) - s * old;
            d[i + 1] = old + (d[i] - gamma);
            p = if c == 0.0 {
                before * b
            } else if r == 0.0 {
                gamma * gamma
            } else {
                gamma * gamma * inverse
            };
        }
        e[l] = s * p;
        d[l] = sigma + gamma;
    }
    Some(())
}
