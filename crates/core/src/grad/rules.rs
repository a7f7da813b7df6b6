//! The gradient rules of structural operations. Elementwise ones are in their table.

use super::{linalg_rules, no_gradient, scan_rules};
use crate::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    op::{Conv, ConvKind, HostOp, MaxPool, Op, ReduceOp, ScanOp, ScatterMode, ewise::Vjp},
    view::ViewOp,
};
use gradus_numerics::border::{Border, Edge};
use smallvec::SmallVec;
use std::sync::Arc;

type Parts = SmallVec<[Option<Tensor>; 3]>;

/// Gradients for the inputs of `y`, given the gradient `g` of `y`; only those in `needs` are used.
pub fn apply(y: &Tensor, g: &Tensor, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    let one = |t: Tensor| Ok(Parts::from_iter([Some(t)]));
    match &y.node().op {
        // No inputs, or never on the way of a gradient.
        Op::Data | Op::Scalar(_) | Op::Iota | Op::Rand { .. } | Op::Var(_) | Op::Snapshot(_) | Op::Detach => {
            Ok(Parts::new())
        }
        Op::Ewise(row) => {
            let mut out = Parts::new();
            for k in 0..x.len() {
                out.push(match row.vjp {
                    _ if !needs[k] => None,
                    Vjp::Rules(rules) => Some(rules[k](g, y, x)),
                    Vjp::Partial(rules) => match rules[k] {
                        Some(rule) => Some(rule(g, y, x)),
                        None => return Err(no_gradient(y, &format!(" for input {k}"))),
                    },
                    Vjp::Zero => Some(x[k].zeros_like()),
                    Vjp::Missing | Vjp::NotFloat => return Err(no_gradient(y, "")),
                });
            }
            Ok(out)
        }
        Op::Cast => one(g.to_dtype(x[0].dtype())),
        Op::Contiguous => one(g.clone()),
        Op::Transfer => one(g.to(&x[0].device())),
        Op::View(v) => one(view(v, g, &x[0])?),
        Op::Reduce { op, axes } => one(reduce(*op, axes, g, y, &x[0])?),
        // C = A B: dA = dC B^T, dB = A^T dC
        Op::Matmul => Ok(Parts::from_iter([
            if needs[0] { Some(g.matmul(&x[1].mt())?) } else { None },
            if needs[1] { Some(x[0].mt().matmul(g)?) } else { None },
        ])),
        Op::Gather { axis } => Ok(Parts::from_iter([Some(gather(*axis, g, &x[0], &x[1])?), None])),
        Op::Cat { axis } => {
            let mut from = 0;
            let mut out = Parts::new();
            for x in x {
                let n = x.dims()[*axis];
                out.push(Some(g.narrow(*axis as i64, from, n)?));
                from += n;
            }
            Ok(out)
        }
        Op::Conv(c) => conv(c, g, x, needs),
        Op::Host(h) => host(h, g, y, x, needs),
        Op::Custom(c) => users(y, c.vjp(g, y, x)?, x, needs),
        Op::WithVjp(rule) => {
            let mut out = users(y, rule.vjp(g, y, &x[1..])?, &x[1..], &needs[1..])?;
            out.insert(0, None); // the elements themselves were computed without a gradient
            Ok(out)
        }
        Op::After => Ok(Parts::from_iter([Some(g.clone()), None])),
        // Made only where no gradient is asked through it.
        Op::Call(_) => Err(no_gradient(y, " for a function that is one node")),
    }
}

/// What a user's rule returned: one gradient an input, of its shape, wherever one is needed.
fn users(y: &Tensor, parts: Vec<Option<Tensor>>, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    if parts.len() != needs.len() {
        let why = format!("its rule returns {} gradients for {} inputs", parts.len(), needs.len());
        return Err(Error::new(y.op_name(), ErrorKind::Gradient(why)).operand(y));
    }
    for (k, part) in parts.iter().enumerate().filter(|(k, _)| needs[*k]) {
        let Some(part) = part else { return Err(no_gradient(y, &format!(" for input {k}"))) };
        if part.shape() != x[k].shape() {
            let why = format!("the gradient of input {k} has shape {}, not {}", part.shape(), x[k].shape());
            return Err(Error::shape(y.op_name(), &[part.shape(), x[k].shape()], why).operand(y).operand(&x[k]));
        }
    }
    Ok(parts.into())
}

