//! Straight-line code over vectors of 16 lanes, or of 8 wide ones, or of 64 bytes (and masks), in SSA form.

use super::{
    asm::{self, Op},
    width::Width,
};
use crate::{backend::cpu::ahead::Fetch, hash::Mix, op::ReduceOp};
use gradus_math::f32::parts::Table;
use smallvec::{SmallVec, smallvec};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::BuildHasherDefault,
};

/// The number of an operation, and of what it defines.
pub type V = usize;

/// One operation of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vop {
    /// The vector at a pointer of the table.
    In(usize),
    /// The same where a mask is set, zeros elsewhere: nothing is read there.
    InWhere(usize, V),
    /// The vector at a pointer of the table, which stays in a register from row to row.
    Held(usize),
    /// What that is for the next row.
    Hold(usize, V),
    /// One number for the whole loop: its place among those given with each run.
    Invariant(usize),
    /// Bools at a pointer of the table, as a mask.
    InMask(usize),
    /// The number at a pointer of the table, for all lanes.
    At(usize),
    /// A number, by its bits.
    Const(u64),
    /// Two operands.
    Two(Arith, V, V),
    /// Square root.
    Sqrt(V),
    /// The exponent as a number: minus infinity for zero, infinity for infinities.
    Exponent(V),
    /// What a power of two leaves, from three quarters to below one and a half; NaN below zero.
    Mantissa(V),
    /// `a * b + c`, rounded once.
    Fma(V, V, V),
    /// `c - a * b`, rounded once.
    Less(V, V, V),
    /// The first with those bits of the second that the third has.
    Signed(V, V, V),
    /// Elements that take less room in memory, at a pointer of the table.
    Widen(Form, usize),
    /// Integers as floats.
    ToFloat(V),
    /// Floats as integers, cut off; what does not fit is the least integer.
    ToInteger(V),
    /// Rounded to what 16 bits of half precision hold.
    Halve(V),
    /// Rounded to the upper 16 bits of a float.
    Upper(V),
    /// Wide lanes rounded to what 32 bits hold.
    Single(V),
    /// Lanes of a table, by the low four bits of each; of 32 bits only.
    LookUp(&'static Table, V),
    /// Rounded to whole numbers, by Intel's number of the way.
    Round(u8, V),
    /// Shifted bits (of words, where lanes are bytes).
    Shift(Direction, V, u8),
    /// A comparison, by Intel's predicate.
    Compare(u8, V, V),
    /// A comparison of integers.
    CompareI(u8, V, V),
    /// A comparison of bytes without signs.
    CompareU(u8, V, V),
    /// Two masks.
    Masks(Logic, V, V),
    /// Second where the mask is set, third elsewhere.
    Select(V, V, V),
    /// Writes to a pointer of the table.
    Out(usize, V),
    /// Writes elements that take less room in memory: the lower bits of the lanes, or floats of half precision.
    Narrow(Form, usize, V),
    /// The same for one number.
    NarrowOne(Form, usize, V),
    /// Writes a mask as bools; the last is a vector of ones.
    OutMask(usize, V, V),
    /// Asks for the cache line so many bytes on from a pointer of the table; whether it will be written.
    Prefetch(usize, i32, Fetch),
    /// Writes one number to a pointer of the table, or to the place after it.
    OutOne(usize, u8, V),
    /// Writes one number to its place among those given with each run.
    Keep(usize, V),
    /// Adds to (or takes the larger or smaller of) the lanes of an accumulator: a
    /// pointer of the table, or in whole rows the place of the result among the numbers.
    Fold(Folding, usize, V),
}

impl Vop {
    /// Whether it defines a value, and does nothing else.
    pub fn defines(&self) -> bool {
        !matches!(
            self,
            Vop::Out(..)
                | Vop::Hold(..)
                | Vop::Narrow(..)
                | Vop::NarrowOne(..)
                | Vop::OutMask(..)
                | Vop::OutOne(..)
                | Vop::Keep(..)
                | Vop::Fold(..)
                | Vop::Prefetch(..)
        )
    }

    /// Whether it stays the same all along a loop.
    pub fn stays(&self) -> bool {
        matches!(self, Vop::Const(_) | Vop::Invariant(_) | Vop::At(_))
    }

    /// Whether it defines a mask.
    pub fn is_mask(&self) -> bool {
        matches!(self, Vop::InMask(_) | Vop::Compare(..) | Vop::CompareI(..) | Vop::CompareU(..) | Vop::Masks(..))
    }
}

