//! Distances between rows, and the sums of differences that are their gradients.
//!
//! Differences are taken before they are squared, so that rows near each other keep all their digits: a product of matrices,
//! `|a|^2 + |b|^2 - 2 a b`, would lose them. A chip that adds beside its fused multiply-adds takes the differences for nothing.

mod back;
mod vector;

use crate::scratch::{self, Scratch};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use crate::transpose::Transposition;
use std::ops::Range;
use vector::{Double, Single, Vector};

pub use back::Way;

/// Which norm of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The sum of magnitudes.
    One,
    /// The root of the sum of squares.
    Two,
    /// The largest magnitude.
    Infinity,
}

/// Batches of matrices `[n, d]` and `[m, d]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Pairs of matrices.
    pub batch: usize,
    /// Rows of the first.
    pub n: usize,
    /// Rows of the second.
    pub m: usize,
    /// Numbers of a row.
    pub d: usize,
}

/// Numbers that distances are computed in.
pub trait Measured: Copy + Default + Send + Sync + 'static {
    /// Distances between all rows of `a` and all rows of `b`, `[batch, n, m]`.
    ///
    /// ```
    /// use gradus_numerics::distance::{Measured, Order, Sizes};
    /// let mut y = [0.0];
    /// f32::distances(Order::Two, Sizes { batch: 1, n: 1, m: 1, d: 2 }, &[1.0, 1.0], &[4.0, 5.0], &mut y);
    /// assert_eq!(y, [5.0]);
    /// ```
    fn distances(order: Order, s: Sizes, a: &[Self], b: &[Self], y: &mut [Self]);

    /// Distances between the rows of `[n, d]`, each pair once: (0, 1), (0, 2), .., (1, 2), ..
    fn pairs(order: Order, size: [usize; 2], x: &[Self], y: &mut [Self]);

    /// For each row `i` of `a` the sum over the rows `j` of `b` of `w[i, j]` times what the norm's sum has for `a[i] - b[j]` as its
    /// slope: the difference itself, or its signs.
    fn slopes(way: Way, s: Sizes, a: &[Self], b: &[Self], w: &[Self], da: &mut [Self]);

    /// The same for [`Measured::pairs`], with a weight for each.
    fn pair_slopes(way: Way, size: [usize; 2], x: &[Self], w: &[Self], dx: &mut [Self]);
}

macro_rules! measured {
    ($t:ty, $tiles:ident, $rows:ident) => {
        impl Measured for $t {
            fn distances(order: Order, s: Sizes, a: &[$t], b: &[$t], y: &mut [$t]) {
                assert!(a.len() == s.batch * s.n * s.d && b.len() == s.batch * s.m * s.d, "sizes of matrices");
                assert!(y.len() == s.batch * s.n * s.m, "sizes of distances");
                run(&Job { order, s, half: false, a, b }, y, $tiles);
            }

            fn pairs(order: Order, [n, d]: [usize; 2], x: &[$t], y: &mut [$t]) {
                assert!(x.len() == n * d && y.len() == n * n.saturating_sub(1) / 2, "sizes of distances");
                let s = Sizes { batch: 1, n, m: n, d };
                run(&Job { order, s, half: true, a: x, b: x }, y, $tiles);
            }

            fn slopes(way: Way, s: Sizes, a: &[$t], b: &[$t], w: &[$t], da: &mut [$t]) {
                assert!(a.len() == s.batch * s.n * s.d && b.len() == s.batch * s.m * s.d, "sizes of matrices");
                assert!(w.len() == s.batch * s.n * s.m && da.len() == a.len(), "sizes of weights");
                back::run(way, s, [a, b, w], da, back::$rows);
            }

            fn pair_slopes(way: Way, [n, d]: [usize; 2], x: &[$t], w: &[$t], dx: &mut [$t]) {
                assert!(x.len() == n * d && w.len() == n * n.saturating_sub(1) / 2, "sizes of weights");
                let mut all = Room::<$t>::new(n * n);
                let all = all.numbers();
                back::unfold(n, w, all);
                Self::slopes(way, Sizes { batch: 1, n, m: n, d }, x, x, all, dx);
            }
        }
    };
}
measured!(f32, tiles_f32, rows_f32);
measured!(f64, tiles_f64, rows_f64);

/// Numbers in a buffer that is kept between calls.
struct Room<T>(Scratch, usize, std::marker::PhantomData<T>);

