//! Running a plan and giving the nodes their values.

use super::{
    cache::plan_for,
    linear::{Linear, linearize},
    profile,
    steps::{Home, Part, Plan, Ref, Step},
};
use crate::{
    DType, Device, Error, Result, Scalar, Shape, Tensor,
    backend::{self, Run, Slot, cpu::library},
    graph::{Buffer, Value, take_unsettled, topological},
    op::{Array, CustomOp, HostOp, Op},
    replay,
    view::View,
};
use smallvec::SmallVec;
use std::{cell::Cell, panic::Location, sync::Arc};

thread_local! {
    static LAUNCHES: Cell<usize> = const { Cell::new(0) };
    /// Lists for the next run.
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) };
}

/// Steps (kernels, matrix products, routines) this thread has run.
pub fn kernel_launches() -> usize {
    LAUNCHES.get()
}

/// Computes these tensors, in one run for each device, together with what their users still hold.
pub fn realize(roots: &[&Tensor]) -> Result<()> {
    let pending: Roots = roots.iter().map(|t| t.resolve()).filter(|t| !t.node().has_value()).collect();
    if pending.is_empty() { Ok(()) } else { realize_all(pending) }
}

/// The same, and computes what variables were set to in any case.
pub(crate) fn settle(roots: &[&Tensor]) -> Result<()> {
    realize_all(roots.iter().map(|t| t.resolve()).filter(|t| !t.node().has_value()).collect())
}

/// Tensors to compute, most often one.
type Roots = SmallVec<[Tensor; 2]>;

fn realize_all(mut pending: Roots) -> Result<()> {
    pending.extend(take_unsettled());
    while let Some(first) = pending.first() {
        let device = first.device();
        if pending.iter().all(|t| t.device() == device) {
            return realize_on(&pending, device);
        }
        let (here, there): (Roots, Roots) = pending.into_iter().partition(|t| t.device() == device);
        realize_on(&here, device)?;
        pending = there;
    }
    Ok(())
}

fn realize_on(roots: &[Tensor], device: Device) -> Result<()> {
    let mut graph = linearize(roots, device);
    if graph.nodes.iter().any(|n| n.value.is_none() && matches!(n.tensor.node().op, Op::Transfer)) {
        drop(graph);
        let refs: Vec<&Tensor> = roots.iter().collect();
        // Inputs come first, so each transfer finds the ones before it done.
        for t in topological(&refs, |t| !t.node().has_value()) {
            if matches!(t.node().op, Op::Transfer) && !t.node().has_value() {
                transfer(&t)?;
            }
        }
        graph = linearize(roots, device);
    }
    let plan = plan_for(&graph)?;
    let buffers = bind(&plan, &graph)?;
    graph.scalars.extend_from_slice(&plan.constants);
    let lines = Read { graph: &graph, plan: &plan };
    let call =
        Call { plan: &plan, buffers: &buffers, scalars: &graph.scalars, lines: &lines, nodes: graph.nodes.len() };
    // A run inside this one (a user's operation may compute) finds none, and makes its own.
    let mut scratch = SCRATCH.take();
    let done = call.run(&mut scratch);
    SCRATCH.set(scratch);
    done?;
    for o in &plan.outputs {
        let (buffer, leaf_offset) = &buffers[o.buffer];
        let mut view = o.view.clone();
        view.offset += leaf_offset;
        graph.nodes[o.node].tensor.node().set_value(Value { buffer: buffer.clone(), view });
    }
    replay::ran(&plan, graph, buffers);
    Ok(())
}

/// Copies a tensor between devices through the host.
fn transfer(t: &Tensor) -> Result<()> {
    replay::spoil("it moves a tensor to another device", t.location());
    let source = t.node().inputs()[0].clone();
    let bytes = source.read_bytes()?;
    let buffer = Buffer::alloc(t.device(), bytes.len())?;
    t.device().backend().upload(&buffer, 0, &bytes)?;
    t.node().set_value(Value { buffer, view: View::contiguous(t.shape()) });
    Ok(())
}