/// A look-up's gradient adds up where it looked.
fn gather(axis: usize, g: &Tensor, x: &Tensor, index: &Tensor) -> Result<Tensor> {
    let n = x.dims()[axis];
    // One element of each row, as losses pick a label's score: a comparison, which fuses with its readers.
    if *index.shape() == x.shape().with(axis, 1) && n > 0 {
        let mut along = vec![1; x.rank()];
        along[axis] = n;
        let (mut at, mut index) = (Tensor::arange_on(n, x.device()).reshape(along)?, index.clone());
        if n <= 1 << f32::MANTISSA_DIGITS {
            // Exact, and half as many bits to compare.
            (at, index) = (at.to_dtype(crate::DType::F32), index.to_dtype(crate::DType::F32));
        }
        return at.eq(&index)?.where_(g, g.zeros_like());
    }
    x.zeros_like().scatter_add(axis as i64, index, g)
}

/// A view's gradient puts each element back where it came from.
fn view(v: &ViewOp, g: &Tensor, x: &Tensor) -> Result<Tensor> {
    match v {
        ViewOp::Reshape(_) => g.reshape(x.shape()),
        ViewOp::Permute(p) => {
            let mut inverse = vec![0i64; p.len()];
            p.iter().enumerate().for_each(|(to, &from)| inverse[from] = to as i64);
            g.permute(inverse)
        }
        ViewOp::Expand(_) => g.sum_to(x.shape()),
        ViewOp::Slice { axis, start, step, len } => unslice(g, *axis, *start, *step, *len, x.dims()[*axis]),
        ViewOp::Unfold { axis, size, step } => {
            // Windows overlap, so element j of every window lands on its own grid; the grids are added.
            let (last, n) = (g.rank() - 1, x.dims()[*axis]);
            let mut sum = None;
            for j in 0..*size {
                let part = g.select(last as i64, j as i64)?;
                let part = unslice(&part, *axis, j, *step as isize, part.dims()[*axis], n)?;
                sum = Some(match sum {
                    None => part,
                    Some(s) => s + part,
                });
            }
            Ok(sum.unwrap_or_else(|| x.zeros_like()))
        }
        ViewOp::Pad(amounts) => {
            let mut out = g.clone();
            for (axis, &(before, _)) in amounts.iter().enumerate() {
                out = out.narrow(axis as i64, before, x.dims()[axis])?;
            }
            Ok(out)
        }
    }
}

/// `len` elements put back at `start`, `step` apart, into `n` zeros.
pub(crate) fn unslice(g: &Tensor, axis: usize, start: usize, step: isize, len: usize, n: usize) -> Result<Tensor> {
    if len == 0 {
        return Ok(Tensor::zeros_on(g.shape().with(axis, n), g.dtype(), g.device()));
    }
    let (g, start) = if step < 0 {
        (g.flip(axis as i64)?, (start as isize + (len as isize - 1) * step) as usize)
    } else {
        (g.clone(), start)
    };
    let step = step.unsigned_abs();
    let (g, span) = if step > 1 && len > 1 {
        // Zeros between the elements: pad each to `step` and run them together, less the last gap.
        let wide = g.unsqueeze(axis as i64 + 1)?.pad_axis(axis + 1, 0, step - 1)?;
        let joined = wide.reshape(g.shape().with(axis, len * step))?;
        let span = (len - 1) * step + 1;
        (joined.narrow(axis as i64, 0, span)?, span)
    } else {
        (g, len)
    };
    g.pad_axis(axis, start, n - start - span)
}

fn reduce(op: ReduceOp, axes: &[usize], g: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    match op {
        ReduceOp::Sum => g.expand(x.shape()),
        // Ties share the gradient evenly, as in PyTorch's amax.
        ReduceOp::Max | ReduceOp::Min => {
            let axes: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
            let hit = x.eq(y)?.to_dtype(g.dtype());
            Ok(&hit * &(g / &hit.sum_dim(axes, true)?))
        }
        ReduceOp::Prod => scan_rules::product(axes, g, x),
    }
}

