//! A file's bytes, and a reader over them that cannot run past their end.

use crate::{Error, Format, Result};
use std::{
    fs::File,
    io::{self, Read},
    ops::Deref,
    path::Path,
};

/// From this size on a file is mapped; below, a read is cheaper than the page faults.
const MAP_FROM: u64 = 1 << 16;

/// The content of a file: mapped, or read when it is small.
pub(crate) enum FileBytes {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    pub fn open(path: &Path) -> Result<FileBytes> {
        let open = |e| Error::io("cannot open", e).with_path(path);
        let mut file = File::open(path).map_err(open)?;
        let meta = file.metadata().map_err(open)?;
        if !meta.is_file() {
            // A device or a pipe may never end, so its content cannot be taken as a whole.
            let what = if meta.is_dir() { "it is a folder" } else { "it is not a regular file" };
            return Err(open(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        if meta.len() >= MAP_FROM {
            // SAFETY: the map is read-only and lives no longer than this call of the library. Another process that
            // shortens the file meanwhile makes the system end this one, as with every user of mapped files.
            if let Ok(map) = unsafe { memmap2::Mmap::map(&file) } {
                return Ok(FileBytes::Mapped(map));
            }
        }
        let mut all = Vec::new();
        let read = |e| Error::io("cannot read", e).with_path(path);
        all.try_reserve_exact(usize::try_from(meta.len()).unwrap_or(usize::MAX))
            .map_err(|e| read(io::Error::other(e)))?;
        file.read_to_end(&mut all).map_err(read)?;
        Ok(FileBytes::Read(all))
    }
}

impl Deref for FileBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(m) => m,
            FileBytes::Read(v) => v,
        }
    }
}

/// A place in some bytes of a file of `format`; `base` is where they start in the file, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    format: Format,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], format: Format) -> Cursor<'a> {
        Cursor { bytes, at: 0, base: 0, format }
    }

    /// The same bytes, known to start at byte `base` of the file.
    pub fn based(mut self, base: u64) -> Cursor<'a> {
        self.base = base;
        self
    }

    /// The place, counted in the file.
    pub fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// The place, counted in the bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn seek(&mut self, at: usize) {
        self.at = at.min(self.bytes.len());
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next `n` bytes; `what` they are meant to be goes into the error when fewer are left.
    pub fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8]> {
        let rest = self.rest();
        match usize::try_from(n).ok().and_then(|n| rest.get(..n)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(self.fault(format!("{n} bytes of {what}"), format!("{} before the end", rest.len()))),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// An error at this place.
    pub fn fault(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::malformed(self.format, expected, found).at(self.offset())
    }
}
