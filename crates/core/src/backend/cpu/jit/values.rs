//! A kernel's instructions as vector operations, by the types of their values.
//!
//! Lanes have 32 bits: floats (those of 16 bits are widened where they are loaded) or integers of at most 32. Or they have
//! 64: then floats are doubles, integers are as the interpreter holds them, and floats of 32 bits (or 16) are held exactly but
//! take no part in arithmetic. Or 8 or 16, where all values have as many bits ([`bytes`]). Bools are masks.

use super::{
    body::{Arith, Body, Direction, Form, Logic, V, Vop},
    bytes, casts, functions,
    width::Width,
};
use crate::{
    DType, Scalar,
    kernel::{InstKind, Kernel, Val, oracle},
    op::ewise,
};

/// Functions whose results are operands, or those with another sign.
const EXACT: [&str; 5] = ["maximum", "minimum", "neg", "abs", "relu"];

/// What lanes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Floats.
    Floats,
    /// Floats of 32 bits in wide lanes: they are loaded, converted and stored.
    Singles,
    /// Integers.
    Integers,
    /// Floats of 16 bits as they are: they are moved, and signs change.
    Halves,
    /// Nothing: a bit of a mask each.
    Bits,
}

/// How values of a type lie in registers with lanes of this width, if they do.
pub fn lanes(dtype: DType, width: Width) -> Option<Lanes> {
    match (width, dtype) {
        (_, DType::Bool) => Some(Lanes::Bits),
        (Width::Word, DType::I16) => Some(Lanes::Integers),
        (Width::Word, DType::F16 | DType::BF16) => Some(Lanes::Halves),
        (Width::Word, _) => None,
        (_, DType::I8 | DType::U8) => Some(Lanes::Integers),
        (Width::Byte, _) => None,
        (Width::Double, DType::F32 | DType::F16 | DType::BF16) => Some(Lanes::Singles),
        (Width::Double, DType::F64) | (Width::Single, DType::F32 | DType::F16 | DType::BF16) => Some(Lanes::Floats),
        (Width::Double, DType::I64) | (_, DType::I32 | DType::I16) => Some(Lanes::Integers),
        (Width::Single, DType::F64 | DType::I64) => None,
    }
}

/// Whether [`compute`] knows an instruction.
pub fn knows(k: &Kernel, v: Val) -> bool {
    let mut b = Body::default();
    let operand = |b: &mut Body, o: Val| {
        lanes(k.insts[o].dtype, Width::Single)?;
        let p = b.pointer();
        Some(if k.insts[o].dtype == DType::Bool { b.push(Vop::InMask(p)) } else { b.push(Vop::In(p)) })
    };
    let x = k.operands(v).iter().map(|&o| operand(&mut b, o)).collect::<Option<Vec<V>>>();
    x.is_some_and(|x| compute(&mut b, k, v, &x).is_some())
}

/// An elementwise function or a conversion on these operands; none if a loop cannot hold it.
pub fn compute(b: &mut Body, k: &Kernel, v: Val, x: &[V]) -> Option<V> {
    let dtype = k.insts[v].dtype;
    lanes(dtype, b.width)?;
    match &k.insts[v].kind {
        InstKind::Ewise(row, vals) => {
            let right = |(&o, &x): (&Val, &V)| (k.insts[o].dtype == DType::Bool) == b.ops[x].is_mask();
            if !vals.iter().zip(x).all(right) {
                return None;
            }
            let over = if row.kind == ewise::Kind::Compare { k.insts[vals[0]].dtype } else { dtype };
            match lanes(over, b.width)? {
                Lanes::Bits => logic(b, row.name, x),
                _ if row.name == "where" => Some(b.push(Vop::Select(x[0], x[1], x[2]))),
                Lanes::Floats => functions::row(b, row.name, x),
                // What compares them or gives one of them is exact.
                Lanes::Singles if row.kind == ewise::Kind::Compare || EXACT.contains(&row.name) => {
                    functions::row(b, row.name, x)
                }
                Lanes::Singles => None,
                Lanes::Halves => halves(b, row.name, x),
                Lanes::Integers if b.width.many() => bytes::row(b, row.name, over, x),
                Lanes::Integers => integers(b, row.name, dtype, x),
            }
        }
        InstKind::Cast(o) => casts::cast(b, k.insts[*o].dtype, dtype, x[0]),
        InstKind::Const(_)
        | InstKind::Param(_)
        | InstKind::Load { .. }
        | InstKind::Reduce(..)
        | InstKind::Store { .. } => None,
    }
}

