//! Blocks between memory and registers: strided loads and stores, and padding. Each is compiled for every width of SIMD.

use super::{
    convert::{bf16_bits, bf16_value, f16_bits, f16_value},
    runs::{At, Block, Walk},
};
use crate::{
    DType,
    kernel::{Access, Kernel},
};

/// A function compiled for AVX-512, AVX2 and what every CPU has, from one body that is inlined into each.
macro_rules! by_width {
    ($(#[$meta:meta])* pub unsafe fn $name:ident($($arg:ident: $t:ty),* $(,)?) $(-> $r:ty)? = $body:path) => {
        $(#[$meta])*
        pub unsafe fn $name($($arg: $t),*) $(-> $r)? {
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))]
            unsafe fn wide($($arg: $t),*) $(-> $r)? {
                // SAFETY: the same contract; the ISA was detected before this version was chosen.
                unsafe { $body($($arg),*) }
            }
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
            unsafe fn middle($($arg: $t),*) $(-> $r)? {
                // SAFETY: the same contract; the ISA was detected before this version was chosen.
                unsafe { $body($($arg),*) }
            }
            // SAFETY: the caller's promise, and the CPU has what the version needs.
            unsafe {
                match crate::op::block::Isa::detect() {
                    crate::op::block::Isa::Avx512 => wide($($arg),*),
                    crate::op::block::Isa::Avx2 => middle($($arg),*),
                    crate::op::block::Isa::Base => $body($($arg),*),
                }
            }
        }
    };
}
pub(super) use by_width;

/// A run of addresses `start + i * step`, valid (inside the bounds) for `lo <= i < hi`.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Address of element 0, counted in elements.
    pub start: isize,
    /// Elements a step.
    pub step: isize,
    /// Number of elements.
    pub len: usize,
    /// First valid one.
    pub lo: usize,
    /// One past the last valid one.
    pub hi: usize,
}

by_width! {
    /// Loads a run of `dtype` elements at `base` into registers at `dst`.
    ///
    /// # Safety
    /// All valid addresses of the run lie in the buffer at `base`; `dst` has room for `len` registers.
    pub unsafe fn load(dtype: DType, base: *const u8, run: Run, dst: *mut u8) = load_any
}

/// Where a block of a program stands.
#[derive(Clone, Copy)]
pub struct Stand<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// The current map point.
    pub map: &'a At,
    /// The current reduce point.
    pub reduce: &'a At,
    /// Which of them the block runs along.
    pub block: Block,
}

by_width! {
    /// Loads a block of `n` elements line by line.
    ///
    /// # Safety
    /// As [`load`].
    pub unsafe fn load_block(dtype: DType, base: *const u8, access: &Access, at: Stand<'_>, n: usize, dst: *mut u8)
        = load_block_any
}

#[inline(always)]
unsafe fn load_block_any(dtype: DType, base: *const u8, access: &Access, at: Stand<'_>, n: usize, dst: *mut u8) {
    let size = dtype.compute().size();
    let mut walk = Walk::new(access, at.k, at.map, at.reduce, at.block, n);
    let as_they_are = dtype == dtype.compute() && dtype != DType::Bool && access.bounds.is_empty();
    if as_they_are && walk.step() == 1 {
        while let Some((run, i, count, apart)) = walk.next_lines() {
            // SAFETY: passed on.
            unsafe {
                let from = base.offset(run.start * size as isize);
                lines(from, dst.add(i * size), run.len * size, count, apart * size as isize);
            }
        }
        return;
    }
    while let Some((run, i)) = walk.next() {
        // SAFETY: passed on.
        unsafe { load_any(dtype, base, run, dst.add(i * size)) };
    }
}

/// Copies `count` lines of so many bytes, `apart` bytes from one to the next, to where they follow each other.
///
/// # Safety
/// Both hold so many lines and do not overlap.
#[inline(always)]
unsafe fn lines(from: *const u8, to: *mut u8, bytes: usize, count: usize, apart: isize) {
    #[cfg(target_arch = "x86_64")]
    if crate::op::block::Isa::detect() == crate::op::block::Isa::Avx512 {
        // SAFETY: the caller's promise, and the CPU has what it takes.
        return unsafe { lines_wide(from, to, bytes, count, apart) };
    }
    for l in 0..count {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.offset(l as isize * apart), to.add(l * bytes), bytes) };
    }
}

/// Lines of a few vectors: calls would take as long again.
///
/// # Safety
/// As [`lines`]; the CPU has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn lines_wide(from: *const u8, to: *mut u8, bytes: usize, count: usize, apart: isize) {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_storeu_si512,
    };
    let (whole, mask) = (bytes & !63, (1u64 << (bytes % 64)) - 1);
    for l in 0..count {
        // SAFETY: the caller's promise; bytes outside the mask are neither read nor written.
        unsafe {
            let (from, to) = (from.offset(l as isize * apart), to.add(l * bytes));
            for at in (0..whole).step_by(64) {
                _mm512_storeu_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
            }
            let rest = _mm512_maskz_loadu_epi8(mask, from.add(whole).cast());
            _mm512_mask_storeu_epi8(to.add(whole).cast(), mask, rest);
        }
    }
}

