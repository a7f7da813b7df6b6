//! A plane's part of the kernel's gradient.

use super::Shape;
use super::rows::read;
use crate::simd::{Simd, dispatch, fold};

/// Adds to the vectors of sums of `K` neighbouring elements of a kernel row, from `kw` on.
#[inline(always)]
unsafe fn taps<S: Simd, const K: usize>(s: &Shape, x: &[f32], g: &[f32], kh: usize, kw: usize, dw: *mut f32) {
    // SAFETY: the frame has room for every window; gradients are read up to their row's end; there
    // are sums for every element of the kernel.
    unsafe {
        let at = dw.add((kh * s.kernel.1 + kw) * S::LANES);
        let mut sums: [S::V; K] = std::array::from_fn(|k| S::load(at.add(k * S::LANES)));
        for row in 0..s.output.0 {
            let from = x.as_ptr().add((row * s.stride.0 + kh * s.dilation.0) * s.width + kw * s.dilation.1);
            for first in (0..s.output.1).step_by(S::LANES) {
                let n = (s.output.1 - first).min(S::LANES);
                let d = S::load_first(g.as_ptr().add(row * s.output.1 + first), n);
                for (k, sum) in sums.iter_mut().enumerate() {
                    let p = from.add(first * s.stride.1 + k * s.dilation.1);
                    // Nothing behind the row is read: zeros of the gradient times a NaN there would be
                    // one.
                    let v = if n == S::LANES {
                        read::<S>(p, s.stride.1)
                    } else if s.stride.1 == 1 {
                        S::load_first(p, n)
                    } else {
                        let left = 2 * n - 1;
                        let second = left.saturating_sub(S::LANES);
                        S::evens(S::load_first(p, left.min(S::LANES)), S::load_first(p.add(S::LANES), second))
                    };
                    *sum = S::fma(v, d, *sum);
                }
            }
        }
        for (k, sum) in sums.into_iter().enumerate() {
            S::store(at.add(k * S::LANES), sum);
        }
    }
}

/// All elements of a kernel of `K` by `K` neighbours, for unit strides: a vector of the frame meets
/// the gradients of the `K` rows that see it.
#[inline(always)]
unsafe fn square_taps<S: Simd, const K: usize>(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32) {
    // SAFETY: as in `taps`.
    unsafe {
        let mut sums: [[S::V; K]; K] =
            std::array::from_fn(|h| std::array::from_fn(|w| S::load(dw.add((h * K + w) * S::LANES))));
        for first in (0..s.output.1).step_by(S::LANES) {
            let n = (s.output.1 - first).min(S::LANES);
            let (from, g) = (x.as_ptr().add(first), g.as_ptr().add(first));
            // The gradients of rows r, r - 1, ..
            let mut d = [S::zero(); K];
            for r in 0..s.output.0 + K - 1 {
                for h in (1..K).rev() {
                    d[h] = d[h - 1];
                }
                if r < s.output.0 {
                    d[0] = S::load_first(g.add(r * s.output.1), n);
                }
                let p = from.add(r * s.width);
                let v: [S::V; K] = std::array::from_fn(|w| S::load_first(p.add(w), n));
                for (h, (sums, d)) in sums.iter_mut().zip(d).enumerate() {
                    // No zero of a row that is not there may meet a NaN.
                    if h <= r && r - h < s.output.0 {
                        for (sum, v) in sums.iter_mut().zip(v) {
                            *sum = S::fma(v, d, *sum);
                        }
                    }
                }
            }
        }
        for (h, sums) in sums.into_iter().enumerate() {
            for (w, sum) in sums.into_iter().enumerate() {
                S::store(dw.add((h * K + w) * S::LANES), sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn plane_weight_body<S: Simd>(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32) {
    if s.is_square() && s.kernel.1 == 3 {
        // SAFETY: the caller's promise.
        return unsafe { square_taps::<S, 3>(s, x, g, dw) };
    }
    if s.is_square() && s.kernel.1 == 5 && S::LANES == 16 {
        // SAFETY: the caller's promise. (There are registers for 25 sums.)
        return unsafe { square_taps::<S, 5>(s, x, g, dw) };
    }
    for kh in 0..s.kernel.0 {
        // SAFETY: the caller's promise.
        unsafe {
            match s.kernel.1 {
                3 => taps::<S, 3>(s, x, g, kh, 0, dw),
                5 => taps::<S, 5>(s, x, g, kh, 0, dw),
                7 => taps::<S, 7>(s, x, g, kh, 0, dw),
                wide => (0..wide).for_each(|kw| taps::<S, 1>(s, x, g, kh, kw, dw)),
            }
        }
    }
}
dispatch! {
    /// Adds a plane's part to the kernel's gradient: a vector of sums for each element.
    ///
    /// # Safety
    ///
    /// The frame has room for every window, and `dw` for the sums.
    pub(super) unsafe fn plane_weight = plane_weight_body(s: &Shape, x: &[f32], g: &[f32], dw: *mut f32)
}

/// The sums of vectors.
#[inline(always)]
unsafe fn fold_all_body<S: Simd>(sums: &[f32], out: &mut [f32]) {
    for (sum, out) in sums.chunks_exact(S::LANES).zip(out) {
        // SAFETY: a vector's numbers are there.
        *out = unsafe { fold::<S>(S::load(sum.as_ptr()), |a, b| a + b) };
    }
}
dispatch! {
    /// Adds up vectors of sums.
    ///
    /// # Safety
    ///
    /// None but that of all kernels.
    pub(super) unsafe fn fold_all = fold_all_body(sums: &[f32], out: &mut [f32])
}
