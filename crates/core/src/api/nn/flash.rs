//! Attention as one operation, forward and backward, where the device has a kernel for it.
//!
//! The composite of products and a softmax is its definition, and what gradients of its gradients are made of.

use super::attention::{AttentionOptions, attention_weights};
use crate::api::same_device;
use crate::{
    DType, Device, Result, Shape, Tensor, enable_grad,
    grad::{custom::with_vjp, grad_of},
    op::{Attention, HostOp, Op, VjpRule},
    view::ViewOp,
};
use std::{panic::Location, sync::Arc};

/// The result, if these tensors are what the device's kernel takes: a type of its own, equal axes before the last two,
/// no dropout, no gradient for the mask (and none at all but on the CPU). The composite does the rest.
#[track_caller]
pub(super) fn fused(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions) -> Result<Option<Tensor>> {
    let at = Location::caller();
    let lead = |t: &Tensor| Shape::from(&t.dims()[..t.rank() - 2]);
    let (device, dtype) = (q.device(), q.dtype());
    let on_cpu = device == Device::cpu();
    let simple = device.backend().limits().attention.contains(&dtype)
        && [k, v].iter().all(|t| t.device() == device && t.dtype() == dtype)
        && !options.enable_gqa
        && options.dropout_p == 0.0
        && options.dropout_mask.is_none()
        && lead(q) == lead(k)
        && lead(k) == lead(v)
        && q.numel() > 0
        && k.numel() > 0
        && v.numel() > 0;
    if !simple {
        return Ok(None);
    }
    let end = |t: &Tensor, n: usize| t.dims()[t.rank() - n];
    let (lead, sizes) = (lead(q), [end(q, 2), end(k, 2), end(q, 1), end(v, 1)]);
    let scores: Shape = lead.iter().copied().chain([sizes[0], sizes[1]]).collect();
    let scale = options.scale.unwrap_or(1.0 / (sizes[2] as f64).sqrt()) as f32;
    // What a GPU's kernel is made for.
    let usual = lead.rank() <= 2 && sizes[2] == sizes[3] && sizes[2] <= 128 && scale > 0.0 && scale.is_finite();
    if !on_cpu && !usual {
        return Ok(None);
    }
    let mask = match &options.attn_mask {
        None => None,
        Some(_) if !on_cpu => return Ok(None),
        Some(m) if matches!(m.dtype(), DType::Bool | DType::F32) && !m.requires_grad() => {
            same_device("scaled_dot_product_attention", &[q, m])?;
            if !m.shape().expands_to(&scores) {
                return Ok(None);
            }
            Some(m.expand_to(&scores))
        }
        Some(_) => return Ok(None),
    };
    let (causal, masked, heads_inside) = (options.is_causal, mask.is_some(), true);
    let joined = !on_cpu && lead.rank() == 2 && sizes[0] == sizes[1] && sizes[2] == sizes[3];
    let scale = scale.to_bits();
    let spec = Attention { lead, sizes, scale, causal, masked, heads_inside, joined, strides: vec![] };
    let spec = Arc::new(spec);
    let inputs: Vec<&Tensor> = [q, k, v].into_iter().chain(&mask).collect();
    let constants: Vec<Tensor> = inputs.iter().map(|t| t.detach()).collect();
    let flat: Shape = spec.packed(dtype).1.into();
    let packed = q.make(Op::Host(HostOp::Attention(spec.clone())), &refs(&constants), flat, dtype);
    let out = part(&spec, &packed, 0, sizes[0], sizes[3])?;
    let options = AttentionOptions { attn_mask: None, ..options.clone() };
    let all: Vec<&Tensor> = inputs.into_iter().chain([&packed]).collect();
    Ok(Some(with_vjp(Arc::new(Backward { spec, options }), &out, &all, at)))
}

/// `[.., rows, width]` from element `from` of a flat result on, as the routine has laid it out.
fn part(spec: &Attention, flat: &Tensor, from: usize, rows: usize, width: usize) -> Result<Tensor> {
    let laid_out = flat.sliced(0, from, 1, spec.batch() * rows * width).reshape_to(&spec.laid_out(rows, width));
    if spec.heads_inside && spec.lead.rank() == 2 { laid_out.transpose(1, 2) } else { Ok(laid_out) }
}

