//! Special functions.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::plain1;
use gradus_math::block::{f32 as loops, f64 as doubles};
use gradus_math::f64 as special;

pub(super) static ROWS: &[&Ewise] = &[
    &ERF,
    &ERFC,
    &ERFINV,
    &ERFCX,
    &LOG_NDTR,
    &NDTRI,
    &SINC,
    &ENTR,
    &LOGADDEXP,
    &LOGADDEXP2,
    &XLOGY,
    &XLOG1PY,
    &NEXTAFTER,
    &FREXP_MANTISSA,
    &FREXP_EXPONENT,
];

/// Error function
pub static ERF: Ewise = Ewise {
    name: "erf",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::ERF),
    f64: Some(doubles::ERF),
    i64: None,
    bool: None,
    c: "erf({0})",
    c_int: "",
    wgsl: "g_erf({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (-(&x[0] * &x[0])).exp() * std::f64::consts::FRAC_2_SQRT_PI]),
};

/// `1 - erf(a)`
pub static ERFC: Ewise = Ewise {
    name: "erfc",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::ERFC),
    f64: Some(doubles::ERFC),
    i64: None,
    bool: None,
    c: "erfc({0})",
    c_int: "",
    wgsl: "g_erfc({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (-(&x[0] * &x[0])).exp() * -std::f64::consts::FRAC_2_SQRT_PI]),
};

/// Inverse of erf
pub static ERFINV: Ewise = Ewise {
    name: "erfinv",
    arity: 1,
    kind: Float,
    domain: (-0.8, 0.8),
    f32: Some(loops::ERFINV),
    f64: Some(doubles::ERFINV),
    i64: None,
    bool: None,
    c: "erfinv({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * (y * y).exp() / std::f64::consts::FRAC_2_SQRT_PI]),
};

/// `e^(a^2) erfc(a)`
pub static ERFCX: Ewise = Ewise {
    name: "erfcx",
    arity: 1,
    kind: Float,
    domain: (-1.0, 2.0),
    f32: Some(loops::ERFCX),
    f64: Some(doubles::ERFCX),
    i64: None,
    bool: None,
    c: "erfcx({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (&x[0] * y * 2.0 - std::f64::consts::FRAC_2_SQRT_PI)]),
};

/// Log of the normal distribution function
pub static LOG_NDTR: Ewise = Ewise {
    name: "log_ndtr",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::LOG_NDTR),
    f64: Some(doubles::LOG_NDTR),
    i64: None,
    bool: None,
    c: "g_log_ndtr({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (&x[0] * &x[0] * -0.5 - y).exp() * 0.398_942_280_401_432_7]),
};

/// Inverse of the normal distribution function
pub static NDTRI: Ewise = Ewise {
    name: "ndtri",
    arity: 1,
    kind: Float,
    domain: (0.2, 0.8),
    f32: Some(loops::NDTRI),
    f64: Some(doubles::NDTRI),
    i64: None,
    bool: None,
    c: "normcdfinv({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * (y * y * 0.5).exp() * 2.506_628_274_631_000_7]),
};

/// `sin(pi a) / (pi a)`, 1 at 0
pub static SINC: Ewise = Ewise {
    name: "sinc",
    arity: 1,
    kind: Float,
    domain: (0.2, 2.5),
    f32: Some(loops::SINC),
    f64: Some(doubles::SINC),
    i64: None,
    bool: None,
    c: "g_sinc({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| {
        let a = &x[0] * std::f64::consts::PI;
        let d = (a.cos() - y) / &x[0];
        g * x[0].raw_eq(&x[0].zeros_like()).raw_where(&d.zeros_like(), &d)
    }]),
};

/// `-a ln a`, 0 at 0, -inf below
pub static ENTR: Ewise = Ewise {
    name: "entr",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::ENTR),
    f64: Some(doubles::ENTR),
    i64: None,
    bool: None,
    c: "g_entr({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (-(x[0].log()) - 1.0)]),
};

/// `ln(e^a + e^b)` without overflow
pub static LOGADDEXP: Ewise = Ewise {
    name: "logaddexp",
    arity: 2,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::LOGADDEXP),
    f64: Some(doubles::LOGADDEXP),
    i64: None,
    bool: None,
    c: "g_logaddexp({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (&x[0] - y).exp(), |g, y, x| g * (&x[1] - y).exp()]),
};

/// `log2(2^a + 2^b)` without overflow
pub static LOGADDEXP2: Ewise = Ewise {
    name: "logaddexp2",
    arity: 2,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::LOGADDEXP2),
    f64: Some(doubles::LOGADDEXP2),
    i64: None,
    bool: None,
    c: "g_logaddexp2({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * (&x[0] - y).exp2(), |g, y, x| g * (&x[1] - y).exp2()]),
};

/// `a ln b`, 0 where `a` is 0
pub static XLOGY: Ewise = Ewise {
    name: "xlogy",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::XLOGY),
    f64: Some(doubles::XLOGY),
    i64: None,
    bool: None,
    c: "g_xlogy({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[
        |g, _, x| {
            let z = x[0].zeros_like();
            x[0].raw_eq(&z).raw_and(&z.raw_ge(&x[1])).raw_where(&z, &(g * x[1].log()))
        },
        |g, _, x| g * &x[0] / &x[1],
    ]),
};

/// `a ln(1 + b)`, 0 where `a` is 0
pub static XLOG1PY: Ewise = Ewise {
    name: "xlog1py",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::XLOG1PY),
    f64: Some(doubles::XLOG1PY),
    i64: None,
    bool: None,
    c: "g_xlog1py({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[
        |g, _, x| {
            let z = x[0].zeros_like();
            x[0].raw_eq(&z).raw_and(&(&z - 1.0).raw_ge(&x[1])).raw_where(&z, &(g * x[1].log1p()))
        },
        |g, _, x| g * &x[0] / (&x[1] + 1.0),
    ]),
};

/// The next float after `a` towards `b`
pub static NEXTAFTER: Ewise = Ewise {
    name: "nextafter",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::NEXTAFTER),
    f64: Some(doubles::NEXTAFTER),
    i64: None,
    bool: None,
    c: "nextafter({0}, {1})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Missing,
};

/// `m` of `a = m 2^e`, 0.5 <= |m| < 1
pub static FREXP_MANTISSA: Ewise = Ewise {
    name: "frexp_mantissa",
    arity: 1,
    kind: Float,
    domain: (0.55, 0.95),
    f32: Some(plain1(|a: f32| special::frexp(a as f64).0 as f32)),
    f64: Some(plain1(|a: f64| special::frexp(a).0)),
    i64: None,
    bool: None,
    c: "g_frexp_m({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| {
        let s = y / &x[0];
        g * x[0].raw_eq(&x[0].zeros_like()).raw_where(&x[0].ones_like(), &s).detach()
    }]),
};

/// `e` of `a = m 2^e`, as a float
pub static FREXP_EXPONENT: Ewise = Ewise {
    name: "frexp_exponent",
    arity: 1,
    kind: Float,
    domain: (0.55, 0.95),
    f32: Some(plain1(|a: f32| special::frexp(a as f64).1 as f32)),
    f64: Some(plain1(|a: f64| special::frexp(a).1 as f64)),
    i64: None,
    bool: None,
    c: "g_frexp_e({0})",
    c_int: "",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::Zero,
};
