//! Kernels with operands that lie across, as in `x + y.t()`, `x.permute([2, 1, 0]) * 2` or `(x * y.t()).sum()`: these operands
//! are turned first, into memory that is kept for it, and what is left is one function of machine code.
//!
//! That is two passes, and still takes half as long as [`super::tiles`], which turns a few lines at a time for blocks of
//! calls: 1000 x 1000 numbers plus their transpose take 0.16 ms instead of 0.30, 4096 x 4096 take 10 instead of 21.
//!
//! Rows that are reduced and lie in steps (every second element, a channel of a few) are fetched in the same way: a layer norm over
//! the turned axis of `[5, 27200, 10]` takes 0.9 ms instead of 4.9.

use super::{
    copy::Transposition,
    exec::{self, Bases},
    forms::Form,
    program::{Program, Style},
    split,
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Level, Source, Val, along_memory, collapse},
};
use gradus_numerics::{
    scratch::{self, Scratch},
    strided::Strided,
    tasks::for_tasks,
};
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
    brought: Vec<(Brought, usize)>,
    program: Program,
    /// Buffers of a launch; those after them are the turned operands.
    args: usize,
    /// Bytes that an element of the space takes, if parts of rows can be fetched one by one.
    apiece: Option<usize>,
}

/// How an operand is brought into the order of the kernel.
enum Brought {
    Turned(Transposition),
    Fetched(Fetched),
}

/// An operand in any layout, element by element.
struct Fetched {
    lies: Strided,
    /// Elements, and those that are fetched by one task: whole planes or lines.
    elements: usize,
    together: usize,
    /// Bytes of an element.
    size: usize,
    from: (usize, isize),
    to: usize,
}

/// Elements that are worth a task.
const TASK: usize = 16 * 1024;

impl Fetched {
    /// The operand of argument `from` for argument `to`, which has its axes in this order.
    fn new(space: &[usize], order: &[usize], size: usize, from: usize, access: &Access, to: usize) -> Fetched {
        let moves = || order.iter().map(|&a| (&space[a], &access.strides[a])).filter(|a| *a.1 != 0);
        let elements: usize = moves().map(|a| a.0).product();
        let line = moves().next_back().map_or(1, |a| *a.0);
        let plane = line * moves().rev().nth(1).map_or(1, |a| *a.0);
        let unit = if 2 * plane <= elements { plane } else { line };
        let together = unit * TASK.div_ceil(unit);
        let lies = Strided::new(moves().map(|(&n, &s)| (n, s, (0, n))));
        Fetched { lies, elements, together, size, from: (from, access.offset), to }
    }

    /// # Safety
    /// As [`exec::run`].
    unsafe fn run(&self, bases: Bases<'_>) {
        let tasks = self.elements.div_ceil(self.together);
        for_tasks(tasks, tasks > 1, |t| {
            let all = bases; // the whole struct, which may be shared
            let first = t * self.together;
            let n = self.together.min(self.elements - first);
            let target = all.0[self.to].wrapping_add(first * self.size);
            // SAFETY: the caller's promise; the target has room for all, and tasks have parts of their own.
            unsafe { self.read(all.0, first, n, target) };
        });
    }

    /// Some of its elements.
    ///
    /// # Safety
    /// The operand's elements lie in its buffer, and there is room for these.
    unsafe fn read(&self, bases: &[*mut u8], first: usize, n: usize, target: *mut u8) {
        let source = bases[self.from.0].wrapping_offset(self.from.1 * self.size as isize);
        // SAFETY: the caller's promise.
        unsafe { self.lies.read_bytes(self.size, source, first, n, target) };
    }
}

impl Straight {
    /// The parts of a verified kernel, if operands lie across it.
    pub fn of(kernel: &Kernel) -> Option<Straight> {
        // What lies along another map axis needs no fetching: the program goes along that one.
        let mut k = along_memory(collapse(kernel));
        let (turns, fetches) = (suits(&k), reduces(&k));
        if !turns && !fetches {
            return None;
        }
        let space: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
        let order = walked(&k);
        let args = k.args.len();
        let mut brought = vec![];
        for v in 0..k.insts.len() {
            let Some((from, access)) = in_steps(&k, v, &space, &order) else { continue };
            let (dtype, to) = (k.insts[v].dtype, k.args.len());
            let (strides, elements) = ordered(&space, &order, &access.strides);
            let straight = Access { strides, offset: 0, bounds: vec![], lookup: vec![] };
            let bytes = elements.saturating_mul(dtype.size());
            if bytes > MOST {
                return None;
            }
            let between = || Transposition::between(&space, dtype.size(), (from, &access), (to, &straight));
            let turned = if turns { across(&k, v, &space).and_then(|_| between()) } else { None };
            let way = match turned {
                Some(turned) => Brought::Turned(turned.kept()),
                None if fetches => Brought::Fetched(Fetched::new(&space, &order, dtype.size(), from, &access, to)),
                None => continue,
            };
            brought.push((way, bytes));
            k.args.push(Arg { dtype, written: false });
            k.insts[v].kind = InstKind::Load { source: Source::Arg(to), access: straight };
        }
        if brought.is_empty() {
            return None;
        }
        let program = Program::new(&k);
        let natural = order.iter().copied().eq(0..order.len());
        let apiece = if natural { apiece(&program, &brought) } else { None };
        Some(Straight { brought, program, args, apiece })
    }
}

