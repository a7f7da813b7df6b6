//! Whole files, and what is packed in them.

use crate::{ReadError, ReadResult};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress,
        inflate_flags::{TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF},
    },
};
use std::{fs, io, path::Path};

/// A file's content.
pub(crate) fn read(path: &Path) -> ReadResult<Vec<u8>> {
    let open = |e| ReadError::io("cannot open", e).with_path(path);
    let meta = fs::metadata(path).map_err(open)?;
    if !meta.is_file() {
        // A device or a pipe may never end.
        let what = if meta.is_dir() { "it is a folder" } else { "it is not a regular file" };
        return Err(open(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    fs::read(path).map_err(open)
}

/// No deflated byte unpacks to more than this many (258 bytes for two bits).
const MOST_A_BYTE: usize = 1032;

/// The most that `len` deflated bytes can unpack to.
pub(crate) fn most_inflated(len: usize) -> usize {
    len.saturating_mul(MOST_A_BYTE)
}

/// At most `limit` bytes of what deflated bytes unpack to, with memory taken as they come.
fn inflate(packed: &[u8], limit: usize, flags: u32) -> Result<Vec<u8>, String> {
    let mut state = Box::<DecompressorOxide>::default();
    let mut out: Vec<u8> = vec![];
    let (mut read, mut written) = (0usize, 0usize);
    while written < limit {
        let more = written.max(packed.len().saturating_mul(2)).clamp(64, 1 << 26).min(limit - written);
        out.try_reserve(more).map_err(|e| e.to_string())?;
        out.resize(written + more, 0);
        let rest = packed.get(read..).unwrap_or_default();
        let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, used, made) = decompress(&mut state, rest, &mut out, written, flags);
        read += used;
        written += made;
        match status {
            TINFLStatus::Done => break,
            TINFLStatus::HasMoreOutput if made > 0 => {}
            status => return Err(format!("{status:?} after {written} bytes")),
        }
    }
    out.truncate(written);
    Ok(out)
}

/// At most `limit` bytes of a zlib stream.
pub(crate) fn inflate_zlib(packed: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    inflate(packed, limit, TINFL_FLAG_PARSE_ZLIB_HEADER)
}

/// Whether bytes are a gzip file.
pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// At most `limit` bytes of a gzip file's first member.
pub(crate) fn gunzip(bytes: &[u8], limit: usize) -> ReadResult<Vec<u8>> {
    let damaged =
        |at: usize, expected: &str, found: String| ReadError::malformed("gzip", expected, found).at(at as u64);
    let header = bytes.get(..10).ok_or_else(|| damaged(0, "a header of 10 bytes", format!("{}", bytes.len())))?;
    let &[_, _, method, flags, ..] = header else {
        return Err(damaged(0, "a header", "none".into()));
    };
    if method != 8 || flags & 0xe0 != 0 {
        return Err(damaged(2, "method 8 and known flags", format!("method {method}, flags {flags:#x}")));
    }
    let mut at = 10usize;
    let cut = || damaged(10, "the rest of the header", "the end of the file".into());
    if flags & 4 != 0 {
        let len = bytes.get(at..at + 2).and_then(|b| Some(u16::from_le_bytes(b.try_into().ok()?))).ok_or_else(cut)?;
        at += 2 + usize::from(len);
    }
    for flag in [8, 16] {
        // A name, then a comment, each ended by a zero.
        if flags & flag != 0 {
            at += 1 + bytes.get(at..).and_then(|b| b.iter().position(|&c| c == 0)).ok_or_else(cut)?;
        }
    }
    at += if flags & 2 != 0 { 2 } else { 0 };
    let packed = bytes.get(at..).filter(|p| p.len() > 8).ok_or_else(cut)?;
    let (packed, trailer) = packed.split_at(packed.len() - 8);
    let out = inflate(packed, limit, 0).map_err(|why| damaged(at, "deflated bytes", why))?;
    // The checksum covers the whole content; a limit that cut it off leaves nothing to compare.
    let word = |r: std::ops::Range<usize>| trailer.get(r).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?)));
    if out.len() < limit && (word(0..4) != Some(crc32fast::hash(&out)) || word(4..8) != Some(out.len() as u32)) {
        let end = bytes.len() as u64 - 8;
        return Err(ReadError::malformed("gzip", "a content that fits its checksum and length", "another one").at(end));
    }
    Ok(out)
}
