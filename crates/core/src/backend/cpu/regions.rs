//! Elementwise kernels whose operands end somewhere, as padding, its gradients and shifted sums have them: cut into
//! boxes, in each of which an operand is there or is zero, so that what is left has no ends but along its lines.

use super::{
    exec::{self, Bases},
    forms::Form,
    jit,
    program::Program,
};
use crate::{
    Result, Scalar,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Source, Val, collapse},
    op::ewise,
    view::Bound,
};

/// Kernels of fewer elements are not worth several programs.
const LEAST: usize = 256;
/// The most boxes.
const MOST: usize = 48;
/// About as many elements as a task takes: what the boxes of one share is in the caches until the last of them.
const TASK: usize = 64 * 1024;

/// The boxes of a kernel, made ready.
pub struct Regions {
    parts: Vec<Program>,
    elements: usize,
    work: usize,
}

impl Regions {
    /// The boxes of a verified kernel, if its operands end somewhere and most of its elements can be one function then.
    pub fn cut(kernel: &Kernel) -> Option<Regions> {
        let k = collapse(kernel);
        let ends =
            k.insts.iter().any(|i| matches!(&i.kind, InstKind::Load { access, .. } if !access.bounds.is_empty()));
        if !ends || !k.reduce.is_empty() || k.rows() < LEAST || !jit::available() {
            return None;
        }
        // Along the last axis functions look for the ends themselves, where they can.
        [k.map.len() - 1, k.map.len()].into_iter().find_map(|axes| {
            let parts: Vec<Program> = boxes(&k, axes)?.iter().map(|b| Program::new(&part(&k, b))).collect();
            let most = parts.iter().max_by_key(|p| p.rows)?;
            most.functions.units.as_ref()?;
            let work = parts.iter().map(|p| p.work).fold(0, usize::saturating_add);
            Some(Regions { parts, elements: k.rows(), work })
        })
    }
}

impl Form for Regions {
    fn args(&self) -> &[Arg] {
        self.parts.first().map_or(&[], |p| &p.kernel.args)
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        let threads = rayon::current_num_threads();
        let parallel = threads > 1 && self.work >= exec::PARALLEL_WORK;
        let pieces = (self.elements / TASK).max(if parallel { 2 * threads } else { 1 });
        let some = |i: usize| {
            // Boxes go through the outer axes side by side, so a task's shares of them lie close to each other.
            self.parts.iter().filter(|p| p.transposition.is_none()).try_for_each(|p| {
                let units = p.units();
                let (from, to) = (i * units / pieces, (i + 1) * units / pieces);
                // SAFETY: the caller's promise; boxes do not overlap, and tasks take different units.
                if from < to { unsafe { exec::run_units(p, bases, params, from, to) } } else { Ok(()) }
            })
        };
        if parallel {
            exec::try_for_tasks(pieces, some)?
        } else {
            (0..pieces).try_for_each(some)?
        }
        let mut turned = self.parts.iter().filter(|p| p.transposition.is_some());
        // SAFETY: the caller's promise.
        turned.try_for_each(|p| unsafe { exec::run(p, bases, params) })
    }
}

/// Where a box begins along each axis, and its extents.
type Region = Vec<(usize, usize)>;

/// The axis whose index a bound is about, if it is one.
fn axis_of(b: &Bound) -> Option<usize> {
    let mut axes = (0..b.coefs.len()).filter(|&a| b.coefs[a] != 0);
    axes.next().filter(|_| axes.next().is_none())
}

/// The indices of its axis for which a bound holds, of `n`: from, to.
pub fn holds(b: &Bound, axis: usize, n: usize) -> (usize, usize) {
    let c = b.coefs[axis];
    let up = |x: isize| -x.saturating_neg().div_euclid(c);
    let past = |x: isize| x.saturating_neg().div_euclid(-c) + 1;
    // lo <= c i < hi; with a negative c, -hi < -c i <= -lo.
    let (from, to) = if c > 0 { (up(b.lo), up(b.hi)) } else { (past(b.hi), past(b.lo)) };
    let clamp = |i: isize| i.clamp(0, n as isize) as usize;
    (clamp(from), clamp(to).max(clamp(from)))
}

/// The axis that a bound is about, and the indices for which it holds there; none if it is about several.
pub fn held(b: &Bound, map: &[usize]) -> Option<(usize, (usize, usize))> {
    axis_of(b).map(|a| (a, holds(b, a, map[a])))
}

/// All boxes, cut along the first `axes`; none if some end is not along one axis, or if there are too many.
fn boxes(k: &Kernel, axes: usize) -> Option<Vec<Region>> {
    let mut cuts: Vec<Vec<usize>> = k.map.iter().map(|&n| vec![0, n]).collect();
    for i in &k.insts {
        let InstKind::Load { access, .. } = &i.kind else { continue };
        for b in &access.bounds {
            let a = axis_of(b)?;
            if a < axes {
                let (from, to) = holds(b, a, k.map[a]);
                cuts[a].extend([from, to]);
            }
        }
    }
    let mut out: Vec<Region> = vec![vec![]];
    for cut in &mut cuts {
        cut.sort_unstable();
        cut.dedup();
        let ranges = || cut.windows(2).map(|w| (w[0], w[1] - w[0]));
        out = out.iter().flat_map(|b| ranges().map(|r| [&b[..], &[r]].concat())).collect();
        if out.len() > MOST {
            return None;
        }
    }
    Some(out)
}

