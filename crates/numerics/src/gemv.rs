//! Products with a side of at most sixteen: they take as long as the large operand takes to read.
//!
//! Where that operand's rows lie along the sum, rows meet the short side's vectors in dot products;
//! where they lie along the output, they are added up. Either way each of its lines is read once,
//! in long stretches.

use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, fold};
use crate::tasks::{Shared, for_tasks};

/// The longest short side.
pub(crate) const SHORT: usize = 16;

/// Vectors of the short side that meet a row at once, at most: registers hold their sums.
pub(crate) const TOGETHER: usize = 6;

/// The longest short side of which sums stay in the L1 cache beside long rows.
const SUMS: usize = 8;

/// Rows of the long side that meet them at once, at most. A row that streams by throws the vectors
/// out of the L1 cache, so that each group of rows reads them again from the L2 cache: with four
/// rows that is a tenth of the time less than with two, and more rows, or asking for them ahead of
/// the hardware, is slower again (`docs/performance.md`).
pub(crate) const ROWS: usize = 4;

/// Numbers ahead of which each row is asked for: a page, beyond which the hardware does not look. To the second cache, as
/// requests to the first one are slower than none.
const AHEAD: usize = 1024;

/// A matrix by its steps.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, T = f32> {
    pub data: &'a [T],
    pub offset: usize,
    pub rs: isize,
    pub cs: isize,
}

impl<'a, T> Strided<'a, T> {
    /// The transpose.
    pub(crate) fn turned(self) -> Strided<'a, T> {
        Strided { rs: self.cs, cs: self.rs, ..self }
    }
}

impl Strided<'_> {
    fn at(&self, i: usize, j: usize) -> usize {
        (self.offset as isize + i as isize * self.rs + j as isize * self.cs) as usize
    }

    /// Copies rows `0..m` of `k` numbers, contiguous.
    fn pack(&self, m: usize, k: usize, to: &mut [f32]) {
        for i in 0..m {
            for (j, to) in to[i * k..(i + 1) * k].iter_mut().enumerate() {
                *to = self.data[self.at(i, j)];
            }
        }
    }
}

/// `out[i, j] = sum over k of short[i, k] * long[k, j]`, for `m <= SHORT` rows and `n` columns,
/// the output at `c + i * rs + j * cs`. `false` where this is not the way.
///
/// # Safety
///
/// All positions are inside their arrays, and nobody else uses the output.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn short_rows(
    (m, n, k): (usize, usize, usize),
    short: Strided<'_>,
    long: Strided<'_>,
    c: *mut f32,
    rs: isize,
    cs: isize,
    parallel: bool,
) -> bool {
    let isa = Isa::detect();
    // Not worth it, or lines of the long operand that would be read in small pieces.
    let dots = long.rs == 1 && long.cs >= k as isize;
    // Dot products of long rows pay earlier: panels would have to turn them.
    let large = n.saturating_mul(k) >= 1 << 16 || m == 1 || dots && k >= 512 && n * k >= 1 << 13;
    let sums = long.cs == 1 && long.rs >= n as isize && n >= 64 && m <= SUMS;
    if m > SHORT || m == 0 || n == 0 || k == 0 || !large || !(dots || sums) {
        return false;
    }
    let parallel = parallel && n * k >= 1 << 15;
    let mut rows = scratch::take(m * k);
    short.pack(m, k, &mut rows);
    let rows: &[f32] = &rows;
    let out = Shared::wrap(c);
    if dots {
        let together = m.div_ceil(m.div_ceil(TOGETHER));
        // About 256 KiB of rows a task.
        let part = ((1 << 16) / k).clamp(4, 1024);
        for_tasks(n.div_ceil(part), parallel, |t| {
            let end = n.min((t + 1) * part);
            for j in (t * part..end).step_by(ROWS) {
                let count = ROWS.min(end - j);
                // SAFETY: rows `j..j + count` of the long operand have `k` contiguous numbers, and
                // tasks write different columns. A row too many is the last one again.
                unsafe {
                    let lines = std::array::from_fn(|r| long.data.as_ptr().add(long.at(0, j + r.min(count - 1))));
                    for first in (0..m).step_by(together) {
                        let vectors = together.min(m - first);
                        let mut results = [[0.0; ROWS]; TOGETHER];
                        dot(isa, vectors, k, lines, rows.as_ptr().add(first * k), &mut results);
                        for (i, results) in results[..vectors].iter().enumerate() {
                            let to = out.ptr().offset((first + i) as isize * rs + j as isize * cs);
                            for (r, result) in results[..count].iter().enumerate() {
                                *to.offset(r as isize * cs) = *result;
                            }
                        }
                    }
                }
            }
        });
        return true;
    }
    // Whole rows where they fit: threads take parts of the sum, which are added in order. The
    // number of parts is fixed.
    let parts = if n * k >= 1 << 16 { 16.min(k.div_ceil(16)) } else { 1 };
    let deep = k.div_ceil(parts);
    let parts = k.div_ceil(deep);
    // Sums that stay in the L1 cache.
    let wide = (4096 / m).min(n);
    let row = n.next_multiple_of(16);
    let mut partial = scratch::take(parts * m * row);
    let sums = Shared::new(&mut partial);
    for_tasks(parts, parallel, |t| {
        let (from, to) = (t * deep, k.min((t + 1) * deep));
        for first in (0..n).step_by(wide) {
            // SAFETY: rows of the long operand have `n` contiguous numbers; tasks have sums of
            // their own.
            unsafe {
                let b = long.data.as_ptr().add(long.at(from, first));
                let acc = sums.ptr().add(t * m * row + first);
                let x = (rows.as_ptr().add(from), k);
                axpy(isa, (m, wide.min(n - first), to - from), (b, long.rs as usize), x, acc, row);
            }
        }
    });
    let (total, rest) = partial.split_at_mut(m * row);
    for part in rest[..(parts - 1) * m * row].chunks_exact(m * row) {
        total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
    for i in 0..m {
        for j in 0..n {
            // SAFETY: inside the output, which is the caller's own.
            unsafe { *out.ptr().offset(i as isize * rs + j as isize * cs) = total[i * row + j] };
        }
    }
    true
}

/// What [`dot`] writes: a vector's products with each row.
pub(crate) type Products = [[f32; ROWS]; TOGETHER];

/// Rows from `R * g` on, `R` of them, times `M` vectors of `k` numbers.
#[inline(always)]
unsafe fn dot_of<S: Simd, const M: usize, const R: usize>(
    g: usize,
    k: usize,
    rows: [*const f32; ROWS],
    x: *const f32,
    out: &mut Products,
) {
    // SAFETY: the caller gives `k` numbers in each row and vector.
    unsafe {
        let mut sums = [[S::zero(); R]; M];
        let whole = k / S::LANES * S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            (0..R).for_each(|r| S::prefetch_second(rows[R * g + r].wrapping_add(p + AHEAD)));
            let v: [S::V; R] = std::array::from_fn(|r| S::load(rows[R * g + r].add(p)));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load(x.add(i * k + p));
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        if whole < k {
            let n = k - whole;
            let v: [S::V; R] = std::array::from_fn(|r| S::load_first(rows[R * g + r].add(whole), n));
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load_first(x.add(i * k + whole), n);
                *s = std::array::from_fn(|r| S::fma(x, v[r], s[r]));
            }
        }
        for (i, s) in sums.into_iter().enumerate() {
            for (r, s) in s.into_iter().enumerate() {
                out[i][R * g + r] = fold::<S>(s, |a, b| a + b);
            }
        }
    }
}

