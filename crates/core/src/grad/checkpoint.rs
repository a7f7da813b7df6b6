//! Memory for arithmetic: intermediates that are computed again in the backward pass instead of kept.
//!
//! `f` runs once and leaves a graph. The forward pass is a copy of it without gradients, so nothing of it is kept. Its
//! result is a node with a rule of its own: the rule makes another copy, with gradients, of inputs that wait for the
//! gradient of the result ([`Op::After`]), and differentiates that. So the backward pass computes what `f` computed,
//! random numbers included, and not before it gets there.

use super::{
    custom::with_vjp,
    functional::{Tensors, refill},
    grad_of,
    substitute::Substitution,
};
use crate::{
    Result, Tensor, enable_grad,
    graph::{IdMap, IdSet, topological},
    no_grad,
    op::{Op, VjpRule},
    view::ViewOp,
};
use std::{panic::Location, sync::Arc};

/// `f(inputs)`, where the intermediates of `f` are not kept for the backward pass but computed again in it. Variables
/// that `f` reads from outside get their gradients too.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::var("x", Tensor::from([0.5f64, 1.5]));
/// let y = grad::checkpoint(|x| Ok(x[0].sin().exp()), &[&x]).unwrap();
/// let g = y.sum().backward().unwrap().wrt(&x).unwrap();
/// assert!((g.to_vec::<f64>().unwrap()[0] - 0.5f64.cos() * 0.5f64.sin().exp()).abs() < 1e-12);
/// ```
#[track_caller]
pub fn checkpoint<O: Tensors>(f: impl FnOnce(&[Tensor]) -> Result<O>, inputs: &[&Tensor]) -> Result<O> {
    let at = Location::caller();
    let given: Vec<Tensor> = inputs.iter().map(|x| x.resolve()).collect();
    // Nodes of their own, not computed yet: what f makes of them stays graph.
    let args: Vec<Tensor> = given.iter().map(example).collect();
    let y = f(&args)?;
    let outputs: Vec<Tensor> = y.list().iter().map(|t| t.resolve()).collect();
    let since = args.iter().map(|t| t.id()).min().unwrap_or(u64::MAX);
    let refs: Vec<&Tensor> = outputs.iter().collect();
    let values = no_grad(|| {
        let replaced = pairs(&args, &given);
        let outside = &|t: &Tensor| t.clone();
        Substitution { since, replaced, outside, everything: true, same_values: false }.apply(&refs)
    });
    let captured = captured(&refs, &args, since);
    let all: Vec<&Tensor> = given.iter().chain(&captured).collect();
    let news = outputs.iter().zip(&values).map(|(traced, value)| {
        let (args, captured) = (args.clone(), captured.clone());
        let rule = Replay { traced: traced.clone(), args, captured, since };
        with_vjp(Arc::new(rule), value, &all, at)
    });
    refill(y, news.collect())
}

/// The same elements as a node that is not computed yet.
fn example(x: &Tensor) -> Tensor {
    let op = if x.node().has_value() { Op::Contiguous } else { Op::View(ViewOp::Reshape(x.shape().clone())) };
    x.make(op, &[x], x.shape().clone(), x.dtype())
}

fn pairs(from: &[Tensor], to: &[Tensor]) -> IdMap<Tensor> {
    from.iter().zip(to).map(|(a, b)| (a.id(), b.clone())).collect()
}

/// The tensors from before `since` that the graph reads. (Constants too: under `vmap` they may differ by example.)
fn captured(outputs: &[&Tensor], args: &[Tensor], since: u64) -> Vec<Tensor> {
    let args: IdSet = args.iter().map(|t| t.id()).collect();
    let order = topological(outputs, |t| t.id() >= since && !args.contains(&t.id()));
    order.into_iter().filter(|t| t.id() < since).collect()
}

/// The gradient of one output of a checkpointed function.
struct Replay {
    traced: Tensor,
    args: Vec<Tensor>,
    captured: Vec<Tensor>,
    since: u64,
}

impl VjpRule for Replay {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn vjp(&self, grad: &Tensor, _: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let late = |t: &Tensor| t.make(Op::After, &[t, grad], t.shape().clone(), t.dtype());
        enable_grad(|| {
            let held: Vec<Tensor> = inputs.iter().map(late).collect();
            let sources: Vec<Tensor> = self.args.iter().chain(&self.captured).cloned().collect();
            let copy = Substitution {
                since: self.since,
                replaced: pairs(&sources, &held),
                outside: &|t| t.clone(), // none are left: all are among the captured
                everything: true,
                same_values: false,
            };
            let y = copy.apply(&[&self.traced]).swap_remove(0);
            let targets: Vec<&Tensor> = held.iter().collect();
            let parts = grad_of(&[(&y, grad)], &targets)?;
            let given = parts.into_iter().zip(inputs);
            Ok(given.map(|(g, x)| g.or_else(|| x.dtype().is_float().then(|| x.zeros_like()))).collect())
        })
    }
}
