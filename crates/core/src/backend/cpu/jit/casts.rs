//! Conversions of type in lanes.

use super::{
    body::{Arith, Body, Direction, Form, V, Vop},
    functions,
    values::{Lanes, lanes},
};
use crate::DType;

/// A conversion of type; none if a loop cannot hold it.
pub fn cast(b: &mut Body, from: DType, to: DType, x: V) -> Option<V> {
    if (from == DType::Bool) != b.ops[x].is_mask() {
        return None;
    }
    Some(match (lanes(from, b.width)?, lanes(to, b.width)?) {
        (Lanes::Halves, _) | (_, Lanes::Halves) => return None,
        (Lanes::Bits, Lanes::Bits) => x,
        (Lanes::Bits, kind) => {
            let one = if kind == Lanes::Integers { b.bits(1) } else { b.number(1.0) };
            let zero = b.bits(0);
            b.push(Vop::Select(x, one, zero))
        }
        (Lanes::Floats | Lanes::Singles, Lanes::Bits) => {
            let zero = b.number(0.0);
            b.push(Vop::Compare(functions::NE, x, zero))
        }
        (Lanes::Integers, Lanes::Bits) => {
            let zero = b.bits(0);
            b.push(Vop::CompareI(functions::NE, x, zero))
        }
        (Lanes::Integers, Lanes::Integers) => wrapped(b, to, x),
        // What 64 bits would hold, and of that the lowest.
        (Lanes::Floats | Lanes::Singles, Lanes::Integers) => {
            let whole = if b.wide() { truncated(b, x, to) } else { truncated_low(b, x, to) };
            wrapped(b, to, whole)
        }
        // As the interpreter does: a double first.
        (Lanes::Integers, Lanes::Floats | Lanes::Singles) => {
            let float = b.push(Vop::ToFloat(x));
            rounded(b, to, float)
        }
        (Lanes::Singles, _) if to == DType::F32 => x,
        (Lanes::Floats | Lanes::Singles, Lanes::Floats | Lanes::Singles) => rounded(b, to, x),
    })
}

/// A float as a type of floats holds it.
fn rounded(b: &mut Body, to: DType, x: V) -> V {
    match to {
        DType::F16 => b.push(Vop::Halve(x)),
        DType::BF16 => b.push(Vop::Upper(x)),
        DType::F32 if b.wide() => b.push(Vop::Single(x)),
        _ => x,
    }
}

/// What a value of this type was before it was rounded or cut off, where a store does that again.
pub fn before(b: &Body, dtype: DType, x: V) -> V {
    let cut = |shift: u8| match b.ops[x] {
        Vop::Shift(Direction::Right, up, n) if n == shift => match b.ops[up] {
            Vop::Shift(Direction::Left, whole, n) if n == shift => whole,
            _ => x,
        },
        _ => x,
    };
    match (dtype, b.ops[x]) {
        (DType::F32, Vop::Single(float)) if b.wide() => float,
        (DType::F16, Vop::Halve(float)) | (DType::BF16, Vop::Upper(float)) => float,
        (DType::U8, Vop::Two(Arith::And, whole, c)) if b.ops[c] == Vop::Const(0xff) => whole,
        (DType::I32, _) if b.wide() => cut(32),
        (DType::I16, _) => cut(if b.wide() { 48 } else { 16 }),
        (DType::I8, _) => cut(if b.wide() { 56 } else { 24 }),
        _ => x,
    }
}

/// Whether floats have no lower halves: they come from 16 bits, and nothing has happened to them but signs and choices, of
/// which it looks at so many.
pub fn is_upper(b: &Body, x: V, depth: usize) -> bool {
    let all = |vs: &[V]| depth > 0 && vs.iter().all(|&v| is_upper(b, v, depth - 1));
    !b.wide()
        && match b.ops[x] {
            Vop::Shift(Direction::Left, words, 16) => matches!(b.ops[words], Vop::Widen(Form::Words(false), _)),
            Vop::Const(bits) => bits & 0xffff == 0,
            Vop::Two(Arith::And, float, _) => all(&[float]),
            Vop::Two(Arith::Or | Arith::Xor | Arith::Max | Arith::Min, p, q)
            | Vop::Signed(p, q, _)
            | Vop::Select(_, p, q) => all(&[p, q]),
            _ => false,
        }
}

/// Doubles cut off to integers of 64 bits: the nearest there is where they are too large, 0 for NaN. (Where fewer bits are
/// wanted, those that the instruction leaves for NaN are 0.)
fn truncated(b: &mut Body, x: V, to: DType) -> V {
    let (top, most, zero) = (b.number(9_223_372_036_854_775_808.0), b.bits(i64::MAX), b.bits(0));
    let whole = b.push(Vop::ToInteger(x));
    let large = b.push(Vop::Compare(functions::GE, x, top));
    let whole = b.push(Vop::Select(large, most, whole));
    if to != DType::I64 {
        return whole;
    }
    let nan = functions::is_nan(b, x);
    b.push(Vop::Select(nan, zero, whole))
}

/// Floats cut off to integers of 64 bits as by [`truncated`]: as many of the lowest bits as a type has.
fn truncated_low(b: &mut Body, x: V, to: DType) -> V {
    let (far, ones) = (b.number(9_223_372_036_854_775_808.0), b.bits(-1));
    // What is too large for 32 bits has no lower ones, and the instruction gives none.
    let part = match to {
        DType::I8 | DType::U8 => x,
        // Nor has a bf16 of that size any below 2^24.
        DType::I16 if is_upper(b, x, 0) => x,
        _ => {
            // Multiples of 2^32 taken away, exactly; of what is no number, all.
            let (least, down, up) =
                (b.number(-9_223_372_036_854_775_808.0), b.number(2f64.powi(-32)), b.number(-(2f64.powi(32))));
            let number = b.two(Arith::Max, x, least);
            let times = b.two(Arith::Mul, number, down);
            let times = b.push(Vop::Round(8, times));
            b.push(Vop::Fma(times, up, number))
        }
    };
    let whole = b.push(Vop::ToInteger(part));
    let most = b.push(Vop::Compare(functions::GE, x, far));
    b.push(Vop::Select(most, ones, whole))
}

/// Brought into the range of a type.
pub fn wrapped(b: &mut Body, dtype: DType, x: V) -> V {
    let bits = match dtype {
        _ if b.width.many() => return x,
        DType::I32 if b.wide() => 32,
        DType::I16 if b.wide() => 48,
        DType::I8 if b.wide() => 56,
        DType::I16 => 16,
        DType::I8 => 24,
        DType::U8 => {
            let byte = b.bits(0xff);
            return b.two(Arith::And, x, byte);
        }
        _ => return x,
    };
    let up = b.push(Vop::Shift(Direction::Left, x, bits));
    b.push(Vop::Shift(Direction::Right, up, bits))
}
