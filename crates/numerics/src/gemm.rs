//! Matrix products `C = alpha * A @ B + beta * C` with arbitrary strides.
//!
//! `f32` and `f64` run on kernels of our own where vectors are wide, else on those of the `gemm`
//! family of crates; 16-bit numbers (`half`) are added up in `f32` and rounded once at the end,
//! integers wrap. The sum over `k` of every output element
//! is taken in an order that depends on the sizes and strides alone, so the number of threads
//! does not show in the result.

use crate::element::Num;
use crate::scratch;
use crate::tasks::for_tasks;

/// Where the elements of a matrix lie in a slice: `(i, j)` is at `offset + i * rs + j * cs`.
///
/// ```
/// use gradus_numerics::gemm::Layout;
/// let m = Layout::row_major(3); // three columns
/// assert_eq!(m.transposed(), Layout { offset: 0, rs: 1, cs: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The position of element `(0, 0)`.
    pub offset: usize,
    /// The step from a row to the next; may be negative, and zero for an input.
    pub rs: isize,
    /// The step from a column to the next; may be negative, and zero for an input.
    pub cs: isize,
}

impl Layout {
    /// A layout with the given steps.
    pub const fn new(offset: usize, rs: isize, cs: isize) -> Self {
        Layout { offset, rs, cs }
    }

    /// Contiguous rows of `cols` elements.
    pub const fn row_major(cols: usize) -> Self {
        Layout { offset: 0, rs: cols as isize, cs: 1 }
    }

    /// The transposed matrix in the same memory.
    pub const fn transposed(self) -> Self {
        Layout { offset: self.offset, rs: self.cs, cs: self.rs }
    }

    /// The same matrix `by` elements further on.
    pub const fn at(self, by: usize) -> Self {
        Layout { offset: self.offset + by, ..self }
    }

    /// The lowest and highest position of a non-empty `m` by `n` matrix.
    fn span(self, m: usize, n: usize) -> (isize, isize) {
        let (r, c) = (self.rs * (m as isize - 1), self.cs * (n as isize - 1));
        (self.offset as isize + r.min(0) + c.min(0), self.offset as isize + r.max(0) + c.max(0))
    }

    /// Whether an `m` by `n` matrix lies inside a slice of `len` elements.
    fn fits(self, m: usize, n: usize, len: usize) -> bool {
        let (lo, hi) = self.span(m, n);
        m == 0 || n == 0 || (lo >= 0 && hi < len as isize)
    }

    /// Whether distinct elements surely have distinct positions.
    fn is_injective(self, m: usize, n: usize) -> bool {
        let (r, c) = ((self.rs.unsigned_abs(), m), (self.cs.unsigned_abs(), n));
        let (small, large) = if r.0 < c.0 { (r, c) } else { (c, r) };
        (small.1 <= 1 || small.0 > 0) && (large.1 <= 1 || large.0 > small.0 * (small.1.max(1) - 1))
    }

    #[inline]
    fn position(self, i: usize, j: usize) -> usize {
        (self.offset as isize + i as isize * self.rs + j as isize * self.cs) as usize
    }
}

/// The sizes of a product: `A` is `m` by `k`, `B` is `k` by `n`, `C` is `m` by `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Rows of `A` and `C`.
    pub m: usize,
    /// Columns of `B` and `C`.
    pub n: usize,
    /// Columns of `A`, rows of `B`.
    pub k: usize,
}

impl Dims {
    /// The sizes of a product.
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Dims { m, n, k }
    }

    fn work(self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }
}

/// An operand of a product: the slice and the layout of the matrix in it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, T> {
    /// The memory.
    pub data: &'a [T],
    /// Where the matrix lies in it.
    pub layout: Layout,
}

impl<'a, T> Operand<'a, T> {
    /// An operand.
    pub const fn new(data: &'a [T], layout: Layout) -> Self {
        Operand { data, layout }
    }
}

/// The output as a pointer, for threads that write disjoint parts of it.
pub(crate) struct Out<T> {
    ptr: *mut T,
    len: usize,
}

// SAFETY: an `Out` is only dereferenced inside `Gemm::product`, whose callers promise that
// products running at the same time write disjoint elements.
unsafe impl<T: Send> Sync for Out<T> {}

impl<T> Out<T> {
    pub(crate) fn new(c: &mut [T]) -> Self {
        Out { ptr: c.as_mut_ptr(), len: c.len() }
    }

