//! Cumulative operations along an axis.

use crate::element::{Num, Order};
use crate::lanes::{Lanes, PARALLEL_WORK};
use half::{bf16, f16};
use rayon::prelude::*;

/// Lanes that are carried side by side: one waits for its last sum longer than four take.
const ABREAST: usize = 4;

/// Runs `some` on matching runs of whole `n * inner` blocks of the input and the output, on several threads when there is
/// enough to do. Blocks are independent.
fn for_runs<T: Sync, U: Send>(l: Lanes, x: &[T], out: &mut [U], some: impl Fn(&[T], &mut [U]) + Sync) {
    debug_assert!(x.len() == l.len() && out.len() == l.len());
    let size = l.n * l.inner;
    if size == 0 {
        return;
    }
    // Several short blocks to a task, and as many as go abreast.
    let run = (PARALLEL_WORK / 4 / size).max(if l.inner == 1 { ABREAST } else { 1 }) * size;
    if l.len() >= PARALLEL_WORK && run < l.len() {
        x.par_chunks(run).zip(out.par_chunks_mut(run)).for_each(|(x, out)| some(x, out));
    } else {
        some(x, out);
    }
}

/// The same, block by block.
fn for_blocks<T: Sync, U: Send>(l: Lanes, x: &[T], out: &mut [U], block: impl Fn(&[T], &mut [U]) + Sync) {
    let size = l.n * l.inner;
    for_runs(l, x, out, |x, out| {
        x.chunks_exact(size).zip(out.chunks_exact_mut(size)).for_each(|(x, out)| block(x, out));
    });
}

/// `out[i] = step(out[i - 1], x[i])` along the axis, carried in the accumulator type.
fn scan<T: Num>(l: Lanes, x: &[T], out: &mut [T], start: T::Acc, step: impl Fn(T::Acc, T::Acc) -> T::Acc + Sync) {
    match l.inner {
        1 => for_runs(l, x, out, |x, out| {
            let sizes = (ABREAST * l.n, x.len() / l.n % ABREAST);
            let (whole, rest) = x.split_at(x.len() - sizes.1 * l.n);
            let (out, last) = out.split_at_mut(whole.len());
            for (x, out) in whole.chunks_exact(sizes.0).zip(out.chunks_exact_mut(sizes.0)) {
                rows::<T, ABREAST>(l.n, x, out, start, &step);
            }
            match sizes.1 {
                3 => rows::<T, 3>(l.n, rest, last, start, &step),
                2 => rows::<T, 2>(l.n, rest, last, start, &step),
                1 => rows::<T, 1>(l.n, rest, last, start, &step),
                _ => {}
            }
        }),
        2 => for_blocks(l, x, out, |x, out| columns::<T, 2>(x, out, start, &step)),
        3 => for_blocks(l, x, out, |x, out| columns::<T, 3>(x, out, start, &step)),
        4 => for_blocks(l, x, out, |x, out| columns::<T, 4>(x, out, start, &step)),
        inner => for_blocks(l, x, out, |x, out| {
            let mut acc = vec![start; inner];
            for (x, out) in x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)) {
                for ((x, out), acc) in x.iter().zip(out).zip(&mut acc) {
                    *acc = step(*acc, x.widen());
                    *out = T::narrow(*acc);
                }
            }
        }),
    }
}

/// `R` lanes of `n` elements, one after the other in memory.
fn rows<T: Num, const R: usize>(
    n: usize,
    x: &[T],
    out: &mut [T],
    start: T::Acc,
    step: &impl Fn(T::Acc, T::Acc) -> T::Acc,
) {
    let xs: [&[T]; R] = std::array::from_fn(|r| &x[r * n..(r + 1) * n]);
    let mut lines = out.chunks_exact_mut(n);
    let outs: [&mut [T]; R] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let mut acc = [start; R];
    for i in 0..n {
        for r in 0..R {
            acc[r] = step(acc[r], xs[r][i].widen());
            outs[r][i] = T::narrow(acc[r]);
        }
    }
}

/// `R` lanes side by side in memory.
fn columns<T: Num, const R: usize>(x: &[T], out: &mut [T], start: T::Acc, step: &impl Fn(T::Acc, T::Acc) -> T::Acc) {
    let mut acc = [start; R];
    for (x, out) in x.as_chunks::<R>().0.iter().zip(out.as_chunks_mut::<R>().0) {
        for r in 0..R {
            acc[r] = step(acc[r], x[r].widen());
            out[r] = T::narrow(acc[r]);
        }
    }
}

/// Cumulative sum; `f32` is carried in `f64` and half precision in `f32`, integers wrap.
///
/// ```
/// use gradus_numerics::{Lanes, scan::cumsum};
/// let mut out = [0.0f32; 4];
/// cumsum(Lanes::rows(2, 2), &[1.0, 2.0, 3.0, 4.0], &mut out);
/// assert_eq!(out, [1.0, 3.0, 3.0, 7.0]);
/// ```
pub fn cumsum<T: Num>(l: Lanes, x: &[T], out: &mut [T]) {
    scan(l, x, out, T::Acc::ZERO, T::Acc::add);
}

