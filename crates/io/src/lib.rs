//! Files of tensors: safetensors, PyTorch checkpoints (`.pt`, `.pth`), NumPy arrays (`.npy`, `.npz`).
//!
//! - [`load`] reads a file of any of these formats, known by its content, into a [`StateDict`]: tensors by name, in the
//!   file's order, and the numbers and strings beside them.
//! - [`save`] writes one (the format follows the extension), [`inspect`] lists what a file holds without loading it.
//! - [`atomic_write`] is how everything here writes: beside the target, then renamed. A crash or a full disk leaves the
//!   old file as it was.
//!
//! Files are not trusted. Nothing in a file is ever executed (a pickle with a global that tensors do not need is an
//! error that names it), no size is believed before it is checked against the file's length, and every fault is an
//! [`Error`] with the path, the byte where it was found, what was expected there, and a way out.
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_io::{StateDict, inspect, load, save};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("model.safetensors");
//! let mut state = StateDict::new();
//! state.insert("layer.weight", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
//! state.metadata_mut().insert("epoch".into(), 3.into());
//! save(&path, &state)?;
//!
//! let back = load(&path)?;
//! assert_eq!(back.tensor("layer.weight")?.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
//! assert_eq!(back.metadata()["epoch"].as_i64(), Some(3));
//! println!("{}", inspect(&path)?); // a table of names, types and shapes
//! # Ok::<(), gradus_io::Error>(())
//! ```

mod atomic;
mod bytes;
mod error;
mod front;
mod info;
pub mod npy;
pub mod npz;
pub mod pt;
pub mod safetensors;
mod state;
mod stateful;
mod strided;
mod zip;

pub use atomic::atomic_write;
pub use error::{Error, ErrorKind, Result};
pub use front::{Format, from_bytes, inspect, load, save};
pub use info::{Entry, Info};
pub use state::{Meta, Metadata, StateDict};
pub use stateful::Stateful;

/// The name of a tensor whose file gives it none: an `.npy` array, or a `torch.save` of a bare tensor.
pub const UNNAMED: &str = "data";
