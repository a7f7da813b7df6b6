//! Cholesky factorization, block by block: the columns of a block from those before it, by substitution, then what they
//! take off the rest, by a product.

use super::number::{Number, STEP, Substitution, TINY, exact, is_positive};
use super::work::{Work, add_product, line, of, read, turn};
use super::{Each, LinalgError, for_matrices};
use crate::element::Real;
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// Columns of a block: a product's panel in `f32`.
const BLOCK: usize = 48;

/// Multiplications of one step that are worth another thread. A step is short, and the next one reads what other threads wrote:
/// on two dies, two threads took 0.54 ms for what one does in 0.31 (400 x 400 in `f32`).
const PARALLEL: usize = 1 << 22;

/// The factor of each symmetric positive definite matrix: `A = L Lᵀ`, or `A = Uᵀ U` if `upper`.
///
/// Only that triangle of `A` is read; the other triangle of the result is zero.
///
/// ```
/// let mut l = [0.0f64; 4];
/// gradus_numerics::linalg::cholesky(&[4.0, 2.0, 2.0, 5.0], 1, 2, false, &mut l)?;
/// assert_eq!(l, [2.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn cholesky<T: Real>(a: &[T], batch: usize, n: usize, upper: bool, out: &mut [T]) -> Result<(), LinalgError> {
    if exact::<T>(n) { run::<T, f64>(a, batch, n, upper, out) } else { run::<T, f32>(a, batch, n, upper, out) }
}

fn run<T: Real, W: Number>(a: &[T], batch: usize, n: usize, upper: bool, out: &mut [T]) -> Result<(), LinalgError> {
    let out = Each::new(out, batch, n * n);
    let steps = if upper { (1, n) } else { (n, 1) };
    for_matrices(
        batch,
        n * n * n / 3 + STEP * n,
        || Room::<W>::new(n),
        |room, i| {
            let a = &a[i * n * n..][..n * n];
            for r in 0..n {
                // The rest of a row is zeros, and stays so but for whole blocks on the diagonal.
                let row = &mut room.l.data()[r * room.row..][..room.row];
                row[r + 1..].fill(W::ZERO);
                read(&mut row[..=r], &a[r * steps.0..], steps.1);
            }
            room.factor(n).map_err(|minor| LinalgError::NotPositiveDefinite { batch: i, minor })?;
            // SAFETY: each matrix is asked for once.
            let out = unsafe { out.at(i) };
            for r in 0..n {
                let l = &room.l.line(r)[..=r];
                if upper {
                    out[r * n..][..r].fill(T::ZERO);
                    out[r..].iter_mut().step_by(n).zip(l).for_each(|(o, x)| *o = of(*x));
                } else {
                    let out = &mut out[r * n..][..n];
                    out.iter_mut().zip(l).for_each(|(o, x)| *o = of(*x));
                    out[r + 1..].fill(T::ZERO);
                }
            }
            Ok(())
        },
    )
}

/// What one matrix after the other is factored in.
struct Room<W: Number> {
    l: Work<W>,
    row: usize,
    /// The block on the diagonal, turned, and the rows of its columns.
    corner: scratch::Of<W>,
    /// The divisors of a substitution: minus the diagonal.
    divisors: [W; BLOCK],
    /// The columns of a block below it, turned, with the signs changed.
    below: Work<W>,
}

impl<W: Number> Room<W> {
    fn new(n: usize) -> Room<W> {
        let l = Work::new(n, n);
        let row = l.row;
        let below = if n > BLOCK { Work::new(BLOCK, n - BLOCK) } else { Work::new(0, 0) };
        Room { row, l, corner: scratch::of(BLOCK * corner_row::<W>(n)), divisors: [W::ZERO; BLOCK], below }
    }

    /// The factor in place; `Err` is the order of the failing minor.
    fn factor(&mut self, n: usize) -> Result<(), usize> {
        if n <= TINY {
            return self.tiny(n);
        }
        let isa = Isa::detect();
        for k in (0..n).step_by(BLOCK) {
            let wide = BLOCK.min(n - k);
            self.diagonal(isa, k, wide, n).map_err(|pivot| k + pivot + 1)?;
            let rest = n - k - wide;
            if rest > 0 {
                self.columns(isa, k, rest);
                self.update(isa, k, rest);
            }
        }
        Ok(())
    }

