//! Where cumulative extrema are.

use super::{IDLE, columns::by_parts, for_blocks, for_runs, rows::SIDE};
use crate::{element::Num, lanes::Lanes, transpose::Transposition};

/// Elements of sixteen rows that are turned at once.
const WIDTH: usize = 32;
/// Elements that are widened at once, at least where rows are shorter.
const BLOCK: usize = 2048;

/// Positions where an element took over last: `better(new, old)` says that it does, and `wider` the same of what elements are
/// widened to.
pub(super) fn extremum<T: Num>(
    l: Lanes,
    x: &[T],
    indices: &mut [i64],
    better: impl Fn(T, T) -> bool + Sync,
    wider: impl Fn(T::Acc, T::Acc) -> bool + Sync,
) {
    if l.is_empty() {
        return;
    }
    if l.inner == 1 {
        return for_runs(l, x, indices, |x, indices| {
            if !T::IN_BLOCKS {
                return rows(l.n, x, indices, &better);
            }
            let some = SIDE * (BLOCK / SIDE / l.n).max(1) * l.n;
            let mut wide = vec![T::Acc::ZERO; some.min(x.len())];
            for (x, indices) in x.chunks(some).zip(indices.chunks_mut(some)) {
                T::widen_block(x, &mut wide);
                rows(l.n, &wide[..x.len()], indices, &wider);
            }
        });
    }
    let some = |lanes: &mut dyn Iterator<Item = (&[T], &mut [i64])>, inner: usize| {
        let (mut best, mut best_wide) = (Best::new(inner), Best::new(inner));
        let mut wide = vec![T::Acc::ZERO; if T::IN_BLOCKS { BLOCK.max(inner) } else { 0 }];
        for (x, indices) in lanes {
            if T::IN_BLOCKS {
                T::widen_block(x, &mut wide);
                best_wide.rows(&wide[..x.len()], indices, &wider);
            } else {
                best.rows(x, indices, &better);
            }
        }
    };
    if !by_parts(l, x, indices, some) {
        let block = (BLOCK / l.inner).max(1) * l.inner;
        for_blocks(
            l,
            x,
            indices,
            || (),
            |x, indices, ()| some(&mut x.chunks(block).zip(indices.chunks_mut(block)), l.inner),
        );
    }
}

/// One more element: NaN takes over and, being compared false, stays; a later NaN moves the position.
#[inline(always)]
fn take<E: Num>(at: i64, new: E, (index, old): (i64, E), better: &impl Fn(E, E) -> bool) -> (i64, E) {
    let takes = new.is_nan() | better(new, old);
    (if takes { at } else { index }, if takes { new } else { old })
}

/// The best so far of lanes side by side.
struct Best<E> {
    values: Vec<E>,
    indices: Vec<i64>,
    /// Rows so far.
    at: i64,
}

impl<E: Num> Best<E> {
    fn new(inner: usize) -> Self {
        Best { values: Vec::with_capacity(inner), indices: vec![0; inner], at: 0 }
    }

    /// More rows.
    fn rows(&mut self, x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) {
        let inner = self.indices.len();
        if self.at == 0 {
            self.values.extend(&x[..inner]);
        }
        #[cfg(target_arch = "x86_64")]
        if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn wide<E: Num>(best: &mut Best<E>, x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) {
                best.all(x, indices, better);
            }
            // SAFETY: the instructions are there.
            return unsafe { wide(self, x, indices, better) };
        }
        self.all(x, indices, better);
    }

    #[inline(always)]
    fn all(&mut self, x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) {
        let inner = self.indices.len();
        let done = match inner {
            2..=4 => self.vectors::<4>(x, indices, better),
            5..=8 => self.vectors::<8>(x, indices, better),
            9..=16 => self.vectors::<16>(x, indices, better),
            _ => 0,
        };
        for (x, indices) in x[done..].chunks_exact(inner).zip(indices[done..].chunks_exact_mut(inner)) {
            row(self.at, x, indices, (&mut self.values, &mut self.indices), better);
            self.at += 1;
        }
    }

    /// Rows as vectors of `P` elements, which reach into the next row: what they leave there is written over by that one.
    /// Those at the end have no room for it, and are left out. How many elements were done.
    #[inline(always)]
    fn vectors<const P: usize>(&mut self, x: &[E], out: &mut [i64], better: &impl Fn(E, E) -> bool) -> usize {
        let inner = self.indices.len();
        let (mut old, mut index) = ([E::ZERO; P], [0; P]);
        old[..inner].copy_from_slice(&self.values);
        index[..inner].copy_from_slice(&self.indices);
        let mut done = 0;
        while let (Some(x), Some(out)) = (x[done..].first_chunk::<P>(), out[done..].first_chunk_mut::<P>()) {
            for r in 0..P {
                (index[r], old[r]) = take(self.at, x[r], (index[r], old[r]), better);
            }
            *out = index;
            self.at += 1;
            done += inner;
        }
        self.values.copy_from_slice(&old[..inner]);
        self.indices.copy_from_slice(&index[..inner]);
        done
    }
}

