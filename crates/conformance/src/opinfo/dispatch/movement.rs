//! Movement: shapes, axes, slices, padding, joining and splitting.

use super::Answer;
use super::shapes::{self, sizes};
use crate::opinfo::args::KW;
use crate::opinfo::{Args, OpError};
use gradus_core::{Indexing, PadMode, Tensor};

/// Operators of this family.
pub fn call(op: &str, a: &Args<'_, Tensor>) -> Answer {
    let op = op.strip_suffix("_copy").unwrap_or(op);
    if let Some(answer) = one(op, a) {
        return Some(answer.map(|t| vec![t]));
    }
    many(op, a)
}

fn one(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    if let Some(answer) = plain(op, a).or_else(|| shapes::joined(op, a)) {
        return Some(answer);
    }
    let f: fn(&Args<'_, Tensor>, Tensor) -> Result<Tensor, OpError> = match op {
        "broadcast_to" | "expand" => |a, x| Ok(x.expand(a.ints_from(1, "size")?)?),
        "expand_as" => |a, x| Ok(x.expand_as(&a.tensor(1, "other")?)?),
        "reshape_as" => |a, x| Ok(x.reshape_as(&a.tensor(1, "other")?)?),
        "view_as" => |a, x| Ok(x.view_as(&a.tensor(1, "other")?)?),
        "reshape" | "view" => |a, x| Ok(x.view(a.ints_from(1, "shape")?)?),
        "flatten" => |a, x| Ok(x.flatten(a.int_or(1, "start_dim", 0)?, a.int_or(2, "end_dim", -1)?)?),
        "unflatten" => |a, x| Ok(x.unflatten(a.int(1, "dim")?, a.ints(2, "sizes")?)?),
        "permute" => |a, x| Ok(x.permute(a.ints_from(1, "dims")?)?),
        "transpose" | "swapaxes" | "swapdims" => |a, x| Ok(x.transpose(a.int(1, "dim0")?, a.int(2, "dim1")?)?),
        "movedim" | "moveaxis" => |a, x| Ok(x.movedim(a.ints(1, "source")?, a.ints(2, "destination")?)?),
        "flip" => |a, x| Ok(x.flip(a.ints_from(1, "dims")?)?),
        "rot90" => |a, x| {
            let dims = a.ints_or(2, "dims", &[0, 1])?;
            let &[d0, d1] = &dims[..] else { return Err("rot90 takes two dims".into()) };
            Ok(x.rot90(a.int_or(1, "k", 1)?, [d0, d1])?)
        },
        "roll" => |a, x| Ok(x.roll(a.ints(1, "shifts")?, a.ints_or(2, "dims", &[])?)?),
        "repeat" => |a, x| Ok(x.repeat(sizes(&a.ints_from(1, "repeats")?)?)?),
        "tile" => |a, x| Ok(x.tile(sizes(&a.ints_from(1, "dims")?)?)?),
        "repeat_interleave" => repeat_interleave,
        "squeeze" | "squeeze__multiple" => |a, x| {
            let dims = a.opt_ints(1, "dim")?;
            Ok(if let Some(d) = dims { x.squeeze(d)? } else { x.squeeze(..)? })
        },
        "unsqueeze" => |a, x| Ok(x.unsqueeze(a.int(1, "dim")?)?),
        "unfold" => |a, x| Ok(x.unfold(a.int(1, "dimension")?, a.size(2, "size")?, a.size(3, "step")?)?),
        "narrow" => |a, x| {
            let (dim, start, len) = (a.int(1, "dim")?, start(a)?, a.size(3, "length")?);
            let n = x.dims().get(if dim < 0 { dim + x.rank() as i64 } else { dim } as usize).copied().unwrap_or(0);
            Ok(x.narrow(dim, if start < 0 { start + n as i64 } else { start }.try_into()?, len)?)
        },
        "select" => |a, x| Ok(x.select(a.int(1, "dim")?, a.int(2, "index")?)?),
        "slice" => |a, x| {
            let (start, end) = (a.opt_int(2, "start")?, a.opt_int(3, "end")?);
            Ok(x.slice(a.int_or(1, "dim", 0)?, start, end, a.int_or(4, "step", 1)?)?)
        },
        "select_scatter" => |a, x| Ok(x.select_scatter(&a.tensor(1, "src")?, a.int(2, "dim")?, a.int(3, "index")?)?),
        "slice_scatter" => |a, x| {
            let (start, end) = (a.opt_int(3, "start")?, a.opt_int(4, "end")?);
            let step = a.int_or(5, "step", 1)?;
            Ok(x.slice_scatter(&a.tensor(1, "src")?, a.int_or(2, "dim", 0)?, start, end, step)?)
        },
        "diagonal_scatter" => |a, x| {
            let (d1, d2) = (a.int_or(3, "dim1", 0)?, a.int_or(4, "dim2", 1)?);
            Ok(x.diagonal_scatter(&a.tensor(1, "src")?, a.int_or(2, "offset", 0)?, d1, d2)?)
        },
        "diag" => |a, x| Ok(x.diag(a.int_or(1, "diagonal", 0)?)?),
        "diagflat" => |a, x| Ok(x.diagflat(a.int_or(1, "offset", 0)?)?),
        "diagonal" => {
            |a, x| Ok(x.diagonal(a.int_or(1, "offset", 0)?, a.int_or(2, "dim1", 0)?, a.int_or(3, "dim2", 1)?)?)
        }
        "linalg.diagonal" => {
            |a, x| Ok(x.diagonal(a.int_or(KW, "offset", 0)?, a.int_or(KW, "dim1", -2)?, a.int_or(KW, "dim2", -1)?)?)
        }
        "diag_embed" => {
            |a, x| Ok(x.diag_embed(a.int_or(1, "offset", 0)?, a.int_or(2, "dim1", -2)?, a.int_or(3, "dim2", -1)?)?)
        }
        "tril" => |a, x| Ok(x.tril(a.int_or(1, "diagonal", 0)?)?),
        "triu" => |a, x| Ok(x.triu(a.int_or(1, "diagonal", 0)?)?),
        "sum_to_size" => |a, x| Ok(x.sum_to_size(sizes(&a.ints_from(1, "size")?)?)?),
        "as_strided" => |a, x| {
            let (shape, strides) = (sizes(&a.ints(1, "size")?)?, sizes(&a.ints(2, "stride")?)?);
            Ok(x.as_strided(shape, &strides, a.size_or(3, "storage_offset", 0)?)?)
        },
        "constant_pad_nd" => |a, x| Ok(x.pad(&a.ints(1, "pad")?, PadMode::Constant(a.float_or(2, "value", 0.0)?))?),
        "nn.functional.pad__circular"
        | "nn.functional.pad__constant"
        | "nn.functional.pad__reflect"
        | "nn.functional.pad__replicate"
        | "nn.functional.pad__replicate_negative"
        | "nn.functional.pad" => pad,
        "nn.functional.channel_shuffle" => |a, x| Ok(x.channel_shuffle(a.size(1, "groups")?)?),
        "nn.functional.pixel_shuffle" => |a, x| Ok(x.pixel_shuffle(a.size(1, "upscale_factor")?)?),
        "nn.functional.pixel_unshuffle" => |a, x| Ok(x.pixel_unshuffle(a.size(1, "downscale_factor")?)?),
        "combinations" => |a, x| Ok(x.combinations(a.size_or(1, "r", 2)?, a.bool_or(2, "with_replacement", false)?)?),
        _ => return None,
    };
    Some(a.tensor(0, "input").map_err(OpError::from).and_then(|x| f(a, x)))
}

