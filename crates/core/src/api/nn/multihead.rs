//! Multi-head attention as one function, with PyTorch's parameters.

use crate::api::attention::{AttentionOptions, attention_weights};
use crate::{DType, Error, Result, Shape, Tensor};

/// The projections of [`Tensor::multi_head_attention_forward`] into queries, keys and values.
#[derive(Clone)]
pub enum InProjection {
    /// One weight `[3 E, E]` for all three.
    Packed(Tensor),
    /// Weights `[E, E]`, `[E, Kdim]` and `[E, Vdim]`.
    Separate {
        /// Of the queries.
        query: Tensor,
        /// Of the keys.
        key: Tensor,
        /// Of the values.
        value: Tensor,
    },
}

/// How [`Tensor::multi_head_attention_forward`] works.
#[derive(Clone)]
pub struct MultiHeadOptions {
    /// Number of heads; it divides the embedding.
    pub num_heads: usize,
    /// The projections of the inputs.
    pub in_proj: InProjection,
    /// The bias of all three, `[3 E]`.
    pub in_proj_bias: Option<Tensor>,
    /// One more key and value at the end, `[1, 1, E]` or `[E]`.
    pub bias_kv: Option<(Tensor, Tensor)>,
    /// One more key and value of zeros at the end.
    pub add_zero_attn: bool,
    /// The projection of the result, `[E, E]`.
    pub out_proj: Tensor,
    /// Its bias.
    pub out_proj_bias: Option<Tensor>,
    /// The probability of dropping a weight while training.
    pub dropout_p: f64,
    /// Whether dropout is on.
    pub training: bool,
    /// Weights to keep (bool, `[N * heads, L, S]`), in place of random ones.
    pub dropout_mask: Option<Tensor>,
    /// Keys to pass over (bool, true) or amounts to add to their scores: `[N, S]` or `[S]`.
    pub key_padding_mask: Option<Tensor>,
    /// Scores to pass over (bool, true) or amounts to add to them: `[L, S]` or `[N * heads, L, S]`.
    pub attn_mask: Option<Tensor>,
    /// The mean of the weights over the heads, rather than those of each head.
    pub average_attn_weights: bool,
}

impl MultiHeadOptions {
    /// Projections and heads, and nothing else.
    pub fn new(num_heads: usize, in_proj: InProjection, out_proj: Tensor) -> Self {
        MultiHeadOptions {
            num_heads,
            in_proj,
            in_proj_bias: None,
            bias_kv: None,
            add_zero_attn: false,
            out_proj,
            out_proj_bias: None,
            dropout_p: 0.0,
            training: false,
            dropout_mask: None,
            key_padding_mask: None,
            attn_mask: None,
            average_attn_weights: true,
        }
    }
}

const NAME: &str = "multi_head_attention_forward";

impl Tensor {
    /// Multi-head attention of queries `[L, N, E]`, keys and values `[S, N, ..]` (or all without the batch axis): the
    /// result `[L, N, E]`, and the weights, `[N, L, S]` averaged or `[N, heads, L, S]`.
    #[track_caller]
    pub fn multi_head_attention_forward(
        &self,
        key: &Tensor,
        value: &Tensor,
        options: &MultiHeadOptions,
    ) -> Result<(Tensor, Tensor)> {
        if self.rank() == 2 && key.rank() == 2 && value.rank() == 2 {
            let (q, k, v) = (self.unsqueeze(1)?, key.unsqueeze(1)?, value.unsqueeze(1)?);
            let (out, weights) = q.multi_head_attention_forward(&k, &v, options)?;
            return Ok((out.squeeze(1)?, weights.squeeze(0)?));
        }
        let (l, n, e) = check(self, key, value, options)?;
        let (heads, width) = (options.num_heads, e / options.num_heads);
        let (q, mut k, mut v) = project(self, key, value, e, options)?;
        let mut extra = 0;
        if let Some((bk, bv)) = &options.bias_kv {
            let row = |b: &Tensor| b.reshape([1, 1, e])?.expand([1, n, e]);
            (k, v) = (Tensor::cat(&[&k, &row(bk)?], 0)?, Tensor::cat(&[&v, &row(bv)?], 0)?);
            extra += 1;
        }
        if options.add_zero_attn {
            let zeros = Tensor::zeros_on([1, n, e].into(), k.dtype(), k.device());
            (k, v) = (Tensor::cat(&[&k, &zeros], 0)?, Tensor::cat(&[&v, &zeros], 0)?);
            extra += 1;
        }
        let s = k.dims()[0];
        // [T, N, E] -> [N, heads, T, width]
        let split = |t: &Tensor| -> Result<Tensor> { t.reshape([t.dims()[0], n, heads, width])?.permute([1, 2, 0, 3]) };
        let attention = AttentionOptions {
            attn_mask: mask(options, [n, heads, l, s], extra, q.dtype())?,
            dropout_p: if options.training { options.dropout_p } else { 0.0 },
            dropout_mask: match &options.dropout_mask {
                Some(m) if options.training => Some(m.reshape([n, heads, l, s])?),
                _ => None,
            },
            ..Default::default()
        };
        let (q, k, v) = (split(&q)?, split(&k)?, split(&v)?);
        // PyTorch returns the weights after dropout.
        let (weights, _) = attention_weights(&q, &k, &attention)?;
        let out = weights.matmul(&v)?.permute([2, 0, 1, 3])?.reshape([l, n, e])?;
        let out = out.linear(&options.out_proj, options.out_proj_bias.as_ref())?;
        Ok((out, if options.average_attn_weights { weights.mean_over(1) } else { weights }))
    }
}

