//! Variables: named cells whose content changes between graphs, never under one.

use super::{Buffer, Tensor};
use crate::View;
use std::{
    cell::RefCell,
    sync::{
        Arc, RwLock, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
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
    /// Whether what it holds is being written where it lies.
    lent: AtomicBool,
}

impl VarCell {
    pub(crate) fn fresh_id() -> VarId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        VarId(NEXT.fetch_add(1, Relaxed))
    }

    pub(crate) fn new(id: VarId, name: Option<String>, snapshot: Tensor) -> VarCell {
        VarCell { id, name, current: RwLock::new(snapshot), lent: AtomicBool::new(false) }
    }

    /// The snapshot that operations built now will read.
    pub fn current(&self) -> Tensor {
        self.look(Tensor::clone)
    }

    /// Calls `f` with the snapshot, without another handle to it.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&Tensor) -> R) -> R {
        loop {
            let held = self.current.read().unwrap_or_else(|e| e.into_inner());
            if !self.lent.load(Acquire) {
                return f(&held);
            }
            drop(held);
            // Another thread writes it, which does not take long.
            std::thread::yield_now();
        }
    }

    /// The memory of what it holds, to be written in place: only where nobody else can see it. Readers wait until
    /// [`VarCell::returned`].
    pub(crate) fn lend(&self) -> Option<(Arc<Buffer>, isize)> {
        let mut held = self.current.write().unwrap_or_else(|e| e.into_inner());
        if self.lent.load(Acquire) {
            return None;
        }
        let value = Arc::get_mut(&mut held.0)?.own_value()?;
        Arc::get_mut(&mut value.buffer)?;
        self.lent.store(true, Release);
        Some((value.buffer.clone(), value.view.offset))
    }

    /// Ends what [`VarCell::lend`] began.
    pub(crate) fn returned(&self) {
        self.lent.store(false, Release);
    }

    /// Gives it another buffer under this view; the one before comes back. None, and the buffer unused, if somebody else
    /// holds the snapshot.
    pub(crate) fn exchange(&self, buffer: &Arc<Buffer>, view: &View) -> Option<Arc<Buffer>> {
        let mut held = self.current.write().unwrap_or_else(|e| e.into_inner());
        let value = Arc::get_mut(&mut held.0)?.own_value()?;
        value.view.clone_from(view);
        Some(std::mem::replace(&mut value.buffer, buffer.clone()))
    }

    pub(crate) fn replace(&self, snapshot: Tensor) {
        let old = std::mem::replace(&mut *self.current.write().unwrap_or_else(|e| e.into_inner()), snapshot);
        drop(old);
    }
}
