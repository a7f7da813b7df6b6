//! Derivatives as functions.

use super::run;
use crate::{Error, ErrorKind, Result, Tensor};

/// The gradients of `output` (one number) for `inputs`: variables or intermediate tensors on the way.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([1.0f32, 2.0]).requires_grad_();
/// let h = &x * &x;
/// let g = grad::grad(&h.sum(), &[&x, &h]).unwrap();
/// assert_eq!(g[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// assert_eq!(g[1].to_vec::<f32>().unwrap(), [1.0, 1.0]);
/// ```
#[track_caller]
pub fn grad(output: &Tensor, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    if output.numel() != 1 {
        let why = format!("grad needs one number, not {}", output.shape());
        let e = Error::shape("grad", &[output.shape()], why).operand(output);
        return Err(e.hint("use grad_of with a gradient for each element"));
    }
    let parts = grad_of(&[(output, &output.ones_like())], inputs)?;
    let all = parts.into_iter().zip(inputs);
    all.map(|(g, x)| {
        g.ok_or_else(|| {
            let why = "the output does not depend on this tensor, or not through differentiable operations".to_string();
            Error::new("grad", ErrorKind::Gradient(why)).operand(x)
        })
    })
    .collect()
}

/// The gradients for `inputs` of several outputs, each with its own gradient; `None` where no output depends on one.
#[track_caller]
pub fn grad_of(outputs: &[(&Tensor, &Tensor)], inputs: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    for (y, g) in outputs {
        if y.shape() != g.shape() {
            let why = format!("an output of shape {} got a gradient of shape {}", y.shape(), g.shape());
            return Err(Error::shape("grad_of", &[y.shape(), g.shape()], why).operand(y).operand(g));
        }
    }
    let outputs: Vec<(Tensor, Tensor)> =
        outputs.iter().filter(|(y, _)| y.requires_grad()).map(|(y, g)| ((*y).clone(), (*g).clone())).collect();
    Ok(run(&outputs, inputs)?.targets)
}
