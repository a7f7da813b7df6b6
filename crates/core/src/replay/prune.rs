//! Plans without what nobody reads after the call.
//!
//! While a function runs, it may hold handles to anything (the gradients, for one), and a run computes what is held. Once
//! the call is over it is known what is left: variables and what was returned. The plans are made again for these alone.

use super::tape::{Ran, Tape};
use crate::{
    Tensor,
    graph::Buffer,
    plan::{Home, plan_for},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Gives every run of the tape a plan that computes only what is needed after it.
pub fn prune(tape: &mut Tape, returned: &[Tensor], nothing: &Arc<Buffer>) {
    let values = tape.sets.iter().map(|(_, t)| t).chain(returned).filter_map(|t| t.node().value());
    let mut needed: HashSet<*const Buffer> = values.map(|v| Arc::as_ptr(&v.buffer)).collect();
    for ran in tape.runs.iter_mut().rev() {
        pruned(ran, &needed, nothing);
        let leaves = ran.plan.buffers.iter().zip(&ran.buffers).filter(|(home, _)| matches!(home, Home::Leaf(_)));
        needed.extend(leaves.map(|(_, (buffer, _))| Arc::as_ptr(buffer)));
    }
}

fn pruned(ran: &mut Ran, needed: &HashSet<*const Buffer>, nothing: &Arc<Buffer>) {
    let (left, rest): (Vec<_>, Vec<_>) =
        ran.plan.outputs.iter().partition(|o| needed.contains(&Arc::as_ptr(&ran.buffers[o.buffer].0)));
    if rest.is_empty() {
        return;
    }
    let nodes: HashSet<usize> = left.iter().map(|o| o.node).collect();
    ran.graph.want(|n| nodes.contains(&n));
    let Ok(plan) = plan_for(&ran.graph) else { return };
    // Each of them in a buffer of its own, as it lay before.
    let mut places: HashMap<usize, Arc<Buffer>> = HashMap::new();
    for old in &left {
        let new = plan.outputs.iter().find(|o| o.node == old.node && o.view == old.view);
        let new = new.filter(|o| matches!(plan.buffers[o.buffer], Home::Own { .. }));
        let buffer = &ran.buffers[old.buffer].0;
        let Some(new) = new else { return };
        if places.insert(new.buffer, buffer.clone()).is_some_and(|other| !Arc::ptr_eq(&other, buffer)) {
            return;
        }
    }
    let apart: HashSet<*const Buffer> = places.values().map(Arc::as_ptr).collect();
    if apart.len() != places.len() {
        return;
    }
    let mut buffers = vec![];
    for (b, home) in plan.buffers.iter().enumerate() {
        buffers.push(match *home {
            Home::Leaf(n) => match &ran.graph.nodes[n].value {
                Some(v) => (v.buffer.clone(), v.view.offset),
                None => return,
            },
            Home::Own { .. } | Home::Arena { .. } => (places.remove(&b).unwrap_or_else(|| nothing.clone()), 0),
        });
    }
    (ran.plan, ran.buffers) = (plan, buffers);
}
