//! The innermost loop of a convolution with output positions in the lanes: a few output channels
//! meet a few vectors of positions, whose inputs are read where they lie.

use super::indexed::Place;
use crate::simd::{Simd, dispatch_pairs};

/// Output channels over vectors of positions.
#[derive(Clone, Copy)]
pub(super) struct Strip<'a> {
    /// How many channels there are.
    pub channels: usize,
    /// The first channel's weights, and the step between channels.
    pub weights: *const f32,
    pub weights_row: usize,
    /// Elements of a patch: their places in `x` and their numbers.
    pub elements: &'a [Place],
    pub x: *const f32,
    /// Vectors: their places in `x`, and where their outputs go.
    pub vectors: &'a [Place],
    pub y: *mut f32,
    pub y_row: usize,
}

/// `R` channels by `W` vectors.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const W: usize>(s: &Strip<'_>, r: usize, v: usize) {
    // Tiles of more sums than registers are never asked for, and need not be compiled.
    if R * W > S::ROWS * 3 {
        return;
    }
    // SAFETY: channels and vectors are inside the strip, whose places the caller promises.
    unsafe {
        let x: [*const f32; W] = std::array::from_fn(|w| s.x.add(s.vectors.get_unchecked(v + w).at as usize));
        let weights = s.weights.add(r * s.weights_row);
        let mut sums = [[S::zero(); W]; R];
        for e in s.elements {
            let loaded: [S::V; W] = std::array::from_fn(|w| S::load(x[w].add(e.at as usize)));
            let a = weights.add(e.row as usize);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = S::splat(*a.add(r * s.weights_row));
                for (sum, x) in sums.iter_mut().zip(loaded) {
                    *sum = S::fma(a, x, *sum);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                let to = s.vectors.get_unchecked(v + w).row as usize;
                S::store(s.y.add((r + i) * s.y_row + to), sum);
            }
        }
    }
}

/// The most vectors that `rows` channels are taken with.
const fn widest<S: Simd>(rows: usize) -> usize {
    let most = match rows {
        0..=3 => 6,
        4 => 5,
        5 => 4,
        _ => 3,
    };
    let registers = S::ROWS * 3 / if rows == 0 { 1 } else { rows };
    if most < registers { most } else { registers }
}

/// `R` channels over all vectors, in tiles of as equal widths as can be.
#[inline(always)]
unsafe fn tiles<S: Simd, const R: usize>(s: &Strip<'_>, r: usize) {
    let tiles = s.vectors.len().div_ceil(const { widest::<S>(R) });
    let mut v = 0;
    for t in 0..tiles {
        let n = (s.vectors.len() - v).div_ceil(tiles - t);
        // SAFETY: the caller's promise.
        unsafe {
            match n {
                1 => tile::<S, R, 1>(s, r, v),
                2 => tile::<S, R, 2>(s, r, v),
                3 => tile::<S, R, 3>(s, r, v),
                4 if R < 6 => tile::<S, R, 4>(s, r, v),
                5 if R < 5 => tile::<S, R, 5>(s, r, v),
                _ if R < 4 => tile::<S, R, 6>(s, r, v),
                _ => {}
            }
        }
        v += n;
    }
}

#[inline(always)]
unsafe fn strip_body<S: Simd>(s: &Strip<'_>) {
    let groups = s.channels.div_ceil(S::ROWS);
    let mut r = 0;
    for g in 0..groups {
        let n = (s.channels - r).div_ceil(groups - g);
        // SAFETY: the caller's promise. There are never more than `ROWS`.
        unsafe {
            match n {
                1 => tiles::<S, 1>(s, r),
                2 => tiles::<S, 2>(s, r),
                3 => tiles::<S, 3>(s, r),
                4 => tiles::<S, 4>(s, r),
                5 if S::ROWS == 8 => tiles::<S, 5>(s, r),
                6 if S::ROWS == 8 => tiles::<S, 6>(s, r),
                7 if S::ROWS == 8 => tiles::<S, 7>(s, r),
                _ if S::ROWS == 8 => tiles::<S, 8>(s, r),
                _ => {}
            }
        }
        r += n;
    }
}
dispatch_pairs! {
    /// Every output is one sum over the elements, in order.
    ///
    /// # Safety
    ///
    /// Whole vectors may be read at all places of `x`, and written at those of `y`, by this thread
    /// alone.
    pub(super) unsafe fn strip = strip_body(s: &Strip<'_>)
}
