//! Cumulative operations across rows: `inner` lanes side by side in memory.

use super::Carry;
use crate::{
    element::Num,
    lanes::Lanes,
    tasks::{Shared, for_tasks},
};

/// Elements of 16 bits that are widened at once, at least where rows are shorter.
const BLOCK: usize = 2048;
/// Columns that a thread takes at least where it takes a part of them: where parts meet, both write to one cache line in every
/// row, which takes as long as thousands of elements where threads have no cache in common. (1000 x 1003: 0.14 ms alone, by two
/// 0.17 or 1.1.)
const PART: usize = 4096;

/// A block of whole rows of `inner` elements, from these accumulators on.
pub(super) fn columns<C: Carry>(c: &C, inner: usize, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) {
    let done = narrow_rows(c, inner, x, out, acc);
    let (x, out) = (&x[done..], &mut out[done..]);
    match acc {
        [a, b] => few(c, x, out, [a, b]),
        [a, b, d] => few(c, x, out, [a, b, d]),
        [a, b, d, e] => few(c, x, out, [a, b, d, e]),
        _ => x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)).for_each(|(x, out)| row(c, x, out, acc)),
    }
}

/// The first rows, where they are narrow: how many elements these were.
fn narrow_rows<C: Carry>(c: &C, inner: usize, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) -> usize {
    #[inline(always)]
    fn all<C: Carry>(c: &C, inner: usize, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) -> usize {
        match inner {
            5..=8 => vectors::<C, 8>(c, inner, x, out, acc),
            9..=16 => vectors::<C, 16>(c, inner, x, out, acc),
            17..=32 => vectors::<C, 32>(c, inner, x, out, acc),
            _ => 0,
        }
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<C: Carry>(c: &C, inner: usize, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) -> usize {
            all(c, inner, x, out, acc)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(c, inner, x, out, acc) };
    }
    all(c, inner, x, out, acc)
}

/// Rows as vectors of `P` elements, which reach into the next row: what they leave there is written over by that one. Those
/// at the end have no room for it, and are left out.
#[inline(always)]
fn vectors<C: Carry, const P: usize>(c: &C, inner: usize, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) -> usize {
    let mut now = [c.start(); P];
    now[..inner].copy_from_slice(acc);
    let mut at = 0;
    while let (Some(x), Some(out)) = (x[at..].first_chunk::<P>(), out[at..].first_chunk_mut::<P>()) {
        for r in 0..P {
            (now[r], out[r]) = c.next(now[r], x[r]);
        }
        at += inner;
    }
    acc.copy_from_slice(&now[..inner]);
    at
}

/// `R` lanes, whose accumulators have registers.
fn few<C: Carry, const R: usize>(c: &C, x: &[C::E], out: &mut [C::E], state: [&mut C::A; R]) {
    let mut acc: [C::A; R] = std::array::from_fn(|r| *state[r]);
    for (x, out) in x.as_chunks::<R>().0.iter().zip(out.as_chunks_mut::<R>().0) {
        for r in 0..R {
            (acc[r], out[r]) = c.next(acc[r], x[r]);
        }
    }
    state.into_iter().zip(acc).for_each(|(to, acc)| *to = acc);
}

/// One row.
#[inline]
fn row<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) {
    #[inline(always)]
    fn all<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) {
        for ((x, out), acc) in x.iter().zip(out).zip(acc) {
            (*acc, *out) = c.next(*acc, *x);
        }
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut [C::A]) {
            all(c, x, out, acc);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(c, x, out, acc) };
    }
    all(c, x, out, acc);
}

/// The same for elements that are widened in blocks, in this room.
pub(super) fn columns_in_blocks<T: Num, C: Carry<E = T::Acc>>(
    c: &C,
    inner: usize,
    x: &[T],
    out: &mut [T],
    acc: &mut [C::A],
    wide: &mut Vec<T::Acc>,
) {
    let some = (BLOCK / inner).max(1) * inner;
    wide.resize(2 * some.min(x.len()), T::Acc::ZERO);
    for (x, out) in x.chunks(some).zip(out.chunks_mut(some)) {
        let (a, b) = wide.split_at_mut(x.len());
        T::widen_block(x, a);
        columns(c, inner, a, &mut b[..x.len()], acc);
        T::narrow_block(&b[..x.len()], out);
    }
}

/// Runs `some` over parts of the columns on several threads: it gets the rows of each, one after the other, and their
/// width. False if blocks are enough for all threads, or columns too few.
pub(super) fn by_parts<T: Sync, U: Send>(
    l: Lanes,
    x: &[T],
    out: &mut [U],
    some: impl Fn(&mut dyn Iterator<Item = (&[T], &mut [U])>, usize) + Sync,
) -> bool {
    let threads = rayon::current_num_threads();
    let parts = (l.inner / PART).min(2 * threads);
    if l.len() < crate::lanes::PARALLEL_WORK || l.outer >= threads || parts < 2 {
        return false;
    }
    // Whole cache lines, about.
    let part = l.inner.div_ceil(parts).next_multiple_of(64);
    let block = l.n * l.inner;
    for (x, out) in x.chunks_exact(block).zip(out.chunks_exact_mut(block)) {
        let out = Shared::new(out);
        for_tasks(l.inner.div_ceil(part), true, |p| {
            let from = p * part;
            let width = part.min(l.inner - from);
            let mut rows = (0..l.n).map(|r| {
                let at = r * l.inner + from;
                // SAFETY: columns `from` to `from + width` of a row of what is borrowed exclusively; other tasks have
                // other columns.
                (&x[at..][..width], unsafe { std::slice::from_raw_parts_mut(out.ptr().add(at), width) })
            });
            some(&mut rows, width);
        });
    }
    true
}
