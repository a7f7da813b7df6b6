//! Which i64 values provably fit an i32: WGSL has nothing wider.

use crate::{
    DType, Error, Result, Scalar,
    kernel::{Access, InstKind, Kernel, Source, Val},
    op::ReduceOp,
};

type Range = (i128, i128);

const I32: Range = (i32::MIN as i128, i32::MAX as i128);

/// An error that names i64 where an i64 value of the kernel may not fit an i32.
pub(super) fn check_narrow(k: &Kernel) -> Result<()> {
    let mut ranges: Vec<Range> = Vec::with_capacity(k.insts.len());
    for (v, inst) in k.insts.iter().enumerate() {
        let r = if inst.dtype == DType::I64 { of(k, v, &ranges) } else { I32 };
        if r.0 < I32.0 || r.1 > I32.1 {
            let why = format!("wgsl has no i64, and the i64 value of instruction {v} may not fit an i32");
            return Err(Error::dtype("wgsl", &[DType::I64], why).hint("convert to i32 first, or run it on the CPU"));
        }
        ranges.push(r);
    }
    Ok(())
}

fn of(k: &Kernel, v: Val, known: &[Range]) -> Range {
    match &k.insts[v].kind {
        InstKind::Const(x) => (x.i64() as i128, x.i64() as i128),
        // Checked when the launch packs it, or when it is loaded.
        InstKind::Param(_) | InstKind::Load { source: Source::Arg(_) | Source::Rand { .. }, .. } => I32,
        InstKind::Load { source: Source::Iota, access } => iota(k, access),
        InstKind::Cast(x) => match k.insts[*x].dtype {
            DType::Bool => (0, 1),
            DType::I64 => known[*x],
            DType::I32 => I32,
            // A float beyond the i32s would come out clamped.
            _ => (i64::MIN as i128, i64::MAX as i128),
        },
        InstKind::Ewise(row, vals) => {
            let x: Vec<Range> = vals.iter().map(|&v| known[v]).collect();
            let corners = |f: fn(i128, i128) -> i128| {
                let all = [f(x[0].0, x[1].0), f(x[0].0, x[1].1), f(x[0].1, x[1].0), f(x[0].1, x[1].1)];
                (all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0))
            };
            match row.name {
                "add" => (x[0].0 + x[1].0, x[0].1 + x[1].1),
                "sub" => (x[0].0 - x[1].1, x[0].1 - x[1].0),
                "mul" => corners(|a, b| a * b),
                "neg" => (-x[0].1, -x[0].0),
                "abs" => (0, x[0].0.abs().max(x[0].1.abs())),
                "relu" => (x[0].0.max(0), x[0].1.max(0)),
                "maximum" | "fmax" => (x[0].0.max(x[1].0), x[0].1.max(x[1].1)),
                "minimum" | "fmin" => (x[0].0.min(x[1].0), x[0].1.min(x[1].1)),
                "where" => (x[1].0.min(x[2].0), x[1].1.max(x[2].1)),
                "sign" => (-1, 1),
                "floor" | "ceil" | "trunc" | "round" => x[0],
                // No further from zero than the dividend, but for the least one divided by -1.
                "floor_divide" | "trunc_divide" | "fmod" => {
                    let m = x[0].0.abs().max(x[0].1.abs());
                    (-m, m)
                }
                "remainder" => {
                    let m = x[1].0.abs().max(x[1].1.abs()).max(1) - 1;
                    (if x[1].0 >= 0 { 0 } else { -m }, m)
                }
                "bitwise_and" | "bitwise_or" | "bitwise_xor" | "bitwise_not" => I32,
                _ => (i64::MIN as i128, i64::MAX as i128),
            }
        }
        InstKind::Reduce(op, x) => match op {
            ReduceOp::Max | ReduceOp::Min => known[*x],
            ReduceOp::Sum => {
                let n = k.cols() as i128;
                ((known[*x].0 * n).min(0), (known[*x].1 * n).max(0))
            }
            ReduceOp::Prod => (i64::MIN as i128, i64::MAX as i128),
        },
        InstKind::Store { .. } => (0, 0),
    }
}

fn iota(k: &Kernel, a: &Access) -> Range {
    let (mut lo, mut hi) = (a.offset as i128, a.offset as i128);
    for (&n, &s) in k.map.iter().chain(&k.reduce).zip(&a.strides) {
        let span = n.saturating_sub(1) as i128 * s as i128;
        if span < 0 { lo += span } else { hi += span }
    }
    for l in &a.lookup {
        let span = l.size as i128 * l.stride as i128;
        if span < 0 { lo += span } else { hi += span }
    }
    (lo.min(0), hi.max(0))
}

/// What a reduction over i64 starts from, where an i32 holds it.
pub(super) fn identity(x: Scalar) -> i64 {
    x.i64().clamp(i32::MIN as i64, i32::MAX as i64)
}
