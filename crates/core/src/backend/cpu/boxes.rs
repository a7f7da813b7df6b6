//! Kernels with large operands that lie across, as in `x + y.t()` or `x.permute([2, 1, 0]) * 2`, box by box: a task turns what
//! its box needs into memory that stays in its second cache, and what is left is one function of machine code.
//!
//! Turning all of an operand first ([`super::straight`]) is as fast in most processes, but visits every page many times: 1000 x 1000
//! numbers plus their transpose took 0.2 ms in one process and 0.9 in the next, box by box 0.19 to 0.26 in each (docs/performance.md,
//! with what is known of the reason).

use super::{
    copy::Transposition,
    exec::{self, Bases},
    forms::Form,
    program::Program,
    straight::{across, in_order, suits},
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, InstKind, Kernel, Source, collapse},
};
use gradus_numerics::scratch;
use smallvec::SmallVec;

/// Bytes that a box turns, about: a quarter of the second cache.
const ROOM: usize = 256 << 10;
/// Turned operands of fewer bytes have few pages.
const LARGE: usize = 1 << 20;
/// Elements of a box along the axis that turned operands lie along, about. (64 and 256 were slower.)
const WIDTH: usize = 128;
/// Elements of a cache line.
const LINE: usize = 16;

/// A kernel, a program for every size of box, and what is turned for each.
pub struct Boxes {
    args: Vec<Arg>,
    /// Extents of the map space, and of a box in it.
    map: Vec<usize>,
    size: Vec<usize>,
    /// Points of the map and the reduce space.
    points: usize,
    /// What each buffer of the programs is.
    places: Vec<Place>,
    /// By which axes are cut short, as bits: the copies and the program.
    ready: Vec<(usize, Vec<Transposition>, Program)>,
    /// Numbers of 32 bits that the turned operands of a box take.
    room: usize,
}

/// One buffer of a box.
enum Place {
    /// So many bytes on from a buffer of the launch, by the first indices of the box.
    At(usize, Vec<isize>),
    /// So many bytes on in the memory for turned operands.
    Turned(usize),
}

impl Boxes {
    /// The boxes of a verified kernel, if operands lie across it, all along the same axis.
    pub fn of(kernel: &Kernel) -> Option<Boxes> {
        let k = collapse(kernel);
        let axes = k.map.len();
        if !suits(&k) {
            return None;
        }
        let space: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
        let lying: Vec<Option<(usize, Access)>> = (0..k.insts.len()).map(|v| across(&k, v, &space)).collect();
        let mut along = lying.iter().flatten().map(|(_, a)| a.strides.iter().position(|&s| s == 1));
        let axis = along.next()??;
        if axis >= axes || space[axis] < LINE || along.any(|a| a != Some(axis)) {
            return None;
        }
        let bytes: usize = lying.iter().zip(&k.insts).filter(|l| l.0.is_some()).map(|l| l.1.dtype.size()).sum();
        if k.rows().saturating_mul(k.cols()).saturating_mul(bytes) < LARGE {
            return None;
        }
        let size = extents(&k, axis, ROOM / bytes)?;
        // Every address has a buffer of its own, so that it can begin where the box does.
        let mut boxed = k.clone();
        boxed.args.clear();
        let (mut places, mut copies, mut room) = (vec![], vec![], 0);
        for (v, inst) in boxed.insts.iter_mut().enumerate() {
            let (arg, access) = match &mut inst.kind {
                InstKind::Load { source: Source::Arg(arg), access } | InstKind::Store { arg, access, .. } => {
                    (arg, access)
                }
                InstKind::Load { source: Source::Iota | Source::Rand { .. }, .. } => return None,
                InstKind::Const(_)
                | InstKind::Param(_)
                | InstKind::Ewise(..)
                | InstKind::Cast(_)
                | InstKind::Reduce(..) => continue,
            };
            if !access.bounds.is_empty() {
                return None;
            }
            let Arg { dtype, written } = k.args[*arg];
            let steps = access.strides[..axes].iter().map(|s| s * dtype.size() as isize).collect();
            places.push(Place::At(*arg, steps));
            *arg = boxed.args.len();
            boxed.args.push(Arg { dtype, written });
            if lying[v].is_some() {
                let from = *arg;
                *arg = boxed.args.len();
                boxed.args.push(Arg { dtype, written: false });
                let whole: Vec<usize> = size.iter().chain(&k.reduce).copied().collect();
                places.push(Place::Turned(room));
                room += (in_order(&whole, &access.strides).1 * dtype.size()).next_multiple_of(64);
                copies.push((v, from, access.clone()));
            }
        }
        let kinds = all_kinds(&k.map, &size);
        let mut ready = vec![];
        for kind in kinds {
            let mut part = boxed.clone();
            part.map = (0..axes).map(|a| extent(&k.map, &size, a, kind >> a & 1 == 1)).collect();
            let points: Vec<usize> = part.map.iter().chain(&k.reduce).copied().collect();
            let mut turned = vec![];
            for (v, from, access) in &copies {
                let straight = Access { strides: in_order(&points, &access.strides).0, ..Access::default() };
                let (dtype, to) = (part.insts[*v].dtype, from + 1);
                turned.push(Transposition::between(&points, dtype.size(), (*from, access), (to, &straight))?.kept());
                part.insts[*v].kind = InstKind::Load { source: Source::Arg(to), access: straight };
            }
            ready.push((kind, turned, Program::new(&part)));
        }
        let points = space.iter().product();
        Some(Boxes { args: k.args, map: k.map, size, points, places, ready, room: room.div_ceil(4) })
    }

