//! A BPE as a file: a line with format and version, then two numbers a line, one line a merge.

use super::Bpe;
use crate::{ReadError, ReadResult, error::shorten, file};
use gradus_core::Result;
use std::{fmt::Write, path::Path};

const FORMAT: &str = "BPE";
const MAGIC: &str = "gradus-bpe 1";

impl Bpe {
    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{MAGIC}\n");
        for (a, b) in self.merges() {
            let _ = writeln!(text, "{a} {b}"); // writing to a string does not fail
        }
        text
    }

    /// Reads the text of a file.
    ///
    /// ```
    /// use gradus_data::text::Bpe;
    /// let bpe = Bpe::train("aa aa ab", 258)?;
    /// assert_eq!(Bpe::from_text(bpe.to_text())?, bpe);
    /// let e = Bpe::from_text("gradus-bpe 1\n97 999\n").unwrap_err();
    /// assert!(e.to_string().contains("999 is no token below 256 (line 2, column 1)"));
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    pub fn from_text(text: impl AsRef<[u8]>) -> ReadResult<Bpe> {
        let bytes = text.as_ref();
        let text = std::str::from_utf8(bytes)
            .map_err(|e| ReadError::malformed(FORMAT, "a text", "other bytes").at(e.valid_up_to() as u64))?;
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        if first != MAGIC {
            return Err(ReadError::malformed(FORMAT, format!("the line `{MAGIC}`"), format!("`{}`", shorten(first)))
                .at_cell(1, 1));
        }
        let mut merges = vec![];
        for (i, line) in lines.enumerate() {
            let pair = line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            merges.push(pair.ok_or_else(|| {
                ReadError::malformed(FORMAT, "two numbers", format!("`{}`", shorten(line))).at_cell(i as u64 + 2, 1)
            })?);
        }
        Bpe::from_merges(merges).map_err(|(i, why)| {
            ReadError::malformed(FORMAT, "a merge of two known tokens", why).at_cell(i as u64 + 2, 1)
        })
    }

    /// Writes its file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(gradus_io::atomic_write(path.as_ref(), |w| Ok(w.write_all(self.to_text().as_bytes())?))?)
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> ReadResult<Bpe> {
        let path = path.as_ref();
        file::read(path).and_then(Bpe::from_text).map_err(|e| e.with_path(path))
    }
}
