//! Kernel counts of updates: all parameters of a type in one launch.

use gradus_core::{DType, Tensor, plan::kernel_launches};
use gradus_optim::{Adam, AdamW, Lion, Optimizer, RmsProp, Sgd};

/// Parameters of many shapes, one of them of a single element, and gradients that have been computed.
fn parameters(dtype: DType) -> (Vec<Tensor>, gradus_core::grad::Gradients) {
    let shapes: [&[usize]; 5] = [&[64, 32], &[64], &[3, 3, 5, 7], &[1], &[10, 64]];
    let all: Vec<Tensor> = shapes
        .iter()
        .enumerate()
        .map(|(i, s)| Tensor::var(format!("p{i}"), Tensor::randn(*s).to_dtype(dtype)))
        .collect();
    let loss = all.iter().map(|p| p.square().sum()).reduce(|a, b| a + b).unwrap();
    let grads = loss.backward().unwrap();
    for p in &all {
        p.eval().unwrap();
        grads.wrt(p).unwrap().eval().unwrap();
    }
    (all, grads)
}

#[test]
fn an_update_of_all_parameters_is_one_kernel() {
    for dtype in [DType::F32, DType::F64] {
        let (p, grads) = parameters(dtype);
        let mut all: Vec<(&str, Box<dyn Optimizer>)> = vec![
            ("sgd", Box::new(Sgd::new(&p, 0.1))),
            ("momentum", Box::new(Sgd::new(&p, 0.1).momentum(0.9))),
            ("adam", Box::new(Adam::new(&p, 1e-3))),
            ("adamw", Box::new(AdamW::new(&p, 1e-3))),
            ("rmsprop", Box::new(RmsProp::new(&p, 1e-3))),
            ("lion", Box::new(Lion::new(&p, 1e-3))),
        ];
        for (name, opt) in &mut all {
            opt.step(&grads).unwrap(); // makes the state
            let before = kernel_launches();
            opt.step(&grads).unwrap();
            assert_eq!(kernel_launches() - before, 1, "{name} of {dtype}");
        }
    }
}
