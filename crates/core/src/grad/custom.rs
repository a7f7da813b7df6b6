//! A gradient of the user's own for a function made of tensor operations.

use crate::{
    Error, ErrorKind, Result, Tensor,
    api::same_device,
    enable_grad,
    op::{Op, VjpRule},
};
use std::{panic::Location, sync::Arc};

/// What `forward` makes of `inputs`, with `backward` as its gradient: it gets the gradient of the result, the result and
/// the inputs, and returns a gradient for each input (`None` for inputs without one, such as integers). It is made of
/// tensor operations, so that it can be differentiated again.
///
/// Variables that `forward` reads must be among its inputs: a gradient for others would be lost, and that is an error.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// // A step whose gradient pretends that it is the identity.
/// let x = Tensor::var("x", Tensor::from([0.3f64, 1.8]));
/// let y = grad::custom_vjp("round_through", |x| Ok(x[0].round()), |g, _, _| Ok(vec![Some(g.clone())]), &[&x]).unwrap();
/// assert_eq!(y.to_vec::<f64>().unwrap(), [0.0, 2.0]);
/// assert_eq!(y.sum().backward().unwrap().wrt(&x).unwrap().to_vec::<f64>().unwrap(), [1.0, 1.0]);
/// ```
#[track_caller]
pub fn custom_vjp(
    name: impl Into<String>,
    forward: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    backward: impl Fn(&Tensor, &Tensor, &[Tensor]) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Tensor> {
    let at = Location::caller();
    let name = name.into();
    if inputs.is_empty() {
        return Err(Error::value(name, "a function with its own gradient needs at least one input"));
    }
    let constants: Vec<Tensor> = inputs.iter().map(|x| x.detach()).collect();
    // With recording on, what comes out is tracked only if something other than the inputs is.
    let y = enable_grad(|| forward(&constants))?;
    if y.requires_grad() {
        let why = "its forward pass reads a variable that is not among its inputs".to_string();
        let e = Error::new(name, ErrorKind::Gradient(why)).operand(&y);
        return Err(e.hint("pass the variable as an input, or .detach() it if it is meant to be constant"));
    }
    same_device(&name, &[&[&y], inputs].concat())?;
    Ok(with_vjp(Arc::new(Rule { name, backward }), &y, inputs, at))
}

/// `y` with a rule that gives the gradients for `inputs`.
pub(crate) fn with_vjp(
    rule: Arc<dyn VjpRule>,
    y: &Tensor,
    inputs: &[&Tensor],
    at: &'static Location<'static>,
) -> Tensor {
    let all: Vec<&Tensor> = std::iter::once(y).chain(inputs.iter().copied()).collect();
    Tensor::build(Op::WithVjp(rule), &all, y.shape().clone(), y.dtype(), y.device(), at)
}

struct Rule<F> {
    name: String,
    backward: F,
}

impl<F: Fn(&Tensor, &Tensor, &[Tensor]) -> Result<Vec<Option<Tensor>>> + Send + Sync> VjpRule for Rule<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn vjp(&self, grad: &Tensor, output: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        (self.backward)(grad, output, inputs)
    }
}
