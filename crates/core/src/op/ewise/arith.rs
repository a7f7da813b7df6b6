//! Arithmetic: sums, products, powers, extrema.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::{binary, plain2, ternary, unary};
use gradus_math::block::{f32 as loops, f64 as doubles};

pub(super) static ROWS: &[&Ewise] = &[
    &ADD,
    &SUB,
    &MUL,
    &DIV,
    &NEG,
    &ABS,
    &MAXIMUM,
    &MINIMUM,
    &FMAX,
    &FMIN,
    &RECIPROCAL,
    &SQRT,
    &RSQRT,
    &POW,
    &RELU,
    &FMA,
];

/// `a + b`
pub static ADD: Ewise = Ewise {
    name: "add",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| a + b)),
    f64: Some(binary(|a: f64, b: f64| a + b)),
    i64: Some(binary(|a: i64, b: i64| a.wrapping_add(b))),
    bool: Some(binary(|a: bool, b: bool| a | b)),
    c: "({0} + {1})",
    c_int: "({0} + {1})",
    wgsl: "({0} + {1})",
    wgsl_int: "({0} + {1})",
    vjp: Vjp::Rules(&[|g, _, _| g.clone(), |g, _, _| g.clone()]),
};

/// `a - b`
pub static SUB: Ewise = Ewise {
    name: "sub",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| a - b)),
    f64: Some(binary(|a: f64, b: f64| a - b)),
    i64: Some(binary(|a: i64, b: i64| a.wrapping_sub(b))),
    bool: None,
    c: "({0} - {1})",
    c_int: "({0} - {1})",
    wgsl: "({0} - {1})",
    wgsl_int: "({0} - {1})",
    vjp: Vjp::Rules(&[|g, _, _| g.clone(), |g, _, _| -g]),
};

/// `a * b`
pub static MUL: Ewise = Ewise {
    name: "mul",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| a * b)),
    f64: Some(binary(|a: f64, b: f64| a * b)),
    i64: Some(binary(|a: i64, b: i64| a.wrapping_mul(b))),
    bool: Some(binary(|a: bool, b: bool| a & b)),
    c: "({0} * {1})",
    c_int: "({0} * {1})",
    wgsl: "({0} * {1})",
    wgsl_int: "({0} * {1})",
    vjp: Vjp::Rules(&[|g, _, x| g * &x[1], |g, _, x| g * &x[0]]),
};

/// `a / b`, in floats
pub static DIV: Ewise = Ewise {
    name: "div",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(binary(|a: f32, b: f32| a / b)),
    f64: Some(binary(|a: f64, b: f64| a / b)),
    i64: None,
    bool: None,
    c: "({0} / {1})",
    c_int: "",
    wgsl: "({0} / {1})",
    wgsl_int: "",
    // y = a/b: da = g/b, db = -g y/b
    vjp: Vjp::Rules(&[|g, _, x| g / &x[1], |g, y, x| -(g * y) / &x[1]]),
};

/// `-a`
pub static NEG: Ewise = Ewise {
    name: "neg",
    arity: 1,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(unary(|a: f32| -a)),
    f64: Some(unary(|a: f64| -a)),
    i64: Some(unary(|a: i64| a.wrapping_neg())),
    bool: None,
    c: "(-{0})",
    c_int: "(-{0})",
    wgsl: "(-{0})",
    wgsl_int: "(-{0})",
    vjp: Vjp::Rules(&[|g, _, _| -g]),
};

/// `|a|`; the gradient at 0 is 0
pub static ABS: Ewise = Ewise {
    name: "abs",
    arity: 1,
    kind: Arith,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| a.abs())),
    f64: Some(unary(|a: f64| a.abs())),
    i64: Some(unary(|a: i64| a.wrapping_abs())),
    bool: Some(unary(|a: bool| a)),
    c: "fabs({0})",
    c_int: "({0} < 0 ? -{0} : {0})",
    wgsl: "abs({0})",
    wgsl_int: "abs({0})",
    vjp: Vjp::Rules(&[|g, _, x| g * x[0].sign()]),
};

/// Where two are equal, each gets half the gradient, as in PyTorch.
fn share(g: &crate::Tensor, wins: crate::Tensor, ties: crate::Tensor) -> crate::Tensor {
    g * (wins.to_dtype(g.dtype()) + ties.to_dtype(g.dtype()) * 0.5)
}

