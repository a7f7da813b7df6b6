//! Products in `f32` with an epilogue, and those with a short side.

use super::blocked::Blocked;
use super::small::Small;
use super::tile::Tiled;
use super::{BatchOffset, Dims, Gemm, Layout, Operand, Out, product_then};
use crate::epilogue::Epilogue;
use crate::gemv::{SHORT, Strided, short_rows};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::Shared;
use std::any::TypeId;
use std::ops::Range;

/// The operand as numbers of type `U`, if that is what they are.
pub(super) fn strided<T: Gemm, U: 'static>(x: Operand<'_, T>) -> Option<Strided<'_, U>> {
    (TypeId::of::<T>() == TypeId::of::<U>()).then(|| Strided {
        // SAFETY: the types are the same.
        data: unsafe { std::slice::from_raw_parts(x.data.as_ptr().cast(), x.data.len()) },
        offset: x.layout.offset,
        rs: x.layout.rs,
        cs: x.layout.cs,
    })
}

/// Runs a product by vectors or by panels; `false` leaves it to crate `gemm`.
///
/// # Safety
///
/// As [`product_into`], whose assertions were made.
pub(super) unsafe fn special<T: Gemm>(
    d: Dims,
    a: Operand<T>,
    b: Operand<T>,
    c: &Out<T>,
    lc: Layout,
    parallel: bool,
) -> bool {
    let here = Layout { offset: 0, ..lc };
    if let (Some(a), Some(b)) = (strided(a), strided(b)) {
        // SAFETY: by the caller's promise.
        return unsafe { of_type::<f64>(d, a, b, c.ptr.cast::<f64>().wrapping_add(lc.offset), here, parallel) };
    }
    let (Some(a), Some(b)) = (strided(a), strided(b)) else { return false };
    // SAFETY: by the caller's promise.
    unsafe { of_type::<f32>(d, a, b, c.ptr.cast::<f32>().wrapping_add(lc.offset), here, parallel) }
}

/// The same, of a type that there are kernels for.
unsafe fn of_type<T: Tiled>(
    d: Dims,
    a: Strided<'_, T>,
    b: Strided<'_, T>,
    c: *mut T,
    lc: Layout,
    parallel: bool,
) -> bool {
    // SAFETY: by the caller's promise; a product is the transpose of the transposes' product.
    unsafe {
        (d.m <= SHORT && short_rows((d.m, d.n, d.k), a, b, c, lc.rs, lc.cs, parallel))
            || (d.n <= SHORT && short_rows((d.n, d.m, d.k), b.turned(), a.turned(), c, lc.cs, lc.rs, parallel))
            || Blocked::new(d, a, b, c, lc).map(|p| p.run(parallel, None)).is_some()
    }
}

/// The products of a batch, if they are small ones in `f32`.
pub(super) fn small<T: Gemm>(
    d: Dims,
    a: Operand<T>,
    b: Operand<T>,
    c: &Out<T>,
    lc: Layout,
    batch: &[BatchOffset],
) -> Option<Small> {
    Small::new(d, strided(a)?, strided(b)?, (c.ptr.cast(), c.len), lc, batch)
}

