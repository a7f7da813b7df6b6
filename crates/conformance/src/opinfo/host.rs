//! Arrays in plain memory: the form in which samples are read and compared.

use std::fmt;

use half::{bf16, f16};

/// The element type of a [`HostArray`].
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostDType {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U8,
    Bool,
}

impl HostDType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::BF16)
    }

    /// The type that PyTorch calls `name`, with or without `torch.`.
    pub fn from_torch(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("torch.").unwrap_or(name) {
            "float64" | "double" => Self::F64,
            "float32" | "float" => Self::F32,
            "float16" | "half" => Self::F16,
            "bfloat16" => Self::BF16,
            "int64" | "long" => Self::I64,
            "int32" | "int" => Self::I32,
            "int16" | "short" => Self::I16,
            "int8" => Self::I8,
            "uint64" => Self::U64,
            "uint8" => Self::U8,
            "bool" => Self::Bool,
            _ => return None,
        })
    }

    /// The type that corresponds to safetensors' own.
    pub fn from_safetensors(dtype: safetensors::Dtype) -> Option<Self> {
        use safetensors::Dtype as S;
        Some(match dtype {
            S::F64 => Self::F64,
            S::F32 => Self::F32,
            S::F16 => Self::F16,
            S::BF16 => Self::BF16,
            S::I64 => Self::I64,
            S::I32 => Self::I32,
            S::I16 => Self::I16,
            S::I8 => Self::I8,
            S::U64 => Self::U64,
            S::U8 => Self::U8,
            S::BOOL => Self::Bool,
            _ => return None,
        })
    }
}

impl fmt::Display for HostDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U8 => "u8",
            Self::Bool => "bool",
        })
    }
}

/// A dense row-major array in plain memory, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostArray {
    dtype: HostDType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl HostArray {
    /// An array of `shape` over `bytes`; an error if their sizes disagree.
    pub fn new(dtype: HostDType, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self, String> {
        let size = shape
            .iter()
            .try_fold(dtype.size(), |n, &d| n.checked_mul(d))
            .ok_or_else(|| format!("a shape too large to hold: {shape:?}"))?;
        if size != bytes.len() {
            return Err(format!("{} bytes for shape {shape:?} of {dtype}, which needs {size}", bytes.len()));
        }
        if dtype == HostDType::Bool && bytes.iter().any(|&b| b > 1) {
            return Err("a bool that is neither 0 nor 1".to_string());
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// The element type.
    pub fn dtype(&self) -> HostDType {
        self.dtype
    }

    /// The shape; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements' bytes, row-major and little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The elements as `f64`; 64-bit integers are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.dtype {
            HostDType::F64 => self.map(f64::from_le_bytes),
            HostDType::F32 => self.map(|b| f32::from_le_bytes(b).into()),
            HostDType::F16 => self.map(|b| f16::from_le_bytes(b).into()),
            HostDType::BF16 => self.map(|b| bf16::from_le_bytes(b).into()),
            _ => self.to_i128().into_iter().map(|v| v as f64).collect(),
        }
    }

    /// The elements exactly, of an integer or bool array; floats are truncated.
    pub fn to_i128(&self) -> Vec<i128> {
        match self.dtype {
            HostDType::I64 => self.map(|b| i64::from_le_bytes(b).into()),
            HostDType::I32 => self.map(|b| i32::from_le_bytes(b).into()),
            HostDType::I16 => self.map(|b| i16::from_le_bytes(b).into()),
            HostDType::I8 => self.map(|b| i8::from_le_bytes(b).into()),
            HostDType::U64 => self.map(|b| u64::from_le_bytes(b).into()),
            HostDType::U8 | HostDType::Bool => self.map(|b| u8::from_le_bytes(b).into()),
            _ => self.to_f64().into_iter().map(|v| v as i128).collect(),
        }
    }

    fn map<const N: usize, V>(&self, read: impl Fn([u8; N]) -> V) -> Vec<V> {
        let (elements, _) = self.bytes.as_chunks::<N>();
        elements.iter().map(|&b| read(b)).collect()
    }
}

/// Constructors from Rust values: `HostArray::from_f64(&[2, 3], &values)`.
///
/// They panic when the number of values does not fit the shape.
macro_rules! from_values {
    ($($name:ident, $t:ty, $dtype:ident;)*) => {
        impl HostArray {
            $(
                #[doc = concat!("An array of `", stringify!($t), "`; panics if the number of values does not fit the shape.")]
                pub fn $name(shape: &[usize], values: &[$t]) -> Self {
                    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                    Self::new(HostDType::$dtype, shape.to_vec(), bytes).expect("as many values as the shape has")
                }
            )*
        }
    };
}

from_values! {
    from_f64, f64, F64;
    from_f32, f32, F32;
    from_f16, f16, F16;
    from_bf16, bf16, BF16;
    from_i64, i64, I64;
    from_i32, i32, I32;
    from_i16, i16, I16;
    from_i8, i8, I8;
    from_u64, u64, U64;
    from_u8, u8, U8;
}

impl HostArray {
    /// An array of `bool`; panics if the number of values does not fit the shape.
    pub fn from_bool(shape: &[usize], values: &[bool]) -> Self {
        let bytes = values.iter().map(|&v| v.into()).collect();
        Self::new(HostDType::Bool, shape.to_vec(), bytes).expect("as many values as the shape has")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        assert!(HostArray::new(HostDType::F64, vec![2], vec![0; 15]).is_err());
        assert!(HostArray::new(HostDType::F64, vec![usize::MAX, 2], vec![]).is_err());
        assert!(HostArray::new(HostDType::Bool, vec![1], vec![2]).is_err());
        let empty = HostArray::new(HostDType::I8, vec![3, 0], vec![]).unwrap();
        assert!(empty.is_empty());
    }

    #[test]
    fn values_come_back() {
        let scalar = HostArray::from_f64(&[], &[1.5]);
        assert_eq!(scalar.to_f64(), [1.5]);
        assert_eq!(scalar.len(), 1);
        let max = HostArray::from_u64(&[1], &[u64::MAX]);
        assert_eq!(max.to_i128(), [u64::MAX.into()]);
        let half = HostArray::from_bf16(&[1], &[bf16::from_f64(-2.5)]);
        assert_eq!(half.to_f64(), [-2.5]);
        let flags = HostArray::from_bool(&[2], &[true, false]);
        assert_eq!(flags.to_i128(), [1, 0]);
    }

    #[test]
    fn torch_names() {
        assert_eq!(HostDType::from_torch("torch.int16"), Some(HostDType::I16));
        assert_eq!(HostDType::from_torch("torch.channels_last"), None);
    }
}
