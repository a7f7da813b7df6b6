//! Shared by the tests of convolution, pooling and resizing.
#![allow(dead_code)] // each test file uses a part

use gradus_core::{Tensor, grad};

/// Numbers that repeat nowhere, from -1 to 1.
pub fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

pub fn tensor(dims: &[usize], seed: u64) -> Tensor {
    Tensor::from_vec(numbers(dims.iter().product(), seed), dims).unwrap()
}

pub fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec().unwrap()
}

#[track_caller]
pub fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len(), "{a:?} vs {b:?}");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "element {i}: {x} vs {y}");
    }
}

/// First and second derivatives of `f` (any shape) against central differences, for every input element.
#[track_caller]
pub fn check_twice(f: impl Fn(&[Tensor]) -> Tensor, inputs: &[Tensor]) {
    let shapes: Vec<Vec<usize>> = inputs.iter().map(|t| t.dims().to_vec()).collect();
    let data: Vec<Vec<f64>> = inputs.iter().map(vec).collect();
    let vars = |data: &[Vec<f64>]| -> Vec<Tensor> {
        data.iter().zip(&shapes).map(|(d, s)| Tensor::from_slice(d, s).unwrap().requires_grad_()).collect()
    };
    // y -> sum of fixed multiples of sin(y): curved, so that second derivatives exist even of linear maps.
    let loss = |xs: &[Tensor]| {
        let y = f(xs);
        (y.sin() * tensor(y.dims(), 77)).sum()
    };
    let slope = |xs: &[Tensor]| {
        let gs = grad::grad(&loss(xs), &xs.iter().collect::<Vec<_>>()).unwrap();
        let parts = gs.iter().enumerate().map(|(i, g)| (g * tensor(g.dims(), 100 + i as u64)).sum());
        parts.reduce(|a, b| a + b).unwrap()
    };
    type Form<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;
    let forms: [Form<'_>; 2] = [&loss, &slope];
    for (order, form) in forms.iter().enumerate() {
        let xs = vars(&data);
        let gs = grad::grad(&form(&xs), &xs.iter().collect::<Vec<_>>()).unwrap();
        for (i, g) in gs.iter().enumerate() {
            let g = vec(g);
            for k in 0..g.len() {
                let at = |h: f64| {
                    let mut moved = data.clone();
                    moved[i][k] += h;
                    form(&vars(&moved)).item::<f64>().unwrap()
                };
                let h = 1e-5;
                let n = (at(h) - at(-h)) / (2.0 * h);
                let ok = (g[k] - n).abs() <= 1e-6 * (1.0 + n.abs());
                assert!(ok, "order {}, input {i}, element {k}: {} vs {n}", order + 1, g[k]);
            }
        }
    }
}
