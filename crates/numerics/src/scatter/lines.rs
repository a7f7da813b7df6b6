//! Lines of a scatter along the last dimension of its index.

use super::{Mode, Negative, SHORT, inside, resolve, same};
use crate::element::Num;

/// Steps through the positions of a row-major `shape`, keeping offsets into strided arrays.
pub(super) struct Walk<'a, const A: usize> {
    shape: &'a [usize],
    strides: [&'a [isize]; A],
    at: Vec<usize>,
    pub(super) offsets: [isize; A],
}

impl<'a, const A: usize> Walk<'a, A> {
    pub(super) fn new(shape: &'a [usize], strides: [&'a [isize]; A]) -> Self {
        Walk { shape, strides, at: vec![0; shape.len()], offsets: [0; A] }
    }

    /// To the next position, the last coordinate fastest.
    pub(super) fn step(&mut self) {
        for d in (0..self.shape.len()).rev() {
            self.at[d] += 1;
            for (offset, strides) in self.offsets.iter_mut().zip(self.strides) {
                *offset += strides[d];
            }
            if self.at[d] < self.shape[d] {
                return;
            }
            for (offset, strides) in self.offsets.iter_mut().zip(self.strides) {
                *offset -= strides[d] * self.shape[d] as isize;
            }
            self.at[d] = 0;
        }
    }
}

/// One line of a scatter, along the last dimension of the index.
pub(super) struct Line {
    /// Where the target and the source begin.
    pub(super) to: isize,
    pub(super) from: isize,
    /// Steps of the target along the line, of the target along the axis, and of the source along the line.
    pub(super) steps: (isize, isize, isize),
    /// The size of the axis.
    pub(super) size: usize,
    pub(super) negative: Negative,
    pub(super) mode: Mode,
}

/// Numbers of 16 bits that are added at a time.
const BLOCK: usize = 64;

impl Line {
    /// Sums at places of which no two are the same, many at a time: one by one, conversions take most of the time.
    ///
    /// # Safety
    ///
    /// As [`Line::run`], with indices that are inside.
    unsafe fn add_apart<T: Num>(&self, dst: *mut T, index: &[i64], src: &[T]) {
        let (along, axis, _) = self.steps;
        let (mut sums, mut new) = ([T::Acc::ZERO; BLOCK], [T::Acc::ZERO; BLOCK]);
        let mut old = [T::ZERO; BLOCK];
        for (b, (index, src)) in index.chunks(BLOCK).zip(src.chunks(BLOCK)).enumerate() {
            let first = self.to + (b * BLOCK) as isize * along;
            let place = |(j, &i): (usize, &i64)| {
                dst.wrapping_offset(first + j as isize * along + resolve(i, self.size) as isize * axis)
            };
            let n = index.len();
            for (p, old) in index.iter().enumerate().map(place).zip(&mut old) {
                // SAFETY: the caller's promise.
                *old = unsafe { *p };
            }
            T::widen_block(&old[..n], &mut sums[..n]);
            T::widen_block(src, &mut new[..n]);
            sums.iter_mut().zip(&new).for_each(|(a, b)| *a = a.add(*b));
            T::narrow_block(&sums[..n], &mut old[..n]);
            for (p, new) in index.iter().enumerate().map(place).zip(&old) {
                // SAFETY: the caller's promise.
                unsafe { *p = *new };
            }
        }
    }

    /// Combines the source in, if all indices are inside.
    ///
    /// # Safety
    ///
    /// The places of all positions along the axis lie in the target, and nobody else uses them.
    #[inline(always)]
    pub(super) unsafe fn run<T: Num>(&self, dst: *mut T, index: &[i64], src: &[T], f: impl Fn(T, T) -> T) -> bool {
        let (along, axis, step) = self.steps;
        if !inside(index, self.size, self.negative) {
            return false;
        }
        let Some(&first) = index.first() else { return true };
        let from = self.from as usize;
        // SAFETY: all indices are inside, so these are places the caller promised.
        let update = |place: isize, new: T| unsafe {
            let place = dst.offset(place);
            *place = f(*place, new);
        };
        if along == 1 && (step == 1 || step == 0) && same(index) {
            // A whole row goes to one place.
            let at = self.to + resolve(first, self.size) as isize * axis;
            // SAFETY: as above; the places follow each other.
            let row = unsafe { std::slice::from_raw_parts_mut(dst.offset(at), index.len()) };
            if step == 1 {
                row.iter_mut().zip(&src[from..]).for_each(|(d, &s)| *d = f(*d, s));
            } else {
                let s = src[from];
                row.iter_mut().for_each(|d| *d = f(*d, s));
            }
        } else if step == 1 && along == 0 && axis == 1 {
            let src = &src[from..from + index.len()];
            if self.negative == Negative::Reject {
                index.iter().zip(src).for_each(|(&i, &s)| update(self.to + i as isize, s));
            } else {
                index.iter().zip(src).for_each(|(&i, &s)| update(self.to + resolve(i, self.size) as isize, s));
            }
        } else if step == 1 && along != 0 && T::IN_BLOCKS && self.mode == Mode::Add {
            // SAFETY: the caller's promise; elements along the line have places of their own.
            unsafe { self.add_apart(dst, index, &src[from..from + index.len()]) }
        } else if step == 1 {
            let src = &src[from..from + index.len()];
            for ((&i, &s), j) in index.iter().zip(src).zip(0..) {
                update(self.to + j * along + resolve(i, self.size) as isize * axis, s);
            }
        } else {
            for (&i, j) in index.iter().zip(0..) {
                let to = self.to + j * along + resolve(i, self.size) as isize * axis;
                update(to, src[(self.from + j * step) as usize]);
            }
        }
        true
    }
}

