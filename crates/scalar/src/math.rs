//! The arithmetic of [`Value`] and of [`Dual`]: the same methods and operators for both, written once.
//!
//! A type brings `unary(op, &a)` and `binary(op, a, b)`; the macros add everything a user calls.

use crate::forward::Dual;
use crate::op::Op;
use crate::value::{Value, constant};

/// An operand given away or lent. Giving a temporary away spares the count of references a round trip.
pub(crate) enum Arg<'a, T> {
    Owned(T),
    Borrowed(&'a T),
}

/// Named unary functions, each documented with an example that is also its test.
macro_rules! unary_methods {
    ($Type:ident, $make:literal; $($(#[$doc:meta])* $name:ident = $op:ident, $at:literal => $expected:literal;)*) => {
        impl $Type {
            $(
                $(#[$doc])*
                ///
                /// ```
                #[doc = concat!("# use gradus_scalar::*;\nlet x = ", $make, $at, ");")]
                #[doc = concat!("assert!((x.", stringify!($name), "().value() - (", $expected, ")).abs() < 1e-12);")]
                /// ```
                #[inline]
                #[must_use]
                pub fn $name(&self) -> $Type {
                    $Type::unary(Op::$op, self)
                }
            )*
        }
    };
}

/// An operator between two operands of any kinds that [`Arg`] can be made from, and its assigning form.
macro_rules! binary_operators {
    ($Type:ident; $($Trait:ident $method:ident, $AssignTrait:ident $assign:ident;)*) => { $(
        binary_operators!(@each $Type, $Trait $method;
            ($Type, $Type) ($Type, &$Type) (&$Type, $Type) (&$Type, &$Type)
            ($Type, f64) (&$Type, f64) (f64, $Type) (f64, &$Type));

        impl<R> std::ops::$AssignTrait<R> for $Type
        where
            for<'a> &'a $Type: std::ops::$Trait<R, Output = $Type>,
        {
            #[inline]
            fn $assign(&mut self, rhs: R) {
                *self = std::ops::$Trait::$method(&*self, rhs);
            }
        }
    )* };
    (@each $Type:ident, $Trait:ident $method:ident; $(($Left:ty, $Right:ty))*) => { $(
        impl std::ops::$Trait<$Right> for $Left {
            type Output = $Type;
            #[inline]
            fn $method(self, rhs: $Right) -> $Type {
                $Type::binary(Op::$Trait, self.into(), rhs.into())
            }
        }
    )* };
}

macro_rules! arithmetic {
    ($Type:ident, $make:literal, $lift:path) => {
        unary_methods! { $Type, $make;
            /// `-x`, as the operator.
            neg = Neg, "2.0" => "-2.0";
            /// `e` to the power of `x`.
            exp = Exp, "2.0" => "2f64.exp()";
            /// The natural logarithm. NaN below 0.
            ln = Ln, "2.0" => "2f64.ln()";
            /// The logarithm to base 2. NaN below 0.
            log2 = Log2, "8.0" => "3.0";
            /// The logarithm to base 10. NaN below 0.
            log10 = Log10, "100.0" => "2.0";
            /// The sine.
            sin = Sin, "0.5" => "0.5f64.sin()";
            /// The cosine.
            cos = Cos, "0.5" => "0.5f64.cos()";
            /// The tangent.
            tan = Tan, "0.5" => "0.5f64.tan()";
            /// The inverse sine. NaN outside -1 to 1.
            asin = Asin, "0.5" => "0.5f64.asin()";
            /// The inverse cosine. NaN outside -1 to 1.
            acos = Acos, "0.5" => "0.5f64.acos()";
            /// The inverse tangent.
            atan = Atan, "0.5" => "0.5f64.atan()";
            /// The hyperbolic sine.
            sinh = Sinh, "0.5" => "0.5f64.sinh()";
            /// The hyperbolic cosine.
            cosh = Cosh, "0.5" => "0.5f64.cosh()";
            /// The hyperbolic tangent.
            tanh = Tanh, "0.5" => "0.5f64.tanh()";
            /// The logistic function `1 / (1 + e^-x)`, without overflow in either tail.
            sigmoid = Sigmoid, "0.0" => "0.5";
            /// The square root. NaN below 0, where the derivative is too; at 0 the derivative is infinite.
            sqrt = Sqrt, "9.0" => "3.0";
            /// The absolute value, with derivative 0 at 0.
            abs = Abs, "-2.0" => "2.0";
            /// `x` where it is positive and 0 elsewhere, with derivative 0 at 0.
            relu = Relu, "-2.0" => "0.0";
        }

        impl $Type {
            /// `self` to the power of another value.
            ///
            /// The derivative in the exponent needs `ln self` and so is NaN for a negative base; the derivative in
            /// the base is not touched by that.
            ///
            /// ```
            #[doc = concat!("# use gradus_scalar::*;\nlet (x, y) = (", $make, "3.0), ", $make, "4.0));")]
            /// assert!((x.pow(&y).value() - 81.0).abs() < 1e-12);
            /// ```
            #[inline]
            #[must_use]
            pub fn pow(&self, exponent: &$Type) -> $Type {
                $Type::binary(Op::Pow, self.into(), exponent.into())
            }

            /// `self` to a fixed power.
            ///
            /// ```
            #[doc = concat!("# use gradus_scalar::*;\nlet x = ", $make, "4.0);")]
            /// assert!((x.powf(1.5).value() - 8.0).abs() < 1e-12);
            /// ```
            #[inline]
            #[must_use]
            pub fn powf(&self, exponent: f64) -> $Type {
                $Type::binary(Op::Powf, self.into(), exponent.into())
            }

            /// `self` to a fixed whole power.
            ///
            /// ```
            #[doc = concat!("# use gradus_scalar::*;\nlet x = ", $make, "-2.0);")]
            /// assert_eq!(x.powi(3).value(), -8.0);
            /// ```
            #[inline]
            #[must_use]
            pub fn powi(&self, exponent: i32) -> $Type {
                self.powf(f64::from(exponent))
            }

            /// The larger of two, which gets all of the derivative; in a tie each gets half. NaN wins.
            ///
            /// ```
            #[doc = concat!("# use gradus_scalar::*;\nlet (x, y) = (", $make, "3.0), ", $make, "4.0));")]
            /// assert_eq!(x.max(&y).value(), 4.0);
            /// ```
            #[inline]
            #[must_use]
            pub fn max(&self, other: &$Type) -> $Type {
                $Type::binary(Op::Max, self.into(), other.into())
            }

            /// The smaller of two, which gets all of the derivative; in a tie each gets half. NaN wins.
            ///
            /// ```
            #[doc = concat!("# use gradus_scalar::*;\nlet (x, y) = (", $make, "3.0), ", $make, "4.0));")]
            /// assert_eq!(x.min(&y).value(), 3.0);
            /// ```
            #[inline]
            #[must_use]
            pub fn min(&self, other: &$Type) -> $Type {
                $Type::binary(Op::Min, self.into(), other.into())
            }
        }

        impl From<$Type> for Arg<'_, $Type> {
            #[inline]
            fn from(value: $Type) -> Self {
                Arg::Owned(value)
            }
        }

        impl<'a> From<&'a $Type> for Arg<'a, $Type> {
            #[inline]
            fn from(value: &'a $Type) -> Self {
                Arg::Borrowed(value)
            }
        }

        impl From<f64> for Arg<'_, $Type> {
            #[inline]
            fn from(value: f64) -> Self {
                Arg::Owned($lift(value))
            }
        }

        binary_operators! { $Type;
            Add add, AddAssign add_assign;
            Sub sub, SubAssign sub_assign;
            Mul mul, MulAssign mul_assign;
            Div div, DivAssign div_assign;
        }

        impl std::ops::Neg for $Type {
            type Output = $Type;
            #[inline]
            fn neg(self) -> $Type {
                $Type::unary(Op::Neg, &self)
            }
        }

        impl std::ops::Neg for &$Type {
            type Output = $Type;
            #[inline]
            fn neg(self) -> $Type {
                $Type::unary(Op::Neg, self)
            }
        }

        /// The sum of all items, and the constant 0 of none.
        impl std::iter::Sum for $Type {
            fn sum<I: Iterator<Item = $Type>>(items: I) -> $Type {
                items.reduce(|a, b| a + b).unwrap_or_else(|| $lift(0.0))
            }
        }

        /// The sum of all items, and the constant 0 of none.
        impl<'a> std::iter::Sum<&'a $Type> for $Type {
            fn sum<I: Iterator<Item = &'a $Type>>(items: I) -> $Type {
                items.cloned().sum()
            }
        }

        /// The product of all items, and the constant 1 of none.
        impl std::iter::Product for $Type {
            fn product<I: Iterator<Item = $Type>>(items: I) -> $Type {
                items.reduce(|a, b| a * b).unwrap_or_else(|| $lift(1.0))
            }
        }
    };
}

arithmetic!(Value, "var(\"_\", ", constant);
arithmetic!(Dual, "Dual::variable(", Dual::constant);
