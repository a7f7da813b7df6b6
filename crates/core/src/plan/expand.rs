//! Functions that were made as one node ([`Op::Call`]), as what they are made of.
//!
//! This happens when a plan is made, so a graph whose plan is known is never expanded. What is built stands in no graph of
//! the user's: nodes get places after those of the graph, numbers get places after its scalars, and both are kept with the plan.

use super::{
    linear::{Linear, LinearNode},
    steps::{Home, Plan, Step},
};
use crate::{
    Result, Tensor, autocast,
    graph::{IdMap, plainly, topological},
    no_grad,
    op::{Call, Op},
};
use smallvec::SmallVec;

/// A graph without calls.
pub struct Expanded {
    /// The graph.
    pub graph: Linear,
    /// For each of its nodes: its place in the graph before, and, if it is part of a call, which part.
    from: Vec<(usize, Option<usize>)>,
    /// Nodes of the graph before.
    before: usize,
    /// Parts of calls: what each does, and the place of the call.
    inner: Vec<(String, usize)>,
}

/// The graph with its calls expanded, if it has any.
pub fn expand(graph: &Linear) -> Result<Option<Expanded>> {
    let call = |n: &LinearNode| match &n.tensor.node().op {
        Op::Call(call) if n.value.is_none() => Some(call.clone()),
        _ => None,
    };
    if !graph.nodes.iter().any(|n| call(n).is_some()) {
        return Ok(None);
    }
    let scalars = graph.scalars[..graph.own].to_vec();
    let whole = Linear { nodes: vec![], scalars, own: graph.own, key: graph.key, device: graph.device };
    let mut e = Expanded { graph: whole, from: vec![], before: graph.nodes.len(), inner: vec![] };
    // Where each node is now.
    let mut at: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        let inputs: SmallVec<[usize; 2]> = n.inputs.iter().map(|&k| at[k]).collect();
        at.push(match call(n) {
            Some(call) => e.call(&call, n, inputs, i)?,
            None => e.push(LinearNode { tensor: n.tensor.clone(), inputs, value: n.value.clone(), ..*n }, (i, None)),
        });
    }
    Ok(Some(e))
}

impl Expanded {
    fn push(&mut self, node: LinearNode, from: (usize, Option<usize>)) -> usize {
        self.graph.nodes.push(node);
        self.from.push(from);
        self.graph.nodes.len() - 1
    }

    /// What a call is made of, and the place of its result.
    fn call(&mut self, call: &Call, n: &LinearNode, inputs: SmallVec<[usize; 2]>, i: usize) -> Result<usize> {
        let given: Vec<Tensor> = inputs.iter().map(|&k| self.graph.nodes[k].tensor.stand_in()).collect();
        // As it was when the call was made, whatever goes on now.
        let mut made = plainly(|| no_grad(|| autocast(None, || (call.of.build)(&given, &call.settings))));
        if given.iter().any(|t| t.id() == made.id()) {
            made = made.make(Op::Contiguous, &[&made], made.shape().clone(), made.dtype());
        }
        if (made.shape(), made.dtype()) != (n.tensor.shape(), n.tensor.dtype()) {
            return Err(Tensor::bug(format!("{} is not what it said it would be", call.of.name)));
        }
        let mut places: IdMap<usize> = given.iter().map(Tensor::id).zip(inputs).collect();
        for t in topological(&[&made], |_| true) {
            if places.contains_key(&t.id()) {
                continue;
            }
            let node = t.node();
            let scalar = self.graph.scalars.len();
            match node.op {
                Op::Scalar(x) => self.graph.scalars.push(x),
                Op::Call(_) => return Err(Tensor::bug(format!("{} has a call inside", call.of.name))),
                Op::Rand { .. } => return Err(Tensor::bug(format!("{} draws random numbers", call.of.name))),
                _ if node.has_value() => return Err(Tensor::bug(format!("{} brings data", call.of.name))),
                _ => {}
            }
            let inputs = node.inputs().iter().filter_map(|x| places.get(&x.id()).copied()).collect();
            let wanted = n.wanted && t.id() == made.id();
            self.inner.push((node.op.name().to_string(), i));
            let part = Some(self.inner.len() - 1);
            let (id, tensor) = (t.id(), t);
            let new = LinearNode { tensor, inputs, value: None, wanted, keep: false, scalar, uses: 0 };
            let place = self.push(new, (i, part));
            places.insert(id, place);
        }
        places.get(&made.id()).copied().ok_or_else(|| Tensor::bug("a call without a result"))
    }

    /// When a node was made, among the others: the parts of a call when the call was.
    pub fn age(&self, before: &Linear, node: usize) -> u64 {
        let (at, part) = self.from[node];
        let first = self.inner.partition_point(|p| p.1 < at);
        (before.nodes[at].tensor.id() << 16) + part.map_or(0, |p| (p - first) as u64)
    }

    /// Says in a plan of the expanded graph which nodes of the graph before are meant.
    pub fn renumber(self, plan: &mut Plan) {
        let (before, from) = (self.before, self.from);
        let place = |n: &mut usize| *n = from[*n].1.map_or(from[*n].0, |part| before + part);
        for step in &mut plan.steps {
            match step {
                Step::Kernel { part, .. } => part.nodes.iter_mut().for_each(place),
                Step::Kernels { parts, .. } => parts.iter_mut().flat_map(|p| &mut p.nodes).for_each(place),
                Step::Matmul { node, .. }
                | Step::Conv { node, .. }
                | Step::Host { node, .. }
                | Step::Custom { node, .. } => place(node),
            }
        }
        for home in &mut plan.buffers {
            if let Home::Leaf(n) = home {
                *n = from[*n].0;
            }
        }
        plan.outputs.iter_mut().for_each(|o| o.node = from[o.node].0);
        plan.constants = self.graph.scalars[self.graph.own..].to_vec();
        plan.inner = self.inner;
    }
}
