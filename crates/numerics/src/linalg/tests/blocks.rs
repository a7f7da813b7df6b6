//! Matrices of several blocks, whole and not, and in both types.

use super::*;
use crate::element::Real;

/// Sizes around those of blocks, panels and vectors, and two that all threads share.
const SIZES: [usize; 12] = [7, 8, 9, 15, 31, 32, 33, 48, 49, 97, 150, 210];

/// The numbers in another type, and back.
fn in_type<T: Real>(x: &[f64]) -> Vec<T> {
    x.iter().map(|x| T::from_f64(*x)).collect()
}
fn back<T: Real>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

/// The precision of a type.
fn precision<T: Real>() -> f64 {
    if size_of::<T>() == 4 { 1e-6 } else { 1e-14 }
}

fn squares<T: Real>() {
    for n in SIZES {
        let mut r = Random(n as u64);
        let tolerance = precision::<T>() * n as f64;
        let a = back::<T>(&in_type(&symmetric(&mut r, n, n as f64 + 1.0)));
        let mut l = vec![T::ONE; n * n];
        cholesky(&in_type::<T>(&a), 1, n, false, &mut l).unwrap();
        let l = back(&l);
        close(&mul(&l, &transpose(&l, n, n), n, n, n), &a, tolerance * 2.0);
        assert!((0..n * n).all(|p| p / n >= p % n || l[p] == 0.0));
        let mut u = vec![T::ONE; n * n];
        cholesky(&in_type::<T>(&a), 1, n, true, &mut u).unwrap();
        assert_eq!(transpose(&back(&u), n, n), l);

        let a: Vec<f64> = (0..n * n).map(|p| r.unit() + if p % (n + 1) == 0 { n as f64 } else { 0.0 }).collect();
        // Rows in another order, so that there is something to exchange.
        let a: Vec<f64> = (0..n).flat_map(|i| a[i * 11 % n * n..][..n].to_vec()).collect();
        if n % 11 == 0 {
            continue;
        }
        let a = back::<T>(&in_type(&a));
        let mut x = vec![T::ZERO; n * n];
        inv(&in_type::<T>(&a), 1, n, &mut x).unwrap();
        close(&mul(&a, &back(&x), n, n, n), &identity(n), tolerance);
        for cols in [1, 30, 100] {
            let b = back::<T>(&in_type(&r.f64s(n * cols)));
            let mut x = vec![T::ZERO; n * cols];
            solve(&in_type::<T>(&a), 1, n, &in_type::<T>(&b), cols, &mut x).unwrap();
            close(&mul(&a, &back(&x), n, n, cols), &b, tolerance);
        }
    }
}

#[test]
fn squares_of_several_blocks() {
    squares::<f64>();
    squares::<f32>();
}

fn rectangles<T: Real>() {
    for (m, n) in [(40, 100), (100, 40), (33, 70), (70, 33), (129, 128), (50, 51), (200, 90), (5, 60), (60, 5)] {
        let k = m.min(n);
        let tolerance = precision::<T>() * 20.0 * (m + n) as f64 / 10.0;
        let a = back::<T>(&in_type(&Random((m * n) as u64).f64s(m * n)));
        let typed = in_type::<T>(&a);
        let (mut perm, mut l, mut u) = (vec![0; m], vec![T::ONE; m * k], vec![T::ONE; k * n]);
        lu(&typed, 1, m, n, &mut perm, &mut l, &mut u);
        let permuted: Vec<f64> = perm.iter().flat_map(|&p| &a[p as usize * n..][..n]).copied().collect();
        close(&mul(&back(&l), &back(&u), m, k, n), &permuted, tolerance);
        assert!(l.iter().all(|l| l.to_f64().abs() <= 1.0));
        for (mode, columns) in [(QrMode::Reduced, k), (QrMode::Complete, m)] {
            let (mut q, mut r) = (vec![T::ONE; m * columns], vec![T::ONE; columns * n]);
            qr(&typed, 1, m, n, mode, &mut q, &mut r);
            let (q, r) = (back(&q), back(&r));
            close(&mul(&transpose(&q, m, columns), &q, columns, m, columns), &identity(columns), tolerance);
            close(&mul(&q, &r, m, columns, n), &a, tolerance);
            assert!((0..columns * n).all(|p| p / n <= p % n || r[p] == 0.0));
        }
        let b = Random(3).f64s(m * 50);
        let mut x = vec![T::ONE; n * 50];
        lstsq(&typed, 1, m, n, &in_type::<T>(&b), 50, &mut x).unwrap();
        let residual: Vec<f64> = mul(&a, &back(&x), m, n, 50).iter().zip(&b).map(|(a, b)| a - b).collect();
        close(&mul(&transpose(&a, m, n), &residual, n, m, 50), &vec![0.0; n * 50], tolerance * 100.0);
    }
}

