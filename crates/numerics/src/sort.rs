//! Sorting, order statistics and searching along an axis.
//!
//! The order is that of [`Order`]: NaN is greater than everything, so it comes last ascending
//! and first descending. Among equal elements the earlier one comes first in both directions.

use crate::element::Order;
use crate::lanes::{Lanes, PARALLEL_WORK};
use crate::tasks::{Shared, for_chunks, for_tasks};
use crate::transpose::Transposition;
use items::{Item, Items};
pub(crate) use items::{all, sorted};

mod items;
pub(crate) mod packed;
mod select;
mod short;
mod top;

/// Lanes that lie side by side and are copied out together: a line of the cache has as many.
const WIDE: usize = 16;
/// So many edges are compared with every value; among more the place is searched.
const FEW_EDGES: usize = 32;

/// Fills `out`, whose lanes have length `m`, one lane at a time: `lane` gets the values of the
/// input lane, memory for items, and the `m` outputs to write. `work` is that of one lane.
fn for_lanes<T: Order>(
    l: Lanes,
    m: usize,
    x: &[T],
    out: &mut [i64],
    work: usize,
    lane: impl Fn(&[T], &mut Items, &mut [i64]) + Sync + Send,
) {
    assert!(x.len() == l.len() && out.len() == l.outer * m * l.inner, "sizes of lanes");
    // Positions are kept in 32 bits; a longer lane would need more than 64 GiB for its items.
    assert!(l.n <= u32::MAX as usize, "sorting more than 2^32 - 1 elements along one axis");
    if l.count() == 0 || m == 0 || l.n == 0 {
        return;
    }
    let parallel = work.saturating_mul(l.count()) >= PARALLEL_WORK;
    if l.inner == 1 {
        let together = (PARALLEL_WORK / 4 / work.max(1)).max(1);
        return for_chunks(out, m * together, 1, parallel, |(t, out)| {
            let mut items = Items::default();
            for (x, out) in x[t * together * l.n..].chunks_exact(l.n).zip(out.chunks_exact_mut(m)) {
                lane(x, &mut items, out);
            }
        });
    }
    let across = l.inner.div_ceil(WIDE);
    let out = Shared::new(out);
    for_tasks(l.outer * across, parallel, |t| {
        let (o, from) = (t / across, t % across * WIDE);
        let wide = WIDE.min(l.inner - from);
        let (mut values, mut items, mut result) = (vec![x[0]; wide * l.n], Items::default(), vec![0; m]);
        let turn = Transposition { rows: wide, columns: l.n, from: l.inner as isize, to: l.n as isize };
        // SAFETY: the length of the input was asserted, and there is room for so many lanes.
        unsafe { turn.run(x[o * l.n * l.inner + from..].as_ptr(), values.as_mut_ptr(), false) };
        for (j, values) in values.chunks_exact(l.n).enumerate() {
            lane(values, &mut items, &mut result);
            for (i, r) in result.iter().enumerate() {
                // SAFETY: inside, as the length was asserted; tasks have lanes of their own.
                unsafe { *out.ptr().add((o * m + i) * l.inner + from + j) = *r };
            }
        }
    });
}

/// Writes the positions of items.
fn positions(items: &[Item], out: &mut [i64]) {
    out.iter_mut().zip(items).for_each(|(o, item)| *o = i64::from(item.1));
}

fn sort_work(n: usize) -> usize {
    n * (n.max(2).ilog2() as usize) * 2
}

/// The positions along the axis in sorted order; stable.
///
/// ```
/// use gradus_numerics::{Lanes, sort::argsort};
/// let mut out = [0; 4];
/// argsort(Lanes::rows(1, 4), &[2.0, f32::NAN, 1.0, 2.0], false, &mut out);
/// assert_eq!(out, [2, 0, 3, 1]);
/// ```
pub fn argsort<T: Order>(l: Lanes, x: &[T], descending: bool, out: &mut [i64]) {
    if l.n <= packed::FEW && l.count() > 1 {
        return short::sort(l, l.n, x, descending, out);
    }
    for_lanes(l, l.n, x, out, sort_work(l.n), |x, items, out| {
        if !items.argsort(x, descending, out) {
            all(x, descending, &mut items.wide);
            positions(sorted(&mut items.wide), out);
        }
    });
}

