//! The loops over lines of a long operand: dot products with them, and sums of them.

use crate::chip::chip;
use crate::gemm::lanes::Lanes;
use crate::simd::{Isa, dispatch, prefetch, prefetch_second};

/// Vectors of the short side that meet a row at once, at most: registers hold their sums.
pub(crate) const TOGETHER: usize = 6;

/// Rows of the long side that are given at once.
pub(crate) const ROWS: usize = 8;

/// How a chip likes rows to be read. A row that streams by throws the vectors out of the L1 cache, so that each group of rows
/// reads them again from the L2 cache: on Zen 4 with four rows that is a tenth of the time less than with two, and more rows
/// are slower again. On an Ice Lake server each row is a stream that the hardware follows by itself, and one core may wait for
/// more lines than four of them ask for: 64 MiB take 3.0 ms four rows at a time and 2.8 eight at a time.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Four rows at a time, each asked for a page ahead, beyond which the hardware does not look: to the second cache, as requests
    /// to the first one are slower than none.
    Four,
    /// Eight, each asked for a little ahead: to the first cache, as requests to the second one are slower than none.
    Eight,
}

impl Manner {
    /// That of the chip this runs on.
    #[inline(always)]
    pub(crate) fn here() -> Manner {
        if chip().intel { Manner::Eight } else { Manner::Four }
    }

    /// Asks for what is ahead of a number.
    #[inline(always)]
    pub(crate) fn ask<T>(self, p: *const T) {
        match self {
            Manner::Four => prefetch_second(p.wrapping_byte_add(4096)),
            Manner::Eight => prefetch(p.wrapping_byte_add(1024)),
        }
    }
}

/// What [`Line::dot`] writes: a vector's products with each row.
pub(crate) type Products<T> = [[T; ROWS]; TOGETHER];

/// Rows of an operand and the step between two.
pub(crate) type Rows<T> = (*const T, usize);