#[inline(always)]
unsafe fn load_any(dtype: DType, base: *const u8, run: Run, dst: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::F32 => copy::<f32, f32>(base, run, dst, |x| x),
            DType::F64 => copy::<f64, f64>(base, run, dst, |x| x),
            DType::I64 => copy::<i64, i64>(base, run, dst, |x| x),
            DType::Bool => copy::<u8, u8>(base, run, dst, |x| (x != 0) as u8),
            DType::F16 => copy::<u16, f32>(base, run, dst, f16_value),
            DType::BF16 => copy::<u16, f32>(base, run, dst, bf16_value),
            DType::I32 => copy::<i32, i64>(base, run, dst, |x| x as i64),
            DType::I16 => copy::<i16, i64>(base, run, dst, |x| x as i64),
            DType::I8 => copy::<i8, i64>(base, run, dst, |x| x as i64),
            DType::U8 => copy::<u8, i64>(base, run, dst, |x| x as i64),
        }
    }
}

#[inline(always)]
unsafe fn copy<S: Copy, R: Copy + Default>(base: *const u8, run: Run, dst: *mut u8, f: impl Fn(S) -> R) {
    let Run { start, step, len, lo, hi } = run;
    let src = base.cast::<S>();
    // SAFETY: the caller's promise; indices below stay within `len` and the valid range.
    unsafe {
        let d = std::slice::from_raw_parts_mut(dst.cast::<R>(), len);
        d[..lo].fill(R::default());
        d[hi..].fill(R::default());
        if lo >= hi {
            return;
        }
        let d = &mut d[lo..hi];
        let first = src.offset(start + step * lo as isize);
        match step {
            0 => d.fill(f(*first)),
            1 => {
                let s = std::slice::from_raw_parts(first, hi - lo);
                for (d, s) in d.iter_mut().zip(s) {
                    *d = f(*s);
                }
            }
            // Steps that are constants are shuffles of whole vectors.
            -1 => every::<-1, S, R>(first, d, f),
            2 => every::<2, S, R>(first, d, f),
            3 => every::<3, S, R>(first, d, f),
            4 => every::<4, S, R>(first, d, f),
            _ => {
                for (i, d) in d.iter_mut().enumerate() {
                    *d = f(*first.offset(step * i as isize));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn every<const STEP: isize, S: Copy, R>(first: *const S, d: &mut [R], f: impl Fn(S) -> R) {
    for (i, d) in d.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *d = f(unsafe { *first.offset(STEP * i as isize) });
    }
}

by_width! {
    /// Stores registers at `src` to a run of `dtype` elements at `base` (no bounds).
    ///
    /// # Safety
    /// As [`load`], with `src` holding `len` registers.
    pub unsafe fn store(dtype: DType, base: *mut u8, run: Run, src: *const u8) = store_any
}

#[inline(always)]
unsafe fn store_any(dtype: DType, base: *mut u8, run: Run, src: *const u8) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::F32 => put::<f32, f32>(base, run, src, |x| x),
            DType::F64 => put::<f64, f64>(base, run, src, |x| x),
            DType::I64 => put::<i64, i64>(base, run, src, |x| x),
            DType::Bool => put::<u8, u8>(base, run, src, |x| x),
            DType::F16 => put::<f32, u16>(base, run, src, f16_bits),
            DType::BF16 => put::<f32, u16>(base, run, src, bf16_bits),
            DType::I32 => put::<i64, i32>(base, run, src, |x| x as i32),
            DType::I16 => put::<i64, i16>(base, run, src, |x| x as i16),
            DType::I8 => put::<i64, i8>(base, run, src, |x| x as i8),
            DType::U8 => put::<i64, u8>(base, run, src, |x| x as u8),
        }
    }
}

#[inline(always)]
unsafe fn put<R: Copy, S: Copy>(base: *mut u8, run: Run, src: *const u8, f: impl Fn(R) -> S) {
    // SAFETY: the caller's promise.
    unsafe {
        let s = std::slice::from_raw_parts(src.cast::<R>(), run.len);
        let first = base.cast::<S>().offset(run.start);
        if run.step == 1 {
            let d = std::slice::from_raw_parts_mut(first, run.len);
            for (d, s) in d.iter_mut().zip(s) {
                *d = f(*s);
            }
        } else {
            for (i, s) in s.iter().enumerate() {
                *first.offset(run.step * i as isize) = f(*s);
            }
        }
    }
}

/// Copies the first register over all `n`.
///
/// # Safety
/// `reg` holds `n >= 1` registers of `dtype`.
pub unsafe fn spread(dtype: DType, reg: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype.compute() {
            DType::F32 => std::slice::from_raw_parts_mut(reg.cast::<u32>(), n).fill(*reg.cast::<u32>()),
            DType::Bool => std::slice::from_raw_parts_mut(reg, n).fill(*reg),
            _ => std::slice::from_raw_parts_mut(reg.cast::<u64>(), n).fill(*reg.cast::<u64>()),
        }
    }
}
