//! What a pickle can make here: plain values, and objects on a heap that may refer to each other.

use super::{globals::Global, malformed};
use crate::Result;
use gradus_core::DType;

/// An element type of PyTorch; `dtype` is `None` where tensors here have no such type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// As in `torch.float32`.
    pub name: &'static str,
    /// As in `torch.FloatStorage`; empty where there is none.
    pub storage: &'static str,
    pub dtype: Option<DType>,
    pub size: usize,
}

/// A plain value, or a place on the heap.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits: little-endian two's complement.
    Big(&'a [u8]),
    Float(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
    Global(Global),
    Ref(u32),
}

impl Value<'_> {
    /// What it is, for messages.
    pub fn what(&self) -> String {
        match self {
            Value::None => "None".into(),
            Value::Bool(_) => "a bool".into(),
            Value::Int(i) => format!("the integer {i}"),
            Value::Big(_) => "a large integer".into(),
            Value::Float(x) => format!("the float {x}"),
            Value::Str(s) => format!("the string `{}`", crate::error::shorten(s)),
            Value::Bytes(_) => "bytes".into(),
            Value::Global(g) => format!("{g:?}"),
            Value::Ref(_) => "an object".into(),
        }
    }
}

/// A run of elements in the file.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'a> {
    pub key: &'a str,
    pub kind: Kind,
    /// Elements, or bytes when the storage has no type.
    pub numel: usize,
    /// Only in old files: a part of the storage, as first element and number.
    pub window: Option<(usize, usize)>,
}

/// A tensor: a strided view of a storage.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub storage: Storage<'a>,
    pub kind: Kind,
    /// In elements, as the strides.
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// Something with parts.
#[derive(Debug)]
pub enum Object<'a> {
    List(Vec<Value<'a>>),
    Tuple(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    Bytes(Vec<u8>),
    Text(String),
    Storage(Storage<'a>),
    Tensor(View<'a>),
    /// `numpy.dtype`: its code without the byte order, and whether it is big-endian.
    NumpyDtype(&'a str, bool),
}

/// A pickle takes a byte to make an empty list; this keeps what it can make in a machine's memory.
const MAX_OBJECTS: usize = 1 << 22;

/// All objects of a pickle. They refer to each other by place, so cycles cost nothing and free nothing twice.
#[derive(Debug, Default)]
pub struct Heap<'a>(Vec<Object<'a>>);

impl<'a> Heap<'a> {
    pub fn add(&mut self, object: Object<'a>) -> Result<Value<'a>> {
        if self.0.len() >= MAX_OBJECTS {
            return Err(malformed(format!("a pickle of at most {MAX_OBJECTS} objects"), "more"));
        }
        self.0.push(object);
        Ok(Value::Ref(self.0.len() as u32 - 1))
    }

    pub fn get(&self, value: Value<'a>) -> Option<&Object<'a>> {
        let Value::Ref(at) = value else { return None };
        self.0.get(at as usize)
    }

    pub fn get_mut(&mut self, value: Value<'a>) -> Option<&mut Object<'a>> {
        let Value::Ref(at) = value else { return None };
        self.0.get_mut(at as usize)
    }

    pub fn view(&self, at: u32) -> Option<&View<'a>> {
        match self.0.get(at as usize) {
            Some(Object::Tensor(v)) => Some(v),
            _ => None,
        }
    }

    /// The items of a list or tuple.
    pub fn items(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match self.get(value) {
            Some(Object::List(items) | Object::Tuple(items)) => Some(items),
            _ => None,
        }
    }

    /// The bytes of a `bytes` object.
    pub fn bytes(&self, value: Value<'a>) -> Option<&[u8]> {
        match (value, self.get(value)) {
            (Value::Bytes(b), _) => Some(b),
            (_, Some(Object::Bytes(b))) => Some(b),
            _ => None,
        }
    }

    pub fn what(&self, value: Value<'a>) -> String {
        match self.get(value) {
            None => value.what(),
            Some(Object::List(_)) => "a list".into(),
            Some(Object::Tuple(_)) => "a tuple".into(),
            Some(Object::Dict(_)) => "a dictionary".into(),
            Some(Object::Bytes(_)) => "bytes".into(),
            Some(Object::Text(_)) => "a text".into(),
            Some(Object::Storage(_)) => "a storage".into(),
            Some(Object::Tensor(_)) => "a tensor".into(),
            Some(Object::NumpyDtype(..)) => "a numpy.dtype".into(),
        }
    }
}
