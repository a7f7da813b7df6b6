//! Safetensors with a checksum over the whole file, for files that must be known to be whole.
//!
//! The sum is the first entry of the metadata, so it lies at a fixed place, and other readers see an ordinary file. It is
//! the CRC-32 of all bytes of the file with zeros where its own digits stand.

use super::{from_bytes, write::write};
use crate::{Error, ErrorKind, Result, StateDict, atomic_write, bytes::FileBytes, front::realize};
use std::{
    io::{self, Write},
    path::Path,
};

/// What comes after the eight bytes of length.
const BEFORE: &[u8] = br#"{"__metadata__":{"CRC32":""#;
const AT: usize = 8 + BEFORE.len();
const DIGITS: usize = 8;

/// Sums what it is given, and keeps nothing.
struct Sum(crc32fast::Hasher);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes tensors and metadata with a checksum, whole or not at all.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_io::{StateDict, safetensors};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("m.safetensors");
/// let state = StateDict::from_iter([("w", Tensor::from([1.0f32, 2.0]))]);
/// safetensors::save_checked(&path, &state)?;
/// assert!(safetensors::load_checked(&path)?.contains("w"));
///
/// let mut bytes = std::fs::read(&path).unwrap();
/// *bytes.last_mut().unwrap() ^= 1;
/// std::fs::write(&path, bytes).unwrap();
/// assert!(safetensors::load_checked(&path).unwrap_err().to_string().contains("checksum"));
/// # Ok::<(), gradus_io::Error>(())
/// ```
pub fn save_checked(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    let path = path.as_ref();
    realize(state).map_err(|e| e.with_path(path))?;
    let mut sum = Sum(crc32fast::Hasher::new());
    write(&mut sum, state, Some(0)).map_err(|e| e.with_path(path))?;
    let sum = sum.0.finalize();
    atomic_write(path, |w| write(w, state, Some(sum)))
}

/// Reads what [`save_checked`] wrote. A file that is not as it was written is an error with both sums.
pub fn load_checked(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let bytes = FileBytes::open(path)?;
    let checked = || {
        verify(&bytes)?;
        let mut state = from_bytes(&bytes)?;
        state.metadata_mut().remove("CRC32");
        Ok(state)
    };
    checked().map_err(|e: Error| e.with_path(path))
}

fn verify(bytes: &[u8]) -> Result<()> {
    let digits = bytes.get(AT..AT + DIGITS).and_then(|d| std::str::from_utf8(d).ok());
    // As it is written, and no other way: a changed digit must not read as the same number.
    let exact = |d: &str| u32::from_str_radix(d, 16).ok().filter(|sum| format!("{sum:08x}") == d);
    let stated = digits.filter(|_| bytes.get(8..AT) == Some(BEFORE)).and_then(exact);
    let mut sum = crc32fast::Hasher::new();
    sum.update(bytes.get(..AT).unwrap_or(bytes));
    sum.update(&[b'0'; DIGITS]);
    sum.update(bytes.get(AT + DIGITS..).unwrap_or_default());
    let found = sum.finalize();
    if stated == Some(found) {
        return Ok(());
    }
    let hint = match stated {
        Some(_) => "it was damaged or cut after it was written: use an older one",
        None => "it was not written with a checksum, or its very beginning is damaged",
    };
    Err(Error::new(ErrorKind::Checksum { stated, found }).hint(hint))
}
