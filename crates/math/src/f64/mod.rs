//! Accurate double-precision functions.
//!
//! Special functions the standard library lacks, to about 1e-14 relative error where the
//! conditioning of the function allows it, and a few helpers with the semantics of Python.

mod bessel;
mod bits;
pub mod coefficients;
mod elementary;
mod erf;
mod exp;
mod gamma;
mod igamma;
mod log;
mod modulo;
mod normal;
mod polygamma;
mod trig;
mod zeta;

pub use bessel::{bessel_j0, bessel_j1, bessel_y0, bessel_y1, i0, i0e, i1, i1e};
pub use bits::{frexp, ldexp, nextafter, nextafter32};
pub use elementary::{entr, heaviside, logaddexp, logaddexp2, sigmoid, sinc, softplus, xlog1py, xlogy};
pub use erf::{erf, erfc, erfcx, erfinv};
pub use exp::{exp, expm1, tanh};
pub use gamma::{gamma, lgamma, mvlgamma};
pub use igamma::{igamma, igammac};
pub use log::{ln, log1p};
pub use modulo::{fmod, gcd, lcm, remainder, round_half_even};
pub use normal::{log_ndtr, ndtr, ndtri};
pub use polygamma::{digamma, polygamma, trigamma};
pub use trig::{cos_near, is_small_angle, sin_near};
pub use zeta::{riemann_zeta, zeta};
