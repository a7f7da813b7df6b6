//! Variables: named cells whose content changes between graphs, never under one.

use super::Tensor;
use std::{
    cell::RefCell,
    sync::{
        Arc, RwLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

thread_local! {
    /// Variables this thread has given a content that is not computed yet.
    static UNSETTLED: RefCell<Vec<Weak<VarCell>>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a variable's content is still to be computed: the next run does it, whatever it was asked for. So a running
/// mean that nobody reads in training never drags the graphs of all steps behind it.
pub(crate) fn note_unsettled(cell: &Arc<VarCell>) {
    UNSETTLED.with_borrow_mut(|all| {
        if !all.iter().any(|c| std::ptr::eq(c.as_ptr(), Arc::as_ptr(cell))) {
            all.push(Arc::downgrade(cell));
        }
    });
}

/// The contents noted since the last call that are still to be computed.
pub(crate) fn take_unsettled() -> Vec<Tensor> {
    let cells = UNSETTLED.with_borrow_mut(std::mem::take);
    let all = cells.iter().filter_map(Weak::upgrade).map(|c| c.current());
    all.filter(|t| !t.node().has_value()).collect()
}

/// Identifies a variable across its snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u64);

/// The cell behind a variable handle.
pub struct VarCell {
    /// Which variable.
    pub id: VarId,
    /// Its name, if it was given one.
    pub name: Option<String>,
    current: RwLock<Tensor>,
}

impl VarCell {
    pub(crate) fn fresh_id() -> VarId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        VarId(NEXT.fetch_add(1, Relaxed))
    }

    pub(crate) fn new(id: VarId, name: Option<String>, snapshot: Tensor) -> VarCell {
        VarCell { id, name, current: RwLock::new(snapshot) }
    }

    /// The snapshot that operations built now will read.
    pub fn current(&self) -> Tensor {
        self.current.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn replace(&self, snapshot: Tensor) {
        let old = std::mem::replace(&mut *self.current.write().unwrap_or_else(|e| e.into_inner()), snapshot);
        drop(old);
    }
}
