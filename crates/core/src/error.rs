//! What went wrong, where, with which numbers, and what to do about it.

use crate::{DType, Shape};
use std::{fmt, panic::Location};

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of mistake it is, with its numbers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Two shapes do not fit together, or a shape does not fit the operation.
    Shape {
        /// The shapes concerned, in operand order.
        shapes: Vec<Shape>,
        /// What does not fit.
        why: String,
    },
    /// An element type that the operation does not take.
    DType {
        /// The types concerned, in operand order.
        dtypes: Vec<DType>,
        /// What does not fit.
        why: String,
    },
    /// An axis outside the tensor's rank, or named twice.
    Axis {
        /// The axis as given.
        axis: i64,
        /// The rank it was meant for.
        rank: usize,
        /// What is wrong with it.
        why: String,
    },
    /// An index outside an axis.
    Index {
        /// The index as given.
        index: i64,
        /// The extent it was meant for.
        size: usize,
        /// Where it happened.
        why: String,
    },
    /// Operands live on different devices, or a device is absent.
    Device(String),
    /// A reduction with no identity over no elements.
    Empty(String),
    /// An argument whose value makes no sense.
    Value(String),
    /// A gradient that cannot be computed.
    Gradient(String),
    /// A buffer that cannot be had.
    Alloc {
        /// Bytes asked for.
        bytes: u128,
    },
    /// Arithmetic that has no answer: a singular matrix, an integer division by zero.
    Numerical(String),
    /// A defect of the library: please report it.
    Internal(String),
}

/// An error with the operation, the caller's line, and where each operand was made.
///
/// ```
/// use gradus_core::{DType, Tensor};
/// let (a, b) = (Tensor::zeros([32, 784], DType::F32), Tensor::zeros([512, 10], DType::F32));
/// let e = a.matmul(&b).unwrap_err();
/// assert!(e.to_string().starts_with("matmul: inner dimensions differ: [32, 784] x [512, 10] (784 vs 512)"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    op: String,
    kind: ErrorKind,
    at: &'static Location<'static>,
    operands: Vec<(String, &'static Location<'static>)>,
    within: Vec<String>,
    hint: Option<String>,
}

impl Error {
    /// An error of operation `op` at the caller's line.
    #[track_caller]
    pub fn new(op: impl Into<String>, kind: ErrorKind) -> Error {
        let at = Location::caller();
        Error(Box::new(Inner { op: op.into(), kind, at, operands: vec![], within: vec![], hint: None }))
    }

    /// A wrong argument value.
    #[track_caller]
    pub fn value(op: impl Into<String>, why: impl Into<String>) -> Error {
        Error::new(op, ErrorKind::Value(why.into()))
    }

    /// Shapes that do not fit.
    #[track_caller]
    pub fn shape(op: impl Into<String>, shapes: &[&Shape], why: impl Into<String>) -> Error {
        let shapes = shapes.iter().map(|&s| s.clone()).collect();
        Error::new(op, ErrorKind::Shape { shapes, why: why.into() })
    }

    /// Element types that do not fit.
    #[track_caller]
    pub fn dtype(op: impl Into<String>, dtypes: &[DType], why: impl Into<String>) -> Error {
        Error::new(op, ErrorKind::DType { dtypes: dtypes.to_vec(), why: why.into() })
    }

    /// Adds a tensor to the list of operands, with the line that made it.
    pub fn operand(mut self, t: &crate::Tensor) -> Error {
        self.0.operands.push((format!("{} {}", t.dtype(), t.shape()), t.location()));
        self
    }

    /// Says inside what it happened, innermost first: `layer 2 (Conv2d)`.
    pub fn within(mut self, what: impl Into<String>) -> Error {
        self.0.within.push(what.into());
        self
    }

    /// Says what to do instead.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Moves the blame to another line (an operation that runs later than it was written).
    pub fn at(mut self, at: &'static Location<'static>) -> Error {
        self.0.at = at;
        self
    }

    /// The operation that failed.
    pub fn op(&self) -> &str {
        &self.0.op
    }

    /// What kind of mistake it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The line of the failing call.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.at
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Shape { why, .. } | ErrorKind::DType { why, .. } => f.write_str(why),
            ErrorKind::Axis { axis, rank, why } => write!(f, "axis {axis} {why} (the tensor has {rank} axes)"),
            ErrorKind::Index { index, size, why } => write!(f, "index {index} is out of range for size {size}{why}"),
            ErrorKind::Device(s)
            | ErrorKind::Empty(s)
            | ErrorKind::Value(s)
            | ErrorKind::Gradient(s)
            | ErrorKind::Numerical(s) => f.write_str(s),
            ErrorKind::Alloc { bytes } => write!(f, "cannot allocate {bytes} bytes"),
            ErrorKind::Internal(s) => write!(f, "internal error, please report it: {s}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.0;
        write!(f, "{}: {}\n  at {}", e.op, e.kind, e.at)?;
        for (k, (what, at)) in e.operands.iter().enumerate() {
            write!(f, "\n  operand {k}: {what}, made at {at}")?;
        }
        for what in &e.within {
            write!(f, "\n  in {what}")?;
        }
        if let Some(h) = &e.hint {
            write!(f, "\n  hint: {h}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
