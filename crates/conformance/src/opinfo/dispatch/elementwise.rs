//! Functions of one, two or three tensors, element by element.

use super::Answer;
use crate::opinfo::{Args, OpError, ScalarOr};
use gradus_core::Tensor;

/// Operators of this family.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    Some(one(op, a)?.map(|t| vec![t]))
}

fn one(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let unary: fn(&Tensor) -> Tensor = match op {
        "exp" => Tensor::exp,
        "tanh" => Tensor::tanh,
        _ => return binary(op, a),
    };
    Some(a.tensor(0, "input").map(|x| unary(&x)).map_err(OpError::from))
}

fn binary(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Tensor, Tensor) -> gradus_core::Result<Tensor> = match op {
        "mul" => Tensor::mul,
        _ => return None,
    };
    let run = || -> Result<Tensor, OpError> {
        let x = a.tensor(0, "input")?;
        let ScalarOr::Tensor(y) = a.scalar_or_tensor(1, "other")? else { return Err("a number".into()) };
        Ok(f(&x, y)?)
    };
    Some(run())
}
