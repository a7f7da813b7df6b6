//! Elementary and special functions for gradus.
//!
//! The crate knows nothing of tensors: every item is a plain function on
//! scalars (or, for the `*_block` functions, on slices).
//!
//! * [`mod@f32`] holds branch-free single-precision functions. They are all
//!   `#[inline(always)]` and use only arithmetic, fused multiply-add, bit
//!   casts and selects, so a loop that calls them is vectorised by LLVM with
//!   the features of the function the loop stands in. Compile the loop in a
//!   `#[target_feature(enable = "avx2,fma")]` (or AVX-512) function: without
//!   FMA the fused multiply-adds become library calls.
//! * [`mod@f64`] holds accurate double-precision functions, among them the
//!   special functions the standard library lacks.
//!
//! ```
//! let y: Vec<f32> = [-1.0, 0.0, 1.0].map(gradus_math::f32::sigmoid).to_vec();
//! assert_eq!(y[1], 0.5);
//! assert!((gradus_math::f64::digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-15);
//! ```

/// Horner evaluation `c0 + x*(c1 + x*(c2 + ...))` with fused multiply-add.
macro_rules! poly {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => { $x.mul_add(poly!($x; $($rest),+), $c) };
}

pub mod block;
pub mod f32;
pub mod f64;
