//! The loops over channels and positions, which the compiler makes vectors of where it can.

// One number counts through several arrays.
#![allow(clippy::needless_range_loop)]

use super::Grid;
use super::table::{MOST, Number, Table, side};
use crate::simd::{Simd, dispatch};
use std::ops::Range;

/// Parts of at most [`MOST`] of a range.
fn parts(all: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = all.end;
    all.step_by(MOST).map(move |from| from..end.min(from + MOST))
}

/// What stands at a place, zero where that is outside.
#[inline(always)]
unsafe fn value<T: Number>(x: &[T], at: i32, inside: bool) -> T {
    // SAFETY: places are elements of the plane, those outside the first one.
    let v = unsafe { *x.get_unchecked(at as usize) };
    if inside { v } else { T::default() }
}

/// The values at some positions of an image.
///
/// # Safety
///
/// Sizes are those of the grid.
#[inline(always)]
unsafe fn forward_of<T: Number, const D: usize, const K: usize>(
    g: &Grid,
    image: usize,
    positions: Range<usize>,
    x: &[T],
    grid: &[T],
    y: *mut T,
) {
    let plane = g.plane();
    let grid = &grid[image * g.count * D..][..g.count * D];
    let mut t = Table::<T, D, K>::new();
    for some in parts(positions) {
        t.fill(g, grid, some.clone());
        let n = some.len().min(MOST);
        for c in image * g.channels..(image + 1) * g.channels {
            let x = &x[c * plane..][..plane];
            // SAFETY: values of this task.
            let y = unsafe { std::slice::from_raw_parts_mut(y.add(c * g.count + some.start), n) };
            for (p, y) in y.iter_mut().enumerate() {
                let mut sum = T::default();
                for k in 0..K {
                    // SAFETY: places of the table.
                    let v = unsafe { value(x, t.at[k][p], t.whole | (t.inside[k][p] != 0)) };
                    sum = if K == 1 { v } else { sum + v * t.weight[k][p] };
                }
                *y = sum;
            }
        }
    }
}

/// The gradient of some channels of an image.
///
/// # Safety
///
/// As above.
#[inline(always)]
unsafe fn image_of<T: Number, const D: usize, const K: usize>(
    g: &Grid,
    image: usize,
    channels: Range<usize>,
    grid: &[T],
    grad: &[T],
    dx: *mut T,
) {
    let plane = g.plane();
    let grid = &grid[image * g.count * D..][..g.count * D];
    let mut t = Table::<T, D, K>::new();
    let first = image * g.channels;
    // SAFETY: planes of this task.
    let dx =
        unsafe { std::slice::from_raw_parts_mut(dx.add((first + channels.start) * plane), channels.len() * plane) };
    dx.fill(T::default());
    for some in parts(0..g.count) {
        t.fill(g, grid, some.clone());
        for (dx, c) in dx.chunks_exact_mut(plane).zip(channels.clone()) {
            let grad = &grad[(first + c) * g.count..][some.clone()];
            for (p, &grad) in grad.iter().enumerate().take(MOST) {
                for k in 0..K {
                    if t.inside[k][p] != 0 {
                        // SAFETY: a place of the table.
                        let to = unsafe { dx.get_unchecked_mut(t.at[k][p] as usize) };
                        *to = *to + if K == 1 { grad } else { grad * t.weight[k][p] };
                    }
                }
            }
        }
    }
}

