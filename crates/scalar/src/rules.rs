//! The derivative of every operation, written once.
//!
//! A rule takes `g`, the derivative of the result with respect to an operation's output, and gives the
//! derivative with respect to each operand. Rules are generic over the kind of number: with `f64` they are the
//! plain backward pass, with [`Value`](crate::Value) they record themselves, which is what makes a gradient
//! that can be differentiated again. Forward mode calls them with `g = 1` to get the bare partial derivative.

use crate::op::Op;
use std::f64::consts::{LN_2, LN_10};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// What a rule needs of a number.
pub(crate) trait Number:
    Clone
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
{
    fn number(&self) -> f64;
    fn lift(value: f64) -> Self;
    fn apply(&self, op: Op) -> Self;
    fn power(&self, exponent: &Self) -> Self;
    fn power_fixed(&self, exponent: f64) -> Self;
}

impl Number for f64 {
    #[inline]
    fn number(&self) -> f64 {
        *self
    }
    #[inline]
    fn lift(value: f64) -> f64 {
        value
    }
    #[inline]
    fn apply(&self, op: Op) -> f64 {
        op.eval(*self, 0.0)
    }
    #[inline]
    fn power(&self, exponent: &f64) -> f64 {
        crate::op::power(*self, *exponent)
    }
    #[inline]
    fn power_fixed(&self, exponent: f64) -> f64 {
        crate::op::power(*self, exponent)
    }
}

/// The share of `g` that a unary operation passes to its operand `a`, its output being `out`.
#[inline]
pub(crate) fn unary<T: Number>(op: Op, a: T, out: T, g: T) -> T {
    match op {
        Op::Neg => -g,
        Op::Exp => g * out,
        Op::Ln => g / a,
        Op::Log2 => g / (a * LN_2),
        Op::Log10 => g / (a * LN_10),
        Op::Sin => g * a.apply(Op::Cos),
        Op::Cos => -(g * a.apply(Op::Sin)),
        Op::Tan => g * (out.clone() * out + 1.0),
        Op::Asin => g / unit_circle(a),
        Op::Acos => -(g / unit_circle(a)),
        Op::Atan => g / (a.clone() * a + 1.0),
        Op::Sinh => g * a.apply(Op::Cosh),
        Op::Cosh => g * a.apply(Op::Sinh),
        Op::Tanh => g * (-(out.clone() * out) + 1.0),
        Op::Sigmoid => g * (out.clone() * (-out + 1.0)),
        Op::Sqrt => g * 0.5 / out,
        Op::Abs => match a.number() {
            x if x > 0.0 => g,
            x if x < 0.0 => -g,
            x => g * (x * 0.0), // 0 at 0, NaN at NaN
        },
        Op::Relu => {
            if a.number() <= 0.0 {
                T::lift(0.0)
            } else {
                g
            }
        }
        _ => unreachable!("{op:?} is not unary"),
    }
}

/// `sqrt(1 - a²)`, from the factored form, which keeps its digits near `a = ±1`.
#[inline]
fn unit_circle<T: Number>(a: T) -> T {
    ((-a.clone() + 1.0) * (a + 1.0)).apply(Op::Sqrt)
}

/// The shares of `g` that a binary operation passes to its operands `a` and `b`, its output being `out`.
#[inline]
pub(crate) fn binary<T: Number>(op: Op, a: T, b: T, out: T, g: T) -> (T, T) {
    match op {
        Op::Add => (g.clone(), g),
        Op::Sub => (g.clone(), -g),
        Op::Mul => (g.clone() * b, g * a),
        Op::Div => {
            let left = g / b.clone();
            (left.clone(), -(left * out))
        }
        Op::Pow => {
            let (x, y) = (a.number(), b.number());
            // Each rule would say 0·∞ where the function is in truth flat: 0⁰ in the base, as x⁰ is 1 all along,
            // and 0^y in the exponent, wherever it is finite.
            let left = if x == 0.0 && y == 0.0 { T::lift(0.0) } else { g.clone() * (b.clone() * a.power(&(b - 1.0))) };
            let right = if x == 0.0 && y >= 0.0 { T::lift(0.0) } else { g * (out * a.apply(Op::Ln)) };
            (left, right)
        }
        Op::Powf => match b.number() {
            0.0 => (T::lift(0.0), T::lift(0.0)),
            n => (g * (a.power_fixed(n - 1.0) * n), T::lift(0.0)),
        },
        Op::Max => {
            let (x, y) = (a.number(), b.number());
            (winner(x, y, g.clone()), winner(y, x, g))
        }
        Op::Min => {
            let (x, y) = (a.number(), b.number());
            (winner(y, x, g.clone()), winner(x, y, g))
        }
        _ => unreachable!("{op:?} is not binary"),
    }
}

/// All of `g` for the larger side, nothing for the smaller, half in a tie. NaN compares as neither and so takes
/// all of `g`, which lets it be seen rather than vanish.
#[inline]
fn winner<T: Number>(mine: f64, other: f64, g: T) -> T {
    if mine < other {
        T::lift(0.0)
    } else if mine == other {
        g * 0.5
    } else {
        g
    }
}
