//! A kernel's instructions as vector operations, by the types of their values.
//!
//! Lanes have 32 bits: floats (those of 16 bits are widened where they are loaded) or integers of at most 32. Or they have
//! 64: then floats are doubles, integers are as the interpreter holds them, and floats of 32 bits are held exactly but take no
//! part in arithmetic. Bools are masks.

use super::{
    body::{Arith, Body, Direction, Form, Logic, V, Vop},
    functions,
};
use crate::{
    DType, Scalar,
    kernel::{InstKind, Kernel, Val, oracle},
    op::ewise,
};

/// What lanes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Floats.
    Floats,
    /// Floats of 32 bits in wide lanes: they are loaded, converted and stored.
    Singles,
    /// Integers.
    Integers,
    /// Nothing: a bit of a mask each.
    Bits,
}

/// How values of a type lie in registers of wide lanes or others, if they do.
pub fn lanes(dtype: DType, wide: bool) -> Option<Lanes> {
    match dtype {
        DType::F32 if wide => Some(Lanes::Singles),
        DType::F64 if wide => Some(Lanes::Floats),
        DType::I64 if wide => Some(Lanes::Integers),
        DType::F16 | DType::BF16 if wide => None,
        DType::F32 | DType::F16 | DType::BF16 => Some(Lanes::Floats),
        DType::I32 | DType::I16 | DType::I8 | DType::U8 => Some(Lanes::Integers),
        DType::Bool => Some(Lanes::Bits),
        DType::F64 | DType::I64 => None,
    }
}

/// Whether [`compute`] knows an instruction.
pub fn knows(k: &Kernel, v: Val) -> bool {
    let mut b = Body::default();
    let operand = |b: &mut Body, o: Val| {
        lanes(k.insts[o].dtype, false)?;
        let p = b.pointer();
        Some(if k.insts[o].dtype == DType::Bool { b.push(Vop::InMask(p)) } else { b.push(Vop::In(p)) })
    };
    let x = k.operands(v).iter().map(|&o| operand(&mut b, o)).collect::<Option<Vec<V>>>();
    x.is_some_and(|x| compute(&mut b, k, v, &x).is_some())
}

/// An elementwise function or a conversion on these operands; none if a loop cannot hold it.
pub fn compute(b: &mut Body, k: &Kernel, v: Val, x: &[V]) -> Option<V> {
    let dtype = k.insts[v].dtype;
    lanes(dtype, b.wide)?;
    match &k.insts[v].kind {
        InstKind::Ewise(row, vals) => {
            let right = |(&o, &x): (&Val, &V)| (k.insts[o].dtype == DType::Bool) == b.ops[x].is_mask();
            if !vals.iter().zip(x).all(right) {
                return None;
            }
            let over = if row.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { dtype };
            match lanes(over, b.wide)? {
                Lanes::Bits => logic(b, row.name, x),
                _ if row.name == "where" => Some(b.push(Vop::Select(x[0], x[1], x[2]))),
                Lanes::Floats => functions::row(b, row.name, x),
                Lanes::Singles => None,
                Lanes::Integers => integers(b, row.name, dtype, x),
            }
        }
        InstKind::Cast(o) => cast(b, k.insts[*o].dtype, dtype, x[0]),
        InstKind::Const(_)
        | InstKind::Param(_)
        | InstKind::Load { .. }
        | InstKind::Reduce(..)
        | InstKind::Store { .. } => None,
    }
}

/// A number that stays the same.
pub fn constant(b: &mut Body, x: Scalar, dtype: DType) -> Option<V> {
    match lanes(dtype, b.wide)? {
        Lanes::Floats if b.wide => Some(b.number(x.f64())),
        Lanes::Floats | Lanes::Singles => Some(b.number(x.f64() as f32)),
        Lanes::Integers => Some(b.bits(oracle::wrap(x.i64(), dtype))),
        Lanes::Bits => None,
    }
}

/// A vector of elements that follow each other at a pointer of the table.
pub fn load(b: &mut Body, dtype: DType, p: usize) -> Option<V> {
    Some(match dtype {
        DType::F64 | DType::I64 if !b.wide => return None,
        DType::F16 | DType::BF16 if b.wide => return None,
        DType::F32 if b.wide => b.push(Vop::Widen(Form::Single, p)),
        DType::I32 if b.wide => b.push(Vop::Widen(Form::Ints, p)),
        DType::F32 | DType::I32 | DType::F64 | DType::I64 => b.push(Vop::In(p)),
        DType::F16 => b.push(Vop::Widen(Form::Half, p)),
        DType::BF16 => {
            let words = b.push(Vop::Widen(Form::Words(false), p));
            b.push(Vop::Shift(Direction::Left, words, 16))
        }
        DType::I16 => b.push(Vop::Widen(Form::Words(true), p)),
        DType::I8 => b.push(Vop::Widen(Form::Bytes(true), p)),
        DType::U8 => b.push(Vop::Widen(Form::Bytes(false), p)),
        DType::Bool => b.push(Vop::InMask(p)),
    })
}

