//! Multi-head attention with PyTorch's parameters.

use super::{
    cache::KvCache,
    mask::{AttentionMasks, merge},
    options::MultiheadAttentionOptions,
    position::RotaryEmbedding,
};
use crate::{Layer, Linear, Mode, Module, Param, init::zeros_};
use gradus_core::{AttentionOptions, DType, Error, InProjection, MultiHeadOptions, Result, Tensor};

/// Attention in several heads, each over a part of the embedding.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{AttentionMasks, MultiheadAttention, MultiheadAttentionOptions};
/// let options = MultiheadAttentionOptions { batch_first: true, ..Default::default() };
/// let attention = MultiheadAttention::with(8, 2, options)?;
/// let x = Tensor::randn([3, 5, 8]);
/// let y = attention.forward(&x, &x, &x, &AttentionMasks::causal())?;
/// assert_eq!(y.dims(), [3, 5, 8]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct MultiheadAttention {
    in_proj_weight: Option<Param>,
    q_proj_weight: Option<Param>,
    k_proj_weight: Option<Param>,
    v_proj_weight: Option<Param>,
    in_proj_bias: Option<Param>,
    bias_k: Option<Param>,
    bias_v: Option<Param>,
    /// The projection of the result.
    pub out_proj: Linear,
    rotary: Option<RotaryEmbedding>,
    embed_dim: usize,
    num_heads: usize,
    options: MultiheadAttentionOptions,
    mode: Mode,
}

