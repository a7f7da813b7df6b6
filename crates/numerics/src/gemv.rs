//! Products with a side of at most sixteen: they take as long as the large operand takes to read.
//!
//! Where that operand's rows lie along the sum, rows meet the short side's vectors in dot products;
//! where they lie along the output, they are added up. Either way each of its lines is read once,
//! in long stretches.

use crate::chip::chip;
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use lines::is_narrow;
pub(crate) use lines::{Dots, Line, Manner, TOGETHER};
use std::ops::Range;

mod lines;

/// The longest short side.
pub(crate) const SHORT: usize = 16;

/// The longest short side of which sums stay in the L1 cache beside long rows.
const SUMS: usize = 8;

/// Rows that are too few for panels.
const FEW: usize = 4;

/// Bytes of a long operand up to which panels are better for more than one vector on Intel's chips, as caches hold it: eight rows by
/// 768 x 768 take an Ice Lake server 108 us so and 188 by sums, by 4096 x 4096 12.1 and 5.9 ms.
const CACHED: usize = 4 << 20;

/// Numbers of a long operand's rows that meet one group of vectors after the other.
const FIRST: usize = 1 << 12;

/// Numbers of a narrow operand that are worth coming here with more than one row.
const LEAST: usize = 1 << 11;

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

impl<T: Copy> Strided<'_, T> {
    fn at(&self, i: usize, j: usize) -> usize {
        (self.offset as isize + i as isize * self.rs + j as isize * self.cs) as usize
    }

    /// Copies rows `0..m` of `k` numbers, contiguous.
    fn pack(&self, m: usize, k: usize, to: &mut [T]) {
        for i in 0..m {
            let to = &mut to[i * k..(i + 1) * k];
            if self.cs == 1 {
                to.copy_from_slice(&self.data[self.at(i, 0)..][..k]);
                continue;
            }
            to.iter_mut().enumerate().for_each(|(j, to)| *to = self.data[self.at(i, j)]);
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
pub(crate) unsafe fn short_rows<T: Line>(
    (m, n, k): (usize, usize, usize),
    short: Strided<'_, T>,
    long: Strided<'_, T>,
    c: *mut T,
    rs: isize,
    cs: isize,
    parallel: bool,
) -> bool {
    let isa = Isa::detect();
    // Not worth it, or lines of the long operand that would be read in small pieces.
    // Short dot products of many vectors spend their time adding up lanes: 46240x15 @ 15x16 took 0.8 ms, 0.14 by panels.
    let dots = long.rs == 1 && long.cs >= k as isize && (k >= 64 || m * 8 <= k.max(32));
    // Dot products of long rows pay earlier: panels would have to turn them, and of a few columns most lanes would be empty (257 x
    // 240 by two columns: 5 instead of 25 us, by six 10 instead of 17).
    let few = if rs == 1 { m <= TOGETHER && k >= 8 * m } else { m <= FEW && k >= 64 };
    let long_rows = dots && (k >= 512 || few) && n * k >= 1 << 13;
    // Whole vectors of the output in panels, where lanes would be added up for every number (1840 x 92 x 16: 0.073 -> 0.036 ms).
    let filled = rs == 1 && m == SHORT && k < 256;
    let large = (n.saturating_mul(k) >= 1 << 16 && !filled) || m == 1 || long_rows;
    let cached = chip().intel && n.saturating_mul(k) <= CACHED / size_of::<T>();
    // Sums that wait for each other in tiles: 1 x 2770 x 10 takes 1.4 us instead of 5.4.
    let narrow = is_narrow::<T>(isa, m, n);
    let large = large || (narrow && n.saturating_mul(k) >= LEAST);
    let sums = long.cs == 1 && long.rs >= n as isize && (narrow || (n >= 64 && m <= if cached { 1 } else { SUMS }));
    if m > SHORT || m == 0 || n == 0 || k == 0 || !large || !(dots || sums) {
        return false;
    }
    let parallel = parallel && n * k >= 1 << 15;
    let mut room;
    let rows: &[T] = if short.cs == 1 && (m == 1 || short.rs == k as isize) {
        &short.data[short.offset..][..m * k]
    } else {
        room = scratch::of::<T>(m * k);
        short.pack(m, k, &mut room);
        &room
    };
    let out = Shared::wrap(c);
    if dots {
        let together = m.div_ceil(m.div_ceil(TOGETHER));
        // About 256 KiB of rows a task.
        let part = ((1 << 16) / k).clamp(4, 1024);
        // What meets all vectors while it is in the first cache.
        let near = if m > together { (FIRST / k).max(8) } else { part };
        for_tasks(n.div_ceil(part), parallel, |t| {
            let end = n.min((t + 1) * part);
            for j in (t * part..end).step_by(near) {
                for first in (0..m).step_by(together) {
                    let vectors = together.min(m - first);
                    // SAFETY: rows of the long operand have `k` contiguous numbers, and tasks write different columns.
                    unsafe {
                        let d = Dots {
                            sizes: (vectors, near.min(end - j), k),
                            rows: (long.data.as_ptr().add(long.at(0, j)), long.cs),
                            x: rows.as_ptr().add(first * k),
                            out: out.ptr().offset(first as isize * rs + j as isize * cs),
                            steps: (rs, cs),
                        };
                        T::dot(isa, &d);
                    }
                }
            }
        });
        return true;
    }
    let steps = |part: Range<usize>, columns: Range<usize>, acc: *mut T, pitch: usize| {
        // SAFETY: rows of the long operand have `n` contiguous numbers; the sums are the task's own.
        unsafe {
            let b = long.data.as_ptr().add(long.at(part.start, columns.start));
            let x = (rows.as_ptr().add(part.start), k);
            T::axpy(isa, (m, columns.len(), part.len()), (b, long.rs as usize), x, acc, pitch);
        }
    };
    by_parts((m, n, k), parallel, steps, |sums, row| {
        for i in 0..m {
            let sums = &sums[i * row..][..n];
            // SAFETY: inside the output, which is the caller's own.
            unsafe {
                let to = out.ptr().offset(i as isize * rs);
                if cs == 1 {
                    to.copy_from_nonoverlapping(sums.as_ptr(), n);
                    continue;
                }
                sums.iter().enumerate().for_each(|(j, sum)| *to.offset(j as isize * cs) = *sum);
            }
        }
    });
    true
}

/// Sums of `k` rows of `n` numbers for each of `m` vectors: threads take parts of `k`, whole rows where they fit, and those are
/// added in order. The number of parts is fixed by the sizes. `add` writes the sums of a part over some columns, rows of which
/// are as far apart as its last argument says; `done` gets all sums, and how far apart their rows are.
pub(crate) fn by_parts<T: Line>(
    (m, n, k): (usize, usize, usize),
    parallel: bool,
    add: impl Fn(Range<usize>, Range<usize>, *mut T, usize) + Sync + Send,
    done: impl FnOnce(&[T], usize),
) {
    let parts = if n * k >= 1 << 16 { 16.min(k.div_ceil(16)) } else { 1 };
    let deep = k.div_ceil(parts);
    let parts = k.div_ceil(deep);
    // Sums that stay in the L1 cache.
    let wide = (4096 / m).min(n);
    // An odd number of lines, so that rows of sums do not fall on the same sets of the cache.
    let row = (n.div_ceil(16) | 1) * 16;
    let mut partial = scratch::of::<T>(parts * m * row);
    let sums = Shared::new(&mut partial[..]);
    for_tasks(parts, parallel, |t| {
        for first in (0..n).step_by(wide) {
            let acc = sums.ptr().wrapping_add(t * m * row + first);
            add(t * deep..k.min((t + 1) * deep), first..n.min(first + wide), acc, row);
        }
    });
    let (total, rest) = partial.split_at_mut(m * row);
    for part in rest[..(parts - 1) * m * row].chunks_exact(m * row) {
        total.iter_mut().zip(part).for_each(|(t, p)| *t = *t + *p);
    }
    done(total, row);
}
