//! Trigonometric and hyperbolic functions and their inverses.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::guarded1;
use gradus_math::{
    block::{f32 as loops, f64 as doubles},
    f64::{cos_near, is_small_angle, sin_near, tan_near},
};

pub(super) static ROWS: &[&Ewise] =
    &[&SIN, &COS, &TAN, &ASIN, &ACOS, &ATAN, &SINH, &COSH, &ASINH, &ACOSH, &ATANH, &ATAN2, &HYPOT];

/// Sine
pub static SIN: Ewise = Ewise {
    name: "sin",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::SIN),
    f64: Some(guarded1(is_small_angle, sin_near, f64::sin)),
    i64: None,
    bool: None,
    c: "sin({0})",
    c_int: "",
    wgsl: "sin({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].cos()]),
};

/// Cosine
pub static COS: Ewise = Ewise {
    name: "cos",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::COS),
    f64: Some(guarded1(is_small_angle, cos_near, f64::cos)),
    i64: None,
    bool: None,
    c: "cos({0})",
    c_int: "",
    wgsl: "cos({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| -(g * x[0].sin())]),
};

/// Tangent
pub static TAN: Ewise = Ewise {
    name: "tan",
    arity: 1,
    kind: Float,
    domain: (-1.0, 1.0),
    f32: Some(loops::TAN),
    f64: Some(guarded1(is_small_angle, tan_near, f64::tan)),
    i64: None,
    bool: None,
    c: "tan({0})",
    c_int: "",
    wgsl: "tan({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * (1.0 + y * y)]),
};

/// Inverse sine
pub static ASIN: Ewise = Ewise {
    name: "asin",
    arity: 1,
    kind: Float,
    domain: (-0.8, 0.8),
    f32: Some(loops::ASIN),
    f64: Some(doubles::ASIN),
    i64: None,
    bool: None,
    c: "asin({0})",
    c_int: "",
    wgsl: "asin({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (1.0 - &x[0] * &x[0]).rsqrt()]),
};

/// Inverse cosine
pub static ACOS: Ewise = Ewise {
    name: "acos",
    arity: 1,
    kind: Float,
    domain: (-0.8, 0.8),
    f32: Some(loops::ACOS),
    f64: Some(doubles::ACOS),
    i64: None,
    bool: None,
    c: "acos({0})",
    c_int: "",
    wgsl: "acos({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| -(g * (1.0 - &x[0] * &x[0]).rsqrt())]),
};

/// Inverse tangent
pub static ATAN: Ewise = Ewise {
    name: "atan",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::ATAN),
    f64: Some(doubles::ATAN),
    i64: None,
    bool: None,
    c: "atan({0})",
    c_int: "",
    wgsl: "atan({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / (&x[0] * &x[0] + 1.0)]),
};

/// Hyperbolic sine
pub static SINH: Ewise = Ewise {
    name: "sinh",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::SINH),
    f64: Some(doubles::SINH),
    i64: None,
    bool: None,
    c: "sinh({0})",
    c_int: "",
    wgsl: "sinh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].cosh()]),
};

/// Hyperbolic cosine
pub static COSH: Ewise = Ewise {
    name: "cosh",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::COSH),
    f64: Some(doubles::COSH),
    i64: None,
    bool: None,
    c: "cosh({0})",
    c_int: "",
    wgsl: "cosh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].sinh()]),
};

/// Inverse hyperbolic sine
pub static ASINH: Ewise = Ewise {
    name: "asinh",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::ASINH),
    f64: Some(doubles::ASINH),
    i64: None,
    bool: None,
    c: "asinh({0})",
    c_int: "",
    wgsl: "asinh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (&x[0] * &x[0] + 1.0).rsqrt()]),
};

/// Inverse hyperbolic cosine
pub static ACOSH: Ewise = Ewise {
    name: "acosh",
    arity: 1,
    kind: Float,
    domain: (1.5, 4.0),
    f32: Some(loops::ACOSH),
    f64: Some(doubles::ACOSH),
    i64: None,
    bool: None,
    c: "acosh({0})",
    c_int: "",
    wgsl: "acosh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * (&x[0] * &x[0] - 1.0).rsqrt()]),
};

/// Inverse hyperbolic tangent
pub static ATANH: Ewise = Ewise {
    name: "atanh",
    arity: 1,
    kind: Float,
    domain: (-0.8, 0.8),
    f32: Some(loops::ATANH),
    f64: Some(doubles::ATANH),
    i64: None,
    bool: None,
    c: "atanh({0})",
    c_int: "",
    wgsl: "atanh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / (1.0 - &x[0] * &x[0])]),
};

/// The angle of (x = `b`, y = `a`)
pub static ATAN2: Ewise = Ewise {
    name: "atan2",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::ATAN2),
    f64: Some(doubles::ATAN2),
    i64: None,
    bool: None,
    c: "atan2({0}, {1})",
    c_int: "",
    wgsl: "atan2({0}, {1})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[
        |g, _, x| g * &x[1] / (&x[0] * &x[0] + &x[1] * &x[1]),
        |g, _, x| -(g * &x[0]) / (&x[0] * &x[0] + &x[1] * &x[1]),
    ]),
};

/// `sqrt(a^2 + b^2)` without overflow
pub static HYPOT: Ewise = Ewise {
    name: "hypot",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::HYPOT),
    f64: Some(doubles::HYPOT),
    i64: None,
    bool: None,
    c: "hypot({0}, {1})",
    c_int: "",
    wgsl: "g_hypot({0}, {1})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, x| g * &x[0] / y, |g, y, x| g * &x[1] / y]),
};