    /// The same, number by number.
    fn tiny(&mut self, n: usize) -> Result<(), usize> {
        let row = self.row;
        let l = &mut self.l.data()[..n * row];
        for k in 0..n {
            let square = l[k * row + k];
            if !is_positive(square) {
                return Err(k + 1);
            }
            let root = square.sqrt();
            l[k * row + k] = root;
            (k + 1..n).for_each(|i| l[i * row + k] = l[i * row + k] / root);
            for i in k + 1..n {
                let factor = -l[i * row + k];
                (k + 1..=i).for_each(|j| l[i * row + j] += factor * l[j * row + k]);
            }
        }
        Ok(())
    }

    /// Factors a block on the diagonal; `Err` is the first pivot that is not positive.
    fn diagonal(&mut self, isa: Isa, k: usize, wide: usize, n: usize) -> Result<(), usize> {
        let (row, corner) = (corner_row::<W>(n), &mut self.corner);
        let l = &mut self.l.data()[k * self.row + k..];
        corner[..wide * row].fill(W::ZERO);
        for i in 0..wide {
            l[i * self.row..][..=i].iter().enumerate().for_each(|(j, x)| corner[j * row + i] = *x);
        }
        // SAFETY: that many whole rows are there.
        let pivot = unsafe { W::cholesky(isa, wide, corner.as_mut_ptr(), row) };
        if pivot < wide {
            return Err(pivot);
        }
        for i in 0..wide {
            l[i * self.row..][..=i].iter_mut().enumerate().for_each(|(j, x)| *x = corner[j * row + i]);
            self.divisors[i] = -corner[i * row + i];
        }
        Ok(())
    }

    /// The `rest` rows of the columns below a block: `L21 = A21 L11⁻ᵀ`, and `-L21ᵀ`.
    fn columns(&mut self, isa: Isa, k: usize, rest: usize) {
        let (row, below_row, lanes) = (self.row, self.below.row, W::lanes(isa));
        let (divisors, chunk) = (self.divisors.as_ptr(), 3 * lanes);
        let divisors = Shared::wrap(divisors.cast_mut());
        let (l, below) = (Shared::new(self.l.data()), Shared::new(self.below.data()));
        for_tasks(rest.div_ceil(chunk), is_worth_threads(rest), |t| {
            let (from, count) = (t * chunk, chunk.min(rest - t * chunk));
            // SAFETY: the rows are this task's alone, here and in what lies turned.
            unsafe {
                let (here, turned) = (l.ptr().add((k + BLOCK + from) * row + k), below.ptr().add(from));
                turn(isa, (count, BLOCK), (here, row), (turned, below_row));
                let s = Substitution {
                    n: BLOCK,
                    t: l.ptr().add(k * row + k).cast_const(),
                    steps: (row, 1),
                    divisors: divisors.ptr(),
                    x: turned,
                    x_row: below_row,
                    vectors: count.div_ceil(lanes),
                    backwards: false,
                };
                W::substitute(isa, &s);
                turn(isa, (BLOCK, count), (turned, below_row), (here, row));
                W::negate(isa, count, BLOCK, here, row);
            }
        });
    }

    /// `A22 -= L21 L21ᵀ`, of which only the lower triangle counts.
    fn update(&mut self, isa: Isa, k: usize, rest: usize) {
        let (row, below_row) = (self.row, self.below.row);
        let chunk = 3 * W::lanes(isa);
        let (l, below) = (Shared::new(self.l.data()), Shared::new(self.below.data()));
        for_tasks(rest.div_ceil(chunk), is_worth_threads(rest), |t| {
            let from = t * chunk;
            // SAFETY: the columns are this task's alone.
            unsafe {
                let l21 = l.ptr().add((k + BLOCK + from) * row + k);
                let sizes = (rest - from, chunk.min(rest - from), BLOCK);
                let b = below.ptr().add(from).cast_const();
                let a22 = l21.add(BLOCK + from);
                add_product(isa, sizes, (l21.cast_const(), (row, 1)), (b, below_row), (a22, row));
            }
        });
    }
}

/// Whether threads share a step that so many rows are left of.
fn is_worth_threads(rest: usize) -> bool {
    rest * rest * BLOCK / 2 >= PARALLEL
}

/// Numbers of a row of a block on the diagonal: whole vectors.
fn corner_row<W>(n: usize) -> usize {
    BLOCK.min(n).next_multiple_of(line::<W>())
}
