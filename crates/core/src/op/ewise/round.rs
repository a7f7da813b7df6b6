//! Rounding, signs and remainders.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::{binary, guarded2, plain2, unary};
use gradus_math::f32::{fmod_near, is_near, is_short, quotient};
use gradus_math::f64 as doubles;

pub(super) static ROWS: &[&Ewise] =
    &[&FLOOR, &CEIL, &TRUNC, &ROUND, &SIGN, &FMOD, &REMAINDER, &FLOOR_DIVIDE, &TRUNC_DIVIDE, &COPYSIGN, &HEAVISIDE];

/// Towards minus infinity
pub static FLOOR: Ewise = Ewise {
    name: "floor",
    arity: 1,
    kind: Arith,
    domain: (0.2, 0.8),
    f32: Some(unary(|a: f32| a.floor())),
    f64: Some(unary(|a: f64| a.floor())),
    i64: Some(unary(|a: i64| a)),
    bool: None,
    c: "floor({0})",
    c_int: "{0}",
    wgsl: "floor({0})",
    wgsl_int: "{0}",
    vjp: Vjp::Zero,
};

/// Towards infinity
pub static CEIL: Ewise = Ewise {
    name: "ceil",
    arity: 1,
    kind: Arith,
    domain: (0.2, 0.8),
    f32: Some(unary(|a: f32| a.ceil())),
    f64: Some(unary(|a: f64| a.ceil())),
    i64: Some(unary(|a: i64| a)),
    bool: None,
    c: "ceil({0})",
    c_int: "{0}",
    wgsl: "ceil({0})",
    wgsl_int: "{0}",
    vjp: Vjp::Zero,
};

/// Towards zero
pub static TRUNC: Ewise = Ewise {
    name: "trunc",
    arity: 1,
    kind: Arith,
    domain: (0.2, 0.8),
    f32: Some(unary(|a: f32| a.trunc())),
    f64: Some(unary(|a: f64| a.trunc())),
    i64: Some(unary(|a: i64| a)),
    bool: None,
    c: "trunc({0})",
    c_int: "{0}",
    wgsl: "trunc({0})",
    wgsl_int: "{0}",
    vjp: Vjp::Zero,
};

/// To the nearest, halves to even
pub static ROUND: Ewise = Ewise {
    name: "round",
    arity: 1,
    kind: Arith,
    domain: (0.1, 0.4),
    f32: Some(unary(|a: f32| a.round_ties_even())),
    f64: Some(unary(|a: f64| a.round_ties_even())),
    i64: Some(unary(|a: i64| a)),
    bool: None,
    c: "rint({0})",
    c_int: "{0}",
    wgsl: "round({0})",
    wgsl_int: "{0}",
    vjp: Vjp::Zero,
};

/// -1, 0 or 1; 0 for NaN as in PyTorch
pub static SIGN: Ewise = Ewise {
    name: "sign",
    arity: 1,
    kind: Arith,
    domain: (0.5, 4.0),
    f32: Some(unary(|a: f32| {
        if a > 0.0 {
            1.0f32
        } else if a < 0.0 {
            -1.0
        } else {
            0.0
        }
    })),
    f64: Some(unary(|a: f64| {
        if a > 0.0 {
            1.0
        } else if a < 0.0 {
            -1.0
        } else {
            0.0
        }
    })),
    i64: Some(unary(|a: i64| a.signum())),
    bool: Some(unary(|a: bool| a)),
    c: "(({0} > 0) - ({0} < 0))",
    c_int: "(({0} > 0) - ({0} < 0))",
    wgsl: "g_sign({0})",
    wgsl_int: "sign({0})",
    vjp: Vjp::Zero,
};

/// A remainder, and `b` more where its sign is not that of `b`.
#[inline(always)]
fn with_sign(r: f32, b: f32) -> f32 {
    if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { r + b } else { r }
}

/// The same of doubles.
#[inline(always)]
fn with_sign_f64(r: f64, b: f64) -> f64 {
    if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { r + b } else { r }
}

