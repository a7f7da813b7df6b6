//! The table of elementwise operations: one row an operation, and a row is all there is to it.
//!
//! A row says which types it takes, what it computes (as a scalar function; [`super::block`] makes the SIMD loops), how
//! to write it in CUDA C and WGSL, where gradients are well-defined, and its gradient as a formula. Tests iterate
//! [`all`], so a new row is gradient-checked and compared on every backend with no new test.

mod arith;
mod bits;
mod compare;
mod explog;
mod gamma;
mod round;
mod small;
mod special;
mod trig;

pub use arith::*;
pub use bits::*;
pub use compare::*;
pub use explog::*;
pub use gamma::*;
pub use round::*;
pub use small::small_division;
pub use special::*;
pub use trig::*;

use super::block::Block;
use crate::{DType, Tensor};

/// What a row takes and makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers to the same type of number.
    Arith,
    /// Floats to floats; integers become floats first.
    Float,
    /// Two numbers of one type to a bool.
    Compare,
    /// Bools to a bool.
    Logic,
    /// Integers or bools to the same type.
    Bits,
    /// (bool, value, value) to a value.
    Select,
}

/// A gradient rule: the formula of the gradient for one input, from the gradient `g` of the result, the result `y` and
/// the inputs `x`. No shapes, no accumulation: the driver does those.
pub type Rule = fn(g: &Tensor, y: &Tensor, x: &[Tensor]) -> Tensor;

/// The gradient of a row.
#[derive(Clone, Copy)]
pub enum Vjp {
    /// One rule an input.
    Rules(&'static [Rule]),
    /// As `Rules`, where some inputs have no formula (as in PyTorch): a gradient for those is an error.
    Partial(&'static [Option<Rule>]),
    /// Constant almost everywhere: the gradient is zero, as in PyTorch.
    Zero,
    /// It exists, and gradus has no formula for it: asking for it is an error that names the row.
    Missing,
    /// The result is no float, so the question never comes up.
    NotFloat,
}

/// One elementwise operation.
pub struct Ewise {
    /// PyTorch's name.
    pub name: &'static str,
    /// Number of inputs, 1 to 3.
    pub arity: usize,
    /// Types in and out.
    pub kind: Kind,
    /// Where tests draw inputs from: the operation is smooth there, to second order.
    pub domain: (f64, f64),
    /// In f32 registers (which also serve f16 and bf16).
    pub f32: Option<Block>,
    /// In f64 registers.
    pub f64: Option<Block>,
    /// In i64 registers (which serve all integers).
    pub i64: Option<Block>,
    /// In bool registers.
    pub bool: Option<Block>,
    /// As a CUDA C expression of `{0}`, `{1}`, `{2}` for floats; empty where there is none.
    pub c: &'static str,
    /// The same for integers and bools.
    pub c_int: &'static str,
    /// As a WGSL expression for floats; empty where there is none.
    pub wgsl: &'static str,
    /// The same for integers and bools.
    pub wgsl_int: &'static str,
    /// The gradient.
    pub vjp: Vjp,
}

impl Ewise {
    /// The loops for registers of this compute type, if the row takes it.
    pub fn block(&self, dtype: DType) -> Option<&Block> {
        match dtype.compute() {
            DType::F32 => self.f32.as_ref(),
            DType::F64 => self.f64.as_ref(),
            DType::Bool => self.bool.as_ref(),
            _ => self.i64.as_ref(),
        }
    }

    /// Whether an integer division by zero can happen inside.
    pub fn divides(&self) -> bool {
        matches!(self.name, "floor_divide" | "remainder" | "fmod" | "trunc_divide")
    }
}

impl PartialEq for Ewise {
    fn eq(&self, other: &Ewise) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A row is itself and no other.
impl std::hash::Hash for Ewise {
    fn hash<H: std::hash::Hasher>(&self, h: &mut H) {
        std::ptr::hash(self, h);
    }
}

impl std::fmt::Debug for Ewise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Ewise> {
    [arith::ROWS, explog::ROWS, trig::ROWS, round::ROWS, compare::ROWS, bits::ROWS, special::ROWS, gamma::ROWS]
        .into_iter()
        .flatten()
        .copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_rules_match_arity() {
        let mut seen = std::collections::HashSet::new();
        for row in super::all() {
            assert!(seen.insert(row.name), "{} appears twice", row.name);
            if let super::Vjp::Rules(r) = row.vjp {
                assert_eq!(r.len(), row.arity, "{}", row.name);
            }
        }
        assert!(seen.len() > 60);
    }
}
