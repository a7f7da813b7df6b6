//! Singular values without their vectors: a reduction to two diagonals, then the implicit QR iteration of Demmel and Kahan.

use super::eigvalsh::normalize;
use super::number::STEP;
use super::reflections::{Reflections, reflector};
use super::work::{Work, add_product, line};
use super::{Each, LinalgError, for_matrices};
use crate::element::Real;
use crate::gemv::{Dots, Line};
use crate::scratch;
use crate::simd::Isa;

/// The singular values (descending) of each `m` by `n` matrix.
///
/// ```
/// let mut s = [0.0f64; 2];
/// gradus_numerics::linalg::svdvals(&[0.0, 3.0, 4.0, 0.0], 1, 2, 2, &mut s)?;
/// assert!((s[0] - 4.0).abs() < 1e-12 && (s[1] - 3.0).abs() < 1e-12);
/// # Ok::<(), gradus_numerics::linalg::LinalgError>(())
/// ```
pub fn svdvals<T: Real>(a: &[T], batch: usize, m: usize, n: usize, values: &mut [T]) -> Result<(), LinalgError> {
    let (k, long) = (m.min(n), m.max(n));
    let values = Each::new(values, batch, k);
    let room = || {
        // A longer matrix has the values of its triangle.
        let reflections = (long > k).then(|| Reflections::<f64>::new(long, k));
        (reflections, Work::<f64>::new(k, k), vec![0.0; k], vec![0.0; k])
    };
    for_matrices(batch, 2 * long * k * k + 4 * STEP * k, room, |(f, work, d, e), i| {
        let (a, steps) = (&a[i * m * n..][..m * n], if m < n { (1, n) } else { (n, 1) });
        let error = LinalgError::NoConvergence { batch: i };
        if let Some(f) = f {
            f.factor(a, steps);
            work.clear();
            (0..k).for_each(|i| work.line_mut(i)[i..].copy_from_slice(f.r(i)));
        } else {
            work.load(a, steps);
        }
        let scale = normalize(work).ok_or(error)?;
        bidiagonalize(work, d, e);
        iterate(d, e).ok_or(error)?;
        d.iter_mut().for_each(|d| *d = d.abs());
        d.sort_unstable_by(|x, y| y.total_cmp(x));
        // SAFETY: each matrix is asked for once.
        unsafe { values.at(i) }.iter_mut().zip(d.iter()).for_each(|(o, x)| *o = T::from_f64(x * scale));
        Ok(())
    })
}

/// Reduces a square matrix by reflections from both sides to its diagonal and the one above it.
fn bidiagonalize(work: &mut Work<f64>, d: &mut [f64], e: &mut [f64]) {
    let (n, row, isa) = (work.rows, work.row, Isa::detect());
    let step = n.next_multiple_of(line::<f64>()) + line::<f64>();
    // Rows y, v, -u and -x: both updates of a step are one product, A - u yᵀ - x vᵀ.
    let mut room = scratch::of::<f64>(5 * step);
    let mut column = vec![0.0; n];
    for k in 0..n {
        let u = &mut column[..n - k];
        u.iter_mut().enumerate().for_each(|(i, u)| *u = work.at(k + i, k));
        let (beta, factor) = reflector(isa, u);
        d[k] = beta;
        e[k] = 0.0;
        let (first, len) = (k + 1, n - k - 1);
        if len == 0 {
            break;
        }
        let (y, rest) = room.split_at_mut(step);
        let (v, rest) = rest.split_at_mut(step);
        let (minus_u, minus_x) = rest.split_at_mut(step);
        // Rows are taken from a whole vector on: before it come zeros.
        let before = first % line::<f64>();
        let wide = before + len;
        let (y, v, x) = (&mut y[..wide], &mut v[..wide], &mut minus_x[..len]);
        let top = work.data()[k * row + first - before..].as_mut_ptr();
        // y = factor Aᵀ u
        // SAFETY: as many rows, behind each of which u has a number, here and below.
        unsafe { f64::axpy(isa, (1, wide, len + 1), (top.cast_const(), row), (u.as_ptr(), 0), y.as_mut_ptr(), step) };
        y.iter_mut().for_each(|y| *y *= factor);
        y[..before].fill(0.0);
        v[..before].fill(0.0);
        v[before..].iter_mut().zip(&work.line(k)[first..]).zip(&y[before..]).for_each(|((v, a), y)| *v = a - y);
        let (beta, factor) = reflector(isa, &mut v[before..]);
        e[k] = beta;
        // x = factor (A - u yᵀ) v
        let corner = top.wrapping_add(row);
        let rows = (corner.cast_const(), row as isize);
        let product = Dots { sizes: (1, len, wide), rows, x: v.as_ptr(), out: x.as_mut_ptr(), steps: (0, 1) };
        let mut inner = 0.0;
        let one =
            Dots { sizes: (1, 1, wide), rows: (y.as_ptr(), 0), x: v.as_ptr(), out: &raw mut inner, steps: (0, 0) };
        // SAFETY: as above.
        unsafe {
            f64::dot(isa, &product);
            f64::dot(isa, &one);
        }
        x.iter_mut().zip(&u[1..]).for_each(|(x, u)| *x = -factor * (*x - u * inner));
        minus_u.iter_mut().zip(&u[1..]).for_each(|(m, u)| *m = -u);
        let (left, right) = (room[2 * step..].as_ptr(), room.as_ptr());
        // SAFETY: the trailing block, and vectors that lie apart with room behind them.
        unsafe { add_product(isa, (len, wide, 2), (left, (1, step)), (right, step), (corner, row)) };
    }
}

