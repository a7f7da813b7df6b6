//! Cumulative operations along rows that lie one after the other in memory.
//!
//! A row waits for its last sum longer than a sum takes, so several go side by side: four in registers of their own, or, where
//! what is carried has four bytes, sixteen in the lanes of vectors, turned on the way in and out.

use super::{Carry, IDLE};
use crate::{element::Num, transpose::Transposition};

/// Rows that are turned at once,
pub(super) const SIDE: usize = 16;
/// and elements of each.
const WIDTH: usize = 64;
/// Rows that go side by side one by one.
const ABREAST: usize = 4;
/// Shorter rows are unrolled.
const SHORT: usize = 16;
/// Rows of 16 bits of at most this many elements are widened whole, longer ones in segments.
const WHOLE: usize = 1024;
const SEGMENT: usize = 256;

/// Sixteen lines of elements, turned.
type Tile<E> = [[E; SIDE]; WIDTH];

/// Whole rows of `n` elements.
pub(super) fn rows<C: Carry>(c: &C, n: usize, x: &[C::E], out: &mut [C::E]) {
    if !c.cheap() && !x.is_empty() {
        let mut tile = [[x[0]; SIDE]; WIDTH];
        for (x, out) in x.chunks(SIDE * n).zip(out.chunks_mut(SIDE * n)) {
            group(c, n, (x, n), (out, n), &mut [c.start(); SIDE][..x.len() / n], &mut tile);
        }
        return;
    }
    match n {
        1 => short::<C, 1>(c, x, out),
        2 => short::<C, 2>(c, x, out),
        3 => short::<C, 3>(c, x, out),
        4 => short::<C, 4>(c, x, out),
        5 => short::<C, 5>(c, x, out),
        6 => short::<C, 6>(c, x, out),
        7 => short::<C, 7>(c, x, out),
        8 => short::<C, 8>(c, x, out),
        9 => short::<C, 9>(c, x, out),
        10 => short::<C, 10>(c, x, out),
        11 => short::<C, 11>(c, x, out),
        12 => short::<C, 12>(c, x, out),
        13 => short::<C, 13>(c, x, out),
        14 => short::<C, 14>(c, x, out),
        15 => short::<C, 15>(c, x, out),
        0 => {}
        SHORT.. => {
            let mut at = 0;
            if [size_of::<C::E>(), size_of::<C::A>()] == [4, 4] && x.len() >= SIDE * n {
                let mut tile = [[x[0]; SIDE]; WIDTH];
                for (x, out) in x.chunks_exact(SIDE * n).zip(out.chunks_exact_mut(SIDE * n)) {
                    turned(c, n, (x, n), (out, n), &mut [c.start(); SIDE], &mut tile);
                    at += SIDE;
                }
            }
            while at < x.len() / n {
                let (x, out) = (&x[at * n..], &mut out[at * n..]);
                at += match x.len() / n {
                    _ if C::LASTING => lasting(c, &x[..n], &mut out[..n], &mut c.start()),
                    ABREAST.. => side_by_side::<C, ABREAST>(c, n, x, out),
                    3 => side_by_side::<C, 3>(c, n, x, out),
                    2 => side_by_side::<C, 2>(c, n, x, out),
                    _ => side_by_side::<C, 1>(c, n, x, out),
                };
            }
        }
    }
}

/// The first `R` rows of `n` elements.
fn side_by_side<C: Carry, const R: usize>(c: &C, n: usize, x: &[C::E], out: &mut [C::E]) -> usize {
    let xs: [&[C::E]; R] = std::array::from_fn(|r| &x[r * n..(r + 1) * n]);
    let mut lines = out.chunks_exact_mut(n);
    let outs: [&mut [C::E]; R] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let mut acc = [c.start(); R];
    for i in 0..n {
        for r in 0..R {
            acc[r] = c.after(acc[r], xs[r][i]);
            outs[r][i] = C::result(acc[r]);
        }
    }
    R
}

