//! Products of a few rows of 16-bit numbers by a matrix of them: the matrix is read once, and widened in registers.

use super::{Dims, Half, Layout, Operand};
use crate::scratch;
use crate::tasks::{Shared, for_tasks};
use std::arch::x86_64::*;

/// Rows up to which the matrix is read once for all.
const ROWS: usize = 4;
/// Columns of a task.
const COLUMNS: usize = 256;
/// Rows of the matrix ahead of what is read that are asked for: the hardware does not follow such steps.
const AHEAD: usize = 12;

/// Runs the product if it has few rows (or few columns: the transpose of the transposes' product).
///
/// # Safety
///
/// `c` is the caller's alone at `lc`, inside its allocation; operands lie inside their slices.
pub(super) unsafe fn run<T: Half>(
    d: Dims,
    a: Operand<T>,
    b: Operand<T>,
    c: *mut T,
    lc: Layout,
    parallel: bool,
) -> bool {
    let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    if !has || !is_x86_feature_detected!("avx512vl") || d.m.min(d.n) > ROWS {
        return false;
    }
    // SAFETY: the instructions are there, and the caller's promise.
    unsafe {
        if d.m <= ROWS {
            return rows(d, a, b, c, lc, parallel);
        }
        let (x, y) = (Operand::new(b.data, b.layout.transposed()), Operand::new(a.data, a.layout.transposed()));
        rows(Dims::new(d.n, d.m, d.k), x, y, c, lc.transposed(), parallel)
    }
}

/// The product for up to [`ROWS`] rows.
unsafe fn rows<T: Half>(d: Dims, a: Operand<T>, b: Operand<T>, c: *mut T, lc: Layout, parallel: bool) -> bool {
    let Dims { m, n, k } = d;
    let along = b.layout.rs == 1;
    if !along && b.layout.cs != 1 {
        return false;
    }
    let mut wide = scratch::take(m * k);
    let mut line = Vec::new();
    for (i, to) in wide.chunks_exact_mut(k).enumerate().take(m) {
        if a.layout.cs == 1 {
            T::widen_all(&a.data[a.layout.position(i, 0)..][..k], to);
        } else {
            line.clear();
            line.extend((0..k).map(|j| a.data[a.layout.position(i, j)]));
            T::widen_all(&line, to);
        }
    }
    let mut sums = scratch::take(m * n);
    let (x, to) = (&wide[..m * k], Shared::new(&mut sums[..]));
    let step = if along { b.layout.cs } else { b.layout.rs };
    let at = Shared::wrap(b.data.as_ptr().cast_mut().cast::<u16>().wrapping_add(b.layout.offset));
    for_tasks(n.div_ceil(COLUMNS), parallel, |t| {
        let columns = t * COLUMNS..n.min((t + 1) * COLUMNS);
        let p = Part { truncated: T::TRUNCATED, k, n, x: x.as_ptr(), b: at.ptr(), step, to: to.ptr() };
        // SAFETY: the instructions are there; columns are inside the matrix, and tasks write different ones.
        unsafe {
            match (along, m) {
                (true, 1) => p.dots::<1, 4>(columns),
                (true, 2) => p.dots::<2, 2>(columns),
                (true, 3) => p.dots::<3, 1>(columns),
                (true, _) => p.dots::<4, 1>(columns),
                (false, 1) => p.steps::<1, 16>(columns),
                (false, 2) => p.steps::<2, 8>(columns),
                (false, 3) => p.steps::<3, 4>(columns),
                (false, _) => p.steps::<4, 4>(columns),
            }
        }
    });
    let mut row = vec![T::ZERO; n];
    for (i, sums) in sums.chunks_exact(n).enumerate().take(m) {
        T::round_all(sums, &mut row);
        for (j, x) in row.iter().enumerate() {
            // SAFETY: the positions are inside the output, which is ours alone.
            unsafe { *c.add(lc.position(i, j)) = *x };
        }
    }
    true
}

