//! Nested dictionaries and lists become names with dots.

use super::{
    globals::Global,
    malformed,
    value::{Heap, Object, Value},
};
use crate::{Meta, Metadata, Result, UNNAMED, error::shorten};
use std::collections::HashSet;

const MAX_DEPTH: usize = 64;

/// The tensors (as places on the heap) and plain values of `root`, which a pickle of `len` bytes made.
///
/// Objects may be shared, so that a small pickle can stand for an endless tree; what comes out is bounded by `len`.
pub fn flatten(heap: &Heap<'_>, root: Value<'_>, len: usize) -> Result<(Vec<(String, u32)>, Metadata)> {
    let budget = len.saturating_mul(64).saturating_add(1 << 20);
    let (tensors, metadata) = (vec![], Metadata::new());
    let mut f = Flatten { heap, tensors, metadata, names: HashSet::new(), budget };
    f.visit(root, &mut String::new(), 0)?;
    Ok((f.tensors, f.metadata))
}

struct Flatten<'h, 'a> {
    heap: &'h Heap<'a>,
    tensors: Vec<(String, u32)>,
    metadata: Metadata,
    names: HashSet<String>,
    budget: usize,
}

impl<'a> Flatten<'_, 'a> {
    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| {
            malformed("names and values in proportion to the pickle", "objects that contain each other many times")
        })?;
        Ok(())
    }

    fn visit(&mut self, value: Value<'a>, name: &mut String, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(malformed(format!("at most {MAX_DEPTH} objects inside each other"), "more"));
        }
        self.spend(2 * name.len() + 64)?;
        let heap = self.heap;
        match (value, heap.get(value)) {
            (Value::Ref(at), Some(Object::Tensor(_))) => {
                let name = self.claim(name)?;
                self.tensors.push((name, at));
                Ok(())
            }
            (_, Some(Object::Dict(pairs))) => {
                for &(key, value) in pairs {
                    let key = self.key(key)?;
                    self.under(name, &key, value, depth)?;
                }
                Ok(())
            }
            (_, Some(Object::List(items) | Object::Tuple(items))) => {
                if let Some(list) = self.plain_list(items)? {
                    return self.set(name, Meta::List(list));
                }
                for (i, &item) in items.iter().enumerate() {
                    self.under(name, &i.to_string(), item, depth)?;
                }
                Ok(())
            }
            _ => {
                let meta = self.plain(value)?;
                let meta = meta.ok_or_else(|| malformed("tensors, numbers and strings", heap.what(value)))?;
                self.set(name, meta)
            }
        }
    }

    /// Visits a part, with its name put after its holder's.
    fn under(&mut self, name: &mut String, part: &str, value: Value<'a>, depth: usize) -> Result<()> {
        let len = name.len();
        if depth > 0 {
            name.push('.');
        }
        name.push_str(part);
        self.visit(value, name, depth + 1)?;
        name.truncate(len);
        Ok(())
    }

    fn key(&mut self, key: Value<'a>) -> Result<String> {
        match key {
            Value::Str(s) => {
                self.spend(s.len())?;
                Ok(s.to_owned())
            }
            Value::Int(i) => Ok(i.to_string()),
            Value::Bool(b) => Ok(b.to_string()),
            other => Err(malformed("strings or integers for keys", self.heap.what(other))),
        }
    }

    /// A name nobody else has.
    fn claim(&mut self, name: &str) -> Result<String> {
        let name = if name.is_empty() { UNNAMED } else { name };
        if !self.names.insert(name.to_owned()) {
            return Err(malformed("each name once", format!("`{}` twice", shorten(name))));
        }
        Ok(name.to_owned())
    }

    fn set(&mut self, name: &str, meta: Meta) -> Result<()> {
        let name = self.claim(name)?;
        self.metadata.insert(name, meta);
        Ok(())
    }

    /// A list of plain values only, as one value.
    fn plain_list(&mut self, items: &[Value<'a>]) -> Result<Option<Vec<Meta>>> {
        let is_plain = |&v: &Value<'a>| match self.heap.get(v) {
            None | Some(Object::Text(_)) => true,
            Some(
                Object::List(_)
                | Object::Tuple(_)
                | Object::Dict(_)
                | Object::Bytes(_)
                | Object::Storage(_)
                | Object::Tensor(_)
                | Object::NumpyDtype(..),
            ) => false,
        };
        if !items.iter().all(is_plain) {
            return Ok(None);
        }
        let mut list = vec![];
        for &item in items {
            let Some(meta) = self.plain(item)? else { return Ok(None) };
            list.push(meta);
        }
        Ok(Some(list))
    }

    fn plain(&mut self, value: Value<'a>) -> Result<Option<Meta>> {
        self.spend(32)?;
        Ok(Some(match value {
            Value::None => Meta::None,
            Value::Bool(b) => Meta::Bool(b),
            Value::Int(i) => Meta::Int(i),
            Value::Big(bytes) => {
                self.spend(2 * bytes.len())?;
                Meta::Str(big(bytes))
            }
            Value::Float(x) => Meta::Float(x),
            Value::Str(s) => {
                self.spend(s.len())?;
                Meta::Str(s.to_owned())
            }
            Value::Global(Global::DType(kind)) => Meta::Str(format!("torch.{}", kind.name)),
            Value::Bytes(bytes) => self.hex(bytes)?,
            Value::Ref(_) => match self.heap.get(value) {
                Some(Object::Text(s)) => Meta::Str(s.clone()),
                Some(Object::Bytes(bytes)) => self.hex(bytes)?,
                _ => return Ok(None),
            },
            Value::Global(_) => return Ok(None),
        }))
    }

    /// Bytes that are no tensor, as hexadecimal text.
    fn hex(&mut self, bytes: &[u8]) -> Result<Meta> {
        self.spend(2 * bytes.len())?;
        Ok(Meta::Str(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }
}

/// An integer beyond 64 bits: as text, in hexadecimal where even 128 bits are too few.
fn big(bytes: &[u8]) -> String {
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut all = if negative { [0xff; 16] } else { [0; 16] };
    match all.get_mut(..bytes.len()) {
        Some(to) => {
            to.copy_from_slice(bytes);
            i128::from_le_bytes(all).to_string()
        }
        None => bytes.iter().rev().map(|b| format!("{b:02x}")).collect(),
    }
}
