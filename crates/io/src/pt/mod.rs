//! PyTorch checkpoints (`.pt`, `.pth`), read without PyTorch and without executing anything.
//!
//! Both formats are read: the zip of PyTorch 1.6 and later, and the stream before it. The pickle inside is walked by a
//! small machine that knows tensors, parameters, storages, element types, dictionaries, lists, numbers and strings. Any
//! other class or function is an error that names it.
//!
//! Nested dictionaries and lists give names with dots, as `state_dict` makes them; numbers and strings become metadata.
//! Tensors that share their memory (tied weights) load as one tensor.
//!
//! ```no_run
//! let checkpoint = gradus_io::pt::load("checkpoint.pt")?;
//! let weight = checkpoint.tensor("model.encoder.0.weight")?;
//! let epoch = checkpoint.metadata()["epoch"].as_i64();
//! # Ok::<(), gradus_io::Error>(())
//! ```

mod flatten;
mod globals;
mod legacy;
mod machine;
mod opcode;
mod rebuild;
mod storage;
mod value;

use crate::{Entry, Error, Format, Info, Metadata, Result, StateDict, bytes::Cursor, bytes::FileBytes, zip::Archive};
use flatten::flatten;
use machine::Machine;
use std::path::Path;
use storage::{Loader, Storages};
use value::{Heap, View};

pub(crate) use legacy::is_legacy;

/// Whether this file of a zip is the pickle that makes the zip a checkpoint.
pub(crate) fn is_root_pickle(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

/// What a checkpoint holds: views of storages by name, not yet tensors.
struct Contents<'a> {
    heap: Heap<'a>,
    tensors: Vec<(String, u32)>,
    metadata: Metadata,
}

impl<'a> Contents<'a> {
    fn views(&self) -> impl Iterator<Item = (&str, &View<'a>)> {
        self.tensors.iter().filter_map(|(name, at)| Some((name.as_str(), self.heap.view(*at)?)))
    }

    fn info(&self) -> Info {
        let entry = |(name, v): (&str, &View<'a>)| Entry {
            name: name.into(),
            dtype_name: format!("torch.{}", v.kind.name),
            dtype: v.kind.dtype,
            shape: v.shape.clone(),
            bytes: v.shape.iter().fold(v.kind.size as u64, |n, &d| n.saturating_mul(d as u64)),
        };
        Info { format: Format::Pt, entries: self.views().map(entry).collect(), metadata: self.metadata.clone() }
    }

    fn load(self, storages: &mut dyn Storages<'a>) -> Result<StateDict> {
        let mut loader = Loader::new(storages);
        let mut state = StateDict::new();
        for (name, view) in self.views() {
            state.insert(name, loader.tensor(name, view)?);
        }
        *state.metadata_mut() = self.metadata;
        Ok(state)
    }
}

/// Reads a pickle to its end and gives names to what it holds.
fn contents<'a>(cursor: &mut Cursor<'a>) -> Result<(Contents<'a>, Vec<value::Storage<'a>>)> {
    let start = cursor.position();
    let (heap, root, storages) = Machine::new(cursor).run()?;
    let (tensors, metadata) = flatten(&heap, root, cursor.position() - start)?;
    Ok((Contents { heap, tensors, metadata }, storages))
}

/// Loads a checkpoint that is in memory.
pub fn from_bytes(bytes: &[u8]) -> Result<StateDict> {
    if is_legacy(bytes) {
        let (contents, mut storages) = legacy::read(bytes)?;
        return contents.load(&mut storages);
    }
    let archive = Archive::open(bytes, Format::Pt)?;
    let pickle = storage::root(&archive)?;
    let mut cursor = Cursor::new(&pickle.bytes, Format::Pt).based(pickle.base);
    let (contents, _) = contents(&mut cursor)?;
    contents.load(&mut storage::Zip::new(&archive, pickle.prefix)?)
}

/// Loads a checkpoint.
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&FileBytes::open(path)?).map_err(|e| e.with_path(path))
}

/// Lists what a checkpoint in memory holds: the pickle is read, the elements are not.
pub fn inspect(bytes: &[u8]) -> Result<Info> {
    if is_legacy(bytes) {
        return Ok(legacy::read(bytes)?.0.info());
    }
    let archive = Archive::open(bytes, Format::Pt)?;
    let pickle = storage::root(&archive)?;
    let mut cursor = Cursor::new(&pickle.bytes, Format::Pt).based(pickle.base);
    Ok(contents(&mut cursor)?.0.info())
}

fn malformed(expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::malformed(Format::Pt, expected, found)
}
