//! What users call: methods on [`crate::Tensor`], one file a family. They check, promote and broadcast, then make nodes.

mod creation;
mod custom;
mod display;
mod elementwise;
mod indexing;
pub(crate) mod linalg;
mod movement;
mod nn;
mod print_graph;
mod read;
mod reductions;
pub(crate) mod routine;

// Rooms know each other by their own names, whichever folder they are in.
pub(crate) use creation::*;
pub(crate) use elementwise::*;
pub(crate) use indexing::*;
pub(crate) use linalg::*;
pub(crate) use movement::*;
pub(crate) use nn::*;
pub(crate) use reductions::*;

pub use arith::Operand;
pub use attention::AttentionOptions;
pub use calculus::Spacing;
pub use compose::{Closeness, NanToNum, Rounding};
pub use conv::{ConvOptions, ConvTransposeOptions, Padding};
pub use count::Unique;
pub use create::IntoData;
pub use ctc::CtcOptions;
pub use display::{PrintOptions, print_options, set_print_options};
pub use einsum::Sub;
pub use embedding::{BagMode, EmbeddingBagOptions, EmbeddingOptions};
pub use factor::QrMode;
pub use grid::{GridPadding, GridSampleMode};
pub use index::{IntoIndex, Ix, NewAxis, s};
pub use init::{Fan, Gain};
pub use join::Indexing;
pub use loss::{PoissonNllOptions, Reduction};
pub use loss_class::{CrossEntropyOptions, MultiMarginOptions, NllLossOptions};
pub use loss_metric::TripletMarginOptions;
pub use matrix_norm::NormOrd;
pub use multihead::{InProjection, MultiHeadOptions};
pub use norm::{BatchNormOptions, RunningStats};
pub use pad::PadMode;
pub use patches::PatchOptions;
pub use pool::{AvgPoolOptions, MaxPoolOptions};
pub use print_graph::Graph;
pub use quantile::Interpolation;
pub(crate) use random::draw;
pub use random::{get_rng_state, manual_seed, set_rng_state};
pub use resize::{InterpolateMode, InterpolateOptions};
pub use scatter_reduce::ScatterReduction;
pub use sizes::Sizes;
pub use solve::Lstsq;
pub use stats::Covariance;

use crate::{Axes, DType, Device, Error, ErrorKind, Result, Shape, Tensor};
use smallvec::SmallVec;

/// An axis as a position: negative ones count from the end.
#[track_caller]
pub(crate) fn axis(op: &str, axis: i64, rank: usize) -> Result<usize> {
    // A scalar counts as having one axis, as in PyTorch.
    let n = rank.max(1) as i64;
    if (-n..n).contains(&axis) {
        return Ok(if axis < 0 { axis + n } else { axis } as usize);
    }
    let why = if rank == 0 { "is out of range: use 0 or -1".into() } else { format!("is out of range {}..{}", -n, n) };
    Err(Error::new(op, ErrorKind::Axis { axis, rank, why }))
}

/// Axes as ascending positions without repetition.
#[track_caller]
pub(crate) fn axes(op: &str, axes: &Axes, rank: usize) -> Result<SmallVec<[usize; 6]>> {
    let list = match axes {
        Axes::All => return Ok((0..rank).collect()),
        Axes::List(l) => l,
    };
    let mut out: SmallVec<[usize; 6]> = SmallVec::new();
    for &a in list {
        let p = axis(op, a, rank)?;
        if rank == 0 {
            continue;
        }
        if out.contains(&p) {
            let why = "is named twice".into();
            return Err(Error::new(op, ErrorKind::Axis { axis: a, rank, why }));
        }
        out.push(p);
    }
    out.sort_unstable();
    Ok(out)
}

/// PyTorch's result type of two tensors: one without axes counts less than one with, within a category.
pub(crate) fn promote(a: &Tensor, b: &Tensor) -> DType {
    let category = |d: DType| if d.is_float() { 2 } else { d.is_int() as u8 };
    match (a.rank() == 0, b.rank() == 0) {
        (true, false) if category(a.dtype()) <= category(b.dtype()) => b.dtype(),
        (false, true) if category(b.dtype()) <= category(a.dtype()) => a.dtype(),
        _ => a.dtype().promote(b.dtype()),
    }
}

/// The common shape of tensors, or an error that shows all of them.
#[track_caller]
pub(crate) fn broadcast_all(op: &str, xs: &[&Tensor]) -> Result<Shape> {
    let Some((first, rest)) = xs.split_first() else { return Ok(Shape::default()) };
    let mut shape = first.shape().clone();
    for x in rest.iter().filter(|x| x.shape() != first.shape()) {
        shape = match shape.broadcast(x.shape()) {
            Some(s) => s,
            None => {
                let shown: Vec<String> = xs.iter().map(|x| x.shape().to_string()).collect();
                let (i, a, b) = clash(&shape, x.shape());
                let why =
                    format!("shapes do not broadcast: {} (axis {i} from the end: {a} vs {b})", shown.join(" and "));
                let shapes: Vec<&Shape> = xs.iter().map(|x| x.shape()).collect();
                let e = Error::shape(op, &shapes, why);
                return Err(xs.iter().fold(e, |e, x| e.operand(x)));
            }
        };
    }
    Ok(shape)
}

/// The first axis, counted from the end, where two shapes differ and neither is 1.
fn clash(a: &Shape, b: &Shape) -> (usize, usize, usize) {
    let ends = a.iter().rev().zip(b.iter().rev()).enumerate();
    ends.map(|(i, (&a, &b))| (i + 1, a, b)).find(|&(_, a, b)| a != b && a != 1 && b != 1).unwrap_or((0, 0, 0))
}

/// All on one device, or an error.
#[track_caller]
pub(crate) fn same_device(op: &str, xs: &[&Tensor]) -> Result<Device> {
    let first = xs[0].device();
    for x in &xs[1..] {
        first.check_same(x.device(), op).map_err(|e| e.operand(xs[0]).operand(x))?;
    }
    Ok(first)
}
