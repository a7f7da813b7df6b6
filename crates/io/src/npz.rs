//! A zip of NumPy arrays, stored or deflated.
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_io::{StateDict, npz};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("x.npz");
//! let state = StateDict::from_iter([("x", Tensor::from([1.0f32, 2.0])), ("y", Tensor::from([3i64]))]);
//! npz::save(&path, &state, npz::Compression::Deflated)?; // as numpy.savez_compressed
//! assert_eq!(npz::load(&path)?.tensor("y")?.to_vec::<i64>().unwrap(), [3]);
//! # Ok::<(), gradus_io::Error>(())
//! ```

use crate::{
    Error, Format, Info, Metadata, Result, StateDict, atomic_write,
    bytes::FileBytes,
    error::shorten,
    front::realize,
    npy,
    zip::{Archive, Writer},
};
use std::path::Path;

/// How arrays are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are, like `numpy.savez`.
    #[default]
    Stored,
    /// Smaller and slower, like `numpy.savez_compressed`.
    Deflated,
}

/// An array's name: its file's, without the extension.
fn array_name(file: &str) -> &str {
    file.strip_suffix(".npy").unwrap_or(file)
}

/// Reads all arrays of a file that is in memory.
pub fn from_bytes(bytes: &[u8]) -> Result<StateDict> {
    let archive = Archive::open(bytes, Format::Npz)?;
    let mut state = StateDict::new();
    for record in archive.records() {
        let name = array_name(record.name());
        let content = archive.read(record)?;
        let tensor = npy::read(&content, name, Format::Npz, archive.place(&content, record))?;
        if state.insert(name, tensor).is_some() {
            let e = Error::malformed(Format::Npz, "each name once", format!("`{}` twice", shorten(name)));
            return Err(e.at(record.offset()));
        }
    }
    Ok(state)
}

/// Reads all arrays.
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&FileBytes::open(path)?).map_err(|e| e.with_path(path))
}

/// Lists the arrays of a file that is in memory.
pub fn inspect(bytes: &[u8]) -> Result<Info> {
    let archive = Archive::open(bytes, Format::Npz)?;
    let mut entries = vec![];
    for record in archive.records() {
        // A header is a line of text; 64 KiB hold any that version 1 can have.
        let start = archive.read_start(record, (1 << 16) + 16)?;
        let header = npy::Header::parse(&start, Format::Npz, archive.place(&start, record))?;
        entries.push(header.entry(array_name(record.name()), header.data_bytes(record.size())));
    }
    Ok(Info { format: Format::Npz, entries, metadata: Metadata::new() })
}

/// The bytes that [`save`] writes.
pub fn to_bytes(state: &StateDict, compression: Compression) -> Result<Vec<u8>> {
    realize(state)?;
    let mut out = vec![];
    write(&mut out, state, compression)?;
    Ok(out)
}

/// Writes all tensors, whole or not at all. NumPy has no bf16, and the format no metadata: both are errors.
pub fn save(path: impl AsRef<Path>, state: &StateDict, compression: Compression) -> Result<()> {
    let path = path.as_ref();
    realize(state).map_err(|e| e.with_path(path))?;
    atomic_write(path, |w| write(w, state, compression))
}

fn write(w: &mut dyn std::io::Write, state: &StateDict, compression: Compression) -> Result<()> {
    npy::refuse_metadata(state, Format::Npz)?;
    let mut zip = Writer::new(w);
    for (name, tensor) in state.iter() {
        let (header, data) = npy::encode(name, tensor, Format::Npz)?;
        zip.add(&format!("{name}.npy"), [&header, &data], compression == Compression::Deflated)?;
    }
    zip.finish()
}