#[inline(always)]
fn with_sign_i64(r: i64, b: i64) -> i64 {
    if (r != 0) & ((r < 0) != (b < 0)) { r.wrapping_add(b) } else { r }
}

/// `floor(a / b)`, from the remainder `r` of `a`.
#[inline(always)]
fn floor_quotient(a: f32, b: f32, r: f32) -> f32 {
    let d = (a - r) / b;
    let d = if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { d - 1.0 } else { d };
    let f = d.floor();
    let near = if d - f > 0.5 { f + 1.0 } else { f };
    let q = a / b;
    let some = if d != 0.0 { near } else { 0f32.copysign(q) };
    if b == 0.0 { q } else { some }
}

/// The same of doubles.
#[inline(always)]
fn floor_quotient_f64(a: f64, b: f64, r: f64) -> f64 {
    let d = (a - r) / b;
    let d = if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { d - 1.0 } else { d };
    let f = d.floor();
    let near = if d - f > 0.5 { f + 1.0 } else { f };
    let q = a / b;
    let some = if d != 0.0 { near } else { 0f64.copysign(q) };
    if b == 0.0 { q } else { some }
}

/// The remainder of `a / b`, with the sign of `a`
pub static FMOD: Ewise = Ewise {
    name: "fmod",
    arity: 2,
    kind: Arith,
    domain: (0.6, 0.9),
    f32: Some(guarded2(is_near, fmod_near, |a: f32, b: f32| a % b)),
    f64: Some(guarded2(doubles::is_near, doubles::fmod_near, |a: f64, b: f64| a % b)),
    i64: Some(guarded2(
        is_short,
        |a: i64, b: i64| a.wrapping_sub(quotient(a, b).wrapping_mul(b)),
        |a: i64, b: i64| a.wrapping_rem(if b == 0 { 1 } else { b }),
    )),
    bool: None,
    c: "fmod({0}, {1})",
    c_int: "g_ifmod({0}, {1})",
    wgsl: "g_fmod({0}, {1})",
    wgsl_int: "({0} % {1})",
    vjp: Vjp::Rules(&[|g, _, _| g.clone(), |g, _, x| -(g * (&x[0] / &x[1]).trunc())]),
};

/// The remainder of `a / b`, with the sign of `b`, as Python's %
pub static REMAINDER: Ewise = Ewise {
    name: "remainder",
    arity: 2,
    kind: Arith,
    domain: (0.6, 0.9),
    f32: Some(guarded2(is_near, |a: f32, b: f32| with_sign(fmod_near(a, b), b), |a: f32, b: f32| with_sign(a % b, b))),
    f64: Some(guarded2(
        doubles::is_near,
        |a: f64, b: f64| with_sign_f64(doubles::fmod_near(a, b), b),
        |a: f64, b: f64| with_sign_f64(a % b, b),
    )),
    i64: Some(guarded2(
        is_short,
        |a: i64, b: i64| with_sign_i64(a.wrapping_sub(quotient(a, b).wrapping_mul(b)), b),
        |a: i64, b: i64| {
            let b = if b == 0 { 1 } else { b };
            with_sign_i64(a.wrapping_rem(b), b)
        },
    )),
    bool: None,
    c: "g_remainder({0}, {1})",
    c_int: "g_iremainder({0}, {1})",
    wgsl: "g_remainder({0}, {1})",
    wgsl_int: "g_iremainder({0}, {1})",
    vjp: Vjp::Rules(&[|g, _, _| g.clone(), |g, _, x| -(g * (&x[0] / &x[1]).floor())]),
};