#[test]
fn rectangles_of_several_blocks() {
    rectangles::<f64>();
    rectangles::<f32>();
}

#[test]
fn triangles_of_several_blocks() {
    let mut r = Random(5);
    for (n, cols) in [(31, 3), (64, 50), (100, 17), (150, 130)] {
        let mut a = r.f64s(n * n);
        a.iter_mut().step_by(n + 1).for_each(|x| *x = n as f64);
        for which in 0..16 {
            let [upper, transposed, unit, right] = [1, 2, 4, 8].map(|bit| which & bit != 0);
            if unit {
                // Ones on the diagonal: the rest must be small, or solutions grow with every row.
                a.iter_mut().for_each(|x| *x /= n as f64);
            }
            let b = r.f64s(n * cols);
            let mut x = vec![0.0; n * cols];
            solve_triangular(&a, 1, n, &b, cols, Triangular { upper, transpose: transposed, unit, right }, &mut x);
            let triangle: Vec<f64> = (0..n * n)
                .map(|p| match (p / n).cmp(&(p % n)) {
                    std::cmp::Ordering::Equal => {
                        if unit {
                            1.0
                        } else {
                            a[p]
                        }
                    }
                    o => {
                        if o.is_lt() == upper {
                            a[p]
                        } else {
                            0.0
                        }
                    }
                })
                .collect();
            let t = if transposed { transpose(&triangle, n, n) } else { triangle };
            let product = if right { mul(&x, &t, cols, n, n) } else { mul(&t, &x, n, n, cols) };
            close(&product, &b, 1e-12);
            if unit {
                a.iter_mut().for_each(|x| *x *= n as f64);
            }
        }
    }
}

#[test]
fn blocks_do_not_depend_on_threads() {
    let n = 230;
    let mut r = Random(8);
    let a: Vec<f32> = symmetric(&mut r, n, n as f64).iter().map(|x| *x as f32).collect();
    let b = r.f32s(n * n);
    same_on_any_threads(|| {
        let mut all = vec![vec![0.0f32; n * n]; 6];
        let [c, s, i, q, rr, t] = &mut all[..] else { unreachable!() };
        cholesky(&a, 1, n, false, c).unwrap();
        solve(&b, 1, n, &a, n, s).unwrap();
        inv(&b, 1, n, i).unwrap();
        qr(&b, 1, n, n, QrMode::Reduced, q, rr);
        solve_triangular(&a, 1, n, &b, n, Triangular::default(), t);
        all
    });
}

#[test]
fn batches_of_tiny_matrices() {
    for n in [1, 2, 3, 4, 8, 9, 16] {
        let batch = 100;
        let mut r = Random(n as u64);
        let a: Vec<f64> = (0..batch).flat_map(|_| symmetric(&mut r, n, n as f64 + 1.0)).collect();
        let (mut l, mut x) = (vec![0.0; a.len()], vec![0.0; a.len()]);
        cholesky(&a, batch, n, false, &mut l).unwrap();
        inv(&a, batch, n, &mut x).unwrap();
        for i in 0..batch {
            let part = |x: &[f64]| x[i * n * n..][..n * n].to_vec();
            let (a, l, x) = (part(&a), part(&l), part(&x));
            close(&mul(&l, &transpose(&l, n, n), n, n, n), &a, 1e-12);
            close(&mul(&a, &x, n, n, n), &identity(n), 1e-12);
        }
    }
}
