//! Triangular systems, block by block: what solved unknowns take off the right-hand sides of a block is a product.

use super::number::{Number, STEP, Substitution, exact};
use super::work::{Work, add_product, line, of, read};
use super::{Each, LinalgError, for_matrices};
use crate::element::Real;
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::for_tasks;

/// Which triangular system to solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triangular {
    /// The upper triangle of `A` is used, else the lower; the other is not read.
    pub upper: bool,
    /// Solve with `Aᵀ` in the place of `A`.
    pub transpose: bool,
    /// Take the diagonal to be ones.
    pub unit: bool,
    /// Solve `X A = B` in the place of `A X = B`.
    pub right: bool,
}

/// Unknowns of a block.
const BLOCK: usize = 32;

/// Right-hand sides of so many numbers are not worth asking for memory.
const FEW: usize = 128;

/// Multiplications that are worth another thread.
const PARALLEL: usize = 1 << 19;

/// Solves `A X = B` for each triangular `n` by `n` matrix, `B` and `X` being `n` by `cols`; or
/// `X A = B` if `right`, these being `cols` by `n`.
///
/// A zero on the diagonal gives infinities or NaN, as a division does.
///
/// ```
/// use gradus_numerics::linalg::{Triangular, solve_triangular};
/// let (a, mut x) = ([2.0f64, 0.0, 1.0, 1.0], [0.0; 2]);
/// solve_triangular(&a, 1, 2, &[4.0, 5.0], 1, Triangular::default(), &mut x);
/// assert_eq!(x, [2.0, 3.0]);
/// ```
pub fn solve_triangular<T: Real>(
    a: &[T],
    batch: usize,
    n: usize,
    b: &[T],
    cols: usize,
    which: Triangular,
    out: &mut [T],
) {
    let run = if exact::<T>(n) { run::<T, f64> } else { run::<T, f32> };
    let done = run(a, batch, n, b, cols, which, out);
    debug_assert!(done.is_ok());
}

fn run<T: Real, W: Number>(
    a: &[T],
    batch: usize,
    n: usize,
    b: &[T],
    cols: usize,
    which: Triangular,
    out: &mut [T],
) -> Result<(), LinalgError> {
    let out = Each::new(out, batch, n * cols);
    // X A = B is Aᵀ Xᵀ = Bᵀ.
    let flip = which.transpose != which.right;
    let steps = if which.right { (1, n) } else { (cols, 1) };
    let room = || (Work::<W>::new(n, n), vec![-W::ONE; n]);
    for_matrices(batch, n * n * cols + STEP * n, room, |(t, divisors), i| {
        t.load(&a[i * n * n..][..n * n], if flip { (1, n) } else { (n, 1) });
        if !which.unit {
            divisors.iter_mut().enumerate().for_each(|(i, d)| *d = -t.at(i, i));
        }
        let system = Solve { t, divisors: Some(divisors), upper: which.upper != flip, first: 0 };
        // SAFETY: each matrix is asked for once.
        let out = unsafe { out.at(i) };
        solve_columns(n, cols, (&b[i * n * cols..][..n * cols], steps), out, |x| system.run(x));
        Ok(())
    })
}

/// Some right-hand sides, in rows of whole vectors: one row an unknown.
pub(super) struct Sides<'a, W> {
    pub x: &'a mut [W],
    pub row: usize,
}

