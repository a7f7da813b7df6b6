//! Variables: named cells whose content changes between graphs, never under one.

use super::Tensor;
use std::sync::{
    RwLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

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
