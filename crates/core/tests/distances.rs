//! Distances between rows, by routines, against the norms that define them.

mod common;

use common::{check_twice, close, vec};
use gradus_core::{DType, Tensor, grad};

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let x: Vec<f64> = (0..n).map(|i| ((i * 7919 + seed * 1013 + 13) % 10007) as f64 / 5003.5 - 1.0).collect();
    Tensor::from_vec(x, shape).unwrap()
}

fn defined(a: &Tensor, b: &Tensor, p: f64) -> Tensor {
    (a.unsqueeze(-2).unwrap() - b.unsqueeze(-3).unwrap()).vector_norm(p, -1, false).unwrap()
}

/// The value and its gradients.
fn all(f: &dyn Fn(&[Tensor]) -> Tensor, x: &[Tensor], dtype: DType) -> Vec<Vec<f64>> {
    let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(dtype).requires_grad_()).collect();
    let y = f(&x);
    let seed = numbers(y.dims(), 9).to_dtype(dtype);
    let refs: Vec<&Tensor> = x.iter().collect();
    let parts = grad::grad(&(&y * &seed).sum(), &refs).unwrap();
    // Without a gradient, too.
    let plain: Vec<Tensor> = x.iter().map(Tensor::detach).collect();
    [f(&plain), y].iter().chain(&parts).map(|t| vec(&t.to_dtype(DType::F64))).collect()
}

/// Which of two largest differences that are nearly equal is the larger one, rounding decides.
fn compared(p: f64, dtype: DType) -> usize {
    if p.is_infinite() && dtype == DType::F32 { 2 } else { usize::MAX }
}

#[test]
fn routines_are_norms_of_differences() {
    let shapes: [[&[usize]; 2]; 5] = [
        [&[5, 3], &[4, 3]],
        [&[40, 20], &[33, 20]],
        [&[2, 9, 33], &[2, 6, 33]],
        [&[3, 1, 5, 7], &[2, 4, 7]],
        [&[70, 1], &[2, 70, 1]],
    ];
    for [a, b] in shapes {
        let x = [numbers(a, 1), numbers(b, 2)];
        for p in [1.0, 2.0, f64::INFINITY, 3.0] {
            let want = all(&|x| defined(&x[0], &x[1], p), &x, DType::F64);
            for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-5)] {
                let got = all(&|x| x[0].cdist(&x[1], p).unwrap(), &x, dtype);
                got.iter().zip(&want).take(compared(p, dtype)).for_each(|(a, b)| close(a, b, tolerance));
            }
        }
    }
}

#[test]
fn pairs_are_the_upper_triangle() {
    for (n, d) in [(2, 1), (7, 5), (40, 20)] {
        let x = [numbers(&[n, d], 1)];
        let at: Vec<i64> = (0..n * n).filter(|t| t % n > t / n).map(|t| t as i64).collect();
        let at = Tensor::from_vec(at.clone(), [at.len()]).unwrap();
        for p in [1.0, 2.0, f64::INFINITY] {
            // No distance to itself, whose gradient would be a share of nothing.
            let f = |x: &[Tensor]| defined(&x[0], &x[0], p).reshape([n * n]).unwrap().gather(0, &at).unwrap();
            let want = all(&f, &x, DType::F64);
            for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-5)] {
                let got = all(&|x| x[0].pdist(p).unwrap(), &x, dtype);
                got.iter().zip(&want).take(compared(p, dtype)).for_each(|(a, b)| close(a, b, tolerance));
            }
        }
    }
}

#[test]
fn equal_rows_have_no_slope() {
    let x = Tensor::from([[1.0f32, 2.0], [1.0, 2.0], [4.0, 6.0]]).requires_grad_();
    let dx = grad::grad(&x.pdist(2.0).unwrap().sum(), &[&x]).unwrap().remove(0);
    close(&vec(&dx.to_dtype(DType::F64)), &[-0.6, -0.8, -0.6, -0.8, 1.2, 1.6], 1e-6);
}

#[test]
fn derivatives_to_second_order() {
    let x = [numbers(&[3, 4], 1), numbers(&[2, 4], 2)];
    for p in [1.0, 2.0] {
        check_twice(|x| x[0].cdist(&x[1], p).unwrap(), &x);
        check_twice(|x| x[0].pdist(p).unwrap(), &x[..1]);
    }
}
