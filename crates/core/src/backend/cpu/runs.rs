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
#[inline]
pub fn runs(
    access: &Access,
    k: &Kernel,
    map: &At,
    reduce: &At,
    block: Block,
    n: usize,
    mut f: impl FnMut(Run, usize) -> Result<()>,
) -> Result<()> {
    let mut walk = Walk::new(access, k, map, reduce, block, n);
    while let Some((run, at)) = walk.next() {
        f(run, at)?;
    }
    Ok(())
}

/// The runs of a block, one line after the other: an odometer of its axes, with addresses and bounds moving along.
pub struct Walk<'a> {
    access: &'a Access,
    /// The axes that the block runs along, and the first of them among those of the access.
    dims: &'a [usize],
    first: usize,
    index: SmallVec<[usize; 8]>,
    start: isize,
    values: SmallVec<[isize; 4]>,
    done: usize,
    n: usize,
}

impl<'a> Walk<'a> {
    /// At the beginning of a block of `n`.
    #[inline]
    pub fn new(access: &'a Access, k: &'a Kernel, map: &At, reduce: &At, block: Block, n: usize) -> Walk<'a> {
        let rm = k.map.len();
        let start = access.offset + dot(&access.strides[..rm], &map.0) + dot(&access.strides[rm..], &reduce.0);
        let (dims, first, at): (&[usize], usize, &At) = match block {
            Block::Map => (&k.map, 0, map),
            Block::Reduce => (&k.reduce, rm, reduce),
            Block::Point => (&[], 0, map),
        };
        let index = SmallVec::from_slice(&at.0[..dims.len()]);
        let values = access.bounds.iter().map(|b| bound_at(b, rm, map, reduce)).collect();
        Walk { access, dims, first, index, start, values, done: 0, n }
    }

    /// Elements a step of all its runs.
    pub fn step(&self) -> isize {
        self.dims.len().checked_sub(1).map_or(0, |last| self.access.strides[self.first + last])
    }

    /// The next run, and its place in the block.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(Run, usize)> {
        let (access, done) = (self.access, self.done);
        if done >= self.n {
            return None;
        }
        let Some(last) = self.dims.len().checked_sub(1) else {
            // One point: nothing moves.
            self.done = self.n;
            let inside = access.bounds.iter().zip(&self.values).all(|(b, v)| (b.lo..b.hi).contains(v));
            return Some((
                Run { start: self.start, step: 0, len: self.n, lo: 0, hi: if inside { self.n } else { 0 } },
                0,
            ));
        };
        let axis = self.first + last;
        let along = self.index[last];
        let len = (self.dims[last] - along).min(self.n - done);
        let mut run = Run { start: self.start, step: access.strides[axis], len, lo: 0, hi: len };
        for (b, &value) in access.bounds.iter().zip(&self.values) {
            let (lo, hi) = inside(b, value, b.coefs[axis], len);
            run.lo = run.lo.max(lo);
            run.hi = run.hi.min(hi);
        }
        run.hi = run.hi.max(run.lo).min(len);
        run.lo = run.lo.min(run.hi);
        self.done += len;
        if self.done < self.n {
            // To the beginning of the next line; an axis that is through goes back to its own.
            self.shift(axis, -(along as isize));
            self.index[last] = 0;
            self.on(last, 1);
        }
        Some((run, done))
    }

    /// So many steps on along the axis before this one, and what follows for those before it.
    #[inline(always)]
    fn on(&mut self, axis: usize, mut by: usize) {
        for d in (0..axis).rev() {
            self.index[d] += by;
            self.shift(self.first + d, by as isize);
            if self.index[d] < self.dims[d] {
                break;
            }
            self.index[d] -= self.dims[d];
            self.shift(self.first + d, -(self.dims[d] as isize));
            by = 1;
        }
    }

    /// The next lines of one length, where there are no bounds: the first as a run, its place in the block, how many there
    /// are, and elements from one to the next.
    #[inline(always)]
    pub fn next_lines(&mut self) -> Option<(Run, usize, usize, isize)> {
        let (run, at) = self.next()?;
        let one = Some((run, at, 1, 0));
        let [.., lines, line] = *self.dims else { return one };
        let last = self.dims.len() - 1;
        let (here, left) = (self.index[last - 1], (self.n - self.done) / line.max(1));
        if run.len < line || here == 0 || left == 0 {
            return one;
        }
        let more = left.min(lines - here);
        self.done += more * line;
        if self.done < self.n {
            self.on(last, more);
        }
        Some((run, at, 1 + more, self.access.strides[self.first + last - 1]))
    }

    #[inline(always)]
    fn shift(&mut self, axis: usize, by: isize) {
        self.start += self.access.strides[axis] * by;
        self.values.iter_mut().zip(&self.access.bounds).for_each(|(v, b)| *v += b.coefs[axis] * by);
    }
}

fn bound_at(b: &Bound, rm: usize, map: &At, reduce: &At) -> isize {
    dot(&b.coefs[..rm], &map.0) + dot(&b.coefs[rm..], &reduce.0)
}

/// The `i` in `0 .. len` with `lo <= first + i * step < hi`.
#[inline(always)]
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