/// The larger; NaN if either is
pub static MAXIMUM: Ewise = Ewise {
    name: "maximum",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| if a > b || a.is_nan() { a } else { b })),
    f64: Some(binary(|a: f64, b: f64| if a > b || a.is_nan() { a } else { b })),
    i64: Some(binary(|a: i64, b: i64| a.max(b))),
    bool: Some(binary(|a: bool, b: bool| a | b)),
    c: "(({0} > {1} || {0} != {0}) ? {0} : {1})",
    c_int: "({0} > {1} ? {0} : {1})",
    wgsl: "select({1}, {0}, {0} > {1} || {0} != {0})",
    wgsl_int: "max({0}, {1})",
    vjp: Vjp::Rules(&[
        |g, _, x| share(g, x[0].raw_gt(&x[1]), x[0].raw_eq(&x[1])),
        |g, _, x| share(g, x[1].raw_gt(&x[0]), x[0].raw_eq(&x[1])),
    ]),
};

/// The smaller; NaN if either is
pub static MINIMUM: Ewise = Ewise {
    name: "minimum",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| if a < b || a.is_nan() { a } else { b })),
    f64: Some(binary(|a: f64, b: f64| if a < b || a.is_nan() { a } else { b })),
    i64: Some(binary(|a: i64, b: i64| a.min(b))),
    bool: Some(binary(|a: bool, b: bool| a & b)),
    c: "(({0} < {1} || {0} != {0}) ? {0} : {1})",
    c_int: "({0} < {1} ? {0} : {1})",
    wgsl: "select({1}, {0}, {0} < {1} || {0} != {0})",
    wgsl_int: "min({0}, {1})",
    vjp: Vjp::Rules(&[
        |g, _, x| share(g, x[1].raw_gt(&x[0]), x[0].raw_eq(&x[1])),
        |g, _, x| share(g, x[0].raw_gt(&x[1]), x[0].raw_eq(&x[1])),
    ]),
};

/// The larger; a NaN loses against a number
pub static FMAX: Ewise = Ewise {
    name: "fmax",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| if a >= b || b.is_nan() { a } else { b })),
    f64: Some(binary(|a: f64, b: f64| if a >= b || b.is_nan() { a } else { b })),
    i64: Some(binary(|a: i64, b: i64| a.max(b))),
    bool: Some(binary(|a: bool, b: bool| a | b)),
    c: "(({0} >= {1} || {1} != {1}) ? {0} : {1})",
    c_int: "({0} > {1} ? {0} : {1})",
    wgsl: "select({1}, {0}, {0} >= {1} || {1} != {1})",
    wgsl_int: "max({0}, {1})",
    // The gradient goes to the one that was taken: a where a >= b or b is NaN.
    vjp: Vjp::Rules(&[
        |g, _, x| g * (x[0].raw_ge(&x[1]).raw_or(&x[1].isnan())).to_dtype(g.dtype()),
        |g, _, x| g * (x[0].raw_ge(&x[1]).raw_or(&x[1].isnan())).logical_not().to_dtype(g.dtype()),
    ]),
};

/// The smaller; a NaN loses against a number
pub static FMIN: Ewise = Ewise {
    name: "fmin",
    arity: 2,
    kind: Arith,
    domain: (-4.0, 4.0),
    f32: Some(binary(|a: f32, b: f32| if a <= b || b.is_nan() { a } else { b })),
    f64: Some(binary(|a: f64, b: f64| if a <= b || b.is_nan() { a } else { b })),
    i64: Some(binary(|a: i64, b: i64| a.min(b))),
    bool: Some(binary(|a: bool, b: bool| a & b)),
    c: "(({0} <= {1} || {1} != {1}) ? {0} : {1})",
    c_int: "({0} < {1} ? {0} : {1})",
    wgsl: "select({1}, {0}, {0} <= {1} || {1} != {1})",
    wgsl_int: "min({0}, {1})",
    vjp: Vjp::Rules(&[
        |g, _, x| g * (x[1].raw_ge(&x[0]).raw_or(&x[1].isnan())).to_dtype(g.dtype()),
        |g, _, x| g * (x[1].raw_ge(&x[0]).raw_or(&x[1].isnan())).logical_not().to_dtype(g.dtype()),
    ]),
};

