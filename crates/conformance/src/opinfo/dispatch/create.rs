//! Making tensors, and converting their element types.

use super::Answer;
use super::index::number;
use super::shapes::sizes;
use crate::opinfo::args::KW;
use crate::opinfo::gradus::dtype;
use crate::opinfo::{Arg, Args, OpError, ScalarOr};
use gradus_core::{DType, Scalar, Tensor};

/// Operators of this family.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    let answer = cast(op, a).or_else(|| like(op, a)).or_else(|| fresh(op, a))?;
    Some(answer.map(|t| vec![t]))
}

/// The `dtype` keyword, if it is given.
fn wanted(a: &Args<'_, Tensor>) -> Result<Option<DType>, OpError> {
    // Samples run where the tensors are; memory order and recording are ours to choose.
    ["device", "layout", "pin_memory", "requires_grad", "memory_format"].iter().for_each(|k| a.ignore(k));
    match a.opt_dtype(KW, "dtype")? {
        None => Ok(None),
        Some(d) => Ok(Some(dtype(d).ok_or_else(|| format!("gradus has no {d:?}"))?)),
    }
}

fn cast(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Tensor) -> Tensor = match op {
        "bool" => Tensor::bool,
        "byte" => Tensor::byte,
        "char" => Tensor::char,
        "short" => Tensor::short,
        "int" => Tensor::int,
        "long" => Tensor::long,
        "half" => Tensor::half,
        "bfloat16" => Tensor::bfloat16,
        "float" => Tensor::float,
        "double" => Tensor::double,
        "to" => return Some(to(a)),
        "type_as" => return Some(type_as(a)),
        _ => return None,
    };
    a.ignore("memory_format");
    Some(a.tensor(0, "input").map(|x| f(&x)).map_err(OpError::from))
}

fn type_as(a: &Args<'_, Tensor>) -> Result<Tensor, OpError> {
    Ok(a.tensor(0, "input")?.type_as(&a.tensor(1, "other")?))
}

/// `to(other)`, `to(dtype, ..)` or `to(device, dtype, ..)`, then flags that say when and how to copy.
fn to(a: &Args<'_, Tensor>) -> Result<Tensor, OpError> {
    let x = a.tensor(0, "input")?;
    let mut out = match wanted(a)? {
        Some(d) => x.to_dtype(d),
        None => x,
    };
    ["non_blocking", "copy"].iter().for_each(|k| a.ignore(k));
    for k in 1..a.positional() {
        match a.raw(k, "")? {
            Some(Arg::DType(d)) => out = out.to_dtype(dtype(*d).ok_or_else(|| format!("gradus has no {d:?}"))?),
            Some(Arg::Tensor(_)) => out = out.type_as(&a.tensor(k, "other")?),
            Some(Arg::Str(_) | Arg::Bool(_) | Arg::None | Arg::Torch(_)) => {}
            other => return Err(format!("to takes no {other:?}").into()),
        }
    }
    Ok(out)
}

/// Tensors made after another one.
fn like(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Args<'_, Tensor>, &Tensor) -> Result<Tensor, OpError> = match op {
        "full_like" => |a, x| Ok(x.full_like(number(a.scalar(1, "fill_value")?))),
        "ones_like" => |_, x| Ok(x.ones_like()),
        "zeros_like" => |_, x| Ok(x.zeros_like()),
        "new_full" => |a, x| Ok(x.new_full(sizes(&a.ints(1, "size")?)?, number(a.scalar(2, "fill_value")?))),
        "new_ones" => |a, x| Ok(x.new_ones(sizes(&a.ints_from(1, "size")?)?)),
        "new_zeros" => |a, x| Ok(x.new_zeros(sizes(&a.ints_from(1, "size")?)?)),
        _ => return None,
    };
    let go = || {
        let x = a.tensor(0, "input")?;
        // The type first: a fill value must not pass through the other one's.
        let x = match wanted(a)? {
            Some(d) => x.detach().to_dtype(d),
            None => x,
        };
        f(a, &x)
    };
    Some(go())
}

