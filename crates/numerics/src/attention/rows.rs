//! What attention does to rows of scores.

use crate::simd::{Simd, dispatch, exp, fold};

/// Where a block's results go.
pub(super) struct State {
    pub out: *mut f32,
    /// Numbers from row to row of the result.
    pub pitch: usize,
    pub sums: *mut f32,
}

/// A row of scores.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub scores: *mut f32,
    /// Scores that count, and all there are: the rest become zeros.
    pub valid: usize,
    pub n: usize,
    pub scale: f32,
}

#[inline(always)]
unsafe fn softmax_body<S: Simd>(
    row: Row,
    added: Option<&[f32]>,
    max: &mut f32,
    total: &mut f32,
    out: *mut f32,
    width: usize,
) {
    // SAFETY: the row has `n` scores (and `valid` are added to), `out` has `width` numbers.
    unsafe {
        let scale = S::splat(row.scale);
        let low = S::splat(f32::NEG_INFINITY);
        let mut largest = low;
        for j in (0..row.valid).step_by(S::LANES) {
            let n = (row.valid - j).min(S::LANES);
            let at = row.scores.add(j);
            let mut x = S::mul(S::load_first(at, n), scale);
            if let Some(a) = added {
                x = S::add(x, S::load_first(a.as_ptr().add(j), n));
            }
            S::store_first(at, x, n);
            // A NaN wins here and below.
            if n < S::LANES {
                let mut tail = [f32::NEG_INFINITY; 16];
                S::store_first(tail.as_mut_ptr(), x, n);
                x = S::load(tail.as_ptr());
            }
            largest = S::select(S::or(S::gt(x, largest), S::is_nan(x)), x, largest);
        }
        let largest = fold::<S>(largest, |a, b| if b > a || b.is_nan() { b } else { a });
        let new = if largest > *max || largest.is_nan() { largest } else { *max };
        // Nothing seen so far: exponentials of minus infinity are zeros against any finite number.
        let base = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let (mut sum, shift) = (S::zero(), S::splat(base));
        for j in (0..row.valid).step_by(S::LANES) {
            let n = (row.valid - j).min(S::LANES);
            let at = row.scores.add(j);
            let e = exp::<S>(S::sub(S::load_first(at, n), shift));
            S::store_first(at, e, n);
            sum = S::add(sum, if n < S::LANES { S::load_first(at, n) } else { e });
        }
        for j in (row.valid..row.n).step_by(S::LANES) {
            S::store_first(row.scores.add(j), S::zero(), (row.n - j).min(S::LANES));
        }
        // What was summed up before belongs to the old maximum.
        let keep = if new == *max { 1.0 } else { (*max - base).exp() };
        *total = *total * keep + fold::<S>(sum, |a, b| a + b);
        *max = new;
        if keep != 1.0 {
            let keep = S::splat(keep);
            for j in (0..width).step_by(S::LANES) {
                let n = (width - j).min(S::LANES);
                S::store_first(out.add(j), S::mul(S::load_first(out.add(j), n), keep), n);
            }
        }
    }
}
dispatch! {
    /// Turns scores into exponentials against the running maximum, and brings the running sum and
    /// `width` numbers of earlier output to that maximum.
    ///
    /// # Safety
    ///
    /// The row and the output are this task's own and that long.
    pub(super) unsafe fn softmax = softmax_body(row: Row, added: Option<&[f32]>, max: &mut f32, total: &mut f32, out: *mut f32, width: usize)
}

#[inline(always)]
unsafe fn finish_body<S: Simd>(out: *mut f32, width: usize, max: f32, total: f32, sum: *mut f32) {
    // A row that sees nothing: zeros, and weights that stay zero in the gradient.
    let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
    // SAFETY: the output has `width` numbers.
    unsafe {
        for j in (0..width).step_by(S::LANES) {
            let n = (width - j).min(S::LANES);
            S::store_first(out.add(j), S::mul(S::load_first(out.add(j), n), S::splat(factor)), n);
        }
        *sum = if total == 0.0 { f32::INFINITY } else { max + total.ln() };
    }
}
dispatch! {
    /// Divides by the sum, and keeps its logarithm.
    ///
    /// # Safety
    ///
    /// The output is this task's own and that long.
    pub(super) unsafe fn finish = finish_body(out: *mut f32, width: usize, max: f32, total: f32, sum: *mut f32)
}