/// `C = epilogue(A @ B)` for a contiguous `C`, block by block, so that the epilogue finds each in the
/// cache. Its `scale` and `bias` are per column.
///
/// ```
/// use gradus_numerics::gemm::{Dims, Layout, Operand, gemm_fused};
/// use gradus_numerics::{Activation, Epilogue};
/// let (a, b) = ([1.0f32, 2.0], [10.0f32, -1.0]);
/// let (a, b) = (Operand::new(&a, Layout::row_major(1)), Operand::new(&b, Layout::row_major(2)));
/// let e = Epilogue { bias: Some(&[1.0, 1.5]), activation: Activation::Relu, ..Epilogue::default() };
/// let mut c = [0.0; 4];
/// gemm_fused(Dims::new(2, 2, 1), a, b, &mut c, &e);
/// assert_eq!(c, [11.0, 0.5, 21.0, 0.0]);
/// ```
pub fn gemm_fused(d: Dims, a: Operand<f32>, b: Operand<f32>, c: &mut [f32], e: &Epilogue<'_>) {
    e.check(d.n, c.len());
    assert!(c.len() == d.m * d.n, "the output is contiguous");
    let (isa, out) = (Isa::detect(), Shared::new(c));
    let finish = |rows: Range<usize>, columns: Range<usize>| {
        for r in rows {
            let at = r * d.n + columns.start;
            // SAFETY: the block is ours until this returns.
            unsafe {
                if !e.is_only_then() {
                    finish(isa, e, columns.start, at, columns.len(), out.ptr().add(at));
                }
                e.call(r, columns.clone(), out.ptr().add(at));
            }
        }
    };
    // SAFETY: the output is borrowed exclusively, and the function above keeps to its blocks.
    unsafe { product_then(d, a, b, out.ptr(), &finish) }
}

/// [`gemm_fused`] in `f64`: a number is added to each column, and what is below zero becomes zero if `relu`.
///
/// ```
/// use gradus_numerics::gemm::{Dims, Layout, Operand, gemm_biased};
/// let (a, b) = ([1.0, 2.0], [10.0, -1.0]);
/// let (a, b) = (Operand::new(&a, Layout::row_major(1)), Operand::new(&b, Layout::row_major(2)));
/// let mut c = [0.0; 4];
/// gemm_biased(Dims::new(2, 2, 1), a, b, &[1.0, 1.5], true, &mut c);
/// assert_eq!(c, [11.0, 0.5, 21.0, 0.0]);
/// ```
pub fn gemm_biased(d: Dims, a: Operand<f64>, b: Operand<f64>, bias: &[f64], relu: bool, c: &mut [f64]) {
    assert!(bias.len() == d.n, "a number a column");
    assert!(c.len() == d.m * d.n, "the output is contiguous");
    let (isa, out) = (Isa::detect(), Shared::new(c));
    let finish = |rows: Range<usize>, columns: Range<usize>| {
        for r in rows {
            // SAFETY: the block is ours until this returns.
            unsafe {
                let row = std::slice::from_raw_parts_mut(out.ptr().add(r * d.n + columns.start), columns.len());
                finish_doubles(isa, &bias[columns.clone()], relu, row);
            }
        }
    };
    // SAFETY: the output is borrowed exclusively, and the function above keeps to its blocks.
    unsafe { product_then(d, a, b, out.ptr(), &finish) }
}

/// A part of a row with its bias: plain loops, which are compiled for each width of vectors.
#[inline(always)]
unsafe fn finish_doubles_body<S: Simd>(bias: &[f64], relu: bool, row: &mut [f64]) {
    row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
    if relu {
        // NaN stays NaN, and a negative zero becomes zero.
        row.iter_mut().for_each(|x| *x = if *x <= 0.0 { 0.0 } else { *x });
    }
}
dispatch!(unsafe fn finish_doubles = finish_doubles_body(bias: &[f64], relu: bool, row: &mut [f64]));

/// Finishes `n` numbers of a row from column `first` on, element `at` of the output.
#[inline(always)]
unsafe fn finish_body<S: Simd>(e: &Epilogue<'_>, first: usize, at: usize, n: usize, row: *mut f32) {
    for j in (0..n).step_by(S::LANES) {
        let left = (n - j).min(S::LANES);
        // SAFETY: the caller gives `n` numbers, and the epilogue's sizes were checked.
        unsafe {
            let v = S::load_first(row.add(j), left);
            S::store_first(row.add(j), e.columns::<S>(v, first + j, at + j, left), left);
        }
    }
}
dispatch!(unsafe fn finish = finish_body(e: &Epilogue<'_>, first: usize, at: usize, n: usize, row: *mut f32));

#[cfg(test)]
mod tests;