/// What a run must know of the nodes behind its steps.
pub(crate) trait Lines {
    /// A node's operation, and the line of the program that made it.
    fn line(&self, node: usize) -> (&str, &'static Location<'static>);
}

/// A graph with the plan that was made for it.
pub(super) struct Read<'a> {
    pub graph: &'a Linear,
    pub plan: &'a Plan,
}

impl Lines for Read<'_> {
    fn line(&self, node: usize) -> (&str, &'static Location<'static>) {
        let tensor = |n: usize| &self.graph.nodes[n].tensor;
        let inner = node.checked_sub(self.graph.nodes.len()).and_then(|n| self.plan.inner.get(n));
        match inner {
            Some((name, call)) => (name, tensor(*call).location()),
            None => (tensor(node).op_name(), tensor(node).location()),
        }
    }
}

/// One run of a plan: what its numbers stand for.
pub(crate) struct Call<'a> {
    /// What is run.
    pub plan: &'a Plan,
    /// The buffers, each with the offset of a leaf in it.
    pub buffers: &'a [(Arc<Buffer>, isize)],
    /// The scalar arguments.
    pub scalars: &'a [Scalar],
    /// For errors and profiles.
    pub lines: &'a dyn Lines,
    /// Nodes of the graph it stands for.
    pub nodes: usize,
}

/// Lists that a run fills, kept for the next: a replay allocates nothing.
#[derive(Default)]
pub(crate) struct Scratch {
    addresses: Vec<u64>,
    slots: Vec<Slot<'static>>,
    params: Vec<Scalar>,
}

impl Scratch {
    const fn new() -> Scratch {
        Scratch { addresses: Vec::new(), slots: Vec::new(), params: Vec::new() }
    }
}

/// An empty list with the room of another; what it may hold can live for another time.
fn emptied<'a>(mut slots: Vec<Slot<'_>>) -> Vec<Slot<'a>> {
    slots.clear();
    // Nothing is left to convert, and collecting into the same layout keeps the allocation.
    slots.into_iter().map_while(|_| None).collect()
}

impl<'a> Call<'a> {
    /// Runs it.
    pub fn run(&self, scratch: &mut Scratch) -> Result<()> {
        let plan = self.plan;
        profile::count(self.nodes);
        LAUNCHES.set(LAUNCHES.get() + plan.steps.len());
        scratch.addresses.clear();
        scratch.addresses.extend(self.buffers.iter().flat_map(|(b, at)| [b.raw(), *at as u64]));
        let scalar = |&p: &usize| self.scalars[p];
        let nth = |n: usize| match plan.kernels.get(n).map(|&s| &plan.steps[s]) {
            Some(Step::Kernel { part, .. }) => part.params.iter().map(scalar).collect(),
            Some(Step::Kernels { parts, .. }) => parts.iter().flat_map(|p| &p.params).map(scalar).collect(),
            Some(Step::Matmul { .. } | Step::Conv { .. } | Step::Host { .. } | Step::Custom { .. }) | None => vec![],
        };
        let run = Run { plan: plan.id, addresses: &scratch.addresses, scalars: self.scalars, params: &nth };
        let mut slots = emptied(std::mem::take(&mut scratch.slots));
        let params = &mut scratch.params;
        let done = plan.device.backend().run_plan(&run, &mut || run_steps(self, &mut slots, params));
        scratch.slots = emptied(slots);
        done
    }

    fn slot(&self, r: Ref, dtype: DType) -> Slot<'a> {
        let (buffer, leaf_offset) = &self.buffers[r.buffer];
        let base = match self.plan.buffers[r.buffer] {
            Home::Arena { at, .. } => (at / dtype.size()) as isize,
            Home::Leaf(_) | Home::Own { .. } => *leaf_offset,
        };
        Slot { buffer, offset: base + r.offset }
    }
}

