//! Reductions, statistics, scans and sorting.

mod sorting;

use super::{Answer, elementwise::operand};
use crate::opinfo::{Arg, Args, KW, OpError, gradus::dtype};
use gradus_core::{Axes, Covariance, Interpolation, Result as Made, Tensor};

type A<'a, 'b> = &'a Args<'b, Tensor>;
type Many = Result<Vec<Tensor>, OpError>;

/// Operators of this family.
pub fn call(op: &str, a: A<'_, '_>) -> Answer {
    let name = op.split("__").next().unwrap_or(op);
    if name == "norm" && matches!(a.peek(1, "p"), Some(Arg::Str(p)) if p == "nuc") {
        return None; // through singular values: linear algebra
    }
    Some(match name {
        "sum" | "prod" | "mean" | "nansum" | "nanmean" | "amax" | "amin" => folded(name, a),
        "any" | "all" => truth(name, a),
        "count_nonzero" => count_nonzero(a),
        "logsumexp" | "special.logsumexp" => logsumexp(a),
        "argmax" | "argmin" => arg_extreme(name, a),
        "max" | "min" => extreme(name, a),
        "aminmax" => aminmax(a),
        "median" | "nanmedian" => median(name, a),
        "mode" => mode(a),
        "quantile" | "nanquantile" => quantile(name, a),
        "var" | "std" | "var_mean" | "std_mean" => spread(name, a),
        "norm" => norm(a),
        "dist" => dist(a),
        "renorm" => renorm(a),
        "sum_to_size" => sum_to_size(a),
        "cov" => cov(a),
        "corrcoef" => a.tensor(0, "input").map_err(OpError::from).and_then(|x| one(x.corrcoef())),
        _ => return sorting::call(name, a),
    })
}

fn one(t: Made<Tensor>) -> Many {
    Ok(vec![t?])
}

fn two(t: Made<(Tensor, Tensor)>) -> Many {
    let (x, y) = t?;
    Ok(vec![x, y])
}

/// The input in the type that `dtype=` asks for.
fn input(a: A<'_, '_>) -> Result<Tensor, OpError> {
    let x = a.tensor(0, "input")?;
    Ok(match a.opt_dtype(KW, "dtype")? {
        Some(d) => x.to_dtype(dtype(d).ok_or("no such type")?),
        None => x,
    })
}

/// The axes at position 1: none given, and none in the list, are all of them.
fn dims(a: A<'_, '_>) -> Result<Axes, OpError> {
    Ok(match a.opt_ints(1, "dim")? {
        Some(list) if !list.is_empty() => list.into(),
        _ => Axes::All,
    })
}

fn folded(op: &str, a: A<'_, '_>) -> Many {
    let (x, keep) = (input(a)?, a.bool_or(2, "keepdim", false)?);
    let f: fn(&Tensor, Axes, bool) -> Made<Tensor> = match op {
        "sum" => Tensor::sum_dim,
        "prod" => Tensor::prod_dim,
        "mean" => Tensor::mean_dim,
        "nansum" => Tensor::nansum_dim,
        "nanmean" => Tensor::nanmean_dim,
        "amax" => Tensor::amax,
        _ => Tensor::amin,
    };
    one(f(&x, dims(a)?, keep))
}

fn truth(op: &str, a: A<'_, '_>) -> Many {
    let (x, keep) = (a.tensor(0, "input")?, a.bool_or(2, "keepdim", false)?);
    // Here an empty list is no axis at all.
    let dims = a.opt_ints(1, "dim")?.map_or(Axes::All, Axes::from);
    one(if op == "any" { x.any_dim(dims, keep) } else { x.all_dim(dims, keep) })
}

fn count_nonzero(a: A<'_, '_>) -> Many {
    one(a.tensor(0, "input")?.count_nonzero_dim(dims(a)?))
}

fn logsumexp(a: A<'_, '_>) -> Many {
    one(a.tensor(0, "input")?.logsumexp(dims(a)?, a.bool_or(2, "keepdim", false)?))
}

/// The result over all elements with every axis kept, where that was asked for.
fn kept(t: Tensor, lead: usize, rank: usize, keep: bool) -> Many {
    if !keep {
        return Ok(vec![t]);
    }
    let shape: Vec<usize> = t.dims()[..lead].iter().copied().chain(std::iter::repeat_n(1, rank)).collect();
    one(t.reshape(shape))
}

fn arg_extreme(op: &str, a: A<'_, '_>) -> Many {
    let (x, keep) = (a.tensor(0, "input")?, a.bool_or(2, "keepdim", false)?);
    match (a.opt_int(1, "dim")?, op) {
        (Some(d), "argmax") => one(x.argmax_dim(d, keep)),
        (Some(d), _) => one(x.argmin_dim(d, keep)),
        (None, "argmax") => kept(x.argmax()?, 0, x.rank(), keep),
        (None, _) => kept(x.argmin()?, 0, x.rank(), keep),
    }
}