#[track_caller]
fn check(q: &Tensor, k: &Tensor, v: &Tensor, options: &MultiHeadOptions) -> Result<(usize, usize, usize)> {
    let fail = |why: String| {
        let why = format!("{why}: queries {}, keys {}, values {}", q.shape(), k.shape(), v.shape());
        Error::shape(NAME, &[q.shape(), k.shape(), v.shape()], why).operand(q).operand(k).operand(v)
    };
    let (&[l, n, e], &[s, nk, _], &[sv, nv, _]) = (q.dims(), k.dims(), v.dims()) else {
        return Err(fail("all three need 3 axes (or all 2)".into()));
    };
    if s != sv || n != nk || n != nv {
        return Err(fail("batch or number of keys and values differ".into()));
    }
    if options.num_heads == 0 || !e.is_multiple_of(options.num_heads) {
        return Err(fail(format!("{} heads do not divide an embedding of {e}", options.num_heads)));
    }
    Ok((l, n, e))
}

/// Queries, keys and values in the embedding.
#[track_caller]
fn project(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    e: usize,
    options: &MultiHeadOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    let part = |t: &Tensor, i: usize| -> Result<Tensor> {
        if t.dims().first() != Some(&(3 * e)) {
            let why = format!("an embedding of {e} needs {} rows of projections, not {}", 3 * e, t.shape());
            return Err(Error::shape(NAME, &[t.shape()], why).operand(q).operand(t));
        }
        t.narrow(0, i * e, e)
    };
    let apply = |x: &Tensor, own: Option<&Tensor>, i: usize| -> Result<Tensor> {
        let w = match (own, &options.in_proj) {
            (Some(w), _) => w.clone(),
            (None, InProjection::Packed(w)) => part(w, i)?,
            (None, InProjection::Separate { .. }) => return Err(Tensor::bug("a separate projection is missing")),
        };
        let b = options.in_proj_bias.as_ref().map(|b| part(b, i)).transpose()?;
        x.linear(&w, b.as_ref())
    };
    match &options.in_proj {
        InProjection::Packed(_) => Ok((apply(q, None, 0)?, apply(k, None, 1)?, apply(v, None, 2)?)),
        InProjection::Separate { query, key, value } => {
            Ok((apply(q, Some(query), 0)?, apply(k, Some(key), 1)?, apply(v, Some(value), 2)?))
        }
    }
}

/// Both masks as amounts to add to the scores `[N, heads, L, S]`; keys that were added at the end are never masked.
#[track_caller]
fn mask(options: &MultiHeadOptions, shape: [usize; 4], extra: usize, dtype: DType) -> Result<Option<Tensor>> {
    let [n, heads, l, s] = shape;
    let s = s - extra;
    let amounts = |m: &Tensor| -> Result<Tensor> {
        let m = match m.dtype() {
            DType::Bool => m.where_(m.zeros_like().to_dtype(dtype) + f64::NEG_INFINITY, 0.0)?,
            d if d.is_float() => m.to_dtype(dtype),
            d => return Err(Error::dtype(NAME, &[d], format!("a mask must be bool or float, not {d}")).operand(m)),
        };
        m.pad_axis(m.rank() - 1, 0, extra)
    };
    let fail = |m: &Tensor, want: String| {
        let why = format!("a mask of shape {} where {want} is needed", m.shape());
        Error::shape(NAME, &[m.shape()], why).operand(m)
    };
    let attn = match &options.attn_mask {
        None => None,
        Some(m) if m.dims() == [l, s] || m.dims() == [1, l, s] => Some(amounts(m)?.reshape([1, 1, l, s + extra])?),
        Some(m) if m.dims() == [n * heads, l, s] => Some(amounts(m)?.reshape([n, heads, l, s + extra])?),
        Some(m) => return Err(fail(m, format!("[{l}, {s}] or [{}, {l}, {s}]", n * heads))),
    };
    let keys = match &options.key_padding_mask {
        None => None,
        Some(m) if m.dims() == [n, s] || (n == 1 && m.dims() == [s]) => {
            Some(amounts(m)?.reshape(Shape::from([n, 1, 1, s + extra]))?)
        }
        Some(m) => return Err(fail(m, format!("[{n}, {s}]"))),
    };
    Ok(match (attn, keys) {
        (Some(a), Some(k)) => Some(a.add(&k)?),
        (a, k) => a.or(k),
    })
}
