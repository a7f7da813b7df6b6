//! Kernels whose last axes are only a few elements long, turned so that blocks run along a longer one, or that many lines
//! follow each other. Map points are independent of each other, so their order is nobody's business.

use super::{Access, InstKind, Kernel, Level};
use crate::view::Bound;

/// Last axes up to this long are not worth a line of their own.
const SHORT: usize = 8;
/// Lines are at least this long after turning.
const LEAST: usize = 32;
/// And at most this long: what a line of each short index touches stays in the caches until the next.
const MOST: usize = 4096;

/// The same kernel with its last two map axes exchanged (the longer one in pieces, where it is very long), if some address
/// does not go through both of them as one, or stay the same along the longer one.
pub fn turned(k: &Kernel) -> Option<Kernel> {
    let [.., long, short] = k.map[..] else { return None };
    if !k.reduce.is_empty() || !(2..=SHORT).contains(&short) || long < LEAST {
        return None;
    }
    let piece = (LEAST..=long.min(MOST)).rev().find(|p| long.is_multiple_of(*p))?;
    let last = k.map.len() - 1;
    let awkward = |s: &[isize]| s[last - 1] != s[last] * short as isize && s[last - 1] != 0;
    let accesses = k.insts.iter().filter_map(|i| match &i.kind {
        InstKind::Load { access, .. } | InstKind::Store { access, .. } => Some(access),
        InstKind::Const(_) | InstKind::Param(_) | InstKind::Ewise(..) | InstKind::Cast(_) | InstKind::Reduce(..) => {
            None
        }
    });
    let mut vectors =
        accesses.flat_map(|a| std::iter::once(&a.strides[..]).chain(a.bounds.iter().map(|b| &b.coefs[..])));
    if !vectors.any(awkward) {
        return None;
    }
    let mut out = k.clone();
    let split = piece < long;
    let turn = |s: &[isize]| {
        let mut s = s.to_vec();
        let (along, across) = (s[last - 1], s[last]);
        (s[last - 1], s[last]) = (across, along);
        if split {
            s.insert(last - 1, along * piece as isize);
        }
        s
    };
    out.map.truncate(last - 1);
    if split {
        out.map.push(long / piece);
    }
    out.map.extend([short, piece]);
    let each = |a: &mut Access| {
        a.strides = turn(&a.strides);
        for b in &mut a.bounds {
            *b = Bound { coefs: turn(&b.coefs).into(), ..b.clone() };
        }
    };
    for i in &mut out.insts {
        if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
            each(access);
        }
    }
    Some(out)
}

/// Lines along one axis from which on another axis would do no better.
const ENOUGH: usize = 8;

/// The kernel with a longer axis before its last, if that one is short: what is laid out once serves all lines along it.
/// And which axis it has changed places with.
pub fn many_lines(k: Kernel) -> (Kernel, Option<usize>) {
    let [ref outer @ .., lines, _] = k.map[..] else { return (k, None) };
    let axis = outer.iter().rposition(|&n| n >= ENOUGH);
    let Some(axis) = axis.filter(|_| lines < ENOUGH && k.reduce.is_empty()) else { return (k, None) };
    let to = k.map.len() - 2;
    (swapped(k, axis, to), Some(axis))
}

/// Steps from which on elements are not read in whole cache lines.
const FAR: usize = 8;

/// A reduction over operands that lie along another map axis than the last, with that one last: what is read is more than
/// what is written.
pub fn along_memory(k: Kernel) -> Kernel {
    let Some(last) = k.map.len().checked_sub(1).filter(|&l| l > 0 && !k.reduce.is_empty()) else { return k };
    let elements: Vec<&[isize]> = (k.insts.iter().filter(|i| i.level == Level::Elem))
        .filter_map(|i| match &i.kind {
            InstKind::Load { access, .. } => Some(&access.strides[..]),
            InstKind::Store { .. }
            | InstKind::Const(_)
            | InstKind::Param(_)
            | InstKind::Ewise(..)
            | InstKind::Cast(_)
            | InstKind::Reduce(..) => None,
        })
        .collect();
    let lies = |s: &[isize], a: usize| {
        let far = |d: usize| s[d].unsigned_abs() >= FAR;
        s[a] == 1 && far(last) && (last + 1..s.len()).all(far)
    };
    let axis = (0..last).rev().filter(|&a| k.map[a] >= LEAST).find(|&a| {
        elements.iter().any(|s| lies(s, a)) && elements.iter().all(|s| lies(s, a) || s[a] == 0 && s[last] == 0)
    });
    let Some(axis) = axis else { return k };
    swapped(k, axis, last)
}

