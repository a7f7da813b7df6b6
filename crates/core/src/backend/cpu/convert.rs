//! Conversions of type, a block at a time: what memory holds in 16 bits, and casts between registers.

use super::transfer::by_width;
use crate::{DType, Element};

/// The number in 16 bits of half precision, as the hardware's conversion gives it: NaNs become quiet.
#[inline(always)]
pub fn f16_value(h: u16) -> f32 {
    let x = h as u32;
    let (sign, rest) = ((x & 0x8000) << 16, (x & 0x7fff) << 13);
    // 2^112 moves the exponent; subnormal numbers come out right as well, exactly.
    let finite = (f32::from_bits(rest) * f32::from_bits(0x7780_0000)).to_bits();
    let quiet = if x & 0x03ff != 0 { 0x0040_0000 } else { 0 };
    let bits = if x & 0x7c00 == 0x7c00 { rest | 0x7f80_0000 | quiet } else { finite };
    f32::from_bits(bits | sign)
}

/// The 16 bits of half precision nearest to a number, halves to even.
#[inline(always)]
pub fn f16_bits(x: f32) -> u16 {
    let b = x.to_bits();
    let (sign, a) = (b >> 16 & 0x8000, b & 0x7fff_ffff);
    // 112 off the exponent, and half of what is cut away added; a number that is not below 65520 becomes infinite.
    let normal = a.wrapping_add(0xfff + (a >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    let normal = if a >= 0x477f_f000 { 0x7c00 } else { normal };
    // Below 2^-14 the steps are those of a float at one half: the addition rounds.
    let small = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let nan = 0x7e00 | (a >> 13 & 0x3ff);
    let finite = if a < 0x3880_0000 { small } else { normal };
    (if a > 0x7f80_0000 { nan } else { finite } | sign) as u16
}

/// The number whose upper half these 16 bits are; NaNs become quiet.
#[inline(always)]
pub fn bf16_value(h: u16) -> f32 {
    let quiet = if h & 0x7fff > 0x7f80 { 0x40 } else { 0 };
    f32::from_bits(((h | quiet) as u32) << 16)
}

/// The upper half of the nearest number that has no lower one, halves to even.
#[inline(always)]
pub fn bf16_bits(x: f32) -> u16 {
    let b = x.to_bits();
    let near = b.wrapping_add(0x7fff + (b >> 16 & 1)) >> 16;
    (if b & 0x7fff_ffff > 0x7f80_0000 { b >> 16 | 0x40 } else { near }) as u16
}

macro_rules! truncated {
    ($name:ident, $t:ty) => {
        /// What `as i64` gives, in a form that becomes vector code: the nearest that there is, 0 for NaN.
        #[inline(always)]
        fn $name(x: $t) -> i64 {
            const FAR: $t = 9_223_372_036_854_775_808.0;
            let large = x >= FAR;
            let fits = if large || x.is_nan() { 0.0 } else { x };
            let fits = if fits < -FAR { -FAR } else { fits };
            // SAFETY: it is a number from -2^63 to below 2^63.
            let whole = unsafe { fits.to_int_unchecked::<i64>() };
            if large { i64::MAX } else { whole }
        }
    };
}
truncated!(truncated_f32, f32);
truncated!(truncated_f64, f64);

by_width! {
    /// Converts `n` registers from one element type to another.
    ///
    /// # Safety
    /// `src` and `dst` hold `n` registers of their types and do not overlap.
    pub unsafe fn cast(from: DType, to: DType, src: *const u8, dst: *mut u8, n: usize) = cast_any
}

#[inline(always)]
unsafe fn cast_any(from: DType, to: DType, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: passed on.
    unsafe {
        match from.compute() {
            DType::F32 => match to {
                // A float of 32 bits is rounded once, straight to 16.
                DType::F16 => map(src, dst, n, |x: f32| f16_value(f16_bits(x))),
                DType::BF16 => map(src, dst, n, |x: f32| bf16_value(bf16_bits(x))),
                DType::F32 => map(src, dst, n, |x: f32| x),
                _ if to.is_int() => {
                    map(src, dst, n, truncated_f32);
                    wrap_any(to, dst, n);
                }
                _ => cast_from::<f32>(to, src, dst, n),
            },
            DType::F64 if to.is_int() => {
                map(src, dst, n, truncated_f64);
                wrap_any(to, dst, n);
            }
            DType::F64 => cast_from::<f64>(to, src, dst, n),
            DType::Bool => match to.compute() {
                DType::F32 => map(src, dst, n, |x: bool| x as u8 as f32),
                _ => cast_from::<bool>(to, src, dst, n),
            },
            _ => cast_from::<i64>(to, src, dst, n),
        }
    }
}

#[inline(always)]
unsafe fn map<S: Copy, R>(src: *const u8, dst: *mut u8, n: usize, f: impl Fn(S) -> R) {
    // SAFETY: the caller's promise.
    let (s, d) =
        unsafe { (std::slice::from_raw_parts(src.cast::<S>(), n), std::slice::from_raw_parts_mut(dst.cast::<R>(), n)) };
    for (d, s) in d.iter_mut().zip(s) {
        *d = f(*s);
    }
}

#[inline(always)]
unsafe fn cast_from<S: Element>(to: DType, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match to.compute() {
            DType::F32 => match to {
                // Through a float, as PyTorch does.
                DType::F16 => map(src, dst, n, |s: S| f16_value(f16_bits(s.to_f64() as f32))),
                DType::BF16 => map(src, dst, n, |s: S| bf16_value(bf16_bits(s.to_f64() as f32))),
                _ => map(src, dst, n, |s: S| s.to_f64() as f32),
            },
            DType::F64 => map(src, dst, n, |s: S| s.to_f64()),
            DType::Bool => map(src, dst, n, |s: S| (s != S::default()) as u8),
            _ => {
                map(src, dst, n, |s: S| s.to_i64());
                wrap_any(to, dst, n);
            }
        }
    }
}

by_width! {
    /// Brings `n` i64 registers into the range of a narrower integer type.
    ///
    /// # Safety
    /// `reg` holds `n` i64.
    pub unsafe fn wrap(dtype: DType, reg: *mut u8, n: usize) = wrap_any
}

#[inline(always)]
unsafe fn wrap_any(dtype: DType, reg: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    let r = unsafe { std::slice::from_raw_parts_mut(reg.cast::<i64>(), n) };
    match dtype {
        DType::I32 => r.iter_mut().for_each(|x| *x = *x as i32 as i64),
        DType::I16 => r.iter_mut().for_each(|x| *x = *x as i16 as i64),
        DType::I8 => r.iter_mut().for_each(|x| *x = *x as i8 as i64),
        DType::U8 => r.iter_mut().for_each(|x| *x = *x as u8 as i64),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::I64 | DType::Bool => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_is_that_of_the_language() {
        for b in (0..=u32::MAX).step_by(4099) {
            let x = f32::from_bits(b);
            assert_eq!(truncated_f32(x), x as i64, "{x}");
            let x = f64::from_bits((b as u64) << 32 | b as u64);
            assert_eq!(truncated_f64(x), x as i64, "{x}");
        }
        for x in [9.223_372e18f32, -9.223_372e18, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.5, 1e19, -1e19] {
            assert_eq!((truncated_f32(x), truncated_f64(x as f64)), (x as i64, x as f64 as i64), "{x}");
        }
    }

    #[test]
    fn sixteen_bits_convert_as_the_reference_does() {
        for h in 0..=u16::MAX {
            assert_eq!(f16_value(h).to_bits(), half::f16::from_bits(h).to_f32().to_bits(), "{h:x}");
            assert_eq!(bf16_value(h).to_bits(), half::bf16::from_bits(h).to_f32().to_bits(), "{h:x}");
        }
        let edges =
            [0x387f_ffff, 0x3880_0000, 0x477f_efff, 0x477f_f000, 0x7f80_0000, 0x7f80_0001, 0x3300_0000, 0x3300_0001];
        for b in (0..=u32::MAX).step_by(997).chain(edges) {
            for b in [b, b ^ 0x8000_0000] {
                let x = f32::from_bits(b);
                assert_eq!(f16_bits(x), half::f16::from_f32(x).to_bits(), "{b:x}");
                assert_eq!(bf16_bits(x), half::bf16::from_f32(x).to_bits(), "{b:x}");
            }
        }
    }
}
