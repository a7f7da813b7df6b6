//! Automatic differentiation of plain `f64` arithmetic.
//!
//! Write a formula with [`Value`]s in place of numbers, and ask it for its derivatives:
//!
//! ```
//! use gradus_scalar::var;
//!
//! let (x, y) = (var("x", 2.0), var("y", 3.0));
//! let z = &x * &y + x.sin();
//!
//! let grads = z.backward();
//! assert!((grads.wrt(&x).unwrap() - (3.0 + 2f64.cos())).abs() < 1e-12); // dz/dx = y + cos x
//! assert_eq!(grads.wrt(&y), Some(2.0)); //                                 dz/dy = x
//! ```
//!
//! # How it works
//!
//! Each operation computes its number at once and also writes down, in one *node*, what it did: the
//! operation and which nodes it took its operands from. A formula is thus a graph, from the variables at the
//! bottom to the result at the top:
//!
//! ```
//! # use gradus_scalar::var;
//! # let (x, y) = (var("x", 2.0), var("y", 3.0));
//! # let z = &x * &y + x.sin();
//! assert_eq!(
//!     format!("{:.3}", z.graph()),
//!     "\
//! add = 6.909
//!   mul = 6.000
//!     x #1 = 2.000
//!     y = 3.000
//!   sin = 0.909
//!     x #1 (shown above)
//! "
//! );
//! ```
//!
//! [`Value::backward`] walks that graph once from the top down. It keeps for each node the derivative of the
//! result with respect to that node, starting from `dz/dz = 1`, and hands each operand its share by the chain
//! rule. A node used twice, as `x` is here, adds up the shares of both uses. One walk gives the derivative with
//! respect to *every* node, which is why reverse mode is the one to train models with.
//!
//! # Where to find what
//!
//! | To get | Use |
//! |---|---|
//! | all first derivatives of one result | [`Value::backward`] |
//! | the derivative along one direction | [`Value::jvp`], or [`Dual`] with no graph at all |
//! | derivatives that can be differentiated again | [`Value::grad_graph`] |
//! | all second derivatives | [`Value::hessian`] |
//! | a check on any of these | [`finite_diff_grad`] |
//! | a picture of the graph | [`Value::graph`], [`Value::to_dot`] |
//!
//! # Training
//!
//! Values never change. A training step makes fresh variables from the updated numbers; the old graph is freed
//! as soon as nothing refers to it, so there is nothing to reset between steps:
//!
//! ```
//! use gradus_scalar::var;
//!
//! let mut w = var("w", 0.0);
//! for _ in 0..100 {
//!     let error = &w * 2.0 - 6.0;
//!     let loss = &error * &error;
//!     w = var("w", w.value() - 0.05 * loss.backward().wrt(&w).unwrap());
//! }
//! assert!((w.value() - 3.0).abs() < 1e-9);
//! assert_eq!(gradus_scalar::live_nodes(), 1); // only `w` is left
//! ```
//!
//! # Where functions have a corner
//!
//! As in PyTorch: `relu` and `abs` have derivative 0 at 0, and a tie in `max` or `min` gives each side half.

#![forbid(unsafe_code)]

mod bits;
mod check;
mod forward;
mod gradients;
mod math;
mod names;
mod op;
mod print;
mod rules;
mod second;
mod slots;
mod tape;
mod value;

pub use check::finite_diff_grad;
pub use forward::Dual;
pub use gradients::{Gradients, NameError};
pub use print::Graph;
pub use value::{Value, constant, live_nodes, var};
