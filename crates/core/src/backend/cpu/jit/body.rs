//! Straight-line code over vectors of 16 floats (and masks), in SSA form.

use super::asm::{self, Op};
use crate::op::ReduceOp;

/// The number of an operation, and of what it defines.
pub type V = usize;

/// One operation of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vop {
    /// The vector at a pointer of the table.
    In(usize),
    /// The same where a mask is set, zeros elsewhere: nothing is read there.
    InWhere(usize, V),
    /// One number for the whole loop: its place among those given with each run.
    Invariant(usize),
    /// Sixteen bools at a pointer of the table, as a mask.
    InMask(usize),
    /// The number at a pointer of the table, for all lanes.
    At(usize),
    /// A number, by its bits.
    Const(u32),
    /// Two operands.
    Two(Arith, V, V),
    /// Square root.
    Sqrt(V),
    /// `a * b + c`, rounded once.
    Fma(V, V, V),
    /// Elements that take less room in memory, at a pointer of the table.
    Widen(Form, usize),
    /// Integers as floats.
    ToFloat(V),
    /// Rounded to what 16 bits of half precision hold.
    Halve(V),
    /// Rounded to whole numbers, by Intel's number of the way.
    Round(u8, V),
    /// Shifted bits.
    Shift(Direction, V, u8),
    /// A comparison, by Intel's predicate.
    Compare(u8, V, V),
    /// A comparison of integers.
    CompareI(u8, V, V),
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
    Prefetch(usize, i32, bool),
    /// Writes one number to a pointer of the table, or to the place after it.
    OutOne(usize, u8, V),
    /// Writes one number to its place among those given with each run.
    Keep(usize, V),
    /// Adds to (or takes the larger or smaller of) sixteen lanes of an accumulator: a
    /// pointer of the table, or in whole rows the place of the result among the numbers.
    Fold(Folding, usize, V),
}

impl Vop {
    /// Whether it defines a value, and does nothing else.
    pub fn defines(&self) -> bool {
        !matches!(
            self,
            Vop::Out(..)
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
        matches!(self, Vop::InMask(_) | Vop::Compare(..) | Vop::CompareI(..) | Vop::Masks(..))
    }
}

/// How memory holds elements that take less room than a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Floats of half precision.
    Half,
    /// Words; with their signs.
    Words(bool),
    /// Bytes; with their signs.
    Bytes(bool),
}

/// Ways to shift, by the extension of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the left.
    Left = 6,
    /// To the right, with the sign.
    Right = 4,
    /// To the right, zeros from the left.
    Logical = 2,
}

/// Operations on masks, by their opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The first times two to the power of the second (a whole number), rounded once.
    Scale,
}

/// How a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// The larger; a NaN stays.
    Max,
    /// The smaller; a NaN stays.
    Min,
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
    pub fn of_integers(op: ReduceOp) -> Option<Folding> {
        match op {
            ReduceOp::Max => Some(Folding::MaxI),
            ReduceOp::Min => Some(Folding::MinI),
            ReduceOp::Sum | ReduceOp::Prod => None,
        }
    }

    /// The bits that accumulators begin with.
    pub fn start(self) -> u32 {
        match self {
            Folding::Sum => 0,
            Folding::Prod => 1f32.to_bits(),
            Folding::Max => f32::NEG_INFINITY.to_bits(),
            Folding::Min => f32::INFINITY.to_bits(),
            Folding::MaxI => i32::MIN as u32,
            Folding::MinI => i32::MAX as u32,
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
            Arith::AddI => asm::ADD_I32,
            Arith::SubI => asm::SUB_I32,
            Arith::MulI => asm::MUL_I32,
            Arith::MinI => asm::MIN_I32,
            Arith::MaxI => asm::MAX_I32,
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
}

impl Body {
    /// Adds an operation, or finds it where it is pure and known.
    pub fn push(&mut self, op: Vop) -> V {
        if op.defines()
            && let Some(known) = self.ops.iter().position(|o| *o == op)
        {
            return known;
        }
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// A number.
    pub fn number(&mut self, x: f32) -> V {
        self.push(Vop::Const(x.to_bits()))
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
    pub fn operands(op: &Vop) -> Vec<V> {
        match *op {
            Vop::In(_)
            | Vop::Widen(..)
            | Vop::At(_)
            | Vop::Invariant(_)
            | Vop::InMask(_)
            | Vop::Const(_)
            | Vop::Prefetch(..) => vec![],
            Vop::Two(_, a, b)
            | Vop::Compare(_, a, b)
            | Vop::CompareI(_, a, b)
            | Vop::Masks(_, a, b)
            | Vop::OutMask(_, a, b) => vec![a, b],
            Vop::Sqrt(a)
            | Vop::InWhere(_, a)
            | Vop::ToFloat(a)
            | Vop::Halve(a)
            | Vop::Round(_, a)
            | Vop::Shift(_, a, _)
            | Vop::Out(_, a)
            | Vop::Narrow(_, _, a)
            | Vop::NarrowOne(_, _, a)
            | Vop::OutOne(_, _, a)
            | Vop::Keep(_, a)
            | Vop::Fold(_, _, a) => vec![a],
            Vop::Fma(a, b, c) | Vop::Select(a, b, c) => vec![a, b, c],
        }
    }
}
