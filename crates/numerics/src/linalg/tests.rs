use super::*;
use crate::testing::{Random, close, same_on_any_threads};
use proptest::prelude::*;

mod blocks;
mod kernels;
mod values;

/// `A B`, row-major.
fn mul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for p in 0..k {
            axpy(&mut c[i * n..][..n], a[i * k + p], &b[p * n..][..n]);
        }
    }
    c
}

fn identity(n: usize) -> Vec<f64> {
    let mut x = vec![0.0; n * n];
    x.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
    x
}

/// Asserts that the columns of an `m` by `n` matrix are orthonormal.
#[track_caller]
fn orthonormal(q: &[f64], m: usize, n: usize) {
    close(&mul(&transpose(q, m, n), q, n, m, n), &identity(n), 1e-12);
}

/// A random matrix of the given rank.
fn of_rank(r: &mut Random, m: usize, n: usize, rank: usize) -> Vec<f64> {
    let (a, b) = (r.f64s(m * rank), r.f64s(rank * n));
    mul(&a, &b, m, rank, n)
}

/// A random symmetric matrix, positive definite if `shift` is `n` or more.
fn symmetric(r: &mut Random, n: usize, shift: f64) -> Vec<f64> {
    let a = r.f64s(n * n);
    let t = transpose(&a, n, n);
    (0..n * n).map(|p| (a[p] + t[p]) / 2.0 + if p % (n + 1) == 0 { shift } else { 0.0 }).collect()
}

/// The determinant by expansion along the first row.
fn expand(a: &[f64], n: usize) -> f64 {
    if n == 0 {
        return 1.0;
    }
    let minor = |j: usize| -> Vec<f64> { (n..n * n).filter(|p| p % n != j).map(|p| a[p]).collect() };
    (0..n).map(|j| a[j] * expand(&minor(j), n - 1) * if j % 2 == 0 { 1.0 } else { -1.0 }).sum()
}