impl<T: Measured> Room<T> {
    fn new(n: usize) -> Room<T> {
        Room(scratch::take(n * size_of::<T>().div_ceil(size_of::<f32>())), n, std::marker::PhantomData)
    }

    /// Whatever they are.
    fn numbers(&mut self) -> &mut [T] {
        assert!(self.0.len() * size_of::<f32>() >= self.1 * size_of::<T>(), "room for them");
        // SAFETY: as many bytes, aligned, and borrowed exclusively; all bits are numbers of some kind.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) }
    }
}

/// What is to be measured: all rows of `a` from all of `b`, or (`half`) each pair of rows once.
struct Job<'a, T> {
    order: Order,
    s: Sizes,
    half: bool,
    a: &'a [T],
    b: &'a [T],
}

impl<T> Job<'_, T> {
    /// Where row `i` of the distances of a batch begins, if its first column were `from`.
    fn row(&self, batch: usize, i: usize, from: usize) -> usize {
        let Sizes { n, m, .. } = self.s;
        match self.half {
            false => (batch * n + i) * m + from,
            // Row i has the columns from i + 1 on.
            true => i * n - i * (i + 1) / 2 + from - (i + 1),
        }
    }
}

/// Rows of `b` that are measured together: they are turned, and vectors run along them.
const PANEL: usize = 32;
/// Rows of `a` of a task.
const ROWS: usize = 64;
/// Rows of `a` that are held in registers.
const TOGETHER: usize = 4;
/// Numbers of a row that are added up before others are: long sums stay exact, and a part of a panel in the first cache.
const DEPTH: usize = 16;
/// Differences below which other threads would come too late.
const ALONE: usize = 1 << 16;

/// Measures rows of a batch from columns that are turned.
type Tiles<T> = unsafe fn(Isa, &Job<'_, T>, usize, Range<usize>, Range<usize>, &mut [T], *mut T);

/// Calls `tiles` for every panel and rows of every batch.
fn run<T: Measured>(job: &Job<'_, T>, y: &mut [T], tiles: Tiles<T>) {
    let Sizes { batch, n, m, d } = job.s;
    if y.is_empty() {
        return;
    }
    let (isa, y) = (Isa::detect(), Shared::new(y));
    let (panels, blocks) = (m.div_ceil(PANEL), n.div_ceil(ROWS));
    for_tasks(batch * panels * blocks, batch * n * m * d >= ALONE, |t| {
        let (batch, panel, block) = (t / (panels * blocks), t / blocks % panels, t % blocks);
        let columns = panel * PANEL..m.min((panel + 1) * PANEL);
        let mut rows = block * ROWS..n.min((block + 1) * ROWS);
        if job.half {
            // Those that are before some column.
            rows.end = rows.end.min(columns.end - 1);
        }
        if rows.is_empty() {
            return;
        }
        let mut turned = Room::<T>::new(d * PANEL);
        let turned = turned.numbers();
        if columns.len() < PANEL {
            turned.fill(T::default());
        }
        let t = Transposition { rows: d, columns: columns.len(), from: d as isize, to: PANEL as isize };
        // SAFETY: the rows of `b` are inside, and there is room for them; tasks write different distances.
        unsafe {
            t.run(job.b[(batch * m + columns.start) * d..].as_ptr(), turned.as_mut_ptr(), false);
            tiles(isa, job, batch, rows, columns, turned, y.ptr());
        }
    });
}

/// Some rows of distances from the rows of a panel.
///
/// # Safety
///
/// The rows and columns are there, and nobody else writes their distances.
#[inline(always)]
unsafe fn tiles_body<X: Vector>(
    job: &Job<'_, X::T>,
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    panel: &[X::T],
    y: *mut X::T,
) where
    X::T: Measured,
{
    let mut i = rows.start;
    while i < rows.end {
        let count = (rows.end - i).min(TOGETHER);
        let mut found = [[X::T::default(); PANEL]; TOGETHER];
        for (v, found_at) in (0..columns.len()).step_by(2 * X::N).enumerate() {
            // SAFETY: rows of `a`; the panel has whole vectors.
            unsafe {
                let a = job.a.as_ptr().add((batch * job.s.n + i) * job.s.d);
                let from = panel.as_ptr().add(2 * v * X::N);
                match count {
                    TOGETHER => tile::<X, TOGETHER>(job.order, job.s.d, a, from, &mut found, found_at),
                    _ => {
                        for (r, found) in found.iter_mut().enumerate().take(count) {
                            let mut one = [[X::T::default(); PANEL]];
                            tile::<X, 1>(job.order, job.s.d, a.add(r * job.s.d), from, &mut one, found_at);
                            found[found_at..found_at + 2 * X::N]
                                .copy_from_slice(&one[0][found_at..found_at + 2 * X::N]);
                        }
                    }
                }
            }
        }
        for (r, found) in found.iter_mut().enumerate().take(count) {
            if job.order == Order::Two {
                found.iter_mut().for_each(|v| *v = X::root(*v));
            }
            let first = if job.half { columns.start.max(i + r + 1) } else { columns.start };
            if first < columns.end {
                let some = &found[first - columns.start..columns.len()];
                // SAFETY: distances of this task.
                unsafe {
                    y.add(job.row(batch, i + r, first)).copy_from_nonoverlapping(some.as_ptr(), some.len());
                }
            }
        }
        i += count;
    }
}

/// `R` rows from two vectors of others, before a root.
#[inline(always)]
unsafe fn tile<X: Vector, const R: usize>(
    order: Order,
    d: usize,
    a: *const X::T,
    panel: *const X::T,
    found: &mut [[X::T; PANEL]; R],
    at: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match order {
            Order::One => {
                sums::<X, R>(d, a, panel, found, at, |sum, d| X::add(sum, X::abs(d)), |a, b| X::add(a, b));
            }
            Order::Two => sums::<X, R>(d, a, panel, found, at, |sum, d| X::fma(d, d, sum), |a, b| X::add(a, b)),
            Order::Infinity => {
                sums::<X, R>(d, a, panel, found, at, |sum, d| X::larger(sum, X::abs(d)), |a, b| X::larger(a, b));
            }
        }
    }
}

