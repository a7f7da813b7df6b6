//! A scalar function as a loop over blocks, compiled for each width of SIMD.
//!
//! A row of gradus's elementwise table holds such blocks. `unary(f)` turns a plain `fn(f32) -> f32` into three loops: for AVX-512, for AVX2 with FMA, and for what every CPU
//! has. The functions are branch-free, so the compiler vectorises each loop; no fast-math is involved, so all three give
//! the same bits, and one element through the plain loop is the scalar definition the oracle uses.

mod parts;
mod prepared;
mod zero;

pub use prepared::{f32, f64};
pub use zero::any_zero;

/// `dst[i] = f(src0[i], src1[i], src2[i])` for `i < n`.
///
/// # Safety
/// The pointers are valid for `n` elements of the types the block was made for, `dst` overlaps no source, and bools are
/// 0 or 1.
pub type BlockFn = unsafe fn(dst: *mut u8, src: [*const u8; 3], n: usize);

/// The widths of SIMD a loop is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 (F, BW, DQ, VL).
    Avx512,
    /// AVX2 with FMA.
    Avx2,
    /// Whatever the target always has (NEON on aarch64).
    Base,
}

impl Isa {
    /// The widest this machine runs, found once.
    pub fn detect() -> Isa {
        static ISA: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *ISA.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("fma") {
                    return Isa::Avx512;
                }
                if has!("avx2") && has!("fma") {
                    return Isa::Avx2;
                }
            }
            Isa::Base
        })
    }
}

/// One elementwise function over one set of types.
#[derive(Clone, Copy)]
pub struct Block {
    avx512: BlockFn,
    avx2: BlockFn,
    base: BlockFn,
}

impl Block {
    /// The loop for `isa`.
    pub fn get(&self, isa: Isa) -> BlockFn {
        match isa {
            Isa::Avx512 => self.avx512,
            Isa::Avx2 => self.avx2,
            Isa::Base => self.base,
        }
    }
}

/// A value of a type that has exactly one: a function item or a closure that captures nothing.
#[inline(always)]
fn the<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a block function must not capture") };
    // SAFETY: F has size zero and is Copy; `unary` and its kin were given a value of it, so it is inhabited, and a
    // zero-sized value has no bytes to read.
    unsafe { std::mem::transmute_copy::<(), F>(&()) }
}

macro_rules! versions {
    ($maker:ident, $body:ident, $wide:ident, $mid:ident, $base:ident, [$($A:ident $k:tt),*], $doc:literal) => {
        #[inline(always)]
        unsafe fn $body<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(dst: *mut u8, src: [*const u8; 3], n: usize) {
            let f = the::<F>();
            // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
            unsafe {
                let d = std::slice::from_raw_parts_mut(dst.cast::<R>(), n);
                let s = ($(std::slice::from_raw_parts(src[$k].cast::<$A>(), n),)*);
                for i in 0..n {
                    d[i] = f($(s.$k[i]),*);
                }
            }
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))]
        unsafe fn $wide<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(d: *mut u8, s: [*const u8; 3], n: usize) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { $body::<$($A,)* R, F>(d, s, n) }
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
        unsafe fn $mid<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(d: *mut u8, s: [*const u8; 3], n: usize) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { $body::<$($A,)* R, F>(d, s, n) }
        }
        unsafe fn $base<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(d: *mut u8, s: [*const u8; 3], n: usize) {
            // SAFETY: the same contract.
            unsafe { $body::<$($A,)* R, F>(d, s, n) }
        }
        #[doc = $doc]
        const fn $maker<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(_: F) -> Block {
            Block { avx512: $wide::<$($A,)* R, F>, avx2: $mid::<$($A,)* R, F>, base: $base::<$($A,)* R, F> }
        }
    };
}
versions!(any1, loop1, wide1, mid1, base1, [A 0], "The loops of a function of one value.");
versions!(any2, loop2, wide2, mid2, base2, [A 0, B 1], "The loops of a function of two values.");
versions!(any3, loop3, wide3, mid3, base3, [A 0, B 1, C 2], "The loops of a function of three values.");

// The public makers fix the type of the result: a closure whose literals were inferred as another type would write
// elements of another size, and must not compile.

/// The loops of a function of one number.
pub const fn unary<A: Copy, F: Fn(A) -> A + Copy>(f: F) -> Block {
    any1(f)
}

/// The loops of a function of two numbers.
pub const fn binary<A: Copy, F: Fn(A, A) -> A + Copy>(f: F) -> Block {
    any2(f)
}

/// The loops of a function of three numbers.
pub const fn ternary<A: Copy, F: Fn(A, A, A) -> A + Copy>(f: F) -> Block {
    any3(f)
}

/// The loops of a comparison.
pub const fn compare<A: Copy, F: Fn(A, A) -> bool + Copy>(f: F) -> Block {
    any2(f)
}

/// The loops of a choice between two values.
pub const fn select<A: Copy, F: Fn(bool, A, A) -> A + Copy>(f: F) -> Block {
    any3(f)
}

/// The loop of a function of one number that no vector unit helps (it calls a library, or branches): one version serves
/// every ISA, which keeps the build small.
pub const fn plain1<A: Copy, F: Fn(A) -> A + Copy>(_: F) -> Block {
    Block { avx512: base1::<A, A, F>, avx2: base1::<A, A, F>, base: base1::<A, A, F> }
}

