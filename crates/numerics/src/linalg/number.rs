//! What factorizations do inside of a block, for `f32` and for `f64`.

use crate::element::Real;
use crate::gemm::Tiled;
use crate::gemm::lanes::Lanes;
use crate::simd::{Isa, dispatch};
use std::any::TypeId;
use std::ops::{Div, Neg, Sub};

/// Up to this size a matrix of `f32` is factored in `f64`, which costs little there: all that is rounded to `f32` is the
/// result. Beyond it the arithmetic is that of the type, as LAPACK's is.
pub(super) const EXACT: usize = 32;

/// Matrices of up to so many rows and columns are factored number by number: they have no more than a vector has.
pub(super) const TINY: usize = 8;

/// What a row or column of a matrix costs besides its arithmetic, in operations: divisions and roots that wait for each
/// other.
pub(super) const STEP: usize = 250;

/// Whether a matrix of that size is factored in `f64`.
pub(super) fn exact<T: 'static>(size: usize) -> bool {
    TypeId::of::<T>() == TypeId::of::<f64>() || size <= EXACT
}

/// A triangle of the coefficients of some unknowns, and rows that hold the right-hand sides and then the solution:
/// `x[i] = (x[i] + sum of t[i, p] x[p]) / divisors[i]`, from the first row on, or from the last one. (With the signs of
/// the divisors turned around, that is minus the solution of the system.)
#[derive(Clone, Copy)]
pub(super) struct Substitution<T> {
    pub n: usize,
    pub t: *const T,
    /// Steps of the coefficients along their rows and columns.
    pub steps: (usize, usize),
    /// Null for ones.
    pub divisors: *const T,
    pub x: *mut T,
    pub x_row: usize,
    /// Whole vectors in a row.
    pub vectors: usize,
    pub backwards: bool,
}

/// Vectors of right-hand sides at once: as many additions as a core begins before the first has come to its end.
const WIDE: usize = 4;

#[inline(always)]
unsafe fn substitute_vectors<T: Number, S: Lanes<T>, const W: usize>(s: &Substitution<T>, from: usize) {
    // SAFETY: the caller gives `n` rows of so many vectors.
    unsafe {
        let row = |i: usize| s.x.add(i * s.x_row + from * S::LANES);
        for step in 0..s.n {
            let i = if s.backwards { s.n - 1 - step } else { step };
            let mut sums: [S::V; W] = std::array::from_fn(|w| S::load(row(i).add(w * S::LANES)));
            for p in if s.backwards { i + 1..s.n } else { 0..i } {
                let t = S::splat(*s.t.add(i * s.steps.0 + p * s.steps.1));
                let other = row(p);
                sums = std::array::from_fn(|w| S::fma(t, S::load(other.add(w * S::LANES)), sums[w]));
            }
            (0..W).for_each(|w| S::store(row(i).add(w * S::LANES), sums[w]));
            if !s.divisors.is_null() {
                let d = *s.divisors.add(i);
                std::slice::from_raw_parts_mut(row(i), W * S::LANES).iter_mut().for_each(|x| *x = *x / d);
            }
        }
    }
}

#[inline(always)]
unsafe fn any_substitute<T: Number, S: Lanes<T>>(s: &Substitution<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        for from in (0..s.vectors).step_by(WIDE) {
            match s.vectors - from {
                1 => substitute_vectors::<T, S, 1>(s, from),
                2 => substitute_vectors::<T, S, 2>(s, from),
                3 => substitute_vectors::<T, S, 3>(s, from),
                _ => substitute_vectors::<T, S, WIDE>(s, from),
            }
        }
    }
}

/// `y += factor * x` for `n` numbers.
#[inline(always)]
unsafe fn axpy<T: Number, S: Lanes<T>>(n: usize, factor: T, x: *const T, y: *mut T) {
    // SAFETY: the caller gives as many numbers.
    unsafe {
        let f = S::splat(factor);
        for i in (0..n).step_by(S::LANES) {
            let left = n - i;
            if left >= S::LANES {
                S::store(y.add(i), S::fma(f, S::load(x.add(i)), S::load(y.add(i))));
            } else {
                let sum = S::fma(f, S::load_first(x.add(i), left), S::load_first(y.add(i), left));
                S::store_first(y.add(i), sum, left);
            }
        }
    }
}

