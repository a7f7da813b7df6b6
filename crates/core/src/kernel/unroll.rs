//! Kernels that reduce a few points across memory, as elementwise ones: all points of a reduction side by side, in the same
//! order.

use super::{Access, Inst, InstKind, Kernel, Level, Val};
use crate::{
    DType,
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

/// The row that does what one step of a reduction does.
fn step(op: ReduceOp) -> &'static Ewise {
    match op {
        ReduceOp::Sum => &ewise::ADD,
        ReduceOp::Prod => &ewise::MUL,
        ReduceOp::Max => &ewise::MAXIMUM,
        ReduceOp::Min => &ewise::MINIMUM,
    }
}

/// The same kernel without a reduce space, if that has only a few points, one lane, and numbers that need no care.
pub fn unrolled(k: &Kernel) -> Option<Kernel> {
    let cols = k.cols();
    if k.order.lanes > 1 || !(2..=POINTS).contains(&cols) || k.map.is_empty() {
        return None;
    }
    let elems = || k.insts.iter().filter(|i| i.level == Level::Elem);
    let addresses = elems().filter(|i| matches!(i.kind, InstKind::Load { .. } | InstKind::Store { .. })).count();
    let plain = |i: &Inst| match i.kind {
        // Smaller integers wrap around at the end of a reduction.
        InstKind::Reduce(..) => i.dtype.is_float() || i.dtype == DType::I64,
        InstKind::Load { .. }
        | InstKind::Store { .. }
        | InstKind::Const(_)
        | InstKind::Param(_)
        | InstKind::Ewise(..)
        | InstKind::Cast(_) => true,
    };
    if addresses * cols > ADDRESSES || elems().count() * cols > MOST || !k.insts.iter().all(plain) {
        return None;
    }
    let mut points = vec![vec![]];
    for &n in &k.reduce {
        points = points.iter().flat_map(|p| (0..n as isize).map(|i| [&p[..], &[i]].concat())).collect();
    }
    let mut out = Kernel { reduce: vec![], insts: vec![], ..k.clone() };
    // Of each value, what it is at each point; one where it is the same at all.
    let mut values: Vec<SmallVec<[Val; POINTS]>> = vec![];
    for inst in &k.insts {
        let mut each = SmallVec::new();
        if let InstKind::Reduce(op, x) = inst.kind {
            let start = InstKind::Const(op.identity(inst.dtype));
            out.insts.push(Inst { kind: start, dtype: inst.dtype, level: Level::Uniform });
            for at in 0..cols {
                let kind = InstKind::Ewise(step(op), SmallVec::from_slice(&[out.insts.len() - 1, of(&values[x], at)]));
                out.insts.push(Inst { kind, dtype: inst.dtype, level: Level::Elem });
            }
            each.push(out.insts.len() - 1);
        } else {
            let copies = if inst.level == Level::Elem { cols } else { 1 };
            for (at, point) in points.iter().enumerate().take(copies) {
                let mut one = inst.clone();
                one.level = if inst.level == Level::Uniform { Level::Uniform } else { Level::Elem };
                match &mut one.kind {
                    InstKind::Const(_) | InstKind::Param(_) => {}
                    InstKind::Load { access, .. } => place(access, k.map.len(), point, &values, at),
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
    Some(out)
}

/// A value at a point.
fn of(each: &[Val], at: usize) -> Val {
    each[at.min(each.len() - 1)]
}

/// An address at a point of the reduce space, which is gone then.
fn place(a: &mut Access, map: usize, point: &[isize], values: &[SmallVec<[Val; POINTS]>], at: usize) {
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
    use crate::kernel::{Arg, Order, Source, oracle, verify};

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
