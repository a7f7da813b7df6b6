//! Long short-term memory over a whole sequence, and its gradient.
//!
//! A step multiplies the state before by one and the same matrix, so that is packed once for all
//! steps. A panel of it holds all four gates of some units: the thread that multiplied by it has
//! all it needs for their new state, and threads meet once a step.

mod grad;

pub use grad::lstm_grad;

use crate::gemm::{Panel, Strip, pack_panel, strip};
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch, exp};
use crate::tasks::{Shared, for_tasks};

/// Steps of fewer multiplications are done by the calling thread.
const PARALLEL: usize = 1 << 17;

/// The sizes of a sequence, and how to go through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lstm {
    /// Steps in time.
    pub steps: usize,
    /// Sequences.
    pub rows: usize,
    /// Numbers of a state.
    pub hidden: usize,
    /// From the last step to the first.
    pub reversed: bool,
    /// Whether what the gradient needs is kept.
    pub keep: bool,
}

impl Lstm {
    /// Numbers of one state of all sequences.
    pub fn state(&self) -> usize {
        self.rows * self.hidden
    }

    /// Numbers that [`lstm`] writes: the states of all steps, the last cell and, if they are
    /// kept, all cells and gates.
    pub fn packed(&self) -> usize {
        self.state() * (self.steps + 1 + if self.keep { 5 * self.steps } else { 0 })
    }

    /// Numbers that [`lstm_grad`] writes: the gradients of the gates, of the first state and of
    /// the first cell.
    pub fn gradients(&self) -> usize {
        self.state() * (4 * self.steps + 2)
    }

    /// Where in time the `i`th step is.
    fn at(&self, i: usize) -> usize {
        if self.reversed { self.steps - 1 - i } else { i }
    }

    /// Where the cell of a moment is kept in what [`lstm`] writes.
    fn cell(&self, t: usize) -> usize {
        (self.steps + 1 + t) * self.state()
    }

    /// Where the gates of a moment are kept.
    fn gates(&self, t: usize) -> usize {
        (2 * self.steps + 1 + 4 * t) * self.state()
    }

    fn parallel(&self) -> bool {
        self.state() * self.hidden * 4 >= PARALLEL
    }
}

/// `1 / (1 + e^-x)`, without overflow.
#[inline(always)]
unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: arithmetic.
    unsafe {
        let positive = S::gt(x, S::zero());
        // e^-|x|
        let e = exp::<S>(S::select(positive, S::sub(S::zero(), x), x));
        let s = S::div(S::splat(1.0), S::add(S::splat(1.0), e));
        S::select(positive, s, S::mul(e, s))
    }
}

/// The hyperbolic tangent: a polynomial near zero, where exponentials would cancel.
#[inline(always)]
unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: arithmetic.
    unsafe {
        let positive = S::gt(x, S::zero());
        let size = S::select(positive, x, S::sub(S::zero(), x));
        let e = exp::<S>(S::mul(size, S::splat(-2.0)));
        let far = S::div(S::sub(S::splat(1.0), e), S::add(S::splat(1.0), e));
        let far = S::select(positive, far, S::sub(S::zero(), far));
        let square = S::mul(x, x);
        // Cephes' coefficients.
        let mut p = S::splat(-5.704_988_7e-3);
        for c in [2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
            p = S::fma(p, square, S::splat(c));
        }
        let near = S::fma(S::mul(p, square), x, x);
        S::select(S::gt(size, S::splat(0.625)), far, near)
    }
}

/// Some units of a step, as the places of their first numbers in the first row.
struct Units {
    rows: usize,
    /// Units, at most a vector.
    count: usize,
    hidden: usize,
    /// What the state before adds to the gates, four vectors a row.
    sums: *const f32,
    /// What the inputs add to the gates.
    gates: *const f32,
    before: *const f32,
    cell: *mut f32,
    state: *mut f32,
    /// Where the gates are kept, if they are.
    kept: Option<*mut f32>,
}

#[inline(always)]
unsafe fn advance_body<S: Simd>(u: &Units) {
    let (n, h) = (u.count, u.hidden);
    for r in 0..u.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = |q: usize| {
                S::add(S::load(u.sums.add((4 * r + q) * S::LANES)), S::load_first(u.gates.add((4 * r + q) * h), n))
            };
            let (i, f, g, o) = (sigmoid::<S>(sum(0)), sigmoid::<S>(sum(1)), tanh::<S>(sum(2)), sigmoid::<S>(sum(3)));
            let cell = S::fma(f, S::load_first(u.before.add(r * h), n), S::mul(i, g));
            S::store_first(u.cell.add(r * h), cell, n);
            S::store_first(u.state.add(r * h), S::mul(o, tanh::<S>(cell)), n);
            if let Some(kept) = u.kept {
                for (q, gate) in [i, f, g, o].into_iter().enumerate() {
                    S::store_first(kept.add((4 * r + q) * h), gate, n);
                }
            }
        }
    }
}
dispatch! {
    /// The new state of some units.
    ///
    /// # Safety
    ///
    /// All places are inside their arrays, and those written are the caller's own.
    unsafe fn advance = advance_body(u: &Units)
}