#[inline(always)]
unsafe fn weights_body<S: Simd>(row: Row, added: Option<&[f32]>, sum: f32) {
    // SAFETY: the row has `n` scores.
    unsafe {
        let (scale, shift) = (S::splat(row.scale), S::splat(sum));
        for j in (0..row.valid).step_by(S::LANES) {
            let n = (row.valid - j).min(S::LANES);
            let at = row.scores.add(j);
            let mut x = S::mul(S::load_first(at, n), scale);
            if let Some(a) = added {
                x = S::add(x, S::load_first(a.as_ptr().add(j), n));
            }
            S::store_first(at, exp::<S>(S::sub(x, shift)), n);
        }
        for j in (row.valid..row.n).step_by(S::LANES) {
            S::store_first(row.scores.add(j), S::zero(), (row.n - j).min(S::LANES));
        }
    }
}
dispatch! {
    /// Scores to weights, given the logarithm of the row's sum.
    ///
    /// # Safety
    ///
    /// The row is this task's own and that long.
    pub(super) unsafe fn weights = weights_body(row: Row, added: Option<&[f32]>, sum: f32)
}

#[inline(always)]
unsafe fn score_grad_body<S: Simd>(n: usize, weights: *const f32, grads: *mut f32, dot: f32, scale: f32) {
    // SAFETY: both rows have `n` numbers.
    unsafe {
        for j in (0..n).step_by(S::LANES) {
            let n = (n - j).min(S::LANES);
            let w = S::load_first(weights.add(j), n);
            let d = S::sub(S::load_first(grads.add(j), n), S::splat(dot));
            S::store_first(grads.add(j), S::mul(S::mul(w, d), S::splat(scale)), n);
        }
    }
}
dispatch! {
    /// `grads = weights * (grads - dot) * scale`
    ///
    /// # Safety
    ///
    /// Both rows are that long, the second this task's own.
    pub(super) unsafe fn score_grad = score_grad_body(n: usize, weights: *const f32, grads: *mut f32, dot: f32, scale: f32)
}

#[inline(always)]
unsafe fn dot_body<S: Simd>(n: usize, a: *const f32, b: *const f32, out: &mut f32) {
    // SAFETY: both rows have `n` numbers.
    unsafe {
        let mut sum = S::zero();
        for j in (0..n).step_by(S::LANES) {
            let n = (n - j).min(S::LANES);
            sum = S::fma(S::load_first(a.add(j), n), S::load_first(b.add(j), n), sum);
        }
        *out = fold::<S>(sum, |a, b| a + b);
    }
}
dispatch! {
    /// The dot product of two rows.
    ///
    /// # Safety
    ///
    /// Both rows are that long.
    pub(super) unsafe fn dot = dot_body(n: usize, a: *const f32, b: *const f32, out: &mut f32)
}

#[inline(always)]
unsafe fn turn_body<S: Simd>(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize) {
    // SAFETY: the caller gives rows that long on both sides.
    unsafe {
        let (whole_rows, whole_columns) = (rows / S::LANES * S::LANES, columns / S::LANES * S::LANES);
        for i in (0..whole_rows).step_by(S::LANES) {
            for j in (0..whole_columns).step_by(S::LANES) {
                S::transpose(x.add(i * from + j), from, y.add(j * to + i), to);
            }
        }
        for i in 0..rows {
            let start = if i < whole_rows { whole_columns } else { 0 };
            for j in start..columns {
                *y.add(j * to + i) = *x.add(i * from + j);
            }
        }
    }
}
dispatch! {
    /// The transpose of `rows` rows of `columns` numbers.
    ///
    /// # Safety
    ///
    /// Rows are that long on both sides.
    pub(crate) unsafe fn turn = turn_body(rows: usize, columns: usize, x: *const f32, from: usize, y: *mut f32, to: usize)
}
