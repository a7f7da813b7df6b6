//! Arrays woven into one: the first elements of all, then the second ones, and so on. What `stack` along the last axis is.

/// Writes element `i` of part `k` to `out[i * parts.len() + k]`.
///
/// ```
/// let mut out = [0; 6];
/// gradus_numerics::weave::weave(&[&[1, 2, 3], &[10, 20, 30]], &mut out);
/// assert_eq!(out, [1, 10, 2, 20, 3, 30]);
/// ```
pub fn weave<T: Copy>(parts: &[&[T]], out: &mut [T]) {
    let n = parts.first().map_or(0, |p| p.len());
    assert!(
        parts.iter().all(|p| p.len() == n) && out.len() == n * parts.len(),
        "parts of one length, and room for all"
    );
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Isa::detect() == crate::simd::Isa::Avx512 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn wide<T: Copy>(parts: &[&[T]], out: &mut [T]) {
            all(parts, out);
        }
        // SAFETY: the instructions are there.
        return unsafe { wide(parts, out) };
    }
    all(parts, out);
}

#[inline(always)]
fn all<T: Copy>(parts: &[&[T]], out: &mut [T]) {
    match *parts {
        [a, b] => few([a, b], out),
        [a, b, c] => few([a, b, c], out),
        [a, b, c, d] => few([a, b, c, d], out),
        _ => {
            for (i, row) in out.chunks_exact_mut(parts.len().max(1)).enumerate() {
                row.iter_mut().zip(parts).for_each(|(to, part)| *to = part[i]);
            }
        }
    }
}

/// So many parts that the compiler makes shuffles of it.
#[inline(always)]
fn few<T: Copy, const K: usize>(parts: [&[T]; K], out: &mut [T]) {
    let (rows, _) = out.as_chunks_mut::<K>();
    let parts = parts.map(|p| &p[..rows.len()]);
    for (i, row) in rows.iter_mut().enumerate() {
        *row = std::array::from_fn(|k| parts[k][i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_goes_to_its_place() {
        for k in 1..8 {
            for n in [0, 1, 5, 64, 131] {
                let parts: Vec<Vec<u32>> = (0..k).map(|p| (0..n).map(|i| (1000 * p + i) as u32).collect()).collect();
                let mut out = vec![0; k * n];
                weave(&parts.iter().map(|p| &p[..]).collect::<Vec<_>>(), &mut out);
                assert!(
                    out.iter().enumerate().all(|(at, &x)| x as usize == at % k * 1000 + at / k),
                    "{k} parts of {n}"
                );
            }
        }
    }
}
