//! Blocks of this crate's functions, compiled here once. They call their function by name, so that it is inlined
//! into each version whatever its size (a function passed as a value may not be, and then its fused multiply-adds become
//! calls of a library).

macro_rules! versions_of {
    ($all:ident) => {{
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))]
        unsafe fn wide(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { $all(dst, src, n) }
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
        unsafe fn middle(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { $all(dst, src, n) }
        }
        unsafe fn base(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the same contract.
            unsafe { $all(dst, src, n) }
        }
        Block { avx512: wide, avx2: middle, base }
    }};
}

/// `NAME: type = function(operand number, ...)`.
macro_rules! prepared {
    ($($name:ident: $t:ident = $f:path, $($x:ident $k:tt)*;)*) => {$(
        #[doc = concat!("[`", stringify!($f), "`] over a block.")]
        pub const $name: Block = {
            #[inline(always)]
            unsafe fn all(dst: *mut u8, src: [*const u8; 3], n: usize) {
                // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
                unsafe {
                    let d = std::slice::from_raw_parts_mut(dst.cast::<$t>(), n);
                    $(let $x = std::slice::from_raw_parts(src[$k].cast::<$t>(), n);)*
                    for i in 0..n {
                        d[i] = $f($($x[i]),*);
                    }
                }
            }
            versions_of!(all)
        };
    )*};
}

/// As `prepared!`, for a function that has a shorter form (with the same bits) for most numbers: that one runs over groups
/// in which all numbers are such.
macro_rules! staged {
    ($($name:ident: $t:ident = $fits:expr, $short:path, $f:path;)*) => {$(
        #[doc = concat!("[`", stringify!($f), "`] over a block.")]
        pub const $name: Block = {
            #[inline(always)]
            fn group(d: &mut [$t], x: &[$t]) {
                let x = &x[..d.len()];
                let mut all = true;
                for i in 0..d.len() {
                    all &= $fits(x[i]);
                }
                if all {
                    for i in 0..d.len() {
                        d[i] = $short(x[i]);
                    }
                } else {
                    for i in 0..d.len() {
                        d[i] = $f(x[i]);
                    }
                }
            }
            #[inline(always)]
            unsafe fn all(dst: *mut u8, src: [*const u8; 3], n: usize) {
                // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
                let (d, x) = unsafe {
                    (std::slice::from_raw_parts_mut(dst.cast::<$t>(), n), std::slice::from_raw_parts(src[0].cast::<$t>(), n))
                };
                for (d, x) in d.chunks_mut(super::super::GUARDED).zip(x.chunks(super::super::GUARDED)) {
                    group(d, x);
                }
            }
            versions_of!(all)
        };
    )*};
}

/// As `prepared!`, for a function of two numbers that is computed for a few pairs at a time: those that are missing are
/// ones.
macro_rules! together {
    ($($name:ident = $several:path, $of:path, $count:expr;)*) => {$(
        #[doc = concat!("[`", stringify!($of), "`] over a block.")]
        pub const $name: Block = {
            #[inline(always)]
            unsafe fn all(dst: *mut u8, src: [*const u8; 3], n: usize) {
                // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
                let (d, x, y) = unsafe {
                    (
                        std::slice::from_raw_parts_mut(dst.cast::<f32>(), n),
                        std::slice::from_raw_parts(src[0].cast::<f32>(), n),
                        std::slice::from_raw_parts(src[1].cast::<f32>(), n),
                    )
                };
                for ((d, x), y) in d.chunks_mut($count).zip(x.chunks($count)).zip(y.chunks($count)) {
                    let (mut p, mut q) = ([1.0; $count], [1.0; $count]);
                    p[..x.len()].copy_from_slice(x);
                    q[..y.len()].copy_from_slice(y);
                    d.copy_from_slice(&$several(&p, &q)[..d.len()]);
                }
            }
            versions_of!(all)
        };
    )*};
}

/// Blocks of [`crate::f32`].
pub mod f32 {
    use super::super::Block;
    pub use super::super::parts::{ERF, TANH};
    use crate::f32 as m;

