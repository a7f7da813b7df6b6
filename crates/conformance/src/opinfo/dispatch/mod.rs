//! From a sample's operator name and arguments to calls of gradus's public API, one file a family.

mod conv;
mod create;
mod elementwise;
mod index;
mod linalg;
mod movement;
mod mt19937;
mod nn;
mod nn_loss;
mod reduce;
mod shapes;

use super::{Args, OpError};
use gradus_core::Tensor;

/// What a family answers: `None` where it has no such operator.
pub type Answer = Option<Result<Vec<Tensor>, OpError>>;

/// Asks each family in turn.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    let families = [
        elementwise::call,
        reduce::call,
        movement::call,
        index::call,
        linalg::call,
        conv::call,
        nn::call,
        create::call,
    ];
    families.iter().find_map(|family| family(op, a))
}