    /// Some elements of it.
    ///
    /// # Safety
    ///
    /// Nobody else uses them as long as they are borrowed.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        assert!(from + len <= self.len, "inside the output");
        // SAFETY: inside what was borrowed exclusively; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(from), len) }
    }
}

mod sealed {
    /// The kernel behind [`super::Gemm`].
    pub trait Product: Sized {
        /// `C = alpha * A @ B + beta * C`; sizes are within the slices.
        ///
        /// # Safety
        ///
        /// `C` at `lc` must lie within `c`'s allocation of its recorded length, be injective,
        /// and no other thread may use its elements meanwhile.
        #[allow(clippy::too_many_arguments)]
        unsafe fn product(
            d: super::Dims,
            alpha: Self,
            a: super::Operand<Self>,
            b: super::Operand<Self>,
            beta: Self,
            c: *mut Self,
            lc: super::Layout,
            parallel: bool,
        );
    }
}

/// An element type with a matrix product.
pub trait Gemm: Num + sealed::Product {}

/// Products of fewer multiplications than this are not spread over threads.
const PARALLEL_PRODUCT: usize = 1 << 19;

/// Shorter sums take as long to write as these to add up.
const SHALLOW: usize = 8;

/// Runs one product after asserting that it stays inside its slices.
///
/// # Safety
///
/// No other thread may use the elements of `C` meanwhile, and `c` must still be borrowed.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn product_into<T: Gemm>(
    d: Dims,
    alpha: T,
    a: Operand<T>,
    b: Operand<T>,
    beta: T,
    c: &Out<T>,
    lc: Layout,
    parallel: bool,
) {
    // O(1), and what makes the raw pointers sound: kept in release builds too.
    assert!(a.layout.fits(d.m, d.k, a.data.len()), "A reaches outside its slice");
    assert!(b.layout.fits(d.k, d.n, b.data.len()), "B reaches outside its slice");
    assert!(lc.fits(d.m, d.n, c.len), "C reaches outside its slice");
    if alpha == T::ONE && beta == T::ZERO && lc.is_injective(d.m, d.n) {
        // SAFETY: bounds were asserted; exclusiveness is the caller's promise.
        let done = unsafe { fused::special(d, a, b, c, lc, parallel) };
        if done {
            return;
        }
    }
    // Where sums are short, writing them is the work.
    let parallel = parallel && Dims { k: d.k.max(SHALLOW), ..d }.work() >= PARALLEL_PRODUCT;
    if lc.is_injective(d.m, d.n) {
        // SAFETY: bounds were asserted; exclusiveness is the caller's promise.
        unsafe { T::product(d, alpha, a, b, beta, c.ptr, lc, parallel) }
    } else {
        // Steps that may make elements of C coincide: go through a copy, in order.
        let mut copy = Vec::with_capacity(d.m * d.n);
        for i in 0..d.m {
            // SAFETY: `fits` was asserted above.
            copy.extend((0..d.n).map(|j| unsafe { *c.ptr.add(lc.position(i, j)) }));
        }
        // SAFETY: the copy is ours.
        unsafe { T::product(d, alpha, a, b, beta, copy.as_mut_ptr(), Layout::row_major(d.n), parallel) }
        for i in 0..d.m {
            for j in 0..d.n {
                // SAFETY: as above.
                unsafe { *c.ptr.add(lc.position(i, j)) = copy[i * d.n + j] }
            }
        }
    }
}

/// `C = alpha * A @ B + beta * C`.
///
/// With `beta` zero, `C` is only written: it may hold anything, NaN included.
///
/// ```
/// use gradus_numerics::gemm::{Dims, Layout, Operand, gemm};
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [10.0f32, 1.0]);
/// let mut c = [0.0; 2];
/// let (a, b) = (Operand::new(&a, Layout::row_major(2)), Operand::new(&b, Layout::row_major(1)));
/// gemm(Dims::new(2, 1, 2), 1.0, a, b, 0.0, &mut c, Layout::row_major(1));
/// assert_eq!(c, [12.0, 34.0]);
/// ```
pub fn gemm<T: Gemm>(d: Dims, alpha: T, a: Operand<T>, b: Operand<T>, beta: T, c: &mut [T], lc: Layout) {
    // SAFETY: `c` is borrowed exclusively for the call.
    unsafe { product_into(d, alpha, a, b, beta, &Out::new(c), lc, true) }
}

