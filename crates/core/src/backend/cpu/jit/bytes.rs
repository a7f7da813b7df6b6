//! Functions of small integers in lanes of 8 bits, 64 at a time, or of 16, where all values of a body are such (or bools). They
//! wrap around by themselves.

use super::{
    body::{Arith, Body, Direction, V, Vop},
    width::Width,
};
use crate::DType;

/// A row on operands of this type; none if a loop cannot hold it.
pub fn row(b: &mut Body, name: &str, dtype: DType, x: &[V]) -> Option<V> {
    let signed = dtype != DType::U8;
    let (most, least) = if signed { (Arith::MaxI, Arith::MinI) } else { (Arith::MaxU, Arith::MinU) };
    let zero = b.bits(0);
    let compare =
        |b: &mut Body, p: u8| b.push(if signed { Vop::CompareI(p, x[0], x[1]) } else { Vop::CompareU(p, x[0], x[1]) });
    Some(match name {
        "add" => b.two(Arith::AddI, x[0], x[1]),
        "sub" => b.two(Arith::SubI, x[0], x[1]),
        "mul" if b.width == Width::Word => b.two(Arith::MulWords, x[0], x[1]),
        "mul" => product(b, x[0], x[1]),
        "neg" => b.two(Arith::SubI, zero, x[0]),
        "abs" | "relu" if !signed => x[0],
        "abs" => {
            let minus = b.two(Arith::SubI, zero, x[0]);
            b.two(Arith::MaxI, x[0], minus)
        }
        "relu" => b.two(Arith::MaxI, x[0], zero),
        "sign" => {
            let (one, less) = (b.bits(1), b.bits(-1));
            let y = b.two(least, x[0], one);
            if signed { b.two(Arith::MaxI, y, less) } else { y }
        }
        "maximum" => b.two(most, x[0], x[1]),
        "minimum" => b.two(least, x[0], x[1]),
        "bitwise_and" => b.two(Arith::And, x[0], x[1]),
        "bitwise_or" => b.two(Arith::Or, x[0], x[1]),
        "bitwise_xor" => b.two(Arith::Xor, x[0], x[1]),
        "bitwise_not" => {
            let all = b.bits(-1);
            b.two(Arith::Xor, x[0], all)
        }
        // Intel's numbers: equal, less, less or equal, not equal, not less, not less or equal.
        "eq" => compare(b, 0),
        "lt" => compare(b, 1),
        "le" => compare(b, 2),
        "ne" => compare(b, 4),
        "ge" => compare(b, 5),
        "gt" => compare(b, 6),
        _ => return None,
    })
}

/// Products of bytes by those of words: the lower bytes of one, and the upper ones of another.
fn product(b: &mut Body, x: V, y: V) -> V {
    let (lower, upper) = (b.push(Vop::Const(0x00ff_00ff)), b.push(Vop::Const(0xff00_ff00)));
    let low = b.two(Arith::MulWords, x, y);
    let low = b.two(Arith::And, low, lower);
    let (p, q) = (b.push(Vop::Shift(Direction::Logical, x, 8)), b.two(Arith::And, y, upper));
    let high = b.two(Arith::MulWords, p, q);
    b.two(Arith::Or, low, high)
}
