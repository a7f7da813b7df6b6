//! The problem of `fixtures/make.py`: two layers, eight samples.
#![allow(dead_code, reason = "each test file uses its part")]

use gradus_core::{Result, Tensor};
use gradus_io::StateDict;

pub fn fixture(name: &str) -> StateDict {
    gradus_io::load(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

pub struct Problem {
    pub x: Tensor,
    pub y: Tensor,
    pub params: [Tensor; 3],
}

impl Problem {
    pub fn new(data: &StateDict, suffix: &str) -> Problem {
        let get = |n: &str| data.tensor(&format!("{n}.{suffix}")).unwrap().clone();
        let params = ["w1", "b", "w2"].map(|n| Tensor::var(n, get(n)));
        Problem { x: get("x"), y: get("y"), params }
    }

    pub fn loss(&self) -> Result<Tensor> {
        let [w1, b, w2] = &self.params;
        let out = (self.x.matmul(&w1.t()?)? + b).tanh().matmul(&w2.t()?)?;
        Ok((out - &self.y).square().mean())
    }

    pub fn flat(&self) -> Vec<f64> {
        self.params.iter().flat_map(|p| p.to_vec::<f64>().unwrap()).collect()
    }
}

/// The largest difference, relative to 1 or to the number itself, whichever is larger.
pub fn distance(have: &[f64], want: &[f64]) -> f64 {
    assert_eq!(have.len(), want.len());
    have.iter().zip(want).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max)
}
