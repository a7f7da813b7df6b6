//! PyTorch's results, and how a module is compared with them.

#![allow(dead_code)] // not every test file uses everything

use gradus_core::{Result, Tensor};
use gradus_io::StateDict;
use gradus_nn::{Layer, Module};

/// Outputs, gradients and buffers may differ from PyTorch's by this much, relative to numbers above 1.
const TOLERANCE: f64 = 1e-5;

pub struct Fixtures(StateDict);

impl Fixtures {
    pub fn load(file: &str) -> Fixtures {
        let path = format!("{}/tests/fixtures/{file}", env!("CARGO_MANIFEST_DIR"));
        Fixtures(gradus_io::load(path).unwrap())
    }

    /// The names of all cases, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.names().filter_map(|n| n.split('/').next()).map(str::to_string).collect();
        names.dedup();
        names
    }

    fn under(&self, prefix: &str) -> Vec<(String, Tensor)> {
        let all = self.0.iter().filter_map(|(n, t)| Some((n.strip_prefix(prefix)?.to_string(), t.clone())));
        all.collect()
    }

    /// The state_dict of a case.
    pub fn state(&self, case: &str) -> StateDict {
        StateDict::from_iter(self.under(&format!("{case}/state/")))
    }

    pub fn inputs(&self, case: &str) -> Vec<Tensor> {
        self.under(&format!("{case}/in/")).into_iter().map(|(_, t)| t).collect()
    }

    /// Loads the state into the module, runs it on the inputs, and compares outputs, gradients and buffers.
    pub fn check(&self, case: &str, module: &dyn Module, run: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) {
        module.load_state_dict(&self.state(case)).unwrap_or_else(|e| panic!("{case}: {e}"));
        let inputs: Vec<Tensor> = self.inputs(case);
        assert!(!inputs.is_empty(), "no case {case}");
        let inputs: Vec<Tensor> =
            inputs.into_iter().map(|t| if t.dtype().is_float() { t.requires_grad_() } else { t }).collect();
        let outputs = run(&inputs).unwrap_or_else(|e| panic!("{case}: {e}"));
        let wanted = self.under(&format!("{case}/out/"));
        assert_eq!(outputs.len(), wanted.len(), "{case}: number of outputs");
        let mut loss: Option<Tensor> = None;
        for (y, (i, want)) in outputs.iter().zip(&wanted) {
            near(&format!("{case}: output {i}"), y, want);
            if let Some((_, cot)) = self.under(&format!("{case}/cot/{i}")).first() {
                let part = (y * cot).sum();
                loss = Some(match loss {
                    Some(l) => l + part,
                    None => part,
                });
            }
        }
        if let Some(grads) = loss.map(|l| l.backward().unwrap_or_else(|e| panic!("{case}: {e}"))) {
            for (i, want) in self.under(&format!("{case}/din/")) {
                let x = &inputs[i.parse::<usize>().unwrap()];
                near(&format!("{case}: gradient of input {i}"), &grads.wrt(x).unwrap(), &want);
            }
            let have = StateDict::from_iter(module.named_gradients(&grads));
            for (name, want) in self.under(&format!("{case}/grad/")) {
                near(&format!("{case}: gradient of {name}"), have.tensor(&name).unwrap(), &want);
            }
        }
        let buffers = StateDict::from_iter(module.named_buffers());
        for (name, want) in self.under(&format!("{case}/after/")) {
            near(&format!("{case}: {name} afterwards"), buffers.tensor(&name).unwrap(), &want);
        }
    }

    /// [`Fixtures::check`] for a layer of one input.
    pub fn layer(&self, case: &str, layer: impl Layer) {
        self.check(case, &layer, |x| Ok(vec![layer.forward(&x[0])?]));
    }
}

#[track_caller]
pub fn near(what: &str, have: &Tensor, want: &Tensor) {
    assert_eq!(have.dims(), want.dims(), "{what}: shape");
    let (a, b) = (have.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        let close = (x - y).abs() <= TOLERANCE * y.abs().max(1.0) || (x.is_nan() && y.is_nan());
        assert!(close, "{what}: element {i} is {x}, PyTorch has {y}");
    }
}
