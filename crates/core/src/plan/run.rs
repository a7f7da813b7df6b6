//! Running a plan and giving the nodes their values.

use super::{
    cache::plan_for,
    linear::{Linear, linearize},
    profile,
    steps::{Home, Part, Plan, Ref, Step},
};
use crate::{
    DType, Device, Error, Result, Scalar, Shape, Tensor,
    backend::{Run, Slot, cpu::library},
    graph::{Buffer, Value, take_unsettled, topological},
    op::{Array, CustomOp, HostOp, Op},
    view::View,
};
use std::{cell::Cell, sync::Arc};

thread_local! {
    static LAUNCHES: Cell<usize> = const { Cell::new(0) };
}

/// Steps (kernels, matrix products, routines) this thread has run.
pub fn kernel_launches() -> usize {
    LAUNCHES.get()
}

/// Computes these tensors, in one run for each device, together with what their users still hold.
pub fn realize(roots: &[&Tensor]) -> Result<()> {
    let mut pending: Vec<Tensor> = roots.iter().map(|t| t.resolve()).filter(|t| !t.node().has_value()).collect();
    if pending.is_empty() {
        return Ok(());
    }
    pending.extend(take_unsettled());
    while let Some(first) = pending.first() {
        let device = first.device();
        let (here, there): (Vec<_>, Vec<_>) = pending.into_iter().partition(|t| t.device() == device);
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
    profile::count(graph.nodes.len());
    let plan = plan_for(&graph)?;
    let values = execute(&plan, &graph)?;
    for (node, value) in values {
        graph.nodes[node].tensor.node().set_value(value);
    }
    Ok(())
}

/// Copies a tensor between devices through the host.
fn transfer(t: &Tensor) -> Result<()> {
    let source = t.node().inputs()[0].clone();
    let bytes = source.read_bytes()?;
    let buffer = Buffer::alloc(t.device(), bytes.len())?;
    t.device().backend().upload(&buffer, 0, &bytes)?;
    t.node().set_value(Value { buffer, view: View::contiguous(t.shape()) });
    Ok(())
}

/// The buffers of one run.
struct Bound<'a> {
    plan: &'a Plan,
    buffers: Vec<(Arc<Buffer>, isize)>,
}

impl Bound<'_> {
    fn slot(&self, r: Ref, dtype: DType) -> Slot<'_> {
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
    let mut given = Vec::with_capacity(plan.buffers.len());
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

fn execute(plan: &Plan, graph: &Linear) -> Result<Vec<(usize, Value)>> {
    let backend = plan.device.backend();
    let buffers = bind(plan, graph)?;
    let bound = Bound { plan, buffers };
    LAUNCHES.set(LAUNCHES.get() + plan.steps.len());
    let addresses: Vec<u64> = bound.buffers.iter().flat_map(|(b, at)| [b.raw(), *at as u64]).collect();
    let nth = |n: usize| match plan.kernels.get(n).map(|&s| &plan.steps[s]) {
        Some(Step::Kernel { part, .. }) => part.params.iter().map(|&p| graph.scalars[p]).collect(),
        Some(Step::Kernels { parts, .. }) => parts.iter().flat_map(|p| &p.params).map(|&p| graph.scalars[p]).collect(),
        Some(Step::Matmul { .. } | Step::Conv { .. } | Step::Host { .. } | Step::Custom { .. }) | None => vec![],
    };
    let run = Run { plan: plan.id, addresses: &addresses, scalars: &graph.scalars, params: &nth };
    backend.run_plan(&run, &mut || run_steps(plan, graph, &bound))?;
    let outputs = plan.outputs.iter().map(|o| {
        let (buffer, leaf_offset) = &bound.buffers[o.buffer];
        let view = View { offset: o.view.offset + leaf_offset, ..o.view.clone() };
        (o.node, Value { buffer: buffer.clone(), view })
    });
    Ok(outputs.collect())
}

