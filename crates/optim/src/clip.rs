//! Gradients within bounds.

use gradus_core::{Error, Result, Tensor, grad::Gradients};

/// The norm of all gradients taken as one vector, as a tensor (nothing has run yet): `p` = 2 is the usual one, infinity
/// the largest element.
pub fn grad_norm(grads: &Gradients, p: f64) -> Result<Tensor> {
    if p.is_nan() || p <= 0.0 {
        return Err(Error::value("grad_norm", format!("there is no norm of order {p}")));
    }
    let norms: Vec<Tensor> = grads.iter().map(|(_, g)| g.norm(p)?.reshape([1])).collect::<Result<_>>()?;
    if norms.is_empty() {
        return Err(Error::value("grad_norm", "there is no gradient"));
    }
    Tensor::cat(&norms.iter().collect::<Vec<_>>(), 0)?.norm(p)
}

/// Scales all gradients so that their common norm is at most `max_norm`, as PyTorch's `clip_grad_norm_`; gives the norm
/// they had. Both are part of the step's plan: nothing runs here.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::clip_grad_norm;
/// let w = Tensor::var("w", Tensor::from([3.0f32, 4.0]));
/// let grads = (w.square().sum() * 0.5).backward()?; // the gradient is w, and its norm 5
/// let (clipped, norm) = clip_grad_norm(&grads, 1.0, 2.0)?;
/// assert_eq!(norm.item::<f32>()?, 5.0);
/// assert!((clipped.wrt(&w)?.to_vec::<f32>()?[0] - 0.6).abs() < 1e-6);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm(grads: &Gradients, max_norm: f64, norm_type: f64) -> Result<(Gradients, Tensor)> {
    let norm = grad_norm(grads, norm_type)?;
    // PyTorch's small number, so that no norm divides by zero.
    let scale = (max_norm / (&norm + 1e-6)).clamp_max(1.0)?;
    let clipped = grads.map(|_, g| Ok(g * scale.to_dtype(g.dtype())))?;
    Ok((clipped, norm))
}

/// Brings every element of every gradient into `-clip_value..=clip_value`, as PyTorch's `clip_grad_value_`.
///
/// ```
/// use gradus_core::Tensor;
/// let w = Tensor::var("w", Tensor::from([3.0f32, -0.25]));
/// let grads = (w.square().sum() * 0.5).backward()?;
/// let clipped = gradus_optim::clip_grad_value(&grads, 1.0)?;
/// assert_eq!(clipped.wrt(&w)?.to_vec::<f32>()?, [1.0, -0.25]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_value(grads: &Gradients, clip_value: f64) -> Result<Gradients> {
    if clip_value.is_nan() || clip_value < 0.0 {
        return Err(Error::value("clip_grad_value", format!("a bound cannot be {clip_value}")));
    }
    grads.map(|_, g| g.clamp(-clip_value, clip_value))
}
