//! Loads that are more than a run of a buffer: look-ups, positions and random numbers.

use super::{
    convert::{bf16_value, f16_value},
    transfer::{self, Run, by_width},
};
use crate::{
    DType, Result,
    kernel::{oracle::out_of_range, rand},
};

/// A look-up: the block of indices, elements a step of the index, and how many there are.
pub type Lookup = (*const i64, isize, usize);

/// Loads where part of the address is looked up: `index[i] * stride` is added for each look-up.
///
/// # Safety
/// As [`transfer::load`], for the addresses with look-ups inside their sizes; each index register block holds `len` i64.
pub unsafe fn gather(dtype: DType, base: *const u8, run: Run, lookups: &[Lookup], dst: *mut u8) -> Result<()> {
    let inner = Run { start: run.start + run.step * run.lo as isize, len: run.hi - run.lo, lo: 0, hi: 0, ..run };
    // SAFETY: every look-up is checked against its size before an address is used.
    unsafe {
        if inner.len == 0 {
            transfer::load(dtype, base, run, dst);
            return Ok(());
        }
        let mut start = inner.start;
        let mut moving: smallvec::SmallVec<[Lookup; 2]> = smallvec::SmallVec::new();
        for &(index, stride, n) in lookups {
            let index = index.add(run.lo);
            match look(index, inner.len, n) {
                Found::Outside => return Err(first_outside(inner.len, run.lo, lookups)),
                Found::One => start += *index as isize * stride,
                Found::Many => moving.push((index, stride, n)),
            }
        }
        if moving.is_empty() {
            // The same place for all of them, as where whole rows are looked up.
            let whole = Run { start: start - run.step * run.lo as isize, ..run };
            transfer::load(dtype, base, whole, dst);
            return Ok(());
        }
        let size = dtype.compute().size();
        let nothing = Run { start: 0, step: 0, len: run.lo, lo: 0, hi: 0 };
        transfer::load(dtype, base, nothing, dst);
        transfer::load(dtype, base, Run { len: run.len - run.hi, ..nothing }, dst.add(run.hi * size));
        pick(dtype, base, Run { start, ..inner }, &moving, dst.add(run.lo * size));
    }
    Ok(())
}

/// What a block of indices holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The same index throughout.
    One,
    /// Several.
    Many,
    /// One that is not below the size.
    Outside,
}

by_width! {
    /// Looks through a block of indices.
    ///
    /// # Safety
    /// `index` holds `len` of them, one or more.
    pub unsafe fn look(index: *const i64, len: usize, size: usize) -> Found = look_any
}

#[inline(always)]
unsafe fn look_any(index: *const i64, len: usize, size: usize) -> Found {
    // SAFETY: the caller's promise.
    let index = unsafe { std::slice::from_raw_parts(index, len) };
    let first = index.first().copied().unwrap_or(0);
    let (mut most, mut differ) = (0, 0);
    for &k in index {
        most = most.max(k as u64);
        differ |= k ^ first;
    }
    match (most >= size as u64, differ) {
        (true, _) => Found::Outside,
        (false, 0) => Found::One,
        (false, _) => Found::Many,
    }
}

/// The error for the first index that lies outside.
///
/// # Safety
/// As [`gather`].
#[cold]
unsafe fn first_outside(len: usize, lo: usize, lookups: &[Lookup]) -> crate::Error {
    for i in lo..lo + len {
        for &(index, _, n) in lookups {
            // SAFETY: the caller's promise.
            let k = unsafe { *index.add(i) };
            if k < 0 || k as u64 >= n as u64 {
                return out_of_range(k, n);
            }
        }
    }
    out_of_range(0, 0)
}

by_width! {
    /// Loads one by one, for indices that are known to be inside.
    ///
    /// # Safety
    /// As [`gather`].
    pub unsafe fn pick(dtype: DType, base: *const u8, run: Run, lookups: &[Lookup], dst: *mut u8) = pick_any
}

#[inline(always)]
unsafe fn pick_any(dtype: DType, base: *const u8, run: Run, lookups: &[Lookup], dst: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::F32 => each::<f32, f32>(base, run, lookups, dst, |x| x),
            DType::F64 => each::<f64, f64>(base, run, lookups, dst, |x| x),
            DType::I64 => each::<i64, i64>(base, run, lookups, dst, |x| x),
            DType::Bool => each::<u8, u8>(base, run, lookups, dst, |x| (x != 0) as u8),
            DType::F16 => each::<u16, f32>(base, run, lookups, dst, f16_value),
            DType::BF16 => each::<u16, f32>(base, run, lookups, dst, bf16_value),
            DType::I32 => each::<i32, i64>(base, run, lookups, dst, |x| x as i64),
            DType::I16 => each::<i16, i64>(base, run, lookups, dst, |x| x as i64),
            DType::I8 => each::<i8, i64>(base, run, lookups, dst, |x| x as i64),
            DType::U8 => each::<u8, i64>(base, run, lookups, dst, |x| x as i64),
        }
    }
}