proptest! {
    #[test]
    fn determinants_match(seed: u64, batch in 0usize..3, n in 0usize..6) {
        let a = Random(seed).f64s(batch * n * n);
        let (mut d, mut sign, mut log) = (vec![0.0; batch], vec![0.0; batch], vec![0.0; batch]);
        det(&a, batch, n, &mut d);
        slogdet(&a, batch, n, &mut sign, &mut log);
        for i in 0..batch {
            let expected = expand(&a[i * n * n..][..n * n], n);
            close(&[d[i], sign[i] * log[i].exp()], &[expected; 2], 1e-12);
        }
    }

    #[test]
    fn systems_are_solved(seed: u64, batch in 0usize..3, n in 0usize..20, cols in 0usize..4) {
        let mut r = Random(seed);
        let a: Vec<f64> = (0..batch).flat_map(|_| symmetric(&mut r, n, 3.0 + n as f64)).collect();
        let b = r.f64s(batch * n * cols);
        let (mut x, mut ai) = (vec![0.0; b.len()], vec![0.0; a.len()]);
        solve(&a, batch, n, &b, cols, &mut x).unwrap();
        inv(&a, batch, n, &mut ai).unwrap();
        for i in 0..batch {
            let a = &a[i * n * n..][..n * n];
            close(&mul(a, &x[i * n * cols..][..n * cols], n, n, cols), &b[i * n * cols..][..n * cols], 1e-11);
            close(&mul(a, &ai[i * n * n..][..n * n], n, n, n), &identity(n), 1e-11);
        }
    }

    #[test]
    fn lu_rebuilds(seed: u64, m in 0usize..12, n in 0usize..12, rank in 0usize..12) {
        let a = of_rank(&mut Random(seed), m, n, rank);
        let k = m.min(n);
        let (mut perm, mut l, mut u) = (vec![0; m], vec![9.0; m * k], vec![9.0; k * n]);
        lu(&a, 1, m, n, &mut perm, &mut l, &mut u);
        let permuted: Vec<f64> = perm.iter().flat_map(|&p| &a[p as usize * n..][..n]).copied().collect();
        close(&mul(&l, &u, m, k, n), &permuted, 1e-12);
        prop_assert!(l.iter().all(|l| l.abs() <= 1.0));
        for i in 0..m {
            prop_assert!((i..k).all(|j| l[i * k + j] == f64::from(u8::from(i == j))));
            prop_assert!(i >= k || (0..i.min(n)).all(|j| u[i * n + j] == 0.0));
        }
        let (mut compact, mut pivots) = (vec![0.0; m * n], vec![0; k]);
        lu_factor(&a, 1, m, n, &mut compact, &mut pivots);
        let mut rows: Vec<i64> = (0..m as i64).collect();
        pivots.iter().enumerate().for_each(|(i, p)| rows.swap(i, *p as usize));
        prop_assert_eq!(rows, perm);
        prop_assert!((0..k).all(|i| compact[i * n + i] == u[i * n + i]));
    }

    #[test]
    fn cholesky_rebuilds(seed: u64, n in 0usize..20, upper: bool) {
        let a = symmetric(&mut Random(seed), n, n as f64 + 1.0);
        // The other triangle is not read.
        let spoiled: Vec<f64> = (0..n * n)
            .map(|p| if (p / n.max(1) < p % n.max(1)) == upper || p % (n + 1) == 0 { a[p] } else { f64::NAN })
            .collect();
        let mut l = vec![9.0; n * n];
        cholesky(&spoiled, 1, n, upper, &mut l).unwrap();
        let t = transpose(&l, n, n);
        close(&if upper { mul(&t, &l, n, n, n) } else { mul(&l, &t, n, n, n) }, &a, 1e-12);
        prop_assert!((0..n * n).all(|p| l[p] == 0.0 || p / n == p % n || (p / n < p % n) == upper));
    }

    #[test]
    fn triangular_systems_are_solved(
        seed: u64, n in 0usize..10, cols in 0usize..4,
        upper: bool, transposed: bool, unit: bool, right: bool,
    ) {
        let mut r = Random(seed);
        let mut a = r.f64s(n * n);
        a.iter_mut().step_by(n + 1).for_each(|x| *x += 3.0f64.copysign(*x));
        let b = r.f64s(n * cols);
        let which = Triangular { upper, transpose: transposed, unit, right };
        let mut x = vec![0.0; n * cols];
        solve_triangular(&a, 1, n, &b, cols, which, &mut x);
        let triangle: Vec<f64> = (0..n * n)
            .map(|p| match (p / n).cmp(&(p % n)) {
                std::cmp::Ordering::Equal => if unit { 1.0 } else { a[p] },
                o => if o.is_lt() == upper { a[p] } else { 0.0 },
            })
            .collect();
        let t = if transposed { transpose(&triangle, n, n) } else { triangle };
        let product = if right { mul(&x, &t, cols, n, n) } else { mul(&t, &x, n, n, cols) };
        let size = x.iter().fold(1.0f64, |s, x| s.max(x.abs()));
        close(&product, &b, 1e-13 * size * 10.0);
    }

    #[test]
    fn qr_rebuilds(seed: u64, m in 0usize..14, n in 0usize..14, rank in 0usize..14) {
        let a = of_rank(&mut Random(seed), m, n, rank);
        let k = m.min(n);
        let (mut q, mut r) = (vec![9.0; m * k], vec![9.0; k * n]);
        qr(&a, 1, m, n, QrMode::Reduced, &mut q, &mut r);
        orthonormal(&q, m, k);
        close(&mul(&q, &r, m, k, n), &a, 1e-12);
        prop_assert!((0..k * n).all(|p| p / n <= p % n || r[p] == 0.0));
        let mut only = vec![9.0; k * n];
        qr(&a, 1, m, n, QrMode::R, &mut [], &mut only);
        prop_assert_eq!(only, r);
        let (mut q, mut r) = (vec![9.0; m * m], vec![9.0; m * n]);
        qr(&a, 1, m, n, QrMode::Complete, &mut q, &mut r);
        orthonormal(&q, m, m);
        close(&mul(&q, &r, m, m, n), &a, 1e-12);
    }

    #[test]
    fn svd_rebuilds(seed: u64, m in 0usize..14, n in 0usize..14, rank in 0usize..14, full: bool) {
        let a = of_rank(&mut Random(seed), m, n, rank);
        let k = m.min(n);
        let (c, r) = if full { (m, n) } else { (k, k) };
        let (mut u, mut s, mut vh) = (vec![9.0; m * c], vec![9.0; k], vec![9.0; r * n]);
        svd(&a, 1, m, n, full, &mut u, &mut s, &mut vh).unwrap();
        orthonormal(&u, m, c);
        orthonormal(&transpose(&vh, r, n), n, r);
        prop_assert!(s.windows(2).all(|w| w[0] >= w[1]) && s.iter().all(|s| *s >= 0.0));
        let mut us = vec![0.0; m * k];
        for i in 0..m {
            (0..k).for_each(|j| us[i * k + j] = u[i * c + j] * s[j]);
        }
        close(&mul(&us, &vh[..k * n], m, k, n), &a, 1e-12);
    }

    #[test]
    fn eigh_rebuilds(seed: u64, n in 0usize..20, upper: bool, rank in 0usize..20) {
        let mut r = Random(seed);
        let half = r.f64s(n * rank);
        let a = if rank < n { mul(&half, &transpose(&half, n, rank), n, rank, n) } else { symmetric(&mut r, n, 0.0) };
        let spoiled: Vec<f64> = (0..n * n)
            .map(|p| if (p / n.max(1) < p % n.max(1)) == upper || p % (n + 1) == 0 { a[p] } else { f64::NAN })
            .collect();
        let (mut w, mut v) = (vec![9.0; n], vec![9.0; n * n]);
        eigh(&spoiled, 1, n, upper, &mut w, &mut v).unwrap();
        orthonormal(&v, n, n);
        prop_assert!(w.windows(2).all(|w| w[0] <= w[1]));
        let scaled: Vec<f64> = (0..n * n).map(|p| v[p] * w[p % n]).collect();
        close(&mul(&scaled, &transpose(&v, n, n), n, n, n), &a, 1e-11);
    }

    #[test]
    fn least_squares_are_least(seed: u64, m in 1usize..10, n in 1usize..10, cols in 0usize..3) {
        let mut r = Random(seed);
        let mut a = r.f64s(m * n);
        a.iter_mut().step_by(n + 1).take(m.min(n)).for_each(|x| *x += 3.0);
        let b = r.f64s(m * cols);
        let mut x = vec![9.0; n * cols];
        lstsq(&a, 1, m, n, &b, cols, &mut x).unwrap();
        let residual: Vec<f64> = mul(&a, &x, m, n, cols).iter().zip(&b).map(|(a, b)| a - b).collect();
        let at = transpose(&a, m, n);
        if m >= n {
            // The residual is orthogonal to the columns.
            close(&mul(&at, &residual, n, m, cols), &vec![0.0; n * cols], 1e-10);
        } else {
            // Exact, and of least norm: orthogonal to the null space, so in the span of the rows.
            close(&residual, &vec![0.0; m * cols], 1e-10);
            let mut y = vec![0.0; m * cols];
            lstsq(&at, 1, n, m, &x, cols, &mut y).unwrap();
            close(&mul(&at, &y, n, m, cols), &x, 1e-10);
        }
    }

    #[test]
    fn exponentials_match_the_series(seed: u64, n in 0usize..6, size in 0.0f64..8.0) {
        let a: Vec<f64> = Random(seed).f64s(n * n).iter().map(|x| x * size).collect();
        let mut e = vec![0.0; n * n];
        matrix_exp(&a, 1, n, &mut e);
        let (mut term, mut sum) = (identity(n), identity(n));
        for i in 1..300 {
            term = mul(&term, &a, n, n, n).iter().map(|x| x / f64::from(i)).collect();
            axpy(&mut sum, 1.0, &term);
        }
        // The series itself loses digits to terms as large as exp(norm).
        close(&e, &sum, 1e-13 * (size * n as f64).exp().max(1.0));
    }
}

