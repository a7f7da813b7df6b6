//! Functions that are made of others, as one node.
//!
//! Softmax is ten operations. Where no gradient will be asked through it, nobody ever reads what is inside: then it is one
//! node, and it becomes what it is made of only when a plan is made (`plan/expand.rs`). Making, hashing and dropping ten
//! nodes costs more than the arithmetic on a few numbers.

use crate::Tensor;
use smallvec::SmallVec;

/// A function made of other operations.
pub struct Composite {
    /// The name errors and graphs show.
    pub name: &'static str,
    /// Builds it over inputs that were checked. It makes no data, draws no random numbers, and what it builds follows from
    /// the shapes and types of the inputs and from the settings.
    pub build: fn(&[Tensor], &[u64]) -> Tensor,
}

/// A function with its settings: axes, and the bits of numbers that are part of what is computed.
#[derive(Clone)]
pub struct Call {
    /// Which function.
    pub of: &'static Composite,
    /// Its settings.
    pub settings: SmallVec<[u64; 2]>,
}
