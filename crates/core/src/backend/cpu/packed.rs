//! Elementwise kernels over short lines, or with operands that lie in steps or across them: a block of such operands at a time is
//! fetched, one element after the other ([`gradus_numerics::strided`]), and what is left has no lines at all and is one function of
//! machine code. Copies are the fetching alone.
//!
//! Line by line, a line of four numbers would cost as much as one of sixty-four.
//!
//! Reductions across a few short lines, as of the middle axis of `[1000, 20, 3]`, are fetched so that all first points come first,
//! then all second ones: outputs then lie side by side, as many as a block has.

use super::{
    copy::Transposition,
    exec::{self, Bases},
    forms::Form,
    program::Program,
    regions::held,
    straight::across,
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Level, Source, collapse},
};
use gradus_numerics::{scratch, strided::Strided};
use smallvec::SmallVec;

/// Fewer elements are not worth a block.
const LEAST: usize = 256;
/// Bytes that are fetched for a block, about: a part of the second cache.
const ROOM: usize = 64 << 10;
/// The most elements of a block.
const MOST: usize = 16 * 1024;
/// The fewest.
const LEAST_BLOCK: usize = 64;
/// Blocks that a kernel is cut into at least, for threads to share.
const PIECES: usize = 8;

/// Lines shorter than this are better fetched than cut into parts of lines.
const LINE: usize = 64;

/// The same for reductions: longer lines have functions of their own,
const NARROW: usize = 8;
/// and so have long reductions.
const POINTS: usize = 128;

/// Bytes of lines that a register has whole.
pub const FEW: usize = 64;
/// Results of more bytes than this are written past the caches elsewhere.
const PAST: usize = 16 << 20;

/// Whether a kernel has only short lines.
pub fn by_lines(k: &Kernel) -> bool {
    k.map.last().is_some_and(|&n| n < LINE)
}

/// Whether a kernel reduces a few points each for outputs that lie in short lines.
pub fn narrow(kernel: &Kernel) -> bool {
    let k = collapse(kernel);
    let few = matches!(k.reduce[..], [cols] if cols <= POINTS) && k.order.lanes == 1;
    few && k.map.len() > 1 && k.map.last().is_some_and(|&n| n < NARROW)
}

/// Whether operands of a kernel lie in steps, other than backwards.
pub fn steps(k: &Kernel) -> bool {
    let far = |a: &Access| a.strides.last().is_some_and(|s| s.unsigned_abs() > 1);
    k.insts.iter().any(|i| matches!(&i.kind, InstKind::Load { access, .. } if far(access)))
}

/// Whether a kernel has only short lines, and operands lie across them; one that does nothing but turn goes by itself.
pub fn turns(kernel: &Kernel) -> bool {
    let k = collapse(kernel);
    Transposition::of(&k).is_none()
        && k.reduce.is_empty()
        && by_lines(&k)
        && (0..k.insts.len()).any(|v| across(&k, v, &k.map).is_some())
}

/// Whether a kernel does nothing but copy, with zeros around what it copies, or in lines of a few bytes: what is fetched is all there
/// is to do. (Line by line or box by box, [76, 244, 64] numbers of 16 bits with a border took 0.11 ms, fetched 0.05;
/// [3294, 2, 10, 15] with their lines in the other order 0.15 and 0.05.)
pub fn copies(kernel: &Kernel) -> bool {
    let [load, store] = &kernel.insts[..] else { return false };
    let InstKind::Load { source: Source::Arg(_), access } = &load.kind else { return false };
    let short = || {
        let k = collapse(kernel);
        let InstKind::Load { access, .. } = &k.insts[0].kind else { return false };
        let line = k.map.last().map_or(0, |n| n * load.dtype.size());
        line <= FEW && matches!(access.strides.last(), Some(-1 | 1))
    };
    let small = kernel.rows().saturating_mul(load.dtype.size()) < PAST;
    load.dtype == store.dtype && kernel.reduce.is_empty() && small && (!access.bounds.is_empty() || short())
}

/// A kernel, made ready.
pub struct Packed {
    args: Vec<Arg>,
    /// Map points, reduce points, and map points of a block.
    total: usize,
    cols: usize,
    block: usize,
    /// Where the buffers of a block's program are.
    places: Vec<Place>,
    /// The program of a block, and of the last if that is shorter; none for a copy.
    programs: Option<(Program, Option<Program>)>,
    /// Numbers of 32 bits that the fetched operands of a block take.
    room: usize,
    work: usize,
}

