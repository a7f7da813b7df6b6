//! Attention `softmax(scale q k^T + mask) v` without the matrix of scores in memory.
//!
//! A block of queries meets the keys in chunks; the softmax is kept up to date as chunks come (its
//! running maximum and sum), so only one block of scores exists at a time, in the cache. Causal
//! attention does not touch the scores after the diagonal's block. Besides the result, the
//! logarithm of each row's sum is kept: with it the gradients make the weights again, block by
//! block.
//!
//! Queries, keys and values are rows of contiguous numbers, any distance apart: views of one
//! tensor serve as they are.

mod grad;
mod rows;

use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
pub use grad::{Saved, attention_grad};

/// A batch of matrices of contiguous rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The memory.
    pub data: &'a [f32],
    /// Where each matrix of the batch starts.
    pub starts: &'a [usize],
    /// The step between rows.
    pub row: usize,
}

impl Rows<'_> {
    fn check(&self, batch: usize, rows: usize, columns: usize) {
        assert_eq!(self.starts.len(), batch, "one start a matrix");
        if rows > 0 && columns > 0 {
            let last = (rows - 1) * self.row + columns;
            assert!(self.starts.iter().all(|s| s + last <= self.data.len()), "rows reach outside their slice");
        }
    }

    fn matrix(&self, i: usize) -> *const f32 {
        self.data.as_ptr().wrapping_add(self.starts[i])
    }
}

/// What is added to scores, or which of them count.
#[derive(Clone, Copy, Debug)]
pub enum MaskData<'a> {
    /// Added.
    Add(&'a [f32]),
    /// Scores with a zero here do not count.
    Keep(&'a [u8]),
}

/// A mask over the scores; steps may be zero.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// The memory.
    pub data: MaskData<'a>,
    /// Where each matrix of the batch starts.
    pub starts: &'a [usize],
    /// The step between rows (queries).
    pub row: usize,
    /// The step between columns (keys).
    pub column: usize,
}

impl Mask<'_> {
    fn check(&self, batch: usize, rows: usize, columns: usize) {
        assert_eq!(self.starts.len(), batch, "one start a matrix");
        let len = match self.data {
            MaskData::Add(m) => m.len(),
            MaskData::Keep(m) => m.len(),
        };
        if rows > 0 && columns > 0 {
            let last = (rows - 1) * self.row + (columns - 1) * self.column;
            assert!(self.starts.iter().all(|s| s + last < len), "the mask reaches outside its slice");
        }
    }

    /// What is added to columns `first ..` of a row.
    fn fetch(&self, batch: usize, row: usize, first: usize, out: &mut [f32]) {
        let at = self.starts[batch] + row * self.row + first * self.column;
        for (j, out) in out.iter_mut().enumerate() {
            *out = match self.data {
                MaskData::Add(m) => m[at + j * self.column],
                MaskData::Keep(m) if m[at + j * self.column] == 0 => f32::NEG_INFINITY,
                MaskData::Keep(_) => 0.0,
            };
        }
    }
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Matrices: the batch times the heads.
    pub batch: usize,
    /// Queries.
    pub queries: usize,
    /// Keys and values.
    pub keys: usize,
    /// Numbers of a query and of a key.
    pub width: usize,
    /// Numbers of a value.
    pub value: usize,
    /// The factor of the scores.
    pub scale: f32,
    /// A query sees the keys up to its own position only.
    pub causal: bool,
    /// Results lie as `[batch / heads, rows, heads, numbers]`: one matrix after the other where this is 1.
    pub heads: usize,
}

/// Keys that are taken at once.
const CHUNK: usize = 512;

impl Attention {
    /// Where matrix `i` of a result begins, of this many rows and numbers a row, and the numbers from row to row.
    fn place(&self, i: usize, rows: usize, width: usize) -> (usize, usize) {
        let heads = self.heads.max(1);
        ((i / heads * rows * heads + i % heads) * width, heads * width)
    }

    /// Queries of a block.
    fn block(&self) -> usize {
        if self.causal { 32 } else { 64 }
    }

    /// How many keys the queries before `end` see.
    fn seen(&self, end: usize) -> usize {
        if self.causal { self.keys.min(end) } else { self.keys }
    }

    fn check(&self, q: &Rows<'_>, k: &Rows<'_>, v: &Rows<'_>, mask: Option<&Mask<'_>>) {
        q.check(self.batch, self.queries, self.width);
        k.check(self.batch, self.keys, self.width);
        v.check(self.batch, self.keys, self.value);
        if let Some(m) = mask {
            m.check(self.batch, self.queries, self.keys);
        }
    }
}

/// The length of a buffer's row: whole vectors, not a multiple of what the cache repeats after.
fn pitch(n: usize) -> usize {
    n.div_ceil(16) / 2 * 32 + 16
}

/// Attention into `out` (`[batch, queries, value]`, with one head), and the logarithm of each row's sum of
/// exponentials into `sums` (`[batch, queries]`). A query that sees no key gets zeros.
///
/// ```
/// use gradus_numerics::attention::{Attention, Rows, attention};
/// let a = Attention { batch: 1, queries: 2, keys: 2, width: 1, value: 1, scale: 1.0, causal: true, heads: 1 };
/// let (q, v) = ([1.0, 1.0], [2.0, 4.0]);
/// let (q, v) = (Rows { data: &q, starts: &[0], row: 1 }, Rows { data: &v, starts: &[0], row: 1 });
/// let (mut out, mut sums) = ([0.0; 2], [0.0; 2]);
/// attention(&a, q, q, v, None, &mut out, &mut sums);
/// assert_eq!(out, [2.0, 3.0]);
/// ```
pub fn attention(
    a: &Attention,
    q: Rows<'_>,
    k: Rows<'_>,
    v: Rows<'_>,
    mask: Option<Mask<'_>>,
    out: &mut [f32],
    sums: &mut [f32],
) {
    forward(Isa::detect(), a, q, k, v, mask, out, sums);
}

