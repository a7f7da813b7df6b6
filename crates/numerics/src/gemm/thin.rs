//! Products of a few rows of 16-bit numbers by a matrix of them: the matrix is read once, and widened in registers.

use super::{Dims, Half, Layout, Operand};
use crate::gemv::{Manner, by_parts};
use crate::scratch;
use crate::tasks::{Shared, for_tasks};
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows up to which the matrix is read once for all.
const ROWS: usize = 4;
/// Columns of a task.
const COLUMNS: usize = 256;
/// Rows of the matrix that are added up at once.
const GROUP: usize = 8;

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
    let x = &wide[..m * k];
    let step = if along { b.layout.cs } else { b.layout.rs };
    let at = Shared::wrap(b.data.as_ptr().cast_mut().cast::<u16>().wrapping_add(b.layout.offset));
    let out = Shared::wrap(c);
    let done = |sums: &[f32], pitch: usize| {
        let mut row = vec![T::ZERO; n];
        for (i, sums) in sums.chunks_exact(pitch).enumerate().take(m) {
            T::round_all(&sums[..n], &mut row);
            for (j, x) in row.iter().enumerate() {
                // SAFETY: the positions are inside the output, which is ours alone.
                unsafe { *out.ptr().add(lc.position(i, j)) = *x };
            }
        }
    };
    let part = || Part { truncated: T::TRUNCATED, k, x: x.as_ptr(), b: at.ptr(), step };
    if !along {
        let steps = |deep: Range<usize>, columns: Range<usize>, acc: *mut f32, pitch: usize| {
            // SAFETY: the instructions are there; rows and columns are inside the matrix, and the sums are the task's own.
            unsafe {
                match m {
                    1 => part().sums::<1>(deep, columns, acc, pitch),
                    2 => part().sums::<2>(deep, columns, acc, pitch),
                    3 => part().sums::<3>(deep, columns, acc, pitch),
                    _ => part().sums::<4>(deep, columns, acc, pitch),
                }
            }
        };
        by_parts((m, n, k), parallel, steps, done);
        return true;
    }
    let mut sums = scratch::take(m * n);
    let to = Shared::new(&mut sums[..]);
    for_tasks(n.div_ceil(COLUMNS), parallel, |t| {
        let columns = t * COLUMNS..n.min((t + 1) * COLUMNS);
        // SAFETY: the instructions are there; columns are inside the matrix, and tasks write different ones.
        unsafe {
            match m {
                1 => part().dots::<1, 4>(columns, to.ptr(), n),
                2 => part().dots::<2, 2>(columns, to.ptr(), n),
                3 => part().dots::<3, 1>(columns, to.ptr(), n),
                _ => part().dots::<4, 1>(columns, to.ptr(), n),
            }
        }
    });
    done(&sums[..m * n], n);
    true
}

/// What a task reads and writes.
struct Part {
    /// Whether numbers are `bf16`, not `f16`.
    truncated: bool,
    k: usize,
    /// The widened rows.
    x: *const f32,
    /// The matrix.
    b: *const u16,
    /// From a column to the next where columns are contiguous, from a row to the next where rows are.
    step: isize,
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

    /// Columns that are contiguous, by `M` rows: `U` vectors at a time. The sums go to rows `pitch` apart.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn dots<const M: usize, const U: usize>(&self, columns: Range<usize>, to: *mut f32, pitch: usize) {
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
                unsafe { *to.add(i * pitch + j) = _mm512_reduce_add_ps(sum) };
            }
        }
    }

    /// Rows that are contiguous, by `M` rows: the sums of rows `deep`, [`GROUP`] of them at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn sums<const M: usize>(&self, deep: Range<usize>, columns: Range<usize>, acc: *mut f32, pitch: usize) {
        let groups = deep.start + deep.len() / GROUP * GROUP;
        for i in 0..M {
            // SAFETY: the sums have these columns.
            unsafe { std::slice::from_raw_parts_mut(acc.add(i * pitch), columns.len()).fill(0.0) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            for first in (deep.start..groups).step_by(GROUP) {
                self.add_rows::<M, GROUP>(first, columns.clone(), acc, pitch);
            }
            (groups..deep.end).for_each(|row| self.add_rows::<M, 1>(row, columns.clone(), acc, pitch));
        }
    }

    /// `R` rows from `first` on, added to the sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn add_rows<const M: usize, const R: usize>(
        &self,
        first: usize,
        columns: Range<usize>,
        acc: *mut f32,
        pitch: usize,
    ) {
        let manner = Manner::here();
        let b: [*const u16; R] = std::array::from_fn(|r| self.b.wrapping_offset((first + r) as isize * self.step));
        for j in columns.clone().step_by(16) {
            let left = (columns.end - j).min(16);
            let mask = if left == 16 { 0xffff } else { (1u16 << left) - 1 };
            b.iter().for_each(|b| manner.ask(b.wrapping_add(j)));
            // SAFETY: the rows have these columns, and so have the sums; the widened rows have these numbers.
            unsafe {
                let y: [__m512; R] = std::array::from_fn(|r| self.load(b[r].add(j), left));
                for i in 0..M {
                    let at = acc.add(i * pitch + j - columns.start);
                    let mut sum = _mm512_maskz_loadu_ps(mask, at);
                    for (r, y) in y.into_iter().enumerate() {
                        sum = _mm512_fmadd_ps(_mm512_set1_ps(*self.x.add(i * self.k + first + r)), y, sum);
                    }
                    _mm512_mask_storeu_ps(at, mask, sum);
                }
            }
        }
    }
}
