//! Scans, sorting, searching, counting, differences.

use super::{A, Answer, Many, input, one, two};
use crate::opinfo::{Arg, KW, OpError, ScalarOr, dispatch::elementwise::operand};
use gradus_core::{DType, Result as Made, Spacing, Tensor, Unique};

/// Operators of this family.
pub fn call(op: &str, a: A<'_, '_>) -> Answer {
    Some(match op {
        "cumsum" => scan(Tensor::cumsum, a),
        "cumprod" => scan(Tensor::cumprod, a),
        "logcumsumexp" => scan(Tensor::logcumsumexp, a),
        "cummax" => pairs(Tensor::cummax, a),
        "cummin" => pairs(Tensor::cummin, a),
        "argsort" => sort(a, false),
        "sort" => sort(a, true),
        "msort" => a.tensor(0, "input").map_err(OpError::from).and_then(|x| one(x.msort())),
        "topk" => topk(a),
        "kthvalue" => kthvalue(a),
        "searchsorted" => searchsorted(a),
        "bucketize" => bucketize(a),
        "isin" => isin(a),
        "unique" => unique(a),
        "unique_consecutive" => unique_consecutive(a),
        "histc" => histc(a),
        "bincount" => bincount(a),
        "diff" => diff(a),
        "trapezoid" | "trapz" => integral(Tensor::trapezoid, a),
        "cumulative_trapezoid" => integral(Tensor::cumulative_trapezoid, a),
        "gradient" => gradient(a),
        _ => return None,
    })
}

fn scan(f: fn(&Tensor, i64) -> Made<Tensor>, a: A<'_, '_>) -> Many {
    one(f(&input(a)?, a.int(1, "dim")?))
}

fn pairs(f: fn(&Tensor, i64) -> Made<(Tensor, Tensor)>, a: A<'_, '_>) -> Many {
    two(f(&a.tensor(0, "input")?, a.int(1, "dim")?))
}

fn sort(a: A<'_, '_>, values: bool) -> Many {
    let (x, dim) = (a.tensor(0, "input")?, a.int_or(1, "dim", -1)?);
    let descending = a.bool_or(2, "descending", false)?;
    a.bool_or(3, "stable", false)?; // gradus's sort is always stable
    if values { two(x.sort(dim, descending)) } else { one(x.argsort(dim, descending)) }
}

fn topk(a: A<'_, '_>) -> Many {
    let (x, k, dim) = (a.tensor(0, "input")?, a.size(1, "k")?, a.int_or(2, "dim", -1)?);
    let largest = a.bool_or(3, "largest", true)?;
    a.bool_or(4, "sorted", true)?; // gradus's are always sorted
    two(x.topk(k, dim, largest))
}

fn kthvalue(a: A<'_, '_>) -> Many {
    let (x, k) = (a.tensor(0, "input")?, a.size(1, "k")?);
    two(x.kthvalue(k, a.int_or(2, "dim", -1)?, a.bool_or(3, "keepdim", false)?))
}

/// Positions in the integer type that was asked for.
fn positions(t: Tensor, a: A<'_, '_>) -> Many {
    Ok(vec![if a.bool_or(KW, "out_int32", false)? { t.to_dtype(DType::I32) } else { t }])
}

fn searchsorted(a: A<'_, '_>) -> Many {
    let mut sorted = a.tensor(0, "sorted_sequence")?;
    let values = operand(a.scalar_or_tensor(1, "input")?, &sorted);
    if let Some(order) = a.opt_tensor(KW, "sorter")? {
        sorted = sorted.gather(-1, &order)?;
    }
    let right = a.bool_or(KW, "right", false)?;
    let right = a.opt_str(KW, "side")?.map_or(right, |side| side == "right");
    positions(sorted.searchsorted(&values, right)?, a)
}

fn bucketize(a: A<'_, '_>) -> Many {
    let boundaries = a.tensor(1, "boundaries")?;
    let x = operand(a.scalar_or_tensor(0, "input")?, &boundaries);
    positions(x.bucketize(&boundaries, a.bool_or(KW, "right", false)?)?, a)
}

