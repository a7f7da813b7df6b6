//! The elementwise rows that a loop can hold, as vector operations: the same operations in the same order as the scalar
//! functions of `gradus-math`, so the same bits. A test compares them over all kinds of floats.

use super::body::{Arith, Body, V, Vop};
use gradus_math::f32::coefficients as co;

const LT: u8 = 0x11;
const LE: u8 = 0x12;
const GT: u8 = 0x1e;
const GE: u8 = 0x1d;
const EQ: u8 = 0;
const NE: u8 = 4;
const UNORDERED: u8 = 3;
const SIGN: u32 = 0x8000_0000;

/// A row on these operands; none if a loop cannot hold it.
pub fn row(b: &mut Body, name: &str, x: &[V]) -> Option<V> {
    let two = |b: &mut Body, op: Arith| b.two(op, x[0], x[1]);
    let compare = |b: &mut Body, p: u8| b.push(Vop::Compare(p, x[0], x[1]));
    Some(match name {
        "add" => two(b, Arith::Add),
        "sub" => two(b, Arith::Sub),
        "mul" => two(b, Arith::Mul),
        "div" => two(b, Arith::Div),
        "neg" => {
            let sign = b.push(Vop::Const(SIGN));
            b.two(Arith::Xor, x[0], sign)
        }
        "abs" => abs(b, x[0]),
        "maximum" => extreme(b, Arith::Max, x[0], x[1]),
        "minimum" => extreme(b, Arith::Min, x[0], x[1]),
        "reciprocal" => {
            let one = b.number(1.0);
            b.two(Arith::Div, one, x[0])
        }
        "sqrt" => b.push(Vop::Sqrt(x[0])),
        "rsqrt" => {
            let (one, root) = (b.number(1.0), b.push(Vop::Sqrt(x[0])));
            b.two(Arith::Div, one, root)
        }
        "relu" => {
            let zero = b.number(0.0);
            let m = b.push(Vop::Compare(LE, x[0], zero));
            b.push(Vop::Select(m, zero, x[0]))
        }
        "fma" => b.push(Vop::Fma(x[0], x[1], x[2])),
        "eq" => compare(b, EQ),
        "ne" => compare(b, NE),
        "lt" => compare(b, LT),
        "le" => compare(b, LE),
        "gt" => compare(b, GT),
        "ge" => compare(b, GE),
        "where" => b.push(Vop::Select(x[0], x[1], x[2])),
        "exp" => exp(b, x[0]),
        "sigmoid" => sigmoid(b, x[0]),
        "tanh" => tanh(b, x[0]),
        _ => return None,
    })
}

/// Whether [`row`] knows a name.
pub fn knows(name: &str) -> bool {
    row(&mut Body::default(), name, &[0, 0, 0]).is_some()
}

/// `a > b || a.is_nan() ? a : b` and its mirror image.
pub fn extreme(b: &mut Body, op: Arith, x: V, y: V) -> V {
    let (m, nan) = (b.two(op, x, y), b.push(Vop::Compare(UNORDERED, x, x)));
    b.push(Vop::Select(nan, x, m))
}

fn abs(b: &mut Body, x: V) -> V {
    let rest = b.push(Vop::Const(!SIGN));
    b.two(Arith::And, x, rest)
}

fn poly(b: &mut Body, x: V, c: &[f32]) -> V {
    let mut q = b.number(c[c.len() - 1]);
    for &k in c[..c.len() - 1].iter().rev() {
        let k = b.number(k);
        q = b.push(Vop::Fma(q, x, k));
    }
    q
}

/// (n + MAGIC, r) with x = n ln 2 + r.
fn reduce(b: &mut Body, x: V) -> (V, V) {
    let (log2e, magic) = (b.number(std::f32::consts::LOG2_E), b.number(co::MAGIC));
    let k = b.push(Vop::Fma(x, log2e, magic));
    let n = b.two(Arith::Sub, k, magic);
    let (hi, lo) = (b.number(-co::LN2_HI), b.number(-co::LN2_LO));
    let r = b.push(Vop::Fma(n, hi, x));
    (k, b.push(Vop::Fma(n, lo, r)))
}

fn exp(b: &mut Body, x: V) -> V {
    let (low, high, one) = (b.number(-104.0), b.number(89.0), b.number(1.0));
    let x = b.two(Arith::Max, low, x);
    let x = b.two(Arith::Min, high, x);
    let (k, r) = reduce(b, x);
    let q = poly(b, r, &co::EXP);
    let square = b.two(Arith::Mul, r, r);
    let p = b.push(Vop::Fma(square, q, r));
    let p = b.two(Arith::Add, p, one);
    // Times 2^n, rounded once as by two multiplications.
    let magic = b.number(co::MAGIC);
    let n = b.two(Arith::Sub, k, magic);
    b.two(Arith::Scale, p, n)
}

fn sigmoid(b: &mut Body, x: V) -> V {
    let (sign, zero, one) = (b.push(Vop::Const(SIGN)), b.number(0.0), b.number(1.0));
    let minus = b.two(Arith::Or, x, sign);
    let e = exp(b, minus);
    let m = b.push(Vop::Compare(LT, x, zero));
    let num = b.push(Vop::Select(m, e, one));
    let below = b.two(Arith::Add, one, e);
    b.two(Arith::Div, num, below)
}

fn tanh(b: &mut Body, x: V) -> V {
    let (one, two, top, edge) = (b.number(1.0), b.number(2.0), b.number(9.5), b.number(0.55));
    let a = abs(b, x);
    let z = b.two(Arith::Mul, a, a);
    let q = poly(b, z, &co::TANH_SMALL);
    let za = b.two(Arith::Mul, z, a);
    let small = b.push(Vop::Fma(za, q, a));
    let c = b.two(Arith::Min, top, a);
    let c = b.two(Arith::Add, c, c);
    let (k, r) = reduce(b, c);
    let q = poly(b, r, &co::EXPM1);
    let square = b.two(Arith::Mul, r, r);
    let p = b.push(Vop::Fma(square, q, r));
    let bias = b.push(Vop::Const(127));
    let s = b.two(Arith::AddI, k, bias);
    let s = b.push(Vop::Shift(true, s, 23));
    let less = b.two(Arith::Sub, s, one);
    let e = b.push(Vop::Fma(p, s, less));
    let below = b.two(Arith::Add, e, two);
    let big = b.two(Arith::Div, e, below);
    let m = b.push(Vop::Compare(LT, a, edge));
    let y = b.push(Vop::Select(m, small, big));
    let (sign, rest) = (b.push(Vop::Const(SIGN)), b.push(Vop::Const(!SIGN)));
    let (magnitude, sign) = (b.two(Arith::And, y, rest), b.two(Arith::And, x, sign));
    b.two(Arith::Or, magnitude, sign)
}
