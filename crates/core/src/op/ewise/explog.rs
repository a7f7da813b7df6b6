//! Exponentials, logarithms and their sigmoids.

use super::{Ewise, Kind::*, Vjp};
use gradus_math::block::{f32 as loops, f64 as doubles};

pub(super) static ROWS: &[&Ewise] = &[&EXP, &EXP2, &EXPM1, &LOG, &LOG2, &LOG10, &LOG1P, &SIGMOID, &SOFTPLUS, &TANH];

/// `e ^ a`
pub static EXP: Ewise = Ewise {
    name: "exp",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::EXP),
    f64: Some(doubles::EXP),
    i64: None,
    bool: None,
    c: "exp({0})",
    c_int: "",
    wgsl: "exp({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * y]),
};

/// `2 ^ a`
pub static EXP2: Ewise = Ewise {
    name: "exp2",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::EXP2),
    f64: Some(doubles::EXP2),
    i64: None,
    bool: None,
    c: "exp2({0})",
    c_int: "",
    wgsl: "exp2({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * y * std::f64::consts::LN_2]),
};

/// `e ^ a - 1`, right near 0
pub static EXPM1: Ewise = Ewise {
    name: "expm1",
    arity: 1,
    kind: Float,
    domain: (-2.0, 2.0),
    f32: Some(loops::EXPM1),
    f64: Some(doubles::EXPM1),
    i64: None,
    bool: None,
    c: "expm1({0})",
    c_int: "",
    wgsl: "g_expm1({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * (y + 1.0)]),
};

/// Natural logarithm
pub static LOG: Ewise = Ewise {
    name: "log",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::LN),
    f64: Some(doubles::LN),
    i64: None,
    bool: None,
    c: "log({0})",
    c_int: "",
    wgsl: "log({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / &x[0]]),
};

/// Logarithm to base 2
pub static LOG2: Ewise = Ewise {
    name: "log2",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::LOG2),
    f64: Some(doubles::LOG2),
    i64: None,
    bool: None,
    c: "log2({0})",
    c_int: "",
    wgsl: "log2({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / (&x[0] * std::f64::consts::LN_2)]),
};

/// Logarithm to base 10
pub static LOG10: Ewise = Ewise {
    name: "log10",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(loops::LOG10),
    f64: Some(doubles::LOG10),
    i64: None,
    bool: None,
    c: "log10({0})",
    c_int: "",
    wgsl: "(log2({0}) * 0.30102999566)",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / (&x[0] * std::f64::consts::LN_10)]),
};

/// `ln(1 + a)`, right near 0
pub static LOG1P: Ewise = Ewise {
    name: "log1p",
    arity: 1,
    kind: Float,
    domain: (-0.5, 4.0),
    f32: Some(loops::LOG1P),
    f64: Some(doubles::LOG1P),
    i64: None,
    bool: None,
    c: "log1p({0})",
    c_int: "",
    wgsl: "g_log1p({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g / (&x[0] + 1.0)]),
};

/// `1 / (1 + e ^ -a)`
pub static SIGMOID: Ewise = Ewise {
    name: "sigmoid",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::SIGMOID),
    f64: Some(doubles::SIGMOID),
    i64: None,
    bool: None,
    c: "g_sigmoid({0})",
    c_int: "",
    wgsl: "g_sigmoid({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * y * (1.0 - y)]),
};

/// `ln(1 + e ^ a)` without overflow
pub static SOFTPLUS: Ewise = Ewise {
    name: "softplus",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::SOFTPLUS),
    f64: Some(doubles::SOFTPLUS),
    i64: None,
    bool: None,
    c: "(({0} <= 0 ? 0 : {0}) + log1p(exp(-fabs({0}))))",
    c_int: "",
    wgsl: "(max({0}, 0.0) + g_log1p(exp(-abs({0}))))",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].sigmoid()]),
};

/// Hyperbolic tangent
pub static TANH: Ewise = Ewise {
    name: "tanh",
    arity: 1,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(loops::TANH),
    f64: Some(doubles::TANH),
    i64: None,
    bool: None,
    c: "g_tanh({0})",
    c_int: "",
    wgsl: "g_tanh({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g * (1.0 - y * y)]),
};