/// An address for the points of a box; none where it is zero throughout.
fn within(a: &Access, b: &Region) -> Option<Access> {
    let dot = |coefs: &[isize]| coefs.iter().zip(b).map(|(c, r)| c * r.0 as isize).sum::<isize>();
    let mut out = Access { offset: a.offset + dot(&a.strides), bounds: vec![], ..a.clone() };
    for bound in &a.bounds {
        let moved = dot(&bound.coefs);
        let bound = Bound { lo: bound.lo - moved, hi: bound.hi - moved, ..bound.clone() };
        let Some(axis) = axis_of(&bound) else {
            out.bounds.push(bound);
            continue;
        };
        match holds(&bound, axis, b[axis].1) {
            (from, to) if from == to => return None,
            (0, to) if to == b[axis].1 => {}
            _ => out.bounds.push(bound),
        }
    }
    Some(out)
}

/// The kernel of a box: what is known there to be zero is a constant, and what nobody needs then is gone.
fn part(k: &Kernel, b: &Region) -> Kernel {
    let mut insts: Vec<Inst> = vec![];
    // The new number of each value.
    let mut now: Vec<Val> = vec![];
    for inst in &k.insts {
        let uniform = |x: Scalar| (InstKind::Const(x.cast(inst.dtype)), Level::Uniform);
        let level = |vals: &[Val], insts: &[Inst]| vals.iter().map(|&v| insts[v].level).max().unwrap_or(inst.level);
        let (kind, level) = match &inst.kind {
            InstKind::Load { source, access } => match within(access, b) {
                None => uniform(Scalar::I(0)),
                Some(a) if *source == Source::Iota && is_number(&a) => uniform(Scalar::I(a.offset as i64)),
                Some(mut a) => {
                    a.lookup.iter_mut().for_each(|l| l.value = now[l.value]);
                    (InstKind::Load { source: *source, access: a }, inst.level)
                }
            },
            InstKind::Ewise(row, vals) => {
                let vals: smallvec::SmallVec<[Val; 3]> = vals.iter().map(|&v| now[v]).collect();
                let known = |n: usize| match insts[vals[n]].kind {
                    InstKind::Const(x) => Some(x),
                    _ => None,
                };
                match (row.name, known(0)) {
                    (name, Some(yes)) if name == ewise::WHERE.name => {
                        now.push(if yes.bool() { vals[1] } else { vals[2] });
                        continue;
                    }
                    (name, Some(Scalar::I(x))) if name == ewise::NE.name => match known(1) {
                        Some(Scalar::I(y)) => (InstKind::Const(Scalar::B(x != y)), Level::Uniform),
                        _ => (InstKind::Ewise(row, vals.clone()), level(&vals, &insts)),
                    },
                    _ => (InstKind::Ewise(row, vals.clone()), level(&vals, &insts)),
                }
            }
            InstKind::Cast(v) => (InstKind::Cast(now[*v]), insts[now[*v]].level),
            InstKind::Store { arg, access, value } => {
                let access = within(access, b).unwrap_or_else(|| access.clone());
                (InstKind::Store { arg: *arg, access, value: now[*value] }, inst.level)
            }
            InstKind::Const(_) | InstKind::Param(_) | InstKind::Reduce(..) => (inst.kind.clone(), inst.level),
        };
        now.push(insts.len());
        insts.push(Inst { kind, dtype: inst.dtype, level });
    }
    let map = b.iter().map(|r| r.1).collect();
    without_unread(Kernel { map, insts, ..k.clone() })
}

/// Whether an address is the same everywhere.
fn is_number(a: &Access) -> bool {
    a.bounds.is_empty() && a.lookup.is_empty() && a.strides.iter().all(|&s| s == 0)
}

/// The kernel without values that no store needs.
fn without_unread(k: Kernel) -> Kernel {
    let mut wanted: Vec<bool> = k.insts.iter().map(|i| matches!(i.kind, InstKind::Store { .. })).collect();
    for v in (0..k.insts.len()).rev() {
        if wanted[v] {
            k.operands(v).iter().for_each(|&o| wanted[o] = true);
        }
    }
    let mut now = vec![0; k.insts.len()];
    let mut insts = vec![];
    for (v, inst) in k.insts.iter().enumerate().filter(|(v, _)| wanted[*v]) {
        let mut inst = inst.clone();
        match &mut inst.kind {
            InstKind::Load { access, .. } => access.lookup.iter_mut().for_each(|l| l.value = now[l.value]),
            InstKind::Ewise(_, vals) => vals.iter_mut().for_each(|x| *x = now[*x]),
            InstKind::Cast(x) | InstKind::Reduce(_, x) | InstKind::Store { value: x, .. } => *x = now[*x],
            InstKind::Const(_) | InstKind::Param(_) => {}
        }
        now[v] = insts.len();
        insts.push(inst);
    }
    Kernel { insts, ..k }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_an_axis_are_found() {
        for (c, lo, hi) in (-3..4).flat_map(|c| (-7..8).flat_map(move |lo| (-7..9).map(move |hi| (c, lo, hi)))) {
            if c == 0 {
                continue;
            }
            let b = Bound { coefs: vec![0, c].into(), lo, hi };
            let inside: Vec<usize> = (0..6).filter(|&i| (lo..hi).contains(&(c * i as isize))).collect();
            let (from, to) = holds(&b, 1, 6);
            assert_eq!((from..to).collect::<Vec<_>>(), inside, "{lo} <= {c} i < {hi}");
        }
    }
}
