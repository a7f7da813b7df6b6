//! Roots of doubles.

/// sqrt(x² + y²) without overflow, at most 2 ULP, without branches; infinite if either is, even beside NaN.
///
/// ```
/// assert_eq!(gradus_math::f64::hypot(3e300, 4e300), 5e300);
/// ```
#[inline(always)]
pub fn hypot(x: f64, y: f64) -> f64 {
    const UP: f64 = 4.149_515_568_880_993e180; // 2^600
    const DOWN: f64 = 2.409_919_865_102_884e-181;
    let (a, b) = (x.abs(), y.abs());
    let most = if a > b { a } else { b };
    let by = if most < 1e-140 { UP } else { 1.0 };
    let by = if most > 1e140 { DOWN } else { by };
    let back = if most < 1e-140 { DOWN } else { 1.0 };
    let back = if most > 1e140 { UP } else { back };
    let (p, q) = (a * by, b * by);
    let r = p.mul_add(p, q * q).sqrt() * back;
    if (a == f64::INFINITY) | (b == f64::INFINITY) { f64::INFINITY } else { r }
}
