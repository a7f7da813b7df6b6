//! Straight-line code over vectors of 16 floats (and masks), in SSA form.

use super::asm::{self, Op};

/// The number of an operation, and of what it defines.
pub type V = usize;

/// One operation of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vop {
    /// The vector at a pointer of the table.
    In(usize),
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
    /// Bits shifted left or (with the sign) right.
    Shift(bool, V, u8),
    /// A comparison, by Intel's predicate.
    Compare(u8, V, V),
    /// Second where the mask is set, third elsewhere.
    Select(V, V, V),
    /// Writes to a pointer of the table.
    Out(usize, V),
    /// Asks for the cache line so many bytes on from a pointer of the table; whether it will be written.
    Prefetch(usize, i32, bool),
    /// Writes one number to a pointer of the table.
    OutOne(usize, V),
    /// Writes one number to its place among those given with each run.
    Keep(usize, V),
    /// Adds to (or takes the larger or smaller of) sixteen lanes of an accumulator: a
    /// pointer of the table, or in whole rows the place of the result among the numbers.
    Fold(Folding, usize, V),
}

impl Vop {
    /// Whether it defines a value, and does nothing else.
    pub fn defines(&self) -> bool {
        !matches!(self, Vop::Out(..) | Vop::OutOne(..) | Vop::Keep(..) | Vop::Fold(..) | Vop::Prefetch(..))
    }

    /// Whether it stays the same all along a loop.
    pub fn stays(&self) -> bool {
        matches!(self, Vop::Const(_) | Vop::Invariant(_) | Vop::At(_))
    }

    /// Whether it defines a mask.
    pub fn is_mask(&self) -> bool {
        matches!(self, Vop::InMask(_) | Vop::Compare(..))
    }
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
    /// The first times two to the power of the second (a whole number), rounded once.
    Scale,
}

/// How a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Sum.
    Sum,
    /// The larger; a NaN stays.
    Max,
    /// The smaller; a NaN stays.
    Min,
}

impl Folding {
    /// What accumulators begin with.
    pub fn start(self) -> f32 {
        match self {
            Folding::Sum => 0.0,
            Folding::Max => f32::NEG_INFINITY,
            Folding::Min => f32::INFINITY,
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
            Vop::In(_) | Vop::At(_) | Vop::Invariant(_) | Vop::InMask(_) | Vop::Const(_) | Vop::Prefetch(..) => vec![],
            Vop::Two(_, a, b) | Vop::Compare(_, a, b) => vec![a, b],
            Vop::Sqrt(a)
            | Vop::Shift(_, a, _)
            | Vop::Out(_, a)
            | Vop::OutOne(_, a)
            | Vop::Keep(_, a)
            | Vop::Fold(_, _, a) => vec![a],
            Vop::Fma(a, b, c) | Vop::Select(a, b, c) => vec![a, b, c],
        }
    }
}