/// The same kernel with two map axes exchanged.
fn swapped(mut k: Kernel, a: usize, b: usize) -> Kernel {
    k.map.swap(a, b);
    for i in &mut k.insts {
        if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
            access.strides.swap(a, b);
            access.bounds.iter_mut().for_each(|bound| bound.coefs.swap(a, b));
        }
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DType,
        kernel::{Arg, Inst, Order, Source, oracle},
    };

    /// `out[i, j] = x[i + j]`, over `[long, short]`.
    fn windows(long: usize, short: usize) -> Kernel {
        let access = |strides: &[isize]| Access { strides: strides.into(), offset: 0, bounds: vec![], lookup: vec![] };
        let load = InstKind::Load { source: Source::Arg(0), access: access(&[1, 1]) };
        let store = InstKind::Store { arg: 1, access: access(&[short as isize, 1]), value: 0 };
        let inst = |kind| Inst { kind, dtype: DType::F32, level: Level::Elem };
        let arg = |written| Arg { dtype: DType::F32, written };
        Kernel {
            map: vec![long, short],
            reduce: vec![],
            args: vec![arg(false), arg(true)],
            params: vec![],
            insts: vec![inst(load), inst(store)],
            order: Order::ROWS,
        }
    }

    #[test]
    fn a_turned_kernel_means_the_same() {
        for long in [40, 5000, 10_007] {
            let k = windows(long, 3);
            let run = |k: &Kernel| {
                let mut x: Vec<u8> = (0..long + 3).flat_map(|i| (i as f32).to_ne_bytes()).collect();
                let mut y = vec![0u8; long * 3 * 4];
                let mut args = [oracle::Bytes { bytes: &mut x, offset: 0 }, oracle::Bytes { bytes: &mut y, offset: 0 }];
                oracle::run(k, &mut args, &[]).unwrap();
                y
            };
            match turned(&k) {
                Some(t) => assert_eq!(run(&t), run(&k), "{long}: {:?}", t.map),
                None => assert_eq!(long, 10_007, "a prime has no pieces"),
            }
        }
        assert!(turned(&windows(40, 9)).is_none());
    }

    #[test]
    fn many_lines_mean_the_same() {
        // `out[i, j, l] = x[5 j + i]`, over `[9, 2, 16]`.
        let mut k = windows(1, 1);
        k.map = vec![9, 2, 16];
        for (i, strides) in k.insts.iter_mut().zip([vec![1, 5, 0], vec![32, 16, 1]]) {
            if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
                access.strides = strides;
            }
        }
        let run = |k: &Kernel| {
            let mut x: Vec<u8> = (0..14).flat_map(|i| (i as f32).to_ne_bytes()).collect();
            let mut y = vec![0u8; 9 * 2 * 16 * 4];
            let mut args = [oracle::Bytes { bytes: &mut x, offset: 0 }, oracle::Bytes { bytes: &mut y, offset: 0 }];
            oracle::run(k, &mut args, &[]).unwrap();
            y
        };
        let (lined, axis) = many_lines(k.clone());
        assert_eq!(axis, Some(0));
        assert_eq!(lined.map, [2, 9, 16]);
        assert_eq!(run(&lined), run(&k));
    }

    #[test]
    fn a_reduction_along_memory_means_the_same() {
        // `out[i, j] = sum over k of x[i + 1000 j + 100 k]`, over `[40, 6]` and `[9]`.
        let mut k = windows(40, 6);
        k.reduce = vec![9];
        let sum = InstKind::Reduce(crate::kernel::ReduceOp::Sum, 0);
        k.insts.insert(1, Inst { kind: sum, dtype: DType::F32, level: Level::Row });
        for (i, strides) in k.insts.iter_mut().zip([vec![1, 1000, 100], vec![], vec![6, 1, 0]]) {
            match &mut i.kind {
                InstKind::Load { access, .. } => access.strides = strides,
                InstKind::Store { access, value, .. } => {
                    (access.strides, *value, i.level) = (strides, 1, Level::Row);
                }
                _ => {}
            }
        }
        let run = |k: &Kernel| {
            let mut x: Vec<u8> = (0..6000).flat_map(|i| (i as f32).to_ne_bytes()).collect();
            let mut y = vec![0u8; 40 * 6 * 4];
            let mut args = [oracle::Bytes { bytes: &mut x, offset: 0 }, oracle::Bytes { bytes: &mut y, offset: 0 }];
            oracle::run(k, &mut args, &[]).unwrap();
            y
        };
        let along = along_memory(k.clone());
        assert_eq!(along.map, [6, 40]);
        assert_eq!(run(&along), run(&k));
    }
}