#[inline(always)]
unsafe fn each<S: Copy, R>(base: *const u8, run: Run, lookups: &[Lookup], dst: *mut u8, f: impl Fn(S) -> R) {
    let src = base.cast::<S>();
    // SAFETY: the caller's promise.
    unsafe {
        let d = std::slice::from_raw_parts_mut(dst.cast::<R>(), run.len);
        if let [(index, stride, _)] = *lookups {
            let index = std::slice::from_raw_parts(index, run.len);
            if run.step == 0 && stride == 1 {
                // Along the axis that is looked up: an index is an address.
                let src = src.offset(run.start);
                d.iter_mut().zip(index).for_each(|(d, &k)| *d = f(*src.offset(k as isize)));
                return;
            }
            for (i, (d, &k)) in d.iter_mut().zip(index).enumerate() {
                *d = f(*src.offset(run.start + run.step * i as isize + k as isize * stride));
            }
            return;
        }
        for (i, d) in d.iter_mut().enumerate() {
            let far: isize = lookups.iter().map(|&(index, stride, _)| *index.add(i) as isize * stride).sum();
            *d = f(*src.offset(run.start + run.step * i as isize + far));
        }
    }
}

by_width! {
    /// Registers of the addresses themselves.
    ///
    /// # Safety
    /// `dst` has room for `len` i64.
    pub unsafe fn iota(run: Run, dst: *mut u8) = iota_any
}

#[inline(always)]
unsafe fn iota_any(run: Run, dst: *mut u8) {
    // SAFETY: the caller's promise.
    let d = unsafe { std::slice::from_raw_parts_mut(dst.cast::<i64>(), run.len) };
    d[..run.lo].fill(0);
    d[run.hi..].fill(0);
    for (i, d) in d[run.lo..run.hi].iter_mut().enumerate() {
        *d = (run.start + run.step * (run.lo + i) as isize) as i64;
    }
}

/// Numbers by address; where those follow each other, all `n` of a counter at once. (As a function of functions, these would
/// not be inlined, and so not vectorised.)
macro_rules! numbers {
    ($run:ident, $d:ident, $n:literal, $one:path, $all:path, $stream:ident, $seed:ident) => {
        $d[..$run.lo].fill(0.0);
        $d[$run.hi..].fill(0.0);
        let first = $run.start + $run.step * $run.lo as isize;
        let d = &mut $d[$run.lo..$run.hi];
        let head = if $run.step == 1 { (first.wrapping_neg() as usize % $n).min(d.len()) } else { d.len() };
        let (head, rest) = d.split_at_mut(head);
        for (i, d) in head.iter_mut().enumerate() {
            *d = $one((first + $run.step * i as isize) as u64, $stream, $seed);
        }
        let first = first as u64 + head.len() as u64;
        let (groups, tail) = rest.as_chunks_mut::<$n>();
        let after = first + (groups.len() * $n) as u64;
        for (i, d) in groups.iter_mut().enumerate() {
            *d = $all(first / $n + i as u64, $stream, $seed);
        }
        for (i, d) in tail.iter_mut().enumerate() {
            *d = $one(after + i as u64, $stream, $seed);
        }
    };
}

by_width! {
    /// Registers of uniform numbers by address.
    ///
    /// # Safety
    /// `dst` has room for `len` numbers of `dtype` (f32 or f64).
    pub unsafe fn uniform(dtype: DType, run: Run, stream: u64, seed: u64, dst: *mut u8) = uniform_any
}

#[inline(always)]
unsafe fn uniform_any(dtype: DType, run: Run, stream: u64, seed: u64, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if dtype == DType::F64 {
            let d = std::slice::from_raw_parts_mut(dst.cast::<f64>(), run.len);
            numbers!(run, d, 2, rand::uniform_f64, rand::two_f64, stream, seed);
        } else {
            let d = std::slice::from_raw_parts_mut(dst.cast::<f32>(), run.len);
            numbers!(run, d, 4, rand::uniform_f32, rand::four_f32, stream, seed);
        }
    }
}