/// A square block whose upper triangle holds that of a symmetric matrix, rows of whole vectors: becomes `U` with
/// `A = Uᵀ U`. Returns the number of the first pivot that is not positive, `n` if there is none.
#[inline(always)]
unsafe fn any_cholesky<T: Number, S: Lanes<T>>(n: usize, u: *mut T, row: usize) -> usize {
    // SAFETY: the caller gives `n` rows.
    unsafe {
        for j in 0..n {
            let first = j / S::LANES * S::LANES;
            let line = u.add(j * row);
            let square = *line.add(j);
            if !is_positive(square) {
                return j;
            }
            let root = square.sqrt();
            std::slice::from_raw_parts_mut(line.add(first), n.next_multiple_of(S::LANES) - first)
                .iter_mut()
                .for_each(|x| *x = *x / root);
            // What is left of the diagonal holds nothing that counts.
            *line.add(j) = root;
            for i in j + 1..n {
                let (first, factor) = (i / S::LANES * S::LANES, -*line.add(i));
                let (factor, other) = (S::splat(factor), u.add(i * row));
                for c in (first..n).step_by(S::LANES) {
                    S::store(other.add(c), S::fma(factor, S::load(line.add(c)), S::load(other.add(c))));
                }
            }
        }
        n
    }
}

/// The place of the largest of `n` numbers, the first of equal ones. A NaN counts as large, so that it shows.
#[inline(always)]
unsafe fn largest<T: Number>(n: usize, x: *const T) -> usize {
    // SAFETY: the caller gives as many numbers.
    let x = unsafe { std::slice::from_raw_parts(x, n) };
    let (mut most, mut nan) = ([T::ZERO; 16], [false; 16]);
    let whole = x.chunks_exact(16);
    let rest = whole.remainder();
    for x in whole {
        for i in 0..16 {
            let size = x[i].abs();
            most[i] = if size > most[i] { size } else { most[i] };
            nan[i] |= size.not_a_number();
        }
    }
    let mut best = T::ZERO;
    let mut bad = nan.iter().any(|n| *n);
    for x in most.iter().chain(rest) {
        let size = x.abs();
        best = if size > best { size } else { best };
        bad |= size.not_a_number();
    }
    let found = x.iter().position(|x| if bad { x.not_a_number() } else { x.abs() == best });
    found.unwrap_or(0)
}

/// Columns of a panel, `m` long, one behind the other and `step` apart. Column `c` has its pivot in row `c`.
#[derive(Clone, Copy)]
pub(super) struct Columns<T> {
    pub p: *mut T,
    pub step: usize,
    pub m: usize,
    /// How many there are.
    pub count: usize,
}

/// `from..to` of the columns by Gaussian elimination with row exchanges, which go through all columns: what is below the
/// diagonal becomes minus the factor `L`. Earlier columns have met them already.
#[inline(always)]
unsafe fn any_eliminate<T: Number, S: Lanes<T>>(c: &Columns<T>, from: usize, to: usize, swaps: &mut [usize]) {
    // SAFETY: the caller gives the columns.
    unsafe {
        let at = |j: usize, i: usize| c.p.add(j * c.step + i);
        for (j, swap) in swaps.iter_mut().enumerate().take(to).skip(from) {
            let best = j + largest(c.m - j, at(j, j));
            *swap = best;
            if best != j {
                (0..c.count).for_each(|k| std::ptr::swap(at(k, j), at(k, best)));
            }
            let pivot = *at(j, j);
            if pivot == T::ZERO {
                continue;
            }
            let below = c.m - j - 1;
            std::slice::from_raw_parts_mut(at(j, j + 1), below).iter_mut().for_each(|x| *x = -(*x / pivot));
            for k in j + 1..to {
                axpy::<T, S>(below, *at(k, j), at(j, j + 1), at(k, j + 1));
            }
        }
    }
}

/// What earlier columns `from..until` do to the rows of their pivots in columns `until..to`.
#[inline(always)]
unsafe fn any_carry<T: Number, S: Lanes<T>>(c: &Columns<T>, from: usize, until: usize, to: usize) {
    // SAFETY: the caller gives the columns.
    unsafe {
        let at = |j: usize, i: usize| c.p.add(j * c.step + i);
        for k in until..to {
            for j in from..until {
                axpy::<T, S>(until - j - 1, *at(k, j), at(j, j + 1), at(k, j + 1));
            }
        }
    }
}

#[inline(always)]
unsafe fn any_negate<T: Number, S: Lanes<T>>(rows: usize, n: usize, x: *mut T, row: usize) {
    for i in 0..rows {
        // SAFETY: the caller gives the rows.
        unsafe { std::slice::from_raw_parts_mut(x.add(i * row), n) }.iter_mut().for_each(|x| *x = -*x);
    }
}