/// The buffers of a run: leaves as they are, others where an earlier run of the plan had them, or new ones.
fn bind(plan: &Plan, graph: &Linear) -> Result<Vec<(Arc<Buffer>, isize)>> {
    let leaf = |n: usize| graph.nodes[n].value.as_ref().ok_or_else(|| Tensor::bug("a leaf without a value"));
    let mut given: Few<Option<[u64; 2]>> = Few::with_capacity(plan.buffers.len());
    for home in &plan.buffers {
        given.push(match *home {
            Home::Leaf(n) => leaf(n).map(|v| Some([v.buffer.raw(), v.view.offset as u64]))?,
            Home::Own { .. } | Home::Arena { .. } => None,
        });
    }
    let mut places = plan.device.backend().take_again(plan.id, &given).map(Vec::into_iter);
    let mut take = |bytes: usize| match places.as_mut().and_then(Iterator::next) {
        Some(raw) => Ok(Buffer::adopt(plan.device, raw, bytes)),
        None => Buffer::alloc(plan.device, bytes),
    };
    let mut arena: Option<Arc<Buffer>> = None;
    let mut buffers = Vec::with_capacity(plan.buffers.len());
    for home in &plan.buffers {
        buffers.push(match (*home, &arena) {
            (Home::Leaf(n), _) => leaf(n).map(|v| (v.buffer.clone(), v.view.offset))?,
            (Home::Arena { .. }, Some(a)) => (a.clone(), 0),
            (Home::Arena { .. }, None) => {
                let a = take(plan.arena)?;
                arena = Some(a.clone());
                (a, 0)
            }
            (Home::Own { bytes }, _) => (take(bytes)?, 0),
        });
    }
    Ok(buffers)
}

/// Every step in turn.
fn run_steps<'a>(call: &Call<'a>, slots: &mut Vec<Slot<'a>>, params: &mut Vec<Scalar>) -> Result<()> {
    let plan = call.plan;
    let backend = plan.device.backend();
    let blame = |e: Error, nodes: &[usize]| blame(e, call.lines, nodes);
    for step in &plan.steps {
        let start = profile::clock();
        match step {
            Step::Kernel { exe, part } => {
                gather(std::slice::from_ref(part), call, slots, params);
                backend.launch(&**exe, slots, params).map_err(|e| blame(e, &part.nodes))?;
            }
            Step::Kernels { exe, parts } => {
                gather(parts, call, slots, params);
                backend.launch_many(&**exe, slots, params).map_err(|e| blame(e, &parts[0].nodes))?;
            }
            Step::Matmul { spec, args: [a, b, c], tail, node } => {
                let slot = |r: &Ref| call.slot(*r, spec.dtype);
                let tail = tail.map(|t| backend::Tail { bias: slot(&t.bias), relu: t.relu });
                backend.matmul(spec, slot(a), slot(b), tail, slot(c)).map_err(|e| blame(e, &[*node]))?;
            }
            Step::Conv { spec, dtype, args: [a, b, c], tail, node } => {
                let slot = |r: &Ref| call.slot(*r, *dtype);
                let tail = tail.map(|t| backend::Tail { bias: slot(&t.bias), relu: t.relu });
                backend.conv(spec, *dtype, slot(a), slot(b), tail, slot(c)).map_err(|e| blame(e, &[*node]))?;
            }
            Step::Host { op, args, node } => {
                host_step(call, op, args).map_err(|e| blame(e, &[*node]))?;
            }
            Step::Custom { op, args, node } => {
                custom_step(call, op, args).map_err(|e| blame(e, &[*node]))?;
            }
        }
        if let Some(start) = start {
            // Where steps go on behind the host's back, the clock waits for them.
            backend.sync()?;
            profile::note(step, call.lines, start);
        }
    }
    Ok(())
}

/// The buffers and parameters of the parts of a launch.
fn gather<'a>(parts: &[Part], call: &Call<'a>, slots: &mut Vec<Slot<'a>>, params: &mut Vec<Scalar>) {
    slots.clear();
    params.clear();
    for p in parts {
        slots.extend(p.args.iter().zip(&p.kernel.args).map(|(&r, a)| call.slot(r, a.dtype)));
        params.extend(p.params.iter().map(|&p| call.scalars[p]));
    }
}

