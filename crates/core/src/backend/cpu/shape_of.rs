//! What forms look for in kernels that they take as one piece.

use crate::{
    Scalar,
    kernel::{Access, InstKind, Kernel, Val},
    op::ewise::Ewise,
};

/// A number that a kernel has, or is given.
#[derive(Clone, Copy)]
pub enum Number {
    Known(Scalar),
    Given(usize),
}

impl Number {
    /// If a value is one.
    pub fn of(k: &Kernel, v: Val) -> Option<Number> {
        match k.insts[v].kind {
            InstKind::Const(x) => Some(Number::Known(x)),
            InstKind::Param(p) => Some(Number::Given(p)),
            _ => None,
        }
    }

    /// It, of a launch with these parameters.
    pub fn get(self, params: &[Scalar]) -> Scalar {
        match self {
            Number::Known(x) => x,
            Number::Given(p) => params[p],
        }
    }
}

/// The operands of a value, if it is this operation.
pub fn operands<'a>(k: &'a Kernel, v: Val, f: &Ewise) -> Option<&'a [Val]> {
    match &k.insts[v].kind {
        InstKind::Ewise(g, vals) if g.name == f.name => Some(vals),
        _ => None,
    }
}

/// Whether an address has no conditions.
pub fn plain(a: &Access) -> bool {
    a.bounds.is_empty() && a.lookup.is_empty()
}
