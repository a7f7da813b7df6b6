//! From storages in the file to tensors.

use super::{
    is_root_pickle, malformed,
    value::{Storage, View},
};
use crate::{
    Error, Result,
    error::shorten,
    strided,
    zip::{Archive, Record},
};
use gradus_core::Tensor;
use std::{borrow::Cow, collections::HashMap};

/// Where the elements are.
pub trait Storages<'a> {
    /// All bytes of a storage.
    fn bytes(&mut self, storage: &Storage<'a>) -> Result<&[u8]>;
    /// Whether elements are big-endian.
    fn is_big_endian(&self) -> bool;
}

/// The pickle of a zip: its bytes, where they are in the file, and what the names beside it begin with.
pub struct Root<'z> {
    pub bytes: Cow<'z, [u8]>,
    pub base: u64,
    pub prefix: &'z str,
}

pub fn root<'z>(archive: &'z Archive<'_>) -> Result<Root<'z>> {
    let record = archive.records().iter().find(|r| is_root_pickle(r.name()));
    let record = record.ok_or_else(|| malformed("data.pkl in the archive", "none"))?;
    let bytes = archive.read(record)?;
    let base = archive.place(&bytes, record);
    Ok(Root { bytes, base, prefix: record.name().strip_suffix("data.pkl").unwrap_or_default() })
}

/// The storages of a zip: each a file.
pub struct Zip<'z, 'b> {
    archive: &'z Archive<'b>,
    records: HashMap<&'z str, &'z Record>,
    read: HashMap<&'z str, Cow<'b, [u8]>>,
    big_endian: bool,
}

impl<'z, 'b> Zip<'z, 'b> {
    pub fn new(archive: &'z Archive<'b>, prefix: &str) -> Result<Self> {
        let mut records = HashMap::new();
        let mut big_endian = false;
        for record in archive.records() {
            let Some(name) = record.name().strip_prefix(prefix) else { continue };
            if name == "byteorder" {
                big_endian = *archive.read(record)? == *b"big";
            }
            if let Some(key) = name.strip_prefix("data/") {
                records.insert(key, record);
            }
        }
        Ok(Zip { archive, records, read: HashMap::new(), big_endian })
    }
}

impl<'a> Storages<'a> for Zip<'_, '_> {
    fn bytes(&mut self, storage: &Storage<'a>) -> Result<&[u8]> {
        let Some((&key, &record)) = self.records.get_key_value(storage.key) else {
            let expected = format!("the storage data/{} in the archive", shorten(storage.key));
            return Err(malformed(expected, "none").hint("the file is damaged: fetch or write it again"));
        };
        // Read once: the checksum of a storage that many tensors share is not computed for each.
        let bytes = match self.read.entry(key) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => e.insert(self.archive.read(record)?),
        };
        Ok(bytes)
    }

    fn is_big_endian(&self) -> bool {
        self.big_endian
    }
}

/// A view's identity: tensors that agree in it are one tensor.
type Key<'a> = (&'a str, Option<(usize, usize)>, &'static str, usize, Vec<usize>, Vec<usize>);

/// How many times a storage's bytes may become tensors: disjoint views need one, overlapping ones more.
const MAX_COPIES: usize = 8;

/// Makes tensors, each distinct view once.
pub struct Loader<'s, 'a> {
    storages: &'s mut dyn Storages<'a>,
    made: HashMap<Key<'a>, Tensor>,
    /// Bytes that may still be taken, for each storage: many views of one storage must not multiply it without end.
    budgets: HashMap<&'a str, usize>,
}

impl<'s, 'a> Loader<'s, 'a> {
    pub fn new(storages: &'s mut dyn Storages<'a>) -> Self {
        Loader { storages, made: HashMap::new(), budgets: HashMap::new() }
    }

    pub fn tensor(&mut self, name: &str, view: &View<'a>) -> Result<Tensor> {
        let s = view.storage;
        let key = (s.key, s.window, view.kind.name, view.offset, view.shape.clone(), view.strides.clone());
        if let Some(tensor) = self.made.get(&key) {
            return Ok(tensor.clone());
        }
        let tensor = self.make(name, view)?;
        self.made.insert(key, tensor.clone());
        Ok(tensor)
    }

    fn make(&mut self, name: &str, view: &View<'a>) -> Result<Tensor> {
        let View { storage, kind, offset, shape, strides } = view;
        let Some(dtype) = kind.dtype else {
            return Err(Error::dtype(name, format!("torch.{}", kind.name)));
        };
        if shape.contains(&0) {
            return strided::tensor(name, &[], shape, dtype);
        }
        let big_endian = self.storages.is_big_endian();
        let bytes = self.storages.bytes(storage)?;
        let budget = self.budgets.entry(storage.key).or_insert(bytes.len().saturating_mul(MAX_COPIES) + (1 << 12));
        let outside = || {
            let expected = format!("the elements of `{}` in {} bytes of its storage", shorten(name), bytes.len());
            malformed(expected, format!("{dtype} {shape:?} with strides {strides:?} from {offset} on"))
        };
        let first = storage.window.map_or(Some(0), |(first, _)| first.checked_mul(storage.kind.size));
        let first = first.and_then(|f| offset.checked_mul(kind.size)?.checked_add(f)).ok_or_else(outside)?;
        let rest = bytes.get(first..).ok_or_else(outside)?;

        // An axis of stride 0 repeats one element: it is read once and expanded, which takes no memory.
        let repeats = |(&d, &s): (&usize, &usize)| d > 1 && s == 0;
        let is_expanded = shape.iter().zip(strides).any(repeats);
        let once: Vec<usize> = shape.iter().zip(strides).map(|p| if repeats(p) { 1 } else { *p.0 }).collect();
        let need = strided::numel(&once).and_then(|n| n.checked_mul(kind.size)).ok_or_else(outside)?;
        *budget = budget.checked_sub(need).ok_or_else(|| {
            let expected = format!("views of at most {MAX_COPIES} times a storage's bytes");
            malformed(expected, format!("more, at `{}`", shorten(name))).hint("clone() the tensors before torch.save")
        })?;
        let data = strided::gather(rest, kind.size, &once, strides).ok_or_else(outside)?;
        let data = if big_endian { Cow::Owned(strided::swapped(&data, kind.size)) } else { data };
        let tensor = strided::tensor(name, &data, &once, dtype)?;
        if !is_expanded {
            return Ok(tensor);
        }
        tensor.expand(shape.as_slice()).map_err(|e| Error::tensor(name, e))
    }
}