fn extreme(op: &str, a: A<'_, '_>) -> Many {
    let (x, keep) = (a.tensor(0, "input")?, a.bool_or(2, "keepdim", false)?);
    match (a.opt_int(1, "dim")?, op) {
        (Some(d), "max") => two(x.max_dim(d, keep)),
        (Some(d), _) => two(x.min_dim(d, keep)),
        (None, "max") => one(x.max()),
        (None, _) => one(x.min()),
    }
}

fn aminmax(a: A<'_, '_>) -> Many {
    let dims = a.opt_int(KW, "dim")?.map_or(Axes::All, Axes::from);
    two(a.tensor(0, "input")?.aminmax(dims, a.bool_or(KW, "keepdim", false)?))
}

fn median(op: &str, a: A<'_, '_>) -> Many {
    let (x, keep) = (a.tensor(0, "input")?, a.bool_or(2, "keepdim", false)?);
    match (a.opt_int(1, "dim")?, op) {
        (Some(d), "median") => two(x.median_dim(d, keep)),
        (Some(d), _) => two(x.nanmedian_dim(d, keep)),
        (None, "median") => one(x.median()),
        (None, _) => one(x.nanmedian()),
    }
}

fn mode(a: A<'_, '_>) -> Many {
    two(a.tensor(0, "input")?.mode(a.int_or(1, "dim", -1)?, a.bool_or(2, "keepdim", false)?))
}

fn quantile(op: &str, a: A<'_, '_>) -> Many {
    let x = a.tensor(0, "input")?;
    let q = operand(a.scalar_or_tensor(1, "q")?, &x);
    let (dim, keep) = (a.opt_int(2, "dim")?, a.bool_or(3, "keepdim", false)?);
    let how = match a.str_or(KW, "interpolation", "linear")? {
        "linear" => Interpolation::Linear,
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "midpoint" => Interpolation::Midpoint,
        "nearest" => Interpolation::Nearest,
        other => return Err(format!("interpolation {other}").into()),
    };
    let lead = q.rank();
    match (dim, op) {
        (Some(d), "quantile") => one(x.quantile_dim(q, d, keep, how)),
        (Some(d), _) => one(x.nanquantile_dim(q, d, keep, how)),
        (None, "quantile") => kept(x.quantile(q, how)?, lead, x.rank(), keep),
        (None, _) => kept(x.nanquantile(q, how)?, lead, x.rank(), keep),
    }
}

/// `f(x, unbiased)`, `f(x, dim, unbiased, keepdim)` and `f(x, dim, *, correction, keepdim)`.
fn spread(op: &str, a: A<'_, '_>) -> Many {
    let x = a.tensor(0, "input")?;
    let flag_first = matches!(a.peek(1, "unbiased"), Some(Arg::Bool(_))) && a.positional() > 1;
    let unbiased = if flag_first { a.opt_bool(1, "unbiased")? } else { a.opt_bool(2, "unbiased")? };
    let dims = if flag_first { Axes::All } else { dims(a)? };
    let correction = a.opt_float(KW, "correction")?.unwrap_or(if unbiased == Some(false) { 0.0 } else { 1.0 });
    let keep = a.bool_or(3, "keepdim", false)?;
    match op {
        "var" => one(x.var_dim(dims, correction, keep)),
        "std" => one(x.std_dim(dims, correction, keep)),
        "var_mean" => two(x.var_mean_dim(dims, correction, keep)),
        _ => two(x.std_mean_dim(dims, correction, keep)),
    }
}

fn norm(a: A<'_, '_>) -> Many {
    let mut x = a.tensor(0, "input")?;
    if let Some(d) = a.opt_dtype(4, "dtype")? {
        x = x.to_dtype(dtype(d).ok_or("no such type")?);
    }
    let p = match a.raw(1, "p")? {
        None | Some(Arg::None) => 2.0,
        Some(Arg::Str(s)) if s == "fro" => 2.0,
        Some(_) => a.float(1, "p")?,
    };
    let dims = match a.opt_ints(2, "dim")? {
        Some(list) if !list.is_empty() => list.into(),
        _ => Axes::All,
    };
    one(x.norm_dim(p, dims, a.bool_or(3, "keepdim", false)?))
}

fn dist(a: A<'_, '_>) -> Many {
    one(a.tensor(0, "input")?.dist(&a.tensor(1, "other")?, a.float_or(2, "p", 2.0)?))
}

fn renorm(a: A<'_, '_>) -> Many {
    one(a.tensor(0, "input")?.renorm(a.float(1, "p")?, a.int(2, "dim")?, a.float(3, "maxnorm")?))
}

fn sum_to_size(a: A<'_, '_>) -> Many {
    let size = a.ints_from(1, "size")?.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>()?;
    one(a.tensor(0, "input")?.sum_to_size(size))
}

fn cov(a: A<'_, '_>) -> Many {
    let options = Covariance {
        correction: a.float_or(KW, "correction", 1.0)?,
        fweights: a.opt_tensor(KW, "fweights")?,
        aweights: a.opt_tensor(KW, "aweights")?,
    };
    one(a.tensor(0, "input")?.cov(options))
}
