//! The exponential of a double, without branches: the compiler makes vectors of loops over it.

use core::f64::consts::LOG2_E;

/// Added, it rounds to a whole number, which the lowest bits then are.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts; the first has 32 bits, so that its product with a whole number is exact.
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
/// `1 / i!` for i from 13 down to 2: on |r| <= ln 2 / 2 what is left out is below 2^-57.
const TERMS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// e^x, at most 1 ULP; the power of two is applied in two steps, so that subnormal results are rounded once.
///
/// ```
/// use gradus_math::f64::exp;
/// assert_eq!(exp(0.0), 1.0);
/// assert!((exp(1.0) - std::f64::consts::E).abs() < 1e-15);
/// assert_eq!(exp(f64::NEG_INFINITY), 0.0);
/// assert_eq!(exp(1e3), f64::INFINITY);
/// assert!(exp(f64::NAN).is_nan());
/// ```
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };
    let k = x.mul_add(LOG2_E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    let mut q = TERMS[0];
    for term in &TERMS[1..] {
        q = q.mul_add(r, *term);
    }
    let p = (r * r).mul_add(q, r) + 1.0;
    let n = k.to_bits().wrapping_sub(MAGIC.to_bits()) as i64;
    let half = n >> 1;
    let power = |n: i64| f64::from_bits((n.wrapping_add(1023) as u64) << 52);
    p * power(half) * power(n.wrapping_sub(half))
}
