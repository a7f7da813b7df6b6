//! Products of 16-bit numbers: sums in `f32`, rounded once.
//!
//! Where the CPU multiplies pairs of `bf16` ([`pairs`](super::pairs)), it does; vectors by matrices are read once and widened in
//! registers ([`thin`](super::thin)); all others are widened and multiplied in `f32`.

use super::{Dims, Gemm, Layout, Operand, Out, product_into, sealed};
use crate::element::Num;
use crate::scratch;
use crate::tasks::{Shared, for_tasks};
use ::half::{bf16, f16};

/// A number of 16 bits that is widened by a conversion.
pub trait Half: Gemm + Send + Sync {
    /// Whether it is the upper half of an `f32`.
    const TRUNCATED: bool;
    /// Widens numbers one by one.
    fn widen_all(from: &[Self], to: &mut [f32]);
    /// Rounds numbers one by one.
    fn round_all(from: &[f32], to: &mut [Self]);
}

/// Numbers of a task that converts.
const CHUNK: usize = 1 << 14;

/// All numbers of `from` as `f32`, over threads.
///
/// ```
/// use gradus_numerics::gemm::{narrow, wide};
/// use half::bf16;
/// let (mut f, mut b) = ([0.0; 2], [bf16::ZERO; 2]);
/// wide(&[bf16::ONE, bf16::from_f32(-0.5)], &mut f);
/// assert_eq!(f, [1.0, -0.5]);
/// narrow(&f, &mut b);
/// assert_eq!(b[1].to_f32(), -0.5);
/// ```
pub fn wide<T: Half>(from: &[T], to: &mut [f32]) {
    assert!(from.len() == to.len(), "as many numbers");
    let out = Shared::new(to);
    for_tasks(from.len().div_ceil(CHUNK), true, |t| {
        let part = &from[t * CHUNK..from.len().min((t + 1) * CHUNK)];
        // SAFETY: chunks are disjoint parts of what is borrowed exclusively.
        T::widen_all(part, unsafe { std::slice::from_raw_parts_mut(out.ptr().add(t * CHUNK), part.len()) });
    });
}

/// All numbers of `from`, rounded, over threads.
pub fn narrow<T: Half>(from: &[f32], to: &mut [T]) {
    assert!(from.len() == to.len(), "as many numbers");
    let out = Shared::new(to);
    for_tasks(from.len().div_ceil(CHUNK), true, |t| {
        let part = &from[t * CHUNK..from.len().min((t + 1) * CHUNK)];
        // SAFETY: chunks are disjoint parts of what is borrowed exclusively.
        T::round_all(part, unsafe { std::slice::from_raw_parts_mut(out.ptr().add(t * CHUNK), part.len()) });
    });
}

/// Widens a matrix to contiguous rows, or columns where those are contiguous, and says which.
fn widen<T: Half>(m: usize, n: usize, a: Operand<T>, to: &mut [f32], parallel: bool) -> Layout {
    if m == 0 || n == 0 {
        return Layout::row_major(n);
    }
    if a.layout.cs != 1 && a.layout.rs == 1 {
        let turned = Operand::new(a.data, a.layout.transposed());
        return widen(n, m, turned, to, parallel).transposed();
    }
    let rows = CHUNK.div_ceil(n);
    let out = Shared::new(to);
    for_tasks(m.div_ceil(rows), parallel, |t| {
        let mut line = Vec::new();
        for i in t * rows..m.min((t + 1) * rows) {
            // SAFETY: rows are disjoint parts of what is borrowed exclusively.
            let to = unsafe { std::slice::from_raw_parts_mut(out.ptr().add(i * n), n) };
            if a.layout.cs == 1 {
                T::widen_all(&a.data[a.layout.position(i, 0)..][..n], to);
            } else {
                line.clear();
                line.extend((0..n).map(|j| a.data[a.layout.position(i, j)]));
                T::widen_all(&line, to);
            }
        }
    });
    Layout::row_major(n)
}

/// `C = A @ B` by instructions for 16-bit numbers, if there are some for these sizes.
///
/// # Safety
///
/// As `Product::product`.
#[allow(unused_variables)]
unsafe fn native<T: Half>(d: Dims, a: Operand<T>, b: Operand<T>, c: *mut T, lc: Layout, parallel: bool) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: by the caller's promise; a product is the transpose of the transposes' product.
        return unsafe {
            let pairs = || T::TRUNCATED && super::pairs::run(d, a, b, c, lc, parallel);
            d.n < 4 && super::pairs::is_short(d, &a) && pairs() || super::thin::run(d, a, b, c, lc, parallel) || pairs()
        };
    }
    #[allow(unreachable_code)]
    false
}

macro_rules! half_precision {
    ($($t:ident $truncated:literal),*) => {$(
        impl Half for $t {
            const TRUNCATED: bool = $truncated;
            fn widen_all(from: &[$t], to: &mut [f32]) {
                Num::widen_block(from, to);
            }
            fn round_all(from: &[f32], to: &mut [$t]) {
                Num::narrow_block(from, to);
            }
        }
        impl sealed::Product for $t {
            unsafe fn product(
                d: Dims,
                alpha: $t,
                a: Operand<$t>,
                b: Operand<$t>,
                beta: $t,
                c: *mut $t,
                lc: Layout,
                parallel: bool,
            ) {
                let (m, n, k) = (d.m, d.n, d.k);
                // SAFETY: by the caller's promise.
                if alpha == $t::ONE && beta == $t::ZERO && k > 0 && unsafe { native(d, a, b, c, lc, parallel) } {
                    return;
                }
                // Both operands widened in the order they lie in, then as a product of those.
                let (mut wide_a, mut wide_b) = (scratch::take(m * k), scratch::take(k * n));
                let la = widen(m, k, a, &mut wide_a, parallel);
                let lb = widen(k, n, b, &mut wide_b, parallel);
                let mut wide = scratch::take(m * n);
                let out = Out::new(&mut wide[..]);
                // SAFETY: `wide` is ours and as large as its layout says.
                unsafe {
                    let (a, b) = (Operand::new(&wide_a[..], la), Operand::new(&wide_b[..], lb));
                    product_into(d, 1.0, a, b, 0.0, &out, Layout::row_major(n), parallel);
                }
                let (alpha, plain) = (alpha.to_f32(), beta == $t::ZERO && lc.cs == 1);
                if alpha != 1.0 {
                    wide.iter_mut().for_each(|x| *x *= alpha);
                }
                let (rows, wide, out) = (CHUNK.div_ceil(n.max(1)), &wide[..], Shared::wrap(c));
                for_tasks(m.div_ceil(rows), parallel, |t| {
                    for i in t * rows..m.min((t + 1) * rows) {
                        let row = &wide[i * n..][..n];
                        // SAFETY: the positions are inside the output, which is ours alone.
                        unsafe {
                            if plain {
                                let to = std::slice::from_raw_parts_mut(out.ptr().add(lc.position(i, 0)), n);
                                Num::narrow_block(row, to);
                                continue;
                            }
                            for (j, x) in row.iter().enumerate() {
                                let c = out.ptr().add(lc.position(i, j));
                                let old = if beta == $t::ZERO { 0.0 } else { beta.to_f32() * (*c).to_f32() };
                                *c = $t::from_f32(x + old);
                            }
                        }
                    }
                });
            }
        }
        impl Gemm for $t {}
    )*};
}

half_precision!(f16 false, bf16 true);

#[cfg(test)]
mod tests;
