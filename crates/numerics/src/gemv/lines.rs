//! The loops over lines of a long operand: dot products with them, and sums of them.

use crate::chip::chip;
use crate::gemm::lanes::Lanes;
use crate::simd::{Isa, dispatch, prefetch, prefetch_second};

/// Vectors of the short side that meet a row at once, at most: registers hold their sums.
pub(crate) const TOGETHER: usize = 6;

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
    /// Eight, not asked for: 64 MiB take a Zen 5 0.87 ms so, and 0.94 to 0.98 the other ways.
    EightUnasked,
}

impl Manner {
    /// That of the chip this runs on.
    #[inline(always)]
    pub(crate) fn here() -> Manner {
        let chip = chip();
        if chip.looks_ahead {
            Manner::EightUnasked
        } else if chip.intel {
            Manner::Eight
        } else {
            Manner::Four
        }
    }

    /// Asks for what is ahead of a number.
    #[inline(always)]
    pub(crate) fn ask<T>(self, p: *const T) {
        match self {
            Manner::Four => prefetch_second(p.wrapping_byte_add(4096)),
            Manner::Eight => prefetch(p.wrapping_byte_add(1024)),
            Manner::EightUnasked => {}
        }
    }
}

/// Rows of an operand and the step between two.
pub(crate) type Rows<T> = (*const T, usize);

/// What [`Line::dot`] reads and writes.
pub(crate) struct Dots<T> {
    /// Vectors, at most [`TOGETHER`], rows, and numbers of each.
    pub sizes: (usize, usize, usize),
    /// The rows, and the step between two.
    pub rows: (*const T, isize),
    /// The vectors, one behind the other.
    pub x: *const T,
    pub out: *mut T,
    /// Steps of the results from a vector to the next and from a row to the next.
    pub steps: (isize, isize),
}

