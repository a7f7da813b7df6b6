//! What happens on this thread while a function is recorded.

use super::Note;
use crate::{
    Tensor,
    graph::{Buffer, VarCell},
    op::Op,
    plan::{Linear, Lines, Plan},
};
use std::{
    cell::{Cell, RefCell},
    panic::Location,
    sync::Arc,
};

/// Operations and lines of a graph's nodes, without the graph.
pub type Named = Vec<(String, &'static Location<'static>)>;

impl Lines for Named {
    fn line(&self, node: usize) -> (&str, &'static Location<'static>) {
        let (name, at) = &self[node];
        (name, at)
    }
}

/// One run of a plan.
pub struct Ran {
    pub plan: Arc<Plan>,
    pub graph: Linear,
    /// As they were bound, by number. Held, so that no other buffer gets their place while the recording goes on.
    pub buffers: Vec<(Arc<Buffer>, isize)>,
}

impl Ran {
    /// Nodes of numbers, and which scalar each is.
    pub fn numbers(&self) -> impl Iterator<Item = (u64, usize)> {
        let numbers = self.graph.nodes.iter().filter(|n| n.value.is_none());
        numbers.filter(|n| matches!(n.tensor.node().op, Op::Scalar(_))).map(|n| (n.tensor.id(), n.scalar))
    }

    /// Random tensors: the scalar that is the seed (the stream is the next), and both.
    pub fn draws(&self) -> impl Iterator<Item = (usize, (u64, u64))> {
        self.graph.nodes.iter().filter(|n| n.value.is_none()).filter_map(|n| match n.tensor.node().op {
            Op::Rand { seed, stream } => Some((n.scalar, (seed, stream))),
            _ => None,
        })
    }

    /// What errors and profiles say of its nodes.
    pub fn lines(&self) -> Named {
        let at = |n: usize| self.graph.nodes[n].tensor.location();
        let own = self.graph.nodes.iter().map(|n| (n.tensor.op_name().to_string(), n.tensor.location()));
        own.chain(self.plan.inner.iter().map(|(name, call)| (name.clone(), at(*call)))).collect()
    }
}

/// All that happened.
#[derive(Default)]
pub struct Tape {
    pub runs: Vec<Ran>,
    /// Variables that were read, with what they held at first.
    pub reads: Vec<(Arc<VarCell>, Tensor)>,
    /// Variables that were set, and to what, in order.
    pub sets: Vec<(Arc<VarCell>, Tensor)>,
    /// Random streams that were drawn, in order.
    pub draws: Vec<(u64, u64)>,
    /// What others did, with the nodes of the numbers they made: one list a number.
    pub notes: Vec<(Note, Vec<Vec<u64>>)>,
    /// Why nothing can be made of this call, if so; another may do.
    pub shared: Option<String>,
    /// Why it cannot be done again without the function, if so.
    pub spoiled: Option<String>,
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static TAPE: RefCell<Tape> = RefCell::default();
}

/// Whether this thread records.
pub fn recording() -> bool {
    ON.get()
}

fn tape(f: impl FnOnce(&mut Tape)) {
    if ON.get() {
        TAPE.with_borrow_mut(f);
    }
}

/// Runs `f` and gives what happened in it.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Tape) {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            ON.set(false);
        }
    }
    drop(TAPE.take());
    ON.set(true);
    let stop = Stop;
    let out = f();
    drop(stop);
    (out, TAPE.take())
}

/// Notes that what happens here cannot be done again without the function.
pub(crate) fn spoil(why: &str, at: &'static Location<'static>) {
    tape(|t| {
        t.spoiled.get_or_insert_with(|| format!("{why} ({}:{})", at.file(), at.line()));
    });
}

/// Says that what happens here cannot be replayed: a function that is being recorded will run every time.
#[track_caller]
pub fn unreplayable(why: &str) {
    spoil(why, Location::caller());
}

/// Notes what a part of the function did beside making nodes, with the nodes of its numbers: for each number that
/// [`super::Replay::numbers`] will give, those it stands in.
pub fn note(note: Note, numbers: Vec<Vec<u64>>) {
    tape(|t| t.notes.push((note, numbers)));
}

/// Notes that a variable is read.
pub(crate) fn read(cell: &Arc<VarCell>, held: &Tensor) {
    tape(|t| {
        if !t.reads.iter().any(|(c, _)| c.id == cell.id) && !t.sets.iter().any(|(c, _)| c.id == cell.id) {
            // The cell's handle and this one. Through any other, the function may mean what the variable holds now, not what
            // it will hold in a later call.
            let others = Arc::strong_count(&held.0) > 2
                || held.node().peek(|_, v| v.is_some_and(|v| Arc::strong_count(&v.buffer) > 1));
            if others {
                let name = cell.name.as_deref().unwrap_or("without a name");
                t.shared.get_or_insert_with(|| format!("somebody else holds what the variable {name} holds"));
            }
            t.reads.push((cell.clone(), held.clone()));
        }
    });
}

/// Notes that a variable is set.
pub(crate) fn set(cell: &Arc<VarCell>, to: &Tensor) {
    tape(|t| t.sets.push((cell.clone(), to.clone())));
}

/// Notes that random numbers are drawn.
pub(crate) fn drawn(seed: u64, stream: u64) {
    tape(|t| t.draws.push((seed, stream)));
}

/// Notes that a plan has run.
pub(crate) fn ran(plan: &Arc<Plan>, graph: Linear, buffers: Vec<(Arc<Buffer>, isize)>) {
    if ON.get() {
        tape(|t| t.runs.push(Ran { plan: plan.clone(), graph, buffers }));
    }
}