fn isin(a: A<'_, '_>) -> Many {
    let (x, test) = (a.scalar_or_tensor(0, "elements")?, a.scalar_or_tensor(1, "test_elements")?);
    let (x, test) = match (x, test) {
        (ScalarOr::Tensor(x), test) => {
            let test = operand(test, &x);
            (x, test)
        }
        (x, ScalarOr::Tensor(test)) => (operand(x, &test), test),
        (ScalarOr::Scalar(_), ScalarOr::Scalar(_)) => return Err("two numbers and no tensor".into()),
    };
    a.bool_or(KW, "assume_unique", false)?; // changes speed only
    let found = x.isin(&test)?;
    Ok(vec![if a.bool_or(KW, "invert", false)? { found.logical_not() } else { found }])
}

/// What of a `unique` was asked for.
fn parts(u: Unique, inverse: bool, counts: bool) -> Many {
    let rest = [inverse.then_some(u.inverse), counts.then_some(u.counts)];
    Ok(std::iter::once(u.values).chain(rest.into_iter().flatten()).collect())
}

fn unique(a: A<'_, '_>) -> Many {
    let x = a.tensor(0, "input")?;
    a.bool_or(1, "sorted", true)?; // gradus's are always sorted
    let (inverse, counts) = (a.bool_or(2, "return_inverse", false)?, a.bool_or(3, "return_counts", false)?);
    parts(x.unique(a.opt_int(4, "dim")?)?, inverse, counts)
}

fn unique_consecutive(a: A<'_, '_>) -> Many {
    let x = a.tensor(0, "input")?;
    let (inverse, counts) = (a.bool_or(1, "return_inverse", false)?, a.bool_or(2, "return_counts", false)?);
    parts(x.unique_consecutive(a.opt_int(3, "dim")?)?, inverse, counts)
}

fn histc(a: A<'_, '_>) -> Many {
    let (bins, min, max) = (a.size_or(1, "bins", 100)?, a.float_or(2, "min", 0.0)?, a.float_or(3, "max", 0.0)?);
    one(a.tensor(0, "input")?.histc(bins, min, max))
}

fn bincount(a: A<'_, '_>) -> Many {
    let weights = a.opt_tensor(1, "weights")?;
    one(a.tensor(0, "input")?.bincount(weights.as_ref(), a.size_or(2, "minlength", 0)?))
}

fn diff(a: A<'_, '_>) -> Many {
    let (x, n, dim) = (a.tensor(0, "input")?, a.size_or(1, "n", 1)?, a.int_or(2, "dim", -1)?);
    let (before, after) = (a.opt_tensor(3, "prepend")?, a.opt_tensor(4, "append")?);
    one(x.diff(n, dim, before.as_ref(), after.as_ref()))
}

fn integral(f: fn(&Tensor, Spacing, i64) -> Made<Tensor>, a: A<'_, '_>) -> Many {
    let y = a.tensor(0, "y")?;
    let at = match a.opt_tensor(1, "x")? {
        Some(x) => Spacing::Points(x),
        None => Spacing::Step(a.float_or(KW, "dx", 1.0)?),
    };
    one(f(&y, at, a.int_or(KW, "dim", -1)?))
}

fn gradient(a: A<'_, '_>) -> Many {
    let x = a.tensor(0, "input")?;
    let dims = match a.opt_ints(KW, "dim")? {
        Some(dims) => dims,
        None => (0..x.rank() as i64).collect(),
    };
    let of_tensors = matches!(a.peek(KW, "spacing"), Some(Arg::List(l)) if matches!(l.first(), Some(Arg::Tensor(_))));
    let spacing: Vec<Spacing> = if of_tensors {
        a.tensors(KW, "spacing")?.into_iter().map(Spacing::Points).collect()
    } else {
        let steps = a.opt_floats(KW, "spacing")?.unwrap_or(vec![1.0]);
        steps.into_iter().map(Spacing::Step).collect()
    };
    let edge_order = a.size_or(KW, "edge_order", 1)?;
    Ok(x.gradient(&spacing, &dims, edge_order)?)
}
