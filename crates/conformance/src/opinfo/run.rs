//! Running cases through a backend.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::OpError;
use super::args::Args;
use super::compare::compare;
use super::file::{Case, OpFile};
use super::host::HostArray;

/// What runs the operators: gradus, or a stand-in in the tests.
pub trait Backend {
    /// Its tensor.
    type Tensor: Clone;

    /// A tensor with these values; with `grad`, one to differentiate by.
    fn load(&self, array: &HostArray, grad: bool) -> Result<Self::Tensor, OpError>;

    /// Calls operator `op`; `None` if there is no such operator.
    fn call(&self, op: &str, args: &Args<'_, Self::Tensor>) -> Option<Result<Vec<Self::Tensor>, OpError>>;

    /// A tensor's values.
    fn store(&self, tensor: &Self::Tensor) -> Result<HostArray, OpError>;

    /// The gradients of `wrt` given cotangents of some outputs; `None` for a
    /// tensor that no output depends on.
    fn grad(
        &self,
        outs: &[(Self::Tensor, Self::Tensor)],
        wrt: &[Self::Tensor],
    ) -> Result<Vec<Option<Self::Tensor>>, OpError>;
}

/// How a case came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Forward and gradient are right.
    Right,
    /// Something is wrong, for this reason.
    Wrong(String),
    /// The backend has no such operator.
    NoSuchOp,
}

/// Runs all cases of a file.
pub fn run_file<B: Backend>(backend: &B, file: &OpFile) -> Vec<Outcome> {
    let cases = file.cases.iter();
    cases.map(|case| run_case(backend, &file.op, case)).collect()
}

/// Runs one case; a panic of the backend is a wrong outcome like any other.
pub fn run_case<B: Backend>(backend: &B, op: &str, case: &Case) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| attempt(backend, op, case))) {
        Ok(Ok(true)) => Outcome::Right,
        Ok(Ok(false)) => Outcome::NoSuchOp,
        Ok(Err(reason)) => Outcome::Wrong(reason),
        Err(panic) => Outcome::Wrong(format!("panicked: {}", panic_text(&*panic))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)")
}

/// `false` if there is no such operator.
fn attempt<B: Backend>(backend: &B, op: &str, case: &Case) -> Result<bool, String> {
    let mut tensors = BTreeMap::new();
    for (path, array) in &case.inputs {
        let grad = case.grads.iter().any(|(p, _)| p == path);
        let tensor = backend.load(array, grad);
        let tensor = tensor.map_err(|e| format!("loading input {path}: {e}"))?;
        tensors.insert(path.clone(), tensor);
    }
    let args = Args::new(case, &tensors);
    let Some(outs) = backend.call(op, &args) else {
        return Ok(false);
    };
    let outs = outs.map_err(|e| e.to_string())?;
    args.finish().map_err(|e| e.to_string())?;
    forward(backend, case, &outs)?;
    gradient(backend, case, &outs, &tensors)?;
    Ok(true)
}

fn forward<B: Backend>(backend: &B, case: &Case, outs: &[B::Tensor]) -> Result<(), String> {
    if outs.len() != case.outs.len() {
        let (got, wanted) = (outs.len(), case.outs.len());
        return Err(format!("{got} outputs instead of {wanted}"));
    }
    for (k, (expected, actual)) in case.outs.iter().zip(outs).enumerate() {
        let actual = backend.store(actual);
        let actual = actual.map_err(|e| format!("output {k}: {e}"))?;
        compare(expected, &actual).map_err(|e| format!("output {k}: {e}"))?;
    }
    Ok(())
}

fn gradient<B: Backend>(
    backend: &B,
    case: &Case,
    outs: &[B::Tensor],
    tensors: &BTreeMap<String, B::Tensor>,
) -> Result<(), String> {
    if case.grads.is_empty() {
        return Ok(());
    }
    let mut pairs = Vec::new();
    for (out, cotangent) in outs.iter().zip(&case.cotangents) {
        if let Some(cotangent) = cotangent {
            let cotangent = backend.load(cotangent, false);
            let cotangent = cotangent.map_err(|e| format!("loading a cotangent: {e}"))?;
            pairs.push((out.clone(), cotangent));
        }
    }
    let paths = case.grads.iter().map(|(path, _)| path);
    let wrt: Vec<_> = paths.map(|path| tensors[path].clone()).collect();
    let grads = backend.grad(&pairs, &wrt);
    let grads = grads.map_err(|e| format!("gradient: {e}"))?;
    if grads.len() != wrt.len() {
        return Err(format!("{} gradients for {}", grads.len(), wrt.len()));
    }
    for ((path, expected), actual) in case.grads.iter().zip(grads) {
        let name = |e: &dyn std::fmt::Display| format!("gradient of {path}: {e}");
        match actual {
            Some(actual) => {
                let actual = backend.store(&actual).map_err(|e| name(&e))?;
                compare(expected, &actual).map_err(|e| name(&e))?;
            }
            // No dependence is a gradient of zero.
            None if expected.to_f64().iter().all(|&v| v == 0.0) => {}
            None => return Err(name(&"there is none")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
