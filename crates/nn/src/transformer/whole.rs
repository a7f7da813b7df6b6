//! Encoder and decoder together.

use super::{DecoderMasks, TransformerDecoder, TransformerEncoder, TransformerOptions};
use crate::{AttentionMasks, Module, init::xavier_uniform_};
use gradus_core::{Result, Tensor};

/// Masks of all attentions of a [`Transformer`].
#[derive(Clone, Default)]
pub struct TransformerMasks {
    /// Of the encoder.
    pub source: AttentionMasks,
    /// Of the decoder.
    pub decoder: DecoderMasks,
}

impl TransformerMasks {
    /// The target sees what is before each position; of the source, `padding` (`[n, s]`, true) counts for nothing.
    pub fn causal(padding: Option<&Tensor>) -> TransformerMasks {
        let source = padding.map(AttentionMasks::padding).unwrap_or_default();
        let decoder = DecoderMasks { target: AttentionMasks::causal(), memory: source.clone() };
        TransformerMasks { source, decoder }
    }
}

/// The encoder-decoder of "Attention is all you need", without embeddings.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{Transformer, TransformerMasks, TransformerOptions};
/// let options = TransformerOptions { dim_feedforward: 32, batch_first: true, ..Default::default() };
/// let model = Transformer::new(8, 2, 1, 1, options)?;
/// let y = model.forward(&Tensor::randn([2, 5, 8]), &Tensor::randn([2, 3, 8]), &TransformerMasks::causal(None))?;
/// assert_eq!(y.dims(), [2, 3, 8]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
pub struct Transformer {
    /// From the source to a memory.
    pub encoder: TransformerEncoder,
    /// From the target so far and the memory to what comes next.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// So many layers of each, for vectors of `d_model` numbers in `nhead` heads.
    #[track_caller]
    pub fn new(
        d_model: usize,
        nhead: usize,
        num_encoder_layers: usize,
        num_decoder_layers: usize,
        options: TransformerOptions,
    ) -> Result<Transformer> {
        let encoder = TransformerEncoder::new(d_model, nhead, num_encoder_layers, options)?;
        let decoder = TransformerDecoder::new(d_model, nhead, num_decoder_layers, options)?;
        let model =
            Transformer { encoder: encoder.norm(options.norm(d_model)), decoder: decoder.norm(options.norm(d_model)) };
        for p in model.parameters().iter().filter(|p| p.rank() > 1) {
            xavier_uniform_(p, 1.0)?;
        }
        Ok(model)
    }

    /// What comes out for a source and a target.
    #[track_caller]
    pub fn forward(&self, source: &Tensor, target: &Tensor, masks: &TransformerMasks) -> Result<Tensor> {
        let memory = self.encoder.forward(source, &masks.source)?;
        self.decoder.forward(target, &memory, &masks.decoder)
    }
}
