//! The gamma functions and what belongs to them, and modified Bessel functions.

use super::{Ewise, Kind::*, Vjp};
use crate::Tensor;
use crate::op::block::{plain1, plain2};
use gradus_math::block::{f32 as loops, f64 as doubles};
use gradus_math::f64 as special;

pub(super) static ROWS: &[&Ewise] =
    &[&LGAMMA, &DIGAMMA, &TRIGAMMA, &POLYGAMMA, &ZETA, &I0, &I0E, &I1, &I1E, &IGAMMA, &IGAMMAC];

/// The derivative of the incomplete gamma functions in `x`: `x^(a-1) e^-x / gamma(a)`.
fn igamma_density(a: &Tensor, x: &Tensor) -> Tensor {
    ((a - 1.0) * x.log() - x - a.lgamma()).exp()
}

/// Log of the absolute gamma function
pub static LGAMMA: Ewise = Ewise {
    name: "lgamma",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::LGAMMA),
    f64: Some(doubles::LGAMMA),
    i64: None,
    bool: None,
    c: "lgamma({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].digamma()]),
};

/// Logarithmic derivative of the gamma function
pub static DIGAMMA: Ewise = Ewise {
    name: "digamma",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::DIGAMMA),
    f64: Some(doubles::DIGAMMA),
    i64: None,
    bool: None,
    c: "g_digamma({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].polygamma(1)]),
};

/// Derivative of digamma
pub static TRIGAMMA: Ewise = Ewise {
    name: "trigamma",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::TRIGAMMA),
    f64: Some(doubles::TRIGAMMA),
    i64: None,
    bool: None,
    c: "g_trigamma({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].polygamma(2)]),
};

/// The `a`-th derivative of digamma at `b`
pub static POLYGAMMA: Ewise = Ewise {
    name: "polygamma",
    arity: 2,
    kind: Float,
    domain: (1.0, 4.0),
    f32: Some(plain2(|n: f32, x: f32| special::polygamma(n as u32, x as f64) as f32)),
    f64: Some(plain2(|n: f64, x: f64| special::polygamma(n as u32, x))),
    i64: None,
    bool: None,
    c: "g_polygamma({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, _| g.zeros_like(), |g, _, x| g * (&x[0] + 1.0).raw_polygamma(&x[1])]),
};

/// Hurwitz zeta function
pub static ZETA: Ewise = Ewise {
    name: "zeta",
    arity: 2,
    kind: Float,
    domain: (1.5, 4.0),
    f32: Some(plain2(|a: f32, b: f32| special::zeta(a as f64, b as f64) as f32)),
    f64: Some(plain2(special::zeta)),
    i64: None,
    bool: None,
    c: "g_zeta({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Missing,
};

/// Modified Bessel function of order 0
pub static I0: Ewise = Ewise {
    name: "i0",
    arity: 1,
    kind: Float,
    domain: (-3.0, 3.0),
    f32: Some(loops::I0),
    f64: Some(plain1(special::i0)),
    i64: None,
    bool: None,
    c: "cyl_bessel_i0({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].i1()]),
};

/// `e^-|a| i0(a)`
pub static I0E: Ewise = Ewise {
    name: "i0e",
    arity: 1,
    kind: Float,
    domain: (0.5, 3.0),
    f32: Some(loops::I0E),
    f64: Some(plain1(special::i0e)),
    i64: None,
    bool: None,
    c: "g_i0e({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (x[0].i1e() - x[0].sign() * y)]),
};

/// Modified Bessel function of order 1
pub static I1: Ewise = Ewise {
    name: "i1",
    arity: 1,
    kind: Float,
    domain: (0.5, 3.0),
    f32: Some(loops::I1),
    f64: Some(plain1(special::i1)),
    i64: None,
    bool: None,
    c: "cyl_bessel_i1({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (x[0].i0() - y / &x[0])]),
};

/// `e^-|a| i1(a)`
pub static I1E: Ewise = Ewise {
    name: "i1e",
    arity: 1,
    kind: Float,
    domain: (0.5, 3.0),
    f32: Some(loops::I1E),
    f64: Some(plain1(special::i1e)),
    i64: None,
    bool: None,
    c: "g_i1e({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (x[0].i0e() - y * (x[0].sign() + x[0].reciprocal()))]),
};

/// Regularised lower incomplete gamma function
pub static IGAMMA: Ewise = Ewise {
    name: "igamma",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::IGAMMA),
    f64: Some(plain2(special::igamma)),
    i64: None,
    bool: None,
    c: "g_igamma({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Partial(&[None, Some(|g, _, x| g * igamma_density(&x[0], &x[1]))]),
};

/// Regularised upper incomplete gamma function
pub static IGAMMAC: Ewise = Ewise {
    name: "igammac",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::IGAMMAC),
    f64: Some(plain2(special::igammac)),
    i64: None,
    bool: None,
    c: "g_igammac({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Partial(&[None, Some(|g, _, x| -(g * igamma_density(&x[0], &x[1])))]),
};
