//! One way in and one way out for every format.

use crate::{Error, ErrorKind, Info, Result, StateDict, bytes::FileBytes, npy, npz, pt, safetensors, zip::Archive};
use std::{fmt, path::Path};

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Hugging Face's format: a JSON header and the elements.
    Safetensors,
    /// What `torch.save` writes.
    Pt,
    /// One NumPy array.
    Npy,
    /// A zip of NumPy arrays.
    Npz,
}

impl Format {
    /// The format of some bytes, by what they begin with (and, for a zip, what it holds).
    ///
    /// ```
    /// use gradus_io::Format;
    /// assert_eq!(Format::of(b"\x93NUMPY\x01\x00")?, Format::Npy);
    /// let e = Format::of(b"<!DOCTYPE html>").unwrap_err();
    /// assert!(e.to_string().contains("a web page"));
    /// # Ok::<(), gradus_io::Error>(())
    /// ```
    pub fn of(bytes: &[u8]) -> Result<Format> {
        if bytes.starts_with(npy::MAGIC) {
            return Ok(Format::Npy);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            // PyTorch writes its pickle first; archives that others zipped anew are in any order.
            if Archive::first_name(bytes).is_some_and(pt::is_root_pickle) {
                return Ok(Format::Pt);
            }
            let is_pt = Archive::open(bytes, Format::Npz)?.names().any(pt::is_root_pickle);
            return Ok(if is_pt { Format::Pt } else { Format::Npz });
        }
        if pt::is_legacy(bytes) {
            return Ok(Format::Pt);
        }
        if safetensors::looks_like(bytes) {
            return Ok(Format::Safetensors);
        }
        Err(unknown(bytes))
    }

    /// The format that an extension stands for.
    pub fn of_extension(path: &Path) -> Option<Format> {
        let ext = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ext.as_str() {
            "safetensors" => Format::Safetensors,
            "pt" | "pth" | "ckpt" => Format::Pt,
            "npy" => Format::Npy,
            "npz" => Format::Npz,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Safetensors => "safetensors",
            Format::Pt => "PyTorch",
            Format::Npy => "npy",
            Format::Npz => "npz",
        })
    }
}

/// What else a file is, when it is none of ours.
fn unknown(bytes: &[u8]) -> Error {
    let lower: Vec<u8> = bytes.iter().take(64).map(u8::to_ascii_lowercase).collect();
    let begins = |with: &[u8]| lower.starts_with(with);
    let (found, hint) = if bytes.is_empty() {
        ("an empty file", "it was not written, or not copied, to its end")
    } else if begins(b"version https://git-lfs") {
        ("a Git LFS pointer", "fetch the file itself with `git lfs pull`")
    } else if begins(b"<!doctype") || begins(b"<html") {
        ("a web page", "the download gave an HTML page: log in, or use the link of the raw file")
    } else if begins(b"gguf") {
        ("a GGUF file", "convert it to safetensors")
    } else if begins(b"\x89hdf") {
        ("an HDF5 file", "convert it to safetensors or npz")
    } else if begins(b"\x1f\x8b") {
        ("a gzip file", "unpack it first")
    } else if bytes.get(257..262) == Some(b"ustar") {
        ("a tar archive", "unpack it; a PyTorch checkpoint older than 0.2 must be saved again by a newer PyTorch")
    } else if bytes.first() == Some(&0x80) {
        ("a plain pickle", "write it with torch.save or safetensors instead of pickle.dump")
    } else {
        let shown: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let found = format!("the bytes {}", shown.join(" "));
        return Error::new(ErrorKind::UnknownFormat { found });
    };
    Error::new(ErrorKind::UnknownFormat { found: found.into() }).hint(hint)
}

/// Reads a file of tensors. The format is known by the content, whatever the extension says.
///
/// Nested dictionaries and lists of a PyTorch checkpoint give names with dots (`model.layer.0.weight`), and its plain
/// numbers and strings go to the metadata. An array without a name is called [`crate::UNNAMED`].
///
/// The file must not be changed by others while it is read: it is mapped into memory.
pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    from_bytes(&FileBytes::open(path)?).map_err(|e| e.with_path(path))
}

/// Reads a file of tensors that is in memory.
///
/// ```
/// use gradus_core::Tensor;
/// let bytes = gradus_io::npy::to_bytes(&Tensor::from([1i64, 2]))?;
/// assert_eq!(gradus_io::from_bytes(&bytes)?.tensor(gradus_io::UNNAMED)?.dims(), [2]);
/// # Ok::<(), gradus_io::Error>(())
/// ```
pub fn from_bytes(bytes: &[u8]) -> Result<StateDict> {
    match Format::of(bytes)? {
        Format::Safetensors => safetensors::from_bytes(bytes),
        Format::Pt => pt::from_bytes(bytes),
        Format::Npy => Ok(StateDict::from_iter([(crate::UNNAMED, npy::from_bytes(bytes)?)])),
        Format::Npz => npz::from_bytes(bytes),
    }
}

/// Lists what a file holds, without loading it. Unlike [`load`] it also takes tensors of types not supported here.
pub fn inspect(path: impl AsRef<Path>) -> Result<Info> {
    let path = path.as_ref();
    let bytes = FileBytes::open(path)?;
    let info = || match Format::of(&bytes)? {
        Format::Safetensors => safetensors::inspect(&bytes),
        Format::Pt => pt::inspect(&bytes),
        Format::Npy => npy::inspect(&bytes),
        Format::Npz => npz::inspect(&bytes),
    };
    info().map_err(|e| e.with_path(path))
}

/// Writes a file of tensors, whole or not at all; the format follows the extension (`.safetensors`, `.npz`, `.npy`).
///
/// What a format cannot hold is an error, never left out: NumPy's have no metadata and no bf16, and `.npy` holds one
/// tensor.
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    let path = path.as_ref();
    let written = match Format::of_extension(path) {
        Some(Format::Safetensors) => safetensors::save(path, state),
        Some(Format::Npz) => npz::save(path, state, npz::Compression::Stored),
        Some(Format::Npy) => npy::save_state(path, state),
        Some(Format::Pt) => Err(Error::unsupported(Format::Pt, "PyTorch checkpoints are read, not written")
            .hint("save as .safetensors; PyTorch reads that with safetensors.torch.load_file")),
        None => {
            let found = format!("the extension {:?}", path.extension().unwrap_or_default());
            Err(Error::new(ErrorKind::UnknownFormat { found }).hint("save as .safetensors, .npz or .npy"))
        }
    };
    written.map_err(|e| e.with_path(path))
}

/// Computes all tensors of a state in one run, so that writing them one by one repeats nothing.
pub(crate) fn realize(state: &StateDict) -> Result<()> {
    let tensors: Vec<_> = state.iter().map(|(_, t)| t).collect();
    gradus_core::Tensor::eval_all(&tensors).map_err(|e| Error::tensor("(all)", e))
}