/// Rows from `from` on, `R` of them, times `M` vectors of `k` numbers. A row too many is the last one again.
#[inline(always)]
unsafe fn dot_of<T: Line, S: Lanes<T>, const M: usize, const R: usize>(manner: Manner, from: usize, d: &Dots<T>) {
    let (_, count, k) = d.sizes;
    let row = |r: usize| (from + r).min(count - 1) as isize;
    // SAFETY: the caller gives `k` numbers in each row and vector, and a place for each product.
    unsafe {
        let rows: [*const T; R] = std::array::from_fn(|r| d.rows.0.offset(row(r) * d.rows.1));
        let mut sums = [[S::zero(); R]; M];
        let whole = k / S::LANES * S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            (0..R).for_each(|r| manner.ask(rows[r].wrapping_add(p)));
            let v: [S::V; R] = std::array::from_fn(|r| S::load(rows[r].add(p)));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load(d.x.add(i * k + p));
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        if whole < k {
            let n = k - whole;
            let v: [S::V; R] = std::array::from_fn(|r| S::load_first(rows[r].add(whole), n));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load_first(d.x.add(i * k + whole), n);
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        // Four at a time, the last of them again where there are fewer.
        for first in (0..M * R).step_by(4) {
            let place = |n: usize| ((first + n).min(M * R - 1) / R, (first + n).min(M * R - 1) % R);
            let four = S::sums(std::array::from_fn(|n| sums[place(n).0][place(n).1]));
            for (n, sum) in four.into_iter().enumerate() {
                let (i, r) = place(n);
                *d.out.offset(i as isize * d.steps.0 + row(r) * d.steps.1) = sum;
            }
        }
    }
}

/// All rows, as many at a time as the chip likes and registers hold the sums of.
#[inline(always)]
unsafe fn dots_of<T: Line, S: Lanes<T>, const M: usize>(manner: Manner, d: &Dots<T>) {
    let registers = if S::LANES * size_of::<T>() == 64 { 32 } else { 16 };
    let fits = |rows: usize| M * rows + rows < registers;
    let (_, count, _) = d.sizes;
    let mut from = 0;
    // SAFETY: the caller's promise.
    unsafe {
        if fits(8) && !matches!(manner, Manner::Four) {
            while count - from > 4 {
                dot_of::<T, S, M, 8>(manner, from, d);
                from = count.min(from + 8);
            }
        }
        if fits(4) {
            (from..count).step_by(4).for_each(|from| dot_of::<T, S, M, 4>(manner, from, d));
        } else {
            (from..count).step_by(2).for_each(|from| dot_of::<T, S, M, 2>(manner, from, d));
        }
    }
}

#[inline(always)]
unsafe fn any_dot<T: Line, S: Lanes<T>>(d: &Dots<T>) {
    let manner = Manner::here();
    // SAFETY: the caller's promise.
    unsafe {
        match d.sizes.0 {
            1 => dots_of::<T, S, 1>(manner, d),
            2 => dots_of::<T, S, 2>(manner, d),
            3 => dots_of::<T, S, 3>(manner, d),
            4 => dots_of::<T, S, 4>(manner, d),
            5 => dots_of::<T, S, 5>(manner, d),
            _ => dots_of::<T, S, 6>(manner, d),
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

/// `acc[i, j] = sum over k of x[i, k] * rows[k, j]` for `M` vectors and rows of `W` vectors' width: the sums stay in registers.
/// Every fourth row has sums of its own, as each addition to one waits for the one before.
#[inline(always)]
unsafe fn narrow<T: Line, S: Lanes<T>, const M: usize, const W: usize>(
    (n, k): (usize, usize),
    (rows, step): Rows<T>,
    (x, x_step): Rows<T>,
    (acc, pitch): (*mut T, usize),
) {
    // SAFETY: the caller gives `k` rows of `n` numbers, `M` vectors, and room for `M` rows.
    unsafe {
        let last = n - (W - 1) * S::LANES;
        let mut sums = [[[S::zero(); W]; M]; 4];
        let add = |p: usize, sums: &mut [[S::V; W]; M]| {
            let row = rows.add(p * step);
            let v: [S::V; W] =
                std::array::from_fn(|w| S::load_first(row.add(w * S::LANES), if w + 1 == W { last } else { S::LANES }));
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = S::splat(*x.add(i * x_step + p));
                *sums = std::array::from_fn(|w| S::fma(x, v[w], sums[w]));
            }
        };
        let whole = k / 4 * 4;
        for p in (0..whole).step_by(4) {
            (0..4).for_each(|c| add(p + c, &mut sums[c]));
        }
        (whole..k).for_each(|p| add(p, &mut sums[0]));
        for (i, w) in (0..M).flat_map(|i| (0..W).map(move |w| (i, w))) {
            let sum = S::add(S::add(sums[0][i][w], sums[1][i][w]), S::add(sums[2][i][w], sums[3][i][w]));
            S::store_first(acc.add(i * pitch + w * S::LANES), sum, if w + 1 == W { last } else { S::LANES });
        }
    }
}

/// Whether sums of `n` numbers for each of `m` vectors are so few that they all stay in registers, and so few that tiles
/// of a product would wait for each addition.
pub(crate) fn is_narrow<T>(isa: Isa, m: usize, n: usize) -> bool {
    m * n.div_ceil(isa.lanes() * 4 / size_of::<T>()) < 4
}

/// `acc[i, j] = sum over k of x[i, k] * rows[k, j]`, eight rows at a time where sums go through memory.
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
        match (m, n.div_ceil(S::LANES)) {
            (1, 1) => return narrow::<T, S, 1, 1>((n, k), rows, x, (acc, pitch)),
            (1, 2) => return narrow::<T, S, 1, 2>((n, k), rows, x, (acc, pitch)),
            (1, 3) => return narrow::<T, S, 1, 3>((n, k), rows, x, (acc, pitch)),
            (2, 1) => return narrow::<T, S, 2, 1>((n, k), rows, x, (acc, pitch)),
            (3, 1) => return narrow::<T, S, 3, 1>((n, k), rows, x, (acc, pitch)),
            _ => {}
        }
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
    /// The products of vectors with rows.
    ///
    /// # Safety
    ///
    /// There is at least one row, all rows and vectors have their numbers, and results a place that is the caller's alone.
    unsafe fn dot(isa: Isa, d: &Dots<Self>);

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
            unsafe fn dot(isa: Isa, d: &Dots<$t>) {
                #[inline(always)]
                unsafe fn body<S: Lanes<$t>>(d: &Dots<$t>) {
                    // SAFETY: the caller's promise.
                    unsafe { any_dot::<$t, S>(d) }
                }
                dispatch!(unsafe fn dot = body(d: &Dots<$t>));
                // SAFETY: the caller's promise.
                unsafe { dot(isa, d) }
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
