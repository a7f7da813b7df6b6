//! `+ - * /`, unary minus and their mixtures with numbers. They broadcast, and panic with the text of the error where
//! the named method would return it.

use crate::api::arith::Operand;
use crate::{Tensor, op::ewise};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

#[track_caller]
fn must(r: crate::Result<Tensor>) -> Tensor {
    match r {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $row:ident),*) => {$(
        impl<O: Operand> $trait<O> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor { must(other.apply(&ewise::$row, self, false)) }
        }
        impl<O: Operand> $trait<O> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor { must(other.apply(&ewise::$row, &self, false)) }
        }
        scalar_left!($trait $method $row f64 i32); // one float type, so that `1.0 - x` needs no annotation
    )*};
}
macro_rules! scalar_left {
    ($trait:ident $method:ident $row:ident $($t:ty)*) => {$(
        impl $trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor { must(self.apply(&ewise::$row, other, true)) }
        }
        impl $trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor { must(self.apply(&ewise::$row, &other, true)) }
        }
    )*};
}
operator!(Add add ADD, Sub sub SUB, Mul mul MUL, Div div DIV, Rem rem REMAINDER);

macro_rules! bit_operator {
    ($($trait:ident $method:ident $row:ident),*) => {$(
        impl<O: Operand> $trait<O> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor { must(other.apply(&ewise::$row, self, false)) }
        }
        impl<O: Operand> $trait<O> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor { must(other.apply(&ewise::$row, &self, false)) }
        }
    )*};
}
bit_operator!(BitAnd bitand BITAND, BitOr bitor BITOR, BitXor bitxor BITXOR);

macro_rules! unary_operator {
    ($($trait:ident $method:ident $row:ident),*) => {$(
        impl $trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { self.unary(&ewise::$row) }
        }
        impl $trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { self.unary(&ewise::$row) }
        }
    )*};
}
unary_operator!(Neg neg NEG, Not not BITNOT);