#[test]
fn signs_of_qr_are_lapacks() {
    // By the rule of LAPACK's dlarfg: beta = -sign(alpha) * norm in the first column, which makes
    // R's corner -sqrt(10); the last has nothing below the diagonal and keeps its sign.
    let (mut q, mut r) = ([0.0; 4], [0.0; 4]);
    qr(&[1.0f64, 2.0, 3.0, 4.0], 1, 2, 2, QrMode::Reduced, &mut q, &mut r);
    close(&q, &[-0.316_227_766_016_838, -0.948_683_298_050_514, -0.948_683_298_050_514, 0.316_227_766_016_838], 1e-14);
    close(&r, &[-3.162_277_660_168_38, -4.427_188_724_235_73, 0.0, -0.632_455_532_033_676], 1e-13);
    // A column that is zero below the diagonal is left as it is, negative or not.
    for x in [2.0, -2.0] {
        qr(&[x, 1.0, 0.0, -3.0], 1, 2, 2, QrMode::Reduced, &mut q, &mut r);
        assert_eq!((q, r), ([1.0, 0.0, 0.0, 1.0], [x, 1.0, 0.0, -3.0]));
    }
}

#[test]
fn failures_name_the_first_matrix() {
    let a = [1.0f32, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0];
    let mut out = [0.0; 12];
    assert_eq!(inv(&a, 3, 2, &mut out), Err(LinalgError::Singular { batch: 1, pivot: 1 }));
    assert_eq!(solve(&a, 3, 2, &[1.0; 6], 1, &mut out[..6]), Err(LinalgError::Singular { batch: 1, pivot: 1 }));
    assert_eq!(cholesky(&a, 3, 2, false, &mut out), Err(LinalgError::NotPositiveDefinite { batch: 1, minor: 2 }));
    let (mut sign, mut log) = ([9.0; 3], [9.0; 3]);
    slogdet(&a, 3, 2, &mut sign, &mut log);
    assert_eq!((sign, log), ([1.0, 0.0, 0.0], [0.0, f32::NEG_INFINITY, f32::NEG_INFINITY]));
    assert!(lstsq(&[0.0f32, 0.0], 1, 2, 1, &[1.0, 1.0], 1, &mut [0.0]).is_err());
}

