//! Lanes of a few elements, sorted sixteen at a time: one network of exchanges, on vectors of words.

use super::packed::FEW;
use crate::{
    element::Order,
    lanes::{Lanes, PARALLEL_WORK},
    tasks::{Shared, for_tasks},
    transpose::Transposition,
};

/// Lanes that are sorted side by side: two vectors, so that an exchange of one waits for its operands while the other is done.
const SIDE: usize = 16;

/// A word of each lane, for each element.
type Words = [[u64; SIDE]; FEW];

/// Writes the first `m` positions of every lane in sorted order; lanes have at most [`FEW`] elements.
pub(super) fn sort<T: Order>(l: Lanes, m: usize, x: &[T], descending: bool, out: &mut [i64]) {
    assert!(l.n <= FEW && m <= l.n && x.len() == l.len() && out.len() == l.outer * m * l.inner, "sizes of lanes");
    let (n, lanes, out) = (l.n, l.count(), Shared::new(out));
    let bits = 8 * size_of::<T>() as u32;
    let flip = if descending { u64::MAX >> (u64::BITS - bits) } else { 0 };
    let (groups, exchanges) = (lanes.div_ceil(SIDE), network(n));
    let together = (PARALLEL_WORK / 16 / (SIDE * n.max(1))).max(1);
    for_tasks(groups.div_ceil(together), 4 * x.len() >= PARALLEL_WORK, |t| {
        let (mut all, mut places) = ([[0; SIDE]; FEW], [[0; SIDE]; FEW]);
        let mut flat = [0; SIDE * FEW];
        for g in t * together..groups.min((t + 1) * together) {
            let (first, side) = (g * SIDE, SIDE.min(lanes - g * SIDE));
            let place = |lane: usize, n: usize| lane / l.inner * n * l.inner + lane % l.inner;
            let rows = l.inner == 1 && side == SIDE;
            let columns = side == SIDE && first % l.inner + SIDE <= l.inner;
            if rows {
                keys(&x[first * n..][..SIDE * n], flip, &mut flat);
                let turn = Transposition { rows: n, columns: SIDE, from: n as isize, to: SIDE as isize };
                // SAFETY: there are sixteen lanes of so many keys, and room for a few.
                unsafe { turn.run(flat.as_ptr(), all.as_mut_ptr().cast::<u64>(), false) };
            } else if columns {
                let from = place(first, n);
                for (i, words) in all.iter_mut().enumerate().take(n) {
                    keys(&x[from + i * l.inner..][..SIDE], flip, words);
                }
            } else {
                for w in 0..side {
                    let from = place(first + w, n);
                    all.iter_mut().take(n).enumerate().for_each(|(i, k)| k[w] = x[from + i * l.inner].key() ^ flip);
                }
            }
            if bits < u64::BITS {
                all.iter_mut().take(n).zip(0..).for_each(|(k, i)| *k = k.map(|k| k << 4 | i));
                words(&exchanges, &mut all);
                all.iter().zip(&mut places).take(m).for_each(|(k, p)| *p = k.map(|k| k & 15));
            } else {
                places.iter_mut().zip(0..).for_each(|(p, i)| *p = [i; SIDE]);
                pairs(&exchanges, &mut all, &mut places);
            }
            let to = out.ptr().cast::<u64>();
            // SAFETY: inside, as the length was asserted, and positions fit both types; tasks have lanes of their own.
            unsafe {
                if rows {
                    let turn = Transposition { rows: SIDE, columns: m, from: SIDE as isize, to: m as isize };
                    turn.run(places.as_ptr().cast::<u64>(), to.add(first * m), false);
                } else if columns {
                    let to = to.add(place(first, m));
                    places
                        .iter()
                        .enumerate()
                        .take(m)
                        .for_each(|(i, p)| to.add(i * l.inner).cast::<[u64; SIDE]>().write_unaligned(*p));
                } else {
                    for w in 0..side {
                        let to = to.add(place(first + w, m));
                        places.iter().enumerate().take(m).for_each(|(i, p)| *to.add(i * l.inner) = p[w]);
                    }
                }
            }
        }
    });
}