/// Cumulative product, carried as in [`cumsum`].
pub fn cumprod<T: Num>(l: Lanes, x: &[T], out: &mut [T]) {
    scan(l, x, out, T::Acc::ONE, T::Acc::mul);
}

/// Where a cumulative extremum is: `better(new, old)` says that the new element takes over.
fn extremum<T: Order>(l: Lanes, x: &[T], indices: &mut [i64], better: impl Fn(T, T) -> bool + Sync) {
    // NaN takes over and, being compared false, stays; a later NaN moves the index.
    let step = |at: i64, new: T, (best, old): (i64, T)| {
        let takes = new.is_nan() | better(new, old);
        (if takes { at } else { best }, if takes { new } else { old })
    };
    if l.inner == 1 {
        return for_runs(l, x, indices, |x, indices| {
            let some = ABREAST * l.n;
            let (whole, rest) = x.split_at(x.len() / some * some);
            let (indices, last) = indices.split_at_mut(whole.len());
            for (x, indices) in whole.chunks_exact(some).zip(indices.chunks_exact_mut(some)) {
                extremum_rows::<T, ABREAST>(l.n, x, indices, &step);
            }
            for (x, indices) in rest.chunks_exact(l.n).zip(last.chunks_exact_mut(l.n)) {
                extremum_rows::<T, 1>(l.n, x, indices, &step);
            }
        });
    }
    for_blocks(l, x, indices, |x, indices| {
        let mut best: Vec<(i64, T)> = x[..l.inner].iter().map(|&x| (0, x)).collect();
        for ((at, x), indices) in (0..).zip(x.chunks_exact(l.inner)).zip(indices.chunks_exact_mut(l.inner)) {
            for ((&new, index), best) in x.iter().zip(indices).zip(&mut best) {
                *best = step(at, new, *best);
                *index = best.0;
            }
        }
    });
}

/// The same for `R` lanes of `n` elements, one after the other in memory.
fn extremum_rows<T: Order, const R: usize>(
    n: usize,
    x: &[T],
    indices: &mut [i64],
    step: &impl Fn(i64, T, (i64, T)) -> (i64, T),
) {
    let xs: [&[T]; R] = std::array::from_fn(|r| &x[r * n..(r + 1) * n]);
    let mut lines = indices.chunks_exact_mut(n);
    let outs: [&mut [i64]; R] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let mut best: [(i64, T); R] = std::array::from_fn(|r| (0, xs[r][0]));
    for i in 0..n {
        for r in 0..R {
            best[r] = step(i as i64, xs[r][i], best[r]);
            outs[r][i] = best[r].0;
        }
    }
}

/// Where the cumulative maximum was: the last position among equals, NaN above all.
///
/// ```
/// use gradus_numerics::{Lanes, scan::cummax};
/// let mut i = [0; 4];
/// cummax(Lanes::rows(1, 4), &[1.0, 3.0, 2.0, 3.0], &mut i);
/// assert_eq!(i, [0, 1, 1, 3]);
/// ```
pub fn cummax<T: Order>(l: Lanes, x: &[T], indices: &mut [i64]) {
    extremum(l, x, indices, |new, old| new >= old);
}

/// Where the cumulative minimum was: the last position among equals; NaN takes over.
pub fn cummin<T: Order>(l: Lanes, x: &[T], indices: &mut [i64]) {
    extremum(l, x, indices, |new, old| new <= old);
}

/// An accumulator with `log(exp(a) + exp(b))`.
pub trait LogAddExp: Num {
    /// Minus infinity.
    const LOWEST: Self;
    /// `log(exp(self) + exp(other))`, without overflow.
    fn log_add_exp(self, other: Self) -> Self;
}

macro_rules! log_add_exp {
    ($($t:ident)*) => {$(
        impl LogAddExp for $t {
            const LOWEST: Self = $t::NEG_INFINITY;
            fn log_add_exp(self, other: Self) -> Self {
                if $t::is_nan(self) || $t::is_nan(other) {
                    return $t::NAN;
                }
                let (lo, hi) = if self < other { (self, other) } else { (other, self) };
                // Two equal infinities would give NaN by their difference.
                if lo == hi && !lo.is_finite() { hi } else { hi + (lo - hi).exp().ln_1p() }
            }
        }
    )*};
}

log_add_exp!(f32 f64);

/// A floating-point type whose accumulator has [`LogAddExp`].
pub trait Float: Num<Acc: LogAddExp> {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for f16 {}
impl Float for bf16 {}

/// `log(cumsum(exp(x)))`, without overflow.
///
/// ```
/// use gradus_numerics::{Lanes, scan::logcumsumexp};
/// let mut out = [0.0f64; 2];
/// logcumsumexp(Lanes::rows(1, 2), &[1000.0, 1000.0], &mut out);
/// assert!((out[1] - 1000.0 - 2f64.ln()).abs() < 1e-12);
/// ```
pub fn logcumsumexp<T: Float>(l: Lanes, x: &[T], out: &mut [T]) {
    scan(l, x, out, T::Acc::LOWEST, T::Acc::log_add_exp);
}

#[cfg(test)]
mod tests;
