//! Weighted sums of differences, or of their signs, over the other rows.

// One number counts through several arrays.
#![allow(clippy::needless_range_loop)]

use super::{ALONE, DEPTH, Measured, Sizes, TOGETHER};
use crate::distance::vector::{Double, Single, Vector};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The signs of differences instead of the differences: of sums of magnitudes.
    pub signs: bool,
    /// Weights lie as `[m, n]`: the gradient is that of the second matrix.
    pub turned: bool,
}

/// What a task's rows are made from.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, T> {
    way: Way,
    d: usize,
    /// The rows of `a` of this batch, all rows of `b`, and the weights with their steps along rows of `a` and of `b`.
    a: &'a [T],
    b: &'a [T],
    w: &'a [T],
    steps: [usize; 2],
}

/// Rows of a task.
const ROWS: usize = 16;

type Rows<T> = unsafe fn(Isa, Part<'_, T>, Range<usize>, *mut T);

pub(super) fn run<T: Measured>(way: Way, s: Sizes, [a, b, w]: [&[T]; 3], da: &mut [T], rows: Rows<T>) {
    let Sizes { batch, n, m, d } = s;
    if da.is_empty() {
        return;
    }
    let (isa, da) = (Isa::detect(), Shared::new(da));
    let blocks = n.div_ceil(ROWS);
    for_tasks(batch * blocks, batch * n * m * d >= ALONE, |t| {
        let (batch, block) = (t / blocks, t % blocks);
        let part = Part {
            way,
            d,
            a: &a[batch * n * d..][..n * d],
            b: &b[batch * m * d..][..m * d],
            w: &w[batch * n * m..][..n * m],
            steps: if way.turned { [1, n] } else { [m, 1] },
        };
        // SAFETY: tasks write different rows.
        unsafe { rows(isa, part, block * ROWS..n.min((block + 1) * ROWS), da.ptr().add(batch * n * d)) };
    });
}

/// The weights of pairs, each once, as a symmetric matrix.
pub(super) fn unfold<T: Copy + Default>(n: usize, w: &[T], all: &mut [T]) {
    let mut from = 0;
    for i in 0..n {
        all[i * n + i] = T::default();
        let row = &w[from..from + n - 1 - i];
        all[i * n + i + 1..][..row.len()].copy_from_slice(row);
        row.iter().enumerate().for_each(|(k, w)| all[(i + 1 + k) * n + i] = *w);
        from += row.len();
    }
}

#[inline(always)]
unsafe fn rows_body<X: Vector>(p: Part<'_, X::T>, rows: Range<usize>, da: *mut X::T) {
    // The panel of `b` that is added up stays in the first cache for all rows.
    for k in (0..p.d).step_by(2 * X::N) {
        let left = p.d - k;
        let mut i = rows.start;
        while i < rows.end {
            let count = if rows.end - i >= TOGETHER { TOGETHER } else { 1 };
            // SAFETY: rows that are there; of the last vectors only what is.
            unsafe {
                match (count, left >= 2 * X::N, p.way.signs) {
                    (TOGETHER, true, false) => tile::<X, TOGETHER, true, false>(p, i, k, da),
                    (TOGETHER, true, true) => tile::<X, TOGETHER, true, true>(p, i, k, da),
                    (TOGETHER, false, false) => tile::<X, TOGETHER, false, false>(p, i, k, da),
                    (TOGETHER, false, true) => tile::<X, TOGETHER, false, true>(p, i, k, da),
                    (_, true, false) => tile::<X, 1, true, false>(p, i, k, da),
                    (_, true, true) => tile::<X, 1, true, true>(p, i, k, da),
                    (_, false, false) => tile::<X, 1, false, false>(p, i, k, da),
                    (_, false, true) => tile::<X, 1, false, true>(p, i, k, da),
                }
            }
            i += count;
        }
    }
}

/// Two vectors of `R` rows.
#[inline(always)]
unsafe fn tile<X: Vector, const R: usize, const WHOLE: bool, const SIGNS: bool>(
    p: Part<'_, X::T>,
    i: usize,
    k: usize,
    da: *mut X::T,
) {
    let left = p.d - k;
    // SAFETY: the caller's promise.
    unsafe {
        let load = |row: *const X::T| match WHOLE {
            true => [X::load(row), X::load(row.add(X::N))],
            false => [X::load_first(row, left.min(X::N)), {
                let rest = left.saturating_sub(X::N);
                X::load_first(row.add(left.min(X::N)), rest)
            }],
        };
        let zero = X::splat(X::T::default());
        let a: [[X::V; 2]; R] = std::array::from_fn(|r| load(p.a.as_ptr().add((i + r) * p.d + k)));
        let mut total = [[zero; 2]; R];
        let m = p.b.len() / p.d;
        for from in (0..m).step_by(DEPTH) {
            let mut sum = [[zero; 2]; R];
            for j in from..m.min(from + DEPTH) {
                let b = load(p.b.as_ptr().add(j * p.d + k));
                for r in 0..R {
                    let w = X::splat(*p.w.as_ptr().add((i + r) * p.steps[0] + j * p.steps[1]));
                    for v in 0..2 {
                        let d = X::sub(a[r][v], b[v]);
                        sum[r][v] = if SIGNS { X::add(sum[r][v], X::signed(w, d)) } else { X::fma(w, d, sum[r][v]) };
                    }
                }
            }
            for (total, sum) in total.iter_mut().zip(sum) {
                *total = [X::add(total[0], sum[0]), X::add(total[1], sum[1])];
            }
        }
        for (r, total) in total.into_iter().enumerate() {
            let to = da.add((i + r) * p.d + k);
            if WHOLE {
                X::store(to, total[0]);
                X::store(to.add(X::N), total[1]);
                continue;
            }
            let mut some = [X::T::default(); 32];
            X::store(some.as_mut_ptr(), total[0]);
            X::store(some.as_mut_ptr().add(X::N), total[1]);
            to.copy_from_nonoverlapping(some.as_ptr(), left);
        }
    }
}

#[inline(always)]
unsafe fn singles<S: Simd>(p: Part<'_, f32>, rows: Range<usize>, da: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { rows_body::<Single<S>>(p, rows, da) }
}
dispatch!(pub(super) unsafe fn rows_f32 = singles(p: Part<'_, f32>, rows: Range<usize>, da: *mut f32));

#[inline(always)]
unsafe fn doubles<S: Simd>(p: Part<'_, f64>, rows: Range<usize>, da: *mut f64) {
    // SAFETY: the caller's promise.
    unsafe { rows_body::<Double<S>>(p, rows, da) }
}
dispatch!(pub(super) unsafe fn rows_f64 = doubles(p: Part<'_, f64>, rows: Range<usize>, da: *mut f64));