/// Every step in turn.
fn run_steps(plan: &Plan, graph: &Linear, bound: &Bound<'_>) -> Result<()> {
    let backend = plan.device.backend();
    let mut slots: Vec<Slot<'_>> = Vec::new();
    let mut params = Vec::new();
    for step in &plan.steps {
        let start = profile::clock();
        match step {
            Step::Kernel { exe, part } => {
                gather(std::slice::from_ref(part), graph, bound, &mut slots, &mut params);
                backend.launch(&**exe, &slots, &params).map_err(|e| blame(e, graph, &part.nodes))?;
            }
            Step::Kernels { exe, parts } => {
                gather(parts, graph, bound, &mut slots, &mut params);
                backend.launch_many(&**exe, &slots, &params).map_err(|e| blame(e, graph, &parts[0].nodes))?;
            }
            Step::Matmul { spec, args: [a, b, c], node } => {
                let slot = |r: &Ref| bound.slot(*r, spec.dtype);
                backend.matmul(spec, slot(a), slot(b), slot(c)).map_err(|e| blame(e, graph, &[*node]))?;
            }
            Step::Conv { spec, dtype, args: [a, b, c], node } => {
                let slot = |r: &Ref| bound.slot(*r, *dtype);
                backend.conv(spec, *dtype, slot(a), slot(b), slot(c)).map_err(|e| blame(e, graph, &[*node]))?;
            }
            Step::Host { op, args, node } => {
                host_step(plan, bound, op, args).map_err(|e| blame(e, graph, &[*node]))?;
            }
            Step::Custom { op, args, node } => {
                custom_step(plan, bound, op, args).map_err(|e| blame(e, graph, &[*node]))?;
            }
        }
        if let Some(start) = start {
            // Where steps go on behind the host's back, the clock waits for them.
            backend.sync()?;
            profile::note(step, graph, start);
        }
    }
    Ok(())
}

/// The buffers and parameters of the parts of a launch.
fn gather<'a>(
    parts: &[Part],
    graph: &Linear,
    bound: &'a Bound<'_>,
    slots: &mut Vec<Slot<'a>>,
    params: &mut Vec<Scalar>,
) {
    slots.clear();
    params.clear();
    for p in parts {
        slots.extend(p.args.iter().zip(&p.kernel.args).map(|(&r, a)| bound.slot(r, a.dtype)));
        params.extend(p.params.iter().map(|&p| graph.scalars[p]));
    }
}

/// An error of a step, with the line of the operation it belongs to.
fn blame(e: Error, graph: &Linear, nodes: &[usize]) -> Error {
    let named = nodes.iter().find(|&&n| graph.nodes[n].tensor.op_name() == e.op());
    match named.or(nodes.last()) {
        Some(&n) => e.at(graph.nodes[n].tensor.location()),
        None => e,
    }
}

type TypedRef = (Ref, DType, Shape);

fn host_step(plan: &Plan, bound: &Bound<'_>, op: &HostOp, args: &[TypedRef]) -> Result<()> {
    let slots: Vec<Slot<'_>> = args.iter().map(|(r, d, _)| bound.slot(*r, *d)).collect();
    let types: Vec<(DType, Shape)> = args.iter().map(|(_, d, s)| (*d, s.clone())).collect();
    let (out, inputs) = slots.split_last().ok_or_else(|| Tensor::bug("a step without a result"))?;
    if plan.device.backend().host_op(op, inputs, *out, &types)? {
        return Ok(());
    }
    on_host(plan.device, &slots, args, |inputs, out, spec| library::run(op, inputs, out, spec))
}

fn custom_step(plan: &Plan, bound: &Bound<'_>, op: &Arc<dyn CustomOp>, args: &[TypedRef]) -> Result<()> {
    let slots: Vec<Slot<'_>> = args.iter().map(|(r, d, _)| bound.slot(*r, *d)).collect();
    on_host(plan.device, &slots, args, |inputs, out, (dtype, _)| {
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
    let mut pointers: Vec<*mut u8> = vec![];
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
        let inputs: Vec<Array<'_>> = (0..last)
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