/// Where a narrow starts: a number or a tensor that holds one.
fn start(a: &Args<'_, Tensor>) -> Result<i64, OpError> {
    if a.is_tensor(2, "start") { Ok(a.tensor(2, "start")?.item::<i64>()?) } else { Ok(a.int(2, "start")?) }
}

/// Operators without arguments.
fn plain(op: &str, a: &Args<'_, Tensor>) -> Option<Result<Tensor, OpError>> {
    let f: fn(&Tensor) -> gradus_core::Result<Tensor> = match op {
        "T" => |x| Ok(x.T()),
        "H" | "adjoint" => Tensor::H,
        "mT" => Tensor::mT,
        "mH" => Tensor::mH,
        "t" => Tensor::t,
        "alias" | "clone" | "detach" | "resolve_neg" | "resolve_conj" => |x| Ok(x.clone()),
        "contiguous" => |x| Ok(x.contiguous()),
        "atleast_1d" => |x| Ok(x.atleast_1d()),
        "atleast_2d" => |x| Ok(x.atleast_2d()),
        "atleast_3d" => |x| Ok(x.atleast_3d()),
        "fliplr" => Tensor::fliplr,
        "flipud" => Tensor::flipud,
        "ravel" => |x| Ok(x.ravel()),
        "trace" => Tensor::trace,
        _ => return None,
    };
    // In memory, order is ours to choose.
    a.ignore("memory_format");
    Some(a.tensor(0, "input").map_err(OpError::from).and_then(|x| Ok(f(&x)?)))
}

