//! Accurate double-precision functions.
//!
//! Special functions the standard library lacks, to about 1e-14 relative error where the
//! conditioning of the function allows it, and a few helpers with the semantics of Python.

mod arc;
mod bessel;
mod bits;
pub mod coefficients;
mod elementary;
mod erf;
mod exp;
mod gamma;
mod gamma_coefficients;
mod hyperbolic;
mod igamma;
mod log;
mod modulo;
mod normal;
mod polygamma;
mod pow;
mod root;
mod trig;
mod zeta;

pub use arc::{acos, asin, atan, atan2};
pub use bessel::{bessel_j0, bessel_j1, bessel_y0, bessel_y1, i0, i0e, i1, i1e};
pub use bits::{frexp, ldexp, nextafter, nextafter32};
pub use elementary::{entr, heaviside, logaddexp, logaddexp2, sigmoid, sinc, softplus, xlog1py, xlogy};
pub use erf::{erf, erfc, erfcx, erfinv};
pub use exp::{exp, exp2, expm1, tanh};
pub use gamma::{gamma, lgamma, lgamma_positive, mvlgamma};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use igamma::{igamma, igammac};
pub use log::{ln, log1p, log2, log10};
pub use modulo::{fmod, fmod_near, gcd, is_near, lcm, remainder, round_half_even};
pub use normal::{log_ndtr, ndtr, ndtri};
pub use polygamma::{digamma, digamma_positive, polygamma, trigamma};
pub use pow::pow;
pub use root::hypot;
pub use trig::{cos_near, is_small_angle, sin_near, tan_near};
pub use zeta::{riemann_zeta, zeta};
