//! Cumulative operations along an axis.

mod cascade;
mod columns;
mod extremum;
mod long;
mod rows;

use crate::element::Num;
use crate::lanes::{Lanes, PARALLEL_WORK};
use crate::tasks::for_chunks;
pub use cascade::cascade;
use half::{bf16, f16};

/// Runs `some` on matching runs of whole `n * inner` blocks of the input and the output, on several threads when there is
/// enough to do. Blocks are independent.
fn for_runs<T: Sync, U: Send>(l: Lanes, x: &[T], out: &mut [U], some: impl Fn(&[T], &mut [U]) + Sync) {
    debug_assert!(x.len() == l.len() && out.len() == l.len());
    let size = l.n * l.inner;
    if size == 0 {
        return;
    }
    // Several short blocks to a task, and rows by as many as go side by side, where that leaves all threads some.
    let least = PARALLEL_WORK / 4 / size;
    let run = match l.inner {
        1 if l.outer >= 2 * rows::SIDE * rayon::current_num_threads() => {
            least.next_multiple_of(rows::SIDE).max(rows::SIDE)
        }
        1 => least.max(l.outer.div_ceil(rayon::current_num_threads())),
        _ => least.max(1),
    } * size;
    if l.len() >= PARALLEL_WORK && run < l.len() {
        for_chunks(out, run, 1, true, |(i, out)| some(&x[i * run..][..out.len()], out));
    } else {
        some(x, out);
    }
}

/// The same, block by block, with what is made once for a run of them.
fn for_blocks<T: Sync, U: Send, W>(
    l: Lanes,
    x: &[T],
    out: &mut [U],
    with: impl Fn() -> W + Sync,
    block: impl Fn(&[T], &mut [U], &mut W) + Sync,
) {
    let size = l.n * l.inner;
    for_runs(l, x, out, |x, out| {
        let mut with = with();
        x.chunks_exact(size).zip(out.chunks_exact_mut(size)).for_each(|(x, out)| block(x, out, &mut with));
    });
}

/// Elements that are looked at at once for one that takes over: running extrema seldom change.
const IDLE: usize = 32;

/// How the elements of a lane are carried on.
trait Carry: Sync {
    /// The elements.
    type E: Copy + Send + Sync;
    /// What is carried.
    type A: Copy + Send + Sync;
    /// Before the first element.
    fn start(&self) -> Self::A;
    /// What is carried after one more.
    fn after(&self, acc: Self::A, x: Self::E) -> Self::A;
    /// The result at the place of the last.
    fn result(acc: Self::A) -> Self::E;
    /// Whether a step takes less than to turn its row into a lane of vectors, one element at a time.
    fn cheap(&self) -> bool;
    /// Whether what is carried through some elements can be joined to what was carried before them.
    fn joins(&self) -> bool {
        false
    }
    /// Whether a step waits several cycles for the one before it.
    fn waits(&self) -> bool {
        true
    }
    /// Both together.
    fn join(&self, before: Self::A, here: Self::A) -> Self::A;
    /// Whether [`Carry::idle`] is worth asking.
    const LASTING: bool = false;
    /// Whether none of these elements changes what is carried, and so all results are alike.
    #[inline(always)]
    fn idle(&self, _acc: Self::A, _x: &[Self::E; IDLE]) -> bool {
        false
    }
    /// Both.
    #[inline(always)]
    fn next(&self, acc: Self::A, x: Self::E) -> (Self::A, Self::E) {
        let acc = self.after(acc, x);
        (acc, Self::result(acc))
    }
}

/// What a scan does a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Adds: parts of a row can be added up apart.
    Sum,
    /// Multiplies: parts by themselves may be too large where the row is not.
    Product,
    /// Takes long.
    Costly,
}

/// Elements of a type carried in its accumulator type.
struct Widened<T: Num, F>(T::Acc, F, Step);

/// Whether numbers of a type are integers: the largest is followed by the least.
fn wraps<A: Num>() -> bool {
    A::HIGHEST.add(A::ONE) == A::LOWEST
}

