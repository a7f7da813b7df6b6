//! Keys and positions in one word: half of what is moved otherwise, and one comparison.
//!
//! Such words are all different, so every way to sort them gives the same order, on any number of threads.

use crate::element::Order;
use crate::lanes::PARALLEL_WORK;
use crate::scratch::Scratch;
use crate::tasks::{Shared, for_chunks, for_tasks};

/// Lists up to this long are sorted by a fixed network of exchanges.
pub(crate) const FEW: usize = 16;
/// Lists that are cut into parts first are counted in so many pieces at most.
const PIECES: usize = 8;
/// Lists from which on that is done, if their keys have many bits: in how many pieces, and elements a part.
pub(crate) const CUT: usize = 1 << 13;
const FEW_PIECES: usize = 2;
const PART: u32 = 3;
/// Bits of a digit of long lists.
const DIGIT: u32 = 11;

/// Bits by which a list is cut: into parts of a few, as long as these stay in a core's own cache while they are filled.
fn cut_bits(n: usize) -> u32 {
    if n <= 1 << 18 { 13.min(n.ilog2() - PART + 1) } else { DIGIT }
}

/// How keys and positions become words.
#[derive(Clone, Copy)]
pub(crate) struct Packing {
    /// The key that comes first.
    first: u64,
    descending: bool,
    /// Bits of a position, which are the low ones.
    low: u32,
    /// Bits of a key.
    bits: u32,
}

impl Packing {
    /// For these elements, if both fit.
    pub fn of<T: Order>(x: &[T], descending: bool) -> Option<Packing> {
        let low = usize::BITS - x.len().saturating_sub(1).leading_zeros();
        let bits = 8 * size_of::<T>() as u32;
        if bits + low <= u64::BITS {
            let first = if descending { u64::MAX >> (u64::BITS - bits) } else { 0 };
            return Some(Packing { first, descending, low, bits });
        }
        let (least, most) = x.iter().fold((u64::MAX, 0), |(a, b), x| (a.min(x.key()), b.max(x.key())));
        let first = if descending { most } else { least };
        let bits = u64::BITS - most.saturating_sub(least).leading_zeros();
        (bits + low <= u64::BITS).then_some(Packing { first, descending, low, bits })
    }

    /// Whether keys have so many bits that dealing them out by digits takes long.
    pub fn many_bits(self) -> bool {
        self.bits > 3 * DIGIT
    }

    /// An element as a word.
    #[inline]
    pub fn item<T: Order>(self, x: T, at: usize) -> u64 {
        let key = if self.descending { self.first - x.key() } else { x.key() - self.first };
        // A shift by all bits is by none, and then no key has any.
        key.unbounded_shl(self.low) | at as u64
    }

    /// Where the element of a word was.
    #[inline]
    pub fn position(self, item: u64) -> usize {
        (item & !u64::MAX.unbounded_shl(self.low)) as usize
    }

    /// The part of a word that is the same for equal elements.
    #[inline]
    pub fn key(self, item: u64) -> u64 {
        item.unbounded_shr(self.low)
    }
}

/// Sorts the first `n` of a few words; those behind must not be less than any.
#[inline]
pub(crate) fn sort_few(x: &mut [u64; FEW], n: usize) {
    if n <= 4 {
        network::<4>(x);
    } else if n <= 8 {
        network::<8>(x);
    } else {
        network::<16>(x);
    }
}

/// Batcher's merging exchanges for the first `N` words.
#[inline(always)]
fn network<const N: usize>(x: &mut [u64; FEW]) {
    let mut p = 1;
    while p < N {
        let mut k = p;
        while k >= 1 {
            let mut j = k % p;
            while j + k < N {
                for i in 0..k {
                    let (a, b) = (i + j, i + j + k);
                    if b < N && a / (2 * p) == b / (2 * p) {
                        (x[a], x[b]) = (x[a].min(x[b]), x[a].max(x[b]));
                    }
                }
                j += 2 * k;
            }
            k /= 2;
        }
        p *= 2;
    }
}

