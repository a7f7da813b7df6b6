//! One walk over the graph: nodes in order, what is wanted, and the hash of the structure.

use crate::{
    Device, Scalar, Tensor,
    graph::{Value, Walk},
    hash::Mix,
    op::Op,
    view::View,
};
use smallvec::SmallVec;
use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A graph in order: inputs before users.
pub struct Linear {
    /// The nodes; those with a value are leaves.
    pub nodes: Vec<LinearNode>,
    /// Scalar arguments, in order: its own, then those of a plan.
    pub scalars: Vec<Scalar>,
    /// How many of them are its own.
    pub own: usize,
    /// Hash of the structure.
    pub key: (u64, u64),
    /// Where all of it runs.
    pub device: Device,
}

/// One node of it.
pub struct LinearNode {
    /// The tensor.
    pub tensor: Tensor,
    /// Places of its inputs; none for leaves.
    pub inputs: SmallVec<[usize; 2]>,
    /// Its value, for leaves; boxed, for most nodes are none.
    pub value: Option<Arc<Value>>,
    /// Whether somebody outside will read it.
    pub wanted: bool,
    /// Whether a later gradient may read it, should it be stored anyway.
    pub keep: bool,
    /// First of its scalar arguments.
    pub scalar: usize,
    /// Nodes of the graph that read it.
    pub uses: usize,
}

/// Nodes of the last graph.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Walks from `roots` to what has values, and hashes on the way.
pub fn linearize(roots: &[Tensor], device: Device) -> Linear {
    // A training step's graph is as large as the one before.
    let expected = LAST.load(Relaxed).min(1 << 14);
    let mut nodes: Vec<LinearNode> = Vec::with_capacity(expected);
    let walk = Walk::begin();
    let mut stack: SmallVec<[(Tensor, bool); 16]> = SmallVec::new();
    for root in roots {
        stack.push((root.clone(), false));
        while let Some((t, ready)) = stack.pop() {
            if walk.place(&t).is_some() {
                continue;
            }
            let before = stack.len();
            let mut inputs: SmallVec<[usize; 2]> = SmallVec::new();
            let value = t.node().peek(|read, value| {
                if value.is_none() {
                    for i in read.iter().rev() {
                        match walk.place(i) {
                            Some(place) => inputs.push(place),
                            None if ready => {} // the value came in between, with another thread's run
                            None => stack.push((i.clone(), false)),
                        }
                    }
                    inputs.reverse();
                }
                value.cloned()
            });
            if stack.len() > before {
                // Itself first, so that it comes off the stack after its inputs.
                stack.insert(before, (t, true));
                continue;
            }
            for &i in &inputs {
                nodes[i].uses += 1;
            }
            walk.set(&t, nodes.len());
            nodes.push(LinearNode { tensor: t, inputs, value, wanted: false, keep: false, scalar: 0, uses: 0 });
        }
    }
    LAST.store(nodes.len(), Relaxed);
    for place in roots.iter().filter_map(|root| walk.place(root)) {
        nodes[place].wanted = true;
    }
    drop(walk);
    let mut scalars = Vec::new();
    let mut h = Mix::default();
    for n in &mut nodes {
        let node = n.tensor.node();
        n.scalar = scalars.len();
        if n.value.is_none() {
            // One reference is ours, `uses` are the graph's: any other is somebody who may read it later.
            n.wanted |= Arc::strong_count(&n.tensor.0) > n.uses + 1;
            n.keep = node.requires_grad && !node.differentiated.load(Relaxed);
            match node.op {
                Op::Scalar(x) => scalars.push(x),
                Op::Rand { seed, stream } => {
                    scalars.push(Scalar::I(seed as i64));
                    scalars.push(Scalar::I(stream as i64));
                }
                _ => {}
            }
        }
        hash_node(n, &mut h);
    }
    let own = scalars.len();
    Linear { nodes, scalars, own, key: h.both(), device }
}

impl Linear {
    /// Says that only these nodes will be read.
    pub fn want(&mut self, wanted: impl Fn(usize) -> bool) {
        let mut h = Mix::default();
        for (i, n) in self.nodes.iter_mut().enumerate() {
            (n.wanted, n.keep) = (n.value.is_none() && wanted(i), false);
            hash_node(n, &mut h);
        }
        self.key = h.both();
    }
}

fn hash_node(n: &LinearNode, h: &mut Mix) {
    let node = n.tensor.node();
    h.write_u64((node.dtype as u64) << 2 | (n.wanted as u64) << 1 | n.keep as u64);
    h.write_usize(node.shape.len());
    node.shape.iter().for_each(|&d| h.write_usize(d));
    if let Some(v) = &n.value {
        h.write_u64(1 << 40);
        v.view.strides.iter().for_each(|&s| h.write_isize(s));
        return;
    }
    h.write_usize(n.inputs.len());
    n.inputs.iter().for_each(|&i| h.write_usize(i));
    std::mem::discriminant(&node.op).hash(h);
    match &node.op {
        Op::Ewise(row) => h.write_usize(std::ptr::from_ref(*row) as usize),
        Op::View(v) => v.hash(h),
        Op::Reduce { op, axes } => (op, axes).hash(h),
        Op::Gather { axis } | Op::Cat { axis } => axis.hash(h),
        Op::Conv(c) => c.hash(h),
        Op::Host(o) => o.hash(h),
        Op::Call(c) => {
            h.write_usize(std::ptr::from_ref(c.of) as usize);
            c.settings.iter().for_each(|&s| h.write_u64(s));
        }
        // A custom operation is itself and no other: its parameters are its own business.
        Op::Custom(c) => h.write_usize(Arc::as_ptr(c).cast::<()>() as usize),
        Op::Data
        | Op::Scalar(_)
        | Op::Iota
        | Op::Rand { .. }
        | Op::Cast
        | Op::Matmul
        | Op::Var(_)
        | Op::Snapshot(_)
        | Op::WithVjp(_)
        | Op::After
        | Op::Detach
        | Op::Contiguous
        | Op::Transfer => {}
    }
}

/// The view under which a plan reads a leaf: its strides are structure, its offset is an argument.
pub fn leaf_view(value: &Value) -> View {
    View { offset: 0, ..value.view.clone() }
}
