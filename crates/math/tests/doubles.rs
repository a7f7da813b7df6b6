//! The double-precision functions without branches, against the standard library's and `libm`'s.
//! Run with `--nocapture` to see the largest error of each.

use gradus_math::f64 as m;

/// Doubles of all magnitudes, and many ordinary ones.
fn inputs() -> impl Iterator<Item = f64> {
    let spread = (0..=u32::MAX).step_by(20_011).map(|b| f64::from_bits((b as u64) << 32 | b.rotate_left(7) as u64));
    let fine = (-300_000..300_000).map(|i| i as f64 * 1.000_3e-4);
    let special = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 5e-324, 0.8, 0.85];
    spread.chain(fine).chain(special)
}

fn check(name: &str, f: impl Fn(f64) -> f64, g: impl Fn(f64) -> f64, bound: f64) {
    let (mut worst, mut at) = (0.0, 0.0);
    for x in inputs() {
        let (got, want) = (f(x), g(x));
        let exact = !want.is_finite() || want == 0.0;
        if exact {
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            // The largest number may round to infinity.
            assert!(same || (want.is_infinite() && got.abs() == f64::MAX), "{name}({x:e}): {got:e}, not {want:e}");
            continue;
        }
        let ulp = want.abs().next_up() - want.abs();
        let e = (got - want).abs() / ulp;
        if e > worst || e.is_nan() {
            (worst, at) = (e, x);
        }
        assert!(!e.is_nan(), "{name}({x:e}): {got:e}, not {want:e}");
    }
    println!("{name:10} {worst:.2} ULP at {at:e} (stated {bound})");
    assert!(worst <= bound, "{name}: {worst} ULP at {at:e}, stated {bound}");
}

#[test]
fn branchless_functions_of_the_library() {
    check("exp2", m::exp2, f64::exp2, 1.0);
    check("log2", m::log2, f64::log2, 1.0);
    check("log10", m::log10, f64::log10, 2.0);
    check("sinh", m::sinh, f64::sinh, 3.0);
    check("cosh", m::cosh, f64::cosh, 3.0);
    check("asinh", m::asinh, libm::asinh, 4.0);
    check("acosh", |x| m::acosh(x.abs() + 1.0), |x| libm::acosh(x.abs() + 1.0), 4.0);
    check("atanh", m::atanh, libm::atanh, 4.0);
    check("asin", m::asin, f64::asin, 2.0);
    check("acos", m::acos, f64::acos, 2.0);
    check("atan", m::atan, f64::atan, 2.0);
    let near = |x: f64| if m::is_small_angle(x) { x } else { 0.5 };
    check("tan", |x| m::tan_near(near(x)), |x| near(x).tan(), 2.0);
    for y in [0.0, -0.0, 1.0, -3.5, 1e-300, f64::INFINITY, f64::NEG_INFINITY, 7e307, f64::NAN] {
        let normal = |f: fn(f64, f64) -> f64| move |x: f64| Some(f(x, y)).filter(|z| !z.is_subnormal()).unwrap_or(0.0);
        check("atan2", normal(m::atan2), normal(f64::atan2), 2.0);
        check("atan2", |x| normal(|x, y| m::atan2(y, x))(x), |x| normal(|x, y| f64::atan2(y, x))(x), 2.0);
        // The C library makes a NaN of an infinity beside a signalling one.
        let quiet = |x: f64| if x.is_nan() { f64::NAN } else { x };
        check("hypot", |x| normal(m::hypot)(quiet(x)), |x| normal(f64::hypot)(quiet(x)), 2.0);
    }
}

