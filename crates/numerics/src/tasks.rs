//! Work over threads whose split does not depend on their number.

use rayon::prelude::*;

/// An output that tasks write disjoint parts of.
pub(crate) struct Shared<T>(*mut T);

// SAFETY: it is only a pointer; those who write through it promise to write disjoint parts.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(x: &mut [T]) -> Self {
        Shared(x.as_mut_ptr())
    }

    /// A pointer to what somebody else borrowed exclusively.
    pub(crate) fn wrap(x: *mut T) -> Self {
        Shared(x)
    }

    pub(crate) fn ptr(&self) -> *mut T {
        self.0
    }
}

/// Runs tasks `0..count`, over threads if `parallel`.
pub(crate) fn for_tasks(count: usize, parallel: bool, task: impl Fn(usize) + Sync + Send) {
    if parallel && count > 1 && rayon::current_num_threads() > 1 {
        (0..count).into_par_iter().with_max_len(1).for_each(task);
    } else {
        (0..count).for_each(task);
    }
}