/// A rotation that takes `(f, g)` to `(r, 0)`: cosine, sine and `r`.
#[inline(always)]
fn rotation(f: f64, g: f64) -> (f64, f64, f64) {
    if g == 0.0 {
        return (1.0, 0.0, f);
    }
    let square = f * f + g * g;
    let r = if square > 1e-290 { square.sqrt() } else { f.hypot(g) };
    (f / r, g / r, r)
}

/// Singular values of an upper matrix with diagonal `d` and `e` above it, but for signs, in `d`; `None` if the iteration
/// does not end.
fn iterate(d: &mut [f64], e: &mut [f64]) -> Option<()> {
    let mut end = d.len();
    let most = d.iter().chain(e.iter()).fold(0.0f64, |s, x| s.max(x.abs()));
    // The reduction to two diagonals was no more exact.
    let least = f64::EPSILON / 8.0 * most;
    let rounds = 40 * end + 1;
    for _ in 0..rounds {
        while end > 1 && negligible(d, e, end - 2, least) {
            e[end - 2] = 0.0;
            end -= 1;
        }
        if end <= 1 {
            return Some(());
        }
        let start = (0..end - 2).rev().find(|&i| negligible(d, e, i, least)).map_or(0, |i| i + 1);
        let (d, e) = (&mut d[start..end], &mut e[start..end - 1]);
        let last = d.len() - 1;
        // Towards the small end. Backwards, the transpose has the same form.
        if d[0].abs() < d[last].abs() {
            d.reverse();
            e.reverse();
        }
        let shift = smaller(d[last - 1], e[last - 1], d[last]);
        let ratio = shift / d[0].abs();
        if d[0] == 0.0 || ratio * ratio < f64::EPSILON {
            without_shift(d, e);
        } else {
            with_shift(d, e, shift);
        }
    }
    None
}

/// Whether an element above the diagonal does not count: beside those below and left of it, or at all.
fn negligible(d: &[f64], e: &[f64], i: usize, least: f64) -> bool {
    e[i].abs() <= least.max(f64::EPSILON / 2.0 * (d[i].abs() + d[i + 1].abs()))
}

/// The smaller singular value of `[[f, g], [0, h]]`, by LAPACK's formula, which loses no digits.
fn smaller(f: f64, g: f64, h: f64) -> f64 {
    let (f, g, h) = (f.abs(), g.abs(), h.abs());
    let (low, high) = (f.min(h), f.max(h));
    if low == 0.0 {
        return 0.0;
    }
    let (sum, difference) = (1.0 + low / high, (high - low) / high);
    if g < high {
        let ratio = (g / high) * (g / high);
        low * (2.0 / ((sum * sum + ratio).sqrt() + (difference * difference + ratio).sqrt()))
    } else {
        let ratio = high / g;
        if ratio == 0.0 {
            return low * high / g;
        }
        let (sum, difference) = (sum * ratio, difference * ratio);
        2.0 * (low * ratio) / ((1.0 + sum * sum).sqrt() + (1.0 + difference * difference).sqrt())
    }
}

/// A sweep that loses no digits of the small values.
fn without_shift(d: &mut [f64], e: &mut [f64]) {
    let last = d.len() - 1;
    let (mut c, mut old_c, mut old_s) = (1.0, 1.0, 0.0);
    for i in 0..last {
        let (cosine, sine, r) = rotation(d[i] * c, e[i]);
        c = cosine;
        if i > 0 {
            e[i - 1] = old_s * r;
        }
        (old_c, old_s, d[i]) = rotation(old_c * r, d[i + 1] * sine);
    }
    let h = d[last] * c;
    d[last] = h * old_c;
    e[last - 1] = h * old_s;
}

/// A sweep that is faster to converge.
fn with_shift(d: &mut [f64], e: &mut [f64], shift: f64) {
    let last = d.len() - 1;
    let mut f = (d[0].abs() - shift) * (1f64.copysign(d[0]) + shift / d[0]);
    let mut g = e[0];
    for i in 0..last {
        let (c, s, r) = rotation(f, g);
        if i > 0 {
            e[i - 1] = r;
        }
        f = c * d[i] + s * e[i];
        e[i] = c * e[i] - s * d[i];
        g = s * d[i + 1];
        d[i + 1] *= c;
        let (c, s, r) = rotation(f, g);
        d[i] = r;
        f = c * e[i] + s * d[i + 1];
        d[i + 1] = c * d[i + 1] - s * e[i];
        if i + 1 < last {
            g = s * e[i + 1];
            e[i + 1] *= c;
        }
    }
    e[last - 1] = f;
}
