//! Whole plans as CUDA graphs: launched once for all their kernels.
//!
//! The first run of a plan is plain: kernels are compiled, algorithms chosen, and it is seen whether any step goes
//! through the host. If none does, the next run on each new set of addresses is recorded, and later runs on these
//! addresses replay the recording. Scalars that changed in between are written into the recorded launches. The pool
//! hands out the lowest free address first, so a training loop comes back to the same addresses every other step.
//!
//! A recording owns the scratch memory that its launches use: nobody else may live there between replays.

use crate::{
    backend::Cuda,
    module::{Arguments, Function},
    sys::driver::{self, Handle, KernelNodeParams},
};
use gradus_core::{
    DType, Result, Scalar,
    backend::Run,
    kernel::emit::{Table, What},
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    ffi::c_void,
    sync::Arc,
};

/// Plans of fewer launches are as fast without.
const LEAST: usize = 4;
/// Recordings a plan keeps.
const KEEP: usize = 8;
/// A plan that misses this often, and more often than it hits, is not recorded any more.
const MISSES: usize = 32;
/// Plans that are known at once.
const PLANS: usize = 4096;

thread_local! {
    static NOW: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What is seen of a run on this thread.
#[derive(Default)]
struct Watch {
    recording: bool,
    /// Kernels launched for the plan.
    kernels: usize,
    /// Launches of all kinds.
    launches: usize,
    /// Whether the host had a part in it.
    host: bool,
    nodes: Vec<Node>,
    scratch: Vec<(u64, usize)>,
    /// Scratch memory of this recording that is free again, by size.
    free: Vec<(u64, usize)>,
}

/// A launch of one of the plan's kernels.
pub struct KernelLaunch<'a> {
    pub function: Function,
    pub blocks: usize,
    pub threads: usize,
    pub shared: usize,
    pub arguments: &'a Arguments,
    pub bindings: &'a [What],
    /// All parameters of the kernel, as the plan gives them.
    pub params: &'a [Scalar],
}

/// A recorded launch whose parameters may change.
struct Node {
    /// Which kernel of the plan.
    nth: usize,
    handle: Handle,
    function: Handle,
    grid: u32,
    block: u32,
    shared: u32,
    arguments: Arguments,
    bindings: Vec<What>,
    numbers: Numbers,
    params: Vec<Scalar>,
}

/// Where the parameters of a launch stand among its arguments.
#[derive(Clone)]
pub enum Numbers {
    /// Each is an argument, of these types.
    Arguments(Vec<DType>),
    /// Those of some parts stand in a table: which parts, in the table's order.
    Table(Arc<Table>, Vec<usize>),
}

impl Numbers {
    /// Writes the plan's parameters for the kernel.
    pub fn write(&self, arguments: &mut Arguments, params: &[Scalar]) {
        match self {
            Numbers::Arguments(types) => arguments.set_params(params, types),
            Numbers::Table(table, parts) => {
                let n = table.params();
                for (i, &part) in parts.iter().enumerate() {
                    if let Some(own) = params.get(part * n..(part + 1) * n) {
                        table.set_params(&mut arguments.table, i, own);
                    }
                }
            }
        }
    }
}

struct Recording {
    addresses: Vec<u64>,
    /// Blocks that belong to the run itself, once each; known when they are first taken again.
    own: Vec<u64>,
    scalars: Vec<Scalar>,
    graph: Handle,
    exec: Handle,
    nodes: Vec<Node>,
    scratch: Vec<(u64, usize)>,
    used: u64,
}

#[derive(Default)]
struct Known {
    runs: usize,
    hits: usize,
    misses: usize,
    /// Whether it can be recorded; known after the first run.
    fits: bool,
    /// Whether recording it has failed.
    failed: bool,
    recordings: Vec<Recording>,
}

/// How often plans were replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphStats {
    /// Plans that ran.
    pub plans: usize,
    /// Of these, plans that are recorded: no step of theirs goes through the host.
    pub recorded: usize,
    /// Plans whose recording failed.
    pub failed: usize,
    /// Runs that were replays.
    pub hits: usize,
    /// Runs that had to be recorded.
    pub misses: usize,
}

/// Recordings by plan.
#[derive(Default)]
pub struct Graphs {
    plans: HashMap<u64, Known>,
    clock: u64,
}

// SAFETY: handles may be used from any thread; the map is under a lock.
unsafe impl Send for Graphs {}

/// Notes that the host takes part in the present run.
pub fn host_takes_part() {
    NOW.with_borrow_mut(|w| {
        if let Some(w) = w {
            w.host = true;
        }
    });
}

/// Whether this thread is recording.
pub fn recording() -> bool {
    NOW.with_borrow(|w| w.as_ref().is_some_and(|w| w.recording))
}

/// Notes a launch that is not one of the plan's kernels.
pub fn launched() {
    NOW.with_borrow_mut(|w| {
        if let Some(w) = w {
            w.launches += 1;
        }
    });
}

