//! The stream of PyTorch before 1.6: a magic, a version, facts about the machine, the object, the storages' keys, the
//! storages; all but the last are pickles.

use super::{
    Contents, contents,
    machine::Machine,
    malformed,
    storage::Storages,
    value::{Heap, Object, Storage, Value},
};
use crate::{Error, Format, Result, bytes::Cursor, error::shorten};
use std::collections::HashMap;

/// 0x1950a86a20f9469cfc6c, as a pickle holds it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const VERSION: i64 = 1001;

/// Whether the bytes begin with a pickle of the magic number.
pub(crate) fn is_legacy(bytes: &[u8]) -> bool {
    bytes.first() == Some(&super::opcode::PROTO) && bytes.windows(10).take(22).any(|w| w == MAGIC)
}

/// The storages of a stream, by key.
pub struct Stream<'a>(HashMap<&'a str, &'a [u8]>);

impl<'a> Storages<'a> for Stream<'a> {
    fn bytes(&mut self, storage: &Storage<'a>) -> Result<&[u8]> {
        let bytes = self.0.get(storage.key).copied();
        bytes.ok_or_else(|| malformed(format!("the storage {}", shorten(storage.key)), "none"))
    }

    fn is_big_endian(&self) -> bool {
        false
    }
}

pub fn read(bytes: &[u8]) -> Result<(Contents<'_>, Stream<'_>)> {
    let mut cursor = Cursor::new(bytes, Format::Pt);
    let c = &mut cursor;
    match pickle(c)?.1 {
        Value::Big(magic) if magic == MAGIC => {}
        other => return Err(malformed("PyTorch's magic number", other.what()).at(0)),
    }
    let at = c.offset();
    match pickle(c)?.1 {
        Value::Int(VERSION) => {}
        other => return Err(malformed(format!("version {VERSION}"), other.what()).at(at)),
    }
    let at = c.offset();
    let (heap, facts) = pickle(c)?;
    check_machine(&heap, facts).map_err(|e| e.at(at))?;
    let (contents, storages) = contents(c)?;
    let kinds: HashMap<&str, &Storage<'_>> = storages.iter().map(|s| (s.key, s)).collect();

    let at = c.offset();
    let (heap, keys) = pickle(c)?;
    let keys = heap.items(keys).ok_or_else(|| malformed("a list of storages", heap.what(keys)).at(at))?;
    let mut stream = Stream(HashMap::new());
    for &key in keys {
        let at = c.offset();
        let fault = |expected: &str, found: String| malformed(expected, found).at(at);
        let Value::Str(key) = key else { return Err(fault("a storage's key", heap.what(key))) };
        let Some(storage) = kinds.get(key) else {
            return Err(fault("the key of a storage that a tensor uses", format!("`{}`", shorten(key))));
        };
        let numel = c.u64("a storage's size")?;
        if numel != storage.numel as u64 {
            return Err(fault(&format!("a storage of {} elements", storage.numel), numel.to_string()));
        }
        let size = numel.saturating_mul(storage.kind.size as u64);
        let data =
            c.take(size, "a storage").map_err(|e| e.hint("the file was not written, or not copied, to its end"))?;
        stream.0.insert(key, data);
    }
    Ok((contents, stream))
}

fn pickle<'a>(cursor: &mut Cursor<'a>) -> Result<(Heap<'a>, Value<'a>)> {
    let (heap, root, _) = Machine::new(cursor).run()?;
    Ok((heap, root))
}

/// The file must come from a little-endian machine, as all have been for long.
fn check_machine(heap: &Heap<'_>, facts: Value<'_>) -> Result<()> {
    let Some(Object::Dict(facts)) = heap.get(facts) else {
        return Err(malformed("facts about the machine", heap.what(facts)));
    };
    let is_big = |&(k, v): &(Value<'_>, Value<'_>)| matches!((k, v), (Value::Str("little_endian"), Value::Bool(false)));
    if facts.iter().any(is_big) {
        return Err(Error::unsupported(Format::Pt, "a checkpoint of a big-endian machine in the format before 1.6")
            .hint("save it again with PyTorch 1.6 or later"));
    }
    Ok(())
}