/// Writes a vector of elements.
pub fn store(b: &mut Body, dtype: DType, p: usize, x: V) -> Option<()> {
    if (dtype == DType::Bool) != b.ops[x].is_mask() {
        return None;
    }
    let op = match dtype {
        DType::F64 | DType::I64 if !b.wide => return None,
        DType::F16 | DType::BF16 if b.wide => return None,
        // The store rounds.
        DType::F32 if b.wide => match b.ops[x] {
            Vop::Single(double) => Vop::Narrow(Form::Single, p, double),
            _ => Vop::Narrow(Form::Single, p, x),
        },
        DType::I32 if b.wide => Vop::Narrow(Form::Ints, p, x),
        DType::F32 | DType::I32 | DType::F64 | DType::I64 => Vop::Out(p, x),
        DType::F16 => Vop::Narrow(Form::Half, p, x),
        DType::BF16 => {
            let near = nearest_upper(b, x);
            let words = b.push(Vop::Shift(Direction::Logical, near, 16));
            Vop::Narrow(Form::Words(false), p, words)
        }
        DType::I16 => Vop::Narrow(Form::Words(true), p, x),
        DType::I8 | DType::U8 => Vop::Narrow(Form::Bytes(true), p, x),
        DType::Bool => {
            let ones = b.push(Vop::Const(1));
            Vop::OutMask(p, x, ones)
        }
    };
    b.push(op);
    Some(())
}

/// Writes one number.
pub fn store_one(b: &mut Body, dtype: DType, p: usize, x: V) -> Option<()> {
    let op = match dtype {
        DType::F64 | DType::I64 if !b.wide => return None,
        DType::F16 | DType::BF16 if b.wide => return None,
        DType::F32 if b.wide => Vop::NarrowOne(Form::Single, p, x),
        DType::I32 if b.wide => Vop::NarrowOne(Form::Ints, p, x),
        DType::F32 | DType::I32 | DType::F64 | DType::I64 => Vop::OutOne(p, 0, x),
        DType::F16 => Vop::NarrowOne(Form::Half, p, x),
        DType::BF16 => {
            let near = nearest_upper(b, x);
            let words = b.push(Vop::Shift(Direction::Logical, near, 16));
            Vop::NarrowOne(Form::Words(false), p, words)
        }
        DType::I16 => Vop::NarrowOne(Form::Words(true), p, x),
        DType::I8 | DType::U8 => Vop::NarrowOne(Form::Bytes(true), p, x),
        DType::Bool => return None,
    };
    b.push(op);
    Some(())
}

/// Floats whose upper halves are those of the nearest numbers without lower ones; NaNs stay NaNs.
fn nearest_upper(b: &mut Body, x: V) -> V {
    let (one, half, quiet) = (b.push(Vop::Const(1)), b.push(Vop::Const(0x7fff)), b.push(Vop::Const(0x0040_0000)));
    let odd = b.push(Vop::Shift(Direction::Logical, x, 16));
    let odd = b.two(Arith::And, odd, one);
    let sum = b.two(Arith::AddI, x, half);
    let sum = b.two(Arith::AddI, sum, odd);
    let (nan, kept) = (functions::is_nan(b, x), b.two(Arith::Or, x, quiet));
    b.push(Vop::Select(nan, kept, sum))
}

fn cast(b: &mut Body, from: DType, to: DType, x: V) -> Option<V> {
    if (from == DType::Bool) != b.ops[x].is_mask() {
        return None;
    }
    Some(match (lanes(from, b.wide)?, lanes(to, b.wide)?) {
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
            let whole = if b.wide { truncated(b, x) } else { truncated_low(b, x) };
            wrapped(b, to, whole)
        }
        (Lanes::Integers, Lanes::Floats) if !b.wide && to != DType::F32 => return None,
        (Lanes::Integers, Lanes::Floats) => b.push(Vop::ToFloat(x)),
        // As the interpreter does: a double first.
        (Lanes::Integers, Lanes::Singles) => {
            let double = b.push(Vop::ToFloat(x));
            b.push(Vop::Single(double))
        }
        (Lanes::Floats, Lanes::Singles) => b.push(Vop::Single(x)),
        (Lanes::Singles, Lanes::Floats | Lanes::Singles) => x,
        (Lanes::Floats, Lanes::Floats) => match to {
            DType::F16 => b.push(Vop::Halve(x)),
            DType::BF16 => {
                let (near, upper) = (nearest_upper(b, x), b.push(Vop::Const(0xffff_0000)));
                b.two(Arith::And, near, upper)
            }
            _ => x,
        },
    })
}