/// The gradient of some positions of an image.
///
/// # Safety
///
/// As above.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn positions_of<T: Number, const D: usize, const K: usize>(
    g: &Grid,
    image: usize,
    positions: Range<usize>,
    x: &[T],
    grid: &[T],
    grad: &[T],
    dgrid: *mut T,
) {
    let (plane, one) = (g.plane(), T::of(1));
    let grid = &grid[image * g.count * D..][..g.count * D];
    let mut t = Table::<T, D, K>::new();
    for some in parts(positions) {
        t.fill(g, grid, some.clone());
        let n = some.len().min(MOST);
        // Each element around a position, times the gradients of all channels: how it is weighted comes after.
        let mut sums = [[T::default(); MOST]; K];
        for c in image * g.channels..(image + 1) * g.channels {
            let (x, grad) = (&x[c * plane..][..plane], &grad[c * g.count..][some.clone()]);
            for (p, &grad) in grad.iter().enumerate().take(MOST) {
                for (k, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: places of the table.
                    let v = unsafe { value(x, t.at[k][p], t.whole | (t.inside[k][p] != 0)) };
                    sums[p] = sums[p] + grad * v;
                }
            }
        }
        for a in 0..D {
            for p in 0..n {
                // Along an axis the second elements less the first ones, weighted by the others.
                let mut slant = T::default();
                for (k, sums) in sums.iter().enumerate() {
                    let mut w = sums[p];
                    for b in (0..D).filter(|b| *b != a) {
                        let beyond = t.beyond[b][p];
                        w = w * if side(D, k, b) { beyond } else { one - beyond };
                    }
                    slant = if side(D, k, a) { slant + w } else { slant - w };
                }
                // SAFETY: positions of this task; the grid names the last axis first.
                unsafe {
                    *dgrid.add((image * g.count + some.start + p) * D + (D - 1 - a)) = slant * t.slope[a][p];
                }
            }
        }
    }
}

/// Each loop for the axes and elements of a grid, for a type, for all widths of vectors.
macro_rules! loops {
    ($t:ty, $forward:ident $image:ident $positions:ident, $f:ident $i:ident $p:ident) => {
        #[inline(always)]
        unsafe fn $f<S: Simd>(g: &Grid, image: usize, some: Range<usize>, x: &[$t], grid: &[$t], y: *mut $t) {
            // SAFETY: the caller's promise.
            unsafe {
                match (g.volume, g.nearest) {
                    (false, false) => forward_of::<$t, 2, 4>(g, image, some, x, grid, y),
                    (false, true) => forward_of::<$t, 2, 1>(g, image, some, x, grid, y),
                    (true, false) => forward_of::<$t, 3, 8>(g, image, some, x, grid, y),
                    (true, true) => forward_of::<$t, 3, 1>(g, image, some, x, grid, y),
                }
            }
        }
        dispatch!(pub(super) unsafe fn $forward = $f(g: &Grid, image: usize, some: Range<usize>, x: &[$t], grid: &[$t], y: *mut $t));

        #[inline(always)]
        unsafe fn $i<S: Simd>(g: &Grid, image: usize, some: Range<usize>, grid: &[$t], grad: &[$t], dx: *mut $t) {
            // SAFETY: the caller's promise.
            unsafe {
                match (g.volume, g.nearest) {
                    (false, false) => image_of::<$t, 2, 4>(g, image, some, grid, grad, dx),
                    (false, true) => image_of::<$t, 2, 1>(g, image, some, grid, grad, dx),
                    (true, false) => image_of::<$t, 3, 8>(g, image, some, grid, grad, dx),
                    (true, true) => image_of::<$t, 3, 1>(g, image, some, grid, grad, dx),
                }
            }
        }
        dispatch!(pub(super) unsafe fn $image = $i(g: &Grid, image: usize, some: Range<usize>, grid: &[$t], grad: &[$t], dx: *mut $t));

        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        unsafe fn $p<S: Simd>(g: &Grid, image: usize, some: Range<usize>, x: &[$t], grid: &[$t], grad: &[$t], dgrid: *mut $t) {
            // SAFETY: the caller's promise.
            unsafe {
                match g.volume {
                    false => positions_of::<$t, 2, 4>(g, image, some, x, grid, grad, dgrid),
                    true => positions_of::<$t, 3, 8>(g, image, some, x, grid, grad, dgrid),
                }
            }
        }
        dispatch!(pub(super) unsafe fn $positions = $p(g: &Grid, image: usize, some: Range<usize>, x: &[$t], grid: &[$t], grad: &[$t], dgrid: *mut $t));
    };
}
loops!(f32, forward_f32 image_f32 positions_f32, forward_single image_single positions_single);
loops!(f64, forward_f64 image_f64 positions_f64, forward_double image_double positions_double);
