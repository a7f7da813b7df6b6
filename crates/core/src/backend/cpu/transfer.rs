//! Blocks between memory and registers: strided loads and stores, padding, look-ups, and conversions of type.

use crate::{
    DType, Element, Result,
    kernel::{oracle::out_of_range, rand},
};

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

/// Loads a run of `dtype` elements at `base` into registers at `dst`.
///
/// # Safety
/// All valid addresses of the run lie in the buffer at `base`; `dst` has room for `len` registers.
pub unsafe fn load(dtype: DType, base: *const u8, run: Run, dst: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::F32 => copy::<f32, f32>(base, run, dst, |x| x),
            DType::F64 => copy::<f64, f64>(base, run, dst, |x| x),
            DType::I64 => copy::<i64, i64>(base, run, dst, |x| x),
            DType::Bool => copy::<u8, u8>(base, run, dst, |x| (x != 0) as u8),
            DType::F16 => copy::<half::f16, f32>(base, run, dst, half::f16::to_f32),
            DType::BF16 => copy::<half::bf16, f32>(base, run, dst, half::bf16::to_f32),
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
            _ => {
                for (i, d) in d.iter_mut().enumerate() {
                    *d = f(*first.offset(step * i as isize));
                }
            }
        }
    }
}

/// Stores registers at `src` to a run of `dtype` elements at `base` (no bounds).
///
/// # Safety
/// As [`load`], with `src` holding `len` registers.
pub unsafe fn store(dtype: DType, base: *mut u8, run: Run, src: *const u8) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::F32 => put::<f32, f32>(base, run, src, |x| x),
            DType::F64 => put::<f64, f64>(base, run, src, |x| x),
            DType::I64 => put::<i64, i64>(base, run, src, |x| x),
            DType::Bool => put::<u8, u8>(base, run, src, |x| x),
            DType::F16 => put::<f32, half::f16>(base, run, src, half::f16::from_f32),
            DType::BF16 => put::<f32, half::bf16>(base, run, src, half::bf16::from_f32),
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

/// Loads where part of the address is looked up: `index[i] * stride` is added for each look-up.
///
/// # Safety
/// As [`load`], for the addresses with look-ups inside their sizes; each index register block holds `len` i64.
pub unsafe fn gather(
    dtype: DType,
    base: *const u8,
    run: Run,
    lookups: &[(*const i64, isize, usize)],
    dst: *mut u8,
) -> Result<()> {
    let size = dtype.compute().size();
    for i in 0..run.len {
        // SAFETY: every look-up is checked against its size before the address is used.
        unsafe {
            let mut at = run.start + run.step * i as isize;
            let mut inside = (run.lo..run.hi).contains(&i);
            for &(index, stride, n) in lookups {
                let k = *index.add(i);
                if inside && (k < 0 || k as u64 >= n as u64) {
                    return Err(out_of_range(k, n));
                }
                inside &= n > 0;
                at += k as isize * stride;
            }
            let one = Run { start: at, step: 0, len: 1, lo: 0, hi: inside as usize };
            load(dtype, base, one, dst.add(i * size));
        }
    }
    Ok(())
}

/// Registers of the addresses themselves.
///
/// # Safety
/// `dst` has room for `len` i64.
pub unsafe fn iota(run: Run, dst: *mut u8) {
    // SAFETY: the caller's promise.
    let d = unsafe { std::slice::from_raw_parts_mut(dst.cast::<i64>(), run.len) };
    for (i, d) in d.iter_mut().enumerate() {
        let inside = (run.lo..run.hi).contains(&i);
        *d = if inside { (run.start + run.step * i as isize) as i64 } else { 0 };
    }
}

/// Registers of uniform numbers by address.
///
/// # Safety
/// `dst` has room for `len` numbers of `dtype` (f32 or f64).
pub unsafe fn uniform(dtype: DType, run: Run, stream: u64, seed: u64, dst: *mut u8) {
    for i in 0..run.len {
        let at = (run.start + run.step * i as isize) as u64;
        let inside = (run.lo..run.hi).contains(&i);
        // SAFETY: the caller's promise.
        unsafe {
            match dtype {
                DType::F64 => {
                    *dst.cast::<f64>().add(i) = if inside { rand::uniform_f64(at, stream, seed) } else { 0.0 }
                }
                _ => *dst.cast::<f32>().add(i) = if inside { rand::uniform_f32(at, stream, seed) } else { 0.0 },
            }
        }
    }
}

/// Converts `n` registers from one element type to another.
///
/// # Safety
/// `src` and `dst` hold `n` registers of their types and do not overlap.
pub unsafe fn cast(from: DType, to: DType, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: passed on.
    unsafe {
        match from.compute() {
            DType::F32 => cast_from::<f32>(to, src, dst, n),
            DType::F64 => cast_from::<f64>(to, src, dst, n),
            DType::Bool => cast_from::<bool>(to, src, dst, n),
            _ => cast_from::<i64>(to, src, dst, n),
        }
    }
}

unsafe fn cast_from<S: Element>(to: DType, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let s = std::slice::from_raw_parts(src.cast::<S>(), n);
        match to.compute() {
            DType::F32 => {
                let d = std::slice::from_raw_parts_mut(dst.cast::<f32>(), n);
                match to {
                    DType::F16 => d.iter_mut().zip(s).for_each(|(d, s)| *d = half::f16::from_f64(s.to_f64()).to_f32()),
                    DType::BF16 => {
                        d.iter_mut().zip(s).for_each(|(d, s)| *d = half::bf16::from_f64(s.to_f64()).to_f32())
                    }
                    _ => d.iter_mut().zip(s).for_each(|(d, s)| *d = s.to_f64() as f32),
                }
            }
            DType::F64 => {
                let d = std::slice::from_raw_parts_mut(dst.cast::<f64>(), n);
                d.iter_mut().zip(s).for_each(|(d, s)| *d = s.to_f64());
            }
            DType::Bool => {
                let d = std::slice::from_raw_parts_mut(dst.cast::<u8>(), n);
                d.iter_mut().zip(s).for_each(|(d, s)| *d = (*s != S::default()) as u8);
            }
            _ => {
                let d = std::slice::from_raw_parts_mut(dst.cast::<i64>(), n);
                d.iter_mut().zip(s).for_each(|(d, s)| *d = s.to_i64());
                wrap(to, dst, n);
            }
        }
    }
}

/// Brings `n` i64 registers into the range of a narrower integer type.
///
/// # Safety
/// `reg` holds `n` i64.
pub unsafe fn wrap(dtype: DType, reg: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    let r = unsafe { std::slice::from_raw_parts_mut(reg.cast::<i64>(), n) };
    match dtype {
        DType::I32 => r.iter_mut().for_each(|x| *x = *x as i32 as i64),
        DType::I16 => r.iter_mut().for_each(|x| *x = *x as i16 as i64),
        DType::I8 => r.iter_mut().for_each(|x| *x = *x as i8 as i64),
        DType::U8 => r.iter_mut().for_each(|x| *x = *x as u8 as i64),
        _ => {}
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
