//! Decoder layers: self-attention, attention to a memory, and a feed-forward net.

use super::{DecodingCache, FeedForwardActivation, TransformerOptions, cache::LayerCache, encoder::check_cache};
use crate::{AttentionMasks, Dropout, Layer, LayerNorm, Linear, Module, MultiheadAttention};
use gradus_core::{Result, Tensor};

/// Masks of the two attentions of a decoder.
#[derive(Clone, Default)]
pub struct DecoderMasks {
    /// Of the self-attention.
    pub target: AttentionMasks,
    /// Of the attention to the memory.
    pub memory: AttentionMasks,
}

impl DecoderMasks {
    /// Each position sees itself and what is before it, and the whole memory.
    pub fn causal() -> DecoderMasks {
        DecoderMasks { target: AttentionMasks::causal(), memory: AttentionMasks::default() }
    }
}

/// Self-attention, attention to a memory and a feed-forward net, each with a residual and a norm.
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// The self-attention.
    pub self_attn: MultiheadAttention,
    /// The attention to the memory.
    pub multihead_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    activation: FeedForwardActivation,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// For vectors of `d_model` numbers in `nhead` heads.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, options: TransformerOptions) -> Result<TransformerDecoderLayer> {
        let drop = || Dropout::new(options.dropout);
        Ok(TransformerDecoderLayer {
            self_attn: options.attention(d_model, nhead)?,
            multihead_attn: options.attention(d_model, nhead)?,
            linear1: Linear::new(d_model, options.dim_feedforward).bias(options.bias),
            dropout: drop(),
            linear2: Linear::new(options.dim_feedforward, d_model).bias(options.bias),
            norm1: options.norm(d_model),
            norm2: options.norm(d_model),
            norm3: options.norm(d_model),
            dropout1: drop(),
            dropout2: drop(),
            dropout3: drop(),
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// What it makes of a sequence, given a memory.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, masks: &DecoderMasks) -> Result<Tensor> {
        self.layer(
            x,
            |x| self.self_attn.forward(x, x, x, &masks.target),
            |x| self.multihead_attn.forward(x, memory, memory, &masks.memory),
        )
    }

    /// The positions after those in the cache. The memory is projected the first time alone.
    #[track_caller]
    fn forward_cached(
        &self,
        x: &Tensor,
        memory: &Tensor,
        masks: &AttentionMasks,
        cache: &mut LayerCache,
    ) -> Result<Tensor> {
        let known = match &cache.memory {
            Some(known) => known.clone(),
            None => cache.memory.insert(self.multihead_attn.memory(memory)?).clone(),
        };
        self.layer(
            x,
            |x| self.self_attn.forward_cached(x, &mut cache.own),
            |x| self.multihead_attn.forward_memory(x, &known, masks),
        )
    }

    #[track_caller]
    fn layer(
        &self,
        x: &Tensor,
        own: impl FnOnce(&Tensor) -> Result<Tensor>,
        cross: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.norm_first {
            let x = x.add(&self.dropout1.forward(&own(&self.norm1.forward(x)?)?)?)?;
            let x = x.add(&self.dropout2.forward(&cross(&self.norm2.forward(&x)?)?)?)?;
            return x.add(&self.feed(&self.norm3.forward(&x)?)?);
        }
        let x = self.norm1.forward(&x.add(&self.dropout1.forward(&own(x)?)?)?)?;
        let x = self.norm2.forward(&x.add(&self.dropout2.forward(&cross(&x)?)?)?)?;
        self.norm3.forward(&x.add(&self.feed(&x)?)?)
    }

    #[track_caller]
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.dropout.forward(&self.activation.apply(&self.linear1.forward(x)?))?;
        self.dropout3.forward(&self.linear2.forward(&h)?)
    }
}

/// Decoder layers on top of each other, and perhaps a norm at the end.
#[derive(Module)]
pub struct TransformerDecoder {
    layers: Vec<TransformerDecoderLayer>,
    /// The norm at the end.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `num_layers` layers for vectors of `d_model` numbers in `nhead` heads, without a norm at the end.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, num_layers: usize, options: TransformerOptions) -> Result<Self> {
        let layers = (0..num_layers).map(|_| TransformerDecoderLayer::new(d_model, nhead, options));
        Ok(TransformerDecoder { layers: layers.collect::<Result<_>>()?, norm: None })
    }

    /// With this norm at the end.
    pub fn norm(self, norm: LayerNorm) -> Self {
        TransformerDecoder { norm: Some(norm), ..self }
    }

    /// The layers.
    pub fn layers(&self) -> &[TransformerDecoderLayer] {
        &self.layers
    }

    /// What it makes of a sequence, given a memory.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor, masks: &DecoderMasks) -> Result<Tensor> {
        let mut x = x.resolve();
        for layer in &self.layers {
            x = layer.forward(&x, memory, masks)?;
        }
        self.norm.forward(&x)
    }

    /// An empty cache for up to `capacity` positions and one memory.
    pub fn cache(&self, capacity: usize) -> DecodingCache {
        DecodingCache::new(self.layers.len(), capacity)
    }

    /// The positions after those in the cache, each of which sees itself and all before it, and the memory, which must be
    /// the same in every call until the cache is cleared.
    #[track_caller]
    pub fn forward_cached(
        &self,
        x: &Tensor,
        memory: &Tensor,
        memory_masks: &AttentionMasks,
        cache: &mut DecodingCache,
    ) -> Result<Tensor> {
        check_cache("TransformerDecoder", self.layers.len(), cache)?;
        let mut x = x.resolve();
        for (layer, cache) in self.layers.iter().zip(&mut cache.layers) {
            x = layer.forward_cached(&x, memory, memory_masks, cache)?;
        }
        self.norm.forward(&x)
    }
}