/// Rows from `R * g` on, `R` of them, times `M` vectors of `k` numbers.
#[inline(always)]
unsafe fn dot_of<T: Line, S: Lanes<T>, const M: usize, const R: usize>(
    manner: Manner,
    g: usize,
    k: usize,
    rows: &[*const T; ROWS],
    x: *const T,
    out: &mut Products<T>,
) {
    // SAFETY: the caller gives `k` numbers in each row and vector.
    unsafe {
        let rows: [*const T; R] = std::array::from_fn(|r| rows[R * g + r]);
        let mut sums = [[S::zero(); R]; M];
        let whole = k / S::LANES * S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            (0..R).for_each(|r| manner.ask(rows[r].wrapping_add(p)));
            let v: [S::V; R] = std::array::from_fn(|r| S::load(rows[r].add(p)));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load(x.add(i * k + p));
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        if whole < k {
            let n = k - whole;
            let v: [S::V; R] = std::array::from_fn(|r| S::load_first(rows[r].add(whole), n));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load_first(x.add(i * k + whole), n);
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        // Four at a time, the last of them again where there are fewer.
        for first in (0..M * R).step_by(4) {
            let place = |n: usize| ((first + n).min(M * R - 1) / R, (first + n).min(M * R - 1) % R);
            let four = S::sums(std::array::from_fn(|n| sums[place(n).0][place(n).1]));
            four.into_iter().enumerate().for_each(|(n, sum)| out[place(n).0][R * g + place(n).1] = sum);
        }
    }
}

/// The first `count` rows, as many at a time as the chip likes and registers hold the sums of.
#[inline(always)]
unsafe fn dots_of<T: Line, S: Lanes<T>, const M: usize>(
    manner: Manner,
    count: usize,
    k: usize,
    rows: &[*const T; ROWS],
    x: *const T,
    out: &mut Products<T>,
) {
    let registers = if S::LANES * size_of::<T>() == 64 { 32 } else { 16 };
    let fits = |rows: usize| M * rows + rows < registers;
    // SAFETY: the caller's promise.
    unsafe {
        if fits(8) && matches!(manner, Manner::Eight) && count > 4 {
            dot_of::<T, S, M, 8>(manner, 0, k, rows, x, out);
        } else if fits(4) {
            (0..count.div_ceil(4)).for_each(|g| dot_of::<T, S, M, 4>(manner, g, k, rows, x, out));
        } else {
            (0..count.div_ceil(2)).for_each(|g| dot_of::<T, S, M, 2>(manner, g, k, rows, x, out));
        }
    }
}

#[inline(always)]
unsafe fn any_dot<T: Line, S: Lanes<T>>(
    (m, count, k): (usize, usize, usize),
    rows: &[*const T; ROWS],
    x: *const T,
    out: &mut Products<T>,
) {
    let manner = Manner::here();
    // SAFETY: the caller's promise.
    unsafe {
        match m {
            1 => dots_of::<T, S, 1>(manner, count, k, rows, x, out),
            2 => dots_of::<T, S, 2>(manner, count, k, rows, x, out),
            3 => dots_of::<T, S, 3>(manner, count, k, rows, x, out),
            4 => dots_of::<T, S, 4>(manner, count, k, rows, x, out),
            5 => dots_of::<T, S, 5>(manner, count, k, rows, x, out),
            _ => dots_of::<T, S, 6>(manner, count, k, rows, x, out),
        }
    }
}

/// `acc[i, j] += sum over R of x[i, p + r] * rows[p + r, j]`.
#[inline(always)]
unsafe fn add_rows<T: Line, S: Lanes<T>, const R: usize>(
    manner: Manner,
    (m, n, p): (usize, usize, usize),
    (rows, step): Rows<T>,
    (x, x_step): Rows<T>,
    (acc, pitch): (*mut T, usize),
) {
    // SAFETY: the caller gives `R` rows of `n` numbers from row `p` on, `m` vectors, and room for
    // `m` rows.
    unsafe {
        for j in (0..n).step_by(S::LANES) {
            let left = (n - j).min(S::LANES);
            (0..R).for_each(|r| manner.ask(rows.wrapping_add((p + r) * step + j)));
            let v: [S::V; R] = std::array::from_fn(|r| S::load_first(rows.add((p + r) * step + j), left));
            for i in 0..m {
                let (at, x) = (acc.add(i * pitch + j), x.add(i * x_step + p));
                let mut s = S::load_first(at, left);
                for (r, v) in v.into_iter().enumerate() {
                    s = S::fma(S::splat(*x.add(r)), v, s);
                }
                S::store_first(at, s, left);
            }
        }
    }
}

/// `acc[i, j] = sum over k of x[i, k] * rows[k, j]`, eight rows at a time.
#[inline(always)]
unsafe fn any_axpy<T: Line, S: Lanes<T>>(
    (m, n, k): (usize, usize, usize),
    rows: Rows<T>,
    x: Rows<T>,
    acc: *mut T,
    pitch: usize,
) {
    let manner = Manner::here();
    // SAFETY: the caller gives `k` rows of `n` numbers, `m` vectors of `k`, and room for `m` rows.
    unsafe {
        for i in 0..m {
            std::slice::from_raw_parts_mut(acc.add(i * pitch), n).fill(T::default());
        }
        let (eight, four) = (k / 8 * 8, k / 4 * 4);
        (0..eight).step_by(8).for_each(|p| add_rows::<T, S, 8>(manner, (m, n, p), rows, x, (acc, pitch)));
        (eight..four).step_by(4).for_each(|p| add_rows::<T, S, 4>(manner, (m, n, p), rows, x, (acc, pitch)));
        (four..k).for_each(|p| add_rows::<T, S, 1>(manner, (m, n, p), rows, x, (acc, pitch)));
    }
}

/// Numbers that there are such loops for.
pub(crate) trait Line:
    crate::scratch::Plain + Copy + Default + std::ops::Add<Output = Self> + Send + Sync + 'static
{
    /// The products of `m` vectors of `k` numbers, one behind the other, with each of `count` rows.
    ///
    /// # Safety
    ///
    /// All of them may be read, all [`ROWS`] of them, and there are no more vectors than [`TOGETHER`].
    unsafe fn dot(
        isa: Isa,
        sizes: (usize, usize, usize),
        rows: &[*const Self; ROWS],
        x: *const Self,
        out: &mut Products<Self>,
    );

    /// `acc[i, j] = sum over k of x[i, k] * rows[k, j]`, for `m` by `n` by `k`.
    ///
    /// # Safety
    ///
    /// There are `k` rows of `n` numbers, `m` vectors of `k`, and room for `m` rows, `pitch` apart.
    unsafe fn axpy(
        isa: Isa,
        sizes: (usize, usize, usize),
        rows: Rows<Self>,
        x: Rows<Self>,
        acc: *mut Self,
        pitch: usize,
    );
}

/// The loops of a type: the macro that chooses vectors takes functions that are generic over them alone.
macro_rules! line {
    ($t:ty) => {
        impl Line for $t {
            unsafe fn dot(
                isa: Isa,
                sizes: (usize, usize, usize),
                rows: &[*const $t; ROWS],
                x: *const $t,
                out: &mut Products<$t>,
            ) {
                #[inline(always)]
                unsafe fn body<S: Lanes<$t>>(
                    sizes: (usize, usize, usize),
                    rows: &[*const $t; ROWS],
                    x: *const $t,
                    out: &mut Products<$t>,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { any_dot::<$t, S>(sizes, rows, x, out) }
                }
                dispatch!(unsafe fn dot = body(sizes: (usize, usize, usize), rows: &[*const $t; ROWS], x: *const $t, out: &mut Products<$t>));
                // SAFETY: the caller's promise.
                unsafe { dot(isa, sizes, rows, x, out) }
            }

            unsafe fn axpy(
                isa: Isa,
                sizes: (usize, usize, usize),
                rows: Rows<$t>,
                x: Rows<$t>,
                acc: *mut $t,
                pitch: usize,
            ) {
                #[inline(always)]
                unsafe fn body<S: Lanes<$t>>(
                    sizes: (usize, usize, usize),
                    rows: Rows<$t>,
                    x: Rows<$t>,
                    acc: *mut $t,
                    pitch: usize,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { any_axpy::<$t, S>(sizes, rows, x, acc, pitch) }
                }
                dispatch!(unsafe fn axpy = body(sizes: (usize, usize, usize), rows: Rows<$t>, x: Rows<$t>, acc: *mut $t, pitch: usize));
                // SAFETY: the caller's promise.
                unsafe { axpy(isa, sizes, rows, x, acc, pitch) }
            }
        }
    };
}
line!(f32);
line!(f64);