/// One buffer of a block.
struct Place {
    arg: usize,
    offset: isize,
    /// Bytes of an element.
    size: usize,
    lies: Lies,
    /// Whether it is written and goes back.
    back: bool,
}

enum Lies {
    /// In order: a block is a part of it.
    InOrder,
    /// One element for all.
    Still,
    /// In some other way, and fetched to so many bytes on in the room for it; so many elements on for each reduce point,
    /// unless it is the same for all of them.
    Fetched(Box<Strided>, usize, Option<isize>),
}

impl Packed {
    /// The parts of a verified kernel, if some operand is worth fetching.
    pub fn of(kernel: &Kernel) -> Option<Packed> {
        let k = collapse(kernel);
        let total = k.rows();
        let reduces = k.insts.iter().any(|i| matches!(i.kind, InstKind::Reduce(..)));
        if total.saturating_mul(k.cols()) < LEAST || reduces != (k.reduce.len() == 1) || k.reduce.len() > 1 {
            return None;
        }
        let copy = match &k.insts[..] {
            [load, store] => load.dtype == store.dtype && matches!(store.kind, InstKind::Store { value: 0, .. }),
            _ => false,
        };
        let mut places = vec![];
        let mut bytes = 0;
        for inst in &k.insts {
            let (arg, access, written) = match &inst.kind {
                InstKind::Load { source: Source::Arg(arg), access } => (arg, access, false),
                InstKind::Store { arg, access, .. } => (arg, access, true),
                // Positions in the reduce space are the same in every block.
                InstKind::Load { source: Source::Iota, access }
                    if access.bounds.is_empty()
                        && access.lookup.is_empty()
                        && access.strides[..k.map.len()].iter().all(|&s| s == 0) =>
                {
                    continue;
                }
                InstKind::Load { .. } => return None,
                InstKind::Const(_)
                | InstKind::Param(_)
                | InstKind::Ewise(..)
                | InstKind::Cast(_)
                | InstKind::Reduce(..) => continue,
            };
            let size = k.args[*arg].dtype.size();
            let lies = lies(&k, access, &mut bytes, size)?;
            // What is written for every reduce point is brought back to where it belongs, and so is a copy.
            let back = written && matches!(lies, Lies::Fetched(_, _, step) if copy || step.is_some());
            if written && !back && (!matches!(lies, Lies::InOrder) || (reduces && inst.level == Level::Elem)) {
                return None;
            }
            places.push(Place { arg: *arg, offset: access.offset, size, lies, back });
        }
        let fetched = |p: &Place| matches!(p.lies, Lies::Fetched(..));
        // One number for all is filled in, not copied.
        if !places.iter().any(fetched) || (copy && places.iter().any(|p| matches!(p.lies, Lies::Still))) {
            return None;
        }
        let block = block(&k.map, total, bytes);
        let mut room = 0;
        for p in &mut places {
            if let Lies::Fetched(_, at, step) = &mut p.lies {
                *at = room;
                let points = if step.is_some() { k.cols() } else { 1 };
                room += (block * points * p.size).next_multiple_of(64);
            }
        }
        let programs = if copy {
            None
        } else {
            let whole = Program::new(&flat(&k, block, &places));
            if whole.functions.units.is_none() && !(reduces && whole.by_points()) {
                return None;
            }
            let rest = total % block;
            Some((whole, (rest > 0).then(|| Program::new(&flat(&k, rest, &places)))))
        };
        // A copy waits for memory.
        let work = programs.as_ref().map_or(2, |p| p.0.work / block).saturating_mul(total);
        let cols = k.cols();
        Some(Packed { args: k.args, total, cols, block, places, programs, room: room / 4, work })
    }

