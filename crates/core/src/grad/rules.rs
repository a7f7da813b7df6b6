//! The gradient rules of structural operations. Elementwise ones are in their table.

use super::{no_gradient, scan_rules};
use crate::{
    Error, ErrorKind, Result, Tensor,
    op::{Conv, ConvKind, HostOp, Linalg, Op, ReduceOp, ScanOp, ScatterMode, ewise::Vjp},
    view::ViewOp,
};
use smallvec::SmallVec;

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
        Op::Gather { axis } => {
            Ok(Parts::from_iter([Some(x[0].zeros_like().scatter_add(*axis as i64, &x[1], g)?), None]))
        }
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
fn unslice(g: &Tensor, axis: usize, start: usize, step: isize, len: usize, n: usize) -> Result<Tensor> {
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
        let shape = c.shape().clone();
        g.make(Op::Conv(c), &[a, b], shape, g.dtype())
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
    match op {
        HostOp::Scan { op, axis } => match op {
            ScanOp::Sum => one(scan_rules::reverse_cumsum(g, *axis)?),
            ScanOp::Prod => one(scan_rules::cumprod(*axis, g, &x[0])?),
            ScanOp::LogSumExp => one(scan_rules::logcumsumexp(*axis, g, y, &x[0])?),
            ScanOp::ArgMax | ScanOp::ArgMin => Err(no_gradient(y, ": positions are integers")),
        },
        HostOp::Scatter { axis, mode } => scatter(*axis as i64, *mode, g, y, x),
        HostOp::Argsort { .. } | HostOp::SearchSorted { .. } | HostOp::Mode => {
            Err(no_gradient(y, ": positions are integers"))
        }
        HostOp::Linalg(l) => linalg(*l, g, y, x, needs),
    }
}

fn scatter(axis: i64, mode: ScatterMode, g: &Tensor, y: &Tensor, x: &[Tensor]) -> Result<Parts> {
    let [base, index, src] = x else { return Ok(Parts::new()) };
    let three = |base: Tensor, src: Tensor| Ok(Parts::from_iter([Some(base), None, Some(src)]));
    match mode {
        ScatterMode::Assign => three(g.scatter(axis, index, &src.zeros_like())?, g.gather(axis, index)?),
        ScatterMode::Add => three(g.clone(), g.gather(axis, index)?),
        ScatterMode::Mul => {
            let (others_base, others_src) = other_factors(axis, y, base, index, src)?;
            three(g * others_base, g.gather(axis, index)? * others_src)
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

/// `y = base * (all of src that lands there)`: for each factor, the product of the others. That is `y / factor`; where
/// the factor is 0, it is the product of all that are not, if no other is 0.
fn other_factors(axis: i64, y: &Tensor, base: &Tensor, index: &Tensor, src: &Tensor) -> Result<(Tensor, Tensor)> {
    let d = y.dtype();
    let (zero, one) = (base.scalar_like(0.0), base.scalar_like(1.0));
    let (base_zero, src_zero) = (base.raw_eq(&zero), src.raw_eq(&zero));
    let (base_safe, src_safe) = (base_zero.raw_where(&one, base), src_zero.raw_where(&one, src));
    let nonzero = base_safe.scatter_mode("scatter", ScatterMode::Mul, axis, index, &src_safe)?;
    let zeros = base_zero.to_dtype(d).scatter_add(axis, index, &src_zero.to_dtype(d))?;
    let alone = zeros.raw_eq(&one).raw_where(&nonzero, &zero);
    let for_base = base_zero.raw_where(&alone, &(y / base_safe));
    let for_src = src_zero.raw_where(&alone.gather(axis, index)?, &(y.gather(axis, index)? / src_safe));
    Ok((for_base, for_src))
}

fn linalg(op: Linalg, g: &Tensor, y: &Tensor, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    let a = &x[0];
    let one = |t: Tensor| Ok(Parts::from_iter([Some(t)]));
    match op {
        // d log|det A| = tr(A^-1 dA); the sign is constant
        Linalg::Slogdet => {
            let log = g.narrow(-1, 1, 1)?.unsqueeze(-1)?;
            one(a.inv()?.mt() * log)
        }
        // Y = A^-1: dA = -Y^T g Y^T
        Linalg::Inv => one(-(y.mt().matmul(g)?.matmul(&y.mt())?)),
        // A Y = B: dB = A^-T g, dA = -dB Y^T
        Linalg::Solve => {
            let db = a.mt().solve(g)?;
            let da = if needs[0] { Some(-(db.matmul(&y.mt())?)) } else { None };
            Ok(Parts::from_iter([da, Some(db)]))
        }
        Linalg::SolveTriangular { upper, unit } => {
            let db = a.mt().solve_triangular(g, !upper, unit)?;
            let da = -(db.matmul(&y.mt())?);
            // Only the triangle that was read has a gradient, and not a diagonal that counted as ones.
            let k = unit as i64;
            let da = if upper { da.triu(k)? } else { da.tril(-k)? };
            Ok(Parts::from_iter([Some(da), Some(db)]))
        }
        Linalg::Cholesky | Linalg::Qr { .. } | Linalg::Svd { .. } | Linalg::Eigh | Linalg::Lu => {
            Err(no_gradient(y, ""))
        }
    }
}
