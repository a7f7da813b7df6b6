//! What went wrong with which file, at which byte, what was expected there, and the way out.

use crate::Format;
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of trouble it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system refused: no such file, no permission, no space.
    Io {
        /// What was being done: "cannot open", "cannot write".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The content matches no format that is read here.
    UnknownFormat {
        /// What the file begins with, or what it seems to be.
        found: String,
    },
    /// The content breaks the rules of its format.
    Malformed {
        /// The format it claims to be.
        format: Format,
        /// What the format wants at this place.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A tensor of an element type that tensors here do not have.
    DType {
        /// The tensor's name.
        tensor: String,
        /// The type as the file calls it.
        dtype: String,
    },
    /// A pickle that wants a class or function which tensors do not need. It was not executed.
    Global {
        /// `module.name`.
        name: String,
    },
    /// Something valid that is not supported, in the file or in what was to be written.
    Unsupported {
        /// The format concerned.
        format: Format,
        /// What it is.
        what: String,
    },
    /// A file that is not as it was written.
    Checksum {
        /// The sum it should have, if it says one.
        stated: Option<u32>,
        /// The sum of what is there.
        found: u32,
    },
    /// A tensor that a state does not have.
    Missing {
        /// The name asked for.
        name: String,
        /// Names that come near it.
        near: Vec<String>,
    },
    /// Computing or making a tensor failed.
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// The engine's error.
        source: gradus_core::Error,
    },
}

/// An error with its file, place and way out.
///
/// ```
/// let e = gradus_io::load("no/such/model.safetensors").unwrap_err();
/// assert!(e.to_string().starts_with("no/such/model.safetensors: cannot open: "));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    path: Option<PathBuf>,
    offset: Option<u64>,
    hint: Option<String>,
    kind: ErrorKind,
}

impl Error {
    /// An error of this kind, without file, place or hint so far.
    pub fn new(kind: ErrorKind) -> Error {
        Error(Box::new(Inner { path: None, offset: None, hint: None, kind }))
    }

    pub(crate) fn io(doing: &'static str, source: io::Error) -> Error {
        Error::new(ErrorKind::Io { doing, source })
    }

    pub(crate) fn malformed(format: Format, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::new(ErrorKind::Malformed { format, expected: expected.into(), found: found.into() })
    }

    pub(crate) fn unsupported(format: Format, what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported { format, what: what.into() })
    }

    pub(crate) fn dtype(tensor: &str, dtype: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType { tensor: shorten(tensor), dtype: shorten(&dtype.into()) })
            .hint("convert it to bool, u8, i8..i64, f16, bf16, f32 or f64 where it was made")
    }

    pub(crate) fn tensor(tensor: &str, source: gradus_core::Error) -> Error {
        Error::new(ErrorKind::Tensor { tensor: shorten(tensor), source })
    }

    /// Names the file, unless it is named already.
    pub fn with_path(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Says at which byte of the file it was found, unless that is known already.
    pub fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Says what to do instead.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The file concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The byte of the file where it was found.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

/// A text from a file, fit for a message: long ones are cut, control characters escaped.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        short.push_str("...");
    }
    short
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Io { doing, source } => write!(f, "{doing}: {source}"),
            ErrorKind::UnknownFormat { found } => write!(
                f,
                "not a file of tensors: expected safetensors, a PyTorch checkpoint, .npy or .npz, found {found}"
            ),
            ErrorKind::Malformed { format, expected, found } => {
                write!(f, "damaged {format} file: expected {expected}, found {found}")
            }
            ErrorKind::DType { tensor, dtype } => {
                write!(f, "tensor `{tensor}` has the element type {dtype}, which is not supported")
            }
            ErrorKind::Global { name } => {
                write!(f, "the pickle wants `{name}`, which tensors do not need; it was not executed")
            }
            ErrorKind::Unsupported { format, what } => write!(f, "{format}: {what}"),
            ErrorKind::Checksum { stated: Some(stated), found } => {
                write!(f, "damaged file: its checksum should be {stated:08x} and is {found:08x}")
            }
            ErrorKind::Checksum { stated: None, found } => {
                write!(f, "damaged file, or one without a checksum: it states none, and its own is {found:08x}")
            }
            ErrorKind::Missing { name, near } if near.is_empty() => write!(f, "no tensor is named `{name}`"),
            ErrorKind::Missing { name, near } => {
                write!(f, "no tensor is named `{name}`; near it are `{}`", near.join("`, `"))
            }
            ErrorKind::Tensor { tensor, source } => write!(f, "tensor `{tensor}`: {source}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}", self.0.kind)?;
        if let Some(offset) = self.0.offset {
            write!(f, " (at byte {offset})")?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Io { source, .. } => Some(source),
            ErrorKind::Tensor { source, .. } => Some(source),
            ErrorKind::UnknownFormat { .. }
            | ErrorKind::Malformed { .. }
            | ErrorKind::DType { .. }
            | ErrorKind::Global { .. }
            | ErrorKind::Unsupported { .. }
            | ErrorKind::Checksum { .. }
            | ErrorKind::Missing { .. } => None,
        }
    }
}

/// For writers inside [`crate::atomic_write`]: the path is added on the way out.
impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error::io("cannot write", source)
    }
}

/// So that `?` works in functions that return the engine's `Result`.
impl From<Error> for gradus_core::Error {
    #[track_caller]
    fn from(e: Error) -> gradus_core::Error {
        gradus_core::Error::value("io", e.to_string())
    }
}
