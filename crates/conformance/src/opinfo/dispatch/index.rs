//! Looking up and writing by index or mask.

use super::Answer;
use super::shapes::sizes;
use crate::opinfo::args::KW;
use crate::opinfo::{Args, OpError, Scalar, ScalarOr};
use gradus_core::{ScatterReduction, Tensor};

/// Operators of this family.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    if op == "unravel_index" {
        return Some(unravel(a));
    }
    if op == "nonzero" {
        return Some(nonzero(a));
    }
    Some(one(op, a)?.map(|t| vec![t]))
}

/// A number as gradus has it.
pub fn number(s: Scalar) -> gradus_core::Scalar {
    match s {
        Scalar::Int(v) => v.into(),
        Scalar::Float(v) => v.into(),
        Scalar::Bool(v) => v.into(),
    }
}

fn unravel(a: &Args<'_, Tensor>) -> Result<Vec<Tensor>, OpError> {
    Ok(a.tensor(0, "indices")?.unravel_index(sizes(&a.ints(1, "shape")?)?)?)
}

fn nonzero(a: &Args<'_, Tensor>) -> Result<Vec<Tensor>, OpError> {
    let x = a.tensor(0, "input")?;
    Ok(if a.bool_or(KW, "as_tuple", false)? { x.nonzero_tuple()? } else { vec![x.nonzero()?] })
}

fn one(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Args<'_, Tensor>, Tensor) -> Result<Tensor, OpError> = match op {
        "argwhere" => |_, x| Ok(x.argwhere()?),
        "nonzero_static" => |a, x| Ok(x.nonzero_static(a.size(KW, "size")?, a.int_or(KW, "fill_value", -1)?)?),
        "fill" => |a, x| {
            Ok(match a.scalar_or_tensor(1, "value")? {
                ScalarOr::Scalar(s) => x.fill(number(s))?,
                ScalarOr::Tensor(t) => x.fill(&t)?,
            })
        },
        "zero_" => |_, x| Ok(x.zeros_like()),
        "gather" => |a, x| {
            a.ignore("sparse_grad");
            Ok(x.gather(a.int(1, "dim")?, &a.tensor(2, "index")?)?)
        },
        "index_select" => |a, x| Ok(x.index_select(a.int(1, "dim")?, &a.tensor(2, "index")?)?),
        "index_add" => |a, x| {
            let alpha = a.opt_scalar(KW, "alpha")?.map_or(1.into(), number);
            Ok(x.index_add(a.int(1, "dim")?, &a.tensor(2, "index")?, &a.tensor(3, "source")?, alpha)?)
        },
        "index_copy" => |a, x| Ok(x.index_copy(a.int(1, "dim")?, &a.tensor(2, "index")?, &a.tensor(3, "source")?)?),
        "index_fill" => |a, x| {
            let (dim, index) = (a.int(1, "dim")?, a.tensor(2, "index")?);
            Ok(match a.scalar_or_tensor(3, "value")? {
                ScalarOr::Scalar(s) => x.index_fill(dim, &index, number(s))?,
                ScalarOr::Tensor(t) => x.index_fill(dim, &index, &t)?,
            })
        },
        "index_put" => |a, x| {
            let indices = a.maybe_tensors(1, "indices")?;
            let indices: Vec<Option<&Tensor>> = indices.iter().map(Option::as_ref).collect();
            Ok(x.index_put(&indices, &a.tensor(2, "values")?, a.bool_or(3, "accumulate", false)?)?)
        },
        "index_reduce" | "index_reduce__amax" | "index_reduce__amin" | "index_reduce__mean" | "index_reduce__prod" => {
            |a, x| {
                let (dim, index, source) = (a.int(1, "dim")?, a.tensor(2, "index")?, a.tensor(3, "source")?);
                Ok(x.index_reduce(dim, &index, &source, reduction(a)?, a.bool_or(KW, "include_self", true)?)?)
            }
        }
        "scatter" => scatter,
        "scatter_add" => |a, x| Ok(x.scatter_add(a.int(1, "dim")?, &a.tensor(2, "index")?, &a.tensor(3, "src")?)?),
        "scatter_reduce"
        | "scatter_reduce__amax"
        | "scatter_reduce__amin"
        | "scatter_reduce__mean"
        | "scatter_reduce__prod"
        | "scatter_reduce__sum" => |a, x| {
            let (dim, index, src) = (a.int(1, "dim")?, a.tensor(2, "index")?, a.tensor(3, "src")?);
            Ok(x.scatter_reduce(dim, &index, &src, reduction(a)?, a.bool_or(KW, "include_self", true)?)?)
        },
        "masked_fill" => |a, x| {
            let mask = a.tensor(1, "mask")?;
            Ok(match a.scalar_or_tensor(2, "value")? {
                ScalarOr::Scalar(s) => x.masked_fill(&mask, number(s))?,
                ScalarOr::Tensor(t) => x.masked_fill(&mask, &t)?,
            })
        },
        "masked_select" => |a, x| Ok(x.masked_select(&a.tensor(1, "mask")?)?),
        "masked_scatter" => |a, x| Ok(x.masked_scatter(&a.tensor(1, "mask")?, &a.tensor(2, "source")?)?),
        "take" => |a, x| Ok(x.take(&a.tensor(1, "index")?)?),
        "put" => {
            |a, x| Ok(x.put(&a.tensor(1, "index")?, &a.tensor(2, "source")?, a.bool_or(3, "accumulate", false)?)?)
        }
        "take_along_dim" => |a, x| Ok(x.take_along_dim(&a.tensor(1, "indices")?, a.opt_int(2, "dim")?)?),
        "nn.functional.one_hot" => |a, x| {
            let classes = a.int_or(1, "num_classes", -1)?;
            Ok(x.one_hot(if classes == -1 { None } else { Some(classes.try_into()?) })?)
        },
        _ => return None,
    };
    Some(a.tensor(0, "input").map_err(OpError::from).and_then(|x| f(a, x)))
}

fn reduction(a: &Args<'_, Tensor>) -> Result<ScatterReduction, OpError> {
    Ok(match a.str(4, "reduce")? {
        "sum" | "add" => ScatterReduction::Sum,
        "prod" | "multiply" => ScatterReduction::Prod,
        "mean" => ScatterReduction::Mean,
        "amax" => ScatterReduction::Amax,
        "amin" => ScatterReduction::Amin,
        other => return Err(format!("no reduction {other}").into()),
    })
}

fn scatter(a: &Args<'_, Tensor>, x: Tensor) -> Result<Tensor, OpError> {
    let (dim, index) = (a.int(1, "dim")?, a.tensor(2, "index")?);
    let name = if a.has(3, "src") { "src" } else { "value" };
    let src = match a.scalar_or_tensor(3, name)? {
        ScalarOr::Tensor(t) => t,
        ScalarOr::Scalar(s) if !a.has(4, "reduce") => return Ok(x.scatter_value(dim, &index, number(s))?),
        ScalarOr::Scalar(s) => x.new_full(index.shape(), number(s)),
    };
    if a.has(4, "reduce") {
        return Ok(x.scatter_reduce(dim, &index, &src, reduction(a)?, true)?);
    }
    Ok(x.scatter(dim, &index, &src)?)
}
