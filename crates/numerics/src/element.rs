//! The element types and the little arithmetic the algorithms need of them.

use crate::halves;
use half::{bf16, f16};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::{Add, Mul};

/// An element with a total order in which NaN is the greatest value and equals itself.
///
/// That is the order PyTorch sorts by. `PartialEq` stays IEEE equality.
pub trait Order: Copy + Send + Sync + PartialEq + PartialOrd + Debug + 'static {
    /// Whether the value is NaN (never for integers and booleans).
    fn is_nan(self) -> bool;

    /// Compares in the total order.
    fn order(&self, other: &Self) -> Ordering;

    /// A number that orders as the value does; equal exactly for values equal in the total order. It has as many bits
    /// as the type.
    fn key(self) -> u64;

    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

/// An element with addition and multiplication; integers wrap.
pub trait Num: Order {
    /// The type sums and products are carried in.
    type Acc: Num;
    /// The additive identity.
    const ZERO: Self;
    /// The multiplicative identity.
    const ONE: Self;
    /// The least value: minus infinity, where there is one.
    const LOWEST: Self;
    /// The greatest value: infinity, where there is one.
    const HIGHEST: Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// Widens to the accumulator type.
    fn widen(self) -> Self::Acc;
    /// Rounds an accumulator back.
    fn narrow(acc: Self::Acc) -> Self;
    /// Whether many at a time are widened and narrowed much faster than one by one.
    const IN_BLOCKS: bool = false;
    /// Widens as many as there are.
    fn widen_block(x: &[Self], out: &mut [Self::Acc]) {
        x.iter().zip(out).for_each(|(x, out)| *out = x.widen());
    }
    /// Rounds as many accumulators as there are.
    fn narrow_block(acc: &[Self::Acc], out: &mut [Self]) {
        acc.iter().zip(out).for_each(|(acc, out)| *out = Self::narrow(*acc));
    }
}

macro_rules! float {
    ($t:ty, $bits:ty, $acc:ty, $zero:expr, $one:expr, $ops:expr, $widen:expr, $narrow:expr $(, $widen_block:path, $narrow_block:path)?) => {
        impl Order for $t {
            #[inline]
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            #[inline]
            fn order(&self, other: &Self) -> Ordering {
                // Two comparisons that are both false mean equal or NaN.
                self.partial_cmp(other).unwrap_or_else(|| <$t>::is_nan(*self).cmp(&<$t>::is_nan(*other)))
            }
            #[inline]
            fn key(self) -> u64 {
                // -0 is +0, and the bits of negative numbers order backwards. Without a branch: vectors are made of it.
                let (bits, sign) = (self.to_bits(), 1 << (<$bits>::BITS - 1));
                let bits = if bits == sign { 0 } else { bits };
                let ordered = if bits & sign == 0 { bits | sign } else { !bits };
                u64::from(if <$t>::is_nan(self) { <$bits>::MAX } else { ordered })
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
        impl Num for $t {
            type Acc = $acc;
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            #[inline]
            fn add(self, other: Self) -> Self {
                $ops.0(self, other)
            }
            #[inline]
            fn mul(self, other: Self) -> Self {
                $ops.1(self, other)
            }
            #[inline]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline]
            fn narrow(acc: $acc) -> Self {
                $narrow(acc)
            }
            $(
                const IN_BLOCKS: bool = true;
                fn widen_block(x: &[Self], out: &mut [$acc]) {
                    $widen_block(x, out);
                }
                fn narrow_block(acc: &[$acc], out: &mut [Self]) {
                    $narrow_block(acc, out);
                }
            )?
        }
    };
}

float!(f64, u64, f64, 0.0, 1.0, (<f64 as Add>::add, <f64 as Mul>::mul), |x| x, |x| x);
float!(f32, u32, f64, 0.0, 1.0, (<f32 as Add>::add, <f32 as Mul>::mul), f64::from, |x| x as f32);
float!(
    f16,
    u16,
    f32,
    f16::ZERO,
    f16::ONE,
    (<f16 as Add>::add, <f16 as Mul>::mul),
    f16::to_f32,
    f16::from_f32,
    halves::widen_f16,
    halves::narrow_f16
);
float!(
    bf16,
    u16,
    f32,
    bf16::ZERO,
    bf16::ONE,
    (halves::add_bf16, halves::mul_bf16),
    bf16::to_f32,
    halves::nearest_bf16,
    halves::widen_bf16,
    halves::narrow_bf16
);

macro_rules! int {
    ($($t:ty, $u:ty;)*) => {$(
        impl Order for $t {
            #[inline]
            fn is_nan(self) -> bool {
                false
            }
            #[inline]
            fn order(&self, other: &Self) -> Ordering {
                self.cmp(other)
            }
            #[inline]
            fn key(self) -> u64 {
                // How far it is from the least.
                self.wrapping_sub(<$t>::MIN) as $u as u64
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
        impl Num for $t {
            type Acc = $t;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            #[inline]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn widen(self) -> $t {
                self
            }
            #[inline]
            fn narrow(acc: $t) -> Self {
                acc
            }
        }
    )*};
}

int! { i8, u8; i16, u16; i32, u32; i64, u64; u8, u8; u16, u16; u32, u32; u64, u64; }

impl Order for bool {
    fn is_nan(self) -> bool {
        false
    }
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
    fn key(self) -> u64 {
        u64::from(self)
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// A boolean counts as the ring with "or" for addition and "and" for multiplication.
impl Num for bool {
    type Acc = bool;
    const ZERO: Self = false;
    const ONE: Self = true;
    const LOWEST: Self = false;
    const HIGHEST: Self = true;
    fn add(self, other: Self) -> Self {
        self | other
    }
    fn mul(self, other: Self) -> Self {
        self & other
    }
    fn widen(self) -> bool {
        self
    }
    fn narrow(acc: bool) -> Self {
        acc
    }
}

/// `f32` or `f64`: what convolution and linear algebra work on.
pub trait Real:
    Num + Default + crate::gemm::Gemm + std::ops::Mul<Output = Self> + std::ops::AddAssign + std::iter::Sum
{
    /// Rounds from `f64`.
    fn from_f64(x: f64) -> Self;
}

impl Real for f32 {
    #[inline]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
}

impl Real for f64 {
    #[inline]
    fn from_f64(x: f64) -> Self {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_the_greatest_and_equal_to_itself() {
        assert_eq!(f32::NAN.order(&f32::INFINITY), Ordering::Greater);
        assert_eq!(f64::NEG_INFINITY.order(&f64::NAN), Ordering::Less);
        assert_eq!(f16::NAN.order(&-f16::NAN), Ordering::Equal);
        assert_eq!(0.0f32.order(&-0.0), Ordering::Equal);
    }

    #[test]
    fn keys_order_as_values_do() {
        let floats =
            [f32::NEG_INFINITY, -2.5, -1e-40, -0.0, 0.0, 1e-40, 1.0, f32::MAX, f32::INFINITY, f32::NAN, -f32::NAN];
        let halves = floats.map(f16::from_f32);
        let wide = floats.map(f64::from);
        let signed = [i64::MIN, -1, 0, 1, i64::MAX];
        let unsigned = [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX];
        fn check<T: Order>(x: &[T]) {
            for a in x {
                for b in x {
                    assert_eq!(a.key().cmp(&b.key()), a.order(b), "{a:?} {b:?}");
                }
            }
        }
        check(&floats);
        check(&halves);
        check(&wide);
        check(&signed);
        check(&unsigned);
        check(&[i8::MIN, -1, 0, i8::MAX]);
        check(&[false, true]);
    }
}