/// Scratch memory of a recording, if one is being made and has some free.
pub fn recorded_scratch(bytes: usize) -> Option<u64> {
    NOW.with_borrow_mut(|w| {
        let w = w.as_mut().filter(|w| w.recording)?;
        let i = w.free.iter().position(|f| f.1 == bytes)?;
        Some(w.free.swap_remove(i).0)
    })
}

/// Keeps scratch memory for the recording that uses it; `false` where none is being made.
pub fn keep_scratch(raw: u64, bytes: usize) -> bool {
    NOW.with_borrow_mut(|w| match w.as_mut().filter(|w| w.recording) {
        Some(w) => {
            if !w.scratch.iter().any(|s| s.0 == raw) {
                w.scratch.push((raw, bytes));
            }
            w.free.push((raw, bytes));
            true
        }
        None => false,
    })
}

/// Notes that one of the launches of the plan's next kernel was made, and when recording where it is.
pub fn kernel_launched(cuda: &Cuda, launch: &KernelLaunch<'_>, numbers: impl FnOnce() -> Numbers) -> Result<()> {
    // Only launches with parameters are ever patched.
    let patched = recording() && !launch.params.is_empty() && launch.blocks > 0;
    let handle = if patched { Some(cuda.context.captured()?) } else { None };
    NOW.with_borrow_mut(|w| {
        let Some(w) = w else { return };
        w.launches += 1;
        if let Some(handle) = handle {
            w.nodes.push(Node {
                nth: w.kernels,
                handle,
                function: launch.function.0,
                grid: launch.blocks as u32,
                block: launch.threads as u32,
                shared: launch.shared as u32,
                arguments: launch.arguments.clone(),
                bindings: launch.bindings.to_vec(),
                numbers: numbers(),
                params: launch.params.to_vec(),
            });
        }
    });
    Ok(())
}

/// Notes that all launches of the plan's next kernel were made.
pub fn kernel_done() {
    NOW.with_borrow_mut(|w| {
        if let Some(w) = w {
            w.kernels += 1;
        }
    });
}

impl Graphs {
    /// What happened so far.
    pub fn stats(&self) -> GraphStats {
        let mut s = GraphStats { plans: self.plans.len(), ..GraphStats::default() };
        for k in self.plans.values() {
            s.recorded += !k.recordings.is_empty() as usize;
            s.failed += k.failed as usize;
            s.hits += k.hits;
            s.misses += k.misses;
        }
        s
    }
}

impl Cuda {
    /// Replays a plan, records it, or just runs it.
    pub(crate) fn run_as_graph(&self, run: &Run<'_>, steps: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // A run inside a run, or with recording switched off, is plain.
        if NOW.with_borrow(|w| w.is_some()) || !graphs_wanted() {
            return steps();
        }
        let record = {
            let mut graphs = self.graphs();
            graphs.clock += 1;
            let clock = graphs.clock;
            if graphs.plans.len() > PLANS {
                for (_, known) in std::mem::take(&mut graphs.plans) {
                    known.recordings.into_iter().for_each(|r| self.forget(r));
                }
            }
            let known = graphs.plans.entry(run.plan).or_default();
            known.runs += 1;
            if let Some(r) = known.recordings.iter_mut().find(|r| r.addresses == run.addresses) {
                known.hits += 1;
                r.used = clock;
                return self.replay(r, run);
            }
            // What a compiled function runs while it is recorded will run on other addresses.
            let again = known.runs > 1 && !gradus_core::replay::recording();
            again && known.fits && !known.failed && (known.misses < MISSES || known.hits > known.misses)
        };
        if !record {
            return self.watch(run, steps);
        }
        let recording = match self.record(run, steps) {
            Ok(r) => r,
            Err(_) => {
                // Nothing of it has run. A fault of the steps themselves will show again.
                if let Some(known) = self.graphs().plans.get_mut(&run.plan) {
                    known.failed = true;
                }
                return steps();
            }
        };
        let mut graphs = self.graphs();
        let clock = graphs.clock;
        if let Some(known) = graphs.plans.get_mut(&run.plan) {
            known.misses += 1;
            if known.recordings.len() >= KEEP {
                let oldest = known.recordings.iter().enumerate().min_by_key(|(_, r)| r.used).map_or(0, |(i, _)| i);
                self.forget(known.recordings.swap_remove(oldest));
            }
            known.recordings.push(Recording { used: clock, ..recording });
        }
        Ok(())
    }

    /// The memory of a recording whose other buffers are `given`, where all of it is free.
    pub(crate) fn take_recorded(&self, plan: u64, given: &[Option<[u64; 2]>]) -> Option<Vec<u64>> {
        let mut graphs = self.graphs();
        for r in &mut graphs.plans.get_mut(&plan)?.recordings {
            if r.addresses.len() != 2 * given.len() {
                continue;
            }
            if r.own.is_empty() {
                // The arena appears once for each of its pieces.
                let mut seen = HashSet::new();
                let own = r.addresses.chunks(2).zip(given).filter(|(_, g)| g.is_none()).map(|(a, _)| a[0]);
                r.own = own.filter(|&a| seen.insert(a)).collect();
            }
            if !r.addresses.chunks(2).zip(given).all(|(a, g)| g.is_none_or(|g| g == a)) {
                continue;
            }
            if self.take_blocks(&r.own) {
                return Some(r.own.clone());
            }
        }
        // No recording fits. Buffers go where the run before the last had them, as far as that is free: the results then
        // lie where the last run began, and the circle closes. The last run's own results are this one's inputs.
        let recordings = &graphs.plans.get(&plan)?.recordings;
        let last = recordings.iter().map(|r| r.used).max()?;
        let before = recordings.iter().filter(|r| r.used < last && !r.own.is_empty()).max_by_key(|r| r.used)?;
        self.take_blocks_or_like(&before.own).ok()
    }

