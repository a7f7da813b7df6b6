//! Linear and bilinear maps, and attention.

use super::flash::fused;
use crate::api::same_device;
use crate::{DType, Error, Result, Shape, Tensor, op::ReduceOp};

/// How [`Tensor::scaled_dot_product_attention`] works.
#[derive(Clone, Default)]
pub struct AttentionOptions {
    /// What may be looked at (bool), or what is added to the scores (floats); broadcasts to `[.., L, S]`.
    pub attn_mask: Option<Tensor>,
    /// Each position looks at itself and what is before it.
    pub is_causal: bool,
    /// The factor of the scores; `1 / sqrt(E)` if not given.
    pub scale: Option<f64>,
    /// The probability of dropping a weight.
    pub dropout_p: f64,
    /// Weights to keep (bool, `[.., L, S]`), in place of random ones.
    pub dropout_mask: Option<Tensor>,
    /// Several heads of queries share one of keys and values (axis -3).
    pub enable_gqa: bool,
}

impl Tensor {
    /// `x W^T + b` along the last axis, with a weight `[out, in]` (or `[in]`).
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (w, b) = (Tensor::from([[3.0f32, 4.0]]), Tensor::from([5.0f32]));
    /// assert_eq!(x.linear(&w, Some(&b)).unwrap().to_vec::<f32>().unwrap(), [16.0]);
    /// ```
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let fits = self.rank() > 0
            && matches!(weight.rank(), 1 | 2)
            && self.dims().last() == weight.dims().last()
            && bias.is_none_or(|b| b.rank() < 2 && (b.numel() == 1 || b.dims() == &weight.dims()[..weight.rank() - 1]));
        if !fits {
            let b = bias.map_or(String::new(), |b| format!(" and bias {}", b.shape()));
            let why = format!("a weight {}{b} does not fit inputs {}", weight.shape(), self.shape());
            let e = Error::shape("linear", &[self.shape(), weight.shape()], why).operand(self).operand(weight);
            return Err(e.hint("the weight is [out, in], the bias [out]"));
        }
        let y = self.matmul(&weight.low().t()?)?;
        match bias {
            Some(b) => y.add(b.low()),
            None => Ok(y),
        }
    }

    /// `x1^T W_k x2 + b_k` for each output k, with a weight `[out, in1, in2]`.
    #[track_caller]
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let lead = |t: &Tensor| Shape::from(&t.dims()[..t.rank().saturating_sub(1)]);
        let fits = match *weight.dims() {
            [out, i, j] => {
                self.dims().last() == Some(&i)
                    && other.dims().last() == Some(&j)
                    && lead(self) == lead(other)
                    && bias.is_none_or(|b| b.dims() == [out])
            }
            _ => false,
        };
        if !fits {
            let why = format!("a weight {} does not fit {} and {}", weight.shape(), self.shape(), other.shape());
            return Err(Error::shape("bilinear", &[self.shape(), other.shape(), weight.shape()], why)
                .operand(self)
                .operand(other)
                .operand(weight));
        }
        let (out, i, j) = (weight.dims()[0], weight.dims()[1], weight.dims()[2]);
        // [.., in1] @ [in1, out * in2], then a dot product with x2 for each output.
        let w = weight.permute([1, 0, 2])?.reshape_to(&[i, out * j].into());
        let shape: Shape = lead(self).iter().copied().chain([out, j]).collect();
        let half = self.matmul(&w)?.reshape(shape)?;
        let y = half.mul(&other.low().unsqueeze(-2)?)?.sum_dim(-1, false)?.low();
        match bias {
            Some(b) => y.add(b.low()),
            None => Ok(y),
        }
    }

    /// Attention: `softmax(q k^T / sqrt(E)) v` for queries `[.., L, E]`, keys `[.., S, E]` and values `[.., S, Ev]`. A
    /// row that may look at nothing is zeros.
    ///
    /// ```
    /// use gradus_core::{AttentionOptions, Tensor};
    /// let (q, v) = (Tensor::from([[1.0f32], [1.0]]), Tensor::from([[2.0f32], [4.0]]));
    /// let causal = AttentionOptions { is_causal: true, ..Default::default() };
    /// let y = q.scaled_dot_product_attention(&q, &v, &causal).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions,
    ) -> Result<Tensor> {
        let (q, k, v) = check_attention(&self.low(), &key.low(), &value.low(), options)?;
        if let Some(out) = fused(&q, &k, &v, options)? {
            return Ok(out);
        }
        let (weights, _) = attention_weights(&q, &k, options)?;
        let out = weights.matmul(&v)?;
        let shape: Shape = out.dims().iter().copied().collect();
        if !options.enable_gqa {
            return Ok(out);
        }
        // [.., heads, shared, L, Ev] back to [.., all heads, L, Ev]
        let r = shape.rank();
        let heads = shape[r - 4] * shape[r - 3];
        let joined: Shape = shape[..r - 4].iter().copied().chain([heads, shape[r - 2], shape[r - 1]]).collect();
        out.reshape(joined)
    }
}

