//! Logarithms of floats that a loop can hold: see [`super::functions`].

use super::{
    body::{Arith, Body, Direction, V, Vop},
    functions::{EQ, GT, LT, abs, exp, poly},
};
use gradus_math::f32::coefficients as co;

/// `e ln 2 + ln(1 + f)`.
fn from_parts(b: &mut Body, e: V, f: V, c: &[f32; 9]) -> V {
    let z = b.two(Arith::Mul, f, f);
    let q = poly(b, f, c);
    let cube = b.two(Arith::Mul, z, f);
    let y = b.two(Arith::Mul, cube, q);
    let (high, low, half) = (b.number(co::LN2_SPLIT[0]), b.number(co::LN2_SPLIT[1]), b.number(-0.5));
    let y = b.push(Vop::Fma(e, low, y));
    let y = b.push(Vop::Fma(z, half, y));
    let y = b.two(Arith::Add, f, y);
    b.push(Vop::Fma(e, high, y))
}

/// `x = 2^e (1 + f)`: e and f.
fn split(b: &mut Body, x: V) -> (V, V) {
    let (least, up, down, zero) = (b.number(f32::MIN_POSITIVE), b.number(33_554_432.0), b.number(-25.0), b.number(0.0));
    let tiny = b.push(Vop::Compare(LT, x, least));
    let scaled = b.two(Arith::Mul, x, up);
    let xs = b.push(Vop::Select(tiny, scaled, x));
    let e0 = b.push(Vop::Select(tiny, down, zero));
    let root = b.push(Vop::Const(0x3f35_04f3));
    let ei = b.two(Arith::SubI, xs, root);
    let ei = b.push(Vop::Shift(Direction::Right, ei, 23));
    let up = b.push(Vop::Shift(Direction::Left, ei, 23));
    let (f, one) = (b.two(Arith::SubI, xs, up), b.number(1.0));
    let f = b.two(Arith::Sub, f, one);
    let e = b.push(Vop::ToFloat(ei));
    let e = b.two(Arith::Add, e, e0);
    (e, f)
}

/// The special values of a logarithm of `x` over `y`, in lanes of any width.
pub(super) fn special(b: &mut Body, x: V, y: V) -> V {
    let zero = b.number(0.0);
    // Infinity, what is not above zero, and zero.
    let (most, nan, least) = (b.number(f32::INFINITY), b.number(f32::NAN), b.number(f32::NEG_INFINITY));
    let m = b.push(Vop::Compare(EQ, x, most));
    let y = b.push(Vop::Select(m, x, y));
    let m = b.push(Vop::Compare(GT, x, zero));
    let y = b.push(Vop::Select(m, y, nan));
    let m = b.push(Vop::Compare(EQ, x, zero));
    b.push(Vop::Select(m, least, y))
}

/// The natural logarithm.
pub fn log(b: &mut Body, x: V) -> V {
    // The instructions know zeros, infinities and what is below zero: of those one part or both are no finite numbers.
    let (m, one, most) = (b.push(Vop::Mantissa(x)), b.number(1.0), b.number(f32::INFINITY));
    let (whole, part) = (b.push(Vop::Exponent(x)), b.push(Vop::Exponent(m)));
    let (e, f) = (b.two(Arith::Sub, whole, part), b.two(Arith::Sub, m, one));
    let y = from_parts(b, e, f, &co::LOG1P);
    let size = abs(b, e);
    let m = b.push(Vop::Compare(EQ, size, most));
    b.push(Vop::Select(m, e, y))
}

/// A logarithm to another base.
pub fn to_base(b: &mut Body, x: V, two: &[f32; 2], inv: &[f32; 2]) -> V {
    let (e, f) = split(b, x);
    let z = b.two(Arith::Mul, f, f);
    let q = poly(b, f, &co::LN);
    let cube = b.two(Arith::Mul, z, f);
    let t = b.two(Arith::Mul, cube, q);
    let half = b.number(-0.5);
    let t = b.push(Vop::Fma(z, half, t));
    let ([two, two_low], [inv, inv_low]) = (two.map(|c| b.number(c)), inv.map(|c| b.number(c)));
    let first = b.two(Arith::Mul, f, inv);
    let sign = b.sign();
    let minus = b.two(Arith::Xor, first, sign);
    let low = b.push(Vop::Fma(f, inv, minus));
    let low = b.push(Vop::Fma(f, inv_low, low));
    let whole = b.two(Arith::Mul, e, two);
    let sum = b.two(Arith::Add, whole, first);
    let low = b.push(Vop::Fma(t, inv, low));
    let low = b.push(Vop::Fma(e, two_low, low));
    let lost = b.two(Arith::Sub, sum, whole);
    let lost = b.two(Arith::Sub, first, lost);
    let low = b.two(Arith::Add, low, lost);
    let y = b.two(Arith::Add, sum, low);
    special(b, x, y)
}

/// `ln(1 + x)`.
pub fn log1p(b: &mut Body, x: V) -> V {
    let (zero, one, quarter, less) = (b.number(0.0), b.number(1.0), b.number(0.25), b.number(-1.0));
    let sum = b.two(Arith::Add, one, x);
    let (edge, four) = (b.push(Vop::Const(0x3f40_0000)), b.push(Vop::Const(0x4080_0000)));
    let ei = b.two(Arith::SubI, sum, edge);
    let ei = b.push(Vop::Shift(Direction::Right, ei, 23));
    let shift = b.push(Vop::Shift(Direction::Left, ei, 23));
    let s = b.two(Arith::SubI, four, shift);
    let down = b.two(Arith::SubI, x, shift);
    let s = b.push(Vop::Fma(s, quarter, less));
    let f = b.two(Arith::Add, down, s);
    let e = b.push(Vop::ToFloat(ei));
    let y = from_parts(b, e, f, &co::LOG1P);
    // Infinity and NaN, what is not above minus one, that itself, and zero with its sign.
    let (most, nan, least) = (b.number(f32::INFINITY), b.number(f32::NAN), b.number(f32::NEG_INFINITY));
    let m = b.push(Vop::Compare(LT, x, most));
    let y = b.push(Vop::Select(m, y, x));
    let m = b.push(Vop::Compare(GT, x, less));
    let y = b.push(Vop::Select(m, y, nan));
    let m = b.push(Vop::Compare(EQ, x, less));
    let y = b.push(Vop::Select(m, least, y));
    let m = b.push(Vop::Compare(EQ, x, zero));
    b.push(Vop::Select(m, x, y))
}

/// `ln(1 + e^x)`.
pub fn softplus(b: &mut Body, x: V) -> V {
    let (zero, sign) = (b.number(0.0), b.sign());
    let m = b.push(Vop::Compare(LT, x, zero));
    let most = b.push(Vop::Select(m, zero, x));
    let a = abs(b, x);
    let minus = b.two(Arith::Xor, a, sign);
    let e = exp(b, minus);
    let l = log1p(b, e);
    b.two(Arith::Add, most, l)
}
