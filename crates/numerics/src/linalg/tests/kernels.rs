//! The loops inside of blocks, on every width of vectors.

use super::number::{Columns, Number, Substitution};
use super::work::{eliminate, product, turn};
use super::*;
use crate::simd::Isa;

/// Numbers of a row: whole vectors of any width.
const ROW: usize = 48;

fn numbers<W: Number>(r: &mut Random, n: usize) -> Vec<W> {
    (0..n).map(|_| W::from_f64(r.unit())).collect()
}

fn wide<W: Number>(x: &[W]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

fn substitution<W: Number>(isa: Isa, tolerance: f64) {
    let n = 20;
    for backwards in [false, true] {
        let mut r = Random(1);
        let (t, b, divisors) = (numbers::<W>(&mut r, n * n), numbers::<W>(&mut r, n * ROW), vec![W::from_f64(4.0); n]);
        let vectors = ROW / W::lanes(isa);
        let mut x = b.clone();
        let (t_at, d_at, x_at) = (t.as_ptr(), divisors.as_ptr(), x.as_mut_ptr());
        let s = Substitution { n, t: t_at, steps: (1, n), divisors: d_at, x: x_at, x_row: ROW, vectors, backwards };
        // SAFETY: as many rows and columns are there.
        unsafe { W::substitute(isa, &s) };
        // 4 x[i] - sum of t[i, p] x[p] = b[i]
        let system: Vec<f64> = (0..n * n)
            .map(|p| match (p / n, p % n) {
                (i, j) if i == j => 4.0,
                (i, j) if (i < j) == backwards => -t[j * n + i].to_f64(),
                _ => 0.0,
            })
            .collect();
        close(&mul(&system, &wide(&x), n, n, ROW), &wide(&b), tolerance);
    }
}

fn elimination<W: Number>(isa: Isa, tolerance: f64) {
    let (m, n) = (47, 30);
    let a = numbers::<W>(&mut Random(2), n * ROW);
    // A vector more.
    let (mut p, mut swaps) = ([a.clone(), vec![W::ZERO; 16]].concat(), vec![0; n]);
    // SAFETY: as many columns of as many numbers, and a vector behind them.
    unsafe { eliminate(isa, &Columns { p: p.as_mut_ptr(), step: ROW, m, count: n }, 0, n, &mut swaps) };
    let mut rows: Vec<usize> = (0..m).collect();
    swaps.iter().enumerate().for_each(|(k, s)| rows.swap(k, *s));
    let at = |i: usize, j: usize| p[j * ROW + i].to_f64();
    let l: Vec<f64> = (0..m * n)
        .map(|x| match (x / n, x % n) {
            (i, j) if i == j => 1.0,
            (i, j) => {
                if i > j {
                    -at(i, j)
                } else {
                    0.0
                }
            }
        })
        .collect();
    let u: Vec<f64> = (0..n * n).map(|x| if x / n <= x % n { at(x / n, x % n) } else { 0.0 }).collect();
    let expected: Vec<f64> = (0..m * n).map(|x| a[x % n * ROW + rows[x / n]].to_f64()).collect();
    close(&mul(&l, &u, m, n, n), &expected, tolerance);
    assert!(l.iter().all(|l| l.abs() <= 1.0));
}

fn roots<W: Number>(isa: Isa, tolerance: f64) {
    let n = 37;
    let a = symmetric(&mut Random(3), n, n as f64 + 1.0);
    let mut u = vec![W::ZERO; n * ROW];
    (0..n * n).filter(|p| p / n <= p % n).for_each(|p| u[p / n * ROW + p % n] = W::from_f64(a[p]));
    let spoiled = u.clone();
    // SAFETY: as many rows of whole vectors.
    assert_eq!(unsafe { W::cholesky(isa, n, u.as_mut_ptr(), ROW) }, n);
    let u: Vec<f64> = (0..n * n).map(|p| if p / n <= p % n { u[p / n * ROW + p % n].to_f64() } else { 0.0 }).collect();
    close(&mul(&transpose(&u, n, n), &u, n, n, n), &a, tolerance * n as f64);
    let mut u = spoiled;
    u[20 * ROW + 20] = W::from_f64(-1.0);
    // SAFETY: as above.
    assert_eq!(unsafe { W::cholesky(isa, n, u.as_mut_ptr(), ROW) }, 20);
}

fn products<W: Number>(isa: Isa, tolerance: f64) {
    let (m, n, k) = (13, 41, 10);
    let mut r = Random(4);
    let (a, b) = (numbers::<W>(&mut r, m * k), numbers::<W>(&mut r, (k + 1) * ROW));
    let (mut c, mut turned) = (vec![W::ZERO; m * ROW], vec![W::ZERO; n * ROW]);
    // SAFETY: as many numbers are there, and room for whole vectors.
    unsafe {
        product(isa, (m, n, k), (a.as_ptr(), (k, 1)), (b.as_ptr(), ROW), (c.as_mut_ptr(), ROW), false);
        turn(isa, (m, n), (c.as_ptr(), ROW), (turned.as_mut_ptr(), ROW));
    }
    let b: Vec<f64> = (0..k * n).map(|p| b[p / n * ROW + p % n].to_f64()).collect();
    let expected = mul(&wide(&a), &b, m, k, n);
    let result: Vec<f64> = (0..m * n).map(|p| turned[p % n * ROW + p / n].to_f64()).collect();
    close(&result, &expected, tolerance);
}

fn all<W: Number>(tolerance: f64) {
    for isa in Isa::every() {
        substitution::<W>(isa, tolerance);
        elimination::<W>(isa, tolerance);
        roots::<W>(isa, tolerance);
        products::<W>(isa, tolerance);
    }
}

#[test]
fn loops_of_every_width() {
    all::<f64>(1e-12);
    all::<f32>(1e-4);
}
