//! Comparison, logic and selection.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::{binary, compare, select, unary};

pub(super) static ROWS: &[&Ewise] = &[&EQ, &NE, &LT, &LE, &GT, &GE, &AND, &OR, &XOR, &NOT, &WHERE];

/// Equal
pub static EQ: Ewise = Ewise {
    name: "eq",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a == b)),
    f64: Some(compare(|a: f64, b: f64| a == b)),
    i64: Some(compare(|a: i64, b: i64| a == b)),
    bool: Some(binary(|a: bool, b: bool| a == b)),
    c: "({0} == {1})",
    c_int: "({0} == {1})",
    wgsl: "({0} == {1})",
    wgsl_int: "({0} == {1})",
    vjp: Vjp::NotFloat,
};

/// Different
pub static NE: Ewise = Ewise {
    name: "ne",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a != b)),
    f64: Some(compare(|a: f64, b: f64| a != b)),
    i64: Some(compare(|a: i64, b: i64| a != b)),
    bool: Some(binary(|a: bool, b: bool| a != b)),
    c: "({0} != {1})",
    c_int: "({0} != {1})",
    wgsl: "({0} != {1})",
    wgsl_int: "({0} != {1})",
    vjp: Vjp::NotFloat,
};

/// Less
pub static LT: Ewise = Ewise {
    name: "lt",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a < b)),
    f64: Some(compare(|a: f64, b: f64| a < b)),
    i64: Some(compare(|a: i64, b: i64| a < b)),
    bool: Some(binary(|a: bool, b: bool| !a & b)),
    c: "({0} < {1})",
    c_int: "({0} < {1})",
    wgsl: "({0} < {1})",
    wgsl_int: "({0} < {1})",
    vjp: Vjp::NotFloat,
};

/// Less or equal
pub static LE: Ewise = Ewise {
    name: "le",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a <= b)),
    f64: Some(compare(|a: f64, b: f64| a <= b)),
    i64: Some(compare(|a: i64, b: i64| a <= b)),
    bool: Some(binary(|a: bool, b: bool| !a | b)),
    c: "({0} <= {1})",
    c_int: "({0} <= {1})",
    wgsl: "({0} <= {1})",
    wgsl_int: "({0} <= {1})",
    vjp: Vjp::NotFloat,
};

/// Greater
pub static GT: Ewise = Ewise {
    name: "gt",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a > b)),
    f64: Some(compare(|a: f64, b: f64| a > b)),
    i64: Some(compare(|a: i64, b: i64| a > b)),
    bool: Some(binary(|a: bool, b: bool| a & !b)),
    c: "({0} > {1})",
    c_int: "({0} > {1})",
    wgsl: "({0} > {1})",
    wgsl_int: "({0} > {1})",
    vjp: Vjp::NotFloat,
};

/// Greater or equal
pub static GE: Ewise = Ewise {
    name: "ge",
    arity: 2,
    kind: Compare,
    domain: (-4.0, 4.0),
    f32: Some(compare(|a: f32, b: f32| a >= b)),
    f64: Some(compare(|a: f64, b: f64| a >= b)),
    i64: Some(compare(|a: i64, b: i64| a >= b)),
    bool: Some(binary(|a: bool, b: bool| a | !b)),
    c: "({0} >= {1})",
    c_int: "({0} >= {1})",
    wgsl: "({0} >= {1})",
    wgsl_int: "({0} >= {1})",
    vjp: Vjp::NotFloat,
};

/// Logical and
pub static AND: Ewise = Ewise {
    name: "logical_and",
    arity: 2,
    kind: Logic,
    domain: (0.0, 1.0),
    f32: None,
    f64: None,
    i64: None,
    bool: Some(binary(|a: bool, b: bool| a & b)),
    c: "",
    c_int: "({0} && {1})",
    wgsl: "",
    wgsl_int: "({0} && {1})",
    vjp: Vjp::NotFloat,
};

/// Logical or
pub static OR: Ewise = Ewise {
    name: "logical_or",
    arity: 2,
    kind: Logic,
    domain: (0.0, 1.0),
    f32: None,
    f64: None,
    i64: None,
    bool: Some(binary(|a: bool, b: bool| a | b)),
    c: "",
    c_int: "({0} || {1})",
    wgsl: "",
    wgsl_int: "({0} || {1})",
    vjp: Vjp::NotFloat,
};

/// Logical xor
pub static XOR: Ewise = Ewise {
    name: "logical_xor",
    arity: 2,
    kind: Logic,
    domain: (0.0, 1.0),
    f32: None,
    f64: None,
    i64: None,
    bool: Some(binary(|a: bool, b: bool| a ^ b)),
    c: "",
    c_int: "({0} != {1})",
    wgsl: "",
    wgsl_int: "({0} != {1})",
    vjp: Vjp::NotFloat,
};

/// Logical not
pub static NOT: Ewise = Ewise {
    name: "logical_not",
    arity: 1,
    kind: Logic,
    domain: (0.0, 1.0),
    f32: None,
    f64: None,
    i64: None,
    bool: Some(unary(|a: bool| !a)),
    c: "",
    c_int: "(!{0})",
    wgsl: "",
    wgsl_int: "(!{0})",
    vjp: Vjp::NotFloat,
};

/// `b` where the first is true, `c` elsewhere
pub static WHERE: Ewise = Ewise {
    name: "where",
    arity: 3,
    kind: Select,
    domain: (-4.0, 4.0),
    f32: Some(select(|c: bool, a: f32, b: f32| if c { a } else { b })),
    f64: Some(select(|c: bool, a: f64, b: f64| if c { a } else { b })),
    i64: Some(select(|c: bool, a: i64, b: i64| if c { a } else { b })),
    bool: Some(select(|c: bool, a: bool, b: bool| (c & a) | (!c & b))),
    c: "({0} ? {1} : {2})",
    c_int: "({0} ? {1} : {2})",
    wgsl: "select({2}, {1}, {0})",
    wgsl_int: "select({2}, {1}, {0})",
    vjp: Vjp::Rules(&[
        |g, _, _| g.zeros_like(),
        |g, _, x| x[0].raw_where(g, &g.zeros_like()),
        |g, _, x| x[0].raw_where(&g.zeros_like(), g),
    ]),
};