/// How memory holds elements that take less room than a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Floats of half precision.
    Half,
    /// The upper halves of floats.
    Upper,
    /// Floats of 32 bits, in wide code.
    Single,
    /// Integers of 32 bits, in wide code.
    Ints,
    /// Words; with their signs.
    Words(bool),
    /// Bytes; with their signs.
    Bytes(bool),
}

/// Ways to shift, by the extension of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the left.
    Left = 6,
    /// To the right, with the sign.
    Right = 4,
    /// To the right, zeros from the left.
    Logical = 2,
}

/// Operations on masks, by their opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logic {
    /// Both.
    And = 0x41,
    /// Either.
    Or = 0x45,
    /// One of them.
    Xor = 0x47,
    /// Both or none.
    Xnor = 0x46,
    /// Not the first.
    Not = 0x44,
}

/// Operations of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arith {
    /// Floats.
    Add,
    /// Floats.
    Sub,
    /// Floats.
    Mul,
    /// Floats.
    Div,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    /// Bits.
    And,
    /// Bits.
    Or,
    /// Bits.
    Xor,
    /// Integers.
    AddI,
    /// Integers.
    SubI,
    /// Integers.
    MulI,
    /// Integers.
    MinI,
    /// Integers.
    MaxI,
    /// Bytes without signs.
    MinU,
    /// Bytes without signs.
    MaxU,
    /// Words, where lanes are bytes.
    MulWords,
    /// Bits to the left, by a count a lane.
    ShiftLeft,
    /// Bits to the right with the sign, by a count a lane.
    ShiftRight,
    /// The first times two to the power of the second (a whole number), rounded once.
    Scale,
}

/// How a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Folding {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// The larger; a NaN stays.
    Max,
    /// The smaller; a NaN stays.
    Min,
    /// Sum of integers.
    SumI,
    /// Product of integers.
    ProdI,
    /// The larger integer.
    MaxI,
    /// The smaller integer.
    MinI,
}

impl Folding {
    /// That of a kernel's reduction.
    pub fn of(op: ReduceOp) -> Folding {
        match op {
            ReduceOp::Sum => Folding::Sum,
            ReduceOp::Prod => Folding::Prod,
            ReduceOp::Max => Folding::Max,
            ReduceOp::Min => Folding::Min,
        }
    }

    /// The same for integers, where lanes hold them.
    pub fn of_integers(op: ReduceOp) -> Folding {
        match op {
            ReduceOp::Sum => Folding::SumI,
            ReduceOp::Prod => Folding::ProdI,
            ReduceOp::Max => Folding::MaxI,
            ReduceOp::Min => Folding::MinI,
        }
    }

    /// The bits that accumulators begin with.
    pub fn start(self, wide: bool) -> u64 {
        match self {
            Folding::Sum | Folding::SumI => 0,
            Folding::Prod => number(1.0, wide),
            Folding::ProdI => 1,
            Folding::Max => number(f64::NEG_INFINITY, wide),
            Folding::Min => number(f64::INFINITY, wide),
            Folding::MaxI if wide => i64::MIN as u64,
            Folding::MinI if wide => i64::MAX as u64,
            Folding::MaxI => i32::MIN as u32 as u64,
            Folding::MinI => i32::MAX as u64,
        }
    }
}

impl Arith {
    /// Its instruction.
    pub fn op(self) -> Op {
        match self {
            Arith::Add => asm::ADD,
            Arith::Sub => asm::SUB,
            Arith::Mul => asm::MUL,
            Arith::Div => asm::DIV,
            Arith::Min => asm::MIN,
            Arith::Max => asm::MAX,
            Arith::And => asm::AND,
            Arith::Or => asm::OR,
            Arith::Xor => asm::XOR,
            Arith::AddI => asm::ADD_I,
            Arith::SubI => asm::SUB_I,
            Arith::MulI => asm::MUL_I,
            Arith::MinI => asm::MIN_I,
            Arith::MaxI => asm::MAX_I,
            Arith::MinU => asm::MIN_U,
            Arith::MaxU => asm::MAX_U,
            Arith::MulWords => asm::MUL_WORDS,
            Arith::ShiftLeft => asm::SHIFT_LEFT,
            Arith::ShiftRight => asm::SHIFT_RIGHT,
            Arith::Scale => asm::SCALE,
        }
    }
}