/// What one product of a batch adds to the offsets of `A`, `B` and `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOffset {
    /// Added to the offset of `A`.
    pub a: usize,
    /// Added to the offset of `B`.
    pub b: usize,
    /// Added to the offset of `C`.
    pub c: usize,
}

/// One product per entry of `batch`, all of the same sizes and strides.
///
/// Small products are spread over threads by the batch, large ones each use all threads. When
/// the outputs are interleaved in memory (or overlap) they run one after the other.
///
/// ```
/// use gradus_numerics::gemm::{BatchOffset, Dims, Layout, Operand, batched_gemm};
/// let (a, b) = ([1i64, 2, 3, 4], [5i64, 6]);
/// let mut c = [0i64; 2];
/// let batch = [BatchOffset { a: 0, b: 0, c: 0 }, BatchOffset { a: 2, b: 0, c: 1 }];
/// let (a, b) = (Operand::new(&a, Layout::row_major(2)), Operand::new(&b, Layout::row_major(1)));
/// batched_gemm(Dims::new(1, 1, 2), 1, a, b, 0, &mut c, Layout::row_major(1), &batch);
/// assert_eq!(c, [17, 39]);
/// ```
#[allow(clippy::too_many_arguments)]
pub fn batched_gemm<T: Gemm>(
    d: Dims,
    alpha: T,
    a: Operand<T>,
    b: Operand<T>,
    beta: T,
    c: &mut [T],
    lc: Layout,
    batch: &[BatchOffset],
) {
    if d.m == 0 || d.n == 0 {
        return;
    }
    let out = Out::new(c);
    let one = |o: &BatchOffset, parallel: bool| {
        let a = Operand::new(a.data, a.layout.at(o.a));
        let b = Operand::new(b.data, b.layout.at(o.b));
        // SAFETY: `c` is borrowed exclusively for the call, and products run at the same time
        // only when `disjoint` found their outputs apart.
        unsafe { product_into(d, alpha, a, b, beta, &out, lc.at(o.c), parallel) }
    };
    // Sides below a vector's width take as long as one, and vectors are read rather than multiplied.
    let each = d.m.max(8).saturating_mul(d.n.max(16)).saturating_mul(d.k.max(SHALLOW));
    let work = each.saturating_mul(batch.len());
    let by_batch = batch.len() > 1 && d.work() < 1 << 24 && work >= PARALLEL_PRODUCT;
    // Groups of fixed size, so that tiny products share the cost of a task.
    let group = (PARALLEL_PRODUCT / 4 / each).max(1);
    let plain = alpha == T::ONE && beta == T::ZERO;
    if let Some(small) = plain.then(|| fused::small(d, a, b, &out, lc, batch)).flatten() {
        for_tasks(batch.len().div_ceil(group), by_batch && disjoint(d, lc, batch), |t| {
            let mut room = (small.room() > 0).then(|| scratch::take(small.room()));
            let room = room.as_mut().map_or(&mut [][..], |r| &mut r[..]);
            // SAFETY: `c` is borrowed exclusively for the call, and tasks run at the same time only
            // when `disjoint` found their outputs apart.
            unsafe { small.run(&batch[t * group..batch.len().min((t + 1) * group)], room) };
        });
    } else if by_batch && disjoint(d, lc, batch) {
        for_tasks(batch.len().div_ceil(group), true, |t| {
            batch[t * group..batch.len().min((t + 1) * group)].iter().for_each(|o| one(o, false));
        });
    } else {
        batch.iter().for_each(|o| one(o, true));
    }
}

/// Whether the outputs of a batch occupy separate stretches of memory.
fn disjoint(d: Dims, lc: Layout, batch: &[BatchOffset]) -> bool {
    let (lo, hi) = lc.span(d.m, d.n);
    let extent = (hi - lo) as usize + 1;
    if batch.windows(2).all(|w| w[1].c >= w[0].c.saturating_add(extent)) {
        return true;
    }
    let mut starts: Vec<usize> = batch.iter().map(|o| o.c).collect();
    starts.sort_unstable();
    starts.windows(2).all(|w| w[1] - w[0] >= extent)
}

mod blocked;
mod elements;
mod fused;
mod half;
pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod small;
pub use fused::{gemm_biased, gemm_fused};
mod then;
#[cfg(target_arch = "x86_64")]
mod thin;
mod tile;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use half::{Half, narrow, wide};
pub use then::{Finished, gemm_then, product_then};
pub(crate) use tile::{Panel, Strip, Tiled, pack_panel, strip};

#[cfg(test)]
mod tests;
