//! Kernels that reduce a few points across memory, as elementwise ones: all points of a reduction side by side, in the same
//! order. Short rows, of at most one point a lane, are such once somebody has turned them.

use super::{Access, Inst, InstKind, Kernel, Level, Source, Val};
use crate::{
    DType, Scalar,
    op::{
        ReduceOp,
        ewise::{self, Ewise},
    },
    view::Bound,
};
use smallvec::SmallVec;

/// Reductions of at most this many points,
const POINTS: usize = 8;
/// with so many addresses in all, as many as a function of machine code has pointers for.
const ADDRESSES: usize = 20;
/// And so many instructions.
const MOST: usize = 96;
/// The same for short rows: their addresses follow each other.
const SHORT: usize = 16;
const MOST_OF_SHORT: usize = 224;

/// The row that does what one step of a reduction does.
fn step(op: ReduceOp, dtype: DType) -> &'static Ewise {
    match op {
        ReduceOp::Sum | ReduceOp::Max if dtype == DType::Bool => &ewise::OR,
        ReduceOp::Prod | ReduceOp::Min if dtype == DType::Bool => &ewise::AND,
        ReduceOp::Sum => &ewise::ADD,
        ReduceOp::Prod => &ewise::MUL,
        ReduceOp::Max => &ewise::MAXIMUM,
        ReduceOp::Min => &ewise::MINIMUM,
    }
}

/// The same kernel without a reduce space, if that has only a few points, one lane, and numbers that need no care.
pub fn unrolled(k: &Kernel) -> Option<Kernel> {
    let (cols, short) = (k.cols(), k.order.lanes > 1);
    let (points, addresses_most, most) =
        if short { (SHORT.min(k.order.lanes), usize::MAX, MOST_OF_SHORT) } else { (POINTS, ADDRESSES, MOST) };
    let reduces = k.insts.iter().any(|i| matches!(i.kind, InstKind::Reduce(..)));
    if !reduces || !(1..=points).contains(&cols) || k.map.is_empty() {
        return None;
    }
    if cols > 1 && short && !k.insts.iter().all(|i| across(k, i)) {
        return None;
    }
    let elems = || k.insts.iter().filter(|i| i.level == Level::Elem);
    let addresses = elems().filter(|i| matches!(i.kind, InstKind::Load { .. } | InstKind::Store { .. })).count();
    let plain = |i: &Inst| match i.kind {
        // Sums of smaller integers wrap around at the end of a reduction; one number does not.
        InstKind::Reduce(ReduceOp::Sum | ReduceOp::Prod, _) => cols == 1 || !i.dtype.is_int() || i.dtype == DType::I64,
        InstKind::Reduce(..) => true,
        InstKind::Load { .. }
        | InstKind::Store { .. }
        | InstKind::Const(_)
        | InstKind::Param(_)
        | InstKind::Ewise(..)
        | InstKind::Cast(_) => true,
    };
    if addresses * cols > addresses_most || elems().count() * cols > most || !k.insts.iter().all(plain) {
        return None;
    }
    let mut points = vec![vec![]];
    for &n in &k.reduce {
        points = points.iter().flat_map(|p| (0..n as isize).map(|i| [&p[..], &[i]].concat())).collect();
    }
    let mut out = Kernel { reduce: vec![], insts: vec![], ..k.clone() };
    // Of each value, what it is at each point; one where it is the same at all.
    let mut values: Vec<SmallVec<[Val; SHORT]>> = vec![];
    for inst in &k.insts {
        let mut each = SmallVec::new();
        if let InstKind::Reduce(op, x) = inst.kind {
            let start = InstKind::Const(op.identity(inst.dtype));
            out.insts.push(Inst { kind: start, dtype: inst.dtype, level: Level::Uniform });
            let start = out.insts.len() - 1;
            let leaves: SmallVec<[Val; SHORT]> = (0..cols).map(|at| of(&values[x], at)).collect();
            let mut two = |row: &'static Ewise, a: Val, b: Val| {
                let kind = InstKind::Ewise(row, SmallVec::from_slice(&[a, b]));
                out.insts.push(Inst { kind, dtype: inst.dtype, level: Level::Elem });
                out.insts.len() - 1
            };
            let row = step(op, inst.dtype);
            let total = if short {
                // What a lane begins with changes nothing but the sign of a sum that is zero: once is enough.
                let first = if op == ReduceOp::Sum { two(row, start, leaves[0]) } else { leaves[0] };
                lanes(&leaves, first, k.order.lanes, &mut |a, b| two(row, a, b))
            } else {
                leaves.iter().fold(start, |sum, &x| two(row, sum, x))
            };
            each.push(total);
        } else {
            let copies = if inst.level == Level::Elem { cols } else { 1 };
            for (at, point) in points.iter().enumerate().take(copies) {
                let mut one = inst.clone();
                one.level = if inst.level == Level::Uniform { Level::Uniform } else { Level::Elem };
                match &mut one.kind {
                    InstKind::Const(_) | InstKind::Param(_) => {}
                    InstKind::Load { source, access } => {
                        place(access, k.map.len(), point, &values, at);
                        let fixed = access.strides.iter().all(|&s| s == 0) && access.bounds.is_empty();
                        if *source == Source::Iota && fixed && access.lookup.is_empty() {
                            one = Inst {
                                kind: InstKind::Const(Scalar::I(access.offset as i64)),
                                level: Level::Uniform,
                                ..one
                            };
                        }
                    }
                    InstKind::Ewise(_, vals) => vals.iter_mut().for_each(|v| *v = of(&values[*v], at)),
                    InstKind::Cast(v) | InstKind::Reduce(_, v) => *v = of(&values[*v], at),
                    InstKind::Store { access, value, .. } => {
                        place(access, k.map.len(), point, &values, at);
                        *value = of(&values[*value], at);
                    }
                }
                out.insts.push(one);
                each.push(out.insts.len() - 1);
            }
        }
        values.push(each);
    }
    Some(if short { depth_first(&out) } else { out })
}

