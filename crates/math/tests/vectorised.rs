//! The vectorised loops give the same bits as the scalar calls.
#![cfg(target_arch = "x86_64")]

use gradus_math::f32 as m;

macro_rules! agree {
    ($($f:ident),*) => {$({
        #[target_feature(enable = "avx2,fma")]
        fn with_fma(x: &[f32], out: &mut [f32]) {
            for (o, &v) in out.iter_mut().zip(x) {
                *o = m::$f(v);
            }
        }
        let x: Vec<f32> = (0..=u32::MAX).step_by(65_521).map(f32::from_bits).collect();
        let mut y = vec![0.0; x.len()];
        // SAFETY: the caller checked for AVX2 and FMA.
        unsafe { with_fma(&x, &mut y) };
        for (&x, &y) in x.iter().zip(&y) {
            let z = m::$f(std::hint::black_box(x));
            let same = y.to_bits() == z.to_bits() || y.is_nan() && z.is_nan();
            assert!(same, "{}({x:e}): {y:e} in a loop, {z:e} alone", stringify!($f));
        }
    })*};
}

#[test]
fn same_bits() {
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return;
    }
    agree!(exp, exp2, expm1, sigmoid, softplus, ln, log2, log10, log1p, sin, cos, tan, sin_small, cos_small);
    agree!(sinh, cosh, tanh, asinh, acosh, atanh, asin, acos, atan, cbrt, rsqrt, erf, erfc, erfinv);
    agree!(lgamma, digamma, erfcx, log_ndtr, ndtri, sinc, entr, i0, i0e, i1, i1e);
}
