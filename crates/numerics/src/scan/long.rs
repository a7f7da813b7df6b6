//! A few rows, of which parts go side by side.
//!
//! A sum waits for the one before it, four cycles each, and one row leaves all threads but one idle. So parts of a row are carried
//! from nothing, and what came before them is joined to each afterwards. Which rows go so, and where they are cut, depends on
//! sizes alone: the order of sums does.

use super::Carry;
use crate::{
    element::Num,
    lanes::Lanes,
    tasks::{Shared, for_tasks},
};

/// Parts that go side by side, and elements of each at the most.
const PARTS: usize = 8;
const PART: usize = 128;
/// Elements of a block of parts.
const BLOCK: usize = PARTS * PART;
/// Elements that a task takes where there are several times as many.
const PIECE: usize = 1 << 14;
/// Pieces that are gone through before others: they are still in a cache the second time.
const WAVE: usize = 64;
/// So many rows go side by side themselves.
const FEW: usize = 4;
/// Shorter rows are not worth it.
const SHORT: usize = 256;

/// Whether rows are so long and so few.
pub(super) fn suits<C: Carry>(c: &C, l: Lanes) -> bool {
    c.joins() && l.outer < FEW && l.n >= SHORT
}

/// Such rows of `n` elements. Each piece of a long one is carried through once for what comes after it, and once more for its
/// results.
pub(super) fn rows<C: Carry>(c: &C, n: usize, x: &[C::E], out: &mut [C::E]) {
    if n < 4 * PIECE {
        return x.chunks_exact(n).zip(out.chunks_exact_mut(n)).for_each(|(x, out)| stretch(c, x, out, c.start()));
    }
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let mut so_far = c.start();
        for (x, out) in x.chunks(WAVE * PIECE).zip(out.chunks_mut(WAVE * PIECE)) {
            so_far = wave(c, x, out, so_far);
        }
    }
}

/// Some pieces of a row, from what was carried before them on; what is carried after them.
fn wave<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], before: C::A) -> C::A {
    let pieces = x.len().div_ceil(PIECE);
    let piece = |p: usize| p * PIECE..x.len().min((p + 1) * PIECE);
    let mut starts = [before; WAVE];
    let (totals, out) = (Shared::new(&mut starts), Shared::new(out));
    for_tasks(pieces, true, |p| {
        // SAFETY: each task has a place of its own.
        unsafe { *totals.ptr().add(p) = total(c, &x[piece(p)]) };
    });
    let mut so_far = before;
    for start in &mut starts[..pieces] {
        let total = std::mem::replace(start, so_far);
        so_far = c.join(so_far, total);
    }
    for_tasks(pieces, true, |p| {
        let part = piece(p);
        // SAFETY: pieces of what is borrowed exclusively; other tasks have others.
        let out = unsafe { std::slice::from_raw_parts_mut(out.ptr().add(part.start), part.len()) };
        stretch(c, &x[part], out, starts[p]);
    });
    so_far
}

/// What is carried through a piece.
fn total<C: Carry>(c: &C, x: &[C::E]) -> C::A {
    #[inline(always)]
    fn all<C: Carry>(c: &C, x: &[C::E]) -> C::A {
        let (eights, rest) = x.as_chunks::<PARTS>();
        let mut acc = [c.start(); PARTS];
        for eight in eights {
            for (acc, &x) in acc.iter_mut().zip(eight) {
                *acc = c.after(*acc, x);
            }
        }
        let whole = acc.into_iter().fold(c.start(), |a, b| c.join(a, b));
        rest.iter().fold(whole, |acc, &x| c.after(acc, x))
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<C: Carry>(c: &C, x: &[C::E]) -> C::A {
            all(c, x)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(c, x) };
    }
    all(c, x)
}

/// The same for elements that are widened in blocks.
pub(super) fn rows_in_blocks<T: Num, C: Carry<E = T::Acc>>(c: &C, n: usize, x: &[T], out: &mut [T]) {
    let mut wide = [[T::Acc::ZERO; BLOCK]; 2];
    let mut room = [[c.start(); PART]; PARTS];
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let mut acc = c.start();
        for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
            let [a, b] = wide.each_mut().map(|w| &mut w[..x.len()]);
            T::widen_block(x, a);
            acc = block(c, a, b, acc, &mut room);
            T::narrow_block(b, out);
        }
    }
}

/// One row, or a piece of it, from what was carried before it on.
fn stretch<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], mut acc: C::A) {
    if !c.waits() {
        return x.iter().zip(out).for_each(|(&x, out)| (acc, *out) = c.next(acc, x));
    }
    let mut room = [[c.start(); PART]; PARTS];
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        acc = block(c, x, out, acc, &mut room);
    }
}

/// A block of at most [`BLOCK`] elements; what is carried after it.
#[inline]
fn block<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], before: C::A, room: &mut [[C::A; PART]; PARTS]) -> C::A {
    let part = x.len() / PARTS;
    let mut before = before;
    if part > 0 {
        let xs: [&[C::E]; PARTS] = std::array::from_fn(|p| &x[p * part..(p + 1) * part]);
        let mut acc = [c.start(); PARTS];
        for i in 0..part.min(PART) {
            for p in 0..PARTS {
                acc[p] = c.after(acc[p], xs[p][i]);
                room[p][i] = acc[p];
            }
        }
        for ((out, here), acc) in out.chunks_exact_mut(part).zip(&*room).zip(acc) {
            out.iter_mut().zip(here).for_each(|(out, &here)| *out = C::result(c.join(before, here)));
            before = c.join(before, acc);
        }
    }
    let done = part * PARTS;
    for (x, out) in x[done..].iter().zip(&mut out[done..]) {
        (before, *out) = c.next(before, *x);
    }
    before
}