/// Solves for some columns of `B` after the other, on all threads. `solve` gets each group of columns to turn it into minus
/// the solution. `steps` are those of `B` and of the result alike.
pub(super) fn solve_columns<T: Real, W: Number>(
    n: usize,
    cols: usize,
    (b, steps): (&[T], (usize, usize)),
    out: &mut [T],
    solve: impl Fn(&mut Sides<'_, W>) + Sync,
) {
    let out = Each::new(out, 1, n * cols);
    let fill = |i: usize, from: usize, x: &mut [W]| read(x, &b[i * steps.0 + from * steps.1..], steps.1);
    let put = |i: usize, from: usize, x: &[W]| {
        let at = i * steps.0 + from * steps.1;
        // SAFETY: tasks have different columns.
        unsafe {
            if steps.1 == 1 {
                out.out.part(at, x.len()).iter_mut().zip(x).for_each(|(o, x)| *o = of(-*x));
            } else {
                x.iter().enumerate().for_each(|(j, x)| out.out.part(at + j * steps.1, 1)[0] = of(-*x));
            }
        }
    };
    in_columns(n, cols, fill, |_, x| solve(x), put);
}

/// Some columns of an `n` by `cols` matrix after the other, on all threads: `fill` makes each row of them, given its number
/// and that of the first column, `work` gets the columns, and `put` takes each row.
pub(super) fn in_columns<W: Number>(
    n: usize,
    cols: usize,
    fill: impl Fn(usize, usize, &mut [W]) + Sync,
    work: impl Fn(usize, &mut Sides<'_, W>) + Sync,
    put: impl Fn(usize, usize, &[W]) + Sync,
) {
    // A product's panel, or even parts of fewer columns.
    let wide = (3 * line::<W>()).min(cols.div_ceil(2).next_multiple_of(line::<W>()));
    for_tasks(cols.div_ceil(wide.max(1)), n * n * cols >= PARALLEL, |task| {
        let (from, count) = (task * wide, wide.min(cols - task * wide));
        let row = count.next_multiple_of(line::<W>());
        let (mut few, mut many);
        let x = if n * row <= FEW {
            few = [W::ZERO; FEW];
            &mut few[..n * row]
        } else {
            many = scratch::of::<W>(n * row);
            &mut many[..]
        };
        for (i, x) in x.chunks_exact_mut(row).enumerate() {
            x[count..].fill(W::ZERO);
            fill(i, from, &mut x[..count]);
        }
        work(from, &mut Sides { x: &mut *x, row });
        x.chunks_exact(row).enumerate().for_each(|(i, x)| put(i, from, &x[..count]));
    });
}

/// A triangular matrix to solve with: gives minus the solution, or without divisors, for a matrix of minus the coefficients
/// with ones on its diagonal, the solution.
pub(super) struct Solve<'a, W: Number> {
    pub t: &'a Work<W>,
    /// Minus the diagonal.
    pub divisors: Option<&'a [W]>,
    pub upper: bool,
    /// Right-hand sides above this row are zeros, of a lower triangle.
    pub first: usize,
}

impl<W: Number> Solve<'_, W> {
    /// Solves in place.
    pub fn run(&self, sides: &mut Sides<'_, W>) {
        let (n, isa, row) = (self.t.rows, Isa::detect(), sides.row);
        assert!(self.t.columns == n && sides.x.len() >= n * row, "a row for each unknown");
        let (t, t_row) = self.t.parts();
        let first = self.first / BLOCK;
        for step in first..n.div_ceil(BLOCK) {
            let k = BLOCK * if self.upper { (n - 1) / BLOCK - step } else { step };
            let wide = BLOCK.min(n - k);
            let solved = if self.upper { k + wide..n } else { first * BLOCK..k };
            // SAFETY: inside the triangle and the rows, of which the solved ones and those of the block are different.
            unsafe {
                let x = sides.x.as_mut_ptr();
                let here = x.add(k * row);
                let a = t.as_ptr().add(k * t_row + solved.start);
                let b = x.add(solved.start * row).cast_const();
                add_product(isa, (wide, row, solved.len()), (a, (t_row, 1)), (b, row), (here, row));
                let s = Substitution {
                    n: wide,
                    t: t.as_ptr().add(k * t_row + k),
                    steps: (t_row, 1),
                    divisors: self.divisors.map_or(std::ptr::null(), |d| d[k..].as_ptr()),
                    x: here,
                    x_row: row,
                    vectors: row / W::lanes(isa),
                    backwards: self.upper,
                };
                W::substitute(isa, &s);
            }
        }
    }
}