#[inline(always)]
unsafe fn sums<X: Vector, const R: usize>(
    d: usize,
    a: *const X::T,
    panel: *const X::T,
    found: &mut [[X::T; PANEL]; R],
    at: usize,
    step: impl Fn(X::V, X::V) -> X::V,
    join: impl Fn(X::V, X::V) -> X::V,
) {
    // SAFETY: the caller's promise; a panel's numbers of one place lie side by side.
    unsafe {
        let zero = X::splat(X::T::default());
        let mut total = [[zero; 2]; R];
        for from in (0..d).step_by(DEPTH) {
            let mut sum = [[zero; 2]; R];
            for k in from..d.min(from + DEPTH) {
                let b = [X::load(panel.add(k * PANEL)), X::load(panel.add(k * PANEL + X::N))];
                for (r, sum) in sum.iter_mut().enumerate() {
                    let x = X::splat(*a.add(r * d + k));
                    sum[0] = step(sum[0], X::sub(x, b[0]));
                    sum[1] = step(sum[1], X::sub(x, b[1]));
                }
            }
            for (total, sum) in total.iter_mut().zip(sum) {
                *total = [join(total[0], sum[0]), join(total[1], sum[1])];
            }
        }
        for (found, total) in found.iter_mut().zip(total) {
            X::store(found.as_mut_ptr().add(at), total[0]);
            X::store(found.as_mut_ptr().add(at + X::N), total[1]);
        }
    }
}

#[inline(always)]
unsafe fn singles<S: Simd>(
    job: &Job<'_, f32>,
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    panel: &mut [f32],
    y: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe { tiles_body::<Single<S>>(job, batch, rows, columns, panel, y) }
}
dispatch!(unsafe fn tiles_f32 = singles(job: &Job<'_, f32>, batch: usize, rows: Range<usize>, columns: Range<usize>, panel: &mut [f32], y: *mut f32));

#[inline(always)]
unsafe fn doubles<S: Simd>(
    job: &Job<'_, f64>,
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    panel: &mut [f64],
    y: *mut f64,
) {
    // SAFETY: the caller's promise.
    unsafe { tiles_body::<Double<S>>(job, batch, rows, columns, panel, y) }
}
dispatch!(unsafe fn tiles_f64 = doubles(job: &Job<'_, f64>, batch: usize, rows: Range<usize>, columns: Range<usize>, panel: &mut [f64], y: *mut f64));

#[cfg(test)]
mod tests;
