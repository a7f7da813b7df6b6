//! Library routines for functions that a composite defines: the routine computes the value and its gradients, the composite
//! everything that is differentiated again.

use crate::{
    Result, Tensor, enable_grad,
    grad::{custom::with_vjp, grad_of},
    is_grad_enabled,
    op::{Op, VjpRule},
    view::ViewOp,
};
use std::{panic::Location, sync::Arc};

/// A function with routines of its own. All tensors they are given are constants.
pub(crate) trait Routine: Clone + Send + Sync + 'static {
    /// What graphs show.
    fn name(&self) -> &'static str;
    /// Its value.
    fn value(&self, x: &[Tensor]) -> Tensor;
    /// The gradients for the inputs, from that of the result and the result.
    fn gradients(&self, grad: &Tensor, y: &Tensor, x: &[Tensor]) -> Result<Vec<Tensor>>;
    /// What defines it.
    fn composite(&self, x: &[Tensor]) -> Result<Tensor>;
}

/// The function of some tensors.
#[track_caller]
pub(crate) fn routine(of: impl Routine, x: &[&Tensor]) -> Tensor {
    let constants: Vec<Tensor> = x.iter().map(|x| x.detach()).collect();
    let y = of.value(&constants);
    match is_grad_enabled() && x.iter().any(|x| x.requires_grad()) {
        true => with_vjp(Arc::new(Once(of)), &y, x, Location::caller()),
        false => y,
    }
}

/// Its gradients.
struct Once<R>(R);

impl<R: Routine> VjpRule for Once<R> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn vjp(&self, grad: &Tensor, y: &Tensor, x: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let constants: Vec<Tensor> = x.iter().map(Tensor::detach).collect();
        let parts = self.0.gradients(&grad.detach(), &y.detach(), &constants)?;
        let inputs: Vec<&Tensor> = std::iter::once(grad).chain(x).collect();
        let again = |(input, part): (usize, Tensor)| {
            Some(with_vjp(Arc::new(Twice { of: self.0.clone(), input }), &part, &inputs, grad.location()))
        };
        Ok(parts.into_iter().enumerate().map(again).collect())
    }
}

/// The gradients of the gradient for an input, from (gradient, inputs..).
struct Twice<R> {
    of: R,
    input: usize,
}

impl<R: Routine> VjpRule for Twice<R> {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        enable_grad(|| {
            // Nodes of this rule's own: the gradient may depend on the others, and must not here.
            let fresh =
                |t: &Tensor| t.make(Op::View(ViewOp::Reshape(t.shape().clone())), &[t], t.shape().clone(), t.dtype());
            let own: Vec<Tensor> = inputs.iter().map(fresh).collect();
            let y = self.of.composite(&own[1..])?;
            let first = grad_of(&[(&y, &own[0])], &[&own[1 + self.input]])?.remove(0);
            let Some(first) = first else { return Ok(inputs.iter().map(|t| Some(t.zeros_like())).collect()) };
            let targets: Vec<&Tensor> = own.iter().collect();
            let parts = grad_of(&[(&first, grad)], &targets)?;
            Ok(parts.into_iter().zip(&targets).map(|(p, t)| Some(p.unwrap_or_else(|| t.zeros_like()))).collect())
        })
    }
}