    /// The box at a place in the order of boxes: its first indices, and which axes it is cut short along.
    fn begin(&self, mut at: usize) -> (SmallVec<[usize; 8]>, usize) {
        let mut first: SmallVec<[usize; 8]> = SmallVec::from_elem(0, self.map.len());
        let mut kind = 0;
        for a in (0..self.map.len()).rev() {
            let n = self.map[a].div_ceil(self.size[a]);
            first[a] = at % n * self.size[a];
            kind |= usize::from(first[a] + self.size[a] > self.map[a]) << a;
            at /= n;
        }
        (first, kind)
    }
}

impl Form for Boxes {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let count = self.map.iter().zip(&self.size).map(|(n, s)| n.div_ceil(*s)).product();
        let one = |at: usize| {
            let all = bases; // the whole struct, which may be shared
            let (first, kind) = self.begin(at);
            let Some((_, turned, program)) = self.ready.iter().find(|r| r.0 == kind) else { return Ok(()) };
            let mut room = scratch::take(self.room);
            let room = room.as_mut_ptr().cast::<u8>();
            let own: SmallVec<[*mut u8; 32]> = self
                .places
                .iter()
                .map(|p| match p {
                    Place::At(arg, steps) => {
                        all.0[*arg].wrapping_offset(steps.iter().zip(&first).map(|(s, &i)| s * i as isize).sum())
                    }
                    Place::Turned(bytes) => room.wrapping_add(*bytes),
                })
                .collect();
            // SAFETY: the caller's promise for the whole kernel, of which this box is a part that no other task has;
            // turned operands have room of their own.
            unsafe {
                turned.iter().for_each(|t| t.run(Bases(&own)));
                exec::run(program, Bases(&own), params)
            }
        };
        if self.points < exec::PARALLEL_WORK {
            return (0..count).try_for_each(one);
        }
        exec::try_for_tasks(count, one)
    }
}

/// The extents of a box in which an operand has `most` elements at the most: some along the axis, and of the others as much as
/// there is room for, the last first. None if there is none.
fn extents(k: &Kernel, axis: usize, most: usize) -> Option<Vec<usize>> {
    let mut size = vec![1; k.map.len()];
    size[axis] = match k.map[axis] {
        few if few <= 2 * WIDTH + LINE => few,
        many => share(many, WIDTH),
    };
    let mut room = (most / size[axis]).checked_div(k.cols()).filter(|&n| n > 0)?;
    for a in (0..k.map.len()).rev().filter(|&a| a != axis) {
        size[a] = share(k.map[a], room);
        room /= size[a];
    }
    Some(size)
}

/// About equal shares of `n`, at most so many; none of them is too short to be turned.
fn share(n: usize, most: usize) -> usize {
    if let Some(whole) = (most / 2 + 1..=most.min(n)).rev().find(|d| n.is_multiple_of(*d)) {
        return whole;
    }
    let equal = n.div_ceil(n.div_ceil(most.max(1)));
    let lines = equal.next_multiple_of(LINE);
    let rest = n % lines;
    if lines <= most && (rest == 0 || rest >= LINE / 2) { lines.min(n) } else { equal }
}

/// The extent of a box along an axis: that of all, or of the last, which is cut short.
fn extent(map: &[usize], size: &[usize], a: usize, short: bool) -> usize {
    if short { map[a] % size[a] } else { size[a] }
}

/// The kinds of boxes there are, by which axes they are cut short along.
fn all_kinds(map: &[usize], size: &[usize]) -> Vec<usize> {
    let mut kinds = vec![0];
    for a in (0..map.len()).filter(|&a| !map[a].is_multiple_of(size[a])) {
        let more: Vec<usize> = kinds.iter().map(|k| k | 1 << a).collect();
        kinds.extend(more);
    }
    kinds
}
