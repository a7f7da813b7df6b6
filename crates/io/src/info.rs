//! What a file holds, without its elements.

use crate::{Format, Metadata, error::shorten};
use gradus_core::DType;
use std::fmt;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its element type as the file calls it: `BF16`, `torch.float32`, `<f4`.
    pub dtype_name: String,
    /// The element type it loads as; `None` where none matches, and loading it is an error.
    pub dtype: Option<DType>,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Bytes its elements take.
    pub bytes: u64,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The format, known by the content.
    pub format: Format,
    /// The tensors, in the file's order.
    pub entries: Vec<Entry>,
    /// The plain values beside them.
    pub metadata: Metadata,
}

impl Info {
    /// The tensor of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The number of elements of all tensors together.
    pub fn numel(&self) -> u64 {
        let one = |e: &Entry| e.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
        self.entries.iter().map(one).fold(0, u64::saturating_add)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, numel) = (self.entries.len(), self.numel());
        writeln!(f, "{}: {n} tensor{}, {numel} elements", self.format, if n == 1 { "" } else { "s" })?;
        // Names and texts come from a file: nothing in them may reach a terminal's controls.
        let name = |e: &Entry| e.name.escape_debug().to_string();
        let width = self.entries.iter().map(|e| name(e).chars().count()).max().unwrap_or(0).min(60);
        for e in &self.entries {
            let dtype =
                e.dtype.map_or_else(|| format!("{} (not supported)", shorten(&e.dtype_name)), |d| d.to_string());
            writeln!(f, "  {:width$}  {dtype:5} {:?}", name(e), e.shape)?;
        }
        for (name, value) in &self.metadata {
            writeln!(f, "  {} = {}", shorten(name), shorten(&value.to_string()))?;
        }
        Ok(())
    }
}