    prepared! {
        EXP: f32 = m::exp, x 0;
        EXP2: f32 = m::exp2, x 0;
        EXPM1: f32 = m::expm1, x 0;
        LN: f32 = m::ln, x 0;
        LOG2: f32 = m::log2, x 0;
        LOG10: f32 = m::log10, x 0;
        LOG1P: f32 = m::log1p, x 0;
        SINH: f32 = m::sinh, x 0;
        COSH: f32 = m::cosh, x 0;
        ASIN: f32 = m::asin, x 0;
        ACOS: f32 = m::acos, x 0;
        ATAN: f32 = m::atan, x 0;
        ASINH: f32 = m::asinh, x 0;
        ACOSH: f32 = m::acosh, x 0;
        ATANH: f32 = m::atanh, x 0;
        SIGMOID: f32 = m::sigmoid, x 0;
        SOFTPLUS: f32 = m::softplus, x 0;
        ERFC: f32 = m::erfc, x 0;
        ERFCX: f32 = m::erfcx, x 0;
        LOG_NDTR: f32 = m::log_ndtr, x 0;
        NDTRI: f32 = m::ndtri, x 0;
        I0: f32 = m::i0, x 0;
        I0E: f32 = m::i0e, x 0;
        I1: f32 = m::i1, x 0;
        I1E: f32 = m::i1e, x 0;
        SINC: f32 = m::sinc, x 0;
        TRIGAMMA: f32 = m::trigamma, x 0;
        ENTR: f32 = m::entr, x 0;
        POW: f32 = m::pow, x 0 y 1;
        ATAN2: f32 = m::atan2, x 0 y 1;
        HYPOT: f32 = m::hypot, x 0 y 1;
        XLOGY: f32 = m::xlogy, x 0 y 1;
        XLOG1PY: f32 = m::xlog1py, x 0 y 1;
        LOGADDEXP: f32 = m::logaddexp, x 0 y 1;
        LOGADDEXP2: f32 = m::logaddexp2, x 0 y 1;
        NEXTAFTER: f32 = crate::f64::nextafter32, x 0 y 1;
    }
    staged! {
        SIN: f32 = |x: f32| x.abs() <= m::SMALL_ANGLE, m::sin_small, m::sin;
        COS: f32 = |x: f32| x.abs() <= m::SMALL_ANGLE, m::cos_small, m::cos;
        TAN: f32 = |x: f32| x.abs() <= m::SMALL_ANGLE, m::tan_small, m::tan;
        ERFINV: f32 = |x: f32| x.abs() <= 0.9975, m::erfinv_middle, m::erfinv;
        LGAMMA: f32 = |x: f32| x >= 0.0, m::lgamma_positive, m::lgamma;
        DIGAMMA: f32 = |x: f32| x > 0.0, m::digamma_positive, m::digamma;
    }
    together! {
        IGAMMA = m::igamma::igamma_of, m::igamma, m::igamma::TOGETHER;
        IGAMMAC = m::igamma::igammac_of, m::igammac, m::igamma::TOGETHER;
    }
}

/// Blocks of [`crate::f64`].
pub mod f64 {
    use super::super::Block;
    use crate::f64 as m;

    prepared! {
        EXP: f64 = m::exp, x 0;
        EXP2: f64 = m::exp2, x 0;
        EXPM1: f64 = m::expm1, x 0;
        LN: f64 = m::ln, x 0;
        LOG2: f64 = m::log2, x 0;
        LOG10: f64 = m::log10, x 0;
        LOG1P: f64 = m::log1p, x 0;
        SINH: f64 = m::sinh, x 0;
        COSH: f64 = m::cosh, x 0;
        TANH: f64 = m::tanh, x 0;
        ASIN: f64 = m::asin, x 0;
        ACOS: f64 = m::acos, x 0;
        ATAN: f64 = m::atan, x 0;
        ASINH: f64 = m::asinh, x 0;
        ACOSH: f64 = m::acosh, x 0;
        ATANH: f64 = m::atanh, x 0;
        SIGMOID: f64 = m::sigmoid, x 0;
        SOFTPLUS: f64 = m::softplus, x 0;
        ERF: f64 = m::erf, x 0;
        ERFC: f64 = m::erfc, x 0;
        ERFINV: f64 = m::erfinv, x 0;
        ERFCX: f64 = m::erfcx, x 0;
        LOG_NDTR: f64 = m::log_ndtr, x 0;
        NDTRI: f64 = m::ndtri, x 0;
        SINC: f64 = m::sinc, x 0;
        TRIGAMMA: f64 = m::trigamma, x 0;
        ENTR: f64 = m::entr, x 0;
        POW: f64 = m::pow, x 0 y 1;
        ATAN2: f64 = m::atan2, x 0 y 1;
        HYPOT: f64 = m::hypot, x 0 y 1;
        XLOGY: f64 = m::xlogy, x 0 y 1;
        XLOG1PY: f64 = m::xlog1py, x 0 y 1;
        LOGADDEXP: f64 = m::logaddexp, x 0 y 1;
        LOGADDEXP2: f64 = m::logaddexp2, x 0 y 1;
        NEXTAFTER: f64 = m::nextafter, x 0 y 1;
    }
    staged! {
        LGAMMA: f64 = |x: f64| x >= 0.0, m::lgamma_positive, m::lgamma;
        DIGAMMA: f64 = |x: f64| x > 0.0, m::digamma_positive, m::digamma;
    }
}
