//! LU factorization with partial pivoting, block by block, and what follows from it.

use super::number::{Columns, Number, STEP, Substitution, TINY, exact};
use super::triangular::{Sides, Solve, in_columns, solve_columns};
use super::work::{Work, add_product, eliminate, line, of, turn};
use super::{Each, LinalgError, for_matrices};
use crate::element::Real;
use crate::scratch::{self, Of};
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// Columns of a block.
const BLOCK: usize = 32;

/// Multiplications of one step that are worth another thread. A step is short, and the next one reads what other threads wrote:
/// on two dies, two threads took 0.54 ms for what one does in 0.31 (400 x 400 in `f32`).
const PARALLEL: usize = 1 << 23;

/// A factored matrix: minus `L` below the diagonal, `U` on and above it. It can be used for one matrix after the other.
pub(super) struct Factored<W: Number> {
    lu: Work<W>,
    /// A block's columns, one behind the other.
    panel: Of<W>,
    step: usize,
    /// Row `k` was swapped with row `swaps[k]` at step `k`.
    swaps: Vec<usize>,
    /// The first pivot that is exactly zero.
    zero: Option<usize>,
    /// Minus the diagonal.
    divisors: Vec<W>,
    /// The rows of the original matrix in the order of the factors.
    order: Vec<usize>,
}

impl<W: Number> Factored<W> {
    /// Room for an `m` by `n` matrix.
    pub fn new(m: usize, n: usize) -> Factored<W> {
        // Behind the last block of pivots of a wide matrix, columns need not begin at a whole line.
        let mut lu = Work::new(m, if m < n { n + line::<W>() } else { n });
        lu.columns = n;
        let step = m.next_multiple_of(line::<W>());
        let k = m.min(n);
        Factored {
            lu,
            panel: scratch::of(BLOCK.min(k) * step + line::<W>()),
            step,
            swaps: vec![0; k],
            zero: None,
            divisors: vec![W::ZERO; k],
            order: vec![0; m],
        }
    }

    /// Factors a matrix.
    pub fn factor<T: Real>(&mut self, a: &[T]) {
        let (m, n) = (self.lu.rows, self.lu.columns);
        self.lu.load(a, (n, 1));
        self.zero = None;
        let isa = Isa::detect();
        let pivots = m.min(n);
        if m.max(n) <= TINY {
            self.tiny();
        } else {
            for k in (0..pivots).step_by(BLOCK) {
                let wide = BLOCK.min(pivots - k);
                self.columns(isa, k, wide);
                self.update(isa, k, wide);
            }
        }
        self.order.iter_mut().enumerate().for_each(|(i, o)| *o = i);
        for k in 0..pivots {
            self.order.swap(k, self.swaps[k]);
            let pivot = self.lu.at(k, k);
            self.divisors[k] = -pivot;
            if pivot == W::ZERO {
                self.zero = self.zero.or(Some(k));
            }
        }
    }

    /// Factors number by number.
    fn tiny(&mut self) {
        let (m, n, row) = (self.lu.rows, self.lu.columns, self.lu.row);
        let lu = &mut self.lu.data()[..m * row];
        for (k, swap) in self.swaps.iter_mut().enumerate() {
            *swap = k;
            let mut most = lu[k * row + k].abs();
            for i in k + 1..m {
                let size = lu[i * row + k].abs();
                if size > most || (size.not_a_number() && !most.not_a_number()) {
                    (most, *swap) = (size, i);
                }
            }
            if *swap != k {
                let (top, bottom) = lu.split_at_mut(*swap * row);
                top[k * row..][..n].swap_with_slice(&mut bottom[..n]);
            }
            let (top, below) = lu.split_at_mut((k + 1) * row);
            let line = &top[k * row..][..n];
            if line[k] == W::ZERO {
                continue;
            }
            for other in below.chunks_exact_mut(row) {
                let factor = -(other[k] / line[k]);
                other[k] = factor;
                other[k + 1..n].iter_mut().zip(&line[k + 1..]).for_each(|(x, y)| *x += factor * *y);
            }
        }
    }

