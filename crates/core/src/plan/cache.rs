//! Plans by structure.

use super::{
    codegen, fuse,
    linear::Linear,
    lower::{self, Item, Kind, Lowered, Opaque},
    memory::{self, Lifetime},
    remat,
    steps::{Home, Output, Plan, Ref, Step},
};
use crate::{Device, Error, ErrorKind, Result, Tensor, backend::Matmul, kernel::Kernel, view::View};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

type Key = (usize, u64, u64);

static PLANS: Mutex<Option<HashMap<Key, Arc<Plan>>>> = Mutex::new(None);
static MADE: AtomicUsize = AtomicUsize::new(0);
/// Beyond this many, the cache starts anew: programs whose shapes never repeat must not grow without end.
const MOST: usize = 4096;

/// How many plans this process has made (a training loop makes one, then replays it).
pub fn plans_made() -> usize {
    MADE.load(Relaxed)
}

/// The plan for a graph: from the cache, or new.
pub fn plan_for(graph: &Linear) -> Result<Arc<Plan>> {
    let key = (graph.device.id(), graph.key.0, graph.key.1);
    let lock = || PLANS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(p) = lock().get_or_insert_default().get(&key) {
        return Ok(p.clone());
    }
    let plan = Arc::new(make(graph)?);
    MADE.fetch_add(1, Relaxed);
    let mut guard = lock();
    let plans = guard.get_or_insert_default();
    if plans.len() >= MOST {
        plans.clear();
    }
    plans.insert(key, plan.clone());
    Ok(plan)
}

/// Plans a graph.
fn make(graph: &Linear) -> Result<Plan> {
    check_sizes(graph)?;
    let mut lowered = lower::lower(graph);
    // Nodes are numbered as they are made: a backward pass that makes them in the order it needs them runs in it.
    let ages = |l: &Lowered| -> Vec<u64> { l.items.iter().map(|i| graph.nodes[i.node].tensor.id()).collect() };
    let limits = graph.device.backend().limits();
    let mut fused = fuse::fuse(&lowered, &ages(&lowered), limits);
    if limits.recompute {
        lowered = match remat::recompute(lowered, &fused, graph, limits.max_insts / 4) {
            Ok(changed) => {
                fused = fuse::fuse(&changed, &ages(&changed), limits);
                changed
            }
            Err(same) => same,
        };
    }
    let mut b =
        Builder { items: &lowered.items, buffer: vec![None; lowered.items.len()], homes: vec![], lives: vec![] };
    // Sources and stored items get buffers; which ones outlive the run is known from the roots.
    let outputs = outputs(graph, &lowered, &fused);
    let mut outlives = vec![false; lowered.items.len()];
    outputs.iter().for_each(|o| outlives[o.1] = true);
    // Users come after what they read: one sweep backwards hands an alias' life to its buffer.
    for (i, item) in lowered.items.iter().enumerate().rev() {
        if item.is_after() && outlives[i] {
            outlives[item.inputs[0].base] = true;
        }
    }
    let mut steps = vec![];
    for g in 0..fused.groups.len() {
        let group = &fused.groups[g];
        let at = steps.len();
        for &i in &group.items {
            if lowered.items[i].is_after() {
                b.buffer[i] = Some(b.buffer_of(lowered.items[i].inputs[0].base)?);
            } else if fused.stored[i] {
                b.define(i, outlives[i], at);
            }
        }
        if group.opaque {
            b.opaque(group.items[0], graph.device, &mut steps)?;
        } else {
            let made = codegen::generate(&lowered.items, &fused, g);
            let args = made.args.iter().map(|&i| b.reference(i, 0, at)).collect::<Result<_>>()?;
            let nodes = group.items.iter().map(|&i| lowered.items[i].node).collect();
            steps.push(kernel_step(graph.device, made.kernel, args, made.params, nodes)?);
        }
    }
    let lives: Vec<Lifetime> = b.lives.iter().map(|l| l.1).collect();
    let (places, arena) = memory::arrange(&lives);
    for ((buffer, life), at) in b.lives.iter().zip(places) {
        b.homes[*buffer] = Home::Arena { at, bytes: life.bytes };
    }
    let outputs = outputs
        .into_iter()
        .map(|(node, item, view)| {
            let buffer = b.buffer_of(item)?;
            Ok(Output { node, buffer, view })
        })
        .collect::<Result<_>>()?;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let kernels = (0..steps.len()).filter(|&s| matches!(steps[s], Step::Kernel { .. })).collect();
    let id = NEXT.fetch_add(1, Relaxed);
    Ok(Plan { id, device: graph.device, steps, kernels, buffers: b.homes, arena, outputs })
}

/// An error if a tensor has more elements than addresses can count: all arithmetic on sizes below is then safe.
fn check_sizes(graph: &Linear) -> Result<()> {
    for n in &graph.nodes {
        let t = &n.tensor;
        if t.shape().checked_numel().is_none_or(|n| n > isize::MAX as usize / 64) {
            let elements = t.dims().iter().fold(1u128, |n, &d| n.saturating_mul(d as u128));
            let bytes = elements.saturating_mul(t.dtype().size() as u128);
            return Err(Error::new(t.op_name(), ErrorKind::Alloc { bytes }).at(t.location()).operand(t));
        }
    }
    Ok(())
}

fn kernel_step(device: Device, kernel: Kernel, args: Vec<Ref>, params: Vec<usize>, nodes: Vec<usize>) -> Result<Step> {
    let exe = device.backend().compile(&kernel)?;
    Ok(Step::Kernel { kernel, exe, args, params, nodes })
}