    /// A plain run that sees whether it could be recorded.
    fn watch(&self, run: &Run<'_>, steps: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        NOW.set(Some(Watch::default()));
        let done = steps();
        let seen = NOW.take().unwrap_or_default();
        if let Some(known) = self.graphs().plans.get_mut(&run.plan) {
            known.fits = done.is_ok() && !seen.host && seen.launches >= LEAST;
        }
        done
    }

    /// Records the steps and runs what was recorded.
    fn record(&self, run: &Run<'_>, steps: &mut dyn FnMut() -> Result<()>) -> Result<Recording> {
        let c = &self.context;
        let d = c.driver;
        // Nobody else may use the stream while it records.
        let _alone = self.stream_alone();
        NOW.set(Some(Watch { recording: true, ..Watch::default() }));
        // SAFETY: the stream is alive; each begin has its end below.
        let begun =
            d.check(unsafe { (d.stream_begin_capture)(c.stream, driver::CAPTURE_RELAXED) }, "cuStreamBeginCapture");
        let done = begun.and_then(|()| {
            let done = steps();
            let mut graph = std::ptr::null_mut();
            // SAFETY: as above.
            let ended = d.check(unsafe { (d.stream_end_capture)(c.stream, &mut graph) }, "cuStreamEndCapture");
            done.and(ended).map(|()| graph)
        });
        let seen = NOW.take().unwrap_or_default();
        let graph = done?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph was recorded above, and lives as long as its instance: patches name its nodes.
        unsafe {
            d.check((d.graph_instantiate)(&mut exec, graph, 0), "cuGraphInstantiate")?;
            d.check((d.graph_launch)(exec, c.stream), "cuGraphLaunch")?;
        }
        Ok(Recording {
            addresses: run.addresses.to_vec(),
            own: vec![],
            scalars: run.scalars.to_vec(),
            graph,
            exec,
            nodes: seen.nodes,
            scratch: seen.scratch,
            used: 0,
        })
    }

    fn replay(&self, r: &mut Recording, run: &Run<'_>) -> Result<()> {
        let c = &self.context;
        c.enter()?;
        let d = c.driver;
        if r.scalars != run.scalars {
            let mut pointers: Vec<*mut c_void> = vec![];
            let mut known: Option<(usize, Vec<Scalar>)> = None;
            for node in &mut r.nodes {
                // The launches of one kernel follow each other.
                let (_, params) = match known.take().filter(|k| k.0 == node.nth) {
                    Some(k) => known.insert(k),
                    None => known.insert((node.nth, (run.params)(node.nth))),
                };
                if *params == node.params {
                    continue;
                }
                node.numbers.write(&mut node.arguments, params);
                node.arguments.pointers(&node.bindings, &mut pointers);
                let new = KernelNodeParams {
                    func: node.function,
                    grid: [node.grid, 1, 1],
                    block: [node.block, 1, 1],
                    shared: node.shared,
                    params: pointers.as_mut_ptr(),
                    extra: std::ptr::null_mut(),
                    kernel: std::ptr::null_mut(),
                    ctx: std::ptr::null_mut(),
                };
                // SAFETY: the node belongs to this instance, and the parameters are those it was recorded with but for
                // numbers.
                let code = unsafe { (d.graph_exec_kernel_node_set_params)(r.exec, node.handle, &new) };
                d.check(code, "cuGraphExecKernelNodeSetParams")?;
                node.params.clone_from(params);
            }
            r.scalars = run.scalars.to_vec();
        }
        let _shared = self.stream_shared();
        // SAFETY: the instance is alive, and its buffers are those of this run.
        d.check(unsafe { (d.graph_launch)(r.exec, c.stream) }, "cuGraphLaunch")
    }

    fn forget(&self, r: Recording) {
        // SAFETY: nobody else holds the instance; the driver keeps it until its last launch is over.
        unsafe {
            (self.context.driver.graph_exec_destroy)(r.exec);
            (self.context.driver.graph_destroy)(r.graph);
        }
        r.scratch.into_iter().for_each(|(raw, _)| self.give_scratch(raw));
    }
}

/// Whether plans are recorded: `GRADUS_CUDA_GRAPHS=0` says no.
fn graphs_wanted() -> bool {
    static WANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WANTED.get_or_init(|| std::env::var("GRADUS_CUDA_GRAPHS").map_or(true, |v| v != "0"))
}
