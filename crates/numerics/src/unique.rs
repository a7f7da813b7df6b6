//! Distinct values and rows, and histograms.

use crate::element::Order;
use crate::lanes::PARALLEL_WORK;
use crate::sort::packed::{self, Packing};
use crate::tasks::{Shared, for_chunks, for_tasks};
use std::cmp::Ordering;

/// The groups of equal items in a sequence.
///
/// `first[g]` is the position of a representative of group `g`, `inverse[p]` the group of
/// position `p`, `counts[g]` the size of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The earliest position of each group.
    pub first: Vec<usize>,
    /// The group of each position.
    pub inverse: Vec<i64>,
    /// The number of items in each group.
    pub counts: Vec<i64>,
}

impl Groups {
    /// Groups the neighbours that are the `same` in a sequence of things which have positions.
    fn of<I: Copy>(
        order: impl ExactSizeIterator<Item = I>,
        same: impl Fn(I, I) -> bool,
        position: impl Fn(I) -> usize,
    ) -> Self {
        let mut g = Groups { inverse: vec![0; order.len()], ..Groups::default() };
        let mut previous = None;
        for i in order {
            let p = position(i);
            match (previous, g.counts.last_mut()) {
                (Some(q), Some(count)) if same(q, i) => *count += 1,
                _ => {
                    g.first.push(p);
                    g.counts.push(1);
                }
            }
            g.inverse[p] = g.first.len() as i64 - 1;
            previous = Some(i);
        }
        g
    }

    /// The distinct values, given the sequence.
    pub fn values<T: Copy>(&self, x: &[T]) -> Vec<T> {
        self.first.iter().map(|&p| x[p]).collect()
    }
}

/// The distinct values in ascending order. Every NaN is distinct from the others.
///
/// ```
/// use gradus_numerics::unique::unique;
/// let x = [3, 1, 3];
/// let g = unique(&x);
/// assert_eq!((g.values(&x), g.inverse, g.counts), (vec![1, 3], vec![1, 0, 1], vec![1, 2]));
/// ```
pub fn unique<T: Order>(x: &[T]) -> Groups {
    unique_rows(x, x.len(), 1)
}

/// The distinct rows of a `rows` by `cols` matrix, in lexicographic order.
pub fn unique_rows<T: Order>(x: &[T], rows: usize, cols: usize) -> Groups {
    debug_assert_eq!(x.len(), rows * cols);
    if cols == 1 && rows <= u32::MAX as usize {
        return unique_values(x);
    }
    let row = |r: usize| &x[r * cols..][..cols];
    let compare =
        |a: &[T], b: &[T]| a.iter().zip(b).map(|(a, b)| a.order(b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal);
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|&a, &b| compare(row(a), row(b)));
    Groups::of(order.into_iter(), |a, b| row(a) == row(b), |p| p)
}

/// The distinct values of a sequence whose positions fit into 32 bits.
fn unique_values<T: Order>(x: &[T]) -> Groups {
    let keys = x.iter().fold((u64::MAX, 0), |(a, b), x| (x.key().min(a), x.key().max(b)));
    let range = keys.1.saturating_sub(keys.0);
    if x.len() >= 64 && range / 4 <= x.len() as u64 && !x.iter().any(|x| x.is_nan()) {
        return counted(x, keys.0, range as usize + 1);
    }
    match Packing::of(x, false) {
        Some(how) if x.len() >= PARALLEL_WORK => {
            let mut room = crate::scratch::take(4 * x.len());
            packed::sorted_all(x, how, &mut room, |items| {
                let nan = |p: usize| x[p].is_nan();
                let same = |a: u64, b: u64| how.key(a) == how.key(b) && !nan(how.position(a));
                Groups::of(items.iter().copied(), same, |item| how.position(item))
            })
        }
        _ => {
            let mut items = vec![];
            crate::sort::all(x, false, &mut items);
            let order = crate::sort::sorted(&mut items);
            Groups::of(order.iter().map(|i| i.1 as usize), |a, b| x[a] == x[b], |p| p)
        }
    }
}