/// Straight-line code.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Its operations.
    pub ops: Vec<Vop>,
    /// Pointers in the table.
    pub pointers: usize,
    /// Numbers given with each run.
    pub invariants: usize,
    /// How wide lanes are.
    pub width: Width,
    /// Vectors of a row, where accumulators stay in registers from row to row.
    pub vectors: u8,
    /// Pointers whose stores go past the caches.
    pub past: Vec<usize>,
    /// What is defined, and where.
    pub(super) known: HashMap<Vop, V, BuildHasherDefault<Mix>>,
}

/// The bits of a number in a lane.
fn number(x: f64, wide: bool) -> u64 {
    if wide { x.to_bits() } else { (x as f32).to_bits() as u64 }
}

impl Body {
    /// Adds an operation, or finds it where it is pure and known.
    pub fn push(&mut self, op: Vop) -> V {
        let next = self.ops.len();
        if op.defines() {
            match self.known.entry(op) {
                Entry::Occupied(known) => return *known.get(),
                Entry::Vacant(new) => new.insert(next),
            };
        }
        self.ops.push(op);
        next
    }

    /// A body with lanes of this width.
    pub fn new(width: Width) -> Body {
        Body { width, ..Body::default() }
    }

    /// Whether lanes have 64 bits.
    pub fn wide(&self) -> bool {
        self.width == Width::Double
    }

    /// A number.
    pub fn number(&mut self, x: impl Into<f64>) -> V {
        self.push(Vop::Const(number(x.into(), self.wide())))
    }

    /// The bits of an integer in a lane. (Bytes come in fours, words in pairs: there is no smaller constant.)
    pub fn bits(&mut self, x: i64) -> V {
        self.push(Vop::Const(match self.width {
            Width::Byte => x as u8 as u64 * 0x0101_0101,
            Width::Word => x as u16 as u64 * 0x0001_0001,
            Width::Single => x as u32 as u64,
            Width::Double => x as u64,
        }))
    }

    /// The bit of the sign.
    pub fn sign(&mut self) -> V {
        self.bits(if self.wide() { i64::MIN } else { i32::MIN as i64 })
    }

    /// All bits but that of the sign.
    pub fn magnitude(&mut self) -> V {
        self.bits(if self.wide() { i64::MAX } else { i32::MAX as i64 })
    }

    /// An operation of two.
    pub fn two(&mut self, op: Arith, a: V, b: V) -> V {
        self.push(Vop::Two(op, a, b))
    }

    /// One more pointer in the table.
    pub fn pointer(&mut self) -> usize {
        self.pointers += 1;
        self.pointers - 1
    }

    /// One more number given with each run.
    pub fn invariant(&mut self) -> V {
        self.invariants += 1;
        self.push(Vop::Invariant(self.invariants - 1))
    }

    /// The values an operation reads.
    pub fn operands(op: &Vop) -> SmallVec<[V; 3]> {
        match *op {
            Vop::In(_)
            | Vop::Held(_)
            | Vop::Widen(..)
            | Vop::At(_)
            | Vop::Invariant(_)
            | Vop::InMask(_)
            | Vop::Const(_)
            | Vop::Prefetch(..) => smallvec![],
            Vop::Two(_, a, b)
            | Vop::Compare(_, a, b)
            | Vop::CompareI(_, a, b)
            | Vop::CompareU(_, a, b)
            | Vop::Masks(_, a, b)
            | Vop::OutMask(_, a, b) => smallvec![a, b],
            Vop::Sqrt(a)
            | Vop::Exponent(a)
            | Vop::Mantissa(a)
            | Vop::InWhere(_, a)
            | Vop::ToFloat(a)
            | Vop::ToInteger(a)
            | Vop::Halve(a)
            | Vop::Upper(a)
            | Vop::Single(a)
            | Vop::Round(_, a)
            | Vop::LookUp(_, a)
            | Vop::Shift(_, a, _)
            | Vop::Out(_, a)
            | Vop::Hold(_, a)
            | Vop::Narrow(_, _, a)
            | Vop::NarrowOne(_, _, a)
            | Vop::OutOne(_, _, a)
            | Vop::Keep(_, a)
            | Vop::Fold(_, _, a) => smallvec![a],
            Vop::Fma(a, b, c) | Vop::Less(a, b, c) | Vop::Signed(a, b, c) | Vop::Select(a, b, c) => smallvec![a, b, c],
        }
    }
}