/// `1 / a`
pub static RECIPROCAL: Ewise = Ewise {
    name: "reciprocal",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| 1.0 / a)),
    f64: Some(unary(|a: f64| 1.0 / a)),
    i64: None,
    bool: None,
    c: "(1 / {0})",
    c_int: "",
    wgsl: "(1.0 / {0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| -(g * y * y)]),
};

/// Square root
pub static SQRT: Ewise = Ewise {
    name: "sqrt",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| a.sqrt())),
    f64: Some(unary(|a: f64| a.sqrt())),
    i64: None,
    bool: None,
    c: "sqrt({0})",
    c_int: "",
    wgsl: "sqrt({0})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, y, _| g / (y * 2.0)]),
};

/// `1 / sqrt(a)`
pub static RSQRT: Ewise = Ewise {
    name: "rsqrt",
    arity: 1,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| 1.0 / a.sqrt())),
    f64: Some(unary(|a: f64| 1.0 / a.sqrt())),
    i64: None,
    bool: None,
    c: "rsqrt({0})",
    c_int: "",
    wgsl: "inverseSqrt({0})",
    wgsl_int: "",
    // y = x^(-1/2): dx = -y^3/2 g
    vjp: Vjp::Rules(&[|g, y, _| g * (y * y * y) * -0.5]),
};

fn ipow(a: i64, b: i64) -> i64 {
    match (a, b) {
        (_, 0..) => a.wrapping_pow(b.min(u32::MAX as i64) as u32),
        (1, _) => 1,
        (-1, _) => 1 - 2 * (b & 1),
        _ => 0,
    }
}

/// `a ^ b`
pub static POW: Ewise = Ewise {
    name: "pow",
    arity: 2,
    kind: Arith,
    domain: (0.5, 3.0),
    f32: Some(loops::POW),
    f64: Some(doubles::POW),
    i64: Some(plain2(ipow)),
    bool: None,
    c: "pow({0}, {1})",
    c_int: "g_ipow({0}, {1})",
    wgsl: "g_pow({0}, {1})",
    wgsl_int: "g_ipow({0}, {1})",
    vjp: Vjp::Rules(&[
        // da = g b a^(b-1), and 0 where b = 0 (also at a = 0)
        |g, _, x| {
            let (a, b) = (&x[0], &x[1]);
            let d = g * b * a.raw_pow(&(b - 1.0));
            b.raw_eq(&b.zeros_like()).raw_where(&d.zeros_like(), &d)
        },
        // db = g y ln a, and 0 where a = 0 and b >= 0
        |g, y, x| {
            let (a, b) = (&x[0], &x[1]);
            let zero = b.zeros_like();
            let flat = a.raw_eq(&a.zeros_like()).raw_and(&b.raw_ge(&zero));
            flat.raw_where(&zero, &(g * y * a.log()))
        },
    ]),
};

/// `max(a, 0)`, NaN kept; the gradient at 0 is 0
pub static RELU: Ewise = Ewise {
    name: "relu",
    arity: 1,
    kind: Arith,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| if a <= 0.0 { 0.0 } else { a })),
    f64: Some(unary(|a: f64| if a <= 0.0 { 0.0 } else { a })),
    i64: Some(unary(|a: i64| a.max(0))),
    bool: None,
    c: "({0} <= 0 ? 0 : {0})",
    c_int: "({0} < 0 ? 0 : {0})",
    wgsl: "select({0}, 0.0, {0} <= 0.0)",
    wgsl_int: "max({0}, 0)",
    vjp: Vjp::Rules(&[|g, y, _| y.raw_gt(&y.zeros_like()).raw_where(g, &g.zeros_like())]),
};

/// `a * b + c` in one rounding: the planner makes these
pub static FMA: Ewise = Ewise {
    name: "fma",
    arity: 3,
    kind: Float,
    domain: (-4.0, 4.0),
    f32: Some(ternary(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
    f64: Some(ternary(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
    i64: None,
    bool: None,
    c: "fma({0}, {1}, {2})",
    c_int: "",
    wgsl: "fma({0}, {1}, {2})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[|g, _, x| g * &x[1], |g, _, x| g * &x[0], |g, _, _| g.clone()]),
};