/// Tensors made from numbers.
fn fresh(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Args<'_, Tensor>, Option<DType>) -> Result<Tensor, OpError> = match op {
        "ones" => |a, d| Ok(Tensor::ones(sizes(&a.ints_from(0, "size")?)?, d.unwrap_or(DType::F32))),
        "zeros" => |a, d| Ok(Tensor::zeros(sizes(&a.ints_from(0, "size")?)?, d.unwrap_or(DType::F32))),
        "full" => |a, d| {
            let value = number(a.scalar(1, "fill_value")?);
            Ok(Tensor::full(sizes(&a.ints(0, "size")?)?, value, d.unwrap_or(value.dtype())))
        },
        "scalar_tensor" => |a, d| Ok(Tensor::scalar(number(a.scalar(0, "value")?), d.unwrap_or(DType::F32))),
        "eye" => |a, d| {
            let n = a.size(0, "n")?;
            Ok(Tensor::eye(n, a.size_or(1, "m", n)?, d.unwrap_or(DType::F32)))
        },
        "arange" => arange,
        "linspace" | "linspace__tensor_overload" => |a, d| {
            let (start, end) = (end_point(a, 0, "start")?, end_point(a, 1, "end")?);
            Ok(Tensor::linspace(start, end, a.size(2, "steps")?, d.unwrap_or(DType::F32)))
        },
        "logspace" | "logspace__tensor_overload" => |a, d| {
            let (start, end) = (end_point(a, 0, "start")?, end_point(a, 1, "end")?);
            let base = a.float_or(3, "base", 10.0)?;
            Ok(Tensor::logspace(start, end, a.size(2, "steps")?, base, d.unwrap_or(DType::F32)))
        },
        "tril_indices" => |a, d| {
            let (rows, cols, k) = (a.size(0, "row")?, a.size(1, "col")?, a.int_or(2, "offset", 0)?);
            Ok(Tensor::tril_indices(rows, cols, k)?.to_dtype(d.unwrap_or(DType::I64)))
        },
        "triu_indices" => |a, d| {
            let (rows, cols, k) = (a.size(0, "row")?, a.size(1, "col")?, a.int_or(2, "offset", 0)?);
            Ok(Tensor::triu_indices(rows, cols, k)?.to_dtype(d.unwrap_or(DType::I64)))
        },
        _ => return None,
    };
    Some(wanted(a).and_then(|d| f(a, d)))
}

/// A number, or a tensor that holds one.
fn end_point(a: &Args<'_, Tensor>, position: usize, name: &str) -> Result<f64, OpError> {
    Ok(match a.scalar_or_tensor(position, name)? {
        ScalarOr::Scalar(s) => s.to_f64(),
        ScalarOr::Tensor(t) => t.item::<f64>()?,
    })
}

/// `arange(end)`, `arange(start, end)` or `arange(start, end, step)`.
fn arange(a: &Args<'_, Tensor>, d: Option<DType>) -> Result<Tensor, OpError> {
    let given = |k: usize, name: &str| -> Result<Option<Scalar>, OpError> { Ok(a.opt_scalar(k, name)?.map(number)) };
    let (start, end) = match a.positional() {
        1 if !a.has(KW, "end") => (None, given(0, "end")?),
        _ => (given(0, "start")?, given(1, "end")?),
    };
    let start = start.unwrap_or(Scalar::I(0));
    let (end, step) = (end.ok_or("arange needs an end")?, given(2, "step")?.unwrap_or(Scalar::I(1)));
    let float = [start, end, step].iter().any(|s| matches!(s, Scalar::F(_)));
    Ok(Tensor::arange(start, end, step, d.unwrap_or(if float { DType::F32 } else { DType::I64 }))?)
}