/// Some columns of lines of indices, so many from the first of one to that of the next.
#[derive(Clone, Copy)]
pub(super) struct Indices<'a> {
    pub(super) all: &'a [i64],
    pub(super) pitch: usize,
    pub(super) columns: (usize, usize),
}

impl Line {
    /// Lines one after the other, so many steps of the target and of the source apart. `false` if an index is outside.
    ///
    /// # Safety
    ///
    /// As [`Line::run`], for all lines.
    #[inline(always)]
    pub(super) unsafe fn many<T: Num>(
        &self,
        dst: *mut T,
        index: Indices<'_>,
        src: &[T],
        apart: (isize, isize),
        f: impl Fn(T, T) -> T,
    ) -> bool {
        let ((from, to), lines) = (index.columns, index.all.chunks_exact(index.pitch));
        let after =
            |l: usize| Line { to: self.to + l as isize * apart.0, from: self.from + l as isize * apart.1, ..*self };
        if to - from >= SHORT {
            // SAFETY: the caller's promise.
            return lines.enumerate().all(|(l, i)| unsafe { after(l).run(dst, &i[from..to], src, &f) });
        }
        // Without what a line takes to begin: short ones are looked at together first.
        let whole = (from, to) == (0, index.pitch);
        let inside = |i: &[i64]| inside(i, self.size, self.negative);
        if !if whole { inside(index.all) } else { lines.clone().all(|i| inside(&i[from..to])) } {
            return false;
        }
        let (along, axis, step) = self.steps;
        if whole && (along, axis, step) == (0, 1, 1) && apart.1 == index.pitch as isize {
            // Along the last axis of all of them.
            let src = src[self.from as usize..].chunks_exact(index.pitch);
            for ((l, line), src) in lines.enumerate().zip(src) {
                let first = self.to + l as isize * apart.0;
                for (&i, &s) in line.iter().zip(src) {
                    // SAFETY: the index is inside, so this is a place the caller promised.
                    unsafe {
                        let place = dst.offset(first + resolve(i, self.size) as isize);
                        *place = f(*place, s);
                    }
                }
            }
            return true;
        }
        let (mut first, mut read) = (self.to, self.from);
        for line in lines {
            let (mut place, mut at) = (first, read);
            for &i in &line[from..to] {
                // SAFETY: as above.
                unsafe {
                    let place = dst.offset(place + resolve(i, self.size) as isize * axis);
                    *place = f(*place, src[at as usize]);
                }
                (place, at) = (place + along, at + step);
            }
            (first, read) = (first + apart.0, read + apart.1);
        }
        true
    }
}

/// The dimensions of a scatter: extents of the target and of the index, and the steps of the source.
pub(super) struct Dimensions {
    pub(super) dst: Vec<usize>,
    pub(super) index: Vec<usize>,
    pub(super) strides: Vec<isize>,
    pub(super) axis: usize,
}

impl Dimensions {
    /// Without those of one element, and with those made one that lie behind each other in all arrays.
    pub(super) fn merged(dst: &[usize], axis: usize, index: &[usize], strides: &[isize]) -> Self {
        let mut m = Dimensions { dst: vec![], index: vec![], strides: vec![], axis: 0 };
        // Whether the last one may take another in.
        let mut open = false;
        for d in 0..dst.len() {
            let last = m.dst.len();
            if d != axis && dst[d] == 1 {
                continue;
            }
            let behind = open && d != axis && index[d] == dst[d];
            if behind && m.strides[last - 1] == strides[d] * index[d] as isize {
                m.dst[last - 1] *= dst[d];
                m.index[last - 1] *= index[d];
                m.strides[last - 1] = strides[d];
                continue;
            }
            if d == axis {
                m.axis = last;
            }
            open = d != axis;
            m.dst.push(dst[d]);
            m.index.push(index[d]);
            m.strides.push(strides[d]);
        }
        m
    }
}
