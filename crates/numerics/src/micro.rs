//! The matrix kernel behind convolution and attention: a tile of the output stays in registers
//! while the inner dimension goes by.
//!
//! Crate `gemm` is as fast on large products, but packs both operands on every call. Here the
//! callers make operands in the order the kernel reads them: rows of `B` contiguous along the
//! output's rows, elements of `A` anywhere. With AVX-512 a tile is 8 rows by 48 columns: 24 sums,
//! 3 vectors of `B`, and elements of `A` broadcast from memory.

// Indices of registers: an iterator says less, and may not unroll.
#![allow(clippy::needless_range_loop)]

use crate::simd::{Simd, dispatch_pairs};

/// A product `C (+)= A @ B` on raw memory.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const f32,
    /// Steps of `A` along `m` and `k`.
    pub a_steps: (usize, usize),
    /// Rows of `n` contiguous numbers, and the step between rows.
    pub b: *const f32,
    pub b_row: usize,
    /// Rows of `n` contiguous numbers, and the step between rows.
    pub c: *mut f32,
    pub c_row: usize,
    /// Whether to add to what `C` holds.
    pub add: bool,
}

/// Columns of the output in a tile, in vectors.
const WIDTH: usize = 3;

/// Rows of `B` that are multiplied before the next part of the output: keeps a panel of `B` in
/// the L2 cache.
const DEPTH: usize = 512;

/// One tile of `R` rows and `W` vectors, of which the last has `last` columns.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const W: usize>(
    p: &Product,
    i: usize,
    j: usize,
    k: (usize, usize),
    last: usize,
) {
    // SAFETY: the tile lies inside the product, whose pointers are valid by the caller's promise.
    unsafe {
        let (rs, ks) = p.a_steps;
        let mut a = p.a.wrapping_add(i * rs + k.0 * ks);
        let mut b = p.b.wrapping_add(k.0 * p.b_row + j);
        let c = p.c.add(i * p.c_row + j);
        let full = last == S::LANES;
        let mut sums = [[S::zero(); W]; R];
        if full {
            for _ in k.0..k.1 {
                let v: [S::V; W] = std::array::from_fn(|w| S::load(b.add(w * S::LANES)));
                for r in 0..R {
                    let x = S::splat(*a.add(r * rs));
                    for w in 0..W {
                        sums[r][w] = S::fma(x, v[w], sums[r][w]);
                    }
                }
                a = a.wrapping_add(ks);
                b = b.wrapping_add(p.b_row);
            }
        } else {
            for _ in k.0..k.1 {
                let v: [S::V; W] = std::array::from_fn(|w| {
                    let n = if w + 1 == W { last } else { S::LANES };
                    S::load_first(b.add(w * S::LANES), n)
                });
                for r in 0..R {
                    let x = S::splat(*a.add(r * rs));
                    for w in 0..W {
                        sums[r][w] = S::fma(x, v[w], sums[r][w]);
                    }
                }
                a = a.wrapping_add(ks);
                b = b.wrapping_add(p.b_row);
            }
        }
        let add = p.add || k.0 > 0;
        for r in 0..R {
            for w in 0..W {
                let at = c.add(r * p.c_row + w * S::LANES);
                let n = if w + 1 == W { last } else { S::LANES };
                if n == S::LANES {
                    let old = if add { S::load(at) } else { S::zero() };
                    S::store(at, S::add(sums[r][w], old));
                } else {
                    let old = if add { S::load_first(at, n) } else { S::zero() };
                    S::store_first(at, S::add(sums[r][w], old), n);
                }
            }
        }
    }
}

/// All rows of one panel of columns.
#[inline(always)]
unsafe fn panel<S: Simd, const W: usize>(p: &Product, j: usize, k: (usize, usize), last: usize) {
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        if S::ROWS == 8 {
            while i + 8 <= p.m {
                tile::<S, 8, W>(p, i, j, k, last);
                i += 8;
            }
        }
        while i + 4 <= p.m {
            tile::<S, 4, W>(p, i, j, k, last);
            i += 4;
        }
        if i + 2 <= p.m {
            tile::<S, 2, W>(p, i, j, k, last);
            i += 2;
        }
        if i < p.m {
            tile::<S, 1, W>(p, i, j, k, last);
        }
    }
}

#[inline(always)]
unsafe fn product_body<S: Simd>(p: &Product) {
    let mut k = 0;
    loop {
        let depth = (p.k - k).min(DEPTH);
        let depth = if p.k - k - depth < DEPTH / 4 { p.k - k } else { depth };
        let ks = (k, k + depth);
        let mut j = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while j < p.n {
                let left = p.n - j;
                // Four vectors are two and two: a panel of one keeps the kernel waiting for loads.
                let vectors = match left.div_ceil(S::LANES) {
                    4 => 2,
                    n => n.min(WIDTH),
                };
                let last = (left - (vectors - 1) * S::LANES).min(S::LANES);
                match vectors {
                    3 => panel::<S, 3>(p, j, ks, last),
                    2 => panel::<S, 2>(p, j, ks, last),
                    _ => panel::<S, 1>(p, j, ks, last),
                }
                j += vectors * S::LANES;
            }
        }
        k += depth;
        if k >= p.k {
            return;
        }
    }
}

dispatch_pairs! {
    /// Runs a product on this thread. Every element of `C` is one sum over `k` in order (in a few
    /// parts of fixed length).
    ///
    /// # Safety
    ///
    /// All elements of the three matrices must lie in memory that may be read and, for `C`, written
    /// by this thread alone.
    pub(crate) unsafe fn product = product_body(p: &Product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::testing::Random;

    #[test]
    fn products_of_all_sizes() {
        let mut r = Random(5);
        for isa in Isa::every() {
            for _ in 0..200 {
                let (m, n, k) = (1 + r.below(20), 1 + r.below(110), r.below(70));
                let k = if r.below(10) == 0 { 600 + k } else { k };
                let (bs, cs) = (n + r.below(3), n + r.below(3));
                let (a, b) = (r.f32s(m * k), r.f32s((k * bs).saturating_sub(bs - n)));
                let first = r.f32s(m * cs - (cs - n));
                let mut c = first.clone();
                let transposed = r.below(2) == 1;
                let a_steps = if transposed { (1, m) } else { (k, 1) };
                let add = r.below(2) == 1;
                let p = Product {
                    m,
                    n,
                    k,
                    a: a.as_ptr(),
                    a_steps,
                    b: b.as_ptr(),
                    b_row: bs,
                    c: c.as_mut_ptr(),
                    c_row: cs,
                    add,
                };
                // SAFETY: the slices have these sizes.
                unsafe { product(isa, &p) };
                for i in 0..c.len() {
                    let (row, column) = (i / cs, i % cs);
                    let expected: f64 = if column < n {
                        let dot: f64 = (0..k)
                            .map(|p| f64::from(a[row * a_steps.0 + p * a_steps.1]) * f64::from(b[p * bs + column]))
                            .sum();
                        dot + if add { f64::from(first[i]) } else { 0.0 }
                    } else {
                        f64::from(first[i])
                    };
                    assert!(
                        (f64::from(c[i]) - expected).abs() < 1e-4,
                        "{isa:?} {m} {n} {k} at {i}: {} {expected}",
                        c[i]
                    );
                }
            }
        }
    }
}
