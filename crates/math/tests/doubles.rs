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
