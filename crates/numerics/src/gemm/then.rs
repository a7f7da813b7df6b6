//! Products whose finished parts are handed on while they are in the cache.

use super::blocked::Blocked;
use super::fused::strided;
use super::tile::Tiled;
use super::{Dims, Gemm, Layout, Operand, Out, PARALLEL_PRODUCT, product_into};
use crate::gemv::SHORT;
use crate::tasks::for_tasks;
use std::ops::Range;

/// What [`gemm_then`] calls with the rows and columns of `C` that are final.
pub type Finished<'a> = &'a (dyn Fn(Range<usize>, Range<usize>) + Sync);

/// Numbers of a panel of `C`: with the operands' part of it they stay in the L2 cache.
const PANEL: usize = 1 << 15;

/// `C = A @ B` into a contiguous `C`, calling `then` with the rows and columns of each block of `C`
/// when it is final, on the thread that made it, while it is in that thread's cache.
///
/// Blocks are panels of some rows over all columns, except where a product has so few rows that
/// threads share its columns; they do not overlap, together they are all of `C`, and where they lie
/// depends on the sizes and strides alone. Blocks may be finished in any order and at the same
/// time, so `then` may read and write the elements of its own block only. With no columns or no
/// rows it is not called.
///
/// ```
/// use gradus_numerics::gemm::{Dims, Layout, Operand, gemm_then};
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let (a, b) = ([1.0f32, 2.0], [10.0f32, -1.0]);
/// let (a, b) = (Operand::new(&a, Layout::row_major(1)), Operand::new(&b, Layout::row_major(2)));
/// let mut c = [0.0; 4];
/// let seen = AtomicUsize::new(0);
/// gemm_then(Dims::new(2, 2, 1), a, b, &mut c, &|rows, columns| {
///     seen.fetch_add(rows.len() * columns.len(), Ordering::Relaxed);
/// });
/// assert_eq!((c, seen.into_inner()), ([10.0, -1.0, 20.0, -2.0], 4));
/// ```
pub fn gemm_then<T: Gemm>(d: Dims, a: Operand<T>, b: Operand<T>, c: &mut [T], then: Finished<'_>) {
    assert!(c.len() == d.m * d.n, "the output is contiguous");
    // SAFETY: `c` is borrowed exclusively for the call.
    unsafe { product_then(d, a, b, c.as_mut_ptr(), then) }
}

/// [`gemm_then`] into memory that `then` may reach by itself, of `m * n` elements.
///
/// # Safety
///
/// `c` is valid for that many elements, and during the call only this function uses them, and
/// `then` those of its block.
pub unsafe fn product_then<T: Gemm>(d: Dims, a: Operand<T>, b: Operand<T>, c: *mut T, then: Finished<'_>) {
    if d.m == 0 || d.n == 0 {
        return;
    }
    // What makes the raw pointers sound: kept in release builds too.
    assert!(a.layout.fits(d.m, d.k, a.data.len()), "A reaches outside its slice");
    assert!(b.layout.fits(d.k, d.n, b.data.len()), "B reaches outside its slice");
    // Those with a short side have a way of their own.
    // SAFETY: as asserted, and by the caller's promise.
    if d.m > SHORT && d.n > SHORT && unsafe { panels::<T, f32>(d, a, b, c, then) || panels::<T, f64>(d, a, b, c, then) }
    {
        return;
    }
    let out = Out { ptr: c, len: d.m * d.n };
    // Thin products know better how to use threads.
    let small = d.work() < PARALLEL_PRODUCT || d.m < 32;
    let rows =
        if small { d.m } else { (PANEL / d.n / 16 * 16).clamp(16, 256).min(d.m.div_ceil(4).next_multiple_of(8)) };
    let panels = d.m.div_ceil(rows);
    for_tasks(panels, !small, |t| {
        let (i, m) = (t * rows, rows.min(d.m - t * rows));
        let la = Layout { offset: a.layout.position(i, 0), ..a.layout };
        let lc = Layout::row_major(d.n).at(i * d.n);
        // SAFETY: panels are disjoint parts of the output, which is ours by the caller's promise.
        unsafe { product_into(Dims::new(m, d.n, d.k), T::ONE, Operand::new(a.data, la), b, T::ZERO, &out, lc, small) };
        then(i..i + m, 0..d.n);
    });
}

/// The product by panels; `false` where its numbers are not of this type, or lie otherwise.
///
/// # Safety
///
/// As of [`product_then`], whose assertions were made.
unsafe fn panels<T: Gemm, U: Tiled>(d: Dims, a: Operand<T>, b: Operand<T>, c: *mut T, then: Finished<'_>) -> bool {
    let (Some(a), Some(b)) = (strided::<T, U>(a), strided(b)) else { return false };
    // SAFETY: the caller's promise.
    Blocked::new(d, a, b, c.cast(), Layout::row_major(d.n)).map(|p| unsafe { p.run(true, Some(then)) }).is_some()
}