#[test]
fn what_is_not_finite_does_not_converge() {
    let a = [1.0, f64::NAN, 2.0, f64::INFINITY];
    let (mut u, mut s, mut v) = ([0.0; 4], [0.0; 2], [0.0; 4]);
    assert_eq!(svd(&a, 1, 2, 2, true, &mut u, &mut s, &mut v), Err(LinalgError::NoConvergence { batch: 0 }));
    assert_eq!(eigh(&a, 1, 2, true, &mut s, &mut v), Err(LinalgError::NoConvergence { batch: 0 }));
    assert!(cholesky(&a, 1, 2, false, &mut u).is_err());
    det(&a, 1, 2, &mut s[..1]);
    assert!(s[0].is_nan());
    // A NaN below a zero is a pivot, not a reason to call the matrix singular.
    det(&[0.0, 1.0, f64::NAN, 1.0], 1, 2, &mut s[..1]);
    assert!(s[0].is_nan());
    assert_eq!(inv(&[0.0, 1.0, f64::NAN, 1.0], 1, 2, &mut u), Ok(()));
}

#[test]
fn extreme_scales_survive() {
    for scale in [1e-300, 1e300, 1e-160] {
        let a: Vec<f64> = [3.0, 1.0, 1.0, 3.0].iter().map(|x| x * scale).collect();
        let (mut u, mut s, mut v) = ([0.0; 4], [0.0; 2], [0.0; 4]);
        svd(&a, 1, 2, 2, true, &mut u, &mut s, &mut v).unwrap();
        close(&[s[0] / scale, s[1] / scale], &[4.0, 2.0], 1e-14);
        eigh(&a, 1, 2, true, &mut s, &mut v).unwrap();
        close(&[s[0] / scale, s[1] / scale], &[2.0, 4.0], 1e-14);
    }
}

#[test]
fn small_singular_values_are_accurate_next_to_large_ones() {
    let (mut u, mut s, mut v) = ([0.0; 9], [0.0; 3], [0.0; 9]);
    svd(&[1e10, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1e-10], 1, 3, 3, true, &mut u, &mut s, &mut v).unwrap();
    close(&[s[0] / 1e10, s[1], s[2] / 1e-10], &[1.0; 3], 1e-14);
}

#[test]
fn larger_matrices_and_batches() {
    let mut r = Random(11);
    let (batch, n) = (5, 60);
    let a: Vec<f64> = (0..batch).flat_map(|_| symmetric(&mut r, n, 0.0)).collect();
    let run = || {
        let (mut w, mut v) = (vec![0.0; batch * n], vec![0.0; batch * n * n]);
        eigh(&a, batch, n, false, &mut w, &mut v).unwrap();
        let (mut u, mut s, mut vh) = (v.clone(), w.clone(), v.clone());
        svd(&a, batch, n, n, false, &mut u, &mut s, &mut vh).unwrap();
        (w, v, u, s, vh)
    };
    let (w, v, u, s, _) = run();
    for i in 0..batch {
        orthonormal(&v[i * n * n..][..n * n], n, n);
        orthonormal(&u[i * n * n..][..n * n], n, n);
        // The singular values of a symmetric matrix are the magnitudes of its eigenvalues.
        let mut magnitudes: Vec<f64> = w[i * n..][..n].iter().map(|x| x.abs()).collect();
        magnitudes.sort_by(|a, b| b.total_cmp(a));
        close(&magnitudes, &s[i * n..][..n], 1e-11);
    }
    same_on_any_threads(run);
}