/// The distinct values of a sequence whose keys are `least` and the next few: they are counted.
fn counted<T: Order>(x: &[T], least: u64, range: usize) -> Groups {
    let place = |x: &T| (x.key() - least) as usize;
    // The first position of each key, and how often it occurs.
    let mut table = vec![(u32::MAX, 0u32); range];
    for (x, p) in x.iter().zip(0u32..) {
        let entry = &mut table[place(x)];
        *entry = (entry.0.min(p), entry.1 + 1);
    }
    let mut g = Groups::default();
    for entry in table.iter_mut().filter(|e| e.1 > 0) {
        g.first.push(entry.0 as usize);
        g.counts.push(i64::from(entry.1));
        entry.0 = g.counts.len() as u32 - 1;
    }
    g.inverse = vec![0; x.len()];
    let part = PARALLEL_WORK / 4;
    for_chunks(&mut g.inverse, part, 1, x.len() >= PARALLEL_WORK, |(c, inverse)| {
        inverse.iter_mut().zip(&x[c * part..]).for_each(|(i, x)| *i = i64::from(table[place(x)].0));
    });
    g
}

/// Which rows of a matrix with rows of `cols` elements are not the same as the row before; the first is none's.
///
/// ```
/// let mut new = [false; 4];
/// gradus_numerics::unique::new_rows(&[3, 3, 1, 3], 1, &mut new);
/// assert_eq!(new, [true, false, true, true]);
/// ```
pub fn new_rows<T: Order>(x: &[T], cols: usize, new: &mut [bool]) {
    assert_eq!(x.len(), new.len() * cols, "a mark for each row");
    let part = (PARALLEL_WORK / 8 / cols.max(1)).max(1);
    for_chunks(new, part, 1, x.len() >= PARALLEL_WORK / 4, |(c, new)| {
        let from = c * part;
        let (skip, rows) = (usize::from(c == 0), new.len());
        new[..skip.min(rows)].fill(true);
        let before = &x[(from + skip - 1) * cols..(from + rows - 1) * cols];
        let these = &x[(from + skip) * cols..(from + rows) * cols];
        if cols == 1 {
            differ(before, these, &mut new[skip..]);
        } else {
            let rows = before.chunks_exact(cols).zip(these.chunks_exact(cols));
            new[skip..].iter_mut().zip(rows).for_each(|(new, (a, b))| *new = a != b);
        }
    });
}

/// Where two sequences are not the same.
fn differ<T: Order>(a: &[T], b: &[T], out: &mut [bool]) {
    #[inline(always)]
    fn all<T: Order>(a: &[T], b: &[T], out: &mut [bool]) {
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a != b);
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Order>(a: &[T], b: &[T], out: &mut [bool]) {
            all(a, b, out);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(a, b, out) };
    }
    all(a, b, out);
}

/// How many elements fall into each of `bins` equal parts of `[min, max]`; the last is closed.
///
/// Equal bounds mean the least and greatest element (widened by one each way if those are equal
/// too). Elements outside and NaN are not counted. `None` if the bounds are not finite, are out
/// of order, or `bins` is zero.
///
/// ```
/// use gradus_numerics::unique::histc;
/// assert_eq!(histc(&[1.0, 2.0, 1.0], 4, 0.0, 3.0), Some(vec![0.0, 2.0, 1.0, 0.0]));
/// ```
pub fn histc<T: Order>(x: &[T], bins: usize, min: f64, max: f64) -> Option<Vec<f64>> {
    let (mut min, mut max) = (min, max);
    if min == max && !x.is_empty() {
        // A NaN must not slip through `f64::min`: it makes the bounds invalid.
        let fold = |pick: fn(f64, f64) -> f64, start| {
            x.iter().map(|x| x.to_f64()).fold(start, |a, b| if b.is_nan() { b } else { pick(a, b) })
        };
        (min, max) = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        if x.iter().any(|x| x.is_nan()) {
            return None;
        }
    }
    if min == max {
        (min, max) = (min - 1.0, max + 1.0);
    }
    if !(min.is_finite() && max.is_finite() && min < max) || bins == 0 || bins >= u32::MAX as usize {
        return None;
    }
    // What is outside is counted behind the last bin. Counters take turns, and bins are found some at a time, without a branch.
    let mut counts = vec![0u64; TURNS * (bins + 1)];
    let mut found = [0u32; 256];
    for some in x.chunks(found.len()) {
        let found = &mut found[..some.len()];
        bins_of(some, (min, max), bins, found);
        for (i, bin) in found.iter().enumerate() {
            counts[i % TURNS * (bins + 1) + *bin as usize] += 1;
        }
    }
    Some((0..bins).map(|b| (0..TURNS).map(|t| counts[t * (bins + 1) + b]).sum::<u64>() as f64).collect())
}

