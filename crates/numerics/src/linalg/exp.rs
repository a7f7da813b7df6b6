//! The matrix exponential.

use super::lu::solve;
use super::{for_batch, load, split, store};
use crate::element::Real;
use crate::gemm::{Dims, Layout, Operand, gemm};

/// The coefficients of the Padé approximant of degree 13.
const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];

/// The exponential of each matrix, by scaling and squaring. Elements that are not finite give NaN.
///
/// ```
/// let mut e = [0.0f64; 4];
/// gradus_numerics::linalg::matrix_exp(&[0.0, 1.0, 0.0, 0.0], 1, 2, &mut e);
/// assert!((e[0] - 1.0).abs() < 1e-15 && (e[1] - 1.0).abs() < 1e-15 && e[2].abs() < 1e-15);
/// ```
pub fn matrix_exp<T: Real>(a: &[T], batch: usize, n: usize, out: &mut [T]) {
    let done = for_batch(split(out, batch, n * n), 20 * n * n * n, |i, out| {
        store(out, &exp(load(a, i, n * n), n));
        Ok(())
    });
    debug_assert!(done.is_ok());
}

fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let l = Layout::row_major(n);
    let mut c = vec![0.0; n * n];
    gemm(Dims::new(n, n, n), 1.0, Operand::new(a, l), Operand::new(b, l), 0.0, &mut c, l);
    c
}

fn exp(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    if n == 0 {
        return a;
    }
    let norm = (0..n).map(|j| (0..n).map(|i| a[i * n + j].abs()).sum::<f64>()).fold(0.0, f64::max);
    if a.iter().any(|x| !x.is_finite()) || !norm.is_finite() {
        return vec![f64::NAN; n * n];
    }
    // Halved until the approximant is exact to rounding (Higham 2005, theta_13), squared back after.
    let squarings = (norm / 5.371920351148152).log2().ceil().max(0.0) as i32;
    a.iter_mut().for_each(|x| *x *= 0.5f64.powi(squarings));
    let a2 = product(&a, &a, n);
    let a4 = product(&a2, &a2, n);
    let a6 = product(&a4, &a2, n);
    let sum = |c6: f64, c4: f64, c2: f64, c0: f64| -> Vec<f64> {
        (0..n * n).map(|p| c6 * a6[p] + c4 * a4[p] + c2 * a2[p] + if p % (n + 1) == 0 { c0 } else { 0.0 }).collect()
    };
    let b = PADE;
    let plus = |x: Vec<f64>, y: Vec<f64>| -> Vec<f64> { x.iter().zip(y).map(|(x, y)| x + y).collect() };
    let odd = plus(product(&a6, &sum(b[13], b[11], b[9], 0.0), n), sum(b[7], b[5], b[3], b[1]));
    let u = product(&a, &odd, n);
    let v = plus(product(&a6, &sum(b[12], b[10], b[8], 0.0), n), sum(b[6], b[4], b[2], b[0]));
    let numerator: Vec<f64> = v.iter().zip(&u).map(|(v, u)| v + u).collect();
    let denominator: Vec<f64> = v.iter().zip(&u).map(|(v, u)| v - u).collect();
    let mut e = vec![0.0; n * n];
    if solve(&denominator, 1, n, &numerator, n, &mut e).is_err() {
        return vec![f64::NAN; n * n];
    }
    for _ in 0..squarings {
        e = product(&e, &e, n);
    }
    e
}