impl<T: Num, F: Fn(T::Acc, T::Acc) -> T::Acc + Sync> Carry for Widened<T, F> {
    type E = T;
    type A = T::Acc;
    #[inline(always)]
    fn start(&self) -> T::Acc {
        self.0
    }
    #[inline(always)]
    fn after(&self, acc: T::Acc, x: T) -> T::Acc {
        self.1(acc, x.widen())
    }
    #[inline(always)]
    fn result(acc: T::Acc) -> T {
        T::narrow(acc)
    }
    fn cheap(&self) -> bool {
        self.2 != Step::Costly
    }
    fn joins(&self) -> bool {
        self.2 == Step::Sum
    }
    fn waits(&self) -> bool {
        !wraps::<T::Acc>()
    }
    #[inline(always)]
    fn join(&self, before: Self::A, here: Self::A) -> Self::A {
        self.1(before, here)
    }
}

/// Elements that are carried as they are.
struct Same<A, F>(A, F, Step);

impl<A: Num, F: Fn(A, A) -> A + Sync> Carry for Same<A, F> {
    type E = A;
    type A = A;
    #[inline(always)]
    fn start(&self) -> A {
        self.0
    }
    #[inline(always)]
    fn after(&self, acc: A, x: A) -> A {
        self.1(acc, x)
    }
    #[inline(always)]
    fn result(acc: A) -> A {
        acc
    }
    fn cheap(&self) -> bool {
        self.2 != Step::Costly
    }
    fn joins(&self) -> bool {
        self.2 == Step::Sum
    }
    fn waits(&self) -> bool {
        !wraps::<A>()
    }
    #[inline(always)]
    fn join(&self, before: Self::A, here: Self::A) -> Self::A {
        self.1(before, here)
    }
}

/// `out[i] = step(out[i - 1], x[i])` along the axis, carried in the accumulator type.
fn scan<T: Num>(
    l: Lanes,
    x: &[T],
    out: &mut [T],
    start: T::Acc,
    step: impl Fn(T::Acc, T::Acc) -> T::Acc + Sync,
    kind: Step,
) {
    carried(l, x, out, &Widened::<T, _>(start, &step, kind), &Same(start, &step, kind));
}