    /// Factors the columns of a block and exchanges rows of all of the matrix.
    fn columns(&mut self, isa: Isa, k: usize, wide: usize) {
        let (m, n, row, step) = (self.lu.rows, self.lu.columns, self.lu.row, self.step);
        let swaps = &mut self.swaps[k..k + wide];
        let corner = k * row + k;
        // SAFETY: the block's rows are inside the matrix, and there is room for its columns.
        unsafe {
            let panel = self.panel.as_mut_ptr();
            turn(isa, (m - k, wide), (self.lu.data()[corner..].as_ptr(), row), (panel, step));
            eliminate(isa, &Columns { p: panel, step, m: m - k, count: wide }, 0, wide, swaps);
        }
        for (j, s) in swaps.iter_mut().enumerate() {
            *s += k;
            if k + j != *s {
                let (top, bottom) = self.lu.data().split_at_mut(*s * row);
                top[(k + j) * row..][..n].swap_with_slice(&mut bottom[..n]);
            }
        }
        if k + wide == n || wide.is_multiple_of(line::<W>()) {
            let to = self.lu.data()[corner..].as_mut_ptr();
            // SAFETY: as above; what lies behind the columns up to whole vectors is not of the matrix.
            unsafe { turn(isa, (wide, m - k), (self.panel.as_ptr(), step), (to, row)) };
        } else {
            for (i, line) in self.lu.data()[k * row..].chunks_exact_mut(row).take(m - k).enumerate() {
                line[k..k + wide].iter_mut().enumerate().for_each(|(j, x)| *x = self.panel[j * step + i]);
            }
        }
    }

    /// The rows of `U` beside a block, and what they and its columns take off the rest.
    fn update(&mut self, isa: Isa, k: usize, wide: usize) {
        let (m, n, row) = (self.lu.rows, self.lu.columns, self.lu.row);
        let (first, below) = (k + wide, m - k - wide);
        let (rest, chunk, lanes) = (n - first, 3 * line::<W>(), W::lanes(isa));
        let lu = Shared::new(self.lu.data());
        for_tasks(rest.div_ceil(chunk), rest * (m - k) * wide >= PARALLEL, |t| {
            let (from, count) = (first + t * chunk, chunk.min(rest - t * chunk));
            // SAFETY: the columns are this task's alone, up to whole lines; those of the block are only read.
            unsafe {
                let at = |i: usize, j: usize| lu.ptr().add(i * row + j);
                let s = Substitution {
                    n: wide,
                    t: at(k, k).cast_const(),
                    steps: (row, 1),
                    divisors: std::ptr::null(),
                    x: at(k, from),
                    x_row: row,
                    vectors: count.div_ceil(lanes),
                    backwards: false,
                };
                W::substitute(isa, &s);
                let a = at(first, k).cast_const();
                add_product(isa, (below, count, wide), (a, (row, 1)), (at(k, from), row), (at(first, from), row));
            }
        });
    }

    pub fn diagonal(&self) -> impl Iterator<Item = f64> {
        self.divisors.iter().map(|x| -x.to_f64())
    }

    /// Minus one for an odd permutation.
    pub fn parity(&self) -> f64 {
        let odd = self.swaps.iter().enumerate().filter(|(k, s)| k != *s).count() % 2;
        if odd == 1 { -1.0 } else { 1.0 }
    }

    /// `L` and then `U` of right-hand sides whose rows are in order: minus the solution. Those above row `first` are zeros.
    fn substitute(&self, x: &mut Sides<'_, W>, first: usize) {
        Solve { t: &self.lu, divisors: None, upper: false, first }.run(x);
        Solve { t: &self.lu, divisors: Some(&self.divisors), upper: true, first: 0 }.run(x);
    }

    /// An error if a pivot is zero; `batch` is the matrix's number.
    fn regular(&self, batch: usize) -> Result<(), LinalgError> {
        self.zero.map_or(Ok(()), |pivot| Err(LinalgError::Singular { batch, pivot }))
    }

