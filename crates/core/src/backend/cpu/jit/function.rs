//! A function over many rows, made ready.

use super::{POINTERS, asm, memory, sections, width::Width};
use crate::{
    backend::cpu::whole::{Over, Place},
    kernel::Val,
};

/// A function that does all there is to do for row after row.
pub struct Whole {
    pub(super) sealed: memory::Sealed,
    /// Room for numbers, then the constants.
    pub(super) pool: Vec<u64>,
    /// How wide its lanes are.
    pub(super) width: Width,
    /// Where its pointers begin.
    pub places: Vec<Place>,
    /// Numbers that it is given: their places in the pool, the values, and what they are.
    pub given: Vec<(usize, Val, Given)>,
    /// Cursors of results that go past the caches: each must begin at the beginning of a line.
    pub past: Vec<usize>,
    /// Reductions of its pass to places that are counted from where it begins, each with the load of positions.
    pub relative: Vec<(usize, Val)>,
    /// What a row is.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

/// What a number is that a function is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// 32 bits.
    Bits,
    /// A position in 64 bits, or the largest number of them for none.
    Position,
    /// 64 bits, at most [`SMALL`].
    Small,
    /// The largest number of 64 bits.
    Nowhere,
}

/// The 32 bits that stand for the largest number of 64.
pub const NOWHERE: u32 = i32::MAX as u32;
/// The largest number of 64 bits that takes part in arithmetic with positions.
pub const SMALL: i64 = 1 << 20;

/// Where the places begin in a function's table.
pub const FIRST_PLACE: usize = sections::FIRST;
/// Room for a function's pool.
pub const NUMBERS: usize = 128;

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "function over {:?} of {}: {:?}", self.over, self.n, self.places)
    }
}

impl Whole {
    /// Whether its lanes have 64 bits.
    pub fn wide(&self) -> bool {
        self.width == Width::Double
    }

    /// Whether its lanes have 16 bits.
    pub fn words(&self) -> bool {
        self.width == Width::Word
    }

    /// Whether all its pointers have registers.
    pub fn light(&self) -> bool {
        self.places.len() < asm::POINTERS.len()
    }

    /// Whether it can work with the numbers of 64 bits that it would be given.
    pub fn takes(&self, number: impl Fn(Val) -> i64) -> bool {
        self.given.iter().all(|&(_, v, kind)| match kind {
            Given::Bits => true,
            Given::Position => matches!(number(v), i64::MAX) || (0..NOWHERE as i64).contains(&number(v)),
            Given::Small => (-SMALL..=SMALL).contains(&number(v)),
            Given::Nowhere => number(v) == i64::MAX,
        })
    }

    /// Accumulators of `n` places before it runs: none has been found.
    ///
    /// # Safety
    /// There are so many words of 64 bits.
    pub unsafe fn begin_places(&self, at: *mut u8, n: usize) {
        if !self.wide() {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(at.cast::<u32>(), n).fill(NOWHERE) };
        }
    }

    /// The same after it has run from position `first` on: as the interpreter holds them.
    ///
    /// # Safety
    /// As [`Whole::begin_places`].
    pub unsafe fn end_places(&self, at: *mut u8, n: usize, first: i64) {
        // From the last on, where they grow.
        for i in (0..n).rev() {
            // SAFETY: the caller's promise.
            unsafe {
                let to = at.cast::<i64>().add(i);
                let found = match *at.cast::<u32>().add(i) {
                    _ if self.wide() => (*to != i64::MAX).then_some(*to),
                    NOWHERE => None,
                    found => Some(found as i64),
                };
                *to = found.map_or(i64::MAX, |found| first + found);
            }
        }
    }

    /// Runs over `count` rows, one or more. The table holds the addresses of the first; `number` gives the bits of a
    /// value.
    ///
    /// # Safety
    /// All addresses are good for the elements of so many rows.
    pub unsafe fn call(&self, table: &mut [usize; POINTERS], number: impl Fn(Val) -> u64, count: usize) {
        let mut pool = [0u64; NUMBERS];
        for (n, &bits) in self.pool.iter().enumerate() {
            self.put(&mut pool, n, bits);
        }
        for &(n, v, kind) in &self.given {
            let x = number(v);
            let nowhere = kind == Given::Position && x as u32 == i64::MAX as u32;
            // Bytes come in fours, words in pairs.
            let x = match self.width {
                Width::Byte => x as u8 as u64 * 0x0101_0101,
                Width::Word => x as u16 as u64 * 0x0001_0001,
                Width::Single | Width::Double => x,
            };
            self.put(&mut pool, n, if nowhere { NOWHERE as u64 } else { x });
        }
        table[sections::POOL] = pool.as_mut_ptr() as usize;
        table[sections::MASK] = sections::mask(self.n, self.width.lanes());
        // SAFETY: the caller's promise; the function writes to its table and pool, which are borrowed mutably.
        unsafe { (self.sealed.code())(table.as_mut_ptr(), count, 0) };
    }

    /// Sets a number of a pool: they lie as close as lanes are wide.
    #[inline]
    fn put(&self, pool: &mut [u64; NUMBERS], n: usize, bits: u64) {
        if self.wide() {
            pool[n] = bits;
        } else {
            let shift = n % 2 * 32;
            pool[n / 2] = pool[n / 2] & !(0xffff_ffff << shift) | (bits & 0xffff_ffff) << shift;
        }
    }
}