/// What a task reads and writes.
struct Part {
    /// Whether numbers are `bf16`, not `f16`.
    truncated: bool,
    k: usize,
    n: usize,
    /// The widened rows.
    x: *const f32,
    /// The matrix.
    b: *const u16,
    /// From a column to the next where columns are contiguous, from a row to the next where rows are.
    step: isize,
    /// The sums, row by row.
    to: *mut f32,
}

impl Part {
    /// The first `n` numbers, widened.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(&self, at: *const u16, n: usize) -> __m512 {
        let mask = if n >= 16 { 0xffff } else { (1u16 << n) - 1 };
        // SAFETY: the caller gives as many.
        let x = unsafe { _mm256_maskz_loadu_epi16(mask, at.cast()) };
        if self.truncated {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(x)))
        } else {
            _mm512_cvtph_ps(x)
        }
    }

    /// Columns that are contiguous, by `M` rows: `U` vectors at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn dots<const M: usize, const U: usize>(&self, columns: std::ops::Range<usize>) {
        for j in columns {
            let b = self.b.wrapping_offset(j as isize * self.step);
            let mut acc = [[_mm512_setzero_ps(); U]; M];
            let mut from = 0;
            while from < self.k {
                for u in 0..U {
                    let at = from + 16 * u;
                    let left = self.k.saturating_sub(at);
                    if left == 0 {
                        break;
                    }
                    let mask = if left >= 16 { 0xffff } else { (1u16 << left) - 1 };
                    // SAFETY: `left` numbers of the column and of the rows are there.
                    unsafe {
                        let y = self.load(b.add(at), left);
                        for (i, acc) in acc.iter_mut().enumerate() {
                            let x = _mm512_maskz_loadu_ps(mask, self.x.add(i * self.k + at));
                            acc[u] = _mm512_fmadd_ps(x, y, acc[u]);
                        }
                    }
                }
                from += 16 * U;
            }
            for (i, acc) in acc.iter().enumerate() {
                let sum = acc.iter().skip(1).fold(acc[0], |a, &b| _mm512_add_ps(a, b));
                // SAFETY: the sums have this column.
                unsafe { *self.to.add(i * self.n + j) = _mm512_reduce_add_ps(sum) };
            }
        }
    }

    /// Rows that are contiguous, by `M` rows: `V` vectors of columns at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn steps<const M: usize, const V: usize>(&self, columns: std::ops::Range<usize>) {
        for first in columns.clone().step_by(16 * V) {
            let count = (columns.end - first).min(16 * V);
            let mut acc = [[_mm512_setzero_ps(); V]; M];
            for r in 0..self.k {
                let b = self.b.wrapping_offset(r as isize * self.step).wrapping_add(first);
                let ahead = b.wrapping_offset(AHEAD as isize * self.step);
                for v in 0..V {
                    if 16 * v >= count {
                        break;
                    }
                    // SAFETY: the row has these columns; asking for a line never faults.
                    unsafe {
                        if v % 2 == 0 {
                            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(16 * v).cast());
                        }
                        let y = self.load(b.add(16 * v), count - 16 * v);
                        for (i, acc) in acc.iter_mut().enumerate() {
                            let x = _mm512_set1_ps(*self.x.add(i * self.k + r));
                            acc[v] = _mm512_fmadd_ps(x, y, acc[v]);
                        }
                    }
                }
            }
            for (i, acc) in acc.iter().enumerate() {
                for (v, acc) in acc.iter().enumerate().take(count.div_ceil(16)) {
                    let left = (count - 16 * v).min(16);
                    let mask = if left == 16 { 0xffff } else { (1u16 << left) - 1 };
                    // SAFETY: the sums have these columns.
                    unsafe { _mm512_mask_storeu_ps(self.to.add(i * self.n + first + 16 * v), mask, *acc) };
                }
            }
        }
    }
}