    /// One block.
    ///
    /// # Safety
    /// As [`exec::run`].
    unsafe fn one(&self, bases: Bases<'_>, params: &[Scalar], b: usize, room: *mut u8) -> Result<()> {
        let from = b * self.block;
        let n = self.block.min(self.total - from);
        let Some((whole, rest)) = &self.programs else {
            // SAFETY: the caller's promise.
            unsafe { self.copy(bases, from, n, room) };
            return Ok(());
        };
        let mut own: SmallVec<[*mut u8; 16]> = SmallVec::new();
        for p in &self.places {
            own.push(match &p.lies {
                Lies::InOrder => at(bases, p, from as isize),
                Lies::Still => at(bases, p, 0),
                Lies::Fetched(lies, place, step) => {
                    let to = room.wrapping_add(*place);
                    let points = if p.back { 0 } else { step.map_or(1, |_| self.cols) };
                    for r in 0..points {
                        let source = at(bases, p, r as isize * step.unwrap_or(0));
                        // SAFETY: the operand's elements lie in its buffer, and there is room for the block; no other task
                        // writes here. All types are numbers, or truths as bytes, so zeros are values.
                        unsafe { lies.read_bytes(p.size, source, from, n, to.wrapping_add(r * n * p.size)) };
                    }
                    to
                }
            });
        }
        let program = if n == self.block { whole } else { rest.as_ref().unwrap_or(whole) };
        // SAFETY: the caller's promise for all blocks.
        unsafe { exec::run_units(program, Bases(&own), params, 0, program.units())? };
        for (p, values) in self.places.iter().zip(own).filter(|p| p.0.back) {
            let Lies::Fetched(lies, _, Some(step)) = &p.lies else { continue };
            for r in 0..self.cols {
                let target = at(bases, p, r as isize * step);
                // SAFETY: the caller's promise: these elements are this block's alone.
                unsafe { lies.write_bytes(p.size, target, from, n, values.wrapping_add(r * n * p.size)) };
            }
        }
        Ok(())
    }
}

impl Packed {
    /// A block of a copy: fetched to where it is wanted, or brought there.
    ///
    /// # Safety
    /// As [`exec::run`].
    unsafe fn copy(&self, bases: Bases<'_>, from: usize, n: usize, room: *mut u8) {
        let [source, target] = &self.places[..] else { return };
        let fetched = match (&source.lies, &target.lies) {
            (Lies::Fetched(lies, ..), there) => {
                let to = if let Lies::InOrder = there { at(bases, target, from as isize) } else { room };
                // SAFETY: the operand's elements lie in its buffer, and there is room for the block; no other task writes here.
                unsafe { lies.read_bytes(source.size, at(bases, source, 0), from, n, to) };
                to
            }
            _ => at(bases, source, from as isize),
        };
        if let Lies::Fetched(lies, ..) = &target.lies {
            // SAFETY: the caller's promise: these elements are this block's alone.
            unsafe { lies.write_bytes(target.size, at(bases, target, 0), from, n, fetched) };
        }
    }
}

/// The address of an element of a place.
fn at(bases: Bases<'_>, p: &Place, element: isize) -> *mut u8 {
    bases.0[p.arg].wrapping_offset((p.offset + element) * p.size as isize)
}

/// How an operand lies; none if that cannot be said.
fn lies(k: &Kernel, access: &Access, bytes: &mut usize, size: usize) -> Option<Lies> {
    if !access.lookup.is_empty() {
        return None;
    }
    if access.bounds.is_empty() && access.strides[..k.map.len()].iter().all(|&s| s == 0) {
        return Some(Lies::Still);
    }
    let step = access.strides.get(k.map.len()).copied().filter(|&s| s != 0);
    if step.is_some() && !access.bounds.is_empty() {
        return None;
    }
    let mut there: SmallVec<[(usize, usize); 6]> = k.map.iter().map(|&n| (0, n)).collect();
    for b in &access.bounds {
        let (axis, (from, to)) = held(b, &k.map).filter(|h| h.0 < k.map.len())?;
        there[axis] = (there[axis].0.max(from), there[axis].1.min(to).max(from));
    }
    let axes = k.map.iter().zip(&access.strides).zip(there).map(|((&n, &s), there)| (n, s, there));
    let strided = Strided::new(axes);
    if strided.is_in_order() && step.is_none() {
        return Some(Lies::InOrder);
    }
    *bytes += size * step.map_or(1, |_| k.cols());
    Some(Lies::Fetched(Box::new(strided), 0, step))
}

/// Elements of a block: whole lines, and whole planes of them where they are short.
fn block(map: &[usize], total: usize, bytes: usize) -> usize {
    let most = (ROOM / bytes).min(MOST).min(total.div_ceil(PIECES)).max(LEAST_BLOCK);
    let mut whole = 1;
    for &n in map.iter().rev() {
        if whole * n > most {
            break;
        }
        whole *= n;
    }
    (most / whole * whole).min(total)
}

