//! Many short rows that are reduced: a block of them is turned, so that rows lie side by side, and then reduced as an
//! elementwise kernel is run, all points of a row at once (see [`crate::kernel::unrolled`]). Rows that come out of it, as of
//! a softmax, are turned back.

use super::{
    exec::{self, Bases},
    forms::Form,
    jit,
    program::Program,
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Level, Source, collapse},
};
use gradus_numerics::{by_bytes, scratch, transpose::Transposition};
use smallvec::SmallVec;

/// Shorter rows are read one by one as fast as they are turned.
const SHORTEST: usize = 4;
/// The longest rows,
const LONGEST: usize = 16;
/// and how many there must be, one after the other.
const LEAST: usize = 64;
/// Room for the turned rows of a block: they stay in the first cache.
const ROOM: usize = 20 * 1024;
/// The most rows of a block.
const BLOCK: usize = 1024;
/// Lines of turned rows are never a whole number of pages apart.
const BESIDE: usize = 16;

/// A kernel over short rows, made ready.
pub struct Short {
    args: Vec<Arg>,
    /// The map space but for its last axis, and that.
    outer: Vec<usize>,
    rows: usize,
    cols: usize,
    /// Rows of a block, and the program for one.
    block: usize,
    whole: Program,
    /// That for the last block of a line.
    rest: Option<Program>,
    /// Where the buffers of the programs are.
    places: Vec<Place>,
    work: usize,
}

/// A buffer of a block's program: part of one of the kernel's, or its rows turned.
struct Place {
    arg: usize,
    offset: isize,
    /// Elements a step of each map axis.
    strides: Vec<isize>,
    size: usize,
    /// Where the turned rows are in the room for them, in bytes.
    turned: Option<usize>,
    written: bool,
}

impl Short {
    /// A verified kernel, if it reduces many short rows and each block of them can be one function.
    pub fn of(kernel: &Kernel) -> Option<Short> {
        let k = collapse(kernel);
        let ([cols], [outer @ .., rows]) = (&k.reduce[..], &k.map[..]) else { return None };
        let (cols, rows) = (*cols, *rows);
        let lanes = k.order.lanes;
        if !jit::available() || !(SHORTEST..=LONGEST.min(lanes)).contains(&cols) || lanes == 1 || rows < LEAST {
            return None;
        }
        let last = k.map.len() - 1;
        // Rows to be turned, by their elements' bytes.
        let mut bytes = 0;
        for i in &k.insts {
            let (InstKind::Load { access, .. } | InstKind::Store { access, .. }) = &i.kind else { continue };
            if !access.bounds.is_empty() || !access.lookup.is_empty() {
                return None;
            }
            match &i.kind {
                InstKind::Load { source: Source::Arg(_), .. } if is_row(i.level, access, last) => {
                    bytes += cols * i.dtype.size();
                }
                // A block has positions of its own.
                InstKind::Load { source: Source::Iota, .. } if access.strides[..=last].iter().any(|&s| s != 0) => {
                    return None;
                }
                InstKind::Load { source: Source::Rand { .. }, .. } => return None,
                InstKind::Store { arg, .. } if is_row(i.level, access, last) => {
                    bytes += cols * k.args[*arg].dtype.size();
                }
                InstKind::Store { .. } if i.level == Level::Elem => return None,
                _ => {}
            }
        }
        let block = (ROOM / bytes.max(1)).clamp(LEAST, BLOCK) & !63;
        if bytes == 0 {
            return None;
        }
        let block = block.min(rows);
        let mut places = vec![];
        let whole = Program::new(&part(&k, block, &mut places));
        let one = |p: &Program| p.functions.units.is_some() && p.kernel.reduce.is_empty();
        if !one(&whole) {
            return None;
        }
        let rest = (!rows.is_multiple_of(block)).then(|| Program::new(&part(&k, rows % block, &mut vec![])));
        let work = k.rows().saturating_mul(cols);
        Some(Short { args: k.args.clone(), outer: outer.to_vec(), rows, cols, block, whole, rest, places, work })
    }

    /// Bytes of all turned rows of a block.
    fn room(&self) -> usize {
        let end = |p: &Place| p.turned.map_or(0, |at| at + self.cols * (self.block + BESIDE) * p.size);
        self.places.iter().map(end).max().unwrap_or(0)
    }

