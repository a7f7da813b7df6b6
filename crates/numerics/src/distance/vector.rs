//! Vectors of either type of numbers that distances are computed in.

use crate::simd::{Base, Simd};
use std::marker::PhantomData;

/// What the kernels do with vectors. As with [`Simd`], functions may only run where the instructions are there.
pub(super) trait Vector: Copy {
    type T: Copy + Default;
    type V: Copy;
    /// Numbers in a vector, 16 at the most.
    const N: usize;
    unsafe fn splat(x: Self::T) -> Self::V;
    unsafe fn load(p: *const Self::T) -> Self::V;
    /// The first `n` numbers, zeros after them; nothing behind them is read.
    unsafe fn load_first(p: *const Self::T, n: usize) -> Self::V;
    unsafe fn store(p: *mut Self::T, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn abs(a: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; NaN where one of them is.
    unsafe fn larger(a: Self::V, b: Self::V) -> Self::V;
    /// `w` where `d` is above zero, `-w` where it is below, zero elsewhere.
    unsafe fn signed(w: Self::V, d: Self::V) -> Self::V;
    fn root(x: Self::T) -> Self::T;
}

/// `f32`, by the vectors of a width.
#[derive(Clone, Copy)]
pub(super) struct Single<S>(PhantomData<S>);

impl<S: Simd> Vector for Single<S> {
    type T = f32;
    type V = S::V;
    const N: usize = S::LANES;

    #[inline(always)]
    unsafe fn splat(x: f32) -> S::V {
        // SAFETY: the caller's promise, as in all of these.
        unsafe { S::splat(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> S::V {
        // SAFETY: as above.
        unsafe { S::load(p) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> S::V {
        // SAFETY: as above.
        unsafe { S::load_first(p, n) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: S::V) {
        // SAFETY: as above.
        unsafe { S::store(p, v) }
    }
    #[inline(always)]
    unsafe fn add(a: S::V, b: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::add(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: S::V, b: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::sub(a, b) }
    }
    #[inline(always)]
    unsafe fn abs(a: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::abs(a) }
    }
    #[inline(always)]
    unsafe fn fma(a: S::V, b: S::V, c: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::fma(a, b, c) }
    }
    #[inline(always)]
    unsafe fn larger(a: S::V, b: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::select(S::is_nan(a), a, S::max(a, b)) }
    }
    #[inline(always)]
    unsafe fn signed(w: S::V, d: S::V) -> S::V {
        // SAFETY: as above.
        unsafe {
            let zero = S::zero();
            S::select(S::gt(d, zero), w, S::select(S::gt(zero, d), S::sub(zero, w), zero))
        }
    }
    #[inline(always)]
    fn root(x: f32) -> f32 {
        x.sqrt()
    }
}

/// `f64`: arrays, of which the compiler makes vectors of the width it has.
#[derive(Clone, Copy)]
pub(super) struct Double<S>(PhantomData<S>);

const DOUBLES: usize = 8;

impl<S: Simd> Vector for Double<S> {
    type T = f64;
    type V = [f64; DOUBLES];
    const N: usize = DOUBLES;

    #[inline(always)]
    unsafe fn splat(x: f64) -> [f64; DOUBLES] {
        [x; DOUBLES]
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> [f64; DOUBLES] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f64; DOUBLES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> [f64; DOUBLES] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store(p: *mut f64, v: [f64; DOUBLES]) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f64; DOUBLES]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: [f64; DOUBLES], b: [f64; DOUBLES]) -> [f64; DOUBLES] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f64; DOUBLES], b: [f64; DOUBLES]) -> [f64; DOUBLES] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn abs(a: [f64; DOUBLES]) -> [f64; DOUBLES] {
        std::array::from_fn(|i| a[i].abs())
    }
    #[inline(always)]
    unsafe fn fma(a: [f64; DOUBLES], b: [f64; DOUBLES], c: [f64; DOUBLES]) -> [f64; DOUBLES] {
        // Without the instruction a fused operation would be a call.
        if S::LANES > Base::LANES {
            std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
        } else {
            std::array::from_fn(|i| a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    unsafe fn larger(a: [f64; DOUBLES], b: [f64; DOUBLES]) -> [f64; DOUBLES] {
        std::array::from_fn(|i| if a[i] > b[i] || a[i].is_nan() { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn signed(w: [f64; DOUBLES], d: [f64; DOUBLES]) -> [f64; DOUBLES] {
        std::array::from_fn(|i| {
            let below = if d[i] < 0.0 { -w[i] } else { 0.0 };
            if d[i] > 0.0 { w[i] } else { below }
        })
    }
    #[inline(always)]
    fn root(x: f64) -> f64 {
        x.sqrt()
    }
}
