//! The functions of `gradus_math::f64` that a loop can hold: see [`super::functions`].

use super::{
    body::{Arith, Body, Direction, V, Vop},
    functions::{LT, abs, copysign, expm1, poly, sigmoid},
    logarithms::special,
};
use gradus_math::f64::coefficients as co;

/// A row on these operands; none if a loop cannot hold it.
pub fn row(b: &mut Body, name: &str, x: &[V]) -> Option<V> {
    Some(match name {
        "exp" => exp(b, x[0]),
        "sigmoid" => sigmoid(b, x[0], exp),
        "expm1" => expm1(b, x[0], [-60.0, 710.0, 1e-17], half_expm1),
        "tanh" => tanh(b, x[0]),
        "log" => ln(b, x[0]),
        "erf" => erf(b, x[0]),
        _ => return None,
    })
}

/// (n + MAGIC, n, r) with x = n ln 2 + r.
fn reduce(b: &mut Body, x: V) -> (V, V, V) {
    let (log2e, magic) = (b.number(std::f64::consts::LOG2_E), b.number(co::MAGIC));
    let k = b.push(Vop::Fma(x, log2e, magic));
    let n = b.two(Arith::Sub, k, magic);
    let (hi, lo) = (b.number(-co::LN2_HI), b.number(-co::LN2_LO));
    let r = b.push(Vop::Fma(n, hi, x));
    (k, n, b.push(Vop::Fma(n, lo, r)))
}

fn exp(b: &mut Body, x: V) -> V {
    let (low, high, one) = (b.number(-746.0), b.number(710.0), b.number(1.0));
    let x = b.two(Arith::Max, low, x);
    let x = b.two(Arith::Min, high, x);
    let (_, n, r) = reduce(b, x);
    let q = poly(b, r, &co::EXP);
    let square = b.two(Arith::Mul, r, r);
    let p = b.push(Vop::Fma(square, q, r));
    let p = b.two(Arith::Add, p, one);
    // Times 2^n, rounded once as by two multiplications.
    b.two(Arith::Scale, p, n)
}

fn half_expm1(b: &mut Body, x: V) -> V {
    let (k, _, r) = reduce(b, x);
    let q = poly(b, r, &co::EXP);
    let square = b.two(Arith::Mul, r, r);
    let p = b.push(Vop::Fma(square, q, r));
    let (bias, half) = (b.bits(1022), b.number(0.5));
    let s = b.two(Arith::AddI, k, bias);
    let s = b.push(Vop::Shift(Direction::Left, s, 52));
    let less = b.two(Arith::Sub, s, half);
    b.push(Vop::Fma(p, s, less))
}

fn tanh(b: &mut Body, x: V) -> V {
    let (one, top) = (b.number(1.0), b.number(20.0));
    let a = abs(b, x);
    let a = b.two(Arith::Min, top, a);
    let a = b.two(Arith::Add, a, a);
    let e = half_expm1(b, a);
    let below = b.two(Arith::Add, e, one);
    let y = b.two(Arith::Div, e, below);
    copysign(b, y, x)
}

fn ln(b: &mut Body, x: V) -> V {
    let (least, up, down, zero) =
        (b.number(f64::MIN_POSITIVE), b.number(18_014_398_509_481_984.0), b.number(-54.0), b.number(0.0));
    let tiny = b.push(Vop::Compare(LT, x, least));
    let scaled = b.two(Arith::Mul, x, up);
    let xs = b.push(Vop::Select(tiny, scaled, x));
    let e0 = b.push(Vop::Select(tiny, down, zero));
    let root = b.push(Vop::Const(co::ROOT_HALF));
    let ei = b.two(Arith::SubI, xs, root);
    let ei = b.push(Vop::Shift(Direction::Right, ei, 52));
    let up = b.push(Vop::Shift(Direction::Left, ei, 52));
    let (f, one, two) = (b.two(Arith::SubI, xs, up), b.number(1.0), b.number(2.0));
    let f = b.two(Arith::Sub, f, one);
    let e = b.push(Vop::ToFloat(ei));
    let e = b.two(Arith::Add, e, e0);
    let below = b.two(Arith::Add, f, two);
    let s = b.two(Arith::Div, f, below);
    let z = b.two(Arith::Mul, s, s);
    let (half, square) = (b.number(0.5), b.two(Arith::Mul, f, f));
    let half = b.two(Arith::Mul, square, half);
    let q = poly(b, z, &co::LN);
    let r = b.push(Vop::Fma(z, q, half));
    let (high, low) = (b.number(co::LN2_HI), b.number(co::LN2_LO));
    let low = b.two(Arith::Mul, e, low);
    let low = b.push(Vop::Fma(s, r, low));
    let y = b.two(Arith::Sub, half, low);
    let y = b.two(Arith::Sub, f, y);
    let y = b.push(Vop::Fma(e, high, y));
    special(b, x, y)
}

fn erf(b: &mut Body, x: V) -> V {
    let (one, two, four, top, edge) = (b.number(1.0), b.number(2.0), b.number(4.0), b.number(6.0), b.number(0.8));
    let a = abs(b, x);
    let z = b.two(Arith::Mul, a, a);
    let q = poly(b, z, &co::ERF_SMALL);
    let small = b.push(Vop::Fma(q, a, a));
    let c = b.two(Arith::Min, top, a);
    let (d, g) = (b.two(Arith::Add, c, four), b.push(Vop::Fma(c, two, one)));
    let inv = b.two(Arith::Mul, d, g);
    let inv = b.two(Arith::Div, one, inv);
    let (t, u) = (b.two(Arith::Sub, c, four), b.two(Arith::Mul, g, inv));
    let t = b.two(Arith::Mul, t, u);
    let p = poly(b, t, &co::ERF_LARGE);
    let v = b.two(Arith::Mul, d, inv);
    let p = b.two(Arith::Mul, p, v);
    let (sign, square) = (b.sign(), b.two(Arith::Mul, c, c));
    let square = b.two(Arith::Xor, square, sign);
    let e = exp(b, square);
    let p = b.two(Arith::Mul, p, e);
    let big = b.two(Arith::Sub, one, p);
    let m = b.push(Vop::Compare(LT, a, edge));
    let y = b.push(Vop::Select(m, small, big));
    copysign(b, y, x)
}
