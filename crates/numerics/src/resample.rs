//! Planes at another size: every row and every column of the result is a weighted sum of a few of
//! the input's. Interpolation is that, and so is its gradient, by the transposed tables.

mod resize;

pub use resize::{Axis, Resize, Rule};

use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// For each element of an axis' result, `count` elements of the axis and their weights.
#[derive(Clone, Debug)]
pub struct Taps {
    n: usize,
    out: usize,
    count: usize,
    index: Vec<u32>,
    weight: Vec<f32>,
}

impl Taps {
    /// From the elements and weights of each element of the result: as many of each. `None` if one
    /// is not an element of an axis of `n`.
    pub fn new(n: usize, taps: &[Vec<(usize, f32)>]) -> Option<Taps> {
        let count = taps.iter().map(Vec::len).max().unwrap_or(0);
        let (mut index, mut weight) = (Vec::new(), Vec::new());
        for taps in taps {
            for k in 0..count {
                // What is not there is nothing of an element that is.
                let (i, w) = taps.get(k).copied().unwrap_or((taps.last().map_or(0, |t| t.0), 0.0));
                if i >= n || n > u32::MAX as usize {
                    return None;
                }
                index.push(i as u32);
                weight.push(w);
            }
        }
        Some(Taps { n, out: taps.len(), count, index, weight })
    }

    /// As many for each.
    fn regular<const K: usize>(n: usize, taps: impl ExactSizeIterator<Item = [(usize, f32); K]>) -> Taps {
        let out = taps.len();
        let mut all =
            Taps { n, out, count: K, index: Vec::with_capacity(K * out), weight: Vec::with_capacity(K * out) };
        for (i, w) in taps.flatten() {
            all.index.push(i as u32);
            all.weight.push(w);
        }
        all
    }

    /// Whether the axis stays as it is.
    fn is_identity(&self) -> bool {
        self.count == 1
            && self.n == self.out
            && self.index.iter().enumerate().all(|(i, at)| i == *at as usize)
            && self.weight.iter().all(|w| *w == 1.0)
    }

    /// An axis as it is.
    pub fn identity(n: usize) -> Taps {
        Taps { n, out: n, count: 1, index: (0..n as u32).collect(), weight: vec![1.0; n] }
    }

    /// Elements of the axis.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Elements of the result.
    pub fn out(&self) -> usize {
        self.out
    }

    /// The elements and weights of element `o` of the result.
    fn get(&self, o: usize) -> impl Iterator<Item = (usize, f32)> + Clone {
        let all = o * self.count..(o + 1) * self.count;
        self.index[all.clone()].iter().zip(&self.weight[all]).map(|(&i, &w)| (i as usize, w))
    }

    /// The same weights from the result to the axis.
    pub fn transposed(&self) -> Taps {
        let mut taps = vec![Vec::new(); self.n];
        for o in 0..self.out {
            self.get(o).filter(|t| t.1 != 0.0).for_each(|(i, w)| taps[i].push((o, w)));
        }
        let empty = Taps { n: self.out, out: self.n, count: 0, index: vec![], weight: vec![] };
        Taps::new(self.out, &taps).unwrap_or(empty)
    }
}

/// The taps of both axes: the rows', then the columns'.
#[derive(Clone, Debug)]
pub struct Resample {
    /// The rows' taps, then the columns'.
    pub axes: [Taps; 2],
}

impl Resample {
    /// The gradient's.
    pub fn transposed(&self) -> Resample {
        Resample { axes: [self.axes[0].transposed(), self.axes[1].transposed()] }
    }
}

/// Tables for vectors of a row's results, none where columns stay as they are: for each vector and tap, where the elements are.
#[derive(Debug)]
struct Columns {
    same: bool,
    lanes: usize,
    /// Each tap's elements, relative to the vector's first one where all are near it.
    index: Vec<i32>,
    weight: Vec<f32>,
    /// The first element for each vector and tap; `None` where they are too far apart.
    first: Vec<Option<usize>>,
}

impl Columns {
    fn new(t: &Taps, lanes: usize) -> Columns {
        let same = t.is_identity();
        let vectors = if same { 0 } else { t.out.div_ceil(lanes) };
        let size = vectors * t.count * lanes;
        let mut c = Columns { same, lanes, index: vec![0; size], weight: vec![0.0; size], first: vec![] };
        for v in 0..vectors {
            for k in 0..t.count {
                let outs = v * lanes..t.out.min((v + 1) * lanes);
                let of = |o: usize| t.index[o * t.count + k] as usize;
                let least = outs.clone().map(of).min().unwrap_or(0);
                let near = outs.clone().all(|o| of(o) - least < 2 * lanes);
                c.first.push(near.then_some(least));
                let at = (v * t.count + k) * lanes;
                for (i, o) in outs.enumerate() {
                    c.index[at + i] = (of(o) - if near { least } else { 0 }) as i32;
                    c.weight[at + i] = t.weight[o * t.count + k];
                }
            }
        }
        c
    }
}

