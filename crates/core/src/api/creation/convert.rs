//! Conversions of the element type, under PyTorch's names.

use crate::{DType, Tensor};

macro_rules! conversions {
    ($($(#[$doc:meta])* $name:ident = $dtype:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.to_dtype(DType::$dtype)
            }
        )*}
    };
}

conversions! {
    /// As bool: whether not zero.
    bool = Bool;
    /// As u8.
    byte = U8;
    /// As i8.
    char = I8;
    /// As i16.
    short = I16;
    /// As i32.
    int = I32;
    /// As i64.
    long = I64;
    /// As f16.
    half = F16;
    /// As bf16.
    bfloat16 = BF16;
    /// As f32.
    float = F32;
    /// As f64.
    double = F64;
}

impl Tensor {
    /// The element type of `other`.
    #[track_caller]
    pub fn type_as(&self, other: &Tensor) -> Tensor {
        self.to_dtype(other.dtype())
    }
}