fn repeat_interleave(a: &Args<'_, Tensor>, x: Tensor) -> Result<Tensor, OpError> {
    let dim = a.opt_int(2, "dim")?;
    let total = a.opt_size(KW, "output_size")?;
    let (x, dim) = dim.map_or_else(|| (x.ravel(), 0), |d| (x.clone(), d));
    let out = if a.is_tensor(1, "repeats") {
        x.repeat_interleave_each(&a.tensor(1, "repeats")?, dim)?
    } else {
        x.repeat_interleave(a.size(1, "repeats")?, dim)?
    };
    let at = if dim < 0 { dim + out.rank() as i64 } else { dim } as usize;
    match total {
        Some(n) if out.dims()[at] != n => Err(format!("output_size {n}, but {} came out", out.dims()[at]).into()),
        _ => Ok(out),
    }
}

fn pad(a: &Args<'_, Tensor>, x: Tensor) -> Result<Tensor, OpError> {
    let value = a.opt_float(3, "value")?;
    let mode = match a.str_or(2, "mode", "constant")? {
        "constant" => PadMode::Constant(value.unwrap_or(0.0)),
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        "circular" => PadMode::Circular,
        other => return Err(format!("no padding {other}").into()),
    };
    Ok(x.pad(&a.ints(1, "pad")?, mode)?)
}

fn many(op: &str, a: &Args<'_, Tensor>) -> Answer {
    if let Some(answer) = shapes::grids(op, a) {
        return Some(answer);
    }
    let f: fn(&Args<'_, Tensor>, Tensor) -> Result<Vec<Tensor>, OpError> = match op {
        "chunk" | "unsafe_chunk" => |a, x| Ok(x.chunk(a.size(1, "chunks")?, a.int_or(2, "dim", 0)?)?),
        "split" | "unsafe_split" | "split__list_args" | "split_with_sizes" => |a, x| {
            let dim = a.int_or(2, "dim", 0)?;
            Ok(if a.is_list(1, "split_size") {
                x.split_with_sizes(&sizes(&a.ints(1, "split_size")?)?, dim)?
            } else {
                x.split(a.size(1, "split_size")?, dim)?
            })
        },
        "tensor_split" => |a, x| {
            let dim = a.int_or(2, "dim", 0)?;
            if a.is_list(1, "indices_or_sections") {
                return Ok(x.tensor_split_at(&a.ints(1, "indices_or_sections")?, dim)?);
            }
            if a.is_tensor(1, "indices_or_sections") {
                let at = a.tensor(1, "indices_or_sections")?;
                return Ok(match at.rank() {
                    0 => x.tensor_split(at.item::<i64>()?.try_into()?, dim)?,
                    _ => x.tensor_split_at(&at.to_vec::<i64>()?, dim)?,
                });
            }
            Ok(x.tensor_split(a.size(1, "indices_or_sections")?, dim)?)
        },
        "hsplit" => |a, x| directed(a, x, Tensor::hsplit, Tensor::hsplit_at),
        "vsplit" => |a, x| directed(a, x, Tensor::vsplit, Tensor::vsplit_at),
        "dsplit" => |a, x| directed(a, x, Tensor::dsplit, Tensor::dsplit_at),
        "unbind" => |a, x| Ok(x.unbind(a.int_or(1, "dim", 0)?)?),
        _ => return None,
    };
    Some(a.tensor(0, "input").map_err(OpError::from).and_then(|x| f(a, x)))
}

fn directed(
    a: &Args<'_, Tensor>,
    x: Tensor,
    even: fn(&Tensor, usize) -> gradus_core::Result<Vec<Tensor>>,
    at: fn(&Tensor, &[i64]) -> gradus_core::Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>, OpError> {
    let name = "indices_or_sections";
    Ok(if a.is_list(1, name) { at(&x, &a.ints(1, name)?)? } else { even(&x, a.size(1, name)?)? })
}

/// How a meshgrid's axes lie.
pub fn indexing(a: &Args<'_, Tensor>) -> Result<Indexing, OpError> {
    match a.str_or(KW, "indexing", "ij")? {
        "ij" => Ok(Indexing::Ij),
        "xy" => Ok(Indexing::Xy),
        other => Err(format!("no indexing {other}").into()),
    }
}
