//! The gradient of a sequence, from the last step to the first.

use super::{Lstm, tanh};
use crate::gemm::{Panel, Strip, pack_panel, strip};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// The longest part of a sum that is taken at once: a panel of it stays in the L2 cache.
const DEEP: usize = 512;

/// Some units of a step, as the places of their first numbers in the first row.
struct Units {
    rows: usize,
    count: usize,
    hidden: usize,
    /// What the result is asked for at this step.
    grad: *const f32,
    /// What the step after asks for, if there is one.
    after: Option<*const f32>,
    gates: *const f32,
    before: *const f32,
    cell: *const f32,
    /// What is asked of the cell: after this step, then before it.
    cells: *mut f32,
    /// The gradients of the gates.
    out: *mut f32,
}

#[inline(always)]
unsafe fn retreat_body<S: Simd>(u: &Units) {
    let h = u.hidden;
    for (r, first) in (0..u.rows).flat_map(|r| (0..u.count).step_by(S::LANES).map(move |c| (r, c))) {
        let (n, at) = (S::LANES.min(u.count - first), r * h + first);
        // SAFETY: the caller's promise.
        unsafe {
            let one = S::splat(1.0);
            let slope = |s: S::V| S::mul(s, S::sub(one, s));
            let gate = |q: usize| S::load_first(u.gates.add((4 * r + q) * h + first), n);
            let [i, f, g, o] = [gate(0), gate(1), gate(2), gate(3)];
            let mut state = S::load_first(u.grad.add(at), n);
            if let Some(after) = u.after {
                state = S::add(state, S::load_first(after.add(at), n));
            }
            let t = tanh::<S>(S::load_first(u.cell.add(at), n));
            let cell = S::load_first(u.cells.add(at), n);
            let cell = S::fma(S::mul(state, o), S::fnma(t, t, one), cell);
            let before = S::load_first(u.before.add(at), n);
            let parts = [
                S::mul(S::mul(cell, g), slope(i)),
                S::mul(S::mul(cell, before), slope(f)),
                S::mul(S::mul(cell, i), S::fnma(g, g, one)),
                S::mul(S::mul(state, t), slope(o)),
            ];
            for (q, part) in parts.into_iter().enumerate() {
                S::store_first(u.out.add((4 * r + q) * h + first), part, n);
            }
            S::store_first(u.cells.add(at), S::mul(cell, f), n);
        }
    }
}
dispatch! {
    /// The gradients of the gates of some units.
    ///
    /// # Safety
    ///
    /// All places are inside their arrays, and those written are the caller's own.
    unsafe fn retreat = retreat_body(u: &Units)
}

/// The gradients of the gates (`[steps, rows, 4 hidden]`), of the first state and of the first cell,
/// one after the other, from what [`super::lstm`] kept and `grad`, which is asked of the states and of
/// the last cell.
pub fn lstm_grad(s: &Lstm, w: &[f32], c0: &[f32], packed: &[f32], grad: &[f32], out: &mut [f32]) {
    let (h, one) = (s.hidden, s.state());
    assert!(s.keep && packed.len() == s.packed() && w.len() == 4 * h * h, "sizes of what was kept and weights");
    assert!(c0.len() == one && grad.len() == (s.steps + 1) * one, "sizes of states");
    assert!(out.len() == s.gradients(), "size of the gradients");
    let (isa, parallel) = (Isa::detect(), s.parallel());
    let wide = 2 * isa.lanes();
    let (panels, size) = (h.div_ceil(wide), 4 * h * wide);
    let mut panel = scratch::take(panels * size);
    let weights = Shared::new(&mut panel);
    let columns = |p: usize| wide.min(h - p * wide);
    for_tasks(panels, parallel, |p| {
        let from = Panel { depth: 4 * h, columns: columns(p), b: w.as_ptr().wrapping_add(p * wide), steps: (h, 1) };
        // SAFETY: columns of the matrix, and a place of this panel's own.
        unsafe { pack_panel(isa, &from, weights.ptr().add(p * size), wide) };
    });
    let (gates, ends) = out.split_at_mut(4 * s.steps * one);
    let (first, cells) = ends.split_at_mut(one);
    cells.copy_from_slice(&grad[s.steps * one..]);
    if s.steps == 0 {
        return first.fill(0.0);
    }
    let (gates, first, cells) = (Shared::new(gates), Shared::new(first), Shared::new(cells));
    // Some columns of what step `i` asks of the state before it.
    let product = |i: usize, p: usize| {
        for from in (0..4 * h).step_by(DEEP) {
            let part = Strip {
                rows: s.rows,
                columns: columns(p),
                depth: DEEP.min(4 * h - from),
                a: gates.ptr().wrapping_add(4 * s.at(i) * one + from),
                a_steps: (4 * h, 1),
                b: weights.ptr().wrapping_add(p * size + from * wide),
                b_row: wide,
                c: first.ptr().wrapping_add(p * wide),
                c_row: h,
                add: from > 0,
            };
            // SAFETY: that step is whole; columns are this task's own.
            unsafe { strip(isa, &part) };
        }
    };
    for i in (0..s.steps).rev() {
        let t = s.at(i);
        for_tasks(panels, parallel, |p| {
            let at = p * wide;
            if i + 1 < s.steps {
                product(i + 1, p);
            }
            let before = if i == 0 { c0.as_ptr() } else { packed.as_ptr().wrapping_add(s.cell(s.at(i - 1))) };
            let units = Units {
                rows: s.rows,
                count: columns(p),
                hidden: h,
                grad: grad.as_ptr().wrapping_add(t * one + at),
                after: (i + 1 < s.steps).then(|| first.ptr().wrapping_add(at).cast_const()),
                gates: packed.as_ptr().wrapping_add(s.gates(t) + at),
                before: before.wrapping_add(at),
                cell: packed.as_ptr().wrapping_add(s.cell(t) + at),
                cells: cells.ptr().wrapping_add(at),
                out: gates.ptr().wrapping_add(4 * t * one + at),
            };
            // SAFETY: panels have units of their own; sizes were asserted.
            unsafe { retreat(isa, &units) };
        });
    }
    for_tasks(panels, parallel, |p| product(0, p));
}
