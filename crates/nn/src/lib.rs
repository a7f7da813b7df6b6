//! Networks: modules with named parameters, layers, initialisers and losses, as PyTorch has them.
//!
//! ```
//! use gradus_core::{Result, Tensor};
//! use gradus_nn::{Conv2d, Flatten, Layer, Linear, MaxPool2d, Module, Relu, Sequential};
//!
//! let model = Sequential::from((
//!     Conv2d::new(1, 8, 3)?.padding(1),
//!     Relu,
//!     MaxPool2d::new(2),
//!     Flatten::default(),
//!     Linear::new(8 * 4 * 4, 10),
//! ));
//! let scores = model.forward(&Tensor::randn([2, 1, 8, 8]))?;
//! assert_eq!(scores.dims(), [2, 10]);
//! println!("{}", model.summary());
//! # Ok::<(), gradus_core::Error>(())
//! ```
//!
//! - A **module** is whatever has parameters inside: [`derive@Module`] finds them by the fields of a struct, and names them
//!   as PyTorch's state_dict does (`layers.0.weight`), so its weights load by name ([`Module::load_state_dict`]).
//! - A **layer** ([`Layer`]) is a module from one tensor to one tensor; [`Sequential`] chains them.
//! - A **parameter** ([`Param`]) is a variable that reads as a tensor, a [`Buffer`] one that is not trained.
//! - Losses are methods of `Tensor` (`scores.cross_entropy(&labels)`); [`loss`] has them as structs that keep their
//!   settings.

#![warn(missing_docs)]

extern crate self as gradus_nn;

mod activation;
mod attention;
mod conv;
mod conv_transpose;
mod dropout;
mod embedding;
pub mod init;
mod layer;
mod linear;
pub mod loss;
mod module;
mod norm;
mod param;
mod part;
mod parts;
mod pool;
mod reshape;
mod rnn;
mod state;
mod summary;
mod transformer;

pub use activation::*;
pub use attention::{
    AttentionMasks, KvCache, MultiheadAttention, MultiheadAttentionOptions, RotaryEmbedding, RotaryLayout,
    SinusoidalPosition, causal_mask,
};
pub use conv::{Conv1d, Conv2d, Conv3d, PaddingMode};
pub use conv_transpose::{ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use embedding::{Embedding, EmbeddingBag};
pub use gradus_derive::Module;
pub use layer::{Lambda, Layer, Sequential};
pub use linear::{Bilinear, Identity, Linear};
pub use module::Module;
pub use norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm,
    LocalResponseNorm, RmsNorm,
};
pub use param::{Buffer, Mode, Param};
pub use part::{Found, Part, Variable, Visitor};
pub use pool::*;
pub use reshape::{ChannelShuffle, Flatten, Pad, PixelShuffle, PixelUnshuffle, Unflatten, Upsample};
pub use rnn::{Gru, GruCell, Lstm, LstmCell, Nonlinearity, Rnn, RnnCell, RnnOptions};
pub use state::LoadReport;
pub use transformer::{
    DecoderMasks, DecodingCache, FeedForwardActivation, Transformer, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer, TransformerMasks, TransformerOptions,
};
