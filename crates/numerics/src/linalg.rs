//! Factorizations and solvers on batches of contiguous row-major matrices.
//!
//! Matrices of a batch are handled independently, on several threads when they are large enough.
//! Factorizations go block by block, nearly all of their work being matrix products. Large matrices of `f32` are factored
//! in `f32`, as by LAPACK; for small ones, and for eigenvalues and singular values, the arithmetic is in `f64`: the only
//! `f32` rounding is then that of the result.
//!
//! Sign conventions are LAPACK's, as in PyTorch: the diagonal of `R` in a QR factorization can be
//! negative. The signs of eigenvectors and singular vectors are arbitrary.

mod cholesky;
mod cofactor;
mod eigh;
mod eigvalsh;
mod exp;
mod householder;
mod lu;
mod number;
mod pinv;
mod qr;
mod reflections;
mod svd;
mod svdvals;
mod triangular;
mod work;

pub use cholesky::cholesky;
pub use cofactor::cofactor;
pub use eigh::eigh;
pub use eigvalsh::eigvalsh;
pub use exp::matrix_exp;
pub use lu::{det, inv, lu, lu_factor, slogdet, solve};
pub use pinv::pinv;
pub use qr::{QrMode, lstsq, qr};
pub use svd::svd;
pub use svdvals::svdvals;
pub use triangular::{Triangular, solve_triangular};

use crate::element::Real;
use crate::gemm::Out;
use crate::tasks::{for_items, for_tasks};
use std::fmt;
use std::sync::Mutex;

/// Why a matrix has no such factorization or solution. `batch` is its number in the batch, the
/// first of them when several fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinalgError {
    /// The matrix is singular: pivot number `pivot` (from zero) is exactly zero.
    Singular {
        /// The matrix's number.
        batch: usize,
        /// The pivot's number.
        pivot: usize,
    },
    /// The matrix is not positive definite: the leading minor of order `minor` (from one) is not.
    NotPositiveDefinite {
        /// The matrix's number.
        batch: usize,
        /// The minor's order.
        minor: usize,
    },
    /// The iteration did not converge, in practice because of infinite or NaN elements.
    NoConvergence {
        /// The matrix's number.
        batch: usize,
    },
}

impl fmt::Display for LinalgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinalgError::Singular { batch, pivot } => {
                write!(f, "matrix {batch} of the batch is singular: pivot {pivot} is zero")
            }
            LinalgError::NotPositiveDefinite { batch, minor } => {
                write!(
                    f,
                    "matrix {batch} of the batch is not positive definite: the leading minor of order {minor} is not"
                )
            }
            LinalgError::NoConvergence { batch } => {
                write!(f, "the iteration did not converge for matrix {batch} of the batch")
            }
        }
    }
}

impl std::error::Error for LinalgError {}

/// The parts of `batch` matrices of `size` elements; works for empty matrices too.
fn split<T>(mut x: &mut [T], batch: usize, size: usize) -> Vec<&mut [T]> {
    debug_assert_eq!(x.len(), batch * size);
    let mut parts = Vec::with_capacity(batch);
    for _ in 0..batch {
        let (part, rest) = x.split_at_mut(size);
        parts.push(part);
        x = rest;
    }
    parts
}

/// Runs `f` on every item with its number; `work` is the number of operations of one. Every item
/// is run; the error is that of the first item that has one.
fn for_batch<I: Send>(
    items: Vec<I>,
    work: usize,
    f: impl Fn(usize, I) -> Result<(), LinalgError> + Sync,
) -> Result<(), LinalgError> {
    if items.len() > 1 && work.saturating_mul(items.len()) >= crate::lanes::PARALLEL_WORK {
        let failed: Mutex<Vec<(usize, LinalgError)>> = Mutex::default();
        for_items(items, |i, item| {
            if let Err(e) = f(i, item) {
                failed.lock().unwrap_or_else(|e| e.into_inner()).push((i, e));
            }
        });
        let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
        failed.into_iter().min_by_key(|f| f.0).map_or(Ok(()), |f| Err(f.1))
    } else {
        let mut result = Ok(());
        for (i, item) in items.into_iter().enumerate() {
            result = result.and(f(i, item));
        }
        result
    }
}

/// The results of a batch, which may be asked for on several threads.
struct Each<T> {
    out: Out<T>,
    size: usize,
}

impl<T> Each<T> {
    /// `batch` results of `size` elements.
    fn new(out: &mut [T], batch: usize, size: usize) -> Each<T> {
        debug_assert!(out.len() == batch * size || size == 0);
        Each { out: Out::new(out), size }
    }

    /// The result of a matrix.
    ///
    /// # Safety
    ///
    /// Nobody else uses it as long as it is borrowed, nor the memory after what this was made of.
    #[allow(clippy::mut_from_ref)]
    unsafe fn at(&self, i: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { self.out.part(i * self.size, self.size) }
    }
}

/// Operations on small matrices that are worth a task.
const TASK: usize = 1 << 14;

/// Matrices of more operations each use all threads, unless there are several of them.
const LARGE: usize = 1 << 20;

/// Runs `f` on every matrix with its number; `work` is the number of operations on one. Matrices that are handled one after
/// the other have the same `room`. Every one is run; the error is that of the first that has one.
fn for_matrices<R>(
    batch: usize,
    work: usize,
    room: impl Fn() -> R + Sync,
    f: impl Fn(&mut R, usize) -> Result<(), LinalgError> + Sync,
) -> Result<(), LinalgError> {
    // What goes through memory counts too.
    let work = work.max(16);
    let group = (TASK / work).max(1);
    let parallel = work.saturating_mul(batch) >= crate::lanes::PARALLEL_WORK && (work < LARGE || batch >= 4);
    let failed: Mutex<Option<(usize, LinalgError)>> = Mutex::default();
    for_tasks(batch.div_ceil(group), parallel, |t| {
        let mut room = room();
        for i in t * group..batch.min((t + 1) * group) {
            if let Err(e) = f(&mut room, i) {
                let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                if failed.is_none_or(|(first, _)| i < first) {
                    *failed = Some((i, e));
                }
            }
        }
    });
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), |(_, e)| Err(e))
}

/// Matrix number `i` of `size` elements, widened.
fn load<T: Real>(a: &[T], i: usize, size: usize) -> Vec<f64> {
    a[i * size..][..size].iter().map(|x| x.to_f64()).collect()
}

/// Rounds a matrix into its place.
fn store<T: Real>(out: &mut [T], x: &[f64]) {
    debug_assert_eq!(out.len(), x.len());
    out.iter_mut().zip(x).for_each(|(o, x)| *o = T::from_f64(*x));
}

/// The transposed copy of an `m` by `n` matrix.
fn transpose(a: &[f64], m: usize, n: usize) -> Vec<f64> {
    let mut t = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            t[j * m + i] = a[i * n + j];
        }
    }
    t
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums at once: the compiler may not reorder them, but can run them side by side.
    let mut s = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for i in 0..4 {
            s[i] += a[i] * b[i];
        }
    }
    (s[0] + s[1]) + (s[2] + s[3]) + rest
}

/// `y += factor * x`.
fn axpy(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// Rows `i < j` of a matrix with `n` columns, both mutable.
fn two_rows(a: &mut [f64], n: usize, i: usize, j: usize) -> (&mut [f64], &mut [f64]) {
    debug_assert!(i < j);
    let (top, bottom) = a.split_at_mut(j * n);
    (&mut top[i * n..][..n], &mut bottom[..n])
}

#[cfg(test)]
mod tests;
