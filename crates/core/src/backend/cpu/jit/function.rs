//! A function over many rows, made ready.

use super::{POINTERS, asm, memory, sections};
use crate::{
    backend::cpu::whole::{Over, Place},
    kernel::Val,
};

/// A function that does all there is to do for row after row.
pub struct Whole {
    pub(super) sealed: memory::Sealed,
    /// Room for numbers, then the constants.
    pub(super) pool: Vec<u32>,
    /// Where its pointers begin.
    pub places: Vec<Place>,
    /// Numbers that it is given: their places in the pool, and the values.
    pub given: Vec<(usize, Val)>,
    /// What a row is.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

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
    /// Whether all its pointers have registers.
    pub fn light(&self) -> bool {
        self.places.len() < asm::POINTERS.len()
    }

    /// Runs over `count` rows, one or more. The table holds the addresses of the first; `number` gives the bits of a
    /// value.
    ///
    /// # Safety
    /// All addresses are good for the elements of so many rows.
    pub unsafe fn call(&self, table: &mut [usize; POINTERS], number: impl Fn(Val) -> u32, count: usize) {
        let mut pool = [0u32; NUMBERS];
        pool[..self.pool.len()].copy_from_slice(&self.pool);
        self.given.iter().for_each(|&(n, v)| pool[n] = number(v));
        table[sections::POOL] = pool.as_mut_ptr() as usize;
        table[sections::MASK] = sections::mask(self.n);
        // SAFETY: the caller's promise; the function writes to its table and pool, which are borrowed mutably.
        unsafe { (self.sealed.code())(table.as_mut_ptr(), count, 0) };
    }
}
