//! Kernels with operands that lie across, as in `x + y.t()`, `x.permute([2, 1, 0]) * 2` or `(x * y.t()).sum()`: these operands
//! are turned first, into memory that is kept for it, and what is left is one function of machine code.
//!
//! That is two passes, and still takes half as long as [`super::tiles`], which turns a few lines at a time for blocks of
//! calls: 1000 x 1000 numbers plus their transpose take 0.16 ms instead of 0.30, 4096 x 4096 take 10 instead of 21.

use super::{
    copy::Transposition,
    exec::{self, Bases},
    forms::Form,
    program::Program,
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Level, Source, Val, collapse},
};
use gradus_numerics::scratch::{self, Scratch};
use smallvec::SmallVec;

/// Fewer elements are not worth two passes.
const LEAST: usize = 1024;
/// The most bytes that are turned at once.
const MOST: usize = 256 << 20;
/// Axes shorter than this make no lines to turn.
const SHORT: usize = 8;

/// A kernel and what is turned before it.
pub struct Straight {
    /// Each with the bytes it takes.
    turned: Vec<(Transposition, usize)>,
    program: Program,
    /// Buffers of a launch; those after them are the turned operands.
    args: usize,
}

impl Straight {
    /// The parts of a verified kernel, if operands lie across it.
    pub fn of(kernel: &Kernel) -> Option<Straight> {
        let mut k = collapse(kernel);
        if !suits(&k) {
            return None;
        }
        let space: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
        let args = k.args.len();
        let mut turned = vec![];
        for v in 0..k.insts.len() {
            let Some((from, access)) = across(&k, v, &space) else { continue };
            let (dtype, to) = (k.insts[v].dtype, k.args.len());
            let (strides, elements) = in_order(&space, &access.strides);
            let straight = Access { strides, offset: 0, bounds: vec![], lookup: vec![] };
            let bytes = elements.saturating_mul(dtype.size());
            let copy = Transposition::between(&space, dtype.size(), (from, &access), (to, &straight));
            turned.push((copy.filter(|_| bytes <= MOST)?.kept(), bytes));
            k.args.push(Arg { dtype, written: false });
            k.insts[v].kind = InstKind::Load { source: Source::Arg(to), access: straight };
        }
        (!turned.is_empty()).then(|| Straight { turned, program: Program::new(&k), args })
    }
}

impl Form for Straight {
    fn args(&self) -> &[Arg] {
        &self.program.kernel.args[..self.args]
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let mut room: SmallVec<[Scratch; 2]> = self.turned.iter().map(|(_, n)| scratch::take(n.div_ceil(4))).collect();
        let room = room.iter_mut().map(|r| r.as_mut_ptr().cast::<u8>());
        let all: SmallVec<[*mut u8; 32]> = bases.0.iter().copied().chain(room).collect();
        let all = Bases(&all);
        // SAFETY: the caller's promise, and each turned operand has room of its own.
        unsafe {
            self.turned.iter().for_each(|(t, _)| t.run(all));
            exec::run(&self.program, all, params)
        }
    }
}

/// Whether a (collapsed) kernel has enough elements, and goes along rows.
pub fn suits(k: &Kernel) -> bool {
    // A reduction whose order is one after the other goes across rows, where most operands lie.
    let rows = k.order.lanes > 1 && (0..k.insts.len()).any(|v| goes_along_rows(k, v));
    k.rows().saturating_mul(k.cols()) >= LEAST && Transposition::of(k).is_none() && (k.reduce.is_empty() || rows)
}

/// Whether an instruction reads or writes elements one after the other along the last axis.
fn goes_along_rows(k: &Kernel, v: Val) -> bool {
    let (InstKind::Load { access, .. } | InstKind::Store { access, .. }) = &k.insts[v].kind else { return false };
    k.insts[v].level == Level::Elem && access.strides.last() == Some(&1)
}

/// The argument and the place of an operand that lies along another axis than the last of map and reduce space.
pub fn across(k: &Kernel, v: Val, space: &[usize]) -> Option<(usize, Access)> {
    let (inst, last) = (&k.insts[v], space.len().checked_sub(1)?);
    let InstKind::Load { source: Source::Arg(from), access } = &inst.kind else { return None };
    let plain = inst.level == Level::Elem && access.bounds.is_empty() && access.lookup.is_empty();
    if !plain || access.strides.len() != space.len() {
        return None;
    }
    let lies = (0..last).any(|a| access.strides[a] == 1 && space[a] >= SHORT);
    let steps = access.strides[last].unsigned_abs() >= SHORT && space[last] >= SHORT;
    (lies && steps).then(|| (*from, access.clone()))
}

/// Steps of an operand in the order of the space, without the axes along which it stays the same, and its elements.
pub fn in_order(space: &[usize], strides: &[isize]) -> (Vec<isize>, usize) {
    let mut n = 1;
    let mut out = vec![0; space.len()];
    for a in (0..space.len()).rev().filter(|&a| strides[a] != 0) {
        out[a] = n as isize;
        n *= space[a];
    }
    (out, n)
}
