//! Transformers: encoder and decoder layers, stacks of them, and the whole.

mod cache;
mod decoder;
mod encoder;
mod feed;
mod whole;

pub use cache::DecodingCache;
pub use decoder::{DecoderMasks, TransformerDecoder, TransformerDecoderLayer};
pub use encoder::{TransformerEncoder, TransformerEncoderLayer};
pub use feed::FeedForwardActivation;
pub use whole::{Transformer, TransformerMasks};

use crate::{LayerNorm, MultiheadAttention, MultiheadAttentionOptions};
use gradus_core::Result;

/// Settings of transformer layers, with PyTorch's defaults.
///
/// ```
/// use gradus_nn::TransformerOptions;
/// let options = TransformerOptions { norm_first: true, batch_first: true, ..Default::default() };
/// assert_eq!((options.dim_feedforward, options.dropout), (2048, 0.1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformerOptions {
    /// Numbers between the two linear layers.
    pub dim_feedforward: usize,
    /// The probability of dropping a number while training.
    pub dropout: f64,
    /// The function between the two linear layers.
    pub activation: FeedForwardActivation,
    /// Added to the variances.
    pub layer_norm_eps: f64,
    /// Inputs and outputs are `[n, l, e]` rather than `[l, n, e]`.
    pub batch_first: bool,
    /// Normalise before attention and feed-forward rather than after.
    pub norm_first: bool,
    /// Whether linear layers and norms have biases.
    pub bias: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        TransformerOptions {
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: FeedForwardActivation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
}

impl TransformerOptions {
    #[track_caller]
    fn attention(&self, d_model: usize, nhead: usize) -> Result<MultiheadAttention> {
        let Self { dropout, bias, batch_first, .. } = *self;
        MultiheadAttention::with(
            d_model,
            nhead,
            MultiheadAttentionOptions { dropout, bias, batch_first, ..Default::default() },
        )
    }

    #[track_caller]
    fn norm(&self, d_model: usize) -> LayerNorm {
        let norm = LayerNorm::new(d_model).eps(self.layer_norm_eps);
        if self.bias { norm } else { norm.bias(false) }
    }
}