/// Bytes that an element of the space takes, if all that is brought is one element for each of them, and as much as threads share:
/// then it is fetched part by part, each just before it is reduced. (The mean of every second of 2.5 million numbers took 0.56
/// ms where all of them were fetched first.)
fn apiece(p: &Program, brought: &[(Brought, usize)]) -> Option<usize> {
    let elements = p.rows * p.cols;
    let all = brought.iter().all(|b| matches!(&b.0, Brought::Fetched(f) if f.elements == elements));
    let pays = p.style == Style::Rows && p.cols > 1 && p.work >= exec::PARALLEL_WORK && p.transposition.is_none();
    (all && pays).then(|| brought.iter().map(|(_, bytes)| bytes / elements).sum())
}

impl Form for Straight {
    fn args(&self) -> &[Arg] {
        &self.program.kernel.args[..self.args]
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        if let Some(bytes) = self.apiece {
            let none = std::ptr::null_mut();
            let all: SmallVec<[*mut u8; 32]> =
                bases.0.iter().copied().chain(self.brought.iter().map(|_| none)).collect();
            let fetch = |bases: &mut [*mut u8], elements: std::ops::Range<usize>, mut room: *mut u8| {
                for (way, _) in &self.brought {
                    let Brought::Fetched(f) = way else { continue };
                    // SAFETY: the caller's promise, and there is room for as many elements of all of them.
                    unsafe { f.read(bases, elements.start, elements.len(), room) };
                    bases[f.to] = room.wrapping_sub(elements.start * f.size);
                    room = room.wrapping_add((elements.len() * f.size).next_multiple_of(64));
                }
            };
            // SAFETY: the caller's promise; whatever is read of an operand that is brought was fetched.
            return unsafe {
                split::run_fetching(&self.program, Bases(&all), params, &split::Fetching { bytes, fetch: &fetch })
            };
        }
        let mut room: SmallVec<[Scratch; 2]> = self.brought.iter().map(|(_, n)| scratch::take(n.div_ceil(4))).collect();
        let room = room.iter_mut().map(|r| r.as_mut_ptr().cast::<u8>());
        let all: SmallVec<[*mut u8; 32]> = bases.0.iter().copied().chain(room).collect();
        let all = Bases(&all);
        // SAFETY: the caller's promise, and each operand that is brought has room of its own.
        unsafe {
            self.brought.iter().for_each(|(way, _)| match way {
                Brought::Turned(t) => t.run(all),
                Brought::Fetched(f) => f.run(all),
            });
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

/// Whether a (collapsed) kernel has enough elements, and reduces along an axis.
fn reduces(k: &Kernel) -> bool {
    k.reduce.len() == 1 && (k.order.lanes > 1 || !k.map.is_empty()) && k.rows().saturating_mul(k.cols()) >= LEAST
}

/// The axes of map and reduce space, the one that blocks run along last: that is the last of the map space where a kernel goes
/// across its rows.
fn walked(k: &Kernel) -> SmallVec<[usize; 8]> {
    let mut order: SmallVec<[usize; 8]> = (0..k.map.len() + k.reduce.len()).collect();
    if k.order.lanes == 1 && !k.map.is_empty() && !k.reduce.is_empty() {
        let last = order.remove(k.map.len() - 1);
        order.push(last);
    }
    order
}

/// Whether an instruction reads or writes elements one after the other along the last axis.
fn goes_along_rows(k: &Kernel, v: Val) -> bool {
    let (InstKind::Load { access, .. } | InstKind::Store { access, .. }) = &k.insts[v].kind else { return false };
    k.insts[v].level == Level::Elem && access.strides.last() == Some(&1)
}

/// The argument and the place of an operand whose elements along the axis that blocks run along lie apart.
fn in_steps(k: &Kernel, v: Val, space: &[usize], order: &[usize]) -> Option<(usize, Access)> {
    let inst = &k.insts[v];
    let InstKind::Load { source: Source::Arg(from), access } = &inst.kind else { return None };
    let plain = inst.level == Level::Elem && access.bounds.is_empty() && access.lookup.is_empty();
    let apart = |along: &usize| access.strides.get(*along).is_some_and(|s| s.unsigned_abs() > 1);
    let fits = plain && access.strides.len() == space.len() && order.last().is_some_and(apart);
    fits.then(|| (*from, access.clone()))
}

/// The same for one that lies along another axis.
pub fn across(k: &Kernel, v: Val, space: &[usize]) -> Option<(usize, Access)> {
    let order: SmallVec<[usize; 8]> = (0..space.len()).collect();
    let (from, access) = in_steps(k, v, space, &order)?;
    let last = space.len() - 1;
    let lies = (0..last).any(|a| access.strides[a] == 1 && space[a] >= SHORT);
    let steps = access.strides[last].unsigned_abs() >= SHORT && space[last] >= SHORT;
    (lies && steps).then_some((from, access))
}

/// Steps of an operand in the order of the space, without the axes along which it stays the same, and its elements.
pub fn in_order(space: &[usize], strides: &[isize]) -> (Vec<isize>, usize) {
    let order: SmallVec<[usize; 8]> = (0..space.len()).collect();
    ordered(space, &order, strides)
}

/// The same with the axes in this order.
fn ordered(space: &[usize], order: &[usize], strides: &[isize]) -> (Vec<isize>, usize) {
    let mut n = 1;
    let mut out = vec![0; space.len()];
    for &a in order.iter().rev().filter(|&&a| strides[a] != 0) {
        out[a] = n as isize;
        n *= space[a];
    }
    (out, n)
}
