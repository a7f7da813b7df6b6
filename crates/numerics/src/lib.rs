//! Slice-level numerics for the CPU backend: everything that is not an elementwise loop.
//!
//! The functions take plain slices with sizes (and strides where they help); there is no tensor
//! machinery here. They share three rules:
//!
//! * Sizes are the caller's business and are only asserted. What depends on the *data* (a
//!   singular matrix, an index out of range) comes back as an `Err`.
//! * Results have the same bits for any number of threads: work is split into chunks whose
//!   size does not depend on the pool, and only over independent outputs.
//! * Arrays are row-major. An operation "along an axis" sees its array as `(outer, n, inner)`,
//!   with `n` the axis' length; see [`Lanes`].
//!
//! | module | subject |
//! |---|---|
//! | [`gemm`] | matrix products with arbitrary strides, single and batched |
//! | [`conv`] | 1-, 2- and 3-d convolution and its two gradients |
//! | [`pool`] | maxima and means of windows, and their gradients |
//! | [`resample`] | planes at another size |
//! | [`grid`] | images at given positions, and their gradients |
//! | [`distance`] | distances between rows, and their gradients |
//! | [`border`] | arrays with a border of their own elements |
//! | [`attention`] | attention over tiles of scores, and its gradients |
//! | [`recurrent`] | long short-term memory over a sequence, and its gradient |
//! | [`scan`] | cumulative sum, product, maximum, minimum, log-sum-exp |
//! | [`sort`] | sorting, top-k, order statistics, searching |
//! | [`unique`] | distinct values, non-zero positions, histograms |
//! | [`scatter`] | scatter, gather and row updates with checked indices |
//! | [`linalg`] | factorizations and solvers on batches of matrices |
//! | [`tasks`] | loops over threads that wait awake |
//! | [`strided`] | elements of any layout, in order |
//! | [`transpose`] | copies that exchange axes |
//! | [`copy`] | lines of bytes |
//! | [`chip`] | what is known of the processor |
//! | [`weave`] | arrays whose elements alternate |

/// Runs an expression with a name for the plain type of so many bytes: for copies, which only mind how large an element is.
///
/// ```
/// let size = |bytes: usize| gradus_numerics::by_bytes!(bytes, T => size_of::<T>());
/// assert_eq!([1, 2, 4, 8].map(size), [1, 2, 4, 8]);
/// ```
#[macro_export]
macro_rules! by_bytes {
    ($bytes:expr, $T:ident => $run:expr) => {
        match $bytes {
            1 => {
                type $T = u8;
                $run
            }
            2 => {
                type $T = u16;
                $run
            }
            4 => {
                type $T = u32;
                $run
            }
            _ => {
                type $T = u64;
                $run
            }
        }
    };
}

pub mod attention;
pub mod border;
pub mod chip;
pub mod conv;
pub mod copy;
pub mod distance;
mod element;
mod epilogue;
pub mod gemm;
mod gemv;
pub mod grid;
mod halves;
mod lanes;
pub mod linalg;
pub mod mask;
mod micro;
pub mod pages;
pub mod pool;
pub mod recurrent;
pub mod resample;
pub mod scan;
pub mod scatter;
pub mod scratch;
mod simd;
pub mod sort;
pub mod strided;
pub mod tasks;
pub mod transpose;
pub mod triangle;
pub mod unique;
pub mod weave;

pub use element::{Num, Order, Real};
pub use epilogue::{Activation, Epilogue, Then};
pub use lanes::Lanes;

#[cfg(test)]
mod testing;
