//! Branch-free single-precision functions that vectorise when inlined.
//!
//! Every function is right for all of `f32`: subnormals, signed zeros,
//! infinities and NaN included. The documentation of each states its largest
//! error in ULP (units in the last place of the correctly rounded result),
//! which the crate's tests check over a sweep of the bit patterns.
//!
//! `exp`, `exp2`, `expm1`, `ln`, `log1p`, `softplus`, `tanh`, `sigmoid`, `erf`, [`sin_small`] and
//! [`cos_small`] compute in `f32` only. The others go through `f64` for part of
//! the way, which vectorises at half the width.

mod arc;
mod bessel;
pub mod coefficients;
mod erf;
mod exp;
mod hyperbolic;
pub(crate) mod igamma;
mod kernel64;
mod log;
mod modulo;
pub mod parts;
mod pow;
mod reduce;
mod root;
mod special;
mod trig;

pub use arc::{acos, asin, atan, atan2};
pub use bessel::{i0, i0e, i1, i1e};
pub use erf::{erf, erfc, erfinv, erfinv_middle};
pub use exp::{exp, exp2, expm1, sigmoid, softplus};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use igamma::{igamma, igammac};
pub use log::{ln, log1p, log2, log10};
pub use modulo::{fmod_near, is_near, is_short, quotient};
pub use pow::pow;
pub use root::{cbrt, hypot, recip, rsqrt, sqrt};
pub use special::{
    digamma, digamma_positive, entr, erfcx, lgamma, lgamma_positive, log_ndtr, logaddexp, logaddexp2, ndtri, sinc,
    trigamma, xlog1py, xlogy,
};
pub use trig::{SMALL_ANGLE, cos, cos_block, cos_small, sin, sin_block, sin_small, tan, tan_small};
