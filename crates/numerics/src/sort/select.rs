//! The element of a rank, without sorting the others.

use super::{
    items::{Items, all},
    packed::Packing,
};
use crate::element::Order;
use crate::lanes::PARALLEL_WORK;
use crate::tasks::{Shared, for_chunks, for_tasks};

/// Lanes from which on keys are counted first: below, the counters would cost more than they spare.
const LONG: usize = 4096;
/// Bits of a key by which they are counted.
const DIGIT: u32 = 11;
/// Pieces of a lane that are counted by themselves.
const PIECES: usize = 4;
/// Elements that are looked at together for the part that has the rank: almost always it has none of them.
const TOGETHER: usize = 32;

impl Items {
    /// The position of the `rank`-th smallest (from zero) of a lane.
    pub fn select<T: Order>(&mut self, x: &[T], rank: usize) -> i64 {
        if x.len() >= LONG {
            return self.select_long(x, rank);
        }
        let Some(how) = Packing::of(x, false) else {
            all(x, false, &mut self.wide);
            return i64::from(self.wide.select_nth_unstable(rank).1.1);
        };
        self.packed.clear();
        self.packed.extend(x.iter().zip(0..).map(|(x, i)| how.item(*x, i)));
        how.position(*self.packed.select_nth_unstable(rank).1) as i64
    }

    /// The same of many: keys are counted by the highest bits in which they differ, and only those that share these bits with the
    /// one of the rank are looked at one by one.
    fn select_long<T: Order>(&mut self, x: &[T], rank: usize) -> i64 {
        let piece = x.len().div_ceil(PIECES);
        let part = |c: usize| &x[(c * piece).min(x.len())..((c + 1) * piece).min(x.len())];
        let parallel = x.len() >= PARALLEL_WORK / 2;
        let mut ends = [(u64::MAX, 0); PIECES];
        for_chunks(&mut ends, 1, 1, parallel, |(c, e)| e[0] = extent(part(c)));
        let (least, most) = ends.iter().fold((u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        let shift = (u64::BITS - (most - least).leading_zeros()).saturating_sub(DIGIT);
        let mut counts = vec![0u32; PIECES << DIGIT];
        for_chunks(&mut counts, 1 << DIGIT, 1, parallel, |(c, counts)| count(part(c), least, shift, counts));
        let (mut before, mut digit) = (0, 0);
        for d in 0..1 << DIGIT {
            let here: usize = (0..PIECES).map(|c| counts[(c << DIGIT) + d] as usize).sum();
            if before + here > rank {
                digit = d;
                break;
            }
            before += here;
        }
        // Each piece writes behind what the earlier ones have.
        let mut starts = [0; PIECES + 1];
        (0..PIECES).for_each(|c| starts[c + 1] = starts[c] + counts[(c << DIGIT) + digit] as usize);
        self.wide.clear();
        self.wide.resize(starts[PIECES], (0, 0));
        let found = Shared::new(&mut self.wide);
        for_tasks(PIECES, parallel, |c| {
            let mut to = starts[c];
            each_of(part(c), least, shift, digit as u64, |i, key| {
                // SAFETY: the counts say how many a piece has, and pieces have places of their own.
                unsafe { *found.ptr().add(to) = (key, (c * piece + i) as u32) };
                to += 1;
            });
        });
        i64::from(self.wide.select_nth_unstable(rank - before).1.1)
    }
}

/// Runs a loop compiled for wide vectors, where there are any.
#[inline(always)]
fn widened<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(body) };
    }
    body()
}

/// How many elements are NaN.
pub(super) fn nans<T: Order>(x: &[T]) -> usize {
    let some = |x: &[T]| x.iter().map(|x| u32::from(x.is_nan())).sum::<u32>() as usize;
    widened(|| x.chunks(1 << 15).map(some).sum())
}

/// The least and the greatest key.
fn extent<T: Order>(x: &[T]) -> (u64, u64) {
    widened(|| x.iter().fold((u64::MAX, 0), |(a, b), x| (a.min(x.key()), b.max(x.key()))))
}

/// Counts keys by their digits.
fn count<T: Order>(x: &[T], least: u64, shift: u32, counts: &mut [u32]) {
    let counts = &mut counts[..1 << DIGIT];
    widened(|| {
        for some in x.chunks(TOGETHER) {
            let mut digits = [0; TOGETHER];
            digits.iter_mut().zip(some).for_each(|(d, x)| *d = (x.key() - least) >> shift);
            digits.iter().take(some.len()).for_each(|&d| counts[d as usize & ((1 << DIGIT) - 1)] += 1);
        }
    });
}

/// Calls `with` with the positions and keys of a digit.
fn each_of<T: Order>(x: &[T], least: u64, shift: u32, digit: u64, mut with: impl FnMut(usize, u64)) {
    widened(|| {
        for (b, some) in x.chunks(TOGETHER).enumerate() {
            if !some.iter().fold(false, |any, x| any | ((x.key() - least) >> shift == digit)) {
                continue;
            }
            for (i, key) in some.iter().map(|x| x.key()).enumerate() {
                if (key - least) >> shift == digit {
                    with(b * TOGETHER + i, key);
                }
            }
        }
    });
}
