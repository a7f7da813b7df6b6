//! One operation in the graph.

use super::{Tensor, Value};
use crate::{DType, Device, Shape, grad::Hook, op::Op, replay};
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    panic::Location,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// The tensors a node reads.
pub type Inputs = SmallVec<[Tensor; 2]>;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The number of nodes alive in this process (a leak shows here).
pub fn live_nodes() -> usize {
    LIVE.load(Relaxed)
}

/// An operation, its inputs, and what it makes.
pub struct Node {
    /// Unique in this process, and larger than the ids of its inputs.
    pub id: u64,
    /// What is done.
    pub op: Op,
    /// Extents of the result.
    pub shape: Shape,
    /// Element type of the result.
    pub dtype: DType,
    /// Where it is computed and kept.
    pub device: Device,
    /// The line of the user's program.
    pub location: &'static Location<'static>,
    /// Whether gradients flow through it.
    pub requires_grad: bool,
    /// Set once a backward pass went through, and from the start for what backward passes make: intermediate values
    /// need not be kept for another.
    pub(crate) differentiated: AtomicBool,
    pub(crate) hooks: OnceLock<Box<Mutex<Vec<Hook>>>>,
    /// Which walk came by last, and as which of its nodes: see [`super::Walk`].
    pub(super) mark: AtomicU64,
    state: Mutex<State>,
}

struct State {
    inputs: Inputs,
    /// Shared, because nodes are many and most of them never have one.
    value: Option<Arc<Value>>,
}

impl Node {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        op: Op,
        inputs: Inputs,
        shape: Shape,
        dtype: DType,
        device: Device,
        requires_grad: bool,
        value: Option<Value>,
        location: &'static Location<'static>,
    ) -> Arc<Node> {
        LIVE.fetch_add(1, Relaxed);
        let id = NEXT_ID.fetch_add(1, Relaxed);
        replay::made(id, &op);
        Arc::new(Node {
            id,
            op,
            shape,
            dtype,
            device,
            location: super::shown_line(location),
            requires_grad,
            differentiated: AtomicBool::new(super::in_backward()),
            hooks: OnceLock::new(),
            mark: AtomicU64::new(0),
            state: Mutex::new(State { inputs, value: value.map(Arc::new) }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, so a poisoned lock still guards whole data.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The inputs; empty once the node has let them go.
    pub fn inputs(&self) -> Inputs {
        self.state().inputs.clone()
    }

    /// Calls `f` with the inputs and whether the node has a value, without cloning either.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&[Tensor], Option<&Arc<Value>>) -> R) -> R {
        let s = self.state();
        f(&s.inputs, s.value.as_ref())
    }

    /// The value, if it has been computed.
    pub fn value(&self) -> Option<Value> {
        self.state().value.as_deref().cloned()
    }

    /// Whether it has been computed.
    pub fn has_value(&self) -> bool {
        self.state().value.is_some()
    }

    /// The value, where nobody else holds the node or the value.
    pub(crate) fn own_value(&mut self) -> Option<&mut Value> {
        Arc::get_mut(self.state.get_mut().unwrap_or_else(|e| e.into_inner()).value.as_mut()?)
    }

    /// Stores the value; with no gradient to come, the inputs are let go.
    pub(crate) fn set_value(&self, value: Value) {
        let released = {
            let mut s = self.state();
            if s.value.is_none() {
                s.value = Some(Arc::new(value));
            }
            if self.requires_grad && !matches!(self.op, Op::Snapshot(_)) {
                Inputs::new()
            } else {
                std::mem::take(&mut s.inputs)
            }
        };
        drop(released); // outside the lock: this may drop a whole graph
    }
}

thread_local! {
    /// Inputs of nodes that are going, and whether a drop is under way on this thread.
    static GOING: RefCell<(Vec<Tensor>, bool)> = const { RefCell::new((Vec::new(), false)) };
}

impl Drop for Node {
    /// A loop, not recursion: each node that goes leaves its inputs in a queue, and the outermost drop empties it. A rule
    /// that owns tensors (a checkpoint, a closure) may drop nodes inside: they queue up as well.
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Relaxed);
        let inputs = std::mem::take(&mut self.state.get_mut().unwrap_or_else(|e| e.into_inner()).inputs);
        // Those that others hold as well do not go; one may be an input twice.
        if inputs.iter().all(|t| Arc::strong_count(&t.0) > inputs.len()) && !matches!(self.op, Op::WithVjp(_)) {
            return;
        }
        let outermost = GOING.with(|going| {
            let mut going = going.borrow_mut();
            let outermost = !std::mem::replace(&mut going.1, true);
            going.0.extend(inputs);
            outermost
        });
        if outermost {
            while let Some(t) = GOING.with(|going| going.borrow_mut().0.pop()) {
                drop(t);
            }
            // The list stays, unless a large graph has gone.
            GOING.with(|going| {
                let mut going = going.borrow_mut();
                going.0.shrink_to(1 << 10);
                going.1 = false;
            });
        }
    }
}