/// A number that stays the same.
pub fn constant(b: &mut Body, x: Scalar, dtype: DType) -> Option<V> {
    match lanes(dtype, b.width)? {
        Lanes::Floats if b.wide() => Some(b.number(x.f64())),
        Lanes::Floats | Lanes::Singles => Some(b.number(x.f64() as f32)),
        Lanes::Integers => Some(b.bits(oracle::wrap(x.i64(), dtype))),
        Lanes::Bits | Lanes::Halves => None,
    }
}

/// A vector of elements that follow each other at a pointer of the table.
pub fn load(b: &mut Body, dtype: DType, p: usize) -> Option<V> {
    lanes(dtype, b.width)?;
    Some(match dtype {
        DType::I16 | DType::F16 | DType::BF16 if b.width == Width::Word => b.push(Vop::In(p)),
        DType::BF16 if b.wide() => b.push(Vop::Widen(Form::Upper, p)),
        DType::I8 | DType::U8 if b.width == Width::Byte => b.push(Vop::In(p)),
        DType::F32 if b.wide() => b.push(Vop::Widen(Form::Single, p)),
        DType::I32 if b.wide() => b.push(Vop::Widen(Form::Ints, p)),
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
    lanes(dtype, b.width)?;
    if b.width == Width::Word && dtype != DType::Bool {
        b.push(Vop::Out(p, x));
        return Some(());
    }
    // The store rounds, or cuts off: what did so before it for nobody else is not computed.
    let x = casts::before(b, dtype, x);
    let op = match dtype {
        DType::I8 | DType::U8 if b.width == Width::Byte => Vop::Out(p, x),
        DType::F32 if b.wide() => Vop::Narrow(Form::Single, p, x),
        DType::I32 if b.wide() => Vop::Narrow(Form::Ints, p, x),
        DType::F32 | DType::I32 | DType::F64 | DType::I64 => Vop::Out(p, x),
        DType::F16 => Vop::Narrow(Form::Half, p, x),
        DType::BF16 if casts::is_upper(b, x, 4) => {
            let words = b.push(Vop::Shift(Direction::Logical, x, 16));
            Vop::Narrow(Form::Words(false), p, words)
        }
        DType::BF16 => Vop::Narrow(Form::Upper, p, x),
        DType::I16 => Vop::Narrow(Form::Words(true), p, x),
        DType::I8 | DType::U8 => Vop::Narrow(Form::Bytes(true), p, x),
        DType::Bool => {
            let ones = b.bits(1);
            Vop::OutMask(p, x, ones)
        }
    };
    b.push(op);
    Some(())
}

/// Writes one number.
pub fn store_one(b: &mut Body, dtype: DType, p: usize, x: V) -> Option<()> {
    lanes(dtype, b.width)?;
    let op = match dtype {
        DType::F32 if b.wide() => Vop::NarrowOne(Form::Single, p, x),
        DType::I32 if b.wide() => Vop::NarrowOne(Form::Ints, p, x),
        DType::F32 | DType::I32 | DType::F64 | DType::I64 => Vop::OutOne(p, 0, x),
        DType::F16 => Vop::NarrowOne(Form::Half, p, x),
        DType::BF16 => Vop::NarrowOne(Form::Upper, p, x),
        DType::I16 => Vop::NarrowOne(Form::Words(true), p, x),
        DType::I8 | DType::U8 => Vop::NarrowOne(Form::Bytes(true), p, x),
        DType::Bool => {
            let (one, zero) = (b.bits(1), b.bits(0));
            let x = b.push(Vop::Select(x, one, zero));
            Vop::NarrowOne(Form::Bytes(true), p, x)
        }
    };
    b.push(op);
    Some(())
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
        "sign" => {
            let (one, less) = (b.bits(1), b.bits(-1));
            let y = b.two(Arith::MinI, x[0], one);
            b.two(Arith::MaxI, y, less)
        }
        "relu" => {
            let zero = b.bits(0);
            b.two(Arith::MaxI, x[0], zero)
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
    Some(casts::wrapped(b, dtype, y))
}

/// What is done to floats of 16 bits by their bits.
fn halves(b: &mut Body, name: &str, x: &[V]) -> Option<V> {
    let (how, bits) = match name {
        "neg" => (Arith::Xor, b.bits(0x8000)),
        "abs" => (Arith::And, b.bits(0x7fff)),
        _ => return None,
    };
    Some(b.two(how, x[0], bits))
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
