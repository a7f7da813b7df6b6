//! Functions by parts over a block: where registers can look coefficients up, that is done by hand, since a compiler makes
//! sixteen loads of each look-up.

use super::{Block, BlockFn};
use crate::f32::parts::{self, Parts};

/// A function that has a table.
trait Looked<const N: usize> {
    const PARTS: &'static Parts<N>;
}

struct Erf;
impl Looked<6> for Erf {
    const PARTS: &'static Parts<6> = &parts::ERF;
}

struct Tanh;
impl Looked<8> for Tanh {
    const PARTS: &'static Parts<8> = &parts::TANH;
}

/// [`crate::f32::erf`] over a block.
pub const ERF: Block = block::<Erf, 6>();
/// [`crate::f32::tanh`] over a block.
pub const TANH: Block = block::<Tanh, 8>();

const fn block<F: Looked<N>, const N: usize>() -> Block {
    let base: BlockFn = base::<F, N>;
    #[cfg(target_arch = "x86_64")]
    return Block { avx512: x86::wide::<F, N>, avx2: x86::middle::<F, N>, base };
    #[cfg(not(target_arch = "x86_64"))]
    Block { avx512: base, avx2: base, base }
}

unsafe fn base<F: Looked<N>, const N: usize>(dst: *mut u8, src: [*const u8; 3], n: usize) {
    // SAFETY: the caller of a BlockFn promises n valid elements of these types, and no overlap.
    let (d, x) = unsafe {
        (std::slice::from_raw_parts_mut(dst.cast::<f32>(), n), std::slice::from_raw_parts(src[0].cast::<f32>(), n))
    };
    for (d, x) in d.iter_mut().zip(x) {
        *d = F::PARTS.at(*x);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Looked;
    use crate::f32::coefficients::MAGIC;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub unsafe fn wide<F: Looked<N>, const N: usize>(dst: *mut u8, src: [*const u8; 3], n: usize) {
        let (whole, p) = (n - n % 16, F::PARTS);
        // SAFETY: the caller of a BlockFn promises n valid floats; tables hold sixteen.
        unsafe {
            let (d, s) = (dst.cast::<f32>(), src[0].cast::<f32>());
            let tables: [__m512; N] = std::array::from_fn(|i| _mm512_loadu_ps(p.tables[i].0.as_ptr()));
            let sign = _mm512_set1_ps(-0.0);
            let magic = _mm512_set1_ps(MAGIC);
            for i in (0..whole).step_by(16) {
                let x = _mm512_loadu_ps(s.add(i));
                let a = _mm512_min_ps(_mm512_set1_ps(p.top), _mm512_andnot_ps(sign, x));
                let k = _mm512_fmadd_ps(a, _mm512_set1_ps(p.parts), magic);
                let part = _mm512_sub_ps(k, magic);
                let t = _mm512_fnmadd_ps(part, _mm512_set1_ps(p.width), a);
                let at = _mm512_castps_si512(k);
                let mut q = _mm512_permutexvar_ps(at, tables[N - 1]);
                for j in (1..N - 1).rev() {
                    q = _mm512_fmadd_ps(q, t, _mm512_permutexvar_ps(at, tables[j]));
                }
                let near = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(part, _mm512_setzero_ps());
                let first = _mm512_mask_mov_ps(_mm512_permutexvar_ps(at, tables[0]), near, t);
                let y = _mm512_fmadd_ps(q, t, first);
                _mm512_storeu_ps(d.add(i), _mm512_or_ps(_mm512_andnot_ps(sign, y), _mm512_and_ps(sign, x)));
            }
            super::base::<F, N>(d.add(whole).cast(), [s.add(whole).cast(); 3], n - whole);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn middle<F: Looked<N>, const N: usize>(dst: *mut u8, src: [*const u8; 3], n: usize) {
        let (whole, p) = (n - n % 8, F::PARTS);
        // SAFETY: the caller of a BlockFn promises n valid floats; tables hold sixteen.
        unsafe {
            let (d, s) = (dst.cast::<f32>(), src[0].cast::<f32>());
            let sign = _mm256_set1_ps(-0.0);
            let magic = _mm256_set1_ps(MAGIC);
            for i in (0..whole).step_by(8) {
                let x = _mm256_loadu_ps(s.add(i));
                let a = _mm256_min_ps(_mm256_set1_ps(p.top), _mm256_andnot_ps(sign, x));
                let k = _mm256_fmadd_ps(a, _mm256_set1_ps(p.parts), magic);
                let part = _mm256_sub_ps(k, magic);
                let t = _mm256_fnmadd_ps(part, _mm256_set1_ps(p.width), a);
                let at = _mm256_castps_si256(k);
                // The fourth bit of a place tells the half of the table it is in.
                let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
                let find = |j: usize| {
                    let table = p.tables[j].0.as_ptr();
                    let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
                    let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.add(8)), at);
                    _mm256_blendv_ps(low, high, upper)
                };
                let mut q = find(N - 1);
                for j in (1..N - 1).rev() {
                    q = _mm256_fmadd_ps(q, t, find(j));
                }
                let near = _mm256_cmp_ps::<_CMP_EQ_OQ>(part, _mm256_setzero_ps());
                let y = _mm256_fmadd_ps(q, t, _mm256_blendv_ps(find(0), t, near));
                _mm256_storeu_ps(d.add(i), _mm256_or_ps(_mm256_andnot_ps(sign, y), _mm256_and_ps(sign, x)));
            }
            super::base::<F, N>(d.add(whole).cast(), [s.add(whole).cast(); 3], n - whole);
        }
    }
}
