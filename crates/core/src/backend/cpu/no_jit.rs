//! Where no loops of machine code can be made: all calls stay calls.

use super::{
    micro::{Ahead, Micro, Src},
    program::Style,
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
}

/// The list as it is.
pub fn with_loops(_: &Context<'_>, list: &[Micro], _: &[Ahead], _: &mut Vec<Loop>) -> Vec<Micro> {
    list.to_vec()
}

/// Nobody asks.
pub fn still(k: &Kernel, _: Style, _: &[bool]) -> Vec<bool> {
    vec![false; k.insts.len()]
}
