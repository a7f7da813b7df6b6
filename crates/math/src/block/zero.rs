//! Whether there is a zero among integers: what a division asks before it divides.

/// Whether one of them is zero.
///
/// ```
/// assert!(gradus_math::block::any_zero(&[3, 0, 5]));
/// ```
pub fn any_zero(x: &[i64]) -> bool {
    #[inline(always)]
    fn all(x: &[i64]) -> bool {
        // Without an exit in the middle: vectors.
        x.iter().fold(false, |found, &x| found | (x == 0))
    }
    #[cfg(target_arch = "x86_64")]
    if super::Isa::detect() == super::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide(x: &[i64]) -> bool {
            all(x)
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(x) };
    }
    all(x)
}

#[cfg(test)]
mod tests {
    use super::any_zero;

    #[test]
    fn a_zero_anywhere_is_found() {
        for n in 0..70 {
            let mut x: Vec<i64> = (0..n).map(|i| (i + 1) << 32).collect();
            assert!(!any_zero(&x));
            for i in 0..x.len() {
                let before = std::mem::replace(&mut x[i], 0);
                assert!(any_zero(&x), "{i} of {n}");
                x[i] = before;
            }
        }
    }
}
