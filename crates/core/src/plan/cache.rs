//! Plans by structure.

use super::{
    batch, codegen,
    codegen::Within,
    expand::expand,
    fuse, in_place,
    items::{Item, Kind, Opaque},
    linear::Linear,
    lower::{self, Lowered},
    memory::{self, Lifetime},
    pooling,
    steps::{Home, Output, Part, Plan, Ref, Step, Tail},
};
use crate::{Device, Error, ErrorKind, Result, Tensor, backend::Matmul, graph::IdHasher, kernel::Kernel, view::View};
use std::{
    cell::Cell,
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

type Key = (usize, u64, u64);

/// Plans under their keys, which are hashes: one multiplication more is enough.
type Plans = HashMap<Key, Arc<Plan>, BuildHasherDefault<IdHasher>>;

static PLANS: Mutex<Option<Plans>> = Mutex::new(None);
thread_local! {
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// Beyond this many, the cache starts anew: programs whose shapes never repeat must not grow without end.
const MOST: usize = 4096;

/// How many plans this thread has made (a training loop makes one, then replays it).
pub fn plans_made() -> usize {
    MADE.get()
}

/// The plan for a graph: from the cache, or new.
pub fn plan_for(graph: &Linear) -> Result<Arc<Plan>> {
    let key = (graph.device.id(), graph.key.0, graph.key.1);
    let lock = || PLANS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(p) = lock().get_or_insert_default().get(&key) {
        return Ok(p.clone());
    }
    let plan = Arc::new(make(graph)?);
    MADE.set(MADE.get() + 1);
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
    let Some(whole) = expand(graph)? else { return make_plain(graph, |n| graph.nodes[n].tensor.id()) };
    let mut plan = make_plain(&whole.graph, |n| whole.age(graph, n))?;
    whole.renumber(&mut plan);
    Ok(plan)
}

/// Plans a graph without calls; nodes have ages.
fn make_plain(graph: &Linear, age: impl Fn(usize) -> u64) -> Result<Plan> {
    check_sizes(graph)?;
    let mut lowered = lower::lower(graph);
    pooling::exchange(&mut lowered, |node| graph.nodes[node].keep);
    // Nodes are numbered as they are made: a backward pass that makes them in the order it needs them runs in it.
    let age: Vec<u64> = lowered.items.iter().map(|i| age(i.node)).collect();
    let fused = fuse::fuse(&mut lowered, age, graph.device.backend().limits());
    let mut b = Builder {
        items: &lowered.items,
        buffer: vec![None; lowered.items.len()],
        inside: vec![None; lowered.items.len()],
        homes: vec![],
        lives: vec![],
    };
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
    let within = codegen::within(&lowered.items, &fused, &outlives);
    b.place_parts(&fused.stored, &outlives, &within);
    let mut steps = vec![];
    let mut made = fused
        .groups
        .iter()
        .enumerate()
        .map(|(g, group)| (!group.opaque).then(|| codegen::generate(&lowered.items, &fused, &within, g)))
        .collect::<Vec<_>>();
    for batch in batch::batches(&lowered, &fused, &made) {
        let at = steps.len();
        let mut parts = vec![];
        for &g in &batch.groups {
            let group = &fused.groups[g];
            for &i in &group.items {
                if lowered.items[i].is_after() {
                    let base = lowered.items[i].inputs[0].base;
                    b.buffer[i] = Some(b.buffer_of(base)?);
                    b.inside[i] = b.inside[base];
                } else if fused.stored[i] {
                    b.define(within[i].as_ref().map_or(i, |w| w.whole), &outlives, at);
                }
            }
            let Some(made) = made[g].take() else {
                b.opaque(group.items[0], graph.device, &within, &mut steps)?;
                continue;
            };
            let args = made.args.iter().map(|&i| b.reference(i, 0, at)).collect::<Result<_>>()?;
            let nodes = group.items.iter().map(|&i| lowered.items[i].node).collect();
            parts.push(Part { kernel: made.kernel, args, params: made.params, nodes });
        }
        kernel_steps(graph.device, parts, batch.kernels, &mut steps)?;
    }
    let over = in_place::overwrite(graph.device, &steps, &mut b.lives);
    let first: Vec<usize> = (0..over.len()).filter(|&l| over[l].is_none()).collect();
    let lives: Vec<Lifetime> = first.iter().map(|&l| b.lives[l].1).collect();
    let (places, arena) = memory::arrange(&lives);
    for (l, (buffer, life)) in b.lives.iter().enumerate() {
        let at = first.binary_search(&over[l].unwrap_or(l)).map_or(0, |i| places[i]);
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
    let kernels =
        (0..steps.len()).filter(|&s| matches!(steps[s], Step::Kernel { .. } | Step::Kernels { .. })).collect();
    let id = NEXT.fetch_add(1, Relaxed);
    let (constants, inner) = (vec![], vec![]);
    Ok(Plan { id, device: graph.device, steps, kernels, buffers: b.homes, arena, outputs, constants, inner })
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

fn kernel_step(device: Device, part: Part) -> Result<Step> {
    let exe = device.backend().compile(&part.kernel)?;
    Ok(Step::Kernel { exe, part })
}

/// Parts as one launch, if they are several, have one body (then `kernels` are they under it) and the device can.
fn kernel_steps(device: Device, mut parts: Vec<Part>, kernels: Vec<Kernel>, steps: &mut Vec<Step>) -> Result<()> {
    if parts.len() > 1
        && let Some(exe) = device.backend().compile_many(&kernels)?
    {
        parts.iter_mut().zip(kernels).for_each(|(p, k)| p.kernel = k);
        steps.push(Step::Kernels { exe, parts });
        return Ok(());
    }
    for part in parts {
        steps.push(kernel_step(device, part)?);
    }
    Ok(())
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
    /// Items that are computed inside a joined one: which, and where in it.
    inside: Vec<Option<(usize, usize)>>,
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

    /// Finds the items that can be computed where they are to be joined with others, without a copy.
    fn place_parts(&mut self, stored: &[bool], outlives: &[bool], within: &[Option<Within>]) {
        for (c, cat) in self.items.iter().enumerate() {
            if !matches!(cat.kind, Kind::Opaque(Opaque::Cat(0))) || cat.shape.rank() != 1 || !stored[c] {
                continue;
            }
            let mut from = 0;
            for e in &cat.inputs {
                let i = e.base;
                // One that is joined itself may hold parts of its own.
                let joined = matches!(self.items[i].kind, Kind::Opaque(Opaque::Cat(_) | Opaque::After));
                let own = stored[i] && !outlives[i] && !joined && self.inside[i].is_none() && within[i].is_none();
                // Parts begin where buffers may.
                let aligned = (from * cat.dtype.size()).is_multiple_of(64);
                if own && aligned && e.is_identity(self.items) {
                    self.inside[i] = Some((c, from));
                }
                from += e.view.shape.numel();
            }
        }
    }

    /// Gives a stored item its buffer.
    fn define(&mut self, i: usize, outlives: &[bool], step: usize) {
        if self.buffer[i].is_some() {
            return; // a joined item, which its first part defined
        }
        if let Some((whole, _)) = self.inside[i] {
            self.define(whole, outlives, step);
            self.buffer[i] = self.buffer[whole];
            return;
        }
        let outlives = outlives[i];
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
        let offset = offset + self.inside[i].map_or(0, |(_, from)| from as isize);
        if let Ok(at) = self.lives.binary_search_by_key(&buffer, |l| l.0) {
            self.lives[at].1.to = step;
        }
        Ok(Ref { buffer, offset })
    }

    fn opaque(&mut self, i: usize, device: Device, within: &[Option<Within>], steps: &mut Vec<Step>) -> Result<()> {
        let item = &self.items[i];
        let at = steps.len();
        let Kind::Opaque(kind) = &item.kind else { return Ok(()) };
        match kind {
            Opaque::Cat(axis) => return self.cat(i, *axis, device, within, steps),
            Opaque::After => return Ok(()),
            Opaque::Matmul
            | Opaque::Biased(..)
            | Opaque::Conv(_)
            | Opaque::BiasedConv(..)
            | Opaque::Host(_)
            | Opaque::Custom(_) => {}
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
            Opaque::Matmul | Opaque::Biased(..) => {
                let (a, b) = (&item.inputs[0].view, &item.inputs[1].view);
                let (shape, relu) = if let Opaque::Biased(m, relu) = kind { (m, *relu) } else { (&item.shape, false) };
                let r = shape.rank();
                let spec = Matmul {
                    dtype: item.dtype,
                    batch: shape[..r - 2].to_vec(),
                    mkn: [shape[r - 2], a.shape[r - 1], shape[r - 1]],
                    a: a.strides.to_vec(),
                    b: b.strides.to_vec(),
                };
                let tail = inputs.get(2).map(|&bias| Tail { bias, relu });
                Step::Matmul { spec, args: [inputs[0], inputs[1], out], tail, node }
            }
            Opaque::Conv(spec) | Opaque::BiasedConv(spec, _) => {
                let relu = matches!(kind, Opaque::BiasedConv(_, true));
                let tail = inputs.get(2).map(|&bias| Tail { bias, relu });
                Step::Conv { spec: spec.clone(), dtype: item.dtype, args: [inputs[0], inputs[1], out], tail, node }
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

    /// One copy for each input that is not in its place already.
    fn cat(
        &mut self,
        i: usize,
        axis: usize,
        device: Device,
        within: &[Option<Within>],
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let item = &self.items[i];
        let strides = item.shape.strides();
        let flat = item.shape.rank() == 1;
        let mut from = 0isize;
        let mut parts = vec![];
        for e in &item.inputs {
            let n = e.view.shape[axis];
            let there = self.inside[e.base] == Some((i, from as usize)) || within[e.base].is_some();
            if e.view.shape.numel() > 0 && !there {
                // Where all are contiguous, the copies differ in nothing but their lengths.
                let at = if flat { e.view.offset } else { 0 };
                let view = View { offset: e.view.offset - at, ..e.view.clone() };
                let kernel = codegen::copy_kernel(&view, &strides, item.dtype);
                let src = self.reference(e.base, at, steps.len())?;
                let dst = self.reference(i, from * strides[axis], steps.len())?;
                parts.push(Part { kernel, args: vec![src, dst], params: vec![], nodes: vec![item.node] });
            }
            from += n as isize;
        }
        let kernels: Vec<Kernel> = parts.iter().map(|p| p.kernel.clone()).collect();
        if flat {
            return kernel_steps(device, parts, kernels, steps);
        }
        if parts.len() > 1
            && let Some(exe) = device.backend().compile_join(&kernels)?
        {
            steps.push(Step::Kernels { exe, parts });
            return Ok(());
        }
        parts.into_iter().try_for_each(|p| kernel_step(device, p).map(|s| steps.push(s)))
    }
}