#[inline(always)]
fn row<E: Num>(at: i64, x: &[E], out: &mut [i64], best: (&mut [E], &mut [i64]), better: &impl Fn(E, E) -> bool) {
    for (((&x, out), old), index) in x.iter().zip(out).zip(best.0).zip(best.1) {
        (*index, *old) = take(at, x, (*index, *old), better);
        *out = *index;
    }
}

/// Whole rows of `n` elements, one after the other in memory.
fn rows<E: Num>(n: usize, x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) {
    match n {
        1 => return short::<E, 1>(x, indices, better),
        2 => return short::<E, 2>(x, indices, better),
        3 => return short::<E, 3>(x, indices, better),
        4 => return short::<E, 4>(x, indices, better),
        5 => return short::<E, 5>(x, indices, better),
        6 => return short::<E, 6>(x, indices, better),
        7 => return short::<E, 7>(x, indices, better),
        _ => {}
    }
    let mut at = 0;
    let count = x.len() / n;
    while at < count {
        let (x, out) = (&x[at * n..], &mut indices[at * n..]);
        at += match count - at {
            // Elements of eight bytes take as long to be turned.
            SIDE.. if size_of::<E>() == 4 => turned(n, x, out, better),
            _ => lasting(&x[..n], &mut out[..n], better),
        };
    }
}

/// Rows of a number of elements that is known.
fn short<E: Num, const N: usize>(x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) {
    for (x, out) in x.as_chunks::<N>().0.iter().zip(indices.as_chunks_mut::<N>().0) {
        let mut best = (0, x[0]);
        for i in 0..N {
            best = take(i as i64, x[i], best, better);
            out[i] = best.0;
        }
    }
}

/// One row: its extremum seldom changes.
fn lasting<E: Num>(x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) -> usize {
    #[inline(always)]
    fn all<E: Num>(x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) -> usize {
        let mut best = (0, x[0]);
        let some = |from: usize, x: &[E], out: &mut [i64], best: &mut (i64, E)| {
            for (at, (&x, out)) in (from as i64..).zip(x.iter().zip(out)) {
                *best = take(at, x, *best, better);
                *out = best.0;
            }
        };
        for (b, (x, out)) in x.chunks(IDLE).zip(indices.chunks_mut(IDLE)).enumerate() {
            match (<&[E; IDLE]>::try_from(x), <&mut [i64; IDLE]>::try_from(&mut *out)) {
                (Ok(x), Ok(out)) if !x.iter().fold(false, |any, &x| any | x.is_nan() | better(x, best.1)) => {
                    *out = [best.0; IDLE];
                }
                _ => some(b * IDLE, x, out, &mut best),
            }
        }
        1
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<E: Num>(x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) -> usize {
            all(x, indices, better)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x, indices, better) };
    }
    all(x, indices, better)
}

/// The first sixteen rows, in the lanes of vectors.
fn turned<E: Num>(n: usize, x: &[E], indices: &mut [i64], better: &impl Fn(E, E) -> bool) -> usize {
    let (x, indices) = (&x[..SIDE * n], &mut indices[..SIDE * n]);
    let mut best: ([E; SIDE], [i64; SIDE]) = (std::array::from_fn(|r| x[r * n]), [0; SIDE]);
    let (mut tile, mut places) = ([[E::ZERO; SIDE]; WIDTH], [[0i64; SIDE]; WIDTH]);
    for at in (0..n).step_by(WIDTH) {
        let part = WIDTH.min(n - at);
        let into = Transposition { rows: part, columns: SIDE, from: n as isize, to: SIDE as isize };
        // SAFETY: there are sixteen rows of `n` elements, and the tile has as many of each.
        unsafe { into.run(x[at..].as_ptr(), tile.as_mut_ptr().cast::<E>(), false) };
        lines(at as i64, &tile[..part], &mut places[..part], &mut best, better);
        let back = Transposition { rows: SIDE, columns: part, from: SIDE as isize, to: n as isize };
        // SAFETY: as above.
        unsafe { back.run(places.as_ptr().cast::<i64>(), indices[at..].as_mut_ptr(), false) };
    }
    SIDE
}

/// Lines of a tile, one after the other.
fn lines<E: Num>(
    at: i64,
    tile: &[[E; SIDE]],
    places: &mut [[i64; SIDE]],
    best: &mut ([E; SIDE], [i64; SIDE]),
    better: &impl Fn(E, E) -> bool,
) {
    #[inline(always)]
    fn all<E: Num>(
        at: i64,
        tile: &[[E; SIDE]],
        places: &mut [[i64; SIDE]],
        best: &mut ([E; SIDE], [i64; SIDE]),
        better: &impl Fn(E, E) -> bool,
    ) {
        let (mut old, mut index) = *best;
        for (at, (x, out)) in (at..).zip(tile.iter().zip(places)) {
            for r in 0..SIDE {
                (index[r], old[r]) = take(at, x[r], (index[r], old[r]), better);
                out[r] = index[r];
            }
        }
        *best = (old, index);
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<E: Num>(
            at: i64,
            tile: &[[E; SIDE]],
            places: &mut [[i64; SIDE]],
            best: &mut ([E; SIDE], [i64; SIDE]),
            better: &impl Fn(E, E) -> bool,
        ) {
            all(at, tile, places, best, better);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(at, tile, places, best, better) };
    }
    all(at, tile, places, best, better);
}
