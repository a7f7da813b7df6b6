//! Element types: what they are called, how big they are, and which one wins when two meet.

use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's elements.
///
/// ```
/// use gradus_core::DType;
/// assert_eq!(DType::I64.promote(DType::F16), DType::F16); // as in PyTorch: a float beats any integer
/// assert_eq!(DType::F16.promote(DType::BF16), DType::F32); // neither holds the other
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer, the default for integers and indices.
    I64,
    /// IEEE half precision; arithmetic happens in f32.
    F16,
    /// The upper half of an f32; arithmetic happens in f32.
    BF16,
    /// Single precision, the default for floats.
    F32,
    /// Double precision.
    F64,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes one element takes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// Whether this is one of the floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether this is an integer type (bool is not one).
    pub const fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The name PyTorch and NumPy users know: `f32`, `i64`, `bool`...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type in which registers of a kernel hold such values: f32, f64, i64 or bool.
    pub const fn compute(self) -> DType {
        match self {
            DType::Bool => DType::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => DType::I64,
            DType::F16 | DType::BF16 | DType::F32 => DType::F32,
            DType::F64 => DType::F64,
        }
    }

    /// The float type an integer tensor becomes under a float-only function; floats stay.
    pub const fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }

    /// PyTorch's promotion of two tensor types.
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        let (lo, hi) = if self < other { (self, other) } else { (other, self) };
        match (lo, hi) {
            (F16, BF16) => F32,
            (U8, I8) => I16,
            _ => hi,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One number with its category, as written in source: `2.0`, `3`, `true`.
///
/// A scalar promotes a tensor only across categories (bool < integer < float), as a Python number does in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float.
    F(f64),
    /// An integer.
    I(i64),
    /// A truth value.
    B(bool),
}

/// By the bits: numbers that are equal but look different are different structure.
impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, h: &mut H) {
        match *self {
            Scalar::F(x) => (0u8, x.to_bits()).hash(h),
            Scalar::I(x) => (1u8, x).hash(h),
            Scalar::B(x) => (2u8, x).hash(h),
        }
    }
}

impl Scalar {
    /// The value as f64.
    pub fn f64(self) -> f64 {
        match self {
            Scalar::F(x) => x,
            Scalar::I(x) => x as f64,
            Scalar::B(x) => x as u8 as f64,
        }
    }

    /// The value as i64 (floats are truncated).
    pub fn i64(self) -> i64 {
        match self {
            Scalar::F(x) => x as i64,
            Scalar::I(x) => x,
            Scalar::B(x) => x as i64,
        }
    }

    /// Whether it counts as true.
    pub fn bool(self) -> bool {
        match self {
            Scalar::F(x) => x != 0.0,
            Scalar::I(x) => x != 0,
            Scalar::B(x) => x,
        }
    }

    /// The type of a tensor made from this number alone.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::F(_) => DType::F32,
            Scalar::I(_) => DType::I64,
            Scalar::B(_) => DType::Bool,
        }
    }

    /// The result type when this number meets a tensor of type `t`.
    pub fn promote_with(self, t: DType) -> DType {
        match self {
            Scalar::B(_) => t,
            Scalar::I(_) if t == DType::Bool => DType::I64,
            Scalar::I(_) => t,
            Scalar::F(_) => t.to_float(),
        }
    }

    /// The same number in the category of `dtype`.
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype.compute() {
            DType::Bool => Scalar::B(self.bool()),
            DType::I64 => Scalar::I(self.i64()),
            _ => Scalar::F(self.f64()),
        }
    }
}

macro_rules! scalar_from {
    ($($t:ty => $v:ident as $as:ty),*) => {$(
        impl From<$t> for Scalar { fn from(x: $t) -> Self { Scalar::$v(x as $as) } }
    )*};
}
scalar_from!(f64 => F as f64, f32 => F as f64, i64 => I as i64, i32 => I as i64, i16 => I as i64, i8 => I as i64,
    u8 => I as i64, u32 => I as i64, usize => I as i64, isize => I as i64, bool => B as bool);

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::F(x) => write!(f, "{x}"),
            Scalar::I(x) => write!(f, "{x}"),
            Scalar::B(x) => write!(f, "{x}"),
        }
    }
}

/// A Rust type that can be an element of a tensor.
pub trait Element: Copy + Default + PartialEq + PartialOrd + Send + Sync + fmt::Debug + 'static {
    /// The matching element type.
    const DTYPE: DType;
    /// As f64, rounding where needed.
    fn to_f64(self) -> f64;
    /// From f64, rounding (floats) or truncating (integers).
    fn from_f64(x: f64) -> Self;
    /// As i64; floats are truncated.
    fn to_i64(self) -> i64;
    /// From i64, wrapping.
    fn from_i64(x: i64) -> Self;
}

macro_rules! element {
    ($($t:ty, $d:ident, |$x:ident| $tof:expr, |$y:ident| $fromf:expr, |$z:ident| $toi:expr, |$w:ident| $fromi:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn to_f64(self) -> f64 { let $x = self; $tof }
            fn from_f64($y: f64) -> Self { $fromf }
            fn to_i64(self) -> i64 { let $z = self; $toi }
            fn from_i64($w: i64) -> Self { $fromi }
        }
    )*};
}
element! {
    f64, F64, |x| x, |x| x, |x| x as i64, |x| x as f64;
    f32, F32, |x| x as f64, |x| x as f32, |x| x as i64, |x| x as f32;
    f16, F16, |x| x.to_f64(), |x| f16::from_f32(x as f32), |x| x.to_f64() as i64, |x| f16::from_f32(x as f64 as f32);
    bf16, BF16, |x| x.to_f64(), |x| bf16::from_f32(x as f32), |x| x.to_f64() as i64, |x| bf16::from_f32(x as f64 as f32);
    i64, I64, |x| x as f64, |x| x as i64, |x| x, |x| x;
    i32, I32, |x| x as f64, |x| x as i64 as i32, |x| x as i64, |x| x as i32;
    i16, I16, |x| x as f64, |x| x as i64 as i16, |x| x as i64, |x| x as i16;
    i8, I8, |x| x as f64, |x| x as i64 as i8, |x| x as i64, |x| x as i8;
    u8, U8, |x| x as f64, |x| x as i64 as u8, |x| x as i64, |x| x as u8;
    bool, Bool, |x| x as u8 as f64, |x| x != 0.0, |x| x as i64, |x| x != 0;
}

/// Calls `$body` with the type alias `$T` bound to the Rust type of a [`DType`].
#[macro_export]
#[doc(hidden)]
macro_rules! with_dtype {
    ($d:expr, $T:ident => $body:expr) => {
        match $d {
            $crate::DType::Bool => {
                type $T = bool;
                $body
            }
            $crate::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
