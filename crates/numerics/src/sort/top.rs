//! The few best elements of a lane: a short sorted list, and most elements compared with its last alone.

use crate::element::Order;

/// The longest list.
pub(super) const MOST: usize = 16;
/// Elements that are compared at once: enough to stay a loop, of which vectors are made.
const BLOCK: usize = 64;

/// The best so far.
struct List {
    keys: [u64; MOST],
    places: [i64; MOST],
}

impl List {
    /// Puts an element where it belongs among the first `n`, behind its equals, which came before; the last of `n + 1` goes.
    #[inline(always)]
    fn put(&mut self, n: usize, key: u64, place: usize) {
        let mut at = n;
        while at > 0 && self.keys[at - 1] > key {
            (self.keys[at], self.places[at]) = (self.keys[at - 1], self.places[at - 1]);
            at -= 1;
        }
        (self.keys[at], self.places[at]) = (key, place as i64);
    }
}

/// Writes the positions of the elements of least keys, after these bits of each are flipped, in order: as many as `out` has
/// (one at least, [`MOST`] at most, and no more than there are).
pub(super) fn first<T: Order>(x: &[T], flip: u64, out: &mut [i64]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Order>(x: &[T], flip: u64, out: &mut [i64]) {
            all(x, flip, out);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x, flip, out) };
    }
    all(x, flip, out);
}

#[inline(always)]
fn all<T: Order>(x: &[T], flip: u64, out: &mut [i64]) {
    let last = out.len() - 1;
    let mut list = List { keys: [0; MOST], places: [0; MOST] };
    let (begin, rest) = x.split_at(out.len());
    begin.iter().enumerate().for_each(|(i, x)| list.put(i, x.key() ^ flip, i));
    let (blocks, end) = rest.as_chunks::<BLOCK>();
    let mut at = out.len();
    for block in blocks {
        let (mut keys, limit) = ([0; BLOCK], list.keys[last]);
        keys.iter_mut().zip(block).for_each(|(k, x)| *k = x.key() ^ flip);
        if keys.iter().fold(0, |n, &k| n + u32::from(k < limit)) > 0 {
            for (i, &key) in keys.iter().enumerate() {
                if key < list.keys[last] {
                    list.put(last, key, at + i);
                }
            }
        }
        at += BLOCK;
    }
    for (i, x) in end.iter().enumerate() {
        let key = x.key() ^ flip;
        if key < list.keys[last] {
            list.put(last, key, at + i);
        }
    }
    out.copy_from_slice(&list.places[..=last]);
}
