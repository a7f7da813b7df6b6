//! The elementwise rows that a loop can hold, as vector operations: the same operations in the same order as the scalar
//! functions of `gradus-math`, so the same bits. A test compares them over all kinds of floats.

use super::{
    body::{Arith, Body, Direction, Folding, Logic, V, Vop},
    doubles, logarithms,
};
use gradus_math::f32::{
    coefficients as co,
    parts::{self, Parts},
};

pub(super) const LT: u8 = 0x11;
pub(super) const LE: u8 = 0x12;
pub(super) const GT: u8 = 0x1e;
pub(super) const GE: u8 = 0x1d;
pub(super) const EQ: u8 = 0;
/// Not equal, or not comparable.
pub const NE: u8 = 4;
const UNORDERED: u8 = 3;

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
            let sign = b.sign();
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
        // Intel's ways: down, up, to zero, to the nearest with halves to even; no exceptions.
        "floor" => b.push(Vop::Round(9, x[0])),
        "ceil" => b.push(Vop::Round(10, x[0])),
        "trunc" => b.push(Vop::Round(11, x[0])),
        "round" => b.push(Vop::Round(8, x[0])),
        "fma" => b.push(Vop::Fma(x[0], x[1], x[2])),
        "copysign" => copysign(b, x[0], x[1]),
        "sign" => {
            let (zero, one, less) = (b.number(0.0), b.number(1.0), b.number(-1.0));
            let m = b.push(Vop::Compare(LT, x[0], zero));
            let y = b.push(Vop::Select(m, less, zero));
            let m = b.push(Vop::Compare(GT, x[0], zero));
            b.push(Vop::Select(m, one, y))
        }
        "fmax" => chosen(b, GE, x[0], x[1]),
        "fmin" => chosen(b, LE, x[0], x[1]),
        "eq" => compare(b, EQ),
        "ne" => compare(b, NE),
        "lt" => compare(b, LT),
        "le" => compare(b, LE),
        "gt" => compare(b, GT),
        "ge" => compare(b, GE),
        "where" => b.push(Vop::Select(x[0], x[1], x[2])),
        _ if b.wide() => return doubles::row(b, name, x),
        "exp" => exp(b, x[0]),
        "sigmoid" => sigmoid(b, x[0], exp),
        "tanh" => by_parts(b, x[0], &parts::TANH),
        "atan" => atan(b, x[0]),
        "expm1" => expm1(b, x[0], [-20.0, 89.0, 1e-10], half_expm1),
        "exp2" => exp2(b, x[0]),
        "log" => logarithms::log(b, x[0]),
        "log2" => logarithms::to_base(b, x[0], &co::LOG2_TWO, &co::LOG2_INV),
        "log10" => logarithms::to_base(b, x[0], &co::LOG10_TWO, &co::LOG10_INV),
        "log1p" => logarithms::log1p(b, x[0]),
        "softplus" => logarithms::softplus(b, x[0]),
        "erf" => by_parts(b, x[0], &parts::ERF),
        _ => return None,
    })
}

/// One more element for an accumulator.
pub fn fold(b: &mut Body, how: Folding, acc: V, x: V) -> V {
    match how {
        Folding::Sum => b.two(Arith::Add, acc, x),
        Folding::Prod => b.two(Arith::Mul, acc, x),
        Folding::Max => extreme(b, Arith::Max, acc, x),
        Folding::Min => extreme(b, Arith::Min, acc, x),
        Folding::SumI => b.two(Arith::AddI, acc, x),
        Folding::ProdI => b.two(Arith::MulI, acc, x),
        Folding::MaxI => b.two(Arith::MaxI, acc, x),
        Folding::MinI => b.two(Arith::MinI, acc, x),
    }
}

/// `a > b || a.is_nan() ? a : b` and its mirror image.
pub fn extreme(b: &mut Body, op: Arith, x: V, y: V) -> V {
    let (m, nan) = (b.two(op, x, y), is_nan(b, x));
    b.push(Vop::Select(nan, x, m))
}

/// The first where it compares so, or the second is a NaN.
fn chosen(b: &mut Body, predicate: u8, x: V, y: V) -> V {
    let (m, nan) = (b.push(Vop::Compare(predicate, x, y)), is_nan(b, y));
    let m = b.push(Vop::Masks(Logic::Or, m, nan));
    b.push(Vop::Select(m, x, y))
}

/// Where NaN.
pub fn is_nan(b: &mut Body, x: V) -> V {
    b.push(Vop::Compare(UNORDERED, x, x))
}

pub(super) fn abs(b: &mut Body, x: V) -> V {
    let rest = b.magnitude();
    b.two(Arith::And, x, rest)
}