/// The positions of the `k` largest (or smallest) elements of each lane, in sorted order.
///
/// `out` has lanes of length `k`, `k <= n`.
///
/// ```
/// use gradus_numerics::{Lanes, sort::topk};
/// let mut out = [0; 2];
/// topk(Lanes::rows(1, 4), &[3, 9, 1, 9], 2, true, &mut out);
/// assert_eq!(out, [1, 3]);
/// ```
pub fn topk<T: Order>(l: Lanes, x: &[T], k: usize, largest: bool, out: &mut [i64]) {
    debug_assert!(k <= l.n);
    if l.n <= packed::FEW {
        return short::sort(l, k, x, largest, out);
    }
    for_lanes(l, k, x, out, l.n + sort_work(k), |x, items, out| {
        if k <= top::MOST {
            return top::first(x, if largest { u64::MAX } else { 0 }, out);
        }
        let items = &mut items.wide;
        if largest {
            first(x.iter().map(|x| !x.key()), k, items);
        } else {
            first(x.iter().map(|x| x.key()), k, items);
        }
        positions(items, out);
    });
}

/// The `k > 0` items of least keys, in order, of which there are at least so many.
///
/// Those that may be among them are collected. Once they are several times as many as wanted, the
/// rest is left out, and what comes later has to be less than the greatest that stays: most
/// elements are compared to that alone.
fn first(keys: impl Iterator<Item = u64>, k: usize, items: &mut Vec<Item>) {
    let room = (4 * k).max(32);
    items.clear();
    // Whether everything is taken, or only what is less than this.
    let mut limit: Option<u64> = None;
    for (i, key) in keys.enumerate() {
        if limit.is_some_and(|limit| key >= limit) {
            continue;
        }
        items.push((key, i as u32));
        if items.len() == room {
            limit = Some(items.select_nth_unstable(k - 1).1.0);
            items.truncate(k);
        }
    }
    if k < items.len() {
        items.select_nth_unstable(k - 1);
        items.truncate(k);
    }
    items.sort_unstable();
}

/// The position of the `k`-th smallest element of each lane, counting from one.
///
/// ```
/// use gradus_numerics::{Lanes, sort::kthvalue};
/// let mut out = [0];
/// kthvalue(Lanes::rows(1, 3), &[5, 1, 3], 2, &mut out);
/// assert_eq!(out, [2]);
/// ```
pub fn kthvalue<T: Order>(l: Lanes, x: &[T], k: usize, out: &mut [i64]) {
    debug_assert!(1 <= k && k <= l.n);
    for_lanes(l, 1, x, out, l.n * 4, |x, items, out| out[0] = items.select(x, k - 1));
}

/// The position of the median of each lane, the lower of two.
///
/// A lane with a NaN has it for its median (the first one), unless `ignore_nan`: then the median
/// is that of the other elements, and NaN only where there are none. Lanes are not empty.
///
/// ```
/// use gradus_numerics::{Lanes, sort::median};
/// let mut out = [0];
/// median(Lanes::rows(1, 4), &[4.0, 1.0, 3.0, 2.0], false, &mut out);
/// assert_eq!(out, [3]);
/// ```
pub fn median<T: Order>(l: Lanes, x: &[T], ignore_nan: bool, out: &mut [i64]) {
    debug_assert!(l.n > 0);
    for_lanes(l, 1, x, out, l.n * 4, |x, items, out| {
        let nans = select::nans(x);
        let first = if nans > 0 && !ignore_nan { x.iter().position(|x| x.is_nan()) } else { None };
        out[0] = match first {
            Some(i) => i as i64,
            None => items.select(x, (x.len() - nans).saturating_sub(1) / 2),
        };
    });
}

/// `0..n` in random order, from as many numbers from 0 to 1, 1 excluded, that are equally likely and independent.
///
/// ```
/// let mut out = [0; 4];
/// gradus_numerics::sort::shuffled(&[0.0, 0.6, 0.1, 0.8], &mut out);
/// assert_eq!(out, [2, 1, 0, 3]);
/// ```
pub fn shuffled(u: &[f64], out: &mut [i64]) {
    assert_eq!(u.len(), out.len(), "a number for each position");
    for (i, u) in u.iter().enumerate() {
        // Each goes to one of the places so far, and what stood there to the new one.
        let j = ((u * (i + 1) as f64) as usize).min(i);
        out[i] = out[j];
        out[j] = i as i64;
    }
}

