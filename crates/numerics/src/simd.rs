//! Vectors of `f32` of three widths, and the choice between them at run time.
//!
//! A kernel is written once, generic over [`Simd`], always inlined, and compiled three times by
//! [`dispatch!`]: for AVX-512, for AVX2 with FMA, and for what every CPU has (where the compiler
//! makes vectors of the arrays). The widths may differ in the last bits of a result, because sums
//! are cut into as many lanes; the number of threads never does.

/// Vectors of `LANES` numbers. All functions that take pointers are unsafe for the usual reason;
/// all of them may only run on a CPU that has the instructions.
pub(crate) trait Simd: Copy {
    /// A vector.
    type V: Copy;
    /// A yes or no for each number of a vector.
    type M: Copy;
    /// Numbers in a vector.
    const LANES: usize;
    /// Rows of the output that the matrix kernel keeps in registers.
    const ROWS: usize;

    unsafe fn zero() -> Self::V;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n` numbers, zeros after them; nothing behind them is read.
    unsafe fn load_first(p: *const f32, n: usize) -> Self::V;
    /// The first `n` of numbers `step` apart, of which fewer than `2^24` make a step; others are not read.
    #[inline(always)]
    unsafe fn load_apart(p: *const f32, step: usize, n: usize) -> Self::V {
        let mut all = [0.0f32; 16];
        for (i, x) in all.iter_mut().enumerate().take(n.min(Self::LANES)) {
            // SAFETY: the caller's promise.
            *x = unsafe { *p.add(i * step) };
        }
        // SAFETY: no vector is longer than 16.
        unsafe { Self::load(all.as_ptr()) }
    }
    /// Writes the first `n` numbers.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `b` where one of them is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn abs(a: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The nearest whole number.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `a * 2^n` for whole numbers `n` from -126 to 127.
    unsafe fn scale2(a: Self::V, n: Self::V) -> Self::V;
    unsafe fn gt(a: Self::V, b: Self::V) -> Self::M;
    unsafe fn eq(a: Self::V, b: Self::V) -> Self::M;
    unsafe fn is_nan(a: Self::V) -> Self::M;
    unsafe fn or(a: Self::M, b: Self::M) -> Self::M;
    /// `a` and not `b`.
    unsafe fn and_not(a: Self::M, b: Self::M) -> Self::M;
    /// `a` where `m` says yes, `b` elsewhere.
    unsafe fn select(m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// `v[j][i] = p[4 i + j]`: reads `4 * LANES` numbers.
    unsafe fn deinterleave4(p: *const f32) -> [Self::V; 4];
    /// The reverse: number `4 i + j` of the four vectors one after the other is `v[j][i]`.
    unsafe fn interleave4(v: [Self::V; 4]) -> [Self::V; 4];
    /// Numbers 0, 2, 4, .. of the two vectors one after the other.
    unsafe fn evens(a: Self::V, b: Self::V) -> Self::V;
    /// Numbers 1, 3, 5, .. of the two vectors one after the other.
    unsafe fn odds(a: Self::V, b: Self::V) -> Self::V;
    /// The reverse of both: `a[0], b[0], a[1], b[1], ..`.
    unsafe fn interleave2(a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Numbers `index[0]`, `index[1]`, .. of the two vectors one after the other.
    unsafe fn pick(a: Self::V, b: Self::V, index: *const i32) -> Self::V;
    /// Transposes `LANES` rows of `LANES` numbers, `from` apart, to rows `to` apart.
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize);
    /// The sum of each vector, its upper half onto the lower one down to a number, as [`fold`] has it.
    #[inline(always)]
    unsafe fn sums(v: [Self::V; 4]) -> [f32; 4] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| unsafe { fold::<Self>(v[i], |a, b| a + b) })
    }
}

/// Asks for a line that will be read soon; any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it never faults, and SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The same for one that need not come nearer than the second cache.
#[inline(always)]
pub(crate) fn prefetch_second<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// `e^x` for `x` up to 88, to about one unit in the last place; zero below -87.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: arithmetic.
    unsafe {
        // NaN is not below the limit and stays; the second argument counts where one is NaN.
        let low = S::splat(-87.0);
        let (below, x) = (S::gt(low, x), S::max(low, x));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, the first of few bits: n times it is exact.
        let r = S::fnma(n, S::splat(0.693_359_4), x);
        let r = S::fnma(n, S::splat(-2.121_944_4e-4), r);
        let mut p = S::splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = S::fma(p, r, S::splat(c));
        }
        S::select(below, S::zero(), S::scale2(p, n))
    }
}

/// The largest number of a vector (NaN if that comes out), and the sum of one.
#[inline(always)]
pub(crate) unsafe fn fold<S: Simd>(v: S::V, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut all = [0.0f32; 16];
    // SAFETY: no vector is longer than 16.
    unsafe { S::store(all.as_mut_ptr(), v) };
    let mut n = S::LANES;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            all[i] = f(all[i], all[i + n]);
        }
    }
    all[0]
}

/// Plain arrays.
#[derive(Clone, Copy)]
pub(crate) struct Base;

impl Simd for Base {
    type V = [f32; 4];
    type M = [bool; 4];
    const LANES: usize = 4;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> [f32; 4] {
        [0.0; 4]
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> [f32; 4] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: [f32; 4], n: usize) {
        for (i, v) in v.into_iter().enumerate().take(n) {
            // SAFETY: the caller's promise.
            unsafe { *p.add(i) = v }
        }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn abs(a: [f32; 4]) -> [f32; 4] {
        a.map(f32::abs)
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // Without the instruction a fused operation would be a call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn fnma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| c[i] - a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn round(a: [f32; 4]) -> [f32; 4] {
        // Adding and taking away 1.5 * 2^23 rounds what is smaller than 2^22.
        a.map(|x| (x + 12_582_912.0) - 12_582_912.0)
    }
    #[inline(always)]
    unsafe fn scale2(a: [f32; 4], n: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn gt(a: [f32; 4], b: [f32; 4]) -> [bool; 4] {
        std::array::from_fn(|i| a[i] > b[i])
    }
    #[inline(always)]
    unsafe fn eq(a: [f32; 4], b: [f32; 4]) -> [bool; 4] {
        std::array::from_fn(|i| a[i] == b[i])
    }
    #[inline(always)]
    unsafe fn is_nan(a: [f32; 4]) -> [bool; 4] {
        a.map(f32::is_nan)
    }
    #[inline(always)]
    unsafe fn or(a: [bool; 4], b: [bool; 4]) -> [bool; 4] {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn and_not(a: [bool; 4], b: [bool; 4]) -> [bool; 4] {
        std::array::from_fn(|i| a[i] & !b[i])
    }
    #[inline(always)]
    unsafe fn select(m: [bool; 4], a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if m[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn odds(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[1], a[3], b[1], b[3]]
    }
    #[inline(always)]
    unsafe fn interleave2(a: [f32; 4], b: [f32; 4]) -> [[f32; 4]; 2] {
        [[a[0], b[0], a[1], b[1]], [a[2], b[2], a[3], b[3]]]
    }
    #[inline(always)]
    unsafe fn deinterleave4(p: *const f32) -> [[f32; 4]; 4] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|j| std::array::from_fn(|i| unsafe { *p.add(4 * i + j) }))
    }
    #[inline(always)]
    unsafe fn interleave4(v: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
        std::array::from_fn(|i| std::array::from_fn(|j| v[j][i]))
    }
    #[inline(always)]
    unsafe fn evens(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0], a[2], b[0], b[2]]
    }
    #[inline(always)]
    unsafe fn pick(a: [f32; 4], b: [f32; 4], index: *const i32) -> [f32; 4] {
        std::array::from_fn(|i| {
            // SAFETY: the caller gives as many places.
            let at = unsafe { *index.add(i) } as usize;
            if at < 4 { a[at] } else { b[(at - 4) % 4] }
        })
    }
    #[inline(always)]
    unsafe fn transpose(x: *const f32, from: usize, y: *mut f32, to: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = Self::interleave4(std::array::from_fn(|i| Self::load(x.add(i * from))));
            rows.into_iter().enumerate().for_each(|(i, v)| Self::store(y.add(i * to), v));
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86;

/// The widths of SIMD a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// As AVX-512, where numbers that are multiplied are pairs of `bf16`: of kernels made by [`dispatch_pairs!`].
    #[cfg(target_arch = "x86_64")]
    Pairs,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Base,
}

impl Isa {
    /// The widest this machine runs, found once.
    pub(crate) fn detect() -> Isa {
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

    /// [`Isa::Pairs`] where this machine runs it.
    pub(crate) fn pairs() -> Option<Isa> {
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16") {
            return Some(Isa::Pairs);
        }
        None
    }

    /// All that this machine runs.
    #[cfg(test)]
    pub(crate) fn every() -> Vec<Isa> {
        #[cfg(target_arch = "x86_64")]
        match Isa::detect() {
            Isa::Avx512 | Isa::Pairs => return vec![Isa::Base, Isa::Avx2, Isa::Avx512],
            Isa::Avx2 => return vec![Isa::Base, Isa::Avx2],
            Isa::Base => {}
        }
        vec![Isa::Base]
    }

    /// Numbers in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Pairs => <Avx512>::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::LANES,
            Isa::Base => Base::LANES,
        }
    }
}

/// Makes a function that calls `$body::<S, ..>` compiled for an [`Isa`]: the kernel's versions.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident = $body:ident $(<$(const $c:ident: $ct:ty),*>)? ($($arg:ident: $t:ty),* $(,)?)) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name $(<$(const $c: $ct),*>)? (isa: $crate::simd::Isa, $($arg: $t),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn wide $(<$(const $c: $ct),*>)? ($($arg: $t),*) {
                // SAFETY: the caller's promise; the instructions are enabled here.
                unsafe { $body::<$crate::simd::Avx512 $($(, $c)*)?>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn middle $(<$(const $c: $ct),*>)? ($($arg: $t),*) {
                // SAFETY: as above.
                unsafe { $body::<$crate::simd::Avx2 $($(, $c)*)?>($($arg),*) }
            }
            // SAFETY: an `Isa` is only made where the CPU has it; the rest is the caller's promise.
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Isa::Avx512 | $crate::simd::Isa::Pairs => wide $(::<$($c),*>)? ($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Isa::Avx2 => middle $(::<$($c),*>)? ($($arg),*),
                    $crate::simd::Isa::Base => $body::<$crate::simd::Base $($(, $c)*)?>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use dispatch;

/// [`dispatch!`] for a kernel that also knows pairs of `bf16`: it multiplies by `fma` alone.
macro_rules! dispatch_pairs {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident = $body:ident ($($arg:ident: $t:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis unsafe fn $name(isa: $crate::simd::Isa, $($arg: $t),*) {
            $crate::simd::dispatch!(unsafe fn numbers = $body($($arg: $t),*));
            #[cfg(target_arch = "x86_64")]
            if isa == $crate::simd::Isa::Pairs {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
                unsafe fn pairs($($arg: $t),*) {
                    // SAFETY: the caller's promise; the instructions are enabled here.
                    unsafe { $body::<$crate::simd::Avx512<true>>($($arg),*) }
                }
                // SAFETY: such an `Isa` is only made where the CPU has it; the rest is the caller's promise.
                return unsafe { pairs($($arg),*) };
            }
            // SAFETY: the caller's promise.
            unsafe { numbers(isa, $($arg),*) }
        }
    };
}
pub(crate) use dispatch_pairs;

#[cfg(test)]
mod tests;