/// Runs a sequence. `gates` (`[steps, rows, 4 hidden]`) is what the inputs add to the gates, `w`
/// (`[4 hidden, hidden]`) makes the rest of them from the state before; states and cells begin with
/// `h0` and `c0` (`[rows, hidden]`). Gates lie as PyTorch has them: input, forget, cell, output.
/// `out` gets the states, the last cell and, if they are kept, all cells and all gates.
///
/// ```
/// use gradus_numerics::recurrent::{Lstm, lstm};
/// let s = Lstm { steps: 2, rows: 1, hidden: 1, reversed: false, keep: false };
/// // Gates that are open all the time: the cell counts up by tanh of the third.
/// let gates = [50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0];
/// let mut out = [0.0; 3];
/// lstm(&s, &gates, &[0.0; 4], &[0.0], &[0.0], &mut out);
/// assert!((out[0] - 1f32.tanh()).abs() < 1e-6 && (out[1] - 2f32.tanh()).abs() < 1e-6);
/// ```
pub fn lstm(s: &Lstm, gates: &[f32], w: &[f32], h0: &[f32], c0: &[f32], out: &mut [f32]) {
    let (h, one) = (s.hidden, s.state());
    assert!(gates.len() == 4 * one * s.steps && w.len() == 4 * h * h, "sizes of gates and weights");
    assert!(h0.len() == one && c0.len() == one && out.len() == s.packed(), "sizes of states");
    let (isa, parallel) = (Isa::detect(), s.parallel());
    let lanes = isa.lanes();
    let (blocks, panel) = (h.div_ceil(lanes), 2 * lanes * h);
    let mut packed = scratch::take(2 * blocks * panel);
    let weights = Shared::new(&mut packed);
    for_tasks(blocks, parallel, |b| {
        for q in 0..4 {
            let columns = lanes.min(h - b * lanes);
            let from = w.as_ptr().wrapping_add((q * h + b * lanes) * h);
            let to = weights.ptr().wrapping_add((2 * b + q / 2) * panel + q % 2 * lanes);
            // SAFETY: rows of the matrix, and places of this block's own.
            unsafe { pack_panel(isa, &Panel { depth: h, columns, b: from, steps: (1, h) }, to, 2 * lanes) };
        }
    });
    let mut sums = scratch::take(blocks * s.rows * 4 * lanes);
    let (sums, out) = (Shared::new(&mut sums), Shared::new(out));
    let last = s.steps * one;
    for i in 0..s.steps {
        let t = s.at(i);
        for_tasks(blocks, parallel, |b| {
            let here = |at: usize| out.ptr().wrapping_add(at);
            let state = if i == 0 { h0.as_ptr() } else { here(s.at(i - 1) * one).cast_const() };
            let before = match i {
                0 => c0.as_ptr(),
                _ => here(if s.keep { s.cell(s.at(i - 1)) } else { last }).cast_const(),
            };
            let mine = sums.ptr().wrapping_add(b * s.rows * 4 * lanes);
            for pair in 0..2 {
                let product = Strip {
                    rows: s.rows,
                    columns: 2 * lanes,
                    depth: h,
                    a: state,
                    a_steps: (h, 1),
                    b: weights.ptr().wrapping_add((2 * b + pair) * panel),
                    b_row: 2 * lanes,
                    c: mine.wrapping_add(pair * 2 * lanes),
                    c_row: 4 * lanes,
                    add: false,
                };
                // SAFETY: the state before is whole; the sums are this block's own.
                unsafe { strip(isa, &product) };
            }
            let at = b * lanes;
            let units = Units {
                rows: s.rows,
                count: lanes.min(h - at),
                hidden: h,
                sums: mine,
                gates: gates.as_ptr().wrapping_add(4 * t * one + at),
                before: before.wrapping_add(at),
                cell: here(if s.keep { s.cell(t) } else { last } + at),
                state: here(t * one + at),
                kept: s.keep.then(|| here(s.gates(t) + at)),
            };
            // SAFETY: blocks have units of their own; sizes were asserted.
            unsafe { advance(isa, &units) };
        });
    }
    // SAFETY: all places are inside the output, whose size was asserted, and apart.
    unsafe {
        if s.steps == 0 {
            std::ptr::copy_nonoverlapping(c0.as_ptr(), out.ptr(), one);
        } else if s.keep {
            std::ptr::copy_nonoverlapping(out.ptr().add(s.cell(s.at(s.steps - 1))), out.ptr().add(last), one);
        }
    }
}

#[cfg(test)]
mod tests;
