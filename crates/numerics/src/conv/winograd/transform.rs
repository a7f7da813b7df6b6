//! The linear maps of Winograd's convolution F(4 x 4, 3 x 3), on vectors of tiles.
//!
//! A 1-d convolution of 3 weights to 4 outputs is a product of polynomials, taken at six points:
//! `y = At [(G g) * (Bt d)]`. With the usual points 0, 1, -1, 2, -2 and infinity the error is about
//! four times a direct sum's (standard deviation; seven at the worst elements). With 0, `a`, `-a`,
//! `b`, `-b` and infinity for `a^2 = 1/2` and `b^2 = 2` it is less than twice a direct sum's, and
//! most factors are powers of two.

use crate::simd::Simd;
use std::f32::consts::{FRAC_1_SQRT_2 as A, SQRT_2 as B};

/// `Bt d`: six inputs to six points.
#[inline(always)]
pub(super) unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6] {
    // SAFETY: arithmetic, with instructions the caller has.
    unsafe {
        let (half, two, sum) = (S::splat(0.5), S::splat(2.0), S::splat(2.5));
        let (a, b) = (S::splat(A), S::splat(B));
        // For the point p: d4 - q^2 d2 + p (d3 - q^2 d1), q the other pair.
        let (ae, ao) = (S::fnma(two, d[2], d[4]), S::fnma(two, d[1], d[3]));
        let (be, bo) = (S::fnma(half, d[2], d[4]), S::fnma(half, d[1], d[3]));
        [
            S::fnma(sum, d[2], S::add(d[0], d[4])),
            S::fma(a, ao, ae),
            S::fnma(a, ao, ae),
            S::fma(b, bo, be),
            S::fnma(b, bo, be),
            S::fnma(sum, d[3], S::add(d[1], d[5])),
        ]
    }
}

/// `At m`: six points to four outputs.
#[inline(always)]
pub(super) unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4] {
    // SAFETY: as above.
    unsafe {
        let (sa, da) = (S::add(m[1], m[2]), S::sub(m[1], m[2]));
        let (sb, db) = (S::add(m[3], m[4]), S::sub(m[3], m[4]));
        [
            S::add(m[0], S::add(sa, sb)),
            S::fma(S::splat(A), da, S::mul(S::splat(B), db)),
            S::fma(S::splat(0.5), sa, S::mul(S::splat(2.0), sb)),
            S::fma(S::splat(0.5 * A), da, S::fma(S::splat(2.0 * B), db, m[5])),
        ]
    }
}

/// `G g`: three weights to six points.
#[inline(always)]
pub(super) unsafe fn weight<S: Simd>(g: [S::V; 3]) -> [S::V; 6] {
    // SAFETY: as above.
    unsafe {
        // (g0 + p g1 + p^2 g2) / N, with N = 1 at 0, -3/2 at a and -a, 6 at b and -b.
        let (na, nb) = (S::splat(-2.0 / 3.0), S::splat(1.0 / 6.0));
        let ea = S::mul(na, S::fma(S::splat(0.5), g[2], g[0]));
        let eb = S::mul(nb, S::fma(S::splat(2.0), g[2], g[0]));
        let (a, b) = (S::splat(-2.0 / 3.0 * A), S::splat(B / 6.0));
        [g[0], S::fma(a, g[1], ea), S::fnma(a, g[1], ea), S::fma(b, g[1], eb), S::fnma(b, g[1], eb), g[2]]
    }
}

/// `At` transposed: four output gradients to six points.
#[inline(always)]
pub(super) unsafe fn output_grad<S: Simd>(y: [S::V; 4]) -> [S::V; 6] {
    // SAFETY: as above.
    unsafe {
        let (ea, eb) = (S::fma(S::splat(0.5), y[2], y[0]), S::fma(S::splat(2.0), y[2], y[0]));
        let (oa, ob) = (S::fma(S::splat(0.5), y[3], y[1]), S::fma(S::splat(2.0), y[3], y[1]));
        let (a, b) = (S::splat(A), S::splat(B));
        [y[0], S::fma(a, oa, ea), S::fnma(a, oa, ea), S::fma(b, ob, eb), S::fnma(b, ob, eb), y[3]]
    }
}

/// `G` transposed: six points to three weight gradients.
#[inline(always)]
pub(super) unsafe fn weight_grad<S: Simd>(s: [S::V; 6]) -> [S::V; 3] {
    // SAFETY: as above.
    unsafe {
        let (sa, da) = (S::add(s[1], s[2]), S::sub(s[1], s[2]));
        let (sb, db) = (S::add(s[3], s[4]), S::sub(s[3], s[4]));
        let third = |x: f32| S::splat(x / 3.0);
        [
            S::fma(third(-2.0), sa, S::fma(third(0.5), sb, s[0])),
            S::fma(third(-2.0 * A), da, S::mul(third(0.5 * B), db)),
            S::fma(third(-1.0), sa, S::fma(third(1.0), sb, s[5])),
        ]
    }
}
