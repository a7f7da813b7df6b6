//! The innermost loops of a product: a tile of `C` in registers, over a panel of `B` of one to three
//! vectors' width.

use super::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use super::wide;
use crate::gemv::{Dots, Line};
use crate::simd::{Isa, dispatch};

/// Some rows of `C` over the columns of a panel, and what they are made of.
#[derive(Clone, Copy)]
pub(crate) struct Strip<T = f32> {
    pub rows: usize,
    /// Columns of the panel that are there: `B`'s rows have whole vectors, of zeros beyond them.
    pub columns: usize,
    pub depth: usize,
    pub a: *const T,
    /// Steps of `A` along its rows and along the sum.
    pub a_steps: (usize, usize),
    pub b: *const T,
    pub b_row: usize,
    pub c: *mut T,
    pub c_row: usize,
    /// Whether to add to what `C` holds.
    pub add: bool,
}

/// One tile of `R` rows and `W` vectors.
#[inline(always)]
unsafe fn tile<T: Copy, S: Lanes<T>, const R: usize, const W: usize>(s: &Strip<T>, i: usize) {
    // Tiles of more sums than registers are never asked for, and need not be compiled.
    if R * W > S::ROWS * 3 {
        return;
    }
    // SAFETY: the rows are inside the strip, whose pointers are valid by the caller's promise.
    unsafe {
        let (rs, ks) = s.a_steps;
        let (mut a, mut b) = (s.a.wrapping_add(i * rs), s.b);
        let mut sums = [[S::zero(); W]; R];
        for _ in 0..s.depth {
            let v: [S::V; W] = std::array::from_fn(|w| S::load(b.add(w * S::LANES)));
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = S::splat(*a.add(r * rs));
                for (sum, v) in sums.iter_mut().zip(v) {
                    *sum = S::fma(x, v, *sum);
                }
            }
            a = a.wrapping_add(ks);
            b = b.wrapping_add(s.b_row);
        }
        let last = s.columns - (W - 1) * S::LANES;
        let c = s.c.wrapping_add(i * s.c_row);
        for (r, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                let at = c.wrapping_add(r * s.c_row + w * S::LANES);
                if w + 1 < W || last == S::LANES {
                    S::store(at, if s.add { S::add(S::load(at), sum) } else { sum });
                } else {
                    S::store_first(at, if s.add { S::add(S::load_first(at, last), sum) } else { sum }, last);
                }
            }
        }
    }
}

/// All rows, in tiles of as equal heights as can be.
#[inline(always)]
unsafe fn strip_of<T: Copy, S: Lanes<T>, const W: usize>(s: &Strip<T>) {
    let most = (S::ROWS * 3 / W).min(12);
    let tiles = s.rows.div_ceil(most);
    let mut i = 0;
    for t in 0..tiles {
        let rows = (s.rows - i).div_ceil(tiles - t);
        // SAFETY: the caller's promise.
        unsafe {
            match rows {
                1 => tile::<T, S, 1, W>(s, i),
                2 => tile::<T, S, 2, W>(s, i),
                3 => tile::<T, S, 3, W>(s, i),
                4 => tile::<T, S, 4, W>(s, i),
                5 => tile::<T, S, 5, W>(s, i),
                6 => tile::<T, S, 6, W>(s, i),
                7 => tile::<T, S, 7, W>(s, i),
                8 => tile::<T, S, 8, W>(s, i),
                9 => tile::<T, S, 9, W>(s, i),
                10 => tile::<T, S, 10, W>(s, i),
                11 => tile::<T, S, 11, W>(s, i),
                _ => tile::<T, S, 12, W>(s, i),
            }
        }
        i += rows;
    }
}

