//! What may not be looked at.

use gradus_core::{DType, Error, Result, Tensor};

/// Masks of one attention, in PyTorch's sense: `true` hides, and numbers are added to the scores.
#[derive(Clone, Default)]
pub struct AttentionMasks {
    /// Keys that count for nothing, as padding: `[n, s]` (or `[s]` without a batch).
    pub key_padding_mask: Option<Tensor>,
    /// Scores to hide: `[l, s]`, or `[n heads, l, s]`.
    pub attn_mask: Option<Tensor>,
    /// Each position sees itself and what is before it.
    pub is_causal: bool,
}

impl AttentionMasks {
    /// Each position sees itself and what is before it.
    pub fn causal() -> AttentionMasks {
        AttentionMasks { is_causal: true, ..Default::default() }
    }

    /// These keys (`[n, s]`, true) count for nothing.
    pub fn padding(mask: &Tensor) -> AttentionMasks {
        AttentionMasks { key_padding_mask: Some(mask.clone()), ..Default::default() }
    }
}

/// `[n, n]`: true where a position would see one after it.
///
/// ```
/// use gradus_nn::causal_mask;
/// assert_eq!(causal_mask(2)?.to_vec::<bool>()?, [false, true, false, false]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[track_caller]
pub fn causal_mask(n: usize) -> Result<Tensor> {
    after(n, n)
}

#[track_caller]
fn after(l: usize, s: usize) -> Result<Tensor> {
    let row = Tensor::arange(0, l as i64, 1, DType::I64)?.unsqueeze(1)?;
    Tensor::arange(0, s as i64, 1, DType::I64)?.gt(&row)
}

/// All masks as one, in the sense of scaled dot product attention (`true` may be looked at, numbers are added), for
/// scores `[n, heads, l, s + extra]`; or none. The second result says whether the scores are causal beyond it.
#[track_caller]
pub(crate) fn merge(
    masks: &AttentionMasks,
    [n, heads, l, s]: [usize; 4],
    extra: usize,
    like: &Tensor,
) -> Result<(Option<Tensor>, bool)> {
    let mut parts: Vec<Tensor> = vec![];
    if let Some(m) = &masks.key_padding_mask {
        let m = if m.rank() == 1 { m.unsqueeze(0)? } else { m.resolve() };
        if m.dims() != [n, s] {
            let why = format!("a padding mask for {n} sequences of {s} keys must be [{n}, {s}], not {}", m.shape());
            return Err(Error::shape("attention", &[m.shape()], why).operand(&m));
        }
        parts.push(m.unsqueeze(1)?.unsqueeze(1)?);
    }
    if let Some(m) = &masks.attn_mask {
        parts.push(match *m.dims() {
            [a, b] if [a, b] == [l, s] => m.resolve(),
            [a, b, c] if [a, b, c] == [n * heads, l, s] => m.reshape([n, heads, l, s])?,
            _ => {
                let why = format!("a mask must be [{l}, {s}] or [{}, {l}, {s}], not {}", n * heads, m.shape());
                return Err(Error::shape("attention", &[m.shape()], why).operand(m));
            }
        });
    }
    if masks.is_causal && (!parts.is_empty() || extra > 0) {
        parts.push(after(l, s)?.to(&like.device()));
    }
    if parts.is_empty() {
        return Ok((None, masks.is_causal));
    }
    if let Some(bad) = parts.iter().find(|m| m.dtype() != DType::Bool && !m.dtype().is_float()) {
        let why = format!("a mask must be bool or float, not {}", bad.dtype());
        return Err(Error::dtype("attention", &[bad.dtype()], why).operand(bad));
    }
    let all_bool = parts.iter().all(|m| m.dtype() == DType::Bool);
    let mut merged: Option<Tensor> = None;
    for part in parts {
        let part = match (all_bool, part.dtype() == DType::Bool) {
            (true, _) => !part,
            (false, true) => part.where_(f64::NEG_INFINITY, 0.0)?.to_dtype(like.dtype()),
            (false, false) => part.to_dtype(like.dtype()),
        };
        merged = Some(match merged {
            None => part,
            Some(m) if all_bool => m & part,
            Some(m) => m + part,
        });
    }
    // Keys put in at the end may be seen by all.
    if let (Some(m), true) = (&merged, extra > 0) {
        let shape: Vec<usize> = m.dims().iter().take(m.rank() - 1).copied().chain([extra]).collect();
        let open = if all_bool { m.new_full(shape, true) } else { m.new_full(shape, 0.0) };
        merged = Some(Tensor::cat(&[m, &open], -1)?);
    }
    Ok((merged, false))
}
