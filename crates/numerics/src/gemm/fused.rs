//! Products in `f32` with an epilogue, and those with a short side.

use super::{Dims, Gemm, Layout, Operand, Out, product_into};
use crate::epilogue::Epilogue;
use crate::gemv::{SHORT, Strided, short_rows};
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::for_tasks;
use std::any::TypeId;

/// The operand as `f32`, if that is what it is.
fn strided<T: Gemm>(x: Operand<'_, T>) -> Option<Strided<'_>> {
    (TypeId::of::<T>() == TypeId::of::<f32>()).then(|| Strided {
        // SAFETY: the types are the same.
        data: unsafe { std::slice::from_raw_parts(x.data.as_ptr().cast(), x.data.len()) },
        offset: x.layout.offset,
        rs: x.layout.rs,
        cs: x.layout.cs,
    })
}

/// Runs a product with at most eight rows or columns, where there is a way of its own for it.
///
/// # Safety
///
/// As [`product_into`], whose assertions were made.
pub(super) unsafe fn short<T: Gemm>(
    d: Dims,
    a: Operand<T>,
    b: Operand<T>,
    c: &Out<T>,
    lc: Layout,
    parallel: bool,
) -> bool {
    if d.m.min(d.n) > SHORT {
        return false;
    }
    let (Some(a), Some(b)) = (strided(a), strided(b)) else { return false };
    let c = c.ptr.cast::<f32>().wrapping_add(lc.offset);
    // SAFETY: by the caller's promise; a product is the transpose of the transposes' product.
    unsafe {
        (d.m <= SHORT && short_rows((d.m, d.n, d.k), a, b, c, lc.rs, lc.cs, parallel))
            || (d.n <= SHORT && short_rows((d.n, d.m, d.k), b.turned(), a.turned(), c, lc.cs, lc.rs, parallel))
    }
}

/// Numbers of the output in a tile: it and what made it stay in the L2 cache.
const TILE: usize = 1 << 16;

/// `C = epilogue(A @ B)` for a contiguous `C`, tile by tile, so that the epilogue finds each tile in
/// the cache. Its `scale` and `bias` are per column.
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
    let out = Out::new(c);
    let (isa, lc) = (Isa::detect(), Layout::row_major(d.n));
    if d.m == 0 || d.n == 0 {
        return;
    }
    // Tiles of fixed size: long rows, so that packing pays, and at least 8 tiles of larger work.
    let columns = d.n.min(1024);
    let rows = (TILE / columns).clamp(32, 256).min(d.m.div_ceil(if d.work() > 1 << 22 { 8 } else { 1 }).max(32));
    let (down, across) = (d.m.div_ceil(rows), d.n.div_ceil(columns));
    let short = d.m.min(d.n) <= SHORT;
    let (rows, columns, down, across) = if short { (d.m, d.n, 1, 1) } else { (rows, columns, down, across) };
    for_tasks(down * across, d.work() >= 1 << 19, |t| {
        let (i, j) = (t / across * rows, t % across * columns);
        let (m, n) = (rows.min(d.m - i), columns.min(d.n - j));
        let la = Layout { offset: a.layout.position(i, 0), ..a.layout };
        let lb = Layout { offset: b.layout.position(0, j), ..b.layout };
        let (ta, tb) = (Operand::new(a.data, la), Operand::new(b.data, lb));
        let at = i * d.n + j;
        // SAFETY: tiles are disjoint parts of the output, which is borrowed exclusively.
        unsafe {
            product_into(Dims::new(m, n, d.k), 1.0, ta, tb, 0.0, &out, lc.at(at), down * across == 1);
            for r in 0..m {
                let row = out.ptr.add(at + r * d.n);
                if !e.is_only_then() {
                    finish(isa, e, j, at + r * d.n, n, row);
                }
                e.call(i + r, j..j + n, row);
            }
        }
    });
}

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
