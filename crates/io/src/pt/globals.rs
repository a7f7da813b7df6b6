//! The classes and functions a pickle may name. The list is closed: nothing else is looked up, nothing is executed.

use super::value::Kind;
use crate::{Error, ErrorKind, Result, error::shorten};
use gradus_core::DType;

/// A class or function that tensors need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Global {
    OrderedDict,
    Set,
    RebuildTensor,
    RebuildTensorV2,
    RebuildTensorV3,
    RebuildParameter,
    RebuildFromType,
    TensorClass,
    Storage(Kind),
    DType(Kind),
    Size,
    Device,
    Encode,
    NumpyDtype,
    NumpyScalar,
}

const fn kind(name: &'static str, storage: &'static str, dtype: DType) -> Kind {
    Kind { name, storage, dtype: Some(dtype), size: dtype.size() }
}

const fn foreign(name: &'static str, storage: &'static str, size: usize) -> Kind {
    Kind { name, storage, dtype: None, size }
}

const KINDS: [Kind; 26] = [
    kind("float32", "FloatStorage", DType::F32),
    kind("float64", "DoubleStorage", DType::F64),
    kind("float16", "HalfStorage", DType::F16),
    kind("bfloat16", "BFloat16Storage", DType::BF16),
    kind("int64", "LongStorage", DType::I64),
    kind("int32", "IntStorage", DType::I32),
    kind("int16", "ShortStorage", DType::I16),
    kind("int8", "CharStorage", DType::I8),
    kind("uint8", "ByteStorage", DType::U8),
    kind("bool", "BoolStorage", DType::Bool),
    foreign("uint16", "", 2),
    foreign("uint32", "", 4),
    foreign("uint64", "", 8),
    foreign("complex32", "", 4),
    foreign("complex64", "ComplexFloatStorage", 8),
    foreign("complex128", "ComplexDoubleStorage", 16),
    foreign("float8_e4m3fn", "", 1),
    foreign("float8_e4m3fnuz", "", 1),
    foreign("float8_e5m2", "", 1),
    foreign("float8_e5m2fnuz", "", 1),
    foreign("float8_e8m0fnu", "", 1),
    foreign("quint8", "QUInt8Storage", 1),
    foreign("qint8", "QInt8Storage", 1),
    foreign("qint32", "QInt32Storage", 4),
    foreign("quint4x2", "QUInt4x2Storage", 1),
    foreign("quint2x4", "QUInt2x4Storage", 1),
];

/// A storage of bytes, whose tensors name their element type themselves.
const UNTYPED: Kind = foreign("untyped", "UntypedStorage", 1);

/// The meaning of `module.name`, or an error that names it.
pub fn lookup(module: &str, name: &str) -> Result<Global> {
    let found = match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("builtins" | "__builtin__", "set" | "frozenset") => Some(Global::Set),
        ("torch._utils", "_rebuild_tensor") => Some(Global::RebuildTensor),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::RebuildTensorV2),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTensorV3),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Some(Global::RebuildParameter),
        ("torch._tensor", "_rebuild_from_type_v2") => Some(Global::RebuildFromType),
        ("torch", "Tensor") | ("torch.nn.parameter", "Parameter" | "Buffer") => Some(Global::TensorClass),
        ("torch", "Size") => Some(Global::Size),
        ("torch", "device") => Some(Global::Device),
        ("torch" | "torch.storage", "UntypedStorage") => Some(Global::Storage(UNTYPED)),
        ("torch", name) if name.ends_with("Storage") => {
            KINDS.into_iter().find(|k| k.storage == name).map(Global::Storage)
        }
        ("torch", name) => KINDS.into_iter().find(|k| k.name == name).map(Global::DType),
        ("_codecs", "encode") => Some(Global::Encode),
        ("numpy", "dtype") => Some(Global::NumpyDtype),
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Some(Global::NumpyScalar),
        _ => None,
    };
    found.ok_or_else(|| {
        let name = format!("{}.{}", shorten(module), shorten(name));
        Error::new(ErrorKind::Global { name }).hint(
            "save tensors alone, with torch.save(model.state_dict(), path); or, where the file can be trusted, load it \
             in PyTorch and save it as safetensors",
        )
    })
}

impl Kind {
    /// Whether tensors over such a storage bring their own element type.
    pub fn is_untyped(&self) -> bool {
        *self == UNTYPED
    }
}
