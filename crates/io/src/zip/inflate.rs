//! Deflated bytes unpacked, up to a limit, with memory taken as the bytes come and not as a header says.

use crate::{Error, Format, Result};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF},
};

/// At most the first `limit` bytes of what `stored` unpacks to.
pub fn inflate(stored: &[u8], limit: usize, format: Format) -> Result<Vec<u8>> {
    let mut state = Box::<DecompressorOxide>::default();
    let mut out: Vec<u8> = vec![];
    let (mut read, mut written) = (0usize, 0usize);
    while written < limit {
        // Twice as much each time, so that the copies cost no more than the bytes.
        let more = written.max(stored.len().saturating_mul(2)).clamp(64, 1 << 26).min(limit - written);
        out.try_reserve(more).map_err(|e| Error::io("cannot unpack", std::io::Error::other(e)))?;
        out.resize(written + more, 0);
        let rest = stored.get(read..).unwrap_or_default();
        let (status, used, made) =
            decompress(&mut state, rest, &mut out, written, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF);
        read += used;
        written += made;
        match status {
            TINFLStatus::Done => break,
            TINFLStatus::HasMoreOutput if made > 0 => {}
            status => {
                return Err(Error::malformed(format, "deflated bytes", format!("{status:?} after {written} bytes"))
                    .hint("the file is damaged: fetch or write it again"));
            }
        }
    }
    out.truncate(written);
    Ok(out)
}