/// The bins of some elements; `bins` for those outside.
fn bins_of<T: Order>(x: &[T], bounds: (f64, f64), bins: usize, out: &mut [u32]) {
    #[inline(always)]
    fn all<T: Order>(x: &[T], (min, max): (f64, f64), bins: usize, out: &mut [u32]) {
        let (width, count, last) = (max - min, bins as f64, bins as u32 - 1);
        for (x, out) in x.iter().zip(out) {
            let x = x.to_f64();
            let inside = x >= min && x <= max;
            let x = if inside { (x - min) / width * count } else { 0.0 };
            *out = if inside { (x as u32).min(last) } else { last + 1 };
        }
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Order>(x: &[T], bounds: (f64, f64), bins: usize, out: &mut [u32]) {
            all(x, bounds, bins, out);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x, bounds, bins, out) };
    }
    all(x, bounds, bins, out);
}

/// How often each of `0, 1, 2, …` occurs; at least `min_len` entries. `Err` has the position of
/// a negative element.
///
/// ```
/// use gradus_numerics::unique::bincount;
/// assert_eq!(bincount(&[1, 3, 1], 0), Ok(vec![0, 2, 0, 1]));
/// ```
pub fn bincount(x: &[i64], min_len: usize) -> Result<Vec<i64>, usize> {
    let mut out = vec![0; bins(x, min_len)?];
    count_into(x, &mut out);
    Ok(out)
}

/// Counters of each value that take turns: an element need not wait for its equal before it.
const TURNS: usize = 4;
/// Elements that are counted together, at least.
const COUNTED: usize = 1 << 12;

/// Counts how often each position of `out`, which starts with zeros, occurs. Others must not.
pub fn count_into(x: &[i64], out: &mut [i64]) {
    let (n, pieces) = (out.len(), (x.len() / COUNTED).clamp(1, 8));
    if n == 0 || TURNS * pieces * n > x.len() / 4 {
        return x.iter().for_each(|&x| out[x as usize] += 1);
    }
    let piece = x.len().div_ceil(pieces);
    let mut counts = vec![0u32; TURNS * pieces * n];
    for_chunks(&mut counts, TURNS * n, 1, pieces > 1, |(c, counts)| {
        let mut turns = counts.chunks_exact_mut(n);
        let mut turns: [&mut [u32]; TURNS] = std::array::from_fn(|_| turns.next().unwrap_or_default());
        let some = &x[(c * piece).min(x.len())..((c + 1) * piece).min(x.len())];
        let (groups, rest) = some.as_chunks::<TURNS>();
        for group in groups {
            turns.iter_mut().zip(group).for_each(|(counts, &x)| counts[x as usize] += 1);
        }
        rest.iter().for_each(|&x| turns[0][x as usize] += 1);
    });
    for counts in counts.chunks_exact(n) {
        out.iter_mut().zip(counts).for_each(|(o, c)| *o += i64::from(*c));
    }
}

/// The least and the greatest of some integers; `(0, -1)` of none.
pub fn extent(x: &[i64]) -> (i64, i64) {
    let Some(&first) = x.first() else { return (0, -1) };
    let part = x.len().div_ceil(8).max(PARALLEL_WORK / 4);
    let mut found = [(first, first); 8];
    let shared = Shared::new(&mut found);
    for_tasks(x.len().div_ceil(part), x.len() >= PARALLEL_WORK, |t| {
        let some = &x[t * part..x.len().min((t + 1) * part)];
        // SAFETY: there are at most eight parts, and each writes its own.
        unsafe { *shared.ptr().add(t) = extent_of(some, first) };
    });
    found.iter().fold((first, first), |(a, b), x| (a.min(x.0), b.max(x.1)))
}

/// The least and the greatest of some integers and one more.
fn extent_of(x: &[i64], one: i64) -> (i64, i64) {
    #[inline(always)]
    fn all(x: &[i64], one: i64) -> (i64, i64) {
        x.iter().fold((one, one), |(a, b), &x| (a.min(x), b.max(x)))
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide(x: &[i64], one: i64) -> (i64, i64) {
            all(x, one)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x, one) };
    }
    all(x, one)
}

/// As [`bincount`], adding up the element's weight instead of one.
pub fn bincount_weighted(x: &[i64], weights: &[f64], min_len: usize) -> Result<Vec<f64>, usize> {
    let mut out = vec![0.0; bins(x, min_len)?];
    x.iter().zip(weights).for_each(|(&x, w)| out[x as usize] += w);
    Ok(out)
}

fn bins(x: &[i64], min_len: usize) -> Result<usize, usize> {
    match extent(x) {
        (0.., most) => Ok(((most + 1) as usize).max(min_len)),
        _ => Err(x.iter().position(|&x| x < 0).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