/// The three convolutions are bilinear, and each one's two gradients are the other two.
fn conv(c: &Conv, g: &Tensor, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    use ConvKind::*;
    let make = |kind: ConvKind, a: &Tensor, b: &Tensor| {
        let c = c.with_kind(kind);
        let shape = c.shape();
        g.make(Op::Conv(Arc::new(c)), &[a, b], shape, g.dtype())
    };
    let (a, b) = (&x[0], &x[1]);
    let (da, db) = match c.kind {
        // y = conv(input, weight)
        Forward => (make(InputGrad, g, b), make(WeightGrad, g, a)),
        // y = input_grad(dout, weight)
        InputGrad => (make(Forward, g, b), make(WeightGrad, a, g)),
        // y = weight_grad(dout, input)
        WeightGrad => (make(Forward, b, g), make(InputGrad, a, g)),
    };
    Ok(Parts::from_iter([needs[0].then_some(da), needs[1].then_some(db)]))
}

fn host(op: &HostOp, g: &Tensor, y: &Tensor, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    let one = |t: Tensor| Ok(Parts::from_iter([Some(t)]));
    let linear = |op: HostOp| one(g.make(Op::Host(op), &[g], x[0].shape().clone(), g.dtype()));
    match op {
        HostOp::Scan { op, axis } => match op {
            ScanOp::Sum => one(scan_rules::reverse_cumsum(g, *axis)?),
            ScanOp::Prod => one(scan_rules::cumprod(*axis, g, y, &x[0])?),
            ScanOp::LogSumExp => one(scan_rules::logcumsumexp(*axis, g, y, &x[0])?),
            // y = x[where it was]
            ScanOp::Max => one(gather(*axis, g, &x[0], &x[0].cummax(*axis as i64)?.1)?),
            ScanOp::Min => one(gather(*axis, g, &x[0], &x[0].cummin(*axis as i64)?.1)?),
            ScanOp::ArgMax | ScanOp::ArgMin => Err(no_gradient(y, ": positions are integers")),
        },
        HostOp::Cascade { axis, back } => {
            let (dx, dfactor) = scan_rules::cascade(*axis, *back, g, y, &x[1])?;
            Ok(Parts::from_iter([Some(dx), needs[1].then_some(dfactor)]))
        }
        HostOp::Scatter { axis, mode } => scatter(*axis as i64, *mode, g, y, x),
        HostOp::Argsort { .. }
        | HostOp::Topk { .. }
        | HostOp::Select { .. }
        | HostOp::SearchSorted { .. }
        | HostOp::Mode
        | HostOp::Shuffle
        | HostOp::OneHot(_) => Err(no_gradient(y, ": positions are integers")),
        HostOp::Linalg(l) => linalg_rules::apply(*l, g, y, x, needs),
        HostOp::MaxPool(MaxPool::Places, _) => Err(no_gradient(y, ": positions are integers")),
        HostOp::MaxPool(which, pool) => {
            let make = |which: MaxPool, v: &Tensor, shape: &Shape| {
                g.make(Op::Host(HostOp::MaxPool(which, pool.clone())), &[&x[0], v], shape.clone(), g.dtype())
            };
            // Where the largest elements are does not depend on x, almost everywhere.
            let none = || needs[0].then(|| x[0].zeros_like());
            Ok(match which {
                MaxPool::Max => Parts::from_iter([Some(make(MaxPool::Grad, g, x[0].shape()))]),
                MaxPool::Pick => Parts::from_iter([none(), Some(make(MaxPool::Grad, g, x[0].shape()))]),
                MaxPool::Grad => Parts::from_iter([none(), Some(make(MaxPool::Pick, g, x[1].shape()))]),
                MaxPool::Places => Parts::new(),
            })
        }
        // Linear maps: the gradient is the transposed one.
        HostOp::MeanPool(p) => linear(HostOp::MeanPoolGrad(p.clone())),
        HostOp::MeanPoolGrad(p) => linear(HostOp::MeanPool(p.clone())),
        HostOp::Resample(r) => linear(HostOp::Resample(Arc::new(r.transposed()))),
        HostOp::Border(b) if b.edge == Edge::Fill => {
            let (mut out, first) = (g.clone(), x[0].rank() - b.axes.len());
            for (i, a) in b.axes.iter().enumerate() {
                out = out.narrow((first + i) as i64, a.before, a.n)?;
            }
            one(out)
        }
        HostOp::Border(b) => {
            // Sums of numbers of 16 bits are f32's.
            let wide = if g.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            let sums = g.to_dtype(wide);
            let op = Op::Host(HostOp::BorderGrad(b.clone()));
            one(g.make(op, &[&sums], x[0].shape().clone(), wide).to_dtype(g.dtype()))
        }
        // A number around it is no part of the map.
        HostOp::BorderGrad(b) => linear(HostOp::Border(Arc::new(Border { fill: 0, ..(**b).clone() }))),
        HostOp::TakeRows => {
            let dx = g.make(Op::Host(HostOp::AddRows), &[g, &x[1]], x[0].shape().clone(), g.dtype());
            Ok(Parts::from_iter([Some(dx), None]))
        }
        HostOp::AddRows => {
            let dx = g.make(Op::Host(HostOp::TakeRows), &[g, &x[1]], x[0].shape().clone(), g.dtype());
            let base = (x.len() > 2).then(|| Some(g.clone()));
            Ok([Some(dx), None].into_iter().chain(base).collect())
        }
        // They read constants: the tensor made of them has a rule of its own.
        HostOp::Lstm(_)
        | HostOp::LstmGrad(_)
        | HostOp::Attention(_)
        | HostOp::AttentionGrad(_)
        | HostOp::GridSample(..)
        | HostOp::Distance { .. }
        | HostOp::DistanceGrad { .. } => Err(no_gradient(y, "")),
    }
}

