//! The innermost loops of a product: a tile of `C` in registers, over a panel of `B` of one to three
//! vectors' width.

use crate::simd::{Simd, dispatch};

/// Some rows of `C` over the columns of a panel, and what they are made of.
#[derive(Clone, Copy)]
pub(crate) struct Strip {
    pub rows: usize,
    /// Columns of the panel that are there: `B`'s rows have whole vectors, of zeros beyond them.
    pub columns: usize,
    pub depth: usize,
    pub a: *const f32,
    /// Steps of `A` along its rows and along the sum.
    pub a_steps: (usize, usize),
    pub b: *const f32,
    pub b_row: usize,
    pub c: *mut f32,
    pub c_row: usize,
    /// Whether to add to what `C` holds.
    pub add: bool,
}

/// One tile of `R` rows and `W` vectors.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const W: usize>(s: &Strip, i: usize) {
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
unsafe fn strip_of<S: Simd, const W: usize>(s: &Strip) {
    let most = (S::ROWS * 3 / W).min(12);
    let tiles = s.rows.div_ceil(most);
    let mut i = 0;
    for t in 0..tiles {
        let rows = (s.rows - i).div_ceil(tiles - t);
        // SAFETY: the caller's promise.
        unsafe {
            match rows {
                1 => tile::<S, 1, W>(s, i),
                2 => tile::<S, 2, W>(s, i),
                3 => tile::<S, 3, W>(s, i),
                4 => tile::<S, 4, W>(s, i),
                5 => tile::<S, 5, W>(s, i),
                6 => tile::<S, 6, W>(s, i),
                7 => tile::<S, 7, W>(s, i),
                8 => tile::<S, 8, W>(s, i),
                9 => tile::<S, 9, W>(s, i),
                10 => tile::<S, 10, W>(s, i),
                11 => tile::<S, 11, W>(s, i),
                _ => tile::<S, 12, W>(s, i),
            }
        }
        i += rows;
    }
}

#[inline(always)]
unsafe fn strip_body<S: Simd>(s: &Strip) {
    // SAFETY: the caller's promise.
    unsafe {
        match s.columns.div_ceil(S::LANES) {
            1 => strip_of::<S, 1>(s),
            2 => strip_of::<S, 2>(s),
            _ => strip_of::<S, 3>(s),
        }
    }
}
dispatch! {
    /// Multiplies a strip of at most three vectors of columns. Every element of `C` is one sum over
    /// the depth, in order.
    ///
    /// # Safety
    ///
    /// All elements lie in memory that may be read (those of `B` up to whole vectors) and, for `C`,
    /// written by this thread alone.
    pub(crate) unsafe fn strip = strip_body(s: &Strip)
}

/// A panel of `B`: `depth` rows of up to three vectors, and where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    pub depth: usize,
    pub columns: usize,
    pub b: *const f32,
    /// Steps along the sum and along the columns.
    pub steps: (usize, usize),
}

#[inline(always)]
unsafe fn pack_body<S: Simd>(p: &Panel, to: *mut f32, row: usize) {
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
                // A block with an edge, by way of a whole one.
                let mut block = [[0.0f32; 16]; 32];
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
dispatch! {
    /// Copies a panel to rows of whole vectors, `row` apart, with zeros beyond its columns.
    ///
    /// # Safety
    ///
    /// The panel's elements may be read, and there is room at `to`.
    pub(crate) unsafe fn pack_panel = pack_body(p: &Panel, to: *mut f32, row: usize)
}
