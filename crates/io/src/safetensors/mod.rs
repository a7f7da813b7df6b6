//! Safetensors: eight bytes of length, a JSON header, the elements.
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_io::{StateDict, safetensors};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("m.safetensors");
//! let state = StateDict::from_iter([("w", Tensor::from([1.0f32, 2.0])), ("b", Tensor::from([3i64]))]);
//! safetensors::save(&path, &state)?;
//! let file = safetensors::File::open(&path)?; // the header alone
//! assert_eq!(file.info().entry("w").unwrap().shape, [2]);
//! assert_eq!(file.tensor("b")?.to_vec::<i64>().unwrap(), [3]); // one tensor alone
//! # Ok::<(), gradus_io::Error>(())
//! ```

mod checked;
mod header;
mod json;
mod write;

use crate::{Error, ErrorKind, Info, Metadata, Result, StateDict, bytes::FileBytes, strided};
use gradus_core::Tensor;
use header::Header;
use std::path::{Path, PathBuf};

pub use checked::{load_checked, save_checked};
pub(crate) use header::looks_like;
pub use write::{save, to_bytes};

/// An open file whose tensors are loaded one at a time, from the mapped bytes.
///
/// The file must not be changed by others while it is open.
pub struct File {
    path: PathBuf,
    bytes: FileBytes,
    header: Header,
    info: Info,
}

impl File {
    /// Maps a file and reads its header.
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref().to_path_buf();
        let bytes = FileBytes::open(&path)?;
        let header = Header::parse(&bytes).map_err(|e| e.with_path(&path))?;
        let info = header.info();
        Ok(File { path, bytes, header, info })
    }

    /// What the file holds.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Loads one tensor.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let found = match self.header.tensors.iter().find(|t| t.name == name) {
            Some(t) => make(t, &self.bytes),
            None => Err(Error::new(ErrorKind::Missing { name: crate::error::shorten(name), near: vec![] })),
        };
        found.map_err(|e| e.with_path(&self.path))
    }

    /// Loads the tensors whose names pass, with the metadata.
    ///
    /// ```no_run
    /// let encoder = gradus_io::safetensors::File::open("m.safetensors")?.load_where(|n| n.starts_with("encoder."))?;
    /// # Ok::<(), gradus_io::Error>(())
    /// ```
    pub fn load_where(&self, wanted: impl Fn(&str) -> bool) -> Result<StateDict> {
        collect(&self.header, &self.bytes, wanted).map_err(|e| e.with_path(&self.path))
    }

    /// Loads all tensors, with the metadata.
    pub fn load(&self) -> Result<StateDict> {
        self.load_where(|_| true)
    }
}

fn make(t: &header::Item, bytes: &[u8]) -> Result<Tensor> {
    let Some(dtype) = header::dtype(&t.dtype) else {
        return Err(Error::dtype(&t.name, t.dtype.as_str()).at(t.begin));
    };
    // The header's check made sure that the range lies in the file and fits the shape.
    let range = usize::try_from(t.begin).ok().zip(usize::try_from(t.end).ok());
    let data = range.and_then(|(a, b)| bytes.get(a..b)).unwrap_or_default();
    strided::tensor(&t.name, data, &t.shape, dtype).map_err(|e| e.at(t.begin))
}

fn collect(header: &Header, bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<StateDict> {
    let mut state = StateDict::new();
    for t in header.tensors.iter().filter(|t| wanted(&t.name)) {
        state.insert(t.name.as_str(), make(t, bytes)?);
    }
    *state.metadata_mut() = header.metadata.clone();
    Ok(state)
}

/// Loads all tensors of a file that is in memory.
pub fn from_bytes(bytes: &[u8]) -> Result<StateDict> {
    collect(&Header::parse(bytes)?, bytes, |_| true)
}

/// Lists what a file in memory holds.
pub fn inspect(bytes: &[u8]) -> Result<Info> {
    Ok(Header::parse(bytes)?.info())
}

/// The metadata as strings, which is all that the format holds.
fn strings(metadata: &Metadata) -> impl Iterator<Item = (&str, String)> {
    metadata.iter().map(|(k, v)| (k.as_str(), v.to_string()))
}
