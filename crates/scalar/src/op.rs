//! The operations a node can hold, and what each computes.

/// What a node does. The order matters: leaves, then unary operations, then binary ones, so that
/// [`Op::arity`] is two comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Op {
    Var,
    Const,
    Neg,
    Exp,
    Ln,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Sigmoid,
    Sqrt,
    Abs,
    Relu,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    /// A power whose exponent is a constant node: it spares the logarithm that the exponent's share needs.
    Powf,
    Max,
    Min,
}

impl Op {
    /// How many operands the operation takes.
    #[inline]
    pub(crate) fn arity(self) -> usize {
        usize::from(self >= Op::Neg) + usize::from(self >= Op::Add)
    }

    /// The operation's number from those of its operands; `b` is ignored by unary operations.
    ///
    /// Leaves have nothing to compute: they answer `a`, so that no caller needs a way to fail.
    #[inline]
    pub(crate) fn eval(self, a: f64, b: f64) -> f64 {
        match self {
            Op::Var | Op::Const => a,
            Op::Neg => -a,
            Op::Exp => a.exp(),
            Op::Ln => a.ln(),
            Op::Log2 => a.log2(),
            Op::Log10 => a.log10(),
            Op::Sin => a.sin(),
            Op::Cos => a.cos(),
            Op::Tan => a.tan(),
            Op::Asin => a.asin(),
            Op::Acos => a.acos(),
            Op::Atan => a.atan(),
            Op::Sinh => a.sinh(),
            Op::Cosh => a.cosh(),
            Op::Tanh => a.tanh(),
            Op::Sigmoid => sigmoid(a),
            Op::Sqrt => a.sqrt(),
            Op::Abs => a.abs(),
            // Written so that NaN passes through, where `f64::max` would swallow it.
            Op::Relu => {
                if a <= 0.0 {
                    0.0
                } else {
                    a
                }
            }
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Pow | Op::Powf => power(a, b),
            Op::Max => {
                if a >= b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Op::Min => {
                if a <= b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// The name shown in printed graphs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Var => "var",
            Op::Const => "const",
            Op::Neg => "neg",
            Op::Exp => "exp",
            Op::Ln => "ln",
            Op::Log2 => "log2",
            Op::Log10 => "log10",
            Op::Sin => "sin",
            Op::Cos => "cos",
            Op::Tan => "tan",
            Op::Asin => "asin",
            Op::Acos => "acos",
            Op::Atan => "atan",
            Op::Sinh => "sinh",
            Op::Cosh => "cosh",
            Op::Tanh => "tanh",
            Op::Sigmoid => "sigmoid",
            Op::Sqrt => "sqrt",
            Op::Abs => "abs",
            Op::Relu => "relu",
            Op::Add => "add",
            Op::Sub => "sub",
            Op::Mul => "mul",
            Op::Div => "div",
            Op::Pow | Op::Powf => "pow",
            Op::Max => "max",
            Op::Min => "min",
        }
    }
}

/// `1 / (1 + e^-a)`, computed from `e^-|a|` so that neither tail overflows or loses its digits.
fn sigmoid(a: f64) -> f64 {
    let e = (-a.abs()).exp();
    if a >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// `a ^ b`, in one place: where the compiler sees a constant exponent it would write `a * a` for `a ^ 2`, which differs
/// from the library's power in the last bit, and results would depend on what was inlined.
#[inline(never)]
pub(crate) fn power(a: f64, b: f64) -> f64 {
    a.powf(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arity_follows_the_order_of_the_variants() {
        assert_eq!([Op::Var, Op::Const].map(Op::arity), [0, 0]);
        assert_eq!([Op::Neg, Op::Sin, Op::Relu].map(Op::arity), [1, 1, 1]);
        assert_eq!([Op::Add, Op::Pow, Op::Min].map(Op::arity), [2, 2, 2]);
    }

    #[test]
    fn nan_passes_through_the_comparing_operations() {
        for op in [Op::Relu, Op::Max, Op::Min, Op::Abs, Op::Sigmoid] {
            assert!(op.eval(f64::NAN, 1.0).is_nan(), "{op:?}");
        }
        assert!(Op::Max.eval(1.0, f64::NAN).is_nan());
        assert!(Op::Min.eval(1.0, f64::NAN).is_nan());
    }

    #[test]
    fn sigmoid_keeps_its_tails() {
        assert_eq!(sigmoid(1000.0), 1.0);
        assert_eq!(sigmoid(-700.0), (-700f64).exp());
        assert_eq!(sigmoid(0.0), 0.5);
    }
}