/// An error of a step, with the line of the operation it belongs to.
fn blame(e: Error, lines: &dyn Lines, nodes: &[usize]) -> Error {
    let named = nodes.iter().find(|&&n| lines.line(n).0 == e.op());
    match named.or(nodes.last()) {
        Some(&n) => e.at(lines.line(n).1),
        None => e,
    }
}

type TypedRef = (Ref, DType, Shape);
type Few<T> = SmallVec<[T; 8]>;

fn host_step(call: &Call<'_>, op: &HostOp, args: &[TypedRef]) -> Result<()> {
    let slots: Few<Slot<'_>> = args.iter().map(|(r, d, _)| call.slot(*r, *d)).collect();
    let types: Few<(DType, Shape)> = args.iter().map(|(_, d, s)| (*d, s.clone())).collect();
    let (out, inputs) = slots.split_last().ok_or_else(|| Tensor::bug("a step without a result"))?;
    if call.plan.device.backend().host_op(op, inputs, *out, &types)? {
        return Ok(());
    }
    on_host(call.plan.device, &slots, args, |inputs, out, spec| library::run(op, inputs, out, spec))
}

fn custom_step(call: &Call<'_>, op: &Arc<dyn CustomOp>, args: &[TypedRef]) -> Result<()> {
    let slots: Few<Slot<'_>> = args.iter().map(|(r, d, _)| call.slot(*r, *d)).collect();
    on_host(call.plan.device, &slots, args, |inputs, out, (dtype, _)| {
        // A user's code gets defined bytes, and whatever it leaves in a bool is one.
        out.fill(0);
        op.forward(inputs, out)?;
        if *dtype == DType::Bool {
            out.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Ok(())
    })
}

/// Calls `f` with inputs and output in host memory, copying where the device has its own.
fn on_host(
    device: Device,
    slots: &[Slot<'_>],
    args: &[TypedRef],
    f: impl FnOnce(&[Array<'_>], &mut [u8], &(DType, Shape)) -> Result<()>,
) -> Result<()> {
    let backend = device.backend();
    let bytes = |k: usize| args[k].2.numel() * args[k].1.size();
    // The offset of an empty view means nothing.
    let at = |k: usize| if bytes(k) == 0 { 0 } else { slots[k].offset as usize * args[k].1.size() };
    let last = args.len() - 1;
    let spec = (args[last].1, args[last].2.clone());
    // u64 words keep copies aligned.
    let mut copies: Vec<Vec<u64>> = vec![];
    let mut pointers: Few<*mut u8> = Few::new();
    for (k, slot) in slots.iter().enumerate() {
        match backend.host_ptr(slot.buffer) {
            Some(p) => pointers.push(p.wrapping_add(at(k))),
            None => {
                let mut copy = vec![0u64; bytes(k).div_ceil(8)];
                let p = copy.as_mut_ptr().cast::<u8>();
                if k != last {
                    // SAFETY: the vector has at least this many bytes.
                    backend.download(slot.buffer, at(k), unsafe { std::slice::from_raw_parts_mut(p, bytes(k)) })?;
                }
                pointers.push(p);
                copies.push(copy);
            }
        }
    }
    // SAFETY: the planner gives inputs and output contiguous, disjoint ranges inside their buffers.
    let (inputs, out) = unsafe {
        let inputs: Few<Array<'_>> = (0..last)
            .map(|k| Array {
                dtype: args[k].1,
                shape: args[k].2.clone(),
                bytes: std::slice::from_raw_parts(pointers[k], bytes(k)),
            })
            .collect();
        (inputs, std::slice::from_raw_parts_mut(pointers[last], bytes(last)))
    };
    f(&inputs, out, &spec)?;
    if backend.host_ptr(slots[last].buffer).is_none() {
        backend.upload(slots[last].buffer, at(last), out)?;
    }
    drop(copies);
    Ok(())
}
