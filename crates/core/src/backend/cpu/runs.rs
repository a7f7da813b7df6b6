//! Blocks of a space as runs along its last axis.

use super::transfer::Run;
use crate::{
    Result,
    kernel::{Access, Kernel},
    view::Bound,
};
use smallvec::SmallVec;

/// A point of a space, as one index an axis.
pub struct At(SmallVec<[usize; 8]>);

impl At {
    /// The origin.
    pub fn new(dims: &[usize]) -> At {
        At(SmallVec::from_elem(0, dims.len()))
    }

    /// The address of this point, for these steps an axis.
    #[inline]
    pub fn dot(&self, strides: &[isize]) -> isize {
        dot(strides, &self.0)
    }

    /// The index of an axis.
    pub fn along(&self, axis: usize) -> usize {
        self.0[axis]
    }

    /// Point number `l` in row-major order.
    #[inline]
    pub fn set(&mut self, dims: &[usize], mut l: usize) {
        if let [at] = self.0.as_mut_slice() {
            *at = l;
            return;
        }
        for (at, &n) in self.0.iter_mut().zip(dims).rev() {
            // An empty axis has no point, but values of the other space are still wanted.
            let n = n.max(1);
            (*at, l) = (l % n, l / n);
        }
    }
}

/// Which points a block runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Map points from the current one, at the current reduce point.
    Map,
    /// Reduce points from the current one, at the current map point.
    Reduce,
    /// The current point alone.
    Point,
}

#[inline]
fn dot(c: &[isize], at: &[usize]) -> isize {
    c.iter().zip(at).map(|(c, &i)| c * i as isize).sum()
}

/// Whether a block of `n` stays in its line.
pub fn one_line(k: &Kernel, map: &At, reduce: &At, block: Block, n: usize) -> bool {
    let (dims, at) = match block {
        Block::Map => (&k.map, map),
        Block::Reduce => (&k.reduce, reduce),
        Block::Point => return true,
    };
    dims.last().is_none_or(|&inner| n <= inner - at.0[dims.len() - 1])
}

/// Calls `f` with each run of a block's addresses and its place in the block.
#[inline(always)]
pub fn runs(
    access: &Access,
    k: &Kernel,
    map: &At,
    reduce: &At,
    block: Block,
    n: usize,
    mut f: impl FnMut(Run, usize) -> Result<()>,
) -> Result<()> {
    let rm = k.map.len();
    let start = access.offset + dot(&access.strides[..rm], &map.0) + dot(&access.strides[rm..], &reduce.0);
    let (dims, first, at): (&[usize], usize, &At) = match block {
        Block::Map => (&k.map, 0, map),
        Block::Reduce => (&k.reduce, rm, reduce),
        Block::Point => (&[], 0, map),
    };
    let Some((&inner, rest)) = dims.split_last() else {
        // One point: nothing moves.
        let inside = access.bounds.iter().all(|b| (b.lo..b.hi).contains(&bound_at(b, rm, map, reduce)));
        return f(Run { start, step: 0, len: n, lo: 0, hi: if inside { n } else { 0 } }, 0);
    };
    let last = first + dims.len() - 1;
    let step = access.strides[last];
    let left = inner - at.0[dims.len() - 1];
    if n <= left && access.bounds.is_empty() {
        return f(Run { start, step, len: n, lo: 0, hi: n }, 0);
    }
    // Several runs, or padding: walk the axes like an odometer. Addresses and bounds move along with it.
    let mut index: SmallVec<[usize; 8]> = at.0.clone();
    let (mut start, mut done) = (start, 0);
    let mut values: SmallVec<[isize; 4]> = access.bounds.iter().map(|b| bound_at(b, rm, map, reduce)).collect();
    loop {
        let along = index[rest.len()];
        let len = (inner - along).min(n - done);
        let mut run = Run { start, step, len, lo: 0, hi: len };
        for (b, &value) in access.bounds.iter().zip(&values) {
            let (lo, hi) = inside(b, value, b.coefs[last], len);
            run.lo = run.lo.max(lo);
            run.hi = run.hi.min(hi);
        }
        run.hi = run.hi.max(run.lo).min(len);
        run.lo = run.lo.min(run.hi);
        f(run, done)?;
        done += len;
        if done >= n {
            return Ok(());
        }
        // To the beginning of the next line; an axis that is through goes back to its own.
        let mut shift = |axis: usize, by: isize| {
            start += access.strides[axis] * by;
            values.iter_mut().zip(&access.bounds).for_each(|(v, b)| *v += b.coefs[axis] * by);
        };
        index[rest.len()] = 0;
        shift(last, -(along as isize));
        for d in (0..rest.len()).rev() {
            index[d] += 1;
            shift(first + d, 1);
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
            shift(first + d, -(dims[d] as isize));
        }
    }
}

fn bound_at(b: &Bound, rm: usize, map: &At, reduce: &At) -> isize {
    dot(&b.coefs[..rm], &map.0) + dot(&b.coefs[rm..], &reduce.0)
}

/// The `i` in `0 .. len` with `lo <= first + i * step < hi`.
fn inside(b: &Bound, first: isize, step: isize, len: usize) -> (usize, usize) {
    let ceil = |a: isize, b: isize| a.div_euclid(b) + (a.rem_euclid(b) != 0) as isize;
    let clamp = |x: isize| x.clamp(0, len as isize) as usize;
    match step {
        0 if (b.lo..b.hi).contains(&first) => (0, len),
        0 => (0, 0),
        1 => (clamp(b.lo - first), clamp(b.hi - first)),
        s if s > 0 => (clamp(ceil(b.lo - first, s)), clamp(ceil(b.hi - first, s))),
        // Walking down: first - i |s| < hi, first - i |s| >= lo.
        s => (clamp((first - b.hi).div_euclid(-s) + 1), clamp((first - b.lo).div_euclid(-s) + 1)),
    }
}
