//! Long short-term memory: the routine against its definition in f64, to the second derivative.

use gradus_core::{DType, Tensor, grad::grad_of, no_grad};

fn filled(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let x: Vec<f64> = (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 504.5 - 1.0).collect();
    Tensor::from_vec(x, dims.to_vec()).unwrap()
}

/// Gates, weight, h0, c0 as variables of a type.
fn inputs(t: usize, n: usize, h: usize, dtype: DType) -> Vec<Tensor> {
    let w = filled(&[4 * h, h], 2) * (1.0 / (h as f64).sqrt());
    let all = [filled(&[t, n, 4 * h], 1), w, filled(&[n, h], 3), filled(&[n, h], 4)];
    let all = all.iter().map(|x| x.to_dtype(dtype));
    all.inspect(|x| _ = x.eval().unwrap()).map(|x| x.requires_grad_().resolve()).collect()
}

fn close(a: &Tensor, b: &Tensor, what: &str) {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        assert!((x - y).abs() < 2e-5 * (1.0 + y.abs()), "{what}: number {i} is {x}, not {y}");
    }
}

/// States, last cell, gradients and gradients of gradients.
fn everything(x: &[Tensor], reverse: bool) -> Vec<Tensor> {
    let refs: Vec<&Tensor> = x.iter().collect();
    let (y, c) = x[0].lstm(&x[1], &x[2], &x[3], reverse).unwrap();
    let weigh = |t: &Tensor, seed| (t * filled(t.dims(), seed).to_dtype(t.dtype())).sum();
    let loss = weigh(&y, 5) + weigh(&c, 6);
    let one = Tensor::ones_like(&loss);
    let first: Vec<Tensor> = grad_of(&[(&loss, &one)], &refs).unwrap().into_iter().flatten().collect();
    assert_eq!(first.len(), 4);
    let again = first.iter().enumerate().map(|(i, g)| weigh(g, 7 + i)).reduce(|a, b| a + b).unwrap();
    let second = grad_of(&[(&again, &one)], &refs).unwrap();
    assert!(second.iter().all(Option::is_some));
    [y, c].into_iter().chain(first).chain(second.into_iter().flatten()).collect()
}

#[test]
fn the_routine_is_its_definition() {
    for (t, n, h) in [(1, 1, 1), (3, 2, 5), (4, 3, 17), (2, 5, 33)] {
        for reverse in [false, true] {
            let routine = everything(&inputs(t, n, h, DType::F32), reverse);
            let steps = everything(&inputs(t, n, h, DType::F64), reverse);
            for (i, (a, b)) in routine.iter().zip(&steps).enumerate() {
                close(a, b, &format!("{t} steps of {n} x {h}, reverse {reverse}, result {i}"));
            }
        }
    }
}

#[test]
fn a_sequence_is_one_routine_and_keeps_nothing_without_gradients() {
    let x = inputs(6, 2, 4, DType::F32);
    let (y, c) = no_grad(|| x[0].lstm(&x[1], &x[2], &x[3], false)).unwrap();
    let plan = Tensor::explain_all(&[&y, &c]).unwrap();
    assert_eq!((plan.launches(), plan.peak_bytes()), (1, 7 * 2 * 4 * 4), "{plan}");
    let tracked = x[0].lstm(&x[1], &x[2], &x[3], false).unwrap();
    close(&y, &tracked.0, "with and without gradients");
    close(&c, &tracked.1, "last cell");
}

#[test]
fn what_does_not_fit_is_an_error() {
    let zero = |dims: &[usize]| Tensor::zeros(dims.to_vec(), DType::F32);
    let (gates, w, s) = (zero(&[2, 3, 8]), zero(&[8, 2]), zero(&[3, 2]));
    assert!(gates.lstm(&w, &s, &s, false).is_ok());
    assert!(gates.lstm(&w, &s, &zero(&[2, 2]), false).unwrap_err().to_string().contains("[n, h]"));
    assert!(gates.lstm(&zero(&[8, 3]), &s, &s, false).is_err());
    assert!(zero(&[0, 3, 8]).lstm(&w, &s, &s, false).is_err());
    let empty = zero(&[2, 0, 8]).lstm(&w, &zero(&[0, 2]), &zero(&[0, 2]), true).unwrap().0;
    assert_eq!(empty.to_vec::<f32>().unwrap(), []);
}