#[inline(always)]
unsafe fn any_strip<T: Copy, S: Lanes<T>>(s: &Strip<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match s.columns.div_ceil(S::LANES) {
            1 => strip_of::<T, S, 1>(s),
            2 => strip_of::<T, S, 2>(s),
            _ => strip_of::<T, S, 3>(s),
        }
    }
}
#[inline(always)]
unsafe fn strip_body<S: Lanes<f32>>(s: &Strip) {
    // SAFETY: the caller's promise.
    unsafe { any_strip::<f32, S>(s) }
}
#[inline(always)]
unsafe fn strip64_body<S: Lanes<f64>>(s: &Strip<f64>) {
    // SAFETY: the caller's promise.
    unsafe { any_strip::<f64, S>(s) }
}
dispatch!(unsafe fn plain_strip = strip_body(s: &Strip));
dispatch!(unsafe fn plain_strip64 = strip64_body(s: &Strip<f64>));

/// Multiplies a strip of at most three vectors of columns. Every element of `C` is one sum over
/// the depth, in order.
///
/// # Safety
///
/// All elements lie in memory that may be read (those of `B` up to whole vectors) and, for `C`,
/// written by this thread alone.
pub(crate) unsafe fn strip<T: Tiled>(isa: Isa, s: &Strip<T>) {
    #[cfg(target_arch = "x86_64")]
    if wide::does(isa, s) {
        // SAFETY: the caller's promise.
        return unsafe { wide::strip(s) };
    }
    // SAFETY: the caller's promise.
    unsafe { T::plain_strip(isa, s) }
}

/// A panel of `B`: `depth` rows of up to three vectors, and where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Panel<T = f32> {
    pub depth: usize,
    pub columns: usize,
    pub b: *const T,
    /// Steps along the sum and along the columns.
    pub steps: (usize, usize),
}

#[inline(always)]
unsafe fn any_pack<T: Copy + Default, S: Lanes<T>>(p: &Panel<T>, to: *mut T, row: usize) {
    let vectors = p.columns.div_ceil(S::LANES);
    let last = p.columns - (vectors - 1) * S::LANES;
    // SAFETY: the caller gives a panel inside `B` and room for whole vectors of each row.
    unsafe {
        if p.steps.1 == 1 {
            for k in 0..p.depth {
                let (from, to) = (p.b.add(k * p.steps.0), to.add(k * row));
                for w in 0..vectors - 1 {
                    S::store(to.add(w * S::LANES), S::load(from.add(w * S::LANES)));
                }
                let w = (vectors - 1) * S::LANES;
                S::store(to.add(w), S::load_first(from.add(w), last));
            }
            return;
        }
        for w in 0..vectors {
            let count = if w + 1 == vectors { last } else { S::LANES };
            let (from, to) = (p.b.add(w * S::LANES * p.steps.1), to.add(w * S::LANES));
            for k in (0..p.depth).step_by(S::LANES) {
                let (from, to, deep) = (from.add(k * p.steps.0), to.add(k * row), S::LANES.min(p.depth - k));
                if p.steps.0 == 1 && count == S::LANES && deep == S::LANES {
                    S::transpose(from, p.steps.1, to, row);
                    continue;
                }
                if count * deep <= 64 {
                    // Few numbers: one by one, which is less than to turn a whole block.
                    for k in 0..deep {
                        S::store(to.add(k * row), S::zero());
                        (0..count).for_each(|j| *to.add(k * row + j) = *from.add(j * p.steps.1 + k * p.steps.0));
                    }
                    continue;
                }
                // A block with an edge, by way of a whole one.
                let mut block = [[T::default(); 16]; 32];
                for (j, line) in block.iter_mut().enumerate().take(count) {
                    if p.steps.0 == 1 {
                        S::store(line.as_mut_ptr(), S::load_first(from.add(j * p.steps.1), deep));
                    } else {
                        for (k, x) in line.iter_mut().enumerate().take(deep) {
                            *x = *from.add(j * p.steps.1 + k * p.steps.0);
                        }
                    }
                }
                let (block, turned) = block.split_at_mut(16);
                S::transpose(block.as_ptr().cast(), 16, turned.as_mut_ptr().cast(), 16);
                for (k, turned) in turned.iter().enumerate().take(deep) {
                    S::store(to.add(k * row), S::load(turned.as_ptr()));
                }
            }
        }
    }
}
#[inline(always)]
unsafe fn pack_body<S: Lanes<f32>>(p: &Panel, to: *mut f32, row: usize) {
    // SAFETY: the caller's promise.
    unsafe { any_pack::<f32, S>(p, to, row) }
}
#[inline(always)]
unsafe fn pack64_body<S: Lanes<f64>>(p: &Panel<f64>, to: *mut f64, row: usize) {
    // SAFETY: the caller's promise.
    unsafe { any_pack::<f64, S>(p, to, row) }
}
dispatch! {
    /// Copies a panel to rows of whole vectors, `row` apart, with zeros beyond its columns.
    ///
    /// # Safety
    ///
    /// The panel's elements may be read, and there is room at `to`.
    pub(crate) unsafe fn pack_panel = pack_body(p: &Panel, to: *mut f32, row: usize)
}
dispatch!(unsafe fn pack64 = pack64_body(p: &Panel<f64>, to: *mut f64, row: usize));