pub(super) fn poly<T: Into<f64> + Copy>(b: &mut Body, x: V, c: &[T]) -> V {
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

pub(super) fn exp(b: &mut Body, x: V) -> V {
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

fn exp2(b: &mut Body, x: V) -> V {
    let (low, high, one, magic) = (b.number(-151.0), b.number(129.0), b.number(1.0), b.number(co::MAGIC));
    let x = b.two(Arith::Max, low, x);
    let x = b.two(Arith::Min, high, x);
    let k = b.two(Arith::Add, x, magic);
    let n = b.two(Arith::Sub, k, magic);
    let r = b.two(Arith::Sub, x, n);
    let q = poly(b, r, &co::EXP2);
    let p = b.push(Vop::Fma(q, r, one));
    b.two(Arith::Scale, p, n)
}

/// By the `exp` of either width.
pub(super) fn sigmoid(b: &mut Body, x: V, exp: fn(&mut Body, V) -> V) -> V {
    let (sign, zero, one) = (b.sign(), b.number(0.0), b.number(1.0));
    let minus = b.two(Arith::Or, x, sign);
    let e = exp(b, minus);
    let m = b.push(Vop::Compare(LT, x, zero));
    let num = b.push(Vop::Select(m, e, one));
    let below = b.two(Arith::Add, one, e);
    b.two(Arith::Div, num, below)
}

/// `2^n` from the bits of `n + MAGIC`.
fn power_of_two(b: &mut Body, k: V) -> V {
    let bias = b.push(Vop::Const(127));
    let s = b.two(Arith::AddI, k, bias);
    b.push(Vop::Shift(Direction::Left, s, 23))
}

/// The magnitude of one, the sign of the other.
pub(super) fn copysign(b: &mut Body, y: V, x: V) -> V {
    let sign = b.sign();
    b.push(Vop::Signed(y, x, sign))
}

fn atan(b: &mut Body, x: V) -> V {
    let (zero, one, half, top) = (b.number(0.0), b.number(1.0), b.number(-0.5), b.number(co::ATAN_TOP));
    let (turn, rest) = (b.number(std::f32::consts::FRAC_PI_2), b.number(co::ATAN_LOW));
    let a = abs(b, x);
    let a = b.two(Arith::Min, top, a);
    let big = b.push(Vop::Compare(GT, a, one));
    let num = b.push(Vop::Select(big, one, a));
    let below = b.push(Vop::Select(big, a, one));
    let q = b.two(Arith::Div, num, below);
    let lost = b.push(Vop::Less(q, below, num));
    let lost = b.two(Arith::Mul, lost, q);
    let z = b.two(Arith::Mul, q, q);
    let p = poly(b, z, &co::ATAN);
    let slope = b.push(Vop::Fma(z, half, one));
    let rest = b.push(Vop::Select(big, rest, zero));
    let low = b.push(Vop::Fma(lost, slope, rest));
    let cube = b.two(Arith::Mul, q, z);
    let y = b.push(Vop::Fma(cube, p, low));
    let y = b.two(Arith::Add, q, y);
    let other = b.two(Arith::Sub, turn, y);
    let y = b.push(Vop::Select(big, other, y));
    copysign(b, y, x)
}

/// By half of it within these bounds, for either width; below the last number `x` is what is nearest.
pub(super) fn expm1(b: &mut Body, x: V, [low, high, least]: [f64; 3], half: fn(&mut Body, V) -> V) -> V {
    let (low, high, two, least) = (b.number(low), b.number(high), b.number(2.0), b.number(least));
    let c = b.two(Arith::Max, low, x);
    let c = b.two(Arith::Min, high, c);
    let y = half(b, c);
    let y = b.two(Arith::Mul, two, y);
    let a = abs(b, x);
    let m = b.push(Vop::Compare(LT, a, least));
    b.push(Vop::Select(m, x, y))
}

/// Half of `e^x - 1`: all of it might be too large a number.
fn half_expm1(b: &mut Body, x: V) -> V {
    let (one, half) = (b.number(1.0), b.number(0.5));
    let (k, r) = reduce(b, x);
    let q = poly(b, r, &co::EXPM1);
    let square = b.two(Arith::Mul, r, r);
    let p = b.push(Vop::Fma(square, q, r));
    let k = b.two(Arith::Sub, k, one);
    let s = power_of_two(b, k);
    let less = b.two(Arith::Sub, s, half);
    b.push(Vop::Fma(p, s, less))
}

/// An odd function by parts.
fn by_parts<const N: usize>(b: &mut Body, x: V, p: &'static Parts<N>) -> V {
    let (top, parts, width, magic) = (b.number(p.top), b.number(p.parts), b.number(p.width), b.number(co::MAGIC));
    let (zero, a) = (b.number(0.0), abs(b, x));
    let a = b.two(Arith::Min, top, a);
    let k = b.push(Vop::Fma(a, parts, magic));
    let part = b.two(Arith::Sub, k, magic);
    let t = b.push(Vop::Less(part, width, a));
    let mut q = b.push(Vop::LookUp(&p.tables[N - 1], k));
    for table in p.tables[1..N - 1].iter().rev() {
        let c = b.push(Vop::LookUp(table, k));
        q = b.push(Vop::Fma(q, t, c));
    }
    let c = b.push(Vop::LookUp(&p.tables[0], k));
    let m = b.push(Vop::Compare(EQ, part, zero));
    let c = b.push(Vop::Select(m, t, c));
    let y = b.push(Vop::Fma(q, t, c));
    copysign(b, y, x)
}
