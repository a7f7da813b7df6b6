//! The graph: what a tensor *is*.
//!
//! A [`Tensor`] is a handle to an immutable [`Node`]: an operation ([`crate::op::Op`]), the tensors it reads, the shape
//! and type of what it makes, and the line of the user's program that asked for it. Making a node checks shapes and does
//! no arithmetic. Three things happen to a node later, and they are its only state:
//!
//! - it gets a **value** (a view of a buffer), when a plan that needs it runs;
//! - it lets go of its **inputs**, once it has a value and no gradient will ever be asked through it;
//! - it is dropped, by a loop rather than by recursion, so a chain of a million nodes is fine.
//!
//! Variables are the one thing a user updates. A variable handle ([`Tensor::var`]) is a name and a cell; using it in an
//! operation takes a *snapshot* of what the cell holds at that moment, so an update never changes a graph that was
//! built before it.

pub(crate) mod node;
mod scalars;
mod tensor;
mod value;
mod var;
mod walk;

pub use node::{Node, live_nodes};
pub use scalars::share_scalars;
pub(crate) use scalars::shared;
pub use tensor::Tensor;
pub use value::{Buffer, Value, live_bytes};
pub(crate) use var::take_unsettled;
pub use var::{VarCell, VarId};
pub use walk::topological;
pub(crate) use walk::{IdHasher, IdMap, IdSet, Walk};

use std::{cell::Cell, panic::Location};

thread_local! {
    static GRAD_ENABLED: Cell<bool> = const { Cell::new(true) };
    static IN_BACKWARD: Cell<bool> = const { Cell::new(false) };
    static PLAIN: Cell<bool> = const { Cell::new(false) };
    static ON_BEHALF_OF: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// Runs `f`, which makes nodes for the operation at `at`: its gradient. They then show the line of the user's program,
/// not that of a rule.
pub(crate) fn on_behalf_of<R>(at: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<&'static Location<'static>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ON_BEHALF_OF.set(self.0);
        }
    }
    let _restore = Restore(ON_BEHALF_OF.replace(Some(at)));
    f()
}

/// The line to show for a node made at `at`: a rule of this crate works on behalf of another line, a user's own rule
/// speaks for itself.
fn shown_line(at: &'static Location<'static>) -> &'static Location<'static> {
    match ON_BEHALF_OF.get() {
        Some(line) if file!().strip_suffix("graph/mod.rs").is_some_and(|own| at.file().starts_with(own)) => line,
        Some(_) | None => at,
    }
}

/// Whether this thread is making the nodes of a backward pass. A run keeps what a later gradient may read; a gradient of
/// these is rare, and usually asked for before anything has run, so keeping them would cost every training step the
/// memory of all its gradients at once.
fn in_backward() -> bool {
    IN_BACKWARD.get()
}

/// Runs `f`, the work of a backward pass.
pub(crate) fn backward_pass<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_BACKWARD.set(self.0);
        }
    }
    let _restore = Restore(IN_BACKWARD.replace(true));
    f()
}

/// Runs `f`, in which functions made of others are built as such, never as one node: their nodes will be gone over.
pub(crate) fn plainly<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLAIN.set(self.0);
        }
    }
    let _restore = Restore(PLAIN.replace(true));
    f()
}

/// Whether operations on this thread record what a gradient would need.
pub fn is_grad_enabled() -> bool {
    GRAD_ENABLED.get()
}

/// Runs `f` without recording gradients: what it makes counts as constant.
///
/// ```
/// use gradus_core::{no_grad, Tensor};
/// let w = Tensor::var("w", Tensor::from([1.0f32, 2.0]));
/// assert!((&w * 2.0).requires_grad());
/// assert!(!no_grad(|| &w * 2.0).requires_grad());
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_grad(false, f)
}

/// Runs `f` with recording on, also inside [`no_grad`].
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    with_grad(true, f)
}

fn with_grad<R>(on: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            GRAD_ENABLED.set(self.0);
        }
    }
    let _restore = Restore(GRAD_ENABLED.replace(on));
    f()
}
