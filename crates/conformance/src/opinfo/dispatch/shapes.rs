//! Operators of several tensors that are joined, and sizes as the samples write them.

use super::{Answer, movement::indexing};
use crate::opinfo::{Args, OpError};
use gradus_core::Tensor;

/// Integers that must not be negative.
pub fn sizes(ints: &[i64]) -> Result<Vec<usize>, OpError> {
    ints.iter().map(|&n| Ok(usize::try_from(n)?)).collect()
}

/// Several tensors to one.
pub fn joined(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    type Join = fn(&[&Tensor]) -> gradus_core::Result<Tensor>;
    let run = |f: &dyn Fn(&[&Tensor]) -> gradus_core::Result<Tensor>, all: Vec<Tensor>| -> Result<Tensor, OpError> {
        Ok(f(&all.iter().collect::<Vec<_>>())?)
    };
    if let "cat" | "concat" | "concatenate" | "stack" = op {
        let go = || {
            let dim = a.int_or(1, "dim", 0)?;
            let f = |all: &[&Tensor]| if op == "stack" { Tensor::stack(all, dim) } else { Tensor::cat(all, dim) };
            run(&f, a.tensors(0, "tensors")?)
        };
        return Some(go());
    }
    let f: Join = match op {
        "hstack" => Tensor::hstack,
        "vstack" | "row_stack" => Tensor::vstack,
        "dstack" => Tensor::dstack,
        "column_stack" => Tensor::column_stack,
        "block_diag" => Tensor::block_diag,
        "cartesian_prod" => Tensor::cartesian_prod,
        _ => return None,
    };
    Some(a.tensors_from(0, "tensors").map_err(OpError::from).and_then(|all| run(&f, all)))
}

/// Several tensors to as many.
pub fn grids(op: &str, a: &Args<'_, Tensor>) -> Answer {
    let go = |grid: bool| -> Result<Vec<Tensor>, OpError> {
        let order = if grid { indexing(a)? } else { Default::default() };
        let all = a.tensors_from(0, "tensors")?;
        let all: Vec<&Tensor> = all.iter().collect();
        Ok(if grid { Tensor::meshgrid(&all, order)? } else { Tensor::broadcast_tensors(&all)? })
    };
    match op {
        "meshgrid__list_of_tensors" | "meshgrid__variadic_tensors" | "meshgrid" => Some(go(true)),
        "broadcast_tensors" => Some(go(false)),
        _ => None,
    }
}
