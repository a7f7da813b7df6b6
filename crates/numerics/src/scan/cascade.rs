//! Sums in which each element is passed on with a factor: what the gradients of running products are.

use super::{Lanes, Num, PARALLEL_WORK};
use crate::tasks::{Shared, for_tasks};

/// Lanes that go side by side in vectors.
const WIDE: usize = 32;
/// Lanes that are rows, enough that none waits for its own last step.
const ROWS: usize = 8;

/// `out[i] = x[i] + factor[i] out[i - 1]` along the axis, or backwards `out[i] = x[i] + factor[i + 1] out[i + 1]`.
///
/// A factor stands at the later of the two elements it is between, so the first is not used. Each direction is the other's
/// transpose.
///
/// ```
/// use gradus_numerics::{Lanes, scan::cascade};
/// let mut out = [0.0; 3];
/// cascade(Lanes::rows(1, 3), &[1.0, 1.0, 1.0], &[9.0, 2.0, 3.0], false, &mut out);
/// assert_eq!(out, [1.0, 3.0, 10.0]);
/// cascade(Lanes::rows(1, 3), &[1.0, 1.0, 1.0], &[9.0, 2.0, 3.0], true, &mut out);
/// assert_eq!(out, [9.0, 4.0, 1.0]);
/// ```
pub fn cascade<T: Num>(l: Lanes, x: &[T], factor: &[T], back: bool, out: &mut [T]) {
    assert!(x.len() == l.len() && factor.len() == l.len() && out.len() == l.len(), "sizes of lanes");
    if l.is_empty() {
        return;
    }
    let all = All { x, factor, out: Shared::new(out), n: l.n, back };
    let side = if l.inner == 1 { ROWS } else { WIDE };
    // Groups of lanes: of rows, or of columns of one block.
    let (blocks, across) = if l.inner == 1 { (1, l.outer) } else { (l.outer, l.inner) };
    let groups = across.div_ceil(side);
    let together = (PARALLEL_WORK / 16 / (side * l.n)).max(1);
    for_tasks((blocks * groups).div_ceil(together), 4 * l.len() >= PARALLEL_WORK, |t| {
        for g in t * together..(blocks * groups).min((t + 1) * together) {
            let (block, first) = (g / groups, g % groups * side);
            let count = side.min(across - first);
            // SAFETY: the sizes were asserted; groups have lanes of their own.
            unsafe {
                if l.inner == 1 {
                    all.rows(first, count);
                } else {
                    all.columns(block * l.n * l.inner + first, l.inner, count);
                }
            }
        }
    });
}

struct All<'a, T> {
    x: &'a [T],
    factor: &'a [T],
    out: Shared<T>,
    n: usize,
    back: bool,
}

impl<T: Num> All<'_, T> {
    /// Some whole rows.
    ///
    /// # Safety
    /// There are so many, and they are the caller's.
    unsafe fn rows(&self, first: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if count == ROWS {
                return self.lanes::<ROWS>(first * self.n, self.n, 1);
            }
            (first..first + count).for_each(|r| self.lanes::<1>(r * self.n, self.n, 1));
        }
    }

    /// Some lanes that lie side by side.
    ///
    /// # Safety
    /// As of [`All::rows`].
    unsafe fn columns(&self, first: usize, step: usize, count: usize) {
        #[cfg(target_arch = "x86_64")]
        if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn wide<T: Num>(all: &All<'_, T>, first: usize, step: usize, count: usize) {
                // SAFETY: the caller's promise.
                unsafe { all.parts(first, step, count) }
            }
            // SAFETY: the instructions are there.
            return unsafe { wide(self, first, step, count) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.parts(first, step, count) }
    }

    #[inline(always)]
    unsafe fn parts(&self, first: usize, step: usize, count: usize) {
        let mut done = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while done < count {
                match count - done {
                    WIDE.. => self.lanes::<WIDE>(first + done, 1, step),
                    8.. => self.lanes::<8>(first + done, 1, step),
                    _ => self.lanes::<1>(first + done, 1, step),
                }
                done += match count - done {
                    WIDE.. => WIDE,
                    8.. => 8,
                    _ => 1,
                };
            }
        }
    }

    /// `W` lanes, each `across` from the one before, whose elements are `step` apart.
    #[inline(always)]
    unsafe fn lanes<const W: usize>(&self, first: usize, across: usize, step: usize) {
        let (x, factor, out) = (self.x.as_ptr(), self.factor.as_ptr(), self.out.ptr());
        let mut sums = [T::Acc::ZERO; W];
        for i in 0..self.n {
            let at = first + step * if self.back { self.n - 1 - i } else { i };
            let between = if self.back { at + step } else { at };
            for (w, sum) in sums.iter_mut().enumerate() {
                // SAFETY: inside, as the caller promises; what would be behind the end is not read.
                unsafe {
                    let x = (*x.add(at + w * across)).widen();
                    *sum = if i == 0 { x } else { x.add((*factor.add(between + w * across)).widen().mul(*sum)) };
                    *out.add(at + w * across) = T::narrow(*sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, same_on_any_threads};

    #[test]
    fn every_element_is_passed_on() {
        let mut r = Random(9);
        for (outer, n, inner) in [(1, 1, 1), (19, 7, 1), (2, 5, 45), (3, 4, 9), (1, 300, 300), (300, 301, 1), (2, 0, 3)]
        {
            let l = Lanes { outer, n, inner };
            let mut some = || (0..l.len()).map(|_| r.below(2001) as f64 / 1000.0 - 1.0).collect::<Vec<f64>>();
            let (x, f) = (some(), some());
            let at = |o: usize, i: usize, j: usize| (o * n + i) * inner + j;
            for back in [false, true] {
                let find = || {
                    let mut out = vec![f64::NAN; l.len()];
                    cascade(l, &x, &f, back, &mut out);
                    out
                };
                same_on_any_threads(find);
                let got = find();
                for (o, j) in (0..outer).flat_map(|o| (0..inner).map(move |j| (o, j))) {
                    let mut sum = 0.0;
                    for i in 0..n {
                        let here = if back { at(o, n - 1 - i, j) } else { at(o, i, j) };
                        let between = if back { here + inner } else { here };
                        sum = x[here] + if i == 0 { 0.0 } else { f[between] * sum };
                        assert_eq!(got[here], sum, "{outer} {n} {inner} {back}");
                    }
                }
            }
        }
    }
}