/// The position of the mode of each lane: of the most frequent values the smallest, and of its
/// occurrences the last. Lanes are not empty. NaNs are all different.
///
/// ```
/// use gradus_numerics::{Lanes, sort::mode};
/// let mut out = [0];
/// mode(Lanes::rows(1, 5), &[2, 1, 2, 1, 3], &mut out);
/// assert_eq!(out, [3]);
/// ```
pub fn mode<T: Order>(l: Lanes, x: &[T], out: &mut [i64]) {
    debug_assert!(l.n > 0);
    for_lanes(l, 1, x, out, sort_work(l.n), |x, items, out| {
        let items = &mut items.wide;
        all(x, false, items);
        items.sort_unstable();
        let value = |item: &Item| x[item.1 as usize];
        let (mut best, mut run) = (0, 0);
        for (p, item) in items.iter().enumerate() {
            run = if p > 0 && value(item) == value(&items[p - 1]) { run + 1 } else { 1 };
            let ends = items.get(p + 1).is_none_or(|next| value(next) != value(item));
            if ends && run > best {
                (best, out[0]) = (run, i64::from(item.1));
            }
        }
    });
}

/// For each value the position where it would be inserted to keep its row sorted.
///
/// `sorted` is either one row of `n` for all values, or as many rows as `values` has. `right`
/// inserts after equal elements, else before. A NaN goes to the end.
///
/// ```
/// use gradus_numerics::{Lanes, sort::searchsorted};
/// let mut out = [0; 3];
/// searchsorted(Lanes::rows(1, 3), &[1, 3, 5], Lanes::rows(1, 3), &[0, 3, 6], false, &mut out);
/// assert_eq!(out, [0, 1, 3]);
/// ```
pub fn searchsorted<T: Order>(rows: Lanes, sorted: &[T], l: Lanes, values: &[T], right: bool, out: &mut [i64]) {
    debug_assert!(rows.inner == 1 && l.inner == 1 && (rows.outer == 1 || rows.outer == l.outer));
    debug_assert!(values.len() == l.len() && out.len() == l.len());
    // Few edges are all compared. A row in order has no NaN.
    if rows.outer == 1 && rows.n <= FEW_EDGES && sorted.is_sorted() {
        let chunk = PARALLEL_WORK / 16;
        return for_chunks(out, chunk, 1, out.len() >= PARALLEL_WORK / 16, |(c, out)| {
            let values = &values[c * chunk..][..out.len()];
            // What does not compare, a NaN, comes before none.
            if right {
                count_edges(sorted, values, out, |v, e| v < e);
            } else {
                count_edges(sorted, values, out, |v, e| v <= e);
            }
        });
    }
    let find = |p: usize| {
        let row = if rows.outer == 1 { 0 } else { p / l.n };
        let row = &sorted[row * rows.n..][..rows.n];
        let v = values[p];
        // Written as negations: what does not compare (NaN on either side) is passed over.
        #[allow(clippy::neg_cmp_op_on_partial_ord)]
        let at = row.partition_point(|s| if right { !(*s > v) } else { !(*s >= v) });
        at as i64
    };
    if out.len() >= PARALLEL_WORK / 16 {
        for_chunks(out, 1024, 1, true, |(c, out)| {
            out.iter_mut().enumerate().for_each(|(i, o)| *o = find(c * 1024 + i));
        });
    } else {
        out.iter_mut().enumerate().for_each(|(p, o)| *o = find(p));
    }
}

/// For each value how many edges it does not come before, as `before(value, edge)` says.
fn count_edges<T: Order>(edges: &[T], values: &[T], out: &mut [i64], before: impl Fn(T, T) -> bool) {
    #[inline(always)]
    fn all<T: Order>(edges: &[T], values: &[T], out: &mut [i64], before: impl Fn(T, T) -> bool) {
        for (values, out) in values.chunks(WIDE).zip(out.chunks_mut(WIDE)) {
            let mut some = [values[0]; WIDE];
            some[..values.len()].copy_from_slice(values);
            let mut count = [0u32; WIDE];
            for &e in edges {
                for i in 0..WIDE {
                    count[i] += u32::from(!before(some[i], e));
                }
            }
            out.iter_mut().zip(count).for_each(|(o, c)| *o = i64::from(c));
        }
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Order>(edges: &[T], values: &[T], out: &mut [i64], before: impl Fn(T, T) -> bool) {
            all(edges, values, out, before);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(edges, values, out, before) };
    }
    all(edges, values, out, before);
}

#[cfg(test)]
mod tests;