/// Resamples every plane of `x`.
///
/// ```
/// use gradus_numerics::resample::{Resample, Taps, resample};
/// let twice = Taps::new(2, &[vec![(0, 1.0)], vec![(0, 1.0)], vec![(1, 1.0)], vec![(1, 1.0)]]).unwrap();
/// let mut y = [0.0; 4];
/// resample(&Resample { axes: [Taps::identity(1), twice] }, &[1.0, 2.0], &mut y);
/// assert_eq!(y, [1.0, 1.0, 2.0, 2.0]);
/// ```
pub fn resample(r: &Resample, x: &[f32], y: &mut [f32]) {
    resample_with(Isa::detect(), r, x, y);
}

fn resample_with(isa: Isa, r: &Resample, x: &[f32], y: &mut [f32]) {
    run(isa, r, &Columns::new(&r.axes[1], isa.lanes()), x, y);
}

/// Elements of a task, whatever the number of threads: about 64 KiB.
const TASK: usize = 1 << 14;

fn run(isa: Isa, r: &Resample, tables: &Columns, x: &[f32], y: &mut [f32]) {
    let [rows, columns] = &r.axes;
    let (inputs, outputs) = (rows.n * columns.n, rows.out * columns.out);
    if outputs == 0 || y.is_empty() {
        return;
    }
    let planes = y.len() / outputs;
    assert!(y.len() == planes * outputs && x.len() == planes * inputs, "sizes of planes");
    let y = Shared::new(y);
    // Some planes, or some rows of one.
    let plane = inputs.max(outputs);
    let together = (TASK / plane).max(1);
    let some = (rows.out * TASK).div_ceil(plane).clamp(1, rows.out);
    let parts = rows.out.div_ceil(some);
    for_tasks(planes.div_ceil(together) * parts, planes * plane >= 1 << 15, |t| {
        let (first, part) = (t / parts * together, t % parts * some);
        let mut line = scratch::take(columns.n + 64);
        for i in first..planes.min(first + together) {
            // SAFETY: tasks write different rows, of planes of these sizes.
            unsafe {
                let out = part..rows.out.min(part + some);
                let y = y.ptr().add(i * outputs + out.start * columns.out);
                let y = std::slice::from_raw_parts_mut(y, out.len() * columns.out);
                plane_rows(isa, r, tables, out, &x[i * inputs..][..inputs], &mut line, y);
            }
        }
    });
}

/// A row: a weighted sum of rows of the plane, into room for a vector more, or into no more than there is (`EXACT`).
#[inline(always)]
unsafe fn sum_rows<S: Simd, const EXACT: bool>(rows: &Taps, oh: usize, x: &[f32], n: usize, to: *mut f32) {
    // SAFETY: taps are rows of the plane.
    unsafe {
        for i in (0..n).step_by(S::LANES) {
            let left = n - i;
            let mut sum = S::zero();
            // (A weight of nothing takes nothing, not even of what is no number.)
            for (row, w) in rows.get(oh).filter(|t| t.1 != 0.0) {
                let from = x.as_ptr().add(row * n + i);
                let v = if left >= S::LANES { S::load(from) } else { S::load_first(from, left) };
                sum = S::fma(v, S::splat(w), sum);
            }
            if EXACT && left < S::LANES {
                S::store_first(to.add(i), sum, left);
            } else {
                S::store(to.add(i), sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn plane_body<S: Simd>(
    r: &Resample,
    tables: &Columns,
    some: Range<usize>,
    x: &[f32],
    line: &mut [f32],
    y: &mut [f32],
) {
    let [rows, columns] = &r.axes;
    let (n, out) = (columns.n, columns.out);
    for (o, oh) in some.enumerate() {
        if o > 0 && rows.get(oh).eq(rows.get(oh - 1)) {
            y.copy_within((o - 1) * out..o * out, o * out);
            continue;
        }
        // SAFETY: taps are rows of the plane and elements of them; the line has room for two vectors more.
        unsafe {
            if tables.same {
                sum_rows::<S, true>(rows, oh, x, n, y[o * out..][..out].as_mut_ptr());
                continue;
            }
            sum_rows::<S, false>(rows, oh, x, n, line.as_mut_ptr());
            let y = &mut y[o * out..][..out];
            for (v, first) in (0..out).step_by(tables.lanes).enumerate() {
                let left = (out - first).min(S::LANES);
                let mut sum = S::zero();
                for k in v * columns.count..(v + 1) * columns.count {
                    let index = tables.index.as_ptr().add(k * S::LANES);
                    let w = S::load(tables.weight.as_ptr().add(k * S::LANES));
                    let values = match tables.first.get_unchecked(k) {
                        Some(from) => {
                            let from = line.as_ptr().add(*from);
                            S::pick(S::load(from), S::load(from.add(S::LANES)), index)
                        }
                        None => {
                            let all: [f32; 16] = std::array::from_fn(|i| {
                                if i < left { *line.get_unchecked(*index.add(i) as usize) } else { 0.0 }
                            });
                            S::load(all.as_ptr())
                        }
                    };
                    let some = S::or(S::gt(w, S::zero()), S::gt(S::zero(), w));
                    sum = S::select(some, S::fma(values, w, sum), sum);
                }
                S::store_first(y.as_mut_ptr().add(first), sum, left);
            }
        }
    }
}
dispatch!(unsafe fn plane_rows = plane_body(r: &Resample, tables: &Columns, some: Range<usize>, x: &[f32], line: &mut [f32], y: &mut [f32]));

#[cfg(test)]
mod tests;