/// The same for elements that are widened in blocks: those take as much room as what is carried, and vectors are worth it.
pub(super) fn rows_in_blocks<T: Num, C: Carry<E = T::Acc>>(c: &C, n: usize, x: &[T], out: &mut [T]) {
    if n == 0 {
        return;
    }
    let mut tile = [[T::Acc::ZERO; SIDE]; WIDTH];
    if n <= WHOLE {
        let some = SIDE * (WHOLE / 8 / n).max(1) * n;
        let mut wide = vec![T::Acc::ZERO; 2 * some.min(x.len())];
        for (x, out) in x.chunks(some).zip(out.chunks_mut(some)) {
            let (a, b) = wide.split_at_mut(x.len());
            T::widen_block(x, a);
            if n < SIDE {
                rows(c, n, a, &mut b[..x.len()]);
            } else {
                for (a, b) in a.chunks(SIDE * n).zip(b[..x.len()].chunks_mut(SIDE * n)) {
                    let mut acc = [c.start(); SIDE];
                    group(c, n, (a, n), (b, n), &mut acc[..a.len() / n], &mut tile);
                }
            }
            T::narrow_block(&b[..x.len()], out);
        }
        return;
    }
    let mut wide = [T::Acc::ZERO; 2 * SIDE * SEGMENT];
    let (a, b) = wide.split_at_mut(SIDE * SEGMENT);
    for (x, out) in x.chunks(SIDE * n).zip(out.chunks_mut(SIDE * n)) {
        let (mut acc, count) = ([c.start(); SIDE], x.len() / n);
        for at in (0..n).step_by(SEGMENT) {
            let w = SEGMENT.min(n - at);
            for (x, a) in x.chunks(n).zip(a.chunks_mut(SEGMENT)) {
                T::widen_block(&x[at..at + w], a);
            }
            group(c, w, (a, SEGMENT), (b, SEGMENT), &mut acc[..count], &mut tile);
            for (b, out) in b.chunks(SEGMENT).zip(out.chunks_mut(n)) {
                T::narrow_block(&b[..w], &mut out[at..at + w]);
            }
        }
    }
}

/// Rows of a number of elements that is known.
fn short<C: Carry, const N: usize>(c: &C, x: &[C::E], out: &mut [C::E]) {
    for (x, out) in x.as_chunks::<N>().0.iter().zip(out.as_chunks_mut::<N>().0) {
        let mut acc = c.start();
        for i in 0..N {
            (acc, out[i]) = c.next(acc, x[i]);
        }
    }
}

/// The next `w` elements of as many rows as there are accumulators; rows begin so many elements apart.
fn group<C: Carry>(
    c: &C,
    w: usize,
    (x, from): (&[C::E], usize),
    (out, to): (&mut [C::E], usize),
    acc: &mut [C::A],
    tile: &mut Tile<C::E>,
) {
    if !c.cheap() {
        return padded(c, w, (x, from), (out, to), acc, tile);
    }
    if let Ok(acc) = <&mut [C::A; SIDE]>::try_from(&mut *acc) {
        return turned(c, w, (x, from), (out, to), acc, tile);
    }
    let (mut at, rows) = (0, acc.len());
    while at < rows {
        let (x, out, some) = (&x[at * from..], &mut out[at * to..], &mut acc[at..]);
        at += match some {
            [a, ..] if C::LASTING => lasting(c, &x[..w], &mut out[..w], a),
            [a, b, d, e, ..] => abreast(c, w, (x, from), (out, to), [a, b, d, e]),
            [a, b, d] => abreast(c, w, (x, from), (out, to), [a, b, d]),
            [a, b] => abreast(c, w, (x, from), (out, to), [a, b]),
            [a] => abreast(c, w, (x, from), (out, to), [a]),
            [] => ABREAST,
        };
    }
}

/// One row of what seldom changes.
fn lasting<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut C::A) -> usize {
    #[inline(always)]
    fn all<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut C::A) -> usize {
        let mut now = *acc;
        let ((blocks, rest), (outs, last)) = (x.as_chunks::<IDLE>(), out.as_chunks_mut::<IDLE>());
        for (x, out) in blocks.iter().zip(outs) {
            if c.idle(now, x) {
                *out = [C::result(now); IDLE];
            } else {
                x.iter().zip(out).for_each(|(&x, out)| (now, *out) = c.next(now, x));
            }
        }
        rest.iter().zip(last).for_each(|(&x, out)| (now, *out) = c.next(now, x));
        *acc = now;
        1
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<C: Carry>(c: &C, x: &[C::E], out: &mut [C::E], acc: &mut C::A) -> usize {
            all(c, x, out, acc)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(c, x, out, acc) };
    }
    all(c, x, out, acc)
}