    /// Solves for the columns of `b`, a row-major `n` by `cols` matrix.
    pub fn solve<T: Real>(&self, b: &[T], cols: usize, out: &mut [T]) {
        solve_columns(self.lu.rows, cols, (b, (cols, 1)), out, |x: &mut Sides<'_, W>| {
            let row = x.row;
            for (k, &s) in self.swaps.iter().enumerate().filter(|(k, s)| k != *s) {
                let (top, bottom) = x.x.split_at_mut(s * row);
                top[k * row..][..row].swap_with_slice(&mut bottom[..row]);
            }
            self.substitute(x, 0);
        });
    }

    /// The inverse. With the factors of the rows in another order, `P A = L U`, it is `U⁻¹ L⁻¹ P`.
    pub fn inverse<T: Real>(&self, out: &mut [T]) {
        let (n, places) = (self.lu.rows, &self.order);
        let out = Each::new(out, 1, n * n);
        let fill = |i: usize, from: usize, x: &mut [W]| {
            x.fill(W::ZERO);
            if let Some(x) = i.checked_sub(from).and_then(|j| x.get_mut(j)) {
                *x = W::ONE;
            }
        };
        let put = |i: usize, from: usize, x: &[W]| {
            for (x, place) in x.iter().zip(&places[from..]) {
                // SAFETY: tasks have different columns, which have different places.
                unsafe { out.out.part(i * n + place, 1)[0] = of(-*x) };
            }
        };
        in_columns(n, n, fill, |from, x| self.substitute(x, from), put);
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
    fn run<T: Real, W: Number>(a: &[T], batch: usize, n: usize, out: &mut [T]) {
        let out = Each::new(out, batch, 1);
        each::<T, W>(a, batch, (n, n), n * n * n / 3 + STEP * n, |i, f| {
            // SAFETY: each matrix is asked for once.
            unsafe { out.at(i)[0] = T::from_f64(f.parity() * f.diagonal().product::<f64>()) };
            Ok(())
        })
        .unwrap_or(());
    }
    if exact::<T>(n) { run::<T, f64>(a, batch, n, out) } else { run::<T, f32>(a, batch, n, out) }
}

/// Factors each matrix, and hands it on with its number.
fn each<T: Real, W: Number>(
    a: &[T],
    batch: usize,
    (m, n): (usize, usize),
    work: usize,
    then: impl Fn(usize, &Factored<W>) -> Result<(), LinalgError> + Sync,
) -> Result<(), LinalgError> {
    for_matrices(
        batch,
        work,
        || Factored::<W>::new(m, n),
        |f, i| {
            f.factor(&a[i * m * n..][..m * n]);
            then(i, f)
        },
    )
}

/// The sign and the logarithm of the absolute value of each determinant; zero and minus infinity
/// for a singular matrix.
pub fn slogdet<T: Real>(a: &[T], batch: usize, n: usize, sign: &mut [T], log_abs: &mut [T]) {
    fn run<T: Real, W: Number>(a: &[T], batch: usize, n: usize, sign: &mut [T], log_abs: &mut [T]) {
        let (sign, log_abs) = (Each::new(sign, batch, 1), Each::new(log_abs, batch, 1));
        each::<T, W>(a, batch, (n, n), n * n * n / 3 + STEP * n, |i, f| {
            // `signum` would make a sign out of a zero.
            let signs = f.diagonal().map(|x| if x == 0.0 { 0.0 } else { x.signum() });
            // SAFETY: each matrix is asked for once.
            unsafe {
                sign.at(i)[0] = T::from_f64(f.parity() * signs.product::<f64>());
                log_abs.at(i)[0] = T::from_f64(f.diagonal().map(|x| x.abs().ln()).sum());
            }
            Ok(())
        })
        .unwrap_or(());
    }
    let run = if exact::<T>(n) { run::<T, f64> } else { run::<T, f32> };
    run(a, batch, n, sign, log_abs);
}

/// The inverse of each matrix.
pub fn inv<T: Real>(a: &[T], batch: usize, n: usize, out: &mut [T]) -> Result<(), LinalgError> {
    fn run<T: Real, W: Number>(a: &[T], batch: usize, n: usize, out: &mut [T]) -> Result<(), LinalgError> {
        let out = Each::new(out, batch, n * n);
        each::<T, W>(a, batch, (n, n), n * n * n + STEP * n, |i, f| {
            f.regular(i)?;
            // SAFETY: each matrix is asked for once.
            f.inverse(unsafe { out.at(i) });
            Ok(())
        })
    }
    if exact::<T>(n) { run::<T, f64>(a, batch, n, out) } else { run::<T, f32>(a, batch, n, out) }
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
    fn run<T: Real, W: Number>(
        a: &[T],
        batch: usize,
        n: usize,
        b: &[T],
        cols: usize,
        out: &mut [T],
    ) -> Result<(), LinalgError> {
        let out = Each::new(out, batch, n * cols);
        each::<T, W>(a, batch, (n, n), n * n * (n + 3 * cols) / 3 + STEP * n, |i, f| {
            f.regular(i)?;
            // SAFETY: each matrix is asked for once.
            f.solve(&b[i * n * cols..][..n * cols], cols, unsafe { out.at(i) });
            Ok(())
        })
    }
    let run = if exact::<T>(n) { run::<T, f64> } else { run::<T, f32> };
    run(a, batch, n, b, cols, out)
}