/// The weights after dropout, and before it, in the shape the product with the values wants.
#[track_caller]
pub(crate) fn attention_weights(q: &Tensor, k: &Tensor, options: &AttentionOptions) -> Result<(Tensor, Tensor)> {
    let name = "scaled_dot_product_attention";
    let scale = options.scale.unwrap_or(1.0 / (q.dims()[q.rank() - 1] as f64).sqrt());
    let grouped = q.matmul(&k.mt())? * scale;
    // Masks speak of all heads in one axis.
    let r = grouped.rank();
    let scores = if options.enable_gqa { grouped.flatten(r as i64 - 4, r as i64 - 3)? } else { grouped.clone() };
    let minus = scores.scalar_like(f64::NEG_INFINITY);
    let (r, d) = (scores.rank(), scores.dims());
    let mut masked = scores.clone();
    if options.is_causal {
        let row = Tensor::arange_on(d[r - 2], scores.device()).unsqueeze(1)?;
        let col = Tensor::arange_on(d[r - 1], scores.device());
        masked = row.raw_ge(&col).raw_where(&masked, &minus);
    }
    if let Some(mask) = &options.attn_mask {
        same_device(name, &[q, mask])?;
        if !mask.shape().expands_to(scores.shape()) {
            let why = format!("a mask {} does not broadcast to the scores {}", mask.shape(), scores.shape());
            return Err(Error::shape(name, &[scores.shape(), mask.shape()], why).operand(q).operand(k).operand(mask));
        }
        masked = match mask.dtype() {
            DType::Bool => mask.where_(&masked, &minus)?,
            d if d.is_float() => &masked + mask.to_dtype(scores.dtype()),
            d => {
                let why = format!("a mask must be bool or float, not {d}");
                return Err(Error::dtype(name, &[d], why).operand(mask));
            }
        };
    }
    let weights = masked.safe_softmax(r - 1);
    let kept = match &options.dropout_mask {
        Some(keep) => weights.dropout_with(keep, options.dropout_p)?,
        None => weights.dropout(options.dropout_p, true)?,
    };
    Ok((kept.reshape_to(grouped.shape()), weights))
}

/// Shapes checked; with shared heads, one more axis so that keys and values broadcast over the queries that share them.
#[track_caller]
fn check_attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions) -> Result<(Tensor, Tensor, Tensor)> {
    let name = "scaled_dot_product_attention";
    let fail = |why: String| {
        let why = format!("{why}: queries {}, keys {}, values {}", q.shape(), k.shape(), v.shape());
        Error::shape(name, &[q.shape(), k.shape(), v.shape()], why).operand(q).operand(k).operand(v)
    };
    if options.attn_mask.is_some() && options.is_causal {
        return Err(Error::value(name, "a mask and is_causal exclude each other").operand(q));
    }
    let least = if options.enable_gqa { 3 } else { 2 };
    if [q, k, v].iter().any(|t| t.rank() < least) {
        return Err(fail(format!("needs at least {least} axes")));
    }
    if [q, k, v].iter().any(|t| !t.dtype().is_float()) {
        let kinds = [q.dtype(), k.dtype(), v.dtype()];
        let why = format!("needs floats, not {}, {} and {}", kinds[0], kinds[1], kinds[2]);
        return Err(Error::dtype(name, &kinds, why).operand(q).operand(k).operand(v));
    }
    let end = |t: &Tensor, n: usize| t.dims()[t.rank() - n];
    if end(q, 1) != end(k, 1) {
        return Err(fail(format!("queries and keys differ in their last axis ({} vs {})", end(q, 1), end(k, 1))));
    }
    if end(k, 2) != end(v, 2) {
        return Err(fail(format!("there are {} keys and {} values", end(k, 2), end(v, 2))));
    }
    if !options.enable_gqa {
        return Ok((q.resolve(), k.resolve(), v.resolve()));
    }
    let (heads, shared) = (end(q, 3), end(k, 3));
    if shared == 0 || end(v, 3) != shared || !heads.is_multiple_of(shared) {
        return Err(fail(format!(
            "{heads} heads of queries cannot share {shared} of keys and {} of values",
            end(v, 3)
        )));
    }
    let r = q.rank();
    let split: Shape =
        q.dims()[..r - 3].iter().copied().chain([shared, heads / shared, end(q, 2), end(q, 1)]).collect();
    Ok((q.reshape(split)?, k.unsqueeze(-3)?, v.unsqueeze(-3)?))
}

impl Tensor {
    /// The mean over one position, which goes.
    #[track_caller]
    pub(crate) fn mean_over(&self, axis: usize) -> Tensor {
        let n = self.dims()[axis];
        let m = self.reduce_one(ReduceOp::Sum, axis) / n as f64;
        m.reshape_to(&m.shape().without(axis))
    }
}
