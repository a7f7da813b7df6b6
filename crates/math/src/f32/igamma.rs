//! Regularised incomplete gamma functions of floats, a few at a time.

use crate::f64 as d;

/// Numbers that are computed together: two vectors of doubles.
pub(crate) const TOGETHER: usize = 16;

/// Up to where both arguments are moderate: there no term of the series overflows, and it has at most about a hundred.
const MODERATE: f64 = 40.0;

/// Terms between two looks whether any number needs more.
const STEP: usize = 4;

/// P(a, x) for moderate positive arguments, to about 1e-13 of one: the power series, as one fraction.
///
/// With B_k = (a+1)(a+2)…(a+k), the sum of x^k / B_k up to k is A_k / B_k where A_k = A_(k-1) (a+k) + x^k: a division
/// in all. Every number stops when its own terms no longer matter, so its bits do not depend on its neighbours'.
#[inline(always)]
fn lower<const N: usize>(a: &[f64; N], x: &[f64; N]) -> [f64; N] {
    let (mut top, mut bottom, mut power, mut next) = ([1.0; N], [1.0; N], [1.0; N], *a);
    // A sum has at most about a hundred terms; NaN would never end it.
    for _ in 0..64 {
        let mut unfinished = 0u64;
        for i in 0..N {
            for _ in 0..STEP {
                let more = power[i] > top[i] * 1e-17;
                let k = next[i] + 1.0;
                let p = power[i] * x[i];
                let t = top[i].mul_add(k, p);
                let b = bottom[i] * k;
                power[i] = if more { p } else { power[i] };
                top[i] = if more { t } else { top[i] };
                bottom[i] = if more { b } else { bottom[i] };
                next[i] = k;
            }
            unfinished |= u64::from(power[i] > top[i] * 1e-17);
        }
        if unfinished == 0 {
            break;
        }
    }
    let mut out = [0.0; N];
    for i in 0..N {
        let l = a[i].mul_add(d::ln(x[i]), -x[i]) - d::lgamma_positive(a[i] + 1.0);
        out[i] = d::exp(l) * (top[i] / bottom[i]);
    }
    out
}

/// Both arguments as doubles, one where the series does not serve; and which those are.
#[inline(always)]
fn moderate<const N: usize>(a: &[f32; N], x: &[f32; N]) -> ([f64; N], [f64; N], [bool; N]) {
    let (mut wide_a, mut wide_x, mut fits) = ([1.0; N], [1.0; N], [false; N]);
    for i in 0..N {
        let (p, q) = (a[i] as f64, x[i] as f64);
        fits[i] = (p > 0.0) & (p <= MODERATE) & (q > 0.0) & (q <= MODERATE);
        wide_a[i] = if fits[i] { p } else { 1.0 };
        wide_x[i] = if fits[i] { q } else { 1.0 };
    }
    (wide_a, wide_x, fits)
}

/// P of a few pairs.
#[inline(always)]
pub(crate) fn igamma_of<const N: usize>(a: &[f32; N], x: &[f32; N]) -> [f32; N] {
    let (wide_a, wide_x, fits) = moderate(a, x);
    let p = lower(&wide_a, &wide_x);
    let mut out = [0.0; N];
    let mut all = true;
    for i in 0..N {
        out[i] = p[i] as f32;
        all &= fits[i];
    }
    if !all {
        for i in 0..N {
            if !fits[i] {
                out[i] = d::igamma(a[i] as f64, x[i] as f64) as f32;
            }
        }
    }
    out
}

/// Q of a few pairs. Where little is left of one, the difference has too few digits.
#[inline(always)]
pub(crate) fn igammac_of<const N: usize>(a: &[f32; N], x: &[f32; N]) -> [f32; N] {
    let (wide_a, wide_x, fits) = moderate(a, x);
    let p = lower(&wide_a, &wide_x);
    let mut out = [0.0; N];
    let mut good = [false; N];
    let mut all = true;
    for i in 0..N {
        let q = 1.0 - p[i];
        out[i] = q as f32;
        good[i] = fits[i] & (q > 1e-4);
        all &= good[i];
    }
    if !all {
        for i in 0..N {
            if !good[i] {
                out[i] = d::igammac(a[i] as f64, x[i] as f64) as f32;
            }
        }
    }
    out
}

/// Regularised lower incomplete gamma function P(a, x): as [`d::igamma`], at most 0.501 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::igamma(2.0, 3.0), gradus_math::f64::igamma(2.0, 3.0) as f32);
/// ```
pub fn igamma(a: f32, x: f32) -> f32 {
    igamma_of(&[a], &[x])[0]
}

/// Regularised upper incomplete gamma function Q(a, x): as [`d::igammac`], at most 0.501 ULP.
///
/// ```
/// assert_eq!(gradus_math::f32::igammac(2.0, 3.0), gradus_math::f64::igammac(2.0, 3.0) as f32);
/// ```
pub fn igammac(a: f32, x: f32) -> f32 {
    igammac_of(&[a], &[x])[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As far from one another as numbers of 24 bits round, and a little.
    fn close(got: f32, want: f64) -> bool {
        let near = want as f32;
        got == near || ((got as f64 - want) / want).abs() < 0.501 * f32::EPSILON as f64 || got.is_nan() && want.is_nan()
    }

    #[test]
    fn the_series_is_as_good_as_doubles() {
        let grid: Vec<f32> = (0..400).map(|i| 1e-6 * 1.06f32.powi(i)).filter(|x| *x < 300.0).collect();
        for &a in &grid {
            for &x in &grid {
                let (p, q) = (d::igamma(a as f64, x as f64), d::igammac(a as f64, x as f64));
                assert!(close(igamma(a, x), p), "P({a}, {x}) is {}, not {p}", igamma(a, x));
                assert!(close(igammac(a, x), q), "Q({a}, {x}) is {}, not {q}", igammac(a, x));
            }
        }
    }

    #[test]
    fn neighbours_do_not_matter() {
        let numbers =
            [0.0f32, 1e-30, 0.1, 0.9, 1.0, 3.0, 39.0, 41.0, 1e4, 2e6, f32::INFINITY, f32::NAN, -1.0, 7.5, 20.0, 2.0];
        for shift in 0..TOGETHER {
            let other: [f32; TOGETHER] = std::array::from_fn(|i| numbers[(i + shift) % TOGETHER]);
            let (p, q) = (igamma_of(&numbers, &other), igammac_of(&numbers, &other));
            for i in 0..TOGETHER {
                let (a, x) = (numbers[i], other[i]);
                assert_eq!(
                    (p[i].to_bits(), q[i].to_bits()),
                    (igamma(a, x).to_bits(), igammac(a, x).to_bits()),
                    "{a} {x}"
                );
                assert!(
                    close(p[i], d::igamma(a as f64, x as f64)) && close(q[i], d::igammac(a as f64, x as f64)),
                    "{a} {x}"
                );
            }
        }
    }
}