/// As [`plain1`], for a function of two numbers.
pub const fn plain2<A: Copy, F: Fn(A, A) -> A + Copy>(_: F) -> Block {
    Block { avx512: base2::<A, A, A, F>, avx2: base2::<A, A, A, F>, base: base2::<A, A, A, F> }
}

/// Elements that are done at once by [`guarded2`].
const GUARDED: usize = 64;

#[inline(always)]
unsafe fn guarded_loop<A: Copy, P: Fn(A, A) -> bool + Copy, F: Fn(A, A) -> A + Copy, S: Fn(A, A) -> A + Copy>(
    dst: *mut u8,
    src: [*const u8; 3],
    n: usize,
) {
    let (fits, fast, slow) = (the::<P>(), the::<F>(), the::<S>());
    // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
    let (d, a, b) = unsafe {
        (
            std::slice::from_raw_parts_mut(dst.cast::<A>(), n),
            std::slice::from_raw_parts(src[0].cast::<A>(), n),
            std::slice::from_raw_parts(src[1].cast::<A>(), n),
        )
    };
    let ((d, d_rest), (a, a_rest), (b, b_rest)) =
        (d.as_chunks_mut::<GUARDED>(), a.as_chunks::<GUARDED>(), b.as_chunks::<GUARDED>());
    for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
        guarded_part(d, a, b, fits, fast, slow);
    }
    guarded_part(d_rest, a_rest, b_rest, fits, fast, slow);
}

/// A part of [`guarded_loop`]. (As references these are known not to overlap, and lengths to be equal: vectors.)
#[inline(always)]
fn guarded_part<A: Copy>(
    d: &mut [A],
    a: &[A],
    b: &[A],
    fits: impl Fn(A, A) -> bool,
    fast: impl Fn(A, A) -> A,
    slow: impl Fn(A, A) -> A,
) {
    let (a, b) = (&a[..d.len()], &b[..d.len()]);
    let mut all = true;
    for i in 0..d.len() {
        all &= fits(a[i], b[i]);
    }
    for i in 0..d.len() {
        d[i] = fast(a[i], b[i]);
    }
    if !all {
        for i in 0..d.len() {
            if !fits(a[i], b[i]) {
                d[i] = slow(a[i], b[i]);
            }
        }
    }
}

macro_rules! guarded_version {
    ($name:ident, $feature:literal) => {
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $feature))]
        unsafe fn $name<A: Copy, P: Fn(A, A) -> bool + Copy, F: Fn(A, A) -> A + Copy, S: Fn(A, A) -> A + Copy>(
            d: *mut u8,
            s: [*const u8; 3],
            n: usize,
        ) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { guarded_loop::<A, P, F, S>(d, s, n) }
        }
    };
}
guarded_version!(guarded_wide, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
guarded_version!(guarded_mid, "avx2,fma");

/// The loops of a function of two numbers that has a short form without branches for most of them: `fast` where `fits`, and
/// `slow` elsewhere. (`fast` is computed for all, and must not trap.)
pub const fn guarded2<A: Copy, P: Fn(A, A) -> bool + Copy, F: Fn(A, A) -> A + Copy, S: Fn(A, A) -> A + Copy>(
    _: P,
    _: F,
    _: S,
) -> Block {
    Block { avx512: guarded_wide::<A, P, F, S>, avx2: guarded_mid::<A, P, F, S>, base: guarded_loop::<A, P, F, S> }
}

#[inline(always)]
unsafe fn guarded1_loop<A: Copy, P: Fn(A) -> bool + Copy, F: Fn(A) -> A + Copy, S: Fn(A) -> A + Copy>(
    dst: *mut u8,
    src: [*const u8; 3],
    n: usize,
) {
    let (fits, fast, slow) = (the::<P>(), the::<F>(), the::<S>());
    // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
    let (d, a) = unsafe {
        (std::slice::from_raw_parts_mut(dst.cast::<A>(), n), std::slice::from_raw_parts(src[0].cast::<A>(), n))
    };
    for (d, a) in d.chunks_mut(GUARDED).zip(a.chunks(GUARDED)) {
        guarded_part(d, a, a, |a, _| fits(a), |a, _| fast(a), |a, _| slow(a));
    }
}

macro_rules! guarded1_version {
    ($name:ident, $feature:literal) => {
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $feature))]
        unsafe fn $name<A: Copy, P: Fn(A) -> bool + Copy, F: Fn(A) -> A + Copy, S: Fn(A) -> A + Copy>(
            d: *mut u8,
            s: [*const u8; 3],
            n: usize,
        ) {
            // SAFETY: the same contract; the ISA was detected before this version was chosen.
            unsafe { guarded1_loop::<A, P, F, S>(d, s, n) }
        }
    };
}
guarded1_version!(guarded1_wide, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
guarded1_version!(guarded1_mid, "avx2,fma");

/// As [`guarded2`], for a function of one number.
pub const fn guarded1<A: Copy, P: Fn(A) -> bool + Copy, F: Fn(A) -> A + Copy, S: Fn(A) -> A + Copy>(
    _: P,
    _: F,
    _: S,
) -> Block {
    Block { avx512: guarded1_wide::<A, P, F, S>, avx2: guarded1_mid::<A, P, F, S>, base: guarded1_loop::<A, P, F, S> }
}
