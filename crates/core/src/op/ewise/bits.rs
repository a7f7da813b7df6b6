//! Bits, shifts and divisors.

use super::{Ewise, Kind::*, Vjp};
use crate::op::block::{binary, plain2, unary};

pub(super) static ROWS: &[&Ewise] = &[&BITAND, &BITOR, &BITXOR, &BITNOT, &SHL, &SHR, &GCD, &LCM];

/// Bitwise and
pub static BITAND: Ewise = Ewise {
    name: "bitwise_and",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(binary(|a: i64, b: i64| a & b)),
    bool: Some(binary(|a: bool, b: bool| a & b)),
    c: "",
    c_int: "({0} & {1})",
    wgsl: "",
    wgsl_int: "({0} & {1})",
    vjp: Vjp::NotFloat,
};

/// Bitwise or
pub static BITOR: Ewise = Ewise {
    name: "bitwise_or",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(binary(|a: i64, b: i64| a | b)),
    bool: Some(binary(|a: bool, b: bool| a | b)),
    c: "",
    c_int: "({0} | {1})",
    wgsl: "",
    wgsl_int: "({0} | {1})",
    vjp: Vjp::NotFloat,
};

/// Bitwise xor
pub static BITXOR: Ewise = Ewise {
    name: "bitwise_xor",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(binary(|a: i64, b: i64| a ^ b)),
    bool: Some(binary(|a: bool, b: bool| a ^ b)),
    c: "",
    c_int: "({0} ^ {1})",
    wgsl: "",
    wgsl_int: "({0} ^ {1})",
    vjp: Vjp::NotFloat,
};

/// Bitwise not
pub static BITNOT: Ewise = Ewise {
    name: "bitwise_not",
    arity: 1,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(unary(|a: i64| !a)),
    bool: Some(unary(|a: bool| !a)),
    c: "",
    c_int: "(~{0})",
    wgsl: "",
    wgsl_int: "(~{0})",
    vjp: Vjp::NotFloat,
};

/// Left shift; shifting everything out gives 0
pub static SHL: Ewise = Ewise {
    name: "bitwise_left_shift",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(binary(|a: i64, b: i64| if (0..64).contains(&b) { a.wrapping_shl(b as u32) } else { 0 })),
    bool: None,
    c: "",
    c_int: "g_shl({0}, {1})",
    wgsl: "",
    wgsl_int: "g_shl({0}, {1})",
    vjp: Vjp::NotFloat,
};

/// Arithmetic right shift
pub static SHR: Ewise = Ewise {
    name: "bitwise_right_shift",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(binary(|a: i64, b: i64| a >> if (0..64).contains(&b) { b } else { 63 })),
    bool: None,
    c: "",
    c_int: "g_shr({0}, {1})",
    wgsl: "",
    wgsl_int: "g_shr({0}, {1})",
    vjp: Vjp::NotFloat,
};

/// Greatest common divisor
pub static GCD: Ewise = Ewise {
    name: "gcd",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(plain2(gradus_math::f64::gcd)),
    bool: None,
    c: "",
    c_int: "g_gcd({0}, {1})",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::NotFloat,
};

/// Least common multiple
pub static LCM: Ewise = Ewise {
    name: "lcm",
    arity: 2,
    kind: Bits,
    domain: (0.0, 8.0),
    f32: None,
    f64: None,
    i64: Some(plain2(gradus_math::f64::lcm)),
    bool: None,
    c: "",
    c_int: "g_lcm({0}, {1})",
    wgsl: "",
    wgsl_int: "",
    vjp: Vjp::NotFloat,
};
