//! Encoder layers: self-attention and a feed-forward net. With a causal mask, what GPT is made of.

use super::{DecodingCache, FeedForwardActivation, TransformerOptions};
use crate::{AttentionMasks, Dropout, KvCache, Layer, LayerNorm, Linear, Module, MultiheadAttention};
use gradus_core::{Error, Result, Tensor};

/// Self-attention and a feed-forward net, each with a residual and a norm.
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// The self-attention.
    pub self_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    activation: FeedForwardActivation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// For vectors of `d_model` numbers in `nhead` heads.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, options: TransformerOptions) -> Result<TransformerEncoderLayer> {
        let drop = || Dropout::new(options.dropout);
        Ok(TransformerEncoderLayer {
            self_attn: options.attention(d_model, nhead)?,
            linear1: Linear::new(d_model, options.dim_feedforward).bias(options.bias),
            dropout: drop(),
            linear2: Linear::new(options.dim_feedforward, d_model).bias(options.bias),
            norm1: options.norm(d_model),
            norm2: options.norm(d_model),
            dropout1: drop(),
            dropout2: drop(),
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// What it makes of a sequence.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, masks: &AttentionMasks) -> Result<Tensor> {
        self.layer(x, |x| self.self_attn.forward(x, x, x, masks))
    }

    /// The positions after those in the cache, each of which sees itself and all before it.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &mut KvCache) -> Result<Tensor> {
        self.layer(x, |x| self.self_attn.forward_cached(x, cache))
    }

    #[track_caller]
    fn layer(&self, x: &Tensor, attention: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        if self.norm_first {
            let x = x.add(&self.dropout1.forward(&attention(&self.norm1.forward(x)?)?)?)?;
            return x.add(&self.feed(&self.norm2.forward(&x)?)?);
        }
        let x = self.norm1.forward(&x.add(&self.dropout1.forward(&attention(x)?)?)?)?;
        self.norm2.forward(&x.add(&self.feed(&x)?)?)
    }

    #[track_caller]
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let h = self.dropout.forward(&self.activation.apply(&self.linear1.forward(x)?))?;
        self.dropout2.forward(&self.linear2.forward(&h)?)
    }
}

/// Encoder layers on top of each other, and perhaps a norm at the end.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{AttentionMasks, TransformerEncoder, TransformerOptions};
/// let options = TransformerOptions { dim_feedforward: 32, dropout: 0.0, batch_first: true, ..Default::default() };
/// let gpt = TransformerEncoder::new(8, 2, 2, options)?;
/// let x = Tensor::randn([1, 3, 8]);
/// let all = gpt.forward(&x, &AttentionMasks::causal())?;
/// // The same, one position at a time.
/// let mut cache = gpt.cache(16);
/// for t in 0..3 {
///     let y = gpt.forward_cached(&x.narrow(1, t, 1)?, &mut cache)?;
///     assert!((y - all.narrow(1, t, 1)?).abs().max()?.item::<f32>()? < 1e-5);
/// }
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
pub struct TransformerEncoder {
    layers: Vec<TransformerEncoderLayer>,
    /// The norm at the end.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `num_layers` layers for vectors of `d_model` numbers in `nhead` heads, without a norm at the end.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, num_layers: usize, options: TransformerOptions) -> Result<Self> {
        let layers = (0..num_layers).map(|_| TransformerEncoderLayer::new(d_model, nhead, options));
        Ok(TransformerEncoder { layers: layers.collect::<Result<_>>()?, norm: None })
    }

    /// With this norm at the end.
    pub fn norm(self, norm: LayerNorm) -> Self {
        TransformerEncoder { norm: Some(norm), ..self }
    }

    /// The layers.
    pub fn layers(&self) -> &[TransformerEncoderLayer] {
        &self.layers
    }

    /// What it makes of a sequence.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, masks: &AttentionMasks) -> Result<Tensor> {
        let mut x = x.resolve();
        for layer in &self.layers {
            x = layer.forward(&x, masks)?;
        }
        self.norm.forward(&x)
    }

    /// An empty cache for up to `capacity` positions.
    pub fn cache(&self, capacity: usize) -> DecodingCache {
        DecodingCache::new(self.layers.len(), capacity)
    }

    /// The positions after those in the cache, each of which sees itself and all before it.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &mut DecodingCache) -> Result<Tensor> {
        check_cache("TransformerEncoder", self.layers.len(), cache)?;
        let mut x = x.resolve();
        for (layer, cache) in self.layers.iter().zip(&mut cache.layers) {
            x = layer.forward_cached(&x, &mut cache.own)?;
        }
        self.norm.forward(&x)
    }
}

#[track_caller]
pub(super) fn check_cache(op: &str, layers: usize, cache: &DecodingCache) -> Result<()> {
    if cache.layers.len() == layers {
        return Ok(());
    }
    Err(Error::value(op, format!("a cache of {} layers does not fit {layers}", cache.layers.len())))
}
