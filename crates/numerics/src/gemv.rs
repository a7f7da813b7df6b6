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

/// Numbers between what is read and what is asked for.
const AHEAD: usize = 512;

/// Vectors of the short side that meet a row at once.
const TOGETHER: usize = 8;

/// A matrix by its steps.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    pub data: &'a [f32],
    pub offset: usize,
    pub rs: isize,
    pub cs: isize,
}

impl<'a> Strided<'a> {
    /// The transpose.
    pub(crate) fn turned(self) -> Strided<'a> {
        Strided { rs: self.cs, cs: self.rs, ..self }
    }

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
    let large = n.saturating_mul(k) >= 1 << 16 || m == 1;
    let dots = long.rs == 1 && long.cs >= k as isize;
    let sums = long.cs == 1 && long.rs >= n as isize && n >= 64 && m <= TOGETHER;
    if m > SHORT || m == 0 || n == 0 || k == 0 || !large || !(dots || sums) {
        return false;
    }
    let parallel = parallel && n * k >= 1 << 15;
    let mut rows = scratch::take(m * k);
    short.pack(m, k, &mut rows);
    let rows: &[f32] = &rows;
    let out = Shared::wrap(c);
    if dots {
        // About 256 KiB of rows a task.
        let part = ((1 << 16) / k).clamp(4, 1024);
        for_tasks(n.div_ceil(part), parallel, |t| {
            for j in (t * part..n.min((t + 1) * part)).step_by(2) {
                let two = j + 1 < n.min((t + 1) * part);
                // SAFETY: rows `j` and `j + 1` of the long operand have `k` contiguous numbers, and
                // tasks write different columns.
                unsafe {
                    let a = long.data.as_ptr().add(long.at(0, j));
                    let b = if two { long.data.as_ptr().add(long.at(0, j + 1)) } else { a };
                    for first in (0..m).step_by(TOGETHER) {
                        let count = TOGETHER.min(m - first);
                        let mut results = [0.0; 2 * TOGETHER];
                        dot(isa, count, k, [a, b], rows.as_ptr().add(first * k), &mut results);
                        for i in 0..count {
                            let to = out.ptr().offset((first + i) as isize * rs + j as isize * cs);
                            *to = results[2 * i];
                            if two {
                                *to.offset(cs) = results[2 * i + 1];
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
                axpy(isa, m, wide.min(n - first), to - from, (b, long.rs as usize), x, acc, row);
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

/// Two rows times `M` vectors of `k` numbers.
#[inline(always)]
unsafe fn dot_of<S: Simd, const M: usize>(
    k: usize,
    rows: [*const f32; 2],
    x: *const f32,
    out: &mut [f32; 2 * TOGETHER],
) {
    // SAFETY: the caller gives `k` numbers in each row and vector.
    unsafe {
        let mut sums = [[S::zero(); 2]; M];
        let whole = k / S::LANES * S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            // Further ahead than the hardware looks, and over the ends of pages.
            S::prefetch(rows[0].wrapping_add(p + AHEAD));
            S::prefetch(rows[1].wrapping_add(p + AHEAD));
            let v = [S::load(rows[0].add(p)), S::load(rows[1].add(p))];
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load(x.add(i * k + p));
                *s = [S::fma(x, v[0], s[0]), S::fma(x, v[1], s[1])];
            }
        }
        if whole < k {
            let n = k - whole;
            let v = [S::load_first(rows[0].add(whole), n), S::load_first(rows[1].add(whole), n)];
            for (i, s) in sums.iter_mut().enumerate() {
                let x = S::load_first(x.add(i * k + whole), n);
                *s = [S::fma(x, v[0], s[0]), S::fma(x, v[1], s[1])];
            }
        }
        for (i, s) in sums.into_iter().enumerate() {
            out[2 * i] = fold::<S>(s[0], |a, b| a + b);
            out[2 * i + 1] = fold::<S>(s[1], |a, b| a + b);
        }
    }
}

#[inline(always)]
unsafe fn dot_body<S: Simd>(m: usize, k: usize, rows: [*const f32; 2], x: *const f32, out: &mut [f32; 2 * TOGETHER]) {
    // SAFETY: the caller's promise.
    unsafe {
        match m {
            1 => dot_of::<S, 1>(k, rows, x, out),
            2 => dot_of::<S, 2>(k, rows, x, out),
            3 => dot_of::<S, 3>(k, rows, x, out),
            4 => dot_of::<S, 4>(k, rows, x, out),
            5 => dot_of::<S, 5>(k, rows, x, out),
            6 => dot_of::<S, 6>(k, rows, x, out),
            7 => dot_of::<S, 7>(k, rows, x, out),
            _ => dot_of::<S, 8>(k, rows, x, out),
        }
    }
}
dispatch!(unsafe fn dot = dot_body(m: usize, k: usize, rows: [*const f32; 2], x: *const f32, out: &mut [f32; 2 * TOGETHER]));

/// `acc[i, j] = sum over k of x[i, k] * rows[k, j]`, four rows at a time.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn axpy_body<S: Simd>(
    m: usize,
    n: usize,
    k: usize,
    (rows, step): (*const f32, usize),
    (x, x_step): (*const f32, usize),
    acc: *mut f32,
    pitch: usize,
) {
    // SAFETY: the caller gives `k` rows of `n` numbers, `m` vectors of `k`, and room for `m` rows.
    unsafe {
        for i in 0..m {
            std::slice::from_raw_parts_mut(acc.add(i * pitch), n).fill(0.0);
        }
        let mut p = 0;
        while p < k {
            let four = p + 4 <= k;
            for j in (0..n).step_by(S::LANES) {
                let left = (n - j).min(S::LANES);
                let row = |r: usize| S::load_first(rows.add((p + r) * step + j), left);
                if four {
                    (0..4).for_each(|r| S::prefetch(rows.wrapping_add((p + r + 4) * step + j)));
                    let v = [row(0), row(1), row(2), row(3)];
                    for i in 0..m {
                        let (at, x) = (acc.add(i * pitch + j), x.add(i * x_step + p));
                        let mut s = S::load_first(at, left);
                        for (r, v) in v.into_iter().enumerate() {
                            s = S::fma(S::splat(*x.add(r)), v, s);
                        }
                        S::store_first(at, s, left);
                    }
                } else {
                    let v = row(0);
                    for i in 0..m {
                        let at = acc.add(i * pitch + j);
                        let s = S::fma(S::splat(*x.add(i * x_step + p)), v, S::load_first(at, left));
                        S::store_first(at, s, left);
                    }
                }
            }
            p += if four { 4 } else { 1 };
        }
    }
}
dispatch!(unsafe fn axpy = axpy_body(m: usize, n: usize, k: usize, rows: (*const f32, usize), x: (*const f32, usize), acc: *mut f32, pitch: usize));
