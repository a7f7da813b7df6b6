//! Where no loops of machine code can be made: all calls stay calls.

use super::{
    ahead::Ahead,
    micro::{Cursor, Cursors, Micro, Src},
    program::{Pass, Style},
    whole::{Over, Place},
};
use crate::kernel::{Kernel, Val};

/// Room for a loop's table.
pub const POINTERS: usize = 24;

/// Where a pointer of a loop's table comes from.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A value's block.
    Value(Src),
    /// A value's own register.
    Register(Val, usize),
    /// Where a cursor stands.
    Memory(usize),
    /// The accumulators of a reduction.
    Accumulator(usize),
}

/// There is none.
#[derive(Debug)]
pub struct Loop {
    /// Its table.
    pub entries: Vec<Entry>,
    /// Values that are one number for the whole block.
    pub invariants: Vec<Src>,
    /// Values left in memory.
    pub placed: Vec<(Val, usize)>,
}

impl Loop {
    /// # Safety
    /// There is no loop to run.
    pub unsafe fn run(&self, _: &mut [usize; POINTERS], _: impl Fn(&Src) -> u32, _: usize) {}

    /// There are no constants.
    pub fn fill(&self, _: &mut Vec<u32>, _: usize) -> usize {
        0
    }

    /// # Safety
    /// There is no loop to run.
    pub unsafe fn call(&self, _: &[usize; POINTERS], _: usize) {}
}

/// What a compiler of loops would know.
pub struct Context<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// How it runs.
    pub style: Style,
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// Values that are the same along a block.
    pub still: &'a [bool],
    /// The addresses that calls use.
    pub cursors: &'a [Cursor],
}

/// The list as it is.
pub fn with_loops(_: &Context<'_>, list: &[Micro], _: &[Ahead], _: &mut Vec<Loop>) -> Vec<Micro> {
    list.to_vec()
}

/// Nobody asks.
pub fn still(k: &Kernel, _: Style, _: &[bool]) -> Vec<bool> {
    vec![false; k.insts.len()]
}

/// Whether loops can be made here.
pub fn available() -> bool {
    false
}

/// What is made without loops, as all is.
pub fn without<T>(make: impl FnOnce() -> T) -> (T, bool) {
    (make(), false)
}

/// Where the places would begin in a function's table.
pub const FIRST_PLACE: usize = 2;

/// There is none.
#[derive(Debug)]
pub struct Whole {
    /// Where its pointers begin.
    pub places: Vec<Place>,
    /// Cursors of results that go past the caches.
    pub past: Vec<usize>,
    /// Reductions to places.
    pub relative: Vec<(usize, Val)>,
    /// What a row is.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

impl Whole {
    /// Nobody asks.
    pub fn wide(&self) -> bool {
        false
    }

    /// Nobody asks.
    pub fn words(&self) -> bool {
        false
    }

    /// Nobody asks.
    pub fn light(&self) -> bool {
        false
    }

    /// Nobody asks.
    pub fn takes(&self, _: impl Fn(Val) -> i64) -> bool {
        false
    }

    /// # Safety
    /// There is no function to run.
    pub unsafe fn begin_places(&self, _: *mut u8, _: usize) {}

    /// # Safety
    /// There is no function to run.
    pub unsafe fn end_places(&self, _: *mut u8, _: usize, _: i64) {}

    /// # Safety
    /// There is no function to run.
    pub unsafe fn call(&self, _: &mut [usize; POINTERS], _: impl Fn(Val) -> u64, _: usize) {}
}

/// What a compiler of functions would know.
pub struct Outline<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// Its cursors.
    pub cursors: &'a Cursors,
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// The passes to be done for a row, with what each should fetch ahead.
    pub passes: Vec<(&'a Pass, &'a [Ahead])>,
    /// Cursors of results that should go past the caches.
    pub past: &'a [usize],
    /// What is a row.
    pub over: Over,
    /// Elements of a row.
    pub n: usize,
}

impl Outline<'_> {
    /// Nothing is known.
    pub fn compile(&self) -> Option<Whole> {
        None
    }
}