/// The kernel of a block of so many elements, one after the other.
fn flat(k: &Kernel, n: usize, places: &[Place]) -> Kernel {
    let axes = k.map.len();
    let mut out = Kernel { map: vec![n], args: vec![], ..k.clone() };
    for inst in &mut out.insts {
        let (arg, access, written) = match &mut inst.kind {
            InstKind::Load { source: Source::Arg(arg), access } => (arg, access, false),
            InstKind::Store { arg, access, .. } => (arg, access, true),
            InstKind::Load { access, .. } => {
                access.strides.drain(..axes - 1);
                continue;
            }
            InstKind::Const(_)
            | InstKind::Param(_)
            | InstKind::Ewise(..)
            | InstKind::Cast(_)
            | InstKind::Reduce(..) => continue,
        };
        let along = access.strides.get(axes).copied();
        let (step, along) = match places[out.args.len()].lies {
            Lies::Still => (0, along),
            Lies::InOrder | Lies::Fetched(_, _, None) => (1, along.map(|_| 0)),
            Lies::Fetched(_, _, Some(_)) => (1, along.map(|_| n as isize)),
        };
        *access = Access { strides: [step].into_iter().chain(along).collect(), ..Access::default() };
        let dtype = k.args[*arg].dtype;
        *arg = out.args.len();
        out.args.push(Arg { dtype, written });
    }
    out
}

impl Form for Packed {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let blocks = self.total.div_ceil(self.block);
        let threads = rayon::current_num_threads();
        let parallel = threads > 1 && self.work >= exec::PARALLEL_WORK;
        let pieces = if parallel { blocks.min(4 * threads) } else { 1 };
        let some = |i: usize| {
            let all = bases; // the whole struct, which may be shared
            let mut room = scratch::take(self.room);
            let room = room.as_mut_ptr().cast::<u8>();
            // SAFETY: the caller's promise; blocks are of different elements.
            (i * blocks / pieces..(i + 1) * blocks / pieces).try_for_each(|b| unsafe { self.one(all, params, b, room) })
        };
        if parallel { exec::try_for_tasks(pieces, some) } else { (0..pieces).try_for_each(some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DType,
        kernel::{Inst, Order, oracle},
        op::ReduceOp,
    };

    /// Whether all elements of a column are true, for lines of `width` columns of `cols` rows each.
    fn all(lines: usize, width: usize, cols: usize) -> Kernel {
        let access = |strides: &[isize]| Access { strides: strides.into(), ..Access::default() };
        let (w, n) = (width as isize, cols as isize);
        let inst = |kind, level| Inst { kind, dtype: DType::Bool, level };
        Kernel {
            map: vec![lines, width],
            reduce: vec![cols],
            args: [false, true].map(|written| Arg { dtype: DType::Bool, written }).to_vec(),
            params: vec![],
            insts: vec![
                inst(InstKind::Load { source: Source::Arg(0), access: access(&[w * n, 1, w]) }, Level::Elem),
                inst(InstKind::Reduce(ReduceOp::Min, 0), Level::Row),
                inst(InstKind::Store { arg: 1, access: access(&[w, 1, 0]), value: 1 }, Level::Row),
            ],
            order: Order::COLUMNS,
        }
    }

    #[test]
    fn columns_that_are_fetched_give_the_oracles_bits() {
        for (lines, width, cols) in
            [(7, 3, 40), (40, 5, 512), (1, 65, 1030), (1, 100, 1030), (3, 36, 2047), (20, 3, 1100)]
        {
            let k = all(lines, width, cols);
            let packed = Packed::of(&k);
            let plain = Program::new(&k);
            let forms = packed.iter().map(|p| p as &dyn Form).chain([&plain as &dyn Form]);
            // One false in some columns.
            let mut x = vec![1u8; lines * width * cols];
            (0..lines * width).step_by(7).for_each(|c| x[c / width * width * cols + c % cols * width + c % width] = 0);
            let mut want = vec![9; lines * width];
            let mut args = [oracle::Bytes { bytes: &mut x, offset: 0 }, oracle::Bytes { bytes: &mut want, offset: 0 }];
            oracle::run(&k, &mut args, &[]).unwrap();
            for (i, form) in forms.enumerate() {
                let mut out = vec![9u8; lines * width];
                // SAFETY: both buffers have all elements.
                unsafe { form.run(Bases(&[x.as_mut_ptr(), out.as_mut_ptr()]), &[]).unwrap() };
                assert_eq!(out, want, "{lines} lines of {width} columns of {cols}, form {i}");
            }
        }
    }
}