/// `R` rows one by one.
fn abreast<C: Carry, const R: usize>(
    c: &C,
    w: usize,
    (x, from): (&[C::E], usize),
    (out, to): (&mut [C::E], usize),
    state: [&mut C::A; R],
) -> usize {
    let xs: [&[C::E]; R] = std::array::from_fn(|r| &x[r * from..][..w]);
    let mut lines = out.chunks_mut(to).map(|line| &mut line[..w]);
    let outs: [&mut [C::E]; R] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let mut acc: [C::A; R] = std::array::from_fn(|r| *state[r]);
    for i in 0..w {
        for r in 0..R {
            (acc[r], outs[r][i]) = c.next(acc[r], xs[r][i]);
        }
    }
    state.into_iter().zip(acc).for_each(|(to, acc)| *to = acc);
    R
}

/// Sixteen rows in the lanes of vectors.
fn turned<C: Carry>(
    c: &C,
    w: usize,
    (x, from): (&[C::E], usize),
    (out, to): (&mut [C::E], usize),
    acc: &mut [C::A; SIDE],
    tile: &mut Tile<C::E>,
) {
    assert!(x.len() >= (SIDE - 1) * from + w && out.len() >= (SIDE - 1) * to + w, "rows that are there");
    for at in (0..w).step_by(WIDTH) {
        let part = WIDTH.min(w - at);
        let into = Transposition { rows: part, columns: SIDE, from: from as isize, to: SIDE as isize };
        // SAFETY: sixteen rows of so many elements were seen to be there, and the tile has as many.
        unsafe { into.run(x[at..].as_ptr(), tile.as_mut_ptr().cast(), false) };
        lines(c, &mut tile[..part], acc);
        let back = Transposition { rows: SIDE, columns: part, from: SIDE as isize, to: to as isize };
        // SAFETY: as above.
        unsafe { back.run(tile.as_ptr().cast(), out[at..].as_mut_ptr(), false) };
    }
}

/// Up to sixteen rows in the lanes of vectors, the last again for those that are not there: for steps that take longer than to
/// turn rows one element at a time.
fn padded<C: Carry>(
    c: &C,
    w: usize,
    (x, from): (&[C::E], usize),
    (out, to): (&mut [C::E], usize),
    acc: &mut [C::A],
    tile: &mut Tile<C::E>,
) {
    let rows = acc.len();
    let mut all = [c.start(); SIDE];
    all[..rows].copy_from_slice(acc);
    for at in (0..w).step_by(WIDTH) {
        let tile = &mut tile[..WIDTH.min(w - at)];
        for (i, line) in tile.iter_mut().enumerate() {
            *line = std::array::from_fn(|r| x[r.min(rows - 1) * from + at + i]);
        }
        lines(c, tile, &mut all);
        for (r, out) in out.chunks_mut(to).enumerate().take(rows) {
            out[at..].iter_mut().zip(&*tile).for_each(|(out, line)| *out = line[r]);
        }
    }
    acc.copy_from_slice(&all[..rows]);
}

/// Lines of a tile, one after the other.
fn lines<C: Carry>(c: &C, tile: &mut [[C::E; SIDE]], acc: &mut [C::A; SIDE]) {
    #[inline(always)]
    fn all<C: Carry>(c: &C, tile: &mut [[C::E; SIDE]], acc: &mut [C::A; SIDE]) {
        let mut now = *acc;
        for line in tile {
            for (now, x) in now.iter_mut().zip(line) {
                (*now, *x) = c.next(*now, *x);
            }
        }
        *acc = now;
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<C: Carry>(c: &C, tile: &mut [[C::E; SIDE]], acc: &mut [C::A; SIDE]) {
            all(c, tile, acc);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(c, tile, acc) };
    }
    all(c, tile, acc);
}
