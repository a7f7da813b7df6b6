//! The plan: from the part of the graph that is wanted and not yet computed to a short list of kernels.
//!
//! 1. `linear` walks the graph once, in order, and takes a hash of its *structure*: operations, shapes, types, strides,
//!    and who is wanted. Values are not part of it: buffers, their offsets, scalars and random seeds are arguments.
//! 2. `cache` looks the hash up. A training step is planned once and replayed after that.
//!    `expand` then puts what functions are made of in the place of those that are one node.
//! 3. `lower` turns nodes into *items* (`items`): views become strides on the edges, aliases vanish, equal items become one.
//!    `pooling` puts rectifiers behind the poolings that read them.
//! 4. `fuse` puts items into groups, each of which becomes one kernel.
//! 5. `recompute` lets groups compute again what would cost more to store.
//!    `epilogue` then puts what is left of a bias and a rectifier into the product or the convolution before it.
//!    `schedule` puts the groups in order.
//! 6. `codegen` writes the kernel of each group.
//! 7. `batch` puts kernels of one body, such as the updates of all parameters, into one launch.
//! 8. `in_place` lets results be written over operands that nobody reads after, and `memory` lays intermediate buffers
//!    into one arena, by lifetime.
//! 9. `run` executes the steps and gives the nodes their values.

mod batch;
mod cache;
mod codegen;
mod epilogue;
mod expand;
mod explain;
mod fuse;
mod in_place;
mod items;
mod linear;
mod lower;
mod memory;
mod moved;
mod pooling;
mod profile;
mod recompute;
mod run;
mod schedule;
mod steps;

pub use cache::plans_made;
pub use explain::{Explanation, StepInfo};
pub use profile::{Profile, profile};
pub use run::{kernel_launches, realize};
pub use steps::{Part, Plan, Step};

pub(crate) use cache::plan_for;
pub(crate) use explain::explain;
pub(crate) use linear::Linear;
pub(crate) use run::{Call, Lines, Scratch, settle};
pub(crate) use steps::{Home, Ref};
