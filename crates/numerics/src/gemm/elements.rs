//! The products of each type of element: those of crate `gemm`, and plain loops for integers.

use super::{Dims, Gemm, Layout, Operand, Out, sealed};
use crate::tasks::for_tasks;
use gemm_common::Parallelism;

macro_rules! kernel {
    ($t:ident, $get:path) => {
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
                let (mut d, mut a, mut b, mut lc) = (d, a, b, lc);
                if d.m == 0 || d.n == 0 {
                    return;
                }
                // The kernels are fastest with the output's unit stride along its rows.
                if lc.cs.abs() < lc.rs.abs() {
                    d = Dims::new(d.n, d.m, d.k);
                    (a, b) = (Operand::new(b.data, b.layout.transposed()), Operand::new(a.data, a.layout.transposed()));
                    lc = lc.transposed();
                }
                // And want the output's steps, and the left one's along `k`, not negative.
                let (mut la, mut lb) = (a.layout, b.layout);
                if lc.rs < 0 {
                    (lc.offset, lc.rs) = (lc.position(d.m - 1, 0), -lc.rs);
                    (la.offset, la.rs) = (if d.k > 0 { la.position(d.m - 1, 0) } else { 0 }, -la.rs);
                }
                if lc.cs < 0 {
                    (lc.offset, lc.cs) = (lc.position(0, d.n - 1), -lc.cs);
                    (lb.offset, lb.cs) = (if d.k > 0 { lb.position(0, d.n - 1) } else { 0 }, -lb.cs);
                }
                if la.cs < 0 && d.k > 0 {
                    (la.offset, la.cs) = (la.position(0, d.k - 1), -la.cs);
                    (lb.offset, lb.rs) = (lb.position(d.k - 1, 0), -lb.rs);
                }
                // SAFETY: the inputs lie within their slices (asserted by the callers in this
                // module), the output is exclusively ours by this function's contract. The
                // kernel calls the output's factor alpha and the product's beta.
                unsafe {
                    $get()(
                        d.m,
                        d.n,
                        d.k,
                        c.wrapping_add(lc.offset),
                        lc.cs,
                        lc.rs,
                        beta != 0.0,
                        a.data.as_ptr().wrapping_add(la.offset),
                        la.cs,
                        la.rs,
                        b.data.as_ptr().wrapping_add(lb.offset),
                        lb.cs,
                        lb.rs,
                        beta,
                        alpha,
                        false,
                        false,
                        false,
                        if parallel { Parallelism::Rayon(0) } else { Parallelism::None },
                    );
                }
            }
        }
        impl Gemm for $t {}
    };
}

kernel!(f32, gemm_f32::gemm::f32::get_gemm_fn);
kernel!(f64, gemm_f64::gemm::f64::get_gemm_fn);

/// A row-major copy of a matrix in another type.
fn pack<T: Copy, U>(m: usize, n: usize, a: Operand<T>, f: impl Fn(T) -> U) -> Vec<U> {
    let mut out = Vec::with_capacity(m * n);
    for i in 0..m {
        out.extend((0..n).map(|j| f(a.data[a.layout.position(i, j)])));
    }
    out
}

macro_rules! integer {
    ($($t:ident)*) => {$(
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
                let b = pack(d.k, d.n, b, |x| x);
                let out = Out { ptr: c, len: 0 };
                let row = |i: usize| {
                    let mut acc = vec![0 as $t; d.n];
                    for (p, b) in b.chunks_exact(d.n).enumerate() {
                        let x = a.data[a.layout.position(i, p)];
                        for (acc, &b) in acc.iter_mut().zip(b) {
                            *acc = acc.wrapping_add(x.wrapping_mul(b));
                        }
                    }
                    let out = &out;
                    for (j, acc) in acc.into_iter().enumerate() {
                        // SAFETY: the position is inside the output; rows are disjoint.
                        unsafe {
                            let c = out.ptr.add(lc.position(i, j));
                            let old = if beta == 0 { 0 } else { beta.wrapping_mul(*c) };
                            *c = alpha.wrapping_mul(acc).wrapping_add(old);
                        }
                    }
                };
                if d.n > 0 {
                    for_tasks(d.m, parallel, row);
                }
            }
        }
        impl Gemm for $t {}
    )*};
}

integer!(i8 i16 i32 i64 u8 u16 u32 u64);