/// Factors each `m` by `n` matrix as `A[perm] = L U`, with `L` `m` by `k`, `U` `k` by `n` and `k`
/// the smaller size. As a matrix, `P[perm[i], i]` is one and `A = P L U`.
#[allow(clippy::many_single_char_names)]
pub fn lu<T: Real>(a: &[T], batch: usize, m: usize, n: usize, perm: &mut [i64], l: &mut [T], u: &mut [T]) {
    #[allow(clippy::many_single_char_names)]
    fn run<T: Real, W: Number>(
        a: &[T],
        batch: usize,
        (m, n): (usize, usize),
        perm: &mut [i64],
        l: &mut [T],
        u: &mut [T],
    ) {
        let k = m.min(n);
        let (perm, l, u) = (Each::new(perm, batch, m), Each::new(l, batch, m * k), Each::new(u, batch, k * n));
        each::<T, W>(a, batch, (m, n), m * n * k + STEP * k, |i, f| {
            // SAFETY: each matrix is asked for once.
            let (perm, l, u) = unsafe { (perm.at(i), l.at(i), u.at(i)) };
            perm.iter_mut().zip(&f.order).for_each(|(o, p)| *o = *p as i64);
            for r in 0..m {
                let (line, below) = (f.lu.line(r), r.min(k));
                let l = &mut l[r * k..][..k];
                l[..below].iter_mut().zip(line).for_each(|(o, x)| *o = of(-*x));
                l[below..].fill(T::ZERO);
                if r < k {
                    l[r] = T::ONE;
                    let u = &mut u[r * n..][..n];
                    u[..r].fill(T::ZERO);
                    u[r..].iter_mut().zip(&line[r..]).for_each(|(o, x)| *o = of(*x));
                }
            }
            Ok(())
        })
        .unwrap_or(());
    }
    let run = if exact::<T>(m.min(n)) { run::<T, f64> } else { run::<T, f32> };
    run(a, batch, (m, n), perm, l, u);
}

/// The compact factorization of each `m` by `n` matrix: `L` below the diagonal of `out`, `U` on
/// and above it; at step `k` row `k` was swapped with row `pivots[k]` (counting from zero).
pub fn lu_factor<T: Real>(a: &[T], batch: usize, m: usize, n: usize, out: &mut [T], pivots: &mut [i64]) {
    fn run<T: Real, W: Number>(a: &[T], batch: usize, (m, n): (usize, usize), out: &mut [T], pivots: &mut [i64]) {
        let (out, pivots) = (Each::new(out, batch, m * n), Each::new(pivots, batch, m.min(n)));
        each::<T, W>(a, batch, (m, n), (m * n + STEP) * m.min(n), |i, f| {
            // SAFETY: each matrix is asked for once.
            let (out, pivots) = unsafe { (out.at(i), pivots.at(i)) };
            for (r, out) in out.chunks_exact_mut(n.max(1)).enumerate() {
                let (line, below) = (f.lu.line(r), r.min(n));
                out[..below].iter_mut().zip(line).for_each(|(o, x)| *o = of(-*x));
                out[below..].iter_mut().zip(&line[below..]).for_each(|(o, x)| *o = of(*x));
            }
            pivots.iter_mut().zip(&f.swaps).for_each(|(o, s)| *o = *s as i64);
            Ok(())
        })
        .unwrap_or(());
    }
    let run = if exact::<T>(m.min(n)) { run::<T, f64> } else { run::<T, f32> };
    run(a, batch, (m, n), out, pivots);
}
