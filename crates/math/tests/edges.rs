//! Values at the edges: poles, infinities, NaN, signed zeros, and the helpers on representations.

use gradus_math::f32 as m;
use gradus_math::f64 as d;

const INF: f64 = f64::INFINITY;

/// Same number, sign of zero included, or both NaN.
#[track_caller]
fn same(got: f64, want: f64) {
    assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{got:e}, want {want:e}");
}

/// As `same`, for results of the single-precision functions.
#[track_caller]
fn same32(got: f32, want: f32) {
    same(got as f64, want as f64);
}

#[test]
fn single_precision() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    same32(m::exp(-inf), 0.0);
    same32(m::exp(inf), inf);
    same32(m::exp(88.8), inf);
    same32(m::exp(nan), nan);
    same32(m::exp2(128.0), inf);
    same32(m::exp2(-149.0), f32::from_bits(1));
    same32(m::expm1(-inf), -1.0);
    same32(m::expm1(-0.0), -0.0);
    same32(m::expm1(f32::from_bits(3)), f32::from_bits(3));
    same32(m::ln(0.0), -inf);
    same32(m::ln(-0.0), -inf);
    same32(m::ln(-1.0), nan);
    same32(m::ln(inf), inf);
    same32(m::ln(-inf), nan);
    same32(m::log1p(-1.0), -inf);
    same32(m::log1p(-1.5), nan);
    same32(m::log1p(-0.0), -0.0);
    same32(m::sin(inf), nan);
    same32(m::cos(-inf), nan);
    same32(m::tan(nan), nan);
    same32(m::sin(-0.0), -0.0);
    same32(m::sigmoid(-inf), 0.0);
    same32(m::sigmoid(nan), nan);
    same32(m::softplus(-inf), 0.0);
    same32(m::tanh(-inf), -1.0);
    same32(m::tanh(-0.0), -0.0);
    same32(m::rsqrt(0.0), inf);
    same32(m::rsqrt(inf), 0.0);
    same32(m::recip(-0.0), -inf);
    same32(m::erf(-inf), -1.0);
    same32(m::erf(nan), nan);
    same32(m::erfc(-inf), 2.0);
    same32(m::erfc(inf), 0.0);
    same32(m::hypot(nan, -inf), inf);
    same32(m::atan2(-0.0, -0.0), -core::f32::consts::PI);
    same32(m::atan2(-inf, inf), -core::f32::consts::FRAC_PI_4);
    same32(m::pow(-0.0, -3.0), -inf);
    same32(m::pow(-inf, 3.0), -inf);
    same32(m::pow(-inf, 0.5), inf);
    same32(m::pow(-1.0, inf), 1.0);
    same32(m::pow(1.0, nan), 1.0);
    same32(m::pow(0.5, -inf), inf);
}

#[test]
fn error_and_normal_functions() {
    same(d::erfinv(1.0), INF);
    same(d::erfinv(-1.0), -INF);
    same(d::erfinv(1.1), f64::NAN);
    same(d::erfinv(-0.0), -0.0);
    same(d::erfcx(INF), 0.0);
    same(d::erfcx(-30.0), INF);
    same(d::erfcx(f64::NAN), f64::NAN);
    same(d::ndtr(-INF), 0.0);
    same(d::ndtr(INF), 1.0);
    same(d::log_ndtr(-INF), -INF);
    same(d::log_ndtr(INF), -0.0);
    same(d::ndtri(0.0), -INF);
    same(d::ndtri(1.0), INF);
    same(d::ndtri(0.5), 0.0);
    same(d::ndtri(-0.1), f64::NAN);
}

#[test]
fn gamma_family() {
    same(d::lgamma(0.0), INF);
    same(d::lgamma(-2.0), INF);
    same(d::lgamma(INF), INF);
    same(d::lgamma(-INF), INF);
    same(d::digamma(0.0), -INF);
    same(d::digamma(-0.0), INF);
    same(d::digamma(-3.0), f64::NAN);
    same(d::digamma(INF), INF);
    same(d::digamma(-INF), f64::NAN);
    same(d::digamma(f64::NAN), f64::NAN);
    same(d::trigamma(0.0), INF);
    same(d::trigamma(-3.0), INF);
    same(d::trigamma(INF), 0.0);
    same(d::polygamma(3, 0.0), INF);
    same(d::polygamma(2, f64::NAN), f64::NAN);
    same(d::polygamma(2, INF), -0.0);
    same(d::polygamma(3, INF), 0.0);
    same(d::riemann_zeta(1.0), INF);
    same(d::riemann_zeta(0.5), f64::NAN);
    same(d::riemann_zeta(INF), 1.0);
    same(d::zeta(2.0, -1.0), INF);
    same(d::zeta(2.5, -0.5), f64::NAN);
    same(d::igamma(0.0, 1.0), 1.0);
    same(d::igamma(2.0, 0.0), 0.0);
    same(d::igamma(2.0, INF), 1.0);
    same(d::igamma(-1.0, 1.0), f64::NAN);
    same(d::igammac(2.0, 0.0), 1.0);
    same(d::igammac(2.0, INF), 0.0);
    same(d::igamma(1e15, 2e15), 1.0);
    same(d::igammac(1e15, 5e14), 1.0);
    assert!((d::igamma(1e15, 1e15) - 0.5).abs() < 1e-8);
    same(d::mvlgamma(0.5, 2), INF);
}

