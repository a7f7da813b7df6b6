//! Householder reflections, a block of them at a time: a product of reflections is `I - V T Vᵀ` with a small triangle `T`
//! (the compact WY form), so that it is applied by matrix products.

use super::number::Number;
use super::work::{Work, add_product, line, product, turn};
use crate::element::Real;
use crate::gemv::Dots;
use crate::scratch::{self, Of};
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// Reflections of a block.
const BLOCK: usize = 32;

/// Multiplications that are worth another thread.
const PARALLEL: usize = 1 << 17;

/// The reflections that triangularize a matrix, and the triangle. It can be used for one matrix after the other.
pub(super) struct Reflections<W: Number> {
    /// `R` on and above the diagonal.
    r: Work<W>,
    /// The vectors in rows: one at the diagonal, and from the first column of their block on zeros before it.
    v: Work<W>,
    /// Of each block, minus `T`.
    t: Of<W>,
    /// Minus the factors of the reflections of a block: minus LAPACK's tau.
    factors: [W; BLOCK],
}

impl<W: Number> Reflections<W> {
    /// Room for an `m` by `n` matrix.
    pub fn new(m: usize, n: usize) -> Reflections<W> {
        let k = m.min(n);
        let t = scratch::of(k.div_ceil(BLOCK) * BLOCK * BLOCK);
        Reflections { r: Work::new(m, n), v: Work::new(k, m), t, factors: [W::ZERO; BLOCK] }
    }

    /// Factors a matrix whose elements are `steps` apart along rows and columns.
    pub fn factor<T: Real>(&mut self, a: &[T], steps: (usize, usize)) {
        self.r.load(a, steps);
        let isa = Isa::detect();
        let (k, n) = (self.v.rows, self.r.columns);
        for first in (0..k).step_by(BLOCK) {
            let wide = BLOCK.min(k - first);
            self.columns(isa, first, wide);
            self.triangle(isa, first, wide);
            let mut r = std::mem::replace(&mut self.r, Work::new(0, 0));
            self.block(isa, first, true, &mut r, first + wide..n);
            self.r = r;
        }
    }

    /// The reflections of a block, one by one.
    fn columns(&mut self, isa: Isa, k: usize, wide: usize) {
        let (m, row, v_row) = (self.r.rows, self.r.row, self.v.row);
        let corner = self.r.data()[k * row + k..].as_ptr();
        let to = self.v.data()[k * v_row + k..].as_mut_ptr();
        // SAFETY: inside both matrices; rows of vectors are as long as columns, up to whole lines.
        unsafe { turn(isa, (m - k, wide), (corner, row), (to, v_row)) };
        for j in 0..wide {
            let c = k + j;
            let (beta, factor) = reflector(isa, &mut self.v.line_mut(c)[c..]);
            self.factors[j] = -factor;
            self.r.line_mut(c)[c] = beta;
            let count = wide - j - 1;
            if count == 0 || factor == W::ZERO {
                continue;
            }
            let mut sums = [W::ZERO; BLOCK];
            let v = self.v.data()[c * v_row + c..].as_mut_ptr();
            // SAFETY: inside the vectors of the block, behind which there is a line more.
            unsafe {
                let others = v.add(v_row);
                let d = Dots {
                    sizes: (1, count, m - c),
                    rows: (others.cast_const(), v_row as isize),
                    x: v.cast_const(),
                    out: sums.as_mut_ptr(),
                    steps: (0, 1),
                };
                W::dot(isa, &d);
                sums[..count].iter_mut().for_each(|s| *s = -(*s * factor));
                add_product(isa, (count, m - c, 1), (sums.as_ptr(), (1, 1)), (v, v_row), (others, v_row));
            }
        }
        for c in k..k + wide {
            for i in k..c {
                self.r.line_mut(i)[c] = std::mem::take(&mut self.v.line_mut(c)[i]);
            }
        }
    }

    /// Minus the triangle `T` of a block.
    fn triangle(&mut self, isa: Isa, k: usize, wide: usize) {
        let (m, row) = (self.r.rows, self.v.row);
        let t = &mut self.t[k * BLOCK..][..BLOCK * BLOCK];
        t.fill(W::ZERO);
        for j in 0..wide {
            let mut sums = [W::ZERO; BLOCK];
            if j > 0 {
                let d = Dots {
                    sizes: (1, j, m - k - j),
                    rows: (self.v.data()[k * row + k + j..].as_ptr(), row as isize),
                    x: self.v.data()[(k + j) * row + k + j..].as_ptr(),
                    out: sums.as_mut_ptr(),
                    steps: (0, 1),
                };
                // SAFETY: inside the vectors of the block, all of which have that many numbers from there on.
                unsafe { W::dot(isa, &d) };
            }
            for i in 0..j {
                let mut sum = W::ZERO;
                t[i * BLOCK + i..][..j - i].iter().zip(&sums[i..]).for_each(|(t, s)| sum += *t * *s);
                t[i * BLOCK + j] = self.factors[j] * sum;
            }
            t[j * BLOCK + j] = self.factors[j];
        }
    }

