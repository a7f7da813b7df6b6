//! Time per element of the single-precision functions over a block that stays in L1.
//!
//! `cargo run --release -p gradus-math --example math_speed`

use std::hint::black_box;
use std::time::Instant;

use gradus_math::f32 as m;

const N: usize = 1024;

/// Runs `f` over a block many times and returns nanoseconds per element, the best of several tries.
#[inline(always)]
fn time(x: &[f32; N], out: &mut [f32; N], f: impl Fn(&[f32; N], &mut [f32; N])) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        let rounds = 200;
        for _ in 0..rounds {
            f(black_box(x), black_box(out));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (rounds * N) as f64);
    }
    best
}

macro_rules! vectorised {
    ($name:ident, $x:ident, $e:expr) => {
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,avx2"))]
        #[inline(never)]
        fn $name(x: &[f32; N], out: &mut [f32; N]) {
            for i in 0..N {
                let $x = x[i];
                out[i] = $e;
            }
        }
    };
}

macro_rules! report {
    ($($f:ident),*) => {$({
        vectorised!(run, v, m::$f(v));
        row(stringify!($f), |x, out| {
            // SAFETY: `main` checked the features.
            unsafe { run(x, out) }
        });
    })*};
}

fn row(name: &str, f: impl Fn(&[f32; N], &mut [f32; N])) {
    let x: [f32; N] = std::array::from_fn(|i| (i as f32 + 0.5) / N as f32 * 0.98);
    let mut out = [0.0; N];
    let ns = time(&x, &mut out, f);
    println!("{name:12} {ns:6.3} ns/element  {:6.2} Gelem/s", 1.0 / ns);
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,avx2"))]
#[inline(never)]
fn sin_block(x: &[f32; N], out: &mut [f32; N]) {
    m::sin_block(x, out);
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,avx2"))]
#[inline(never)]
fn cos_block(x: &[f32; N], out: &mut [f32; N]) {
    m::cos_block(x, out);
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx512dq") || !is_x86_feature_detected!("avx512vl") {
        println!("this example needs AVX-512");
        return;
    }
    report!(exp, exp2, expm1, sigmoid, softplus, ln, log2, log10, log1p);
    report!(sin_small, cos_small, sin, cos, tan, sinh, cosh, tanh, asinh, acosh, atanh);
    report!(asin, acos, atan, cbrt, sqrt, rsqrt, recip, erf, erfc);
    // SAFETY: the features were checked above.
    row("sin_block", |x, out| unsafe { sin_block(x, out) });
    // SAFETY: the features were checked above.
    row("cos_block", |x, out| unsafe { cos_block(x, out) });
    vectorised!(pow, v, m::pow(v, 1.7));
    vectorised!(atan2, v, m::atan2(v, 0.3));
    vectorised!(hypot, v, m::hypot(v, 0.3));
    // SAFETY: the features were checked above.
    row("pow", |x, out| unsafe { pow(x, out) });
    // SAFETY: the features were checked above.
    row("atan2", |x, out| unsafe { atan2(x, out) });
    // SAFETY: the features were checked above.
    row("hypot", |x, out| unsafe { hypot(x, out) });
}
