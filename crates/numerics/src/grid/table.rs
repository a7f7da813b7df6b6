//! The elements around positions.

// One number counts through several arrays.
#![allow(clippy::needless_range_loop)]

use super::{Grid, Outside};
use std::ops::{Add, Mul, Neg, Range, Sub};

/// Positions that are worked out together.
pub(super) const MOST: usize = 128;

/// Numbers that positions are.
pub(super) trait Number:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn of(n: usize) -> Self;
    fn floor(self) -> Self;
    /// The nearest whole number, halves to even.
    fn near(self) -> Self;
    /// A whole number from 0 to 2^24 as an index.
    ///
    /// # Safety
    ///
    /// It is one: without that promise vectors would be looked at number by number.
    unsafe fn index(self) -> i32;
}

macro_rules! number {
    ($t:ty) => {
        impl Number for $t {
            #[inline(always)]
            fn of(n: usize) -> $t {
                n as $t
            }
            #[inline(always)]
            fn floor(self) -> $t {
                <$t>::floor(self)
            }
            #[inline(always)]
            fn near(self) -> $t {
                self.round_ties_even()
            }
            #[inline(always)]
            unsafe fn index(self) -> i32 {
                // SAFETY: the caller's promise.
                unsafe { self.to_int_unchecked() }
            }
        }
    };
}
number!(f32);
number!(f64);

/// For some positions the `K` elements around each: places in a plane, which of them are inside, and their weights. All loops
/// go over whole arrays, whatever the number of positions, so that they are loops over vectors.
pub(super) struct Table<T, const D: usize, const K: usize> {
    pub at: [[i32; MOST]; K],
    /// Not zero where they are.
    pub inside: [[i32; MOST]; K],
    pub weight: [[T; MOST]; K],
    /// Whether all are inside.
    pub whole: bool,
    /// How far each is beyond the element before it, along each axis.
    pub beyond: [[T; MOST]; D],
    /// Elements that a step of the position is, there.
    pub slope: [[T; MOST]; D],
    low: [[T; MOST]; D],
}

impl<T: Number, const D: usize, const K: usize> Table<T, D, K> {
    pub fn new() -> Self {
        let (zero, none) = ([[T::default(); MOST]; D], [[0; MOST]; K]);
        Table {
            at: none,
            inside: none,
            weight: [[T::default(); MOST]; K],
            whole: true,
            beyond: zero,
            slope: zero,
            low: zero,
        }
    }

    /// Works out the positions `some` (no more than [`MOST`]) of an image.
    #[inline(always)]
    pub fn fill(&mut self, g: &Grid, grid: &[T], some: Range<usize>) {
        let grid = &grid[some.start * D..some.end * D];
        for a in 0..D {
            let mut given = [T::default(); MOST];
            // The grid names the last axis first.
            given.iter_mut().zip(grid.chunks_exact(D)).for_each(|(to, at)| *to = at[D - 1 - a]);
            let edge = Edge::new(g, g.size[3 - D + a]);
            let to = (&mut self.low[a], &mut self.beyond[a], &mut self.slope[a]);
            match g.outside {
                Outside::Zeros => edge.along(&given, g.nearest, to, |x| (x, edge.step)),
                Outside::Border => edge.along(&given, g.nearest, to, |x| edge.clip(x, edge.step)),
                Outside::Reflection => edge.along(&given, g.nearest, to, |x| {
                    let (x, slope) = edge.reflect(x);
                    edge.clip(x, slope)
                }),
            }
        }
        let mut all = -1;
        for k in 0..K {
            let (at, inside, weight) = (&mut self.at[k], &mut self.inside[k], &mut self.weight[k]);
            (*at, *inside, *weight) = ([0; MOST], [-1; MOST], [T::of(1); MOST]);
            for a in 0..D {
                let size = g.size[3 - D + a];
                let (n, top, second) = (size as i32, T::of(size - 1), side(D, k, a));
                let (low, beyond) = (&self.low[a], &self.beyond[a]);
                for p in 0..MOST {
                    let x = if second { low[p] + T::of(1) } else { low[p] };
                    let within = (x >= T::default()) & (x <= top);
                    // What is far outside, or NaN, is no index.
                    let x = if within { x } else { T::default() };
                    inside[p] &= if within { -1 } else { 0 };
                    // SAFETY: a whole number within the axis.
                    at[p] = at[p] * n + unsafe { x.index() };
                    weight[p] = weight[p] * if second { beyond[p] } else { T::of(1) - beyond[p] };
                }
            }
            for p in 0..MOST {
                at[p] &= inside[p];
            }
            // (What is behind the last position is no position.)
            all &= inside.iter().take(some.len()).fold(-1, |all, inside| all & inside);
        }
        self.whole = all != 0;
    }
}

/// Whether element `k` around a position is the second along an axis.
#[inline(always)]
pub(super) fn side(axes: usize, k: usize, axis: usize) -> bool {
    k >> (axes - 1 - axis) & 1 == 1
}

/// One axis and what lies beyond it.
#[derive(Clone, Copy)]
struct Edge<T> {
    align: bool,
    size: T,
    top: T,
    /// Elements that a step of the position is.
    step: T,
}

impl<T: Number> Edge<T> {
    #[inline(always)]
    fn new(g: &Grid, size: usize) -> Self {
        let (n, top) = (T::of(size), T::of(size - 1));
        let step = (if g.align { top } else { n }) / T::of(2);
        Edge { align: g.align, size: n, top, step }
    }

    /// The elements before positions, how far these are beyond them, and their slopes, which are 0 where they were cut off:
    /// `inside` brings one inside where the padding says so.
    #[inline(always)]
    fn along(
        &self,
        given: &[T; MOST],
        nearest: bool,
        (low, beyond, slope): (&mut [T; MOST], &mut [T; MOST], &mut [T; MOST]),
        inside: impl Fn(T) -> (T, T),
    ) {
        let (one, half) = (T::of(1), T::of(1) / T::of(2));
        let scale = if self.align { self.step } else { self.size };
        for p in 0..MOST {
            let scaled = (given[p] + one) * scale;
            let (x, slant) = inside(if self.align { scaled } else { (scaled - one) * half });
            low[p] = if nearest { x.near() } else { x.floor() };
            beyond[p] = x - low[p];
            slope[p] = slant;
        }
    }

    #[inline(always)]
    fn clip(&self, x: T, slope: T) -> (T, T) {
        let zero = T::default();
        let (below, above) = (x <= zero, x >= self.top);
        let upper = if above { self.top } else { x };
        (if below { zero } else { upper }, if below | above { zero } else { slope })
    }

    #[inline(always)]
    fn reflect(&self, x: T) -> (T, T) {
        let zero = T::default();
        let half = T::of(1) / T::of(2);
        let (low, span) = if self.align { (zero, self.top) } else { (-half, self.size) };
        if span == zero {
            return (zero, zero);
        }
        let x = x - low;
        let back = x < zero;
        let x = if back { -x } else { x };
        // How often it crosses the whole axis.
        let flips = (x / span).floor();
        let extra = x - flips * span;
        let odd = flips - T::of(2) * (flips * half).floor() != zero;
        let x = if odd { span - extra } else { extra } + low;
        (x, if odd == back { self.step } else { -self.step })
    }
}