    /// Applies a block, or its transpose, to some columns of a matrix.
    fn block(&self, isa: Isa, k: usize, transposed: bool, x: &mut Work<W>, columns: std::ops::Range<usize>) {
        let m = self.v.columns;
        let wide = BLOCK.min(self.v.rows - k);
        let (v, v_row) = self.v.parts();
        let (v, t) = (&v[k * v_row + k..], &self.t[k * BLOCK..]);
        let chunk = 3 * line::<W>();
        let x_row = x.row;
        let x = Shared::new(x.data());
        let t_steps = if transposed { (1, BLOCK) } else { (BLOCK, 1) };
        let work = columns.len() * (m - k) * wide;
        for_tasks(columns.len().div_ceil(chunk), work >= PARALLEL, |task| {
            let from = columns.start + task * chunk;
            let count = chunk.min(columns.end - from);
            let mut room = scratch::of::<W>(2 * BLOCK * chunk);
            let (w, tw) = room.split_at_mut(BLOCK * chunk);
            // SAFETY: the columns are this task's alone; vectors and triangles are as large.
            unsafe {
                let here = x.ptr().add(k * x_row + from);
                let (w, tw, v) = (w.as_mut_ptr(), tw.as_mut_ptr(), v.as_ptr());
                product(isa, (wide, count, m - k), (v, (v_row, 1)), (here, x_row), (w, chunk), false);
                product(isa, (wide, count, wide), (t.as_ptr(), t_steps), (w, chunk), (tw, chunk), false);
                add_product(isa, (m - k, count, wide), (v, (1, v_row)), (tw, chunk), (here, x_row));
            }
        });
    }

    /// Multiplies a matrix by `Qᵀ` from the left.
    pub fn apply_transposed(&self, x: &mut Work<W>) {
        let columns = 0..x.columns;
        (0..self.v.rows).step_by(BLOCK).for_each(|k| self.block(Isa::detect(), k, true, x, columns.clone()));
    }

    /// Multiplies a matrix by `Q` from the left.
    pub fn apply(&self, x: &mut Work<W>) {
        let columns = 0..x.columns;
        (0..self.v.rows).step_by(BLOCK).rev().for_each(|k| self.block(Isa::detect(), k, false, x, columns.clone()));
    }

    /// Makes the first columns of `Q`, as many as there is room for.
    pub fn q(&self, q: &mut Work<W>) {
        q.clear();
        (0..q.columns.min(q.rows)).for_each(|i| q.line_mut(i)[i] = W::ONE);
        let count = q.columns;
        for k in (0..self.v.rows).step_by(BLOCK).rev() {
            // Columns before have zeros where these vectors have not.
            self.block(Isa::detect(), k, false, q, k.min(count)..count);
        }
    }

    /// A row of `R`, from the diagonal on.
    pub fn r(&self, i: usize) -> &[W] {
        &self.r.line(i)[i..]
    }
}

/// The sum of squares.
fn squares<W: Number>(isa: Isa, x: &[W]) -> f64 {
    if x.is_empty() {
        return 0.0;
    }
    let mut sum = W::ZERO;
    let d = Dots { sizes: (1, 1, x.len()), rows: (x.as_ptr(), 0), x: x.as_ptr(), out: &raw mut sum, steps: (0, 0) };
    // SAFETY: one row and one vector of as many numbers.
    unsafe { W::dot(isa, &d) };
    sum.to_f64()
}

/// The Euclidean norm; exactly zero for zeros alone.
fn norm<W: Number>(isa: Isa, x: &[W]) -> f64 {
    let sum = squares(isa, x);
    let (least, most) = if size_of::<W>() == 4 { (1e-20, 1e30) } else { (1e-200, 1e250) };
    if sum > least && sum < most {
        return sum.sqrt();
    }
    // Squares vanish or overflow, or there is a number that is not finite.
    let scale = x.iter().fold(0.0f64, |s, x| s.max(x.to_f64().abs()));
    if scale == 0.0 {
        return sum;
    }
    x.iter().map(|x| (x.to_f64() / scale) * (x.to_f64() / scale)).sum::<f64>().sqrt() * scale
}

/// Turns `x` into the vector of the reflection that maps it to `(beta, 0, …)`, which begins with a one. LAPACK's convention:
/// the sign of `beta` is opposite to that of `x[0]`, except that nothing is done when the rest is zero already. Returns
/// `beta` and LAPACK's tau.
pub(super) fn reflector<W: Number>(isa: Isa, x: &mut [W]) -> (W, W) {
    let alpha = x[0].to_f64();
    let rest = norm(isa, &x[1..]);
    if rest == 0.0 {
        return (std::mem::replace(&mut x[0], W::ONE), W::ZERO);
    }
    let beta = -alpha.hypot(rest).copysign(alpha);
    let divisor = W::from_f64(alpha - beta);
    x[1..].iter_mut().for_each(|x| *x = *x / divisor);
    x[0] = W::ONE;
    (W::from_f64(beta), W::from_f64((beta - alpha) / beta))
}