/// The kernel with each value just before it is first read, so that few wait at a time.
fn depth_first(k: &Kernel) -> Kernel {
    let mut now: Vec<Option<Val>> = vec![None; k.insts.len()];
    let mut out = Kernel { insts: vec![], ..k.clone() };
    let stores = (0..k.insts.len()).filter(|&v| matches!(k.insts[v].kind, InstKind::Store { .. }));
    for store in stores {
        let mut stack = vec![store];
        while let Some(&v) = stack.last() {
            let wanted = k.operands(v).into_iter().find(|&o| now[o].is_none());
            if let Some(o) = wanted.filter(|_| now[v].is_none()) {
                stack.push(o);
                continue;
            }
            stack.pop();
            if now[v].is_some() {
                continue;
            }
            let mut inst = k.insts[v].clone();
            let place = |v: &mut Val| *v = now[*v].unwrap_or(*v);
            match &mut inst.kind {
                InstKind::Const(_) | InstKind::Param(_) => {}
                InstKind::Load { access, .. } => access.lookup.iter_mut().for_each(|l| place(&mut l.value)),
                InstKind::Ewise(_, vals) => vals.iter_mut().for_each(place),
                InstKind::Cast(x) | InstKind::Reduce(_, x) => place(x),
                InstKind::Store { value, .. } => place(value),
            }
            now[v] = Some(out.insts.len());
            out.insts.push(inst);
        }
    }
    out
}

/// The points of a short row by the tree over lanes, of which each has one at most: neighbours that are far apart first. Depth
/// first, so that few values wait at a time.
fn lanes(leaves: &[Val], first: Val, count: usize, two: &mut impl FnMut(Val, Val) -> Val) -> Val {
    /// Lane `i` once only `live` of `count` are left; none where no point has reached it.
    fn lane(
        (leaves, first, count): (&[Val], Val, usize),
        live: usize,
        i: usize,
        two: &mut impl FnMut(Val, Val) -> Val,
    ) -> Option<Val> {
        if live == count {
            return if i == 0 { Some(first) } else { leaves.get(i).copied() };
        }
        let all = (leaves, first, count);
        let (low, high) = (lane(all, 2 * live, i, two), lane(all, 2 * live, i + live, two));
        match (low, high) {
            (Some(a), Some(b)) => Some(two(a, b)),
            (one, other) => one.or(other),
        }
    }
    lane((leaves, first, count), 1, 0, two).unwrap_or(first)
}

/// Whether an instruction of a kernel with short rows reads and writes along its map points, or one number for all of them.
fn across(k: &Kernel, inst: &Inst) -> bool {
    match &inst.kind {
        InstKind::Load { source: Source::Arg(_), access } | InstKind::Store { access, .. } => {
            inst.level < Level::Elem || access.strides[..k.map.len()].last().is_none_or(|s| (0..=1).contains(s))
        }
        InstKind::Load { .. }
        | InstKind::Const(_)
        | InstKind::Param(_)
        | InstKind::Ewise(..)
        | InstKind::Cast(_)
        | InstKind::Reduce(..) => true,
    }
}

/// A value at a point.
fn of(each: &[Val], at: usize) -> Val {
    each[at.min(each.len() - 1)]
}