#[allow(clippy::too_many_arguments)]
fn forward(
    isa: Isa,
    a: &Attention,
    q: Rows<'_>,
    k: Rows<'_>,
    v: Rows<'_>,
    mask: Option<Mask<'_>>,
    out: &mut [f32],
    sums: &mut [f32],
) {
    a.check(&q, &k, &v, mask.as_ref());
    assert!(a.batch.is_multiple_of(a.heads.max(1)), "whole heads");
    assert_eq!(out.len(), a.batch * a.queries * a.value, "the result's size");
    assert_eq!(sums.len(), a.batch * a.queries, "the sums' size");
    if out.is_empty() && sums.is_empty() {
        return;
    }
    let blocks = a.queries.div_ceil(a.block());
    // A task is some blocks of one matrix; with few matrices, several tasks pack the same keys.
    let parts = 16usize.div_ceil(a.batch).min(blocks).max(1);
    let work = a.batch * a.queries * a.keys * (a.width + a.value);
    let (out, sums) = (Shared::new(out), Shared::new(sums));
    for_tasks(a.batch * parts, work >= 1 << 15, |t| {
        let (i, part) = (t / parts, t % parts);
        // Blocks in turns: with a causal mask, later ones are longer.
        let mine = (part..blocks).step_by(parts);
        let last = mine.clone().next_back().map_or(0, |b| a.queries.min((b + 1) * a.block()));
        let keys = a.seen(last);
        let row = pitch(keys.max(1));
        let mut turned = scratch::take(a.width.next_multiple_of(16) * row);
        // SAFETY: rows are inside the keys, the buffer has a row for each number of a key.
        unsafe { rows::turn(isa, keys, a.width, k.matrix(i), k.row, turned.as_mut_ptr(), row) };
        let mut scores = scratch::take(a.block() * pitch(CHUNK) + 16);
        let mut added = scratch::take(if mask.is_some() { CHUNK } else { 0 });
        for b in mine {
            let first = b * a.block();
            let count = a.block().min(a.queries - first);
            let at = i * a.queries + first;
            // SAFETY: blocks are inside the arrays, and tasks write different ones.
            unsafe {
                let (start, pitch) = a.place(i, a.queries, a.value);
                let out = out.ptr().add(start + first * pitch);
                let state = rows::State { out, pitch, sums: sums.ptr().add(at) };
                let query = q.matrix(i).wrapping_add(first * q.row);
                let value = v.matrix(i);
                forward_block(
                    isa,
                    a,
                    i,
                    first,
                    count,
                    (query, q.row),
                    (&turned, row),
                    (value, v.row),
                    &mask,
                    &mut scores,
                    &mut added,
                    state,
                );
            }
        }
    });
}

/// One block of queries.
///
/// # Safety
///
/// The pointers are to rows inside their arrays, and `state` is this task's own.
#[allow(clippy::too_many_arguments)]
unsafe fn forward_block(
    isa: Isa,
    a: &Attention,
    batch: usize,
    first: usize,
    count: usize,
    query: (*const f32, usize),
    turned: (&[f32], usize),
    value: (*const f32, usize),
    mask: &Option<Mask<'_>>,
    scores: &mut [f32],
    added: &mut [f32],
    state: rows::State,
) {
    let seen = a.seen(first + count);
    let mut maxima = [f32::NEG_INFINITY; 64];
    let mut totals = [0.0f32; 64];
    let mut from = 0;
    loop {
        let n = CHUNK.min(seen - from);
        let row = pitch(n);
        // SAFETY: by the caller's promise; the buffer has a row for each query.
        unsafe {
            product(
                isa,
                &Product {
                    m: count,
                    n,
                    k: a.width,
                    a: query.0,
                    a_steps: (query.1, 1),
                    b: turned.0.as_ptr().add(from),
                    b_row: turned.1,
                    c: scores.as_mut_ptr(),
                    c_row: row,
                    add: false,
                },
            );
            for r in 0..count {
                let valid = if a.causal { n.min((first + r + 1).saturating_sub(from)) } else { n };
                if let Some(m) = mask {
                    m.fetch(batch, first + r, from, &mut added[..valid]);
                }
                let extra = mask.as_ref().map(|_| &added[..valid]);
                let s = rows::Row { scores: scores.as_mut_ptr().add(r * row), valid, n, scale: a.scale };
                let out = state.out.add(r * state.pitch);
                rows::softmax(isa, s, extra, &mut maxima[r], &mut totals[r], out, if from > 0 { a.value } else { 0 });
            }
            product(
                isa,
                &Product {
                    m: count,
                    n: a.value,
                    k: n,
                    a: scores.as_ptr(),
                    a_steps: (row, 1),
                    b: value.0.wrapping_add(from * value.1),
                    b_row: value.1,
                    c: state.out,
                    c_row: state.pitch,
                    add: from > 0,
                },
            );
        }
        from += n;
        if from >= seen {
            break;
        }
    }
    for r in 0..count {
        // SAFETY: as above.
        unsafe { rows::finish(isa, state.out.add(r * state.pitch), a.value, maxima[r], totals[r], state.sums.add(r)) };
    }
}

#[cfg(test)]
mod tests;