    /// One block.
    ///
    /// # Safety
    /// As [`exec::run`].
    unsafe fn one(&self, bases: Bases<'_>, params: &[Scalar], b: usize, per: usize, room: &mut [f32]) -> Result<()> {
        let (mut line, first) = (b / per, b % per * self.block);
        let n = self.block.min(self.rows - first);
        let mut index: SmallVec<[isize; 8]> = self.outer.iter().map(|_| 0).collect();
        for (i, &extent) in index.iter_mut().zip(&self.outer).rev() {
            (*i, line) = ((line % extent) as isize, line / extent);
        }
        index.push(first as isize);
        let mut here: SmallVec<[*mut u8; 8]> = SmallVec::new();
        let mut back: SmallVec<[(Transposition, usize, *mut u8, *mut u8); 4]> = SmallVec::new();
        for p in &self.places {
            let at = p.offset + p.strides.iter().zip(&index).map(|(s, i)| s * i).sum::<isize>();
            let from = bases.0[p.arg].wrapping_offset(at * p.size as isize);
            let Some(place) = p.turned else {
                here.push(from);
                continue;
            };
            let to = room[place / 4..].as_mut_ptr().cast::<u8>();
            here.push(to);
            let step = p.strides.last().copied().unwrap_or(0);
            let pitch = (n + BESIDE) as isize;
            if p.written {
                back.push((Transposition { rows: n, columns: self.cols, from: pitch, to: step }, p.size, to, from));
                continue;
            }
            let t = Transposition { rows: self.cols, columns: n, from: step, to: pitch };
            // SAFETY: the rows lie in the buffer by the caller's promise, and the room was made for them.
            unsafe { turn(&t, p.size, from, to) };
        }
        let program = if n == self.block { &self.whole } else { self.rest.as_ref().unwrap_or(&self.whole) };
        // SAFETY: as above.
        unsafe { exec::run_units(program, Bases(&here), params, 0, program.units())? };
        // SAFETY: as above; rows that are written over have been read.
        back.iter().for_each(|(t, size, from, to)| unsafe { turn(t, *size, *from, *to) });
        Ok(())
    }
}

/// Turns elements of so many bytes.
///
/// # Safety
/// As [`Transposition::run`].
unsafe fn turn(t: &Transposition, size: usize, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { by_bytes!(size, T => t.run(from.cast::<T>(), to.cast::<T>(), false)) }
}

impl Form for Short {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let per = self.rows.div_ceil(self.block);
        let blocks = self.outer.iter().product::<usize>() * per;
        let threads = rayon::current_num_threads();
        let parallel = threads > 1 && self.work >= exec::PARALLEL_WORK;
        let pieces = if parallel { blocks.min(4 * threads) } else { 1 };
        let some = |i: usize| {
            let mut room = scratch::take(self.room().div_ceil(4));
            let all = bases; // the whole struct, which may be shared
            // SAFETY: the caller's promise; blocks are of different rows.
            (i * blocks / pieces..(i + 1) * blocks / pieces)
                .try_for_each(|b| unsafe { self.one(all, params, b, per, &mut room) })
        };
        if parallel { exec::try_for_tasks(pieces, some) } else { (0..pieces).try_for_each(some) }
    }
}

/// Whether a load goes along rows.
fn is_row(level: Level, a: &Access, last: usize) -> bool {
    level == Level::Elem && a.strides[last + 1..] == [1] && a.strides[last] != 0
}

/// The kernel for a block of rows: every address has a buffer of its own, which begins where the block does.
fn part(k: &Kernel, block: usize, places: &mut Vec<Place>) -> Kernel {
    let last = k.map.len() - 1;
    let mut out = Kernel { map: vec![block], args: vec![], ..k.clone() };
    let mut end = 0;
    for i in &mut out.insts {
        let level = i.level;
        let (arg, access, written) = match &mut i.kind {
            InstKind::Load { source: Source::Arg(arg), access } => (arg, access, false),
            InstKind::Store { arg, access, .. } => (arg, access, true),
            InstKind::Load { access, .. } => {
                access.strides.drain(..last);
                continue;
            }
            InstKind::Const(_)
            | InstKind::Param(_)
            | InstKind::Ewise(..)
            | InstKind::Cast(_)
            | InstKind::Reduce(..) => {
                continue;
            }
        };
        let dtype = k.args[*arg].dtype;
        let size = dtype.size();
        let turned = is_row(level, access, last).then(|| {
            let at = end;
            end += (k.cols() * (block + BESIDE) * size).next_multiple_of(64);
            at
        });
        places.push(Place {
            arg: *arg,
            offset: access.offset,
            strides: access.strides[..=last].to_vec(),
            size,
            turned,
            written,
        });
        access.offset = 0;
        access.strides.drain(..last);
        if turned.is_some() {
            access.strides = vec![1, (block + BESIDE) as isize];
        }
        *arg = out.args.len();
        out.args.push(Arg { dtype, written });
    }
    out
}