/// An address at a point of the reduce space, which is gone then.
fn place(a: &mut Access, map: usize, point: &[isize], values: &[SmallVec<[Val; SHORT]>], at: usize) {
    let along = |steps: &[isize]| steps[map..].iter().zip(point).map(|(s, i)| s * i).sum::<isize>();
    a.offset += along(&a.strides);
    a.strides.truncate(map);
    for b in &mut a.bounds {
        let by = along(&b.coefs);
        *b = Bound { coefs: b.coefs[..map].to_vec().into(), lo: b.lo - by, hi: b.hi - by };
    }
    a.lookup.iter_mut().for_each(|l| l.value = of(&values[l.value], at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Arg, Order, oracle, verify};

    /// `out[m] = sum over r of x[m, r]`, and `less[m, r] = x[m, r] - out[m]`, where `x` is zero beyond its end.
    fn centred(rows: usize, cols: usize) -> Kernel {
        let access = |strides: [isize; 2]| Access { strides: strides.into(), ..Access::default() };
        let mut load = access([1, rows as isize]);
        load.bounds.push(Bound { coefs: vec![1, rows as isize].into(), lo: 1, hi: (rows * cols) as isize - 2 });
        let inst = |kind, level| Inst { kind, dtype: DType::F32, level };
        let arg = |written| Arg { dtype: DType::F32, written };
        Kernel {
            map: vec![rows],
            reduce: vec![cols],
            args: vec![arg(false), arg(true), arg(true)],
            params: vec![],
            insts: vec![
                inst(InstKind::Load { source: Source::Arg(0), access: load }, Level::Elem),
                inst(InstKind::Reduce(ReduceOp::Sum, 0), Level::Row),
                inst(InstKind::Store { arg: 1, access: access([1, 0]), value: 1 }, Level::Row),
                inst(InstKind::Ewise(&ewise::SUB, SmallVec::from_slice(&[0, 1])), Level::Elem),
                inst(InstKind::Store { arg: 2, access: access([cols as isize, 1]), value: 3 }, Level::Elem),
            ],
            order: Order::COLUMNS,
        }
    }

    /// The bits of what a kernel of this kind makes of some numbers, many of them zeros of either sign.
    fn results(k: &Kernel, rows: usize, cols: usize) -> (Vec<u8>, Vec<u8>) {
        let number = |i: usize| if i % 4 != 1 { -0.0 } else { (i as f32 * 0.7).sin() };
        let mut x: Vec<u8> = (0..rows * cols).flat_map(|i| number(i).to_ne_bytes()).collect();
        let (mut sums, mut less) = (vec![0u8; rows * 4], vec![0u8; rows * cols * 4]);
        let mut args = [&mut x, &mut sums, &mut less].map(|bytes| oracle::Bytes { bytes, offset: 0 });
        oracle::run(k, &mut args, &[]).unwrap();
        (sums, less)
    }

    #[test]
    fn short_rows_are_trees_of_lanes() {
        for (op, cols) in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min]
            .into_iter()
            .flat_map(|op| (2..=SHORT).map(move |cols| (op, cols)))
        {
            let mut k = Kernel { order: Order::ROWS, ..centred(5, cols) };
            k.insts[1].kind = InstKind::Reduce(op, 0);
            let flat = unrolled(&Kernel { insts: k.insts[..3].to_vec(), ..k.clone() }).unwrap();
            verify(&flat).unwrap();
            assert_eq!(results(&flat, 5, cols).0, results(&k, 5, cols).0, "{op:?} of {cols}");
        }
        // Rows as they lie in memory would be read one by one.
        assert!(unrolled(&Kernel { order: Order::ROWS, ..centred(5, 3) }).is_none());
        assert!(unrolled(&Kernel { order: Order::ROWS, ..centred(5, SHORT + 1) }).is_none());
    }

    #[test]
    fn an_unrolled_kernel_means_the_same() {
        let (rows, cols) = (5, 3);
        let k = centred(rows, cols);
        verify(&k).unwrap();
        let run = |k: &Kernel| {
            let number = |i: usize| if i == 4 { -0.0 } else { (i as f32 * 0.7).sin() };
            let mut x: Vec<u8> = (0..rows * cols).flat_map(|i| number(i).to_ne_bytes()).collect();
            let (mut sums, mut less) = (vec![0u8; rows * 4], vec![0u8; rows * cols * 4]);
            let mut args = [&mut x, &mut sums, &mut less].map(|bytes| oracle::Bytes { bytes, offset: 0 });
            oracle::run(k, &mut args, &[]).unwrap();
            (sums, less)
        };
        let flat = unrolled(&k).unwrap();
        verify(&flat).unwrap();
        assert!(flat.reduce.is_empty());
        assert_eq!(run(&flat), run(&k));
        assert!(unrolled(&centred(rows, 9)).is_none());
    }
}