fn scatter(axis: i64, mode: ScatterMode, g: &Tensor, y: &Tensor, x: &[Tensor]) -> Result<Parts> {
    let [base, index, src] = x else { return Ok(Parts::new()) };
    if index.shape() != src.shape() {
        // Whole rows.
        let a = axis as usize;
        let at = index.expand_to(&base.shape().with(a, index.numel()));
        return match mode {
            ScatterMode::Assign => {
                let rest = g.scatter_rows(mode, a, index, &g.scalar_like(0.0));
                Ok(Parts::from_iter([Some(rest), None, Some(g.gather(axis, &at)?)]))
            }
            ScatterMode::Add => Ok(Parts::from_iter([Some(g.clone()), None, Some(g.gather(axis, &at)?)])),
            ScatterMode::Mul | ScatterMode::Min | ScatterMode::Max => Err(no_gradient(y, "")),
        };
    }
    let three = |base: Tensor, src: Tensor| Ok(Parts::from_iter([Some(base), None, Some(src)]));
    match mode {
        ScatterMode::Assign => three(g.scatter(axis, index, &src.zeros_like())?, g.gather(axis, index)?),
        ScatterMode::Add => three(g.clone(), g.gather(axis, index)?),
        ScatterMode::Mul => {
            let others = base.ones_like().scatter_mode("scatter_reduce", ScatterMode::Mul, axis, index, src)?;
            three(g * others, g.gather(axis, index)? * other_factors(axis, y, base, index, src)?)
        }
        ScatterMode::Min | ScatterMode::Max => {
            let d = g.dtype();
            let base_hit = base.eq(y)?.to_dtype(d);
            let src_hit = src.eq(&y.gather(axis, index)?)?.to_dtype(d);
            let share = g / base_hit.scatter_add(axis, index, &src_hit)?;
            three(&base_hit * &share, src_hit * share.gather(axis, index)?)
        }
    }
}

/// For each source of a product, all that lands on its place but itself; right also where factors are zero, and
/// with the right derivative where two are.
fn other_factors(axis: i64, y: &Tensor, base: &Tensor, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let (zero, one) = (src.scalar_like(0.0), src.scalar_like(1.0));
    let none = src.raw_eq(&zero);
    let solid = none.raw_where(&one, src);
    let divided = y.gather(axis, index)? / &solid;
    // A zero's own others: the product of what is not zero, times the other zeros.
    let product = base.scatter_mode("scatter_reduce", ScatterMode::Mul, axis, index, &solid)?.gather(axis, index)?;
    let land = |t: &Tensor| base.zeros_like().scatter_add(axis, index, t)?.gather(axis, index);
    let count = land(&none.to_dtype(src.dtype()))?;
    // The other one of two zeros, as a number that moves with it.
    let partner = land(&none.raw_where(src, &zero))? - src;
    let two = count.raw_eq(&src.scalar_like(2.0)).raw_where(&(&product * partner), &zero);
    let of_zero = count.raw_eq(&one).raw_where(&product, &two);
    Ok(none.raw_where(&of_zero, &divided))
}
