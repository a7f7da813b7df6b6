//! Normalisations with a scale and a shift for each channel (batch, group and instance norm), and their gradient in closed
//! form.
//!
//! Through the composite, the gradient keeps the normalised input in wide numbers and sums over whole groups with scales
//! in them. The formula needs two sums for each channel, of which everything else follows by sums over a few
//! numbers, and makes the normalised input again from what is stored anyway. The composite stays the definition: gradients
//! of these gradients are its own.

use super::norm::Normed;
use crate::{
    Result, Shape, Tensor, enable_grad,
    grad::{custom::with_vjp, grad_of},
    op::{Op, ReduceOp, VjpRule},
    view::ViewOp,
};
use smallvec::SmallVec;
use std::{panic::Location, sync::Arc};

/// What is normalised over, and what has a scale and a shift.
#[derive(Clone)]
pub(super) struct ChannelNorm {
    /// What the user called.
    pub name: &'static str,
    /// The input's shape, with axes of their own for all that follows.
    pub split: Shape,
    /// The axes of `split` that a mean and a variance are taken over.
    pub axes: SmallVec<[usize; 6]>,
    /// The shape of scale and shift, which broadcasts to `split`.
    pub per: Shape,
    /// Added to the variance.
    pub eps: f64,
    /// Whether the result stays in wide numbers; else it has the input's float type.
    pub wide: bool,
}

impl ChannelNorm {
    /// The normalised input, differentiable, and the statistics, which are not.
    #[track_caller]
    pub fn apply(self, x: &Tensor, scale: Option<&Tensor>, shift: Option<&Tensor>) -> (Tensor, Normed) {
        let constant = |t: Option<&Tensor>| t.map(Tensor::detach);
        let (out, n) = self.composite(&x.detach(), constant(scale).as_ref(), constant(shift).as_ref());
        let given: Vec<&Tensor> = [x].into_iter().chain(scale).chain(shift).collect();
        if !given.iter().any(|t| t.requires_grad()) {
            return (out, n);
        }
        let rule = ChannelNormGrad {
            scale: scale.is_some(),
            shift: shift.is_some(),
            by: self,
            _kept: [n.mean.clone(), n.rstd.clone()],
        };
        let inputs: Vec<&Tensor> = given.into_iter().chain([&n.mean, &n.rstd]).collect();
        let out = with_vjp(Arc::new(rule), &out, &inputs, Location::caller());
        (out, n)
    }

    /// As mathematics, with the statistics.
    #[track_caller]
    fn composite(&self, x: &Tensor, scale: Option<&Tensor>, shift: Option<&Tensor>) -> (Tensor, Normed) {
        let split = x.wide().reshape_to(&self.split);
        let n = split.standardize(&self.axes, self.eps);
        let normed = if self.scales_by_line() && (scale.is_some() || shift.is_some()) {
            // The sums go along memory in one piece, and what has numbers of its own for each line of it comes after.
            let (mean, rstd) = (held(&n.mean, &split), held(&n.rstd, &split));
            (&split - mean) * rstd
        } else {
            n.out.clone()
        };
        let out = normed.scale_shift(scale, shift, &self.per).reshape_to(x.shape());
        (if self.wide { out } else { out.to_dtype(x.dtype().to_float()) }, n)
    }

    /// Whether one mean goes with several scales, each for a line of elements.
    fn scales_by_line(&self) -> bool {
        let long = |&&a: &&usize| self.split[a] > 1;
        self.axes.iter().filter(long).any(|&a| self.per[a] > 1)
            && self.axes.iter().rfind(long).is_some_and(|&a| self.per[a] == 1)
    }

    /// Elements that share a mean.
    fn count(&self) -> usize {
        self.axes.iter().map(|&a| self.split[a]).product()
    }
}

/// `t` as a buffer of its own: what reads it does not join the kernel that makes it from `x`.
fn held(t: &Tensor, x: &Tensor) -> Tensor {
    t.make(Op::After, &[t, x], t.shape().clone(), t.dtype())
}

/// The rule: its inputs are x, then scale and shift where there are, then mean and 1 / deviation.
#[derive(Clone)]
struct ChannelNormGrad {
    by: ChannelNorm,
    scale: bool,
    shift: bool,
    /// Mean and 1 / deviation once more: held, they are kept by the run that computes them, should the gradient come
    /// in a later one.
    _kept: [Tensor; 2],
}

impl ChannelNormGrad {
    /// Scale and shift among operands that begin with x.
    fn affine<'a>(&self, x: &'a [Tensor]) -> (Option<&'a Tensor>, Option<&'a Tensor>) {
        let scale = x.get(1).filter(|_| self.scale);
        (scale, x.get(1 + usize::from(self.scale)).filter(|_| self.shift))
    }
}

impl VjpRule for ChannelNormGrad {
    fn name(&self) -> &str {
        self.by.name
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let [given @ .., mean, rstd] = inputs else { return Err(Tensor::bug("a normalisation without statistics")) };
        let Some(x) = given.first() else { return Err(Tensor::bug("a normalisation without an input")) };
        let ((scale, shift), by) = (self.affine(given), &self.by);
        let g = grad.detach().wide().reshape_to(&by.split);
        // The normalised input must be made here again, not kept by the kernel that made the statistics.
        let constant = x.detach();
        let (mean, rstd) = (held(&mean.detach(), &constant), held(&rstd.detach(), &constant));
        let normed = (constant.wide().reshape_to(&by.split) - mean) * &rstd;
        // Two sums for each channel, of each mean; the rest follows from these.
        let sum = |t: &Tensor, over: &dyn Fn(usize) -> bool| {
            let axes: SmallVec<[usize; 6]> = (0..t.rank()).filter(|&a| t.dims()[a] != 1 && over(a)).collect();
            if axes.is_empty() { t.clone() } else { t.reduce_keep(ReduceOp::Sum, axes) }
        };
        let both = |a: usize| by.per[a] == 1 && by.axes.contains(&a);
        let (shifts, scales) = (sum(&g, &both), sum(&(&g * &normed), &both));
        // dx = 1 / s * (w g - mean(w g) - x^ mean(w g x^))
        let scaled = |t: &Tensor| match scale {
            Some(w) => t * w.detach().to_dtype(g.dtype()).reshape_to(&by.per),
            None => t.clone(),
        };
        let mean_of = |t: &Tensor| sum(&scaled(t), &|a| by.axes.contains(&a)) / by.count() as f64;
        let dx = (scaled(&g) - mean_of(&shifts) - normed * mean_of(&scales)) * rstd;
        let like = |d: Tensor, of: &Tensor| d.reshape_to(of.shape()).to_dtype(of.dtype());
        let mut parts = vec![like(dx, x)];
        parts.extend(scale.map(|w| like(sum(&scales, &|a| by.per[a] == 1), w)));
        parts.extend(shift.map(|b| like(sum(&shifts, &|a| by.per[a] == 1), b)));
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
    rule: ChannelNormGrad,
    index: usize,
}

impl VjpRule for Twice {
    fn name(&self) -> &str {
        self.rule.by.name
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        enable_grad(|| {
            // Nodes of this rule's own: the gradient may depend on the others, and must not here.
            let fresh =
                |t: &Tensor| t.make(Op::View(ViewOp::Reshape(t.shape().clone())), &[t], t.shape().clone(), t.dtype());
            let own: Vec<Tensor> = inputs.iter().map(fresh).collect();
            let [g, x @ ..] = &own[..] else { return Err(Tensor::bug("a gradient without inputs")) };
            let (scale, shift) = self.rule.affine(x);
            let y = self.rule.by.composite(&x[0], scale, shift).0;
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