#[test]
fn bessel() {
    same(d::i0(INF), INF);
    same(d::i0e(INF), 0.0);
    same(d::i1(-INF), -INF);
    same(d::i1e(-0.0), -0.0);
    same(d::i0(f64::NAN), f64::NAN);
    same(d::i1e(f64::NAN), f64::NAN);
    same(d::i0(800.0), INF);
    same(d::bessel_y0(-1.0), f64::NAN);
}

#[test]
fn compositions() {
    same(d::sinc(INF), 0.0);
    same(d::entr(-1.0), -INF);
    same(d::entr(f64::NAN), f64::NAN);
    same(d::xlogy(0.0, f64::NAN), f64::NAN);
    same(d::xlogy(0.0, -1.0), 0.0);
    same(d::xlog1py(0.0, -2.0), 0.0);
    same(d::logaddexp(-INF, -INF), -INF);
    same(d::logaddexp(INF, -INF), INF);
    same(d::logaddexp(INF, INF), INF);
    same(d::logaddexp(f64::NAN, 1.0), f64::NAN);
    same(d::logaddexp2(-INF, 3.0), 3.0);
    same(d::heaviside(-0.0, 0.25), 0.25);
    same(d::heaviside(f64::NAN, 0.25), f64::NAN);
    same(d::softplus(-INF), 0.0);
    same(d::sigmoid(-800.0), 0.0);
}

#[test]
fn representation() {
    assert_eq!(d::frexp(-0.1), (-0.8, -3));
    assert_eq!(d::frexp(f64::from_bits(1)), (0.5, -1073));
    assert_eq!(d::frexp(INF), (INF, 0));
    same(d::ldexp(1.0, 2000), INF);
    same(d::ldexp(f64::from_bits(1), 1074), 1.0);
    same(d::nextafter(0.0, -1.0), -f64::from_bits(1));
    same(d::nextafter(f64::MAX, INF), INF);
    same(d::nextafter(0.0, -0.0), -0.0);
    assert_eq!(d::nextafter32(1.0, 0.0), 1.0 - f32::EPSILON / 2.0);
    assert!(d::nextafter32(f32::NAN, 0.0).is_nan());
}

#[test]
fn remainders() {
    same(d::remainder(7.0, -3.0), -2.0);
    same(d::remainder(-6.0, 3.0), 0.0);
    same(d::remainder(1.0, INF), 1.0);
    same(d::remainder(-1.0, INF), INF);
    same(d::remainder(1.0, 0.0), f64::NAN);
    same(d::fmod(-6.0, 3.0), -0.0);
    same(d::round_half_even(-0.5), -0.0);
    same(d::round_half_even(3.5), 4.0);
    assert_eq!(d::gcd(0, 0), 0);
    assert_eq!(d::gcd(i64::MIN, 6), 2);
    assert_eq!(d::lcm(0, 5), 0);
    assert_eq!(d::lcm(21, 6), 42);
}

#[test]
fn near_remainders_and_short_quotients_are_exact() {
    use gradus_math::f32 as m;
    let bits = |i: u32| f32::from_bits(i.wrapping_mul(2_654_435_761));
    let mut near = 0;
    for i in 0..2_000_000u32 {
        let (a, b) = (bits(i), bits(i.wrapping_mul(40_503).wrapping_add(7)));
        // Numbers of all sizes, and such as are close to a multiple.
        for (a, b) in [(a, b), (a, a / 3.0), (a, (a / 1000.0).next_up()), (b * 17.0, b), ((b * 17.0).next_down(), b)] {
            if m::is_near(a, b) {
                near += 1;
                assert_eq!(m::fmod_near(a, b).to_bits(), (a % b).to_bits(), "{a} % {b}");
            }
        }
        let (a, b) = (i.wrapping_mul(2_654_435_761) as i32 as i64, (i.wrapping_mul(40_503) >> (i % 32)) as i32 as i64);
        for (a, b) in [(a, b), (b, a), (i32::MIN as i64, b), (a, -1)] {
            if m::is_short(a, b) {
                assert_eq!(m::quotient(a, b), a / b, "{a} / {b}");
            }
        }
    }
    assert!(near > 1_000_000, "{near}");
    for (a, b) in [(1.0, 0.0), (f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, 2.0), (1.0, f32::INFINITY)] {
        assert!(!m::is_near(a, b), "{a} {b}");
    }
    assert!(!m::is_short(1, 0) && !m::is_short(1 << 31, 1) && !m::is_short(1, -(1 << 31) - 1));
}

#[test]
fn sums_of_exponentials() {
    for i in -400..400 {
        for j in [-90.0f32, -3.5, -1e-3, 0.0, 0.25, 7.0, 1e4] {
            let a = i as f32 * 0.317;
            let want = gradus_math::f64::logaddexp(a as f64, j as f64);
            let got = gradus_math::f32::logaddexp(a, j) as f64;
            assert!((got - want).abs() <= 1e-7 * want.abs().max(1e-30), "{a} {j}: {got} {want}");
        }
    }
}