/// Numbers that panels are made of.
pub(crate) trait Tiled: Line {
    /// Numbers in a vector.
    fn lanes(isa: Isa) -> usize;
    /// So many rows and vectors written out in AVX-512; its safety is that of what it stands for.
    #[cfg(target_arch = "x86_64")]
    const TILE: unsafe fn(usize, usize, &wide::Tile);
    /// A [`strip`] of any width of vectors and any steps.
    unsafe fn plain_strip(isa: Isa, s: &Strip<Self>);
    /// [`pack_panel`].
    unsafe fn pack(isa: Isa, p: &Panel<Self>, to: *mut Self, row: usize);
}

/// A few columns of `C`: `k` contiguous numbers in each row of `A` and in each of `count` columns of `B`.
pub(super) struct Columns<T> {
    pub rows: usize,
    pub k: usize,
    pub count: usize,
    pub a: *const T,
    pub a_row: usize,
    /// Columns one behind the other.
    pub b: *const T,
    pub c: *mut T,
    pub c_row: usize,
}

/// [`Columns`] that are sums along rows of `A`.
///
/// # Safety
///
/// All of it may be read, and written by this thread alone; there is a row, and there are no more columns than
/// [`TOGETHER`](crate::gemv::TOGETHER).
pub(super) unsafe fn columns<T: Line>(isa: Isa, s: &Columns<T>) {
    let d = Dots {
        sizes: (s.count, s.rows, s.k),
        rows: (s.a, s.a_row as isize),
        x: s.b,
        out: s.c,
        steps: (1, s.c_row as isize),
    };
    // SAFETY: the caller's promise.
    unsafe { T::dot(isa, &d) }
}

impl Tiled for f32 {
    #[cfg(target_arch = "x86_64")]
    const TILE: unsafe fn(usize, usize, &wide::Tile) = wide::singles;

    fn lanes(isa: Isa) -> usize {
        isa.lanes()
    }
    unsafe fn plain_strip(isa: Isa, s: &Strip) {
        // SAFETY: the caller's promise.
        unsafe { plain_strip(isa, s) }
    }
    unsafe fn pack(isa: Isa, p: &Panel, to: *mut f32, row: usize) {
        // SAFETY: the caller's promise.
        unsafe { pack_panel(isa, p, to, row) }
    }
}

impl Tiled for f64 {
    #[cfg(target_arch = "x86_64")]
    const TILE: unsafe fn(usize, usize, &wide::Tile) = wide::doubles;

    fn lanes(isa: Isa) -> usize {
        isa.lanes() / 2
    }
    unsafe fn plain_strip(isa: Isa, s: &Strip<f64>) {
        // SAFETY: the caller's promise.
        unsafe { plain_strip64(isa, s) }
    }
    unsafe fn pack(isa: Isa, p: &Panel<f64>, to: *mut f64, row: usize) {
        // SAFETY: the caller's promise.
        unsafe { pack64(isa, p, to, row) }
    }
}