/// The gradients of q, k and v in the flat result of theirs.
fn gradients(spec: &Attention, flat: &Tensor) -> Result<[Tensor; 3]> {
    let [queries, keys, width, value] = spec.sizes;
    if let (true, &[batch, heads]) = (spec.joined, &spec.lead[..]) {
        let rows = flat.reshape_to(&[batch, queries, 3, heads, width].into());
        let one = |k: usize| rows.sliced(2, k, 1, 1).reshape_to(&[batch, queries, heads, width].into()).transpose(1, 2);
        return Ok([one(0)?, one(1)?, one(2)?]);
    }
    let [dq, dk] = [queries * width, keys * width].map(|n| spec.batch() * n);
    Ok([
        part(spec, flat, 0, queries, width)?,
        part(spec, flat, dq, keys, width)?,
        part(spec, flat, dq + dk, keys, value)?,
    ])
}

fn refs(all: &[Tensor]) -> Vec<&Tensor> {
    all.iter().collect()
}

/// The composite that defines the operation, for q, k, v and perhaps a mask.
fn composite(x: &[Tensor], options: &AttentionOptions) -> Result<Tensor> {
    let options = AttentionOptions { attn_mask: x.get(3).cloned(), ..options.clone() };
    attention_weights(&x[0], &x[1], &options)?.0.matmul(&x[2])
}

/// Gradients of an attention, from (q, k, v[, mask], packed result).
struct Backward {
    spec: Arc<Attention>,
    /// Without the mask, which is an input.
    options: AttentionOptions,
}

impl VjpRule for Backward {
    fn name(&self) -> &str {
        "scaled_dot_product_attention"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let (packed, given) = inputs.split_last().ok_or_else(|| Tensor::bug("an attention without inputs"))?;
        let constants: Vec<Tensor> = given.iter().chain([packed, grad]).map(|t| t.detach()).collect();
        let counts = [0, 1, 2].map(|i| given[i].numel());
        let op = Op::Host(HostOp::AttentionGrad(self.spec.clone()));
        let flat = grad.make(op, &refs(&constants), counts.iter().sum::<usize>().into(), grad.dtype());
        // Differentiated again, it is what the composite's gradient is.
        let rule = Twice { spec: self.spec.clone(), options: self.options.clone() };
        let all: Vec<&Tensor> = [grad].into_iter().chain(given).collect();
        let flat = with_vjp(Arc::new(rule), &flat, &all, grad.location());
        let mut parts: Vec<Option<Tensor>> = gradients(&self.spec, &flat)?.into_iter().map(Some).collect();
        parts.resize(inputs.len(), None);
        Ok(parts)
    }
}

/// Gradients of the gradients, from (gradient, q, k, v[, mask]).
struct Twice {
    spec: Arc<Attention>,
    options: AttentionOptions,
}

impl VjpRule for Twice {
    fn name(&self) -> &str {
        "attention_grad"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        enable_grad(|| {
            let (g, x) = inputs.split_first().ok_or_else(|| Tensor::bug("a gradient without inputs"))?;
            // Nodes of this rule's own: the gradient may depend on the others, and must not here.
            let fresh =
                |t: &Tensor| t.make(Op::View(ViewOp::Reshape(t.shape().clone())), &[t], t.shape().clone(), t.dtype());
            let own: Vec<Tensor> = x.iter().map(fresh).collect();
            let g_own = fresh(g);
            let y = composite(&own, &self.options)?;
            let first = grad_of(&[(&y, &g_own)], &refs(&own[..3]))?;
            let given = gradients(&self.spec, grad)?;
            let pairs: Vec<(&Tensor, &Tensor)> =
                first.iter().zip(&given).filter_map(|(y, g)| y.as_ref().map(|y| (y, g))).collect();
            let targets: Vec<&Tensor> = [&g_own].into_iter().chain(&own[..3]).collect();
            let parts = grad_of(&pairs, &targets)?;
            let mut parts: Vec<Option<Tensor>> =
                parts.into_iter().zip(&targets).map(|(p, t)| Some(p.unwrap_or_else(|| t.zeros_like()))).collect();
            parts.resize(inputs.len(), None);
            Ok(parts)
        })
    }
}
