//! What is wrong with which file, at which place, what was expected there, and the way out.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// The result of the readers.
pub type ReadResult<T> = std::result::Result<T, ReadError>;

/// What kind of trouble a reader had.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The system refused: no such file, no permission.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The content breaks the rules of its format.
    Malformed {
        /// The format: "IDX", "CSV", "PNG".
        format: &'static str,
        /// What the format wants at this place.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Something valid that is not supported.
    Unsupported {
        /// The format concerned.
        format: &'static str,
        /// What it is.
        what: String,
    },
    /// The engine could not make a tensor of it.
    Tensor(gradus_core::Error),
    /// A file of tensors could not be read.
    Tensors(gradus_io::Error),
}

/// Where in a file it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a byte, counted from 0.
    Byte(u64),
    /// In a line, counted from 1, and a column of the table, counted from 1.
    Cell {
        /// The line.
        line: u64,
        /// The column.
        column: u64,
    },
}

/// An error with its file, place and way out.
///
/// ```
/// let e = gradus_data::idx::load("no/such/train-images-idx3-ubyte").unwrap_err();
/// assert!(e.to_string().starts_with("no/such/train-images-idx3-ubyte: cannot open: "));
/// ```
pub struct ReadError(Box<Inner>);

struct Inner {
    path: Option<PathBuf>,
    place: Option<Place>,
    hint: Option<String>,
    kind: ReadErrorKind,
}

impl ReadError {
    /// An error of this kind, without file, place or hint so far.
    pub fn new(kind: ReadErrorKind) -> ReadError {
        ReadError(Box::new(Inner { path: None, place: None, hint: None, kind }))
    }

    pub(crate) fn io(doing: &'static str, source: io::Error) -> ReadError {
        ReadError::new(ReadErrorKind::Io { doing, source })
    }

    pub(crate) fn malformed(format: &'static str, expected: impl Into<String>, found: impl Into<String>) -> ReadError {
        ReadError::new(ReadErrorKind::Malformed { format, expected: expected.into(), found: found.into() })
    }

    pub(crate) fn unsupported(format: &'static str, what: impl Into<String>) -> ReadError {
        ReadError::new(ReadErrorKind::Unsupported { format, what: what.into() })
    }

    /// Names the file, unless it is named already.
    pub fn with_path(mut self, path: impl AsRef<Path>) -> ReadError {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Says at which byte it was found, unless the place is known already.
    pub fn at(mut self, byte: u64) -> ReadError {
        self.0.place.get_or_insert(Place::Byte(byte));
        self
    }

    /// Says in which line and column it was found, unless the place is known already.
    pub fn at_cell(mut self, line: u64, column: u64) -> ReadError {
        self.0.place.get_or_insert(Place::Cell { line, column });
        self
    }

    /// Says what to do instead.
    pub fn hint(mut self, hint: impl Into<String>) -> ReadError {
        self.0.hint = Some(hint.into());
        self
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> &ReadErrorKind {
        &self.0.kind
    }

    /// The file concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Where it was found.
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }
}

/// A text from a file, fit for a message: long ones are cut, control characters escaped.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        match &self.0.kind {
            ReadErrorKind::Io { doing, source } => write!(f, "{doing}: {source}")?,
            ReadErrorKind::Malformed { format, expected, found } => {
                write!(f, "damaged {format} file: expected {expected}, found {found}")?;
            }
            ReadErrorKind::Unsupported { format, what } => write!(f, "{format}: {what}")?,
            ReadErrorKind::Tensor(e) => write!(f, "{e}")?,
            ReadErrorKind::Tensors(e) => write!(f, "{e}")?,
        }
        match self.0.place {
            Some(Place::Byte(byte)) => write!(f, " (at byte {byte})")?,
            Some(Place::Cell { line, column }) => write!(f, " (line {line}, column {column})")?,
            None => {}
        }
        match &self.0.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ReadErrorKind::Io { source, .. } => Some(source),
            ReadErrorKind::Tensor(e) => Some(e),
            ReadErrorKind::Tensors(e) => Some(e),
            ReadErrorKind::Malformed { .. } | ReadErrorKind::Unsupported { .. } => None,
        }
    }
}

impl From<gradus_core::Error> for ReadError {
    fn from(e: gradus_core::Error) -> ReadError {
        ReadError::new(ReadErrorKind::Tensor(e))
    }
}

impl From<gradus_io::Error> for ReadError {
    fn from(e: gradus_io::Error) -> ReadError {
        ReadError::new(ReadErrorKind::Tensors(e))
    }
}

/// So that `?` works in functions that return the engine's `Result`.
impl From<ReadError> for gradus_core::Error {
    #[track_caller]
    fn from(e: ReadError) -> gradus_core::Error {
        match e.0.kind {
            ReadErrorKind::Tensor(inner) if e.0.path.is_none() => inner,
            _ => gradus_core::Error::value("data", e.to_string()),
        }
    }
}
