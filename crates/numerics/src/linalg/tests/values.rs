//! Eigenvalues and singular values alone, and pseudoinverses.

use super::*;

/// Against the values that come with vectors.
fn same_values(a: &[f64], m: usize, n: usize) {
    let k = m.min(n);
    let size = a.iter().fold(0.0f64, |s, x| s.max(x.abs())) * (m + n) as f64;
    let (mut u, mut s, mut v) = (vec![0.0; m * k], vec![0.0; k], vec![0.0; k * n]);
    svd(a, 1, m, n, false, &mut u, &mut s, &mut v).unwrap();
    let mut values = vec![9.0; k];
    svdvals(a, 1, m, n, &mut values).unwrap();
    close(&values, &s, 1e-14 * size);
    assert!(values.windows(2).all(|w| w[0] >= w[1]) && values.iter().all(|s| *s >= 0.0));
}

proptest! {
    #[test]
    fn singular_values_alone(seed: u64, m in 0usize..40, n in 0usize..40, rank in 0usize..40) {
        same_values(&of_rank(&mut Random(seed), m, n, rank), m, n);
    }

    #[test]
    fn eigenvalues_alone(seed: u64, n in 0usize..60, upper: bool, rank in 0usize..60) {
        let mut r = Random(seed);
        let half = r.f64s(n * rank);
        let a = if rank < n { mul(&half, &transpose(&half, n, rank), n, rank, n) } else { symmetric(&mut r, n, 0.0) };
        let spoiled: Vec<f64> = (0..n * n)
            .map(|p| if (p / n.max(1) < p % n.max(1)) == upper || p % (n + 1) == 0 { a[p] } else { f64::NAN })
            .collect();
        let (mut w, mut v, mut values) = (vec![9.0; n], vec![9.0; n * n], vec![9.0; n]);
        eigh(&a, 1, n, upper, &mut w, &mut v).unwrap();
        eigvalsh(&spoiled, 1, n, upper, &mut values).unwrap();
        let size = w.iter().fold(1.0f64, |s, x| s.max(x.abs()));
        close(&values, &w, 1e-13 * size);
    }

    #[test]
    fn pseudoinverses(seed: u64, m in 1usize..40, n in 1usize..40, rank in 1usize..40) {
        let a = of_rank(&mut Random(seed), m, n, rank);
        let mut p = vec![9.0; n * m];
        pinv(&a, 1, m, n, 0.0, 1e-10, &mut p).unwrap();
        // Penrose's conditions, as far as the condition lets them hold.
        let (ap, pa) = (mul(&a, &p, m, n, m), mul(&p, &a, n, m, n));
        let size = a.iter().chain(&p).fold(1.0f64, |s, x| s.max(x.abs()));
        let tolerance = 1e-13 * size * size * size;
        close(&mul(&ap, &a, m, m, n), &a, tolerance);
        close(&mul(&pa, &p, n, n, m), &p, tolerance * size);
        close(&ap, &transpose(&ap, m, m), tolerance);
        close(&pa, &transpose(&pa, n, n), tolerance);
    }
}

#[test]
fn what_counts_as_zero_does_not_reach_a_pseudoinverse() {
    // The small value is above the tolerance, and then below.
    let a = [2.0, 0.0, 0.0, 1e-3];
    for (rtol, atol, last) in [(1e-4, 0.0, 1e3), (1e-2, 0.0, 0.0), (0.0, 1e-2, 0.0), (0.0, 1e-4, 1e3)] {
        let mut p = [9.0; 4];
        pinv(&a, 1, 2, 2, atol, rtol, &mut p).unwrap();
        close(&p, &[0.5, 0.0, 0.0, last], 1e-9);
    }
}

#[test]
fn values_of_special_matrices() {
    let n = 50;
    let diagonal = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..n * n).map(|p| if p % (n + 1) == 0 { f(p / n) } else { 0.0 }).collect()
    };
    // Equal values, zeros among others, values of many sizes, all of them zero.
    let shapes: [&dyn Fn(usize) -> f64; 4] =
        [&|_| 3.0, &|i| if i % 3 == 0 { 0.0 } else { i as f64 }, &|i| 10f64.powi(-(i as i32)), &|_| 0.0];
    for f in shapes {
        same_values(&diagonal(f), n, n);
        let mut w = vec![9.0; n];
        eigvalsh(&diagonal(f), 1, n, false, &mut w).unwrap();
        let mut expected: Vec<f64> = (0..n).map(f).collect();
        expected.sort_by(f64::total_cmp);
        close(&w, &expected, 1e-14 * n as f64);
    }
    // Two diagonals with zeros on the main one, and ones everywhere.
    let beside: Vec<f64> = (0..n * n).map(|p| if (p / n).abs_diff(p % n) == 1 { 1.0 } else { 0.0 }).collect();
    same_values(&beside, n, n);
    same_values(&vec![1.0; n * n], n, n);
    let mut w = vec![9.0; n];
    eigvalsh(&beside, 1, n, false, &mut w).unwrap();
    let expected: Vec<f64> =
        (1..=n).rev().map(|i| 2.0 * (std::f64::consts::PI * i as f64 / (n + 1) as f64).cos()).collect();
    close(&w, &expected, 1e-13);
    for scale in [1e-300, 1e300, 1e-160] {
        let a: Vec<f64> = [3.0, 1.0, 1.0, 3.0].iter().map(|x| x * scale).collect();
        let (mut s, mut w) = ([0.0; 2], [0.0; 2]);
        svdvals(&a, 1, 2, 2, &mut s).unwrap();
        eigvalsh(&a, 1, 2, true, &mut w).unwrap();
        close(&[s[0] / scale, s[1] / scale, w[0] / scale, w[1] / scale], &[4.0, 2.0, 2.0, 4.0], 1e-14);
    }
    let a = [1.0, f64::NAN, 2.0, f64::INFINITY];
    assert_eq!(svdvals(&a, 1, 2, 2, &mut [0.0; 2]), Err(LinalgError::NoConvergence { batch: 0 }));
    assert_eq!(eigvalsh(&a, 1, 2, true, &mut [0.0; 2]), Err(LinalgError::NoConvergence { batch: 0 }));
}