/// All rows, as many at a time as registers hold the sums of.
#[inline(always)]
unsafe fn dots_of<S: Simd, const M: usize>(k: usize, rows: [*const f32; ROWS], x: *const f32, out: &mut Products) {
    // SAFETY: the caller's promise.
    unsafe {
        let registers = if S::LANES == 16 { 32 } else { 16 };
        if M * ROWS + ROWS < registers {
            dot_of::<S, M, ROWS>(0, k, rows, x, out);
        } else {
            (0..ROWS / 2).for_each(|g| dot_of::<S, M, 2>(g, k, rows, x, out));
        }
    }
}

#[inline(always)]
unsafe fn dot_body<S: Simd>(m: usize, k: usize, rows: [*const f32; ROWS], x: *const f32, out: &mut Products) {
    // SAFETY: the caller's promise.
    unsafe {
        match m {
            1 => dots_of::<S, 1>(k, rows, x, out),
            2 => dots_of::<S, 2>(k, rows, x, out),
            3 => dots_of::<S, 3>(k, rows, x, out),
            4 => dots_of::<S, 4>(k, rows, x, out),
            5 => dots_of::<S, 5>(k, rows, x, out),
            _ => dots_of::<S, 6>(k, rows, x, out),
        }
    }
}
dispatch! {
    /// The products of `m` vectors of `k` numbers, one behind the other, with each of the rows.
    ///
    /// # Safety
    ///
    /// All of them may be read, and there are no more vectors than [`TOGETHER`].
    pub(crate) unsafe fn dot = dot_body(m: usize, k: usize, rows: [*const f32; ROWS], x: *const f32, out: &mut Products)
}

/// A long operand's rows and the step between two.
type Rows = (*const f32, usize);

/// `acc[i, j] += sum over R of x[i, p + r] * rows[p + r, j]`.
#[inline(always)]
unsafe fn add_rows<S: Simd, const R: usize>(
    (m, n, p): (usize, usize, usize),
    (rows, step): Rows,
    (x, x_step): Rows,
    (acc, pitch): (*mut f32, usize),
) {
    // SAFETY: the caller gives `R` rows of `n` numbers from row `p` on, `m` vectors, and room for
    // `m` rows.
    unsafe {
        for j in (0..n).step_by(S::LANES) {
            let left = (n - j).min(S::LANES);
            (0..R).for_each(|r| S::prefetch_second(rows.wrapping_add((p + r) * step + j + AHEAD)));
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
unsafe fn axpy_body<S: Simd>((m, n, k): (usize, usize, usize), rows: Rows, x: Rows, acc: *mut f32, pitch: usize) {
    // SAFETY: the caller gives `k` rows of `n` numbers, `m` vectors of `k`, and room for `m` rows.
    unsafe {
        for i in 0..m {
            std::slice::from_raw_parts_mut(acc.add(i * pitch), n).fill(0.0);
        }
        let (eight, four) = (k / 8 * 8, k / 4 * 4);
        (0..eight).step_by(8).for_each(|p| add_rows::<S, 8>((m, n, p), rows, x, (acc, pitch)));
        (eight..four).step_by(4).for_each(|p| add_rows::<S, 4>((m, n, p), rows, x, (acc, pitch)));
        (four..k).for_each(|p| add_rows::<S, 1>((m, n, p), rows, x, (acc, pitch)));
    }
}
dispatch!(unsafe fn axpy = axpy_body(sizes: (usize, usize, usize), rows: Rows, x: Rows, acc: *mut f32, pitch: usize));