/// Doubles cut off to integers of 64 bits: the nearest there is where they are too large, 0 for NaN.
fn truncated(b: &mut Body, x: V) -> V {
    let (top, most, zero) = (b.number(9_223_372_036_854_775_808.0), b.bits(i64::MAX), b.bits(0));
    let whole = b.push(Vop::ToInteger(x));
    let large = b.push(Vop::Compare(functions::GE, x, top));
    let whole = b.push(Vop::Select(large, most, whole));
    let nan = functions::is_nan(b, x);
    b.push(Vop::Select(nan, zero, whole))
}

/// Floats cut off to integers of 64 bits as by [`truncated`]: their lower halves.
fn truncated_low(b: &mut Body, x: V) -> V {
    let (top, far, zero, ones) = (b.number(2_147_483_648.0), b.number(9.223_372e18), b.bits(0), b.bits(-1));
    let a = functions::abs(b, x);
    let fits = b.push(Vop::Compare(functions::LT, a, top));
    let whole = b.push(Vop::ToInteger(x));
    // The digits of a large one end before those of a whole number do: shifted to their place, or out of sight.
    let (digits, first, bias) = (b.bits(0x007f_ffff), b.bits(0x0080_0000), b.bits(150));
    let exponent = b.push(Vop::Shift(Direction::Logical, a, 23));
    let places = b.two(Arith::SubI, exponent, bias);
    let number = b.two(Arith::And, x, digits);
    let number = b.two(Arith::Or, number, first);
    let large = b.two(Arith::ShiftLeft, number, places);
    let minus = b.two(Arith::SubI, zero, large);
    let below = b.push(Vop::Compare(functions::LT, x, zero));
    let large = b.push(Vop::Select(below, minus, large));
    let whole = b.push(Vop::Select(fits, whole, large));
    let most = b.push(Vop::Compare(functions::GE, x, far));
    b.push(Vop::Select(most, ones, whole))
}

/// Brought into the range of a type.
fn wrapped(b: &mut Body, dtype: DType, x: V) -> V {
    let bits = match dtype {
        DType::I32 if b.wide => 32,
        DType::I16 if b.wide => 48,
        DType::I8 if b.wide => 56,
        DType::I16 => 16,
        DType::I8 => 24,
        DType::U8 => {
            let byte = b.push(Vop::Const(0xff));
            return b.two(Arith::And, x, byte);
        }
        _ => return x,
    };
    let up = b.push(Vop::Shift(Direction::Left, x, bits));
    b.push(Vop::Shift(Direction::Right, up, bits))
}

fn integers(b: &mut Body, name: &str, dtype: DType, x: &[V]) -> Option<V> {
    let compare = |b: &mut Body, p: u8| Some(b.push(Vop::CompareI(p, x[0], x[1])));
    let y = match name {
        "add" => b.two(Arith::AddI, x[0], x[1]),
        "sub" => b.two(Arith::SubI, x[0], x[1]),
        "mul" => b.two(Arith::MulI, x[0], x[1]),
        "neg" | "abs" => {
            let zero = b.push(Vop::Const(0));
            let minus = b.two(Arith::SubI, zero, x[0]);
            if name == "neg" { minus } else { b.two(Arith::MaxI, x[0], minus) }
        }
        "maximum" => b.two(Arith::MaxI, x[0], x[1]),
        "minimum" => b.two(Arith::MinI, x[0], x[1]),
        "bitwise_and" => b.two(Arith::And, x[0], x[1]),
        "bitwise_or" => b.two(Arith::Or, x[0], x[1]),
        "bitwise_xor" => b.two(Arith::Xor, x[0], x[1]),
        // Counts outside the width shift everything out: the instructions take them for large ones.
        "bitwise_left_shift" => b.two(Arith::ShiftLeft, x[0], x[1]),
        "bitwise_right_shift" => b.two(Arith::ShiftRight, x[0], x[1]),
        "bitwise_not" => {
            let all = b.bits(-1);
            b.two(Arith::Xor, x[0], all)
        }
        // Intel's numbers: equal, less, less or equal, not equal, not less, not less or equal.
        "eq" => return compare(b, 0),
        "lt" => return compare(b, 1),
        "le" => return compare(b, 2),
        "ne" => return compare(b, 4),
        "ge" => return compare(b, 5),
        "gt" => return compare(b, 6),
        _ => return None,
    };
    Some(wrapped(b, dtype, y))
}

fn logic(b: &mut Body, name: &str, x: &[V]) -> Option<V> {
    let how = match name {
        "logical_and" | "bitwise_and" => Logic::And,
        "logical_or" | "bitwise_or" => Logic::Or,
        "logical_xor" | "bitwise_xor" | "ne" => Logic::Xor,
        "eq" => Logic::Xnor,
        "logical_not" | "bitwise_not" => return Some(b.push(Vop::Masks(Logic::Not, x[0], x[0]))),
        _ => return None,
    };
    Some(b.push(Vop::Masks(how, x[0], x[1])))
}
