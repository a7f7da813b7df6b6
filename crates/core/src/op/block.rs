//! A scalar function as a loop over blocks, compiled for each width of SIMD.
//!
//! `unary(f)` turns a plain `fn(f32) -> f32` into three loops: for AVX-512, for AVX2 with FMA, and for what every CPU
//! has. The functions are branch-free, so the compiler vectorises each loop; no fast-math is involved, so all three give
//! the same bits, and one element through the plain loop is the scalar definition the oracle uses.

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
    unsafe { std::mem::MaybeUninit::<F>::uninit().assume_init() }
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
        pub const fn $maker<$($A: Copy,)* R: Copy, F: Fn($($A),*) -> R + Copy>(_: F) -> Block {
            Block { avx512: $wide::<$($A,)* R, F>, avx2: $mid::<$($A,)* R, F>, base: $base::<$($A,)* R, F> }
        }
    };
}
versions!(unary, loop1, wide1, mid1, base1, [A 0], "The loops of a function of one value.");
versions!(binary, loop2, wide2, mid2, base2, [A 0, B 1], "The loops of a function of two values.");
versions!(ternary, loop3, wide3, mid3, base3, [A 0, B 1, C 2], "The loops of a function of three values.");