/// Sorts words whose low bits are in order already; `room` is as long.
pub(crate) fn sort(items: &mut [u64], room: &mut [u64], how: Packing) {
    let n = items.len();
    if n <= FEW {
        let mut few = [u64::MAX; FEW];
        few[..n].copy_from_slice(items);
        sort_few(&mut few, n);
        return items.copy_from_slice(&few[..n]);
    }
    let first = items.first().copied().unwrap_or(0);
    let differ = how.key(items.iter().fold(0, |d, i| d | (i ^ first)));
    let width = if n < 8192 { 8 } else { DIGIT };
    let digits = (0..u64::BITS.div_ceil(width)).map(|d| d * width);
    let digits = digits.filter(|d| differ >> d & ((1 << width) - 1) != 0);
    let count = digits.clone().count();
    if n < 64 || 2 * count > n.ilog2() as usize {
        return items.sort_unstable();
    }
    let (mut from, mut to) = (items, room);
    let mut places = [0u32; 1 << DIGIT];
    for d in digits {
        let (shift, mask) = (how.low + d, (1u64 << width) - 1);
        let digit = |i: u64| (i >> shift & mask) as usize;
        let places = &mut places[..1 << width];
        places.fill(0);
        from.iter().for_each(|&i| places[digit(i)] += 1);
        let mut sum = 0;
        places.iter_mut().for_each(|p| (*p, sum) = (sum, sum + *p));
        for &i in from.iter() {
            let at = &mut places[digit(i)];
            to[*at as usize] = i;
            *at += 1;
        }
        (from, to) = (to, from);
    }
    if count % 2 == 1 {
        to.copy_from_slice(from);
    }
}

/// Calls `with` with the words of many elements in order: they are cut into parts by their highest bits, and the parts
/// are sorted by themselves.
pub(crate) fn sorted_all<T: Order, R>(x: &[T], how: Packing, room: &mut Scratch, with: impl FnOnce(&[u64]) -> R) -> R {
    let n = x.len();
    assert!(room.len() >= 4 * n, "room for two words an element");
    // SAFETY: the memory is aligned to a line and borrowed exclusively, has two words for every element, and any bits
    // are a word.
    let words = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<u64>(), 2 * n) };
    let (items, parts) = words.split_at_mut(n);
    let pieces = if n < PARALLEL_WORK { FEW_PIECES } else { PIECES };
    let piece = n.div_ceil(pieces);
    let differ = {
        let mut differ = [0u64; PIECES];
        let first = how.item(x[0], 0);
        let found = Shared::new(&mut differ);
        for_chunks(items, piece, 1, true, |(c, items)| {
            let mut differ = 0;
            for ((item, x), i) in items.iter_mut().zip(&x[c * piece..]).zip(c * piece..) {
                *item = how.item(*x, i);
                differ |= *item ^ first;
            }
            // SAFETY: there are no more pieces than that, and each writes its own.
            unsafe { *found.ptr().add(c) = differ };
        });
        how.key(differ.iter().fold(0, |a, b| a | b))
    };
    let bits = u64::BITS - differ.leading_zeros();
    let most = cut_bits(n);
    let cut = bits.min(most);
    let shift = how.low + (bits - cut);
    let part_of = |i: u64| (i.unbounded_shr(shift) as usize) & ((1 << most) - 1);
    // How many each piece has of each part, then where they go: behind what earlier pieces have of it.
    let mut places = vec![0u32; pieces << most];
    for_chunks(&mut places, 1 << most, 1, true, |(c, places)| {
        let items = &items[(c * piece).min(n)..((c + 1) * piece).min(n)];
        items.iter().for_each(|&i| places[part_of(i)] += 1);
    });
    let (mut sum, mut starts) = (0, vec![0u32; 1 << most]);
    for (part, start) in starts.iter_mut().enumerate() {
        *start = sum;
        for c in 0..pieces {
            let p = &mut places[(c << most) + part];
            (*p, sum) = (sum, sum + *p);
        }
    }
    let to = Shared::new(parts);
    for_chunks(&mut places, 1 << most, 1, true, |(c, places)| {
        for &i in &items[(c * piece).min(n)..((c + 1) * piece).min(n)] {
            let at = &mut places[part_of(i)];
            // SAFETY: the counts say which places of the parts are this piece's.
            unsafe { *to.ptr().add(*at as usize) = i };
            *at += 1;
        }
    });
    if bits > cut {
        let (room, to) = (Shared::new(items), Shared::new(parts));
        // Parts differ in length: a few of them to a task, so that none is the last for long.
        for_tasks((1 << most) / 16, true, |t| {
            for part in 16 * t..16 * t + 16 {
                let from = starts[part] as usize;
                let len = starts.get(part + 1).map_or(n, |s| *s as usize) - from;
                // SAFETY: parts do not overlap.
                let (items, room) = unsafe {
                    let items = std::slice::from_raw_parts_mut(to.ptr().add(from), len);
                    (items, std::slice::from_raw_parts_mut(room.ptr().add(from), len))
                };
                sort(items, room, how);
            }
        });
    }
    with(parts)
}
