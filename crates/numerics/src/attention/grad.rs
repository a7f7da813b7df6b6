//! The gradients of attention, with the weights made again block by block.

use super::rows::{self, Row};
use super::{Attention, Mask, Rows, pitch};
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};

/// What [`super::attention`] was given and gave.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Queries.
    pub q: Rows<'a>,
    /// Keys.
    pub k: Rows<'a>,
    /// Values.
    pub v: Rows<'a>,
    /// The mask.
    pub mask: Option<Mask<'a>>,
    /// The result.
    pub out: &'a [f32],
    /// The logarithms of the rows' sums.
    pub sums: &'a [f32],
}

/// The gradients for queries, keys and values (laid out as results are, `[batch, rows, width]` with
/// one head), given that for the result.
pub fn attention_grad(a: &Attention, s: &Saved<'_>, grad: Rows<'_>, dq: &mut [f32], dk: &mut [f32], dv: &mut [f32]) {
    backward(Isa::detect(), a, s, grad, dq, dk, dv);
}

pub(super) fn backward(
    isa: Isa,
    a: &Attention,
    s: &Saved<'_>,
    grad: Rows<'_>,
    dq: &mut [f32],
    dk: &mut [f32],
    dv: &mut [f32],
) {
    a.check(&s.q, &s.k, &s.v, s.mask.as_ref());
    grad.check(a.batch, a.queries, a.value);
    assert!(s.out.len() == a.batch * a.queries * a.value && s.sums.len() == a.batch * a.queries, "what was saved");
    assert!(dq.len() == a.batch * a.queries * a.width, "the queries' gradient");
    assert!(dk.len() == a.batch * a.keys * a.width && dv.len() == a.batch * a.keys * a.value, "the keys' gradients");
    let work = a.batch * a.queries * a.keys * (a.width + a.value);
    let (dq, dk, dv) = (Shared::new(dq), Shared::new(dk), Shared::new(dv));
    for_tasks(a.batch, work >= 1 << 14, |i| {
        // SAFETY: tasks write the gradients of different matrices, inside the slices.
        unsafe {
            let to =
                [(&dq, a.queries, a.width), (&dk, a.keys, a.width), (&dv, a.keys, a.value)].map(|(x, rows, width)| {
                    let (start, pitch) = a.place(i, rows, width);
                    (x.ptr().add(start), pitch)
                });
            one(isa, a, s, &grad, i, to);
        }
    });
}

/// One matrix of the batch.
///
/// # Safety
///
/// `dq`, `dk` and `dv` have its sizes and are used by nobody else; the rest was checked.
unsafe fn one(isa: Isa, a: &Attention, s: &Saved<'_>, grad: &Rows<'_>, i: usize, [dq, dk, dv]: [(*mut f32, usize); 3]) {
    let (keys, across) = (a.keys, pitch(a.keys.max(1)));
    // SAFETY: by the caller's promise; all pointers below stay inside what was checked, and the
    // buffers have the rows that are used.
    unsafe {
        for ((to, pitch), width) in [(dk, a.width), (dv, a.value)] {
            (0..keys).for_each(|r| std::slice::from_raw_parts_mut(to.add(r * pitch), width).fill(0.0));
        }
        let (out_at, out_pitch) = a.place(i, a.queries, a.value);
        let mut turned_k = scratch::take(a.width.next_multiple_of(16) * across);
        let mut turned_v = scratch::take(a.value.next_multiple_of(16) * across);
        rows::turn(isa, keys, a.width, s.k.matrix(i), s.k.row, turned_k.as_mut_ptr(), across);
        rows::turn(isa, keys, a.value, s.v.matrix(i), s.v.row, turned_v.as_mut_ptr(), across);
        let block = a.block();
        let mut weights = scratch::take(block * across);
        let mut scores = scratch::take(block * across);
        let mut added = scratch::take(if s.mask.is_some() { keys } else { 0 });
        for first in (0..a.queries).step_by(block) {
            let count = block.min(a.queries - first);
            let seen = a.seen(first + count);
            let (q, g) = (s.q.matrix(i).wrapping_add(first * s.q.row), grad.matrix(i).wrapping_add(first * grad.row));
            let base = Product {
                m: count,
                n: seen,
                k: a.width,
                a: q,
                a_steps: (s.q.row, 1),
                b: turned_k.as_ptr(),
                b_row: across,
                c: weights.as_mut_ptr(),
                c_row: across,
                add: false,
            };
            product(isa, &base);
            let scores_of = scores.as_mut_ptr();
            let (k, b) = (a.value, turned_v.as_ptr());
            product(isa, &Product { k, a: g, a_steps: (grad.row, 1), b, c: scores_of, ..base });
            for r in 0..count {
                let at = i * a.queries + first + r;
                let valid = if a.causal { seen.min(first + r + 1) } else { seen };
                if let Some(m) = &s.mask {
                    m.fetch(i, first + r, 0, &mut added[..valid]);
                }
                let extra = s.mask.as_ref().map(|_| &added[..valid]);
                let w = weights.as_mut_ptr().add(r * across);
                rows::weights(isa, Row { scores: w, valid, n: seen, scale: a.scale }, extra, s.sums[at]);
                let mut dot = 0.0;
                let out = s.out.as_ptr().add(out_at + (first + r) * out_pitch);
                rows::dot(isa, a.value, out, g.wrapping_add(r * grad.row), &mut dot);
                rows::score_grad(isa, seen, w, scores_of.add(r * across), dot, a.scale);
            }
            // dq = ds k
            let (b, c) = (s.k.matrix(i), dq.0.add(first * dq.1));
            let dq_of =
                Product { n: a.width, k: seen, a: scores_of, a_steps: (across, 1), b, b_row: s.k.row, c, ..base };
            product(isa, &Product { c_row: dq.1, ..dq_of });
            // dk += ds^T q, dv += w^T g
            let turned = Product { m: seen, k: count, a_steps: (1, across), add: true, ..base };
            let (n, b_row) = (a.width, s.q.row);
            product(isa, &Product { n, a: scores_of, b: q, b_row, c: dk.0, c_row: dk.1, ..turned });
            let (n, b_row) = (a.value, grad.row);
            product(isa, &Product { n, a: weights.as_ptr(), b: g, b_row, c: dv.0, c_row: dv.1, ..turned });
        }
    }
}
