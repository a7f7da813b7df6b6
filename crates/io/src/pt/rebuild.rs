//! The few calls a pickle may make: each makes a value out of its arguments.

use super::{
    globals::Global,
    machine::Machine,
    malformed,
    value::{Heap, Kind, Object, Storage, Value, View},
};
use crate::{Result, strided};

const MAX_RANK: usize = 64;

impl<'a> Machine<'_, 'a> {
    /// `callee(*args)`.
    pub fn call(&mut self, callee: Value<'a>, args: Value<'a>) -> Result<Value<'a>> {
        let Value::Global(global) = callee else {
            return Err(malformed("a known function to call", self.heap.what(callee)));
        };
        let Some(list) = self.heap.items(args) else {
            return Err(malformed("a tuple of arguments", self.heap.what(args)));
        };
        let args = list.to_vec();
        let wrong = |heap: &Heap<'a>| {
            let got: Vec<String> = args.iter().take(8).map(|&a| heap.what(a)).collect();
            malformed(format!("arguments that fit {global:?}"), format!("({})", got.join(", ")))
        };
        match (global, &args[..]) {
            (Global::OrderedDict, []) => self.heap.add(Object::Dict(vec![])),
            (Global::OrderedDict, [pairs, ..]) => {
                // Old Pythons write the items as a list of pairs.
                let pairs = self.heap.items(*pairs).ok_or_else(|| wrong(&self.heap))?;
                let pair = |&p: &Value<'a>| match self.heap.items(p) {
                    Some(&[key, value]) => Ok((key, value)),
                    _ => Err(wrong(&self.heap)),
                };
                let dict = pairs.iter().map(pair).collect::<Result<Vec<_>>>()?;
                self.heap.add(Object::Dict(dict))
            }
            (Global::Set, []) => self.heap.add(Object::List(vec![])),
            (Global::Set | Global::Size, [items]) => {
                let items = self.heap.items(*items).ok_or_else(|| wrong(&self.heap))?.to_vec();
                self.heap.add(Object::Tuple(items))
            }
            (Global::RebuildTensor | Global::RebuildTensorV2, [storage, offset, size, stride, ..]) => {
                self.view(*storage, *offset, *size, *stride, None)
            }
            (
                Global::RebuildTensorV3,
                [storage, offset, size, stride, _grad, _hooks, Value::Global(Global::DType(kind)), ..],
            ) => self.view(*storage, *offset, *size, *stride, Some(*kind)),
            (Global::RebuildParameter, [data, ..]) => match self.heap.get(*data) {
                Some(Object::Tensor(_)) => Ok(*data),
                _ => Err(wrong(&self.heap)),
            },
            // A tensor with attributes of its own, which are left out. The inner call cannot be of this kind again, so
            // that the nesting has an end.
            (Global::RebuildFromType, [Value::Global(inner), Value::Global(Global::TensorClass), args, ..])
                if *inner != Global::RebuildFromType =>
            {
                self.call(Value::Global(*inner), *args)
            }
            (Global::Device, [Value::Str(kind)]) => Ok(Value::Str(kind)),
            (Global::Device, [Value::Str(kind), Value::Int(index)]) => {
                let text = format!("{kind}:{index}");
                self.heap.add(Object::Text(text))
            }
            // Bytes in the protocols of Python 2: a text in latin-1.
            (Global::Encode, [Value::Str(text), Value::Str("latin1" | "latin-1")]) => {
                let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
                let bytes = bytes.ok_or_else(|| wrong(&self.heap))?;
                self.heap.add(Object::Bytes(bytes))
            }
            (Global::NumpyDtype, [Value::Str(code), ..]) => {
                let big = code.starts_with('>');
                let code = code.trim_start_matches(['<', '>', '|', '=']);
                self.heap.add(Object::NumpyDtype(code, big))
            }
            (Global::NumpyScalar, [dtype, bytes]) => self.numpy_scalar(*dtype, *bytes).ok_or_else(|| wrong(&self.heap)),
            (
                Global::Set
                | Global::Size
                | Global::RebuildTensor
                | Global::RebuildTensorV2
                | Global::RebuildTensorV3
                | Global::RebuildParameter
                | Global::RebuildFromType
                | Global::TensorClass
                | Global::Storage(_)
                | Global::DType(_)
                | Global::Device
                | Global::Encode
                | Global::NumpyDtype
                | Global::NumpyScalar,
                _,
            ) => Err(wrong(&self.heap)),
        }
    }

    /// What `__setstate__` would do: attributes of dictionaries and tensors are left out.
    pub fn build(&mut self, object: Value<'a>, state: Value<'a>) -> Result<()> {
        // (version, byte order, ...)
        let big = matches!(self.heap.items(state), Some([_, Value::Str(">"), ..]));
        match self.heap.get_mut(object) {
            Some(Object::Dict(_) | Object::Tensor(_)) => Ok(()),
            Some(Object::NumpyDtype(_, is_big)) => {
                *is_big = big;
                Ok(())
            }
            _ => Err(malformed("a dictionary or tensor to set attributes of", self.heap.what(object))),
        }
    }

    /// A persistent id: `("storage", type, key, location, numel)`, and a sixth in old files.
    pub fn storage(&mut self, id: Value<'a>) -> Result<Value<'a>> {
        let fault = |heap: &Heap<'a>| malformed("a storage's type, key, location and size", heap.what(id));
        let Some(items) = self.heap.items(id) else { return Err(fault(&self.heap)) };
        let &[
            Value::Str("storage"),
            Value::Global(Global::Storage(kind)),
            Value::Str(key),
            _,
            Value::Int(n),
            ref more @ ..,
        ] = items
        else {
            return Err(fault(&self.heap));
        };
        let window = match more.first() {
            None | Some(Value::None) => None,
            Some(&part) => match self.heap.items(part) {
                Some(&[_, Value::Int(first), Value::Int(n)]) => {
                    let window = usize::try_from(first).ok().zip(usize::try_from(n).ok());
                    Some(window.ok_or_else(|| fault(&self.heap))?)
                }
                _ => return Err(fault(&self.heap)),
            },
        };
        let numel = usize::try_from(n).map_err(|_| malformed("a storage's size", n.to_string()))?;
        let storage = Storage { key, kind, numel, window };
        self.storages.push(storage);
        self.heap.add(Object::Storage(storage))
    }

    fn view(
        &mut self,
        storage: Value<'a>,
        offset: Value<'a>,
        size: Value<'a>,
        stride: Value<'a>,
        kind: Option<Kind>,
    ) -> Result<Value<'a>> {
        let Some(&Object::Storage(storage)) = self.heap.get(storage) else {
            return Err(malformed("a tensor's storage", self.heap.what(storage)));
        };
        let kind = kind.unwrap_or(storage.kind);
        let (shape, strides) = (self.extents(size, "shape")?, self.extents(stride, "strides")?);
        let offset = self.extent(offset, "offset")?;
        if shape.len() != strides.len() || shape.len() > MAX_RANK {
            let found = format!("{} extents and {} strides", shape.len(), strides.len());
            return Err(malformed(format!("a stride for each of at most {MAX_RANK} extents"), found));
        }
        let have = storage.window.map_or(storage.numel, |(_, n)| n);
        let have = if storage.kind.is_untyped() { have / kind.size.max(1) } else { have };
        let end = strided::span(&shape, &strides).and_then(|n| n.checked_add(offset));
        let fits =
            strided::numel(&shape).is_some_and(|n| n.checked_mul(kind.size).is_some_and(|b| b <= isize::MAX as usize));
        if !fits || end.is_none_or(|end| end > have && !shape.contains(&0)) {
            let found = format!("shape {shape:?}, strides {strides:?}, offset {offset}");
            return Err(malformed(format!("a tensor inside its storage of {have} elements"), found));
        }
        self.heap.add(Object::Tensor(View { storage, kind, offset, shape, strides }))
    }

    fn extents(&self, tuple: Value<'a>, what: &str) -> Result<Vec<usize>> {
        let items =
            self.heap.items(tuple).ok_or_else(|| malformed(format!("a tensor's {what}"), self.heap.what(tuple)))?;
        if items.len() > MAX_RANK {
            return Err(malformed(format!("at most {MAX_RANK} axes"), items.len().to_string()));
        }
        items.iter().map(|&i| self.extent(i, what)).collect()
    }

    fn extent(&self, value: Value<'a>, what: &str) -> Result<usize> {
        match value {
            Value::Int(i) if i >= 0 => usize::try_from(i).map_err(|e| malformed(what, e.to_string())),
            other => Err(malformed(format!("whole numbers for a tensor's {what}"), self.heap.what(other))),
        }
    }

    /// A NumPy scalar as the number it is.
    fn numpy_scalar(&self, dtype: Value<'a>, bytes: Value<'a>) -> Option<Value<'a>> {
        let Some(&Object::NumpyDtype(code, big)) = self.heap.get(dtype) else { return None };
        let bytes = self.heap.bytes(bytes)?;
        let mut le = [0u8; 8];
        let to = le.get_mut(..bytes.len())?;
        to.copy_from_slice(bytes);
        if big {
            to.reverse();
        }
        // Signed integers narrower than 64 bits: up, then down again with the sign.
        let signed = |bits: u32| i64::from_le_bytes(le) << (64 - bits) >> (64 - bits);
        Some(match (code, bytes.len()) {
            ("b1", 1) => Value::Bool(le[0] != 0),
            ("i1", 1) => Value::Int(signed(8)),
            ("i2", 2) => Value::Int(signed(16)),
            ("i4", 4) => Value::Int(signed(32)),
            ("i8", 8) => Value::Int(signed(64)),
            ("u1", 1) | ("u2", 2) | ("u4", 4) => Value::Int(i64::from_le_bytes(le)),
            ("u8", 8) => Value::Int(i64::try_from(u64::from_le_bytes(le)).ok()?),
            ("f4", 4) => Value::Float(f32::from_bits(u64::from_le_bytes(le) as u32).into()),
            ("f8", 8) => Value::Float(f64::from_le_bytes(le)),
            _ => return None,
        })
    }
}
