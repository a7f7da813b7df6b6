//! Pure copies that go backwards along memory: lines are turned round on their way, vector by vector, without blocks of
//! registers in between.

use super::{exec::Bases, forms::Form, packed::FEW};
use crate::{
    Result, Scalar,
    kernel::{Arg, InstKind, Kernel, Source, collapse},
};
use gradus_numerics::{by_bytes, tasks::for_tasks};
use smallvec::SmallVec;

/// Below this many elements a copy stays on the calling thread.
const PARALLEL: usize = 32 * 1024;
/// About as many elements as a thread takes at once.
const TASK: usize = 8 * 1024;

/// A copy whose lines end where those of its source begin.
pub struct Flip {
    args: Vec<Arg>,
    /// Source and target: which buffer, and the first element.
    at: [(usize, isize); 2],
    /// Elements of a line.
    line: usize,
    /// The axes before: extents, and steps of the two.
    outer: SmallVec<[(usize, [isize; 2]); 6]>,
    /// Bytes of an element.
    size: usize,
}

impl Flip {
    /// Whether a verified kernel is one.
    pub fn of(kernel: &Kernel) -> Option<Flip> {
        if kernel.insts.len() != 2 || !kernel.reduce.is_empty() {
            return None;
        }
        let k = collapse(kernel);
        let [load, store] = &k.insts[..] else { return None };
        let InstKind::Load { source: Source::Arg(from), access: src } = &load.kind else { return None };
        let InstKind::Store { arg: to, access: dst, .. } = &store.kind else { return None };
        let [outer @ .., line] = &k.map[..] else { return None };
        let last = outer.len();
        let plain = src.bounds.is_empty() && src.lookup.is_empty() && dst.bounds.is_empty() && dst.lookup.is_empty();
        let backwards = src.strides[last] == -1 && dst.strides[last] == 1;
        let size = k.args[*from].dtype.size();
        if !plain || !backwards || *line * size <= FEW || k.args[*to].dtype != k.args[*from].dtype || from == to {
            return None;
        }
        let steps = |d: usize| [src.strides[d], dst.strides[d]];
        Some(Flip {
            at: [(*from, src.offset), (*to, dst.offset)],
            line: *line,
            outer: outer.iter().enumerate().map(|(d, &n)| (n, steps(d))).collect(),
            size,
            args: k.args.clone(),
        })
    }

    /// # Safety
    /// As [`Form::run`]; elements have the size of `T`.
    unsafe fn typed<T: Copy>(&self, bases: Bases<'_>) {
        let lines: usize = self.outer.iter().map(|o| o.0).product();
        // Long lines are cut, short ones go together.
        let (cuts, together) = (self.line.div_ceil(TASK), (TASK / self.line).max(1));
        let part = self.line.div_ceil(cuts);
        let one = |l: usize, cut: usize| {
            let all = bases; // the whole struct, which may be shared
            let (mut rest, mut from, mut to) = (l, self.at[0].1, self.at[1].1);
            for &(n, [s, d]) in self.outer.iter().rev() {
                let i = (rest % n) as isize;
                (from, to, rest) = (from + i * s, to + i * d, rest / n);
            }
            let first = cut * part;
            let (from, to) = (from - first as isize, to + first as isize);
            let source = all.0[self.at[0].0].cast::<T>().cast_const().wrapping_offset(from);
            let target = all.0[self.at[1].0].cast::<T>().wrapping_offset(to);
            // SAFETY: all elements lie in their buffers by the caller's promise, and parts of lines do not overlap.
            unsafe { reversed(source, target, part.min(self.line - first)) };
        };
        for_tasks((lines * cuts).div_ceil(together), lines * self.line >= PARALLEL, |t| {
            (t * together..((t + 1) * together).min(lines * cuts)).for_each(|i| one(i / cuts, i % cuts));
        });
    }
}

impl Form for Flip {
    fn args(&self) -> &[Arg] {
        &self.args
    }

    unsafe fn run(&self, bases: Bases<'_>, _: &[Scalar]) -> Result<()> {
        // SAFETY: passed on; the types have the element's size.
        unsafe { by_bytes!(self.size, T => self.typed::<T>(bases)) }
        Ok(())
    }
}

/// Copies `n` elements from `source` on backwards.
///
/// # Safety
/// So many elements lie before `source`, with it, and behind `target`.
unsafe fn reversed<T: Copy>(source: *const T, target: *mut T, n: usize) {
    #[inline(always)]
    unsafe fn all<T: Copy>(source: *const T, target: *mut T, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *target.add(i) = *source.sub(i) };
        }
    }
    #[cfg(target_arch = "x86_64")]
    if crate::op::block::Isa::detect() == crate::op::block::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2")]
        unsafe fn wide<T: Copy>(source: *const T, target: *mut T, n: usize) {
            // SAFETY: passed on.
            unsafe { all(source, target, n) }
        }
        if is_x86_feature_detected!("avx512vbmi") {
            // SAFETY: passed on, and the instructions are there.
            return unsafe { wide(source, target, n) };
        }
    }
    // SAFETY: passed on.
    unsafe { all(source, target, n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DType,
        kernel::{Access, Inst, Level, Order},
    };

    fn kernel(map: &[usize], from: (isize, &[isize]), to: &[isize]) -> Kernel {
        let access = |offset: isize, strides: &[isize]| Access {
            offset,
            strides: strides.to_vec(),
            bounds: vec![],
            lookup: vec![],
        };
        let inst = |kind: InstKind| Inst { kind, dtype: DType::F32, level: Level::Elem };
        let load = InstKind::Load { source: Source::Arg(0), access: access(from.0, from.1) };
        let store = InstKind::Store { arg: 1, access: access(0, to), value: 0 };
        Kernel {
            map: map.to_vec(),
            reduce: vec![],
            insts: vec![inst(load), inst(store)],
            args: [false, true].map(|written| Arg { dtype: DType::F32, written }).to_vec(),
            params: vec![],
            order: Order::ROWS,
        }
    }

    #[test]
    fn lines_are_turned_round_whole_or_cut() {
        for (rows, line) in [(1, 17), (3, 18), (40, 129), (2, 3 * TASK + 5), (700, 83)] {
            let n = (rows * line) as isize;
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            for (from, strides) in [(line as isize - 1, [line as isize, -1]), (n - 1, [-(line as isize), -1])] {
                let k = kernel(&[rows, line], (from, &strides), &[line as isize, 1]);
                let flip = Flip::of(&k).expect("lines go backwards");
                let mut y = vec![0f32; x.len()];
                let bases = [x.as_ptr().cast_mut().cast::<u8>(), y.as_mut_ptr().cast::<u8>()];
                // SAFETY: both buffers have all elements.
                unsafe { flip.run(Bases(&bases), &[]).unwrap() };
                for (i, y) in y.iter().enumerate() {
                    let (r, c) = ((i / line) as isize, (i % line) as isize);
                    assert_eq!(*y as isize, from + r * strides[0] - c, "{rows} x {line} at {i}");
                }
            }
        }
        assert!(Flip::of(&kernel(&[4, 30], (0, &[30, 1]), &[30, 1])).is_none(), "forwards");
        assert!(Flip::of(&kernel(&[4, 30], (29, &[30, -1]), &[1, 4])).is_none(), "across");
    }
}
