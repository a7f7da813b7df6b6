//! Products in `f32` with an epilogue, and those with a short side.

use super::{Dims, Gemm, Layout, Operand, Out, PARALLEL_PRODUCT, product_into};
use crate::attention::turn;
use crate::epilogue::Epilogue;
use crate::gemv::{SHORT, Strided, short_rows};
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};
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

/// Runs a product with at most sixteen rows or columns, or with a right side that must be turned.
/// `false` leaves it to crate `gemm`.
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
    let (Some(a), Some(b)) = (strided(a), strided(b)) else { return false };
    let c = c.ptr.cast::<f32>().wrapping_add(lc.offset);
    // SAFETY: by the caller's promise; a product is the transpose of the transposes' product.
    unsafe {
        (d.m <= SHORT && short_rows((d.m, d.n, d.k), a, b, c, lc.rs, lc.cs, parallel))
            || (d.n <= SHORT && short_rows((d.n, d.m, d.k), b.turned(), a.turned(), c, lc.cs, lc.rs, parallel))
            || (d.m > SHORT && turned(d, a, b, c, lc, parallel))
    }
}

/// Rows and columns of a tile of the output: it and what made it stay in the L2 cache, and packing
/// still pays.
const TILE: (usize, usize) = (128, 512);

/// The widest block of columns that is turned at once: whole tiles of the kernel.
const TURNED: usize = 96;

/// Runs a product whose right side lies along the sum (a linear layer's weight): its columns are
/// turned block by block and multiplied in place. Crate `gemm` packs them number by number, which
/// takes up to twice as long as the product where their length is a power of two.
///
/// # Safety
///
/// As [`product_into`], whose assertions were made.
unsafe fn turned(d: Dims, a: Strided<'_>, b: Strided<'_>, c: *mut f32, lc: Layout, parallel: bool) -> bool {
    let fits = b.rs == 1 && b.cs >= d.k as isize && lc.cs == 1 && lc.rs >= d.n as isize && a.rs >= 0 && a.cs >= 0;
    if !fits || d.m > 1024 || d.k < 16 || d.n < 16 {
        return false;
    }
    let isa = Isa::detect();
    let (a_data, b_data) = (&a.data[a.offset..], &b.data[b.offset..]);
    let out = Shared::wrap(c);
    let parts = d.k.div_ceil(512);
    let deep = d.k.div_ceil(parts);
    for_tasks(d.n.div_ceil(TURNED), parallel && d.work() >= PARALLEL_PRODUCT, |t| {
        let (first, count) = (t * TURNED, TURNED.min(d.n - t * TURNED));
        let row = TURNED + 16;
        let mut block = scratch::take(deep.next_multiple_of(16) * row);
        for k in (0..d.k).step_by(deep) {
            let depth = deep.min(d.k - k);
            // SAFETY: rows and columns are inside the operands, the block has a row for each of
            // `depth`, and tasks write different columns.
            unsafe {
                let from = b_data.as_ptr().wrapping_add(first * b.cs as usize + k);
                turn(isa, count, depth, from, b.cs as usize, block.as_mut_ptr(), row);
                let part = Product {
                    m: d.m,
                    n: count,
                    k: depth,
                    a: a_data.as_ptr().wrapping_add(k * a.cs as usize),
                    a_steps: (a.rs as usize, a.cs as usize),
                    b: block.as_ptr(),
                    b_row: row,
                    c: out.ptr().add(first),
                    c_row: lc.rs as usize,
                    add: k > 0,
                };
                product(isa, &part);
            }
        }
    });
    true
}

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
    // Tiles of fixed size; thin products know better how to use threads.
    let thin = d.m.min(d.n) <= SHORT || d.work() < 1 << 19;
    let (rows, columns) = if thin { (d.m, d.n) } else { TILE };
    let (down, across) = (d.m.div_ceil(rows), d.n.div_ceil(columns));
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