/// What the run leaves behind: wanted nodes, and what a later gradient can use of what is stored anyway.
fn outputs(graph: &Linear, l: &Lowered, fused: &fuse::Fused) -> Vec<(usize, usize, View)> {
    let mut out: Vec<(usize, usize, View)> = l.roots.iter().map(|(n, e)| (*n, e.base, e.view.clone())).collect();
    for (i, item) in l.items.iter().enumerate() {
        let node = &graph.nodes[item.node];
        let own = !item.moved
            && node.tensor.shape() == &item.shape
            && !matches!(item.kind, Kind::Leaf(_) | Kind::Copy | Kind::Opaque(Opaque::After));
        if fused.stored[i] && own && node.keep && !node.wanted {
            out.push((item.node, i, View::contiguous(&item.shape)));
        }
    }
    out
}

struct Builder<'a> {
    items: &'a [Item],
    buffer: Vec<Option<usize>>,
    homes: Vec<Home>,
    lives: Vec<(usize, Lifetime)>,
}

impl Builder<'_> {
    fn buffer_of(&mut self, i: usize) -> Result<usize> {
        if let Some(b) = self.buffer[i] {
            return Ok(b);
        }
        let Kind::Leaf(node) = self.items[i].kind else {
            // Stored items were defined before anything reads them, and a source without a buffer is copied first.
            return Err(Tensor::bug(format!("item {i} of a plan has no buffer")));
        };
        self.homes.push(Home::Leaf(node));
        self.buffer[i] = Some(self.homes.len() - 1);
        Ok(self.homes.len() - 1)
    }

    /// Gives a stored item its buffer.
    fn define(&mut self, i: usize, outlives: bool, step: usize) {
        let bytes = self.items[i].shape.numel() * self.items[i].dtype.size();
        let b = self.homes.len();
        self.homes.push(Home::Own { bytes });
        self.buffer[i] = Some(b);
        if !outlives {
            self.lives.push((b, Lifetime { bytes, from: step, to: step }));
        }
    }

    /// A reference from step `step`, which keeps the buffer alive until then.
    fn reference(&mut self, i: usize, offset: isize, step: usize) -> Result<Ref> {
        let buffer = self.buffer_of(i)?;
        if let Ok(at) = self.lives.binary_search_by_key(&buffer, |l| l.0) {
            self.lives[at].1.to = step;
        }
        Ok(Ref { buffer, offset })
    }

    fn opaque(&mut self, i: usize, device: Device, steps: &mut Vec<Step>) -> Result<()> {
        let item = &self.items[i];
        let at = steps.len();
        let Kind::Opaque(kind) = &item.kind else { return Ok(()) };
        match kind {
            Opaque::Cat(axis) => return self.cat(i, *axis, device, steps),
            Opaque::After => return Ok(()),
            Opaque::Matmul | Opaque::Conv(_) | Opaque::Host(_) | Opaque::Custom(_) => {}
        }
        let inputs: Vec<Ref> =
            item.inputs.iter().map(|e| self.reference(e.base, e.view.offset, at)).collect::<Result<_>>()?;
        let out = self.reference(i, 0, at)?;
        let node = item.node;
        let with_types = |inputs: Vec<Ref>| {
            let ins =
                inputs.into_iter().zip(&item.inputs).map(|(r, e)| (r, self.items[e.base].dtype, e.view.shape.clone()));
            ins.chain([(out, item.dtype, item.shape.clone())]).collect::<Vec<_>>()
        };
        steps.push(match kind {
            Opaque::Matmul => {
                let (a, b) = (&item.inputs[0].view, &item.inputs[1].view);
                let r = item.shape.rank();
                let spec = Matmul {
                    dtype: item.dtype,
                    batch: item.shape[..r - 2].to_vec(),
                    mkn: [item.shape[r - 2], a.shape[r - 1], item.shape[r - 1]],
                    a: a.strides.to_vec(),
                    b: b.strides.to_vec(),
                };
                Step::Matmul { spec, args: [inputs[0], inputs[1], out], node }
            }
            Opaque::Conv(spec) => {
                Step::Conv { spec: spec.clone(), dtype: item.dtype, args: [inputs[0], inputs[1], out], node }
            }
            Opaque::Host(op) if op.takes_rows() => {
                let mut args = with_types(inputs);
                // The routine gets all that a view spans, and its strides.
                for ((_, _, shape), e) in args.iter_mut().zip(&item.inputs) {
                    let v = &e.view;
                    let last: isize = v.shape.iter().zip(&v.strides).map(|(&n, &s)| (n as isize - 1) * s).sum();
                    *shape = if v.shape.numel() == 0 { 0.into() } else { (last as usize + 1).into() };
                }
                let op = op.with_strides(item.inputs.iter().map(|e| e.view.strides.iter().copied().collect()));
                Step::Host { op, args, node }
            }
            Opaque::Host(op) => Step::Host { op: op.clone(), args: with_types(inputs), node },
            Opaque::Custom(op) => Step::Custom { op: op.clone(), args: with_types(inputs), node },
            Opaque::Cat(_) | Opaque::After => return Ok(()),
        });
        Ok(())
    }

    /// One copy an input, each into its part of the result.
    fn cat(&mut self, i: usize, axis: usize, device: Device, steps: &mut Vec<Step>) -> Result<()> {
        let item = &self.items[i];
        let strides = item.shape.strides();
        let mut from = 0isize;
        for e in &item.inputs {
            let n = e.view.shape[axis];
            if e.view.shape.numel() > 0 {
                let kernel = codegen::copy_kernel(&e.view, &strides, item.dtype);
                let src = self.reference(e.base, 0, steps.len())?;
                let dst = self.reference(i, from * strides[axis], steps.len())?;
                steps.push(kernel_step(device, kernel, vec![src, dst], vec![], vec![item.node])?);
            }
            from += n as isize;
        }
        Ok(())
    }
}