/// The same, carried as `each` says, or as `wide` says where elements are widened in blocks.
fn carried<T: Num>(l: Lanes, x: &[T], out: &mut [T], each: &impl Carry<E = T>, wide: &impl Carry<E = T::Acc>) {
    // Along an axis of one element all lanes are rows.
    let l = if l.n == 1 { Lanes::rows(l.count(), 1) } else { l };
    if l.inner == 1 {
        if long::suits(each, l) {
            return if T::IN_BLOCKS { long::rows_in_blocks(wide, l.n, x, out) } else { long::rows(each, l.n, x, out) };
        }
        return for_runs(l, x, out, |x, out| {
            if T::IN_BLOCKS { rows::rows_in_blocks(wide, l.n, x, out) } else { rows::rows(each, l.n, x, out) }
        });
    }
    if T::IN_BLOCKS {
        let with = |width: usize| (vec![wide.start(); width], vec![]);
        let by_parts = columns::by_parts(l, x, out, |rows, width| {
            let (mut acc, mut room) = with(width);
            rows.for_each(|(x, out)| columns::columns_in_blocks(wide, width, x, out, &mut acc, &mut room));
        });
        if !by_parts {
            for_blocks(
                l,
                x,
                out,
                || with(l.inner),
                |x, out, (acc, room)| {
                    acc.fill(wide.start());
                    columns::columns_in_blocks(wide, l.inner, x, out, acc, room);
                },
            );
        }
        return;
    }
    let by_parts = columns::by_parts(l, x, out, |rows, width| {
        let mut acc = vec![each.start(); width];
        rows.for_each(|(x, out)| columns::columns(each, width, x, out, &mut acc));
    });
    if !by_parts {
        for_blocks(
            l,
            x,
            out,
            || vec![each.start(); l.inner],
            |x, out, acc| {
                acc.fill(each.start());
                columns::columns(each, l.inner, x, out, acc);
            },
        );
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
    scan(l, x, out, T::Acc::ZERO, T::Acc::add, Step::Sum);
}

/// Cumulative product, carried as in [`cumsum`].
pub fn cumprod<T: Num>(l: Lanes, x: &[T], out: &mut [T]) {
    scan(l, x, out, T::Acc::ONE, T::Acc::mul, Step::Product);
}

/// The largest so far, or the smallest; NaN takes over and, being compared false, stays.
struct Extreme<E, const LARGEST: bool>(E);

impl<E: Num, const LARGEST: bool> Extreme<E, LARGEST> {
    #[inline(always)]
    fn takes(new: E, old: E) -> bool {
        new.is_nan() | if LARGEST { new >= old } else { new <= old }
    }
}

impl<E: Num, const LARGEST: bool> Carry for Extreme<E, LARGEST> {
    type E = E;
    type A = E;
    const LASTING: bool = true;
    #[inline(always)]
    fn start(&self) -> E {
        self.0
    }
    #[inline(always)]
    fn after(&self, acc: E, x: E) -> E {
        if Self::takes(x, acc) { x } else { acc }
    }
    #[inline(always)]
    fn result(acc: E) -> E {
        acc
    }
    fn cheap(&self) -> bool {
        true
    }
    #[inline(always)]
    fn join(&self, before: E, here: E) -> E {
        self.after(before, here)
    }
    #[inline(always)]
    fn idle(&self, acc: E, x: &[E; IDLE]) -> bool {
        !x.iter().fold(false, |any, &x| any | Self::takes(x, acc))
    }
}

/// Cumulative maximum; NaN takes over.
///
/// ```
/// use gradus_numerics::{Lanes, scan::running_max};
/// let mut out = [0.0; 4];
/// running_max(Lanes::rows(1, 4), &[1.0, 3.0, 2.0, 4.0], &mut out);
/// assert_eq!(out, [1.0, 3.0, 3.0, 4.0]);
/// ```
pub fn running_max<T: Num>(l: Lanes, x: &[T], out: &mut [T]) {
    carried(l, x, out, &Extreme::<T, true>(T::LOWEST), &Extreme::<T::Acc, true>(T::Acc::LOWEST));
}

/// Cumulative minimum; NaN takes over.
pub fn running_min<T: Num>(l: Lanes, x: &[T], out: &mut [T]) {
    carried(l, x, out, &Extreme::<T, false>(T::HIGHEST), &Extreme::<T::Acc, false>(T::Acc::HIGHEST));
}

/// Where the cumulative maximum was: the last position among equals, NaN above all.
///
/// ```
/// use gradus_numerics::{Lanes, scan::cummax};
/// let mut i = [0; 4];
/// cummax(Lanes::rows(1, 4), &[1.0, 3.0, 2.0, 3.0], &mut i);
/// assert_eq!(i, [0, 1, 1, 3]);
/// ```
pub fn cummax<T: Num>(l: Lanes, x: &[T], indices: &mut [i64]) {
    extremum::extremum(l, x, indices, |new, old| new >= old, |new, old| new >= old);
}

/// Where the cumulative minimum was: the last position among equals; NaN takes over.
pub fn cummin<T: Num>(l: Lanes, x: &[T], indices: &mut [i64]) {
    extremum::extremum(l, x, indices, |new, old| new <= old, |new, old| new <= old);
}

/// An accumulator with `log(exp(a) + exp(b))`.
pub trait LogAddExp: Num {
    /// `log(exp(self) + exp(other))`, without overflow.
    fn log_add_exp(self, other: Self) -> Self;
}

macro_rules! log_add_exp {
    ($($t:ident)*) => {$(
        impl LogAddExp for $t {
            #[inline(always)]
            fn log_add_exp(self, other: Self) -> Self {
                // Without branches, so that lanes side by side go into a vector.
                gradus_math::$t::logaddexp(self, other)
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
    scan(l, x, out, T::Acc::LOWEST, T::Acc::log_add_exp, Step::Costly);
}

#[cfg(test)]
mod tests;
