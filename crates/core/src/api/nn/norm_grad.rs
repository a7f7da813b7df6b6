//! The gradient of a batch normalisation in closed form.
//!
//! Through the composite, the gradient keeps the normalised input in wide numbers and sums three times over the batch.
//! The formula needs two sums, which are the gradients of scale and shift, and makes the normalised input again from what
//! is stored anyway. The composite stays the definition: gradients of these gradients are its own.

use super::norm::BatchNormOptions;
use crate::{
    Result, Shape, Tensor, enable_grad,
    grad::{custom::with_vjp, grad_of},
    op::{Op, ReduceOp, VjpRule},
    view::ViewOp,
};
use smallvec::SmallVec;
use std::{panic::Location, sync::Arc};

/// What the rule knows beside its inputs: x, then scale and shift where there are, then mean and 1 / deviation.
#[derive(Clone)]
pub(super) struct BatchNormGrad {
    /// The axes that are summed over.
    pub axes: SmallVec<[usize; 6]>,
    /// `[1, channels, 1, ..]`.
    pub per: Shape,
    /// Elements a channel.
    pub count: usize,
    pub scale: bool,
    pub shift: bool,
    pub eps: f64,
    /// Mean and 1 / deviation once more: held, they are kept by the run that computes them, should the gradient come
    /// in a later one.
    pub _kept: [Tensor; 2],
}

/// `y` (computed without gradients) with its gradient in closed form.
pub(super) fn attach(rule: BatchNormGrad, y: &Tensor, inputs: &[&Tensor], at: &'static Location<'static>) -> Tensor {
    with_vjp(Arc::new(rule), y, inputs, at)
}

impl BatchNormGrad {
    /// Scale and shift among operands that begin with x.
    fn affine<'a>(&self, x: &'a [Tensor]) -> (Option<&'a Tensor>, Option<&'a Tensor>) {
        let scale = x.get(1).filter(|_| self.scale);
        (scale, x.get(1 + usize::from(self.scale)).filter(|_| self.shift))
    }
}

impl VjpRule for BatchNormGrad {
    fn name(&self) -> &str {
        "batch_norm"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let [given @ .., mean, rstd] = inputs else { return Err(Tensor::bug("a normalisation without statistics")) };
        let Some(x) = given.first() else { return Err(Tensor::bug("a normalisation without an input")) };
        let (scale, shift) = self.affine(given);
        let n = self.count as f64;
        let g = grad.detach().wide();
        // As buffers of their own: the normalised input must be made here again, not kept by the kernel that made them.
        let held = |t: &Tensor| t.make(Op::After, &[&t.detach(), &x.detach()], t.shape().clone(), t.dtype());
        let (mean, rstd) = (held(mean), held(rstd));
        let normed = (x.detach().wide() - mean) * &rstd;
        let sum = |t: &Tensor| t.reduce_keep(ReduceOp::Sum, self.axes.clone());
        let (dshift, dscale) = (sum(&g), sum(&(&g * &normed)));
        let factor = match scale {
            Some(w) => w.detach().to_dtype(g.dtype()).reshape_to(&self.per) * &rstd,
            None => rstd,
        };
        // dx = w / s * (g - mean(g) - x^ mean(g x^))
        let dx = (g - &dshift / n - normed * (&dscale / n)) * factor;
        let like = |d: Tensor, of: &Tensor| d.reshape_to(of.shape()).to_dtype(of.dtype());
        let mut parts = vec![dx.to_dtype(x.dtype())];
        parts.extend(scale.map(|w| like(dscale, w)));
        parts.extend(shift.map(|b| like(dshift, b)));
        let operands: Vec<&Tensor> = [grad].into_iter().chain(given).collect();
        let again = |(index, part): (usize, Tensor)| {
            with_vjp(Arc::new(Twice { rule: self.clone(), index }), &part, &operands, grad.location())
        };
        let parts = parts.into_iter().enumerate().map(again).map(Some);
        Ok(parts.chain([None, None]).collect())
    }
}

/// The gradient of one of these gradients, from (gradient, x[, scale][, shift]).
struct Twice {
    rule: BatchNormGrad,
    index: usize,
}

impl VjpRule for Twice {
    fn name(&self) -> &str {
        "batch_norm_grad"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        enable_grad(|| {
            // Nodes of this rule's own: the gradient may depend on the others, and must not here.
            let fresh =
                |t: &Tensor| t.make(Op::View(ViewOp::Reshape(t.shape().clone())), &[t], t.shape().clone(), t.dtype());
            let own: Vec<Tensor> = inputs.iter().map(fresh).collect();
            let [g, x @ ..] = &own[..] else { return Err(Tensor::bug("a gradient without inputs")) };
            let (scale, shift) = self.rule.affine(x);
            let options = BatchNormOptions { training: true, eps: self.rule.eps, ..Default::default() };
            let y = x[0].batch_norm_composite(&self.rule.axes, scale, shift, &self.rule.per, &options).0;
            let first = grad_of(&[(&y, g)], &x.iter().collect::<Vec<_>>())?;
            let targets: Vec<&Tensor> = own.iter().collect();
            let zeros = |t: &&Tensor| Some(t.zeros_like());
            let Some(part) = first.get(self.index).and_then(Option::as_ref) else {
                return Ok(targets.iter().map(zeros).collect());
            };
            let parts = grad_of(&[(part, grad)], &targets)?;
            Ok(parts.into_iter().zip(&targets).map(|(p, t)| p.or_else(|| zeros(t))).collect())
        })
    }
}