#[test]
fn powers() {
    let exponents =
        [0.5, -0.5, 1.7, 2.0, 3.0, -3.0, 0.1, 17.3, -211.7, 1e-9, 1.0, -1.0, 1e15, 9.007e15, -4.5e15, 1e300];
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for y in exponents.into_iter().chain(special) {
        // The C library makes a NaN of a signalling one to the power of zero.
        let quiet = |x: f64| if x.is_nan() { f64::NAN } else { x };
        let normal =
            |f: fn(f64, f64) -> f64| move |x: f64| Some(f(quiet(x), y)).filter(|z| !z.is_subnormal()).unwrap_or(0.0);
        check("pow", normal(m::pow), normal(f64::powf), 1.0);
        // Near one the exponent alone decides.
        check("pow", |x| normal(m::pow)(1.0 + x * 1e-12), |x| normal(f64::powf)(1.0 + x * 1e-12), 1.0);
        check("pow", normal(|y, x| m::pow(x.abs(), y)), normal(|y, x| f64::powf(x.abs(), y)), 1.0);
    }
    for x in inputs().filter(|x| x.abs() < 1e150) {
        assert_eq!(m::pow(x, 1.0).to_bits(), x.to_bits(), "{x:e}");
    }
    for (x, n) in (1..2000).flat_map(|x| (0..5).map(move |n| (x, n))) {
        assert_eq!(m::pow(x as f64, n as f64), (x as u64).pow(n) as f64, "{x}^{n}");
    }
}

#[test]
fn remainders_are_exact() {
    let mut near = 0;
    for (x, y) in inputs().zip(inputs().skip(7)) {
        for (a, b) in [(x, y), (y, x), (x, 0.1), (x, -3.0), (1e3 * y, y * 0.999_999), (y * 5.0, y)] {
            if m::is_near(a, b) {
                near += 1;
                assert_eq!(m::fmod_near(a, b).to_bits(), (a % b).to_bits(), "{a:e} % {b:e}");
            }
        }
    }
    assert!(near > 1_000_000);
}

#[test]
fn gamma_functions() {
    let of = |f: fn(f64) -> f64| move |x: f64| if (0.0..1e300).contains(&x) { f(x) } else { 1.0 };
    check("lgamma", of(m::lgamma), of(libm::lgamma), 5.0);
    check("erfc", m::erfc, |x| Some(libm::erfc(x)).filter(|y| !y.is_subnormal()).unwrap_or(m::erfc(x)), 8.0);
    // Below zero the function crosses zero between its poles: there the error is that of the terms.
    for i in 1..60_000 {
        let x = -i as f64 * 1.003e-3;
        let (a, b) = (m::lgamma(x), libm::lgamma(x));
        assert!((a - b).abs() <= 2e-14 * b.abs().max(1.0), "lgamma({x}): {a:e}, not {b:e}");
    }
    // The shorter form is the same function.
    for x in inputs().filter(|&x| x > 0.0) {
        assert_eq!(m::lgamma(x).to_bits(), m::lgamma_positive(x).to_bits(), "{x:e}");
        assert_eq!(m::digamma(x).to_bits(), m::digamma_positive(x).to_bits(), "{x:e}");
    }
}

/// The quantile takes the distribution function back.
#[test]
fn quantiles() {
    for i in 1..100_000 {
        let y = i as f64 / 100_000.0;
        for y in [y, 1.0 - y * 1e-6, y * 1e-9] {
            let x = m::erfinv(y);
            // What a change of x in its last place changes.
            let slope = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp();
            let e = (m::erf(x) - y).abs() / (slope * x * f64::EPSILON + y * f64::EPSILON);
            assert!(e < 4.0, "erfinv({y:e}) = {x:e}: {e}");
            assert_eq!(m::erfinv(-y).to_bits(), (-x).to_bits());
        }
    }
    for e in 1..308 {
        let p = 10f64.powi(-e);
        let (x, l) = (m::ndtri(p), p.ln());
        assert!((m::log_ndtr(x) - l).abs() < 4e-15 * x * x, "ndtri({p:e}) = {x}");
    }
}

#[test]
fn branchless_doubles() {
    check("exp", m::exp, f64::exp, 1.0);
    check("expm1", m::expm1, f64::exp_m1, 2.0);
    check("tanh", m::tanh, f64::tanh, 3.0);
    check("ln", m::ln, f64::ln, 1.0);
    check("log1p", m::log1p, f64::ln_1p, 2.0);
    check("erf", m::erf, libm::erf, 2.0);
    let near = |x: f64| if m::is_small_angle(x) { x } else { 0.5 };
    check("sin", |x| m::sin_near(near(x)), |x| near(x).sin(), 1.0);
    check("cos", |x| m::cos_near(near(x)), |x| near(x).cos(), 1.0);
    check("sigmoid", m::sigmoid, |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }, 3.0);
}