/// The keys of elements, these bits flipped.
fn keys<T: Order>(x: &[T], flip: u64, out: &mut [u64]) {
    #[inline(always)]
    fn all<T: Order>(x: &[T], flip: u64, out: &mut [u64]) {
        out.iter_mut().zip(x).for_each(|(k, x)| *k = x.key() ^ flip);
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Order>(x: &[T], flip: u64, out: &mut [u64]) {
            all(x, flip, out);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x, flip, out) };
    }
    all(x, flip, out);
}

/// Batcher's merging exchanges for `n` places.
fn network(n: usize) -> Vec<(u8, u8)> {
    let (mut all, mut p) = (vec![], 1);
    while p < n {
        let mut k = p;
        while k >= 1 {
            for j in (k % p..n.saturating_sub(k)).step_by(2 * k) {
                let places = (j..(j + k).min(n - k)).filter(|a| a / (2 * p) == (a + k) / (2 * p));
                all.extend(places.map(|a| (a as u8, (a + k) as u8)));
            }
            k /= 2;
        }
        p *= 2;
    }
    all
}

/// Sorts words that are all different.
fn words(exchanges: &[(u8, u8)], x: &mut Words) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        // SAFETY: the instructions are there.
        return unsafe { x86::words(exchanges, x) };
    }
    for &(a, b) in exchanges {
        let (p, q) = (x[a as usize], x[b as usize]);
        for w in 0..SIDE {
            (x[a as usize][w], x[b as usize][w]) = (p[w].min(q[w]), p[w].max(q[w]));
        }
    }
}

/// Sorts keys with their places, which decide among equal ones.
fn pairs(exchanges: &[(u8, u8)], keys: &mut Words, places: &mut Words) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        // SAFETY: the instructions are there.
        return unsafe { x86::pairs(exchanges, keys, places) };
    }
    for &(a, b) in exchanges {
        let (a, b) = (a as usize, b as usize);
        for w in 0..SIDE {
            if (keys[b][w], places[b][w]) < (keys[a][w], places[a][w]) {
                (keys[a][w], keys[b][w]) = (keys[b][w], keys[a][w]);
                (places[a][w], places[b][w]) = (places[b][w], places[a][w]);
            }
        }
    }
}

/// The same by vectors, which the compiler makes of none of it.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{FEW, SIDE, Words};
    use std::arch::x86_64::*;

    /// Words of a vector.
    const WIDTH: usize = 8;

    #[target_feature(enable = "avx512f")]
    fn load(x: &[u64; SIDE], half: usize) -> __m512i {
        // SAFETY: a half is as many bytes.
        unsafe { _mm512_loadu_si512(x[half * WIDTH..][..WIDTH].as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn store(x: &mut [u64; SIDE], half: usize, v: __m512i) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(x[half * WIDTH..][..WIDTH].as_mut_ptr().cast(), v) }
    }

    #[target_feature(enable = "avx512f")]
    pub fn words(exchanges: &[(u8, u8)], x: &mut Words) {
        for &(a, b) in exchanges {
            let (a, b) = (a as usize % FEW, b as usize % FEW);
            for half in 0..SIDE / WIDTH {
                let (p, q) = (load(&x[a], half), load(&x[b], half));
                store(&mut x[a], half, _mm512_min_epu64(p, q));
                store(&mut x[b], half, _mm512_max_epu64(p, q));
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub fn pairs(exchanges: &[(u8, u8)], keys: &mut Words, places: &mut Words) {
        for &(a, b) in exchanges {
            let (a, b) = (a as usize % FEW, b as usize % FEW);
            for half in 0..SIDE / WIDTH {
                let (k, l) = (load(&keys[a], half), load(&keys[b], half));
                let (p, q) = (load(&places[a], half), load(&places[b], half));
                let earlier = _mm512_mask_cmplt_epu64_mask(_mm512_cmpeq_epi64_mask(k, l), p, q);
                let keep = _mm512_cmplt_epu64_mask(k, l) | earlier;
                store(&mut keys[a], half, _mm512_min_epu64(k, l));
                store(&mut keys[b], half, _mm512_max_epu64(k, l));
                store(&mut places[a], half, _mm512_mask_blend_epi64(keep, q, p));
                store(&mut places[b], half, _mm512_mask_blend_epi64(keep, p, q));
            }
        }
    }
}
