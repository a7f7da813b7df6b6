//! Data for gradus: data sets and loaders, readers for the usual files, tokenizers, transforms, and the handwritten
//! digits that travel in the binary.
//!
//! - [`Dataset`]: items by index; `map`, `augment`, `filter`, `subset`, `split`, `random_split`, `concat`, `zip`.
//! - [`DataLoader`]: batches, in an order that a seed names, made ahead by workers; [`LoaderState`] is its place.
//! - Readers: [`idx`] (MNIST), [`cifar`], [`csv`], [`image`] (PNG, JPEG, a folder a class), [`text`]; arrays and
//!   checkpoints come through `gradus-io`.
//! - [`transform`]: crops, flips, sizes, and values of images.
//!
//! Files are not trusted: no size is believed before it is checked against the file's length, and every fault is a
//! [`ReadError`] with the path, the place, what was expected there and what was found.
//!
//! ```
//! use gradus_data::{DataLoader, LoaderOptions, TensorDataset, digits};
//! let d = digits()?;
//! let data = TensorDataset::new(&d.train_images, &d.train_labels)?;
//! let options = LoaderOptions { batch_size: 64, shuffle: true, num_workers: 2, ..LoaderOptions::default() };
//! let loader = DataLoader::new(data, options)?;
//! for batch in &loader {
//!     let (images, labels) = batch?;
//!     assert_eq!(images.dims()[1..], [1, 8, 8]);
//!     assert_eq!(images.dims()[0], labels.dims()[0]);
//! }
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod adapt;
pub mod cifar;
mod collate;
pub mod csv;
mod dataset;
mod digits;
mod error;
mod file;
pub mod idx;
pub mod image;
mod loader;
mod rng;
mod sampler;
mod split;
mod tensors;
pub mod text;
pub mod transform;

pub use adapt::{Augment, Concat, Map, Subset, Zip};
pub use collate::Collate;
pub use dataset::{Dataset, Items};
pub use digits::{Digits, digits};
pub use error::{Place, ReadError, ReadErrorKind, ReadResult};
pub use image::{Image, LabeledImages};
pub use loader::{Batches, DataLoader, LoaderOptions, LoaderState};
pub use rng::Rng;
pub use sampler::Sampler;
pub use tensors::{Rows, TensorDataset};
