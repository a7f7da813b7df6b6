//! Distinct values and rows, non-zero positions, and histograms.

use crate::element::{Num, Order};
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
    /// Groups the neighbours that `same` in the sequence of positions `order`.
    fn of(order: impl ExactSizeIterator<Item = usize>, same: impl Fn(usize, usize) -> bool) -> Self {
        let mut g = Groups { inverse: vec![0; order.len()], ..Groups::default() };
        let mut previous = None;
        for p in order {
            match (previous, g.counts.last_mut()) {
                (Some(q), Some(count)) if same(q, p) => *count += 1,
                _ => {
                    g.first.push(p);
                    g.counts.push(1);
                }
            }
            g.inverse[p] = g.first.len() as i64 - 1;
            previous = Some(p);
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

/// The distinct neighbours: as [`unique`], without sorting first.
pub fn unique_consecutive<T: Order>(x: &[T]) -> Groups {
    unique_consecutive_rows(x, x.len(), 1)
}

/// The distinct rows of a `rows` by `cols` matrix, in lexicographic order.
pub fn unique_rows<T: Order>(x: &[T], rows: usize, cols: usize) -> Groups {
    debug_assert_eq!(x.len(), rows * cols);
    if cols == 1 && rows <= u32::MAX as usize {
        let mut items: Vec<(u64, u32)> = x.iter().zip(0..).map(|(x, i)| (x.key(), i)).collect();
        let order = crate::sort::sorted(&mut items);
        return Groups::of(order.iter().map(|i| i.1 as usize), |a, b| x[a] == x[b]);
    }
    let row = |r: usize| &x[r * cols..][..cols];
    let compare =
        |a: &[T], b: &[T]| a.iter().zip(b).map(|(a, b)| a.order(b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal);
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|&a, &b| compare(row(a), row(b)));
    Groups::of(order.into_iter(), |a, b| row(a) == row(b))
}

/// The distinct neighbouring rows of a `rows` by `cols` matrix.
pub fn unique_consecutive_rows<T: Order>(x: &[T], rows: usize, cols: usize) -> Groups {
    debug_assert_eq!(x.len(), rows * cols);
    Groups::of(0..rows, |a, b| x[a * cols..][..cols] == x[b * cols..][..cols])
}

/// The flat positions of the elements that are not zero (NaN is not zero).
pub fn nonzero_flat<T: Num>(x: &[T]) -> Vec<i64> {
    // Every position is written, and written over unless its element counts: nobody can guess a mask's branches.
    let count = x.iter().filter(|x| **x != T::ZERO).count();
    let (mut out, mut at) = (vec![0; count + 1], 0);
    for (p, x) in x.iter().enumerate() {
        out[at] = p as i64;
        at += (*x != T::ZERO) as usize;
    }
    out.truncate(count);
    out
}

/// The coordinates of the elements that are not zero, one row of `shape.len()` per element.
///
/// ```
/// use gradus_numerics::unique::nonzero;
/// assert_eq!(nonzero(&[0, 7, 0, 8], &[2, 2]), [0, 1, 1, 1]);
/// ```
pub fn nonzero<T: Num>(x: &[T], shape: &[usize]) -> Vec<i64> {
    let flat = nonzero_flat(x);
    let mut out = vec![0; flat.len() * shape.len()];
    let Some((&n, outer)) = shape.split_last() else { return out };
    // Divided once a line, not once an element.
    let (mut start, mut at) = (0, vec![0; outer.len()]);
    for (p, row) in flat.into_iter().zip(out.chunks_exact_mut(shape.len())) {
        if p - start >= n as i64 {
            let mut line = p / n as i64;
            start = line * n as i64;
            for (a, &n) in at.iter_mut().zip(outer).rev() {
                *a = line % n as i64;
                line /= n as i64;
            }
        }
        if let Some((last, front)) = row.split_last_mut() {
            front.copy_from_slice(&at);
            *last = p - start;
        }
    }
    out
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
    if !(min.is_finite() && max.is_finite() && min < max) || bins == 0 {
        return None;
    }
    let mut out = vec![0.0; bins];
    for x in x.iter().map(|x| x.to_f64()).filter(|x| (min..=max).contains(x)) {
        let bin = ((x - min) / (max - min) * bins as f64) as usize;
        out[bin.min(bins - 1)] += 1.0;
    }
    Some(out)
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
    x.iter().for_each(|&x| out[x as usize] += 1);
    Ok(out)
}

/// As [`bincount`], adding up the element's weight instead of one.
pub fn bincount_weighted(x: &[i64], weights: &[f64], min_len: usize) -> Result<Vec<f64>, usize> {
    let mut out = vec![0.0; bins(x, min_len)?];
    x.iter().zip(weights).for_each(|(&x, w)| out[x as usize] += w);
    Ok(out)
}

fn bins(x: &[i64], min_len: usize) -> Result<usize, usize> {
    match x.iter().position(|&x| x < 0) {
        Some(p) => Err(p),
        None => Ok(x.iter().max().map_or(0, |&m| m as usize + 1).max(min_len)),
    }
}

#[cfg(test)]
mod tests;
