//! The graph of some tensors again, with other tensors in place of some of its own.

use crate::{
    Tensor,
    graph::{IdMap, node::Inputs, topological},
    no_grad,
    op::Op,
};
use std::sync::atomic::Ordering::Relaxed;

/// Copies of `outputs` in which the tensors in `replaced` are others. Nodes are numbered in the order they were made, so
/// nothing older than `since` depends on what is replaced, and nothing older is copied: `outside` says what stands in for
/// it. Of the rest, nodes that depend on nothing replaced stay themselves, unless `everything` is to be made afresh.
pub(crate) struct Substitution<'a> {
    pub since: u64,
    pub replaced: IdMap<Tensor>,
    pub outside: &'a dyn Fn(&Tensor) -> Tensor,
    pub everything: bool,
    /// Whether copies have the values of what they are copied from.
    pub same_values: bool,
}

impl Substitution<'_> {
    pub fn apply(mut self, outputs: &[&Tensor]) -> Vec<Tensor> {
        let order = topological(outputs, |t| t.id() >= self.since && !self.replaced.contains_key(&t.id()));
        for t in &order {
            if self.replaced.contains_key(&t.id()) {
                continue;
            }
            let new = if t.id() < self.since {
                (self.outside)(t)
            } else {
                let inputs = t.node().inputs();
                let new: Inputs = inputs.iter().map(|i| self.replaced[&i.id()].clone()).collect();
                let changed = inputs.iter().zip(&new).any(|(a, b)| a.id() != b.id());
                let value = t.node().value();
                // A node that has let its inputs go is a constant.
                let fixed = inputs.is_empty() && value.is_some();
                if changed || (self.everything && !fixed) {
                    let copy = again(t, new);
                    if let Some(v) = value
                        && self.same_values
                    {
                        copy.node().set_value(v);
                    }
                    copy
                } else {
                    t.clone()
                }
            };
            self.replaced.insert(t.id(), new);
        }
        outputs.iter().map(|t| self.replaced[&t.resolve().id()].clone()).collect()
    }
}

/// The same operation on other inputs of the same shapes and types.
pub(crate) fn again(t: &Tensor, inputs: Inputs) -> Tensor {
    let node = t.node();
    if let Op::Snapshot(_) = &node.op {
        return Tensor::raw_node(node, inputs);
    }
    let copy = recorded_as(t, || {
        let refs: Vec<&Tensor> = inputs.iter().collect();
        Tensor::build(node.op.clone(), &refs, node.shape.clone(), node.dtype, node.device, node.location)
    });
    t.hooks().into_iter().for_each(|h| copy.add_hook(h));
    copy.node().differentiated.fetch_or(node.differentiated.load(Relaxed), Relaxed);
    copy
}

/// Makes a copy of `t` with gradients recorded only if they were for `t`: what was made under `no_grad` stays constant.
pub(crate) fn recorded_as<R>(t: &Tensor, make: impl FnOnce() -> R) -> R {
    let node = t.node();
    let tracked_input = node.peek(|inputs, _| inputs.iter().any(|i| i.requires_grad()));
    if node.dtype.is_float() && !node.requires_grad && tracked_input { no_grad(make) } else { make() }
}