/// A number that matrices are factored in. All functions are safe to call where the pointers they get are good for what
/// they stand for, of which nobody else uses what is written.
pub(super) trait Number: Tiled + Real + Neg<Output = Self> + Sub<Output = Self> + Div<Output = Self> {
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn not_a_number(self) -> bool;
    unsafe fn substitute(isa: Isa, s: &Substitution<Self>);
    /// Positive definite; see [`any_cholesky`].
    unsafe fn cholesky(isa: Isa, n: usize, u: *mut Self, row: usize) -> usize;
    unsafe fn eliminate(isa: Isa, c: &Columns<Self>, from: usize, to: usize, swaps: &mut [usize]);
    unsafe fn carry(isa: Isa, c: &Columns<Self>, from: usize, until: usize, to: usize);
    unsafe fn negate(isa: Isa, rows: usize, n: usize, x: *mut Self, row: usize);
}

macro_rules! number {
    ($t:ident, $module:ident) => {
        mod $module {
            use super::*;

            #[inline(always)]
            unsafe fn substitute_body<S: Lanes<$t>>(s: &Substitution<$t>) {
                // SAFETY: the caller's promise, here and below.
                unsafe { any_substitute::<$t, S>(s) }
            }
            dispatch!(pub(super) unsafe fn substitute = substitute_body(s: &Substitution<$t>));

            #[inline(always)]
            unsafe fn cholesky_body<S: Lanes<$t>>(n: usize, u: *mut $t, row: usize, pivot: &mut usize) {
                // SAFETY: as above.
                *pivot = unsafe { any_cholesky::<$t, S>(n, u, row) };
            }
            dispatch!(pub(super) unsafe fn cholesky = cholesky_body(n: usize, u: *mut $t, row: usize, pivot: &mut usize));

            #[inline(always)]
            unsafe fn eliminate_body<S: Lanes<$t>>(c: &Columns<$t>, from: usize, to: usize, swaps: &mut [usize]) {
                // SAFETY: as above.
                unsafe { any_eliminate::<$t, S>(c, from, to, swaps) }
            }
            dispatch!(pub(super) unsafe fn eliminate = eliminate_body(c: &Columns<$t>, from: usize, to: usize, swaps: &mut [usize]));

            #[inline(always)]
            unsafe fn carry_body<S: Lanes<$t>>(c: &Columns<$t>, from: usize, until: usize, to: usize) {
                // SAFETY: as above.
                unsafe { any_carry::<$t, S>(c, from, until, to) }
            }
            dispatch!(pub(super) unsafe fn carry = carry_body(c: &Columns<$t>, from: usize, until: usize, to: usize));

            #[inline(always)]
            unsafe fn negate_body<S: Lanes<$t>>(rows: usize, n: usize, x: *mut $t, row: usize) {
                // SAFETY: as above.
                unsafe { any_negate::<$t, S>(rows, n, x, row) }
            }
            dispatch!(pub(super) unsafe fn negate = negate_body(rows: usize, n: usize, x: *mut $t, row: usize));
        }

        impl Number for $t {
            #[inline(always)]
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn not_a_number(self) -> bool {
                $t::is_nan(self)
            }
            unsafe fn substitute(isa: Isa, s: &Substitution<$t>) {
                // SAFETY: the caller's promise, here and below.
                unsafe { $module::substitute(isa, s) }
            }
            unsafe fn cholesky(isa: Isa, n: usize, u: *mut $t, row: usize) -> usize {
                let mut pivot = n;
                // SAFETY: as above.
                unsafe { $module::cholesky(isa, n, u, row, &mut pivot) };
                pivot
            }
            unsafe fn eliminate(isa: Isa, c: &Columns<$t>, from: usize, to: usize, swaps: &mut [usize]) {
                // SAFETY: as above.
                unsafe { $module::eliminate(isa, c, from, to, swaps) }
            }
            unsafe fn carry(isa: Isa, c: &Columns<$t>, from: usize, until: usize, to: usize) {
                // SAFETY: as above.
                unsafe { $module::carry(isa, c, from, until, to) }
            }
            unsafe fn negate(isa: Isa, rows: usize, n: usize, x: *mut $t, row: usize) {
                // SAFETY: as above.
                unsafe { $module::negate(isa, rows, n, x, row) }
            }
        }
    };
}

number!(f32, singles);
number!(f64, doubles);

/// Whether a number is finite and above zero; a NaN is not.
#[inline(always)]
pub(super) fn is_positive<W: Number>(x: W) -> bool {
    x > W::ZERO && x.to_f64().is_finite()
}