/// Queries, keys and values by heads, `[n, heads, l, d]`.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl MultiheadAttention {
    /// `num_heads` heads over an embedding of `embed_dim`, which they divide.
    #[track_caller]
    pub fn new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::with(embed_dim, num_heads, MultiheadAttentionOptions::default())
    }

    /// With settings.
    #[track_caller]
    pub fn with(e: usize, num_heads: usize, options: MultiheadAttentionOptions) -> Result<MultiheadAttention> {
        if num_heads == 0 || e == 0 || !e.is_multiple_of(num_heads) {
            let why = format!("{num_heads} heads do not divide an embedding of {e}");
            return Err(Error::value("MultiheadAttention", why));
        }
        let xavier = |rows: usize, cols: usize| -> Result<Param> {
            Ok(Param::new(Tensor::xavier_uniform([rows, cols], 1.0, DType::F32)?))
        };
        let extra = || -> Result<Param> {
            let row = Tensor::xavier_normal([1, e], 1.0, DType::F32)?;
            Ok(Param::new(row.reshape([1, 1, e])?))
        };
        let (kdim, vdim) = (options.kdim.unwrap_or(e), options.vdim.unwrap_or(e));
        let packed = kdim == e && vdim == e;
        let own = |cols: usize| if packed { Ok(None) } else { xavier(e, cols).map(Some) };
        let out_proj = Linear::new(e, e).bias(options.bias);
        if let Some(bias) = &out_proj.bias {
            zeros_(bias)?;
        }
        Ok(MultiheadAttention {
            in_proj_weight: if packed { Some(xavier(3 * e, e)?) } else { None },
            q_proj_weight: own(e)?,
            k_proj_weight: own(kdim)?,
            v_proj_weight: own(vdim)?,
            in_proj_bias: options.bias.then(|| Param::new(Tensor::zeros([3 * e], DType::F32))),
            bias_k: if options.add_bias_kv { Some(extra()?) } else { None },
            bias_v: if options.add_bias_kv { Some(extra()?) } else { None },
            out_proj,
            rotary: None,
            embed_dim: e,
            num_heads,
            options,
            mode: Mode::default(),
        })
    }

    /// With queries and keys turned by their positions.
    #[track_caller]
    pub fn rotary(self, rotary: RotaryEmbedding) -> MultiheadAttention {
        MultiheadAttention { rotary: Some(rotary), ..self }
    }

    fn settings(&self) -> String {
        format!("{} in {} heads", self.embed_dim, self.num_heads)
    }

    /// What queries `[l, n, e]` find among keys and values `[s, n, ..]` (batch first if set so, or all without a batch).
    #[track_caller]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &AttentionMasks) -> Result<Tensor> {
        if query.rank() == 2 && key.rank() == 2 && value.rank() == 2 {
            let axis = if self.options.batch_first { 0 } else { 1 };
            let q = query.unsqueeze(axis)?;
            // What was one tensor stays one, and is projected once.
            let k = if key.id() == query.id() { q.clone() } else { key.unsqueeze(axis)? };
            let v = if value.id() == key.id() { k.clone() } else { value.unsqueeze(axis)? };
            return self.forward(&q, &k, &v, masks)?.squeeze(axis);
        }
        let Heads { q, mut k, mut v } = self.heads(query, key, value, 0)?;
        let (n, s) = (q.dims()[0], k.dims()[2]);
        let mut extra = 0;
        if let (Some(bk), Some(bv)) = (&self.bias_k, &self.bias_v) {
            let row = |b: &Tensor| -> Result<Tensor> {
                let width = self.embed_dim / self.num_heads;
                b.reshape([1, self.num_heads, 1, width])?.expand([n, self.num_heads, 1, width])
            };
            (k, v) = (Tensor::cat(&[&k, &row(bk)?], 2)?, Tensor::cat(&[&v, &row(bv)?], 2)?);
            extra += 1;
        }
        if self.options.add_zero_attn {
            let zeros = k.new_zeros([n, self.num_heads, 1, self.embed_dim / self.num_heads]);
            (k, v) = (Tensor::cat(&[&k, &zeros], 2)?, Tensor::cat(&[&v, &zeros], 2)?);
            extra += 1;
        }
        let (attn_mask, is_causal) = merge(masks, [n, self.num_heads, q.dims()[2], s], extra, &q)?;
        self.attend(&q, &k, &v, AttentionOptions { attn_mask, is_causal, ..Default::default() })
    }

    /// [`MultiheadAttention::forward`] with the weights: `[n, l, s]` averaged over the heads, or `[n, heads, l, s]`.
    #[track_caller]
    pub fn forward_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: &AttentionMasks,
        average: bool,
    ) -> Result<(Tensor, Tensor)> {
        if self.rotary.is_some() {
            return Err(
                Error::value("MultiheadAttention", "weights are not given with rotary positions").operand(query)
            );
        }
        let swap = self.options.batch_first && query.rank() == 3;
        let order = |t: &Tensor| if swap { t.transpose(0, 1) } else { Ok(t.resolve()) };
        let in_proj = match (&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight) {
            (Some(w), ..) => InProjection::Packed(w.resolve()),
            (None, Some(q), Some(k), Some(v)) => {
                InProjection::Separate { query: q.resolve(), key: k.resolve(), value: v.resolve() }
            }
            (None, ..) => return Err(Error::value("MultiheadAttention", "there are no input projections")),
        };
        let mut options = MultiHeadOptions::new(self.num_heads, in_proj, self.out_proj.weight.resolve());
        options.in_proj_bias = self.in_proj_bias.as_ref().map(|b| b.resolve());
        options.out_proj_bias = self.out_proj.bias.as_ref().map(|b| b.resolve());
        options.bias_kv = self.bias_k.as_ref().zip(self.bias_v.as_ref()).map(|(k, v)| (k.resolve(), v.resolve()));
        options.add_zero_attn = self.options.add_zero_attn;
        options.dropout_p = self.options.dropout;
        options.training = self.mode.is_training();
        options.key_padding_mask = masks.key_padding_mask.clone();
        options.attn_mask = masks.attn_mask.clone();
        if masks.is_causal && masks.attn_mask.is_none() {
            options.attn_mask = Some(super::causal_mask(query.dims()[usize::from(swap)])?.to(&query.device()));
        }
        options.average_attn_weights = average;
        let (y, weights) = order(query)?.multi_head_attention_forward(&order(key)?, &order(value)?, &options)?;
        Ok((order(&y)?, weights))
    }

    /// Self-attention of the positions after those in the cache, which are added to it: `x` is `[n, l, e]` (or
    /// `[l, n, e]`, as set). Each sees itself and all before it.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &mut KvCache) -> Result<Tensor> {
        if self.bias_k.is_some() || self.options.add_zero_attn {
            return Err(Error::value("MultiheadAttention", "a cache has no place for learned or zero keys").operand(x));
        }
        let Heads { q, k, v } = self.heads(x, x, x, cache.len())?;
        let seen = cache.append(&k, &v)?;
        let options = AttentionOptions { attn_mask: Some(seen.allowed), ..Default::default() };
        self.attend(&q, &seen.keys, &seen.values, options)
    }

    /// Keys and values `[n, heads, s, d]` of a memory that many queries will look at.
    #[track_caller]
    pub fn memory(&self, memory: &Tensor) -> Result<(Tensor, Tensor)> {
        let Heads { k, v, .. } = self.heads(memory, memory, memory, 0)?;
        Ok((k, v))
    }

    /// What queries find in a memory whose keys and values are known.
    #[track_caller]
    pub fn forward_memory(&self, query: &Tensor, memory: &(Tensor, Tensor), masks: &AttentionMasks) -> Result<Tensor> {
        let q = self.split(&self.projected(query, 0)?, 1)?.remove(0);
        let (n, s) = (q.dims()[0], memory.0.dims()[2]);
        let (attn_mask, is_causal) = merge(masks, [n, self.num_heads, q.dims()[2], s], 0, &q)?;
        self.attend(&q, &memory.0, &memory.1, AttentionOptions { attn_mask, is_causal, ..Default::default() })
    }

    /// Attention over heads, and the way back to `[l, n, e]` or `[n, l, e]`.
    #[track_caller]
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, options: AttentionOptions) -> Result<Tensor> {
        let dropout_p = if self.mode.is_training() { self.options.dropout } else { 0.0 };
        let out = q.scaled_dot_product_attention(k, v, &AttentionOptions { dropout_p, ..options })?;
        let out = if self.options.batch_first { out.permute([0, 2, 1, 3])? } else { out.permute([2, 0, 1, 3])? };
        self.out_proj.forward(&out.flatten(2, 3)?)
    }

    /// All three by heads; one product makes those that come from one tensor.
    #[track_caller]
    fn heads(&self, query: &Tensor, key: &Tensor, value: &Tensor, offset: usize) -> Result<Heads> {
        let fail = |why: String| {
            let shapes = [query.shape(), key.shape(), value.shape()];
            let why = format!("{why}: queries {}, keys {}, values {}", shapes[0], shapes[1], shapes[2]);
            Error::shape("MultiheadAttention", &shapes, why).operand(query).operand(key).operand(value)
        };
        if [query, key, value].iter().any(|t| t.rank() != 3) {
            return Err(fail("all three need 3 axes (or all 2)".into()));
        }
        let batch = usize::from(!self.options.batch_first);
        if key.dims()[..2] != value.dims()[..2] || query.dims()[batch] != key.dims()[batch] {
            return Err(fail("batch or number of keys and values differ".into()));
        }
        let (one, shared) = (query.id() == key.id() && key.id() == value.id(), key.id() == value.id());
        let mut parts = match &self.in_proj_weight {
            Some(w) if one => self.split(&query.linear(w, self.in_proj_bias.as_deref())?, 3)?,
            Some(w) if shared => {
                let e = self.embed_dim;
                let bias = self.in_proj_bias.as_ref().map(|b| b.narrow(0, e, 2 * e)).transpose()?;
                let mut parts = self.split(&self.projected(query, 0)?, 1)?;
                parts.extend(self.split(&key.linear(&w.narrow(0, e, 2 * e)?, bias.as_ref())?, 2)?);
                parts
            }
            Some(_) | None => {
                let mut parts = vec![];
                for (i, t) in [query, key, value].into_iter().enumerate() {
                    parts.extend(self.split(&self.projected(t, i)?, 1)?);
                }
                parts
            }
        };
        let (Some(v), Some(k), Some(q)) = (parts.pop(), parts.pop(), parts.pop()) else {
            return Err(fail("no projections".into()));
        };
        match &self.rotary {
            Some(r) => Ok(Heads { q: r.forward_from(&q, offset)?, k: r.forward_from(&k, offset)?, v }),
            None => Ok(Heads { q, k, v }),
        }
    }

    /// `t` in the embedding, as queries (0), keys (1) or values (2).
    #[track_caller]
    fn projected(&self, t: &Tensor, i: usize) -> Result<Tensor> {
        let e = self.embed_dim;
        let bias = self.in_proj_bias.as_ref().map(|b| b.narrow(0, i * e, e)).transpose()?;
        let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight];
        match (&self.in_proj_weight, own.get(i).copied().and_then(Option::as_ref)) {
            (Some(w), _) => t.linear(&w.narrow(0, i * e, e)?, bias.as_ref()),
            (None, Some(w)) => t.linear(w, bias.as_ref()),
            (None, None) => Err(Error::value("MultiheadAttention", "there are no input projections").operand(t)),
        }
    }

    /// `[n, l, parts e]` (or `[l, n, ..]`) as `parts` tensors `[n, heads, l, d]`.
    #[track_caller]
    fn split(&self, t: &Tensor, parts: usize) -> Result<Vec<Tensor>> {
        let (a, b, heads) = (t.dims()[0], t.dims()[1], self.num_heads);
        let t = t.reshape([a, b, parts, heads, self.embed_dim / heads])?;
        let t = if self.options.batch_first { t.permute([2, 0, 3, 1, 4])? } else { t.permute([2, 1, 3, 0, 4])? };
        (0..parts as i64).map(|i| t.select(0, i)).collect()
    }
}