/// `floor(a / b)`, as Python's //
pub static FLOOR_DIVIDE: Ewise = Ewise {
    name: "floor_divide",
    arity: 2,
    kind: Arith,
    domain: (0.6, 0.9),
    f32: Some(guarded2(
        is_near,
        |a: f32, b: f32| floor_quotient(a, b, fmod_near(a, b)),
        |a: f32, b: f32| floor_quotient(a, b, a % b),
    )),
    f64: Some(guarded2(
        doubles::is_near,
        |a: f64, b: f64| floor_quotient_f64(a, b, doubles::fmod_near(a, b)),
        |a: f64, b: f64| floor_quotient_f64(a, b, a % b),
    )),
    i64: Some(guarded2(
        is_short,
        |a: i64, b: i64| {
            let q = quotient(a, b);
            q - ((q.wrapping_mul(b) != a) & ((a < 0) != (b < 0))) as i64
        },
        |a: i64, b: i64| {
            let b = if b == 0 { 1 } else { b };
            let q = a.wrapping_div(b);
            if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
        },
    )),
    bool: None,
    c: "g_floor_divide({0}, {1})",
    c_int: "g_ifloor_divide({0}, {1})",
    wgsl: "g_floor_divide({0}, {1})",
    wgsl_int: "g_ifloor_divide({0}, {1})",
    vjp: Vjp::Zero,
};

/// `trunc(a / b)`
pub static TRUNC_DIVIDE: Ewise = Ewise {
    name: "trunc_divide",
    arity: 2,
    kind: Arith,
    domain: (0.6, 0.9),
    f32: Some(binary(|a: f32, b: f32| (a / b).trunc())),
    f64: Some(binary(|a: f64, b: f64| (a / b).trunc())),
    i64: Some(guarded2(is_short, quotient, |a: i64, b: i64| a.wrapping_div(if b == 0 { 1 } else { b }))),
    bool: None,
    c: "trunc({0} / {1})",
    c_int: "g_idivide({0}, {1})",
    wgsl: "trunc({0} / {1})",
    wgsl_int: "({0} / {1})",
    vjp: Vjp::Zero,
};

/// `|a|` with the sign of `b`
pub static COPYSIGN: Ewise = Ewise {
    name: "copysign",
    arity: 2,
    kind: Float,
    domain: (0.5, 4.0),
    f32: Some(binary(|a: f32, b: f32| a.copysign(b))),
    f64: Some(binary(|a: f64, b: f64| a.copysign(b))),
    i64: None,
    bool: None,
    c: "copysign({0}, {1})",
    c_int: "",
    wgsl: "g_copysign({0}, {1})",
    wgsl_int: "",
    vjp: Vjp::Rules(&[
        |g, y, x| {
            let s = (y / &x[0]).sign();
            x[0].raw_eq(&x[0].zeros_like()).raw_where(&g.zeros_like(), &(g * s))
        },
        |g, _, _| g.zeros_like(),
    ]),
};

/// 0 below zero, 1 above, `b` at zero
pub static HEAVISIDE: Ewise = Ewise {
    name: "heaviside",
    arity: 2,
    kind: Arith,
    domain: (0.5, 4.0),
    f32: Some(binary(|a: f32, b: f32| {
        if a > 0.0 {
            1.0
        } else if a < 0.0 {
            0.0
        } else if a == 0.0 {
            b
        } else {
            a
        }
    })),
    f64: Some(binary(|a: f64, b: f64| {
        if a > 0.0 {
            1.0
        } else if a < 0.0 {
            0.0
        } else if a == 0.0 {
            b
        } else {
            a
        }
    })),
    i64: Some(plain2(|a: i64, b: i64| if a == 0 { b } else { (a > 0) as i64 })),
    bool: None,
    c: "({0} > 0 ? 1 : ({0} < 0 ? 0 : ({0} == 0 ? {1} : {0})))",
    c_int: "({0} == 0 ? {1} : ({0} > 0))",
    wgsl: "select(select(select({0}, {1}, {0} == 0.0), 0.0, {0} < 0.0), 1.0, {0} > 0.0)",
    wgsl_int: "select(select(0, 1, {0} > 0), {1}, {0} == 0)",
    vjp: Vjp::Zero,
};
