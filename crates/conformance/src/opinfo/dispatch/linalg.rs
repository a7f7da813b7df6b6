//! Matrix products, factorisations, solvers, norms.

use super::Answer;
use crate::opinfo::{Args, KW, OpError, Scalar as Number, gradus::dtype};
use gradus_core::{Axes, NormOrd, QrMode, Scalar, Tensor};

type A<'a> = Args<'a, Tensor>;
type Outs = Result<Vec<Tensor>, OpError>;

/// Operators of this family.
pub fn call(op: &str, a: &A<'_>) -> Answer {
    let f: fn(&A<'_>) -> Outs = match op {
        "matmul" => |a| binary(a, Tensor::matmul),
        "__rmatmul__" => |a| binary(a, |x, y| y.matmul(x)),
        "mm" => |a| binary(a, Tensor::mm),
        "bmm" => |a| binary(a, Tensor::bmm),
        "mv" => |a| one(a.tensor(0, "input")?.mv(&a.tensor(1, "vec")?)?),
        "dot" => |a| one(a.tensor(0, "input")?.dot(&a.tensor(1, "tensor")?)?),
        "vdot" => |a| binary(a, Tensor::vdot),
        "inner" => |a| binary(a, Tensor::inner),
        "outer" | "ger" => |a| one(a.tensor(0, "input")?.outer(&a.tensor(1, "vec2")?)?),
        "kron" => |a| binary(a, Tensor::kron),
        "addmm" | "addmm__decomposed" => |a| add(a, ["mat1", "mat2"], Tensor::addmm),
        "addmv" => |a| add(a, ["mat", "vec"], Tensor::addmv),
        "addr" => |a| add(a, ["vec1", "vec2"], Tensor::addr),
        "baddbmm" => |a| add(a, ["batch1", "batch2"], Tensor::baddbmm),
        "addbmm" => |a| add(a, ["batch1", "batch2"], Tensor::addbmm),
        "tensordot" => tensordot,
        "einsum" => |a| {
            let operands = a.tensors(0, "operands")?;
            one(Tensor::einsum(a.str(1, "equation")?, &operands.iter().collect::<Vec<_>>())?)
        },
        "cross" => |a| {
            let dim = a.opt_int(2, "dim")?;
            binary(a, |x, y| x.cross(y, dim))
        },
        "linalg.cross" => |a| {
            let dim = a.int_or(KW, "dim", -1)?;
            binary(a, |x, y| x.cross(y, Some(dim)))
        },
        "linalg.vander" => |a| one(a.tensor(0, "x")?.vander(a.opt_size(KW, "N")?)?),
        "linalg.vecdot" => |a| {
            let dim = a.int_or(KW, "dim", -1)?;
            one(a.tensor(0, "x")?.vecdot(&a.tensor(1, "y")?, dim)?)
        },
        "linalg.multi_dot" | "chain_matmul" => |a| {
            let tensors = a.tensors_from(0, "tensors")?;
            one(Tensor::multi_dot(&tensors.iter().collect::<Vec<_>>())?)
        },
        "linalg.matrix_power" | "matrix_power" => |a| one(matrix(a)?.matrix_power(a.int(1, "n")?)?),
        "linalg.matrix_exp" | "matrix_exp" => |a| one(matrix(a)?.matrix_exp()?),
        "cdist" => |a| {
            let p = a.float_or(2, "p", 2.0)?;
            a.ignore("compute_mode"); // how, not what
            a.ignore_at(3);
            one(a.tensor(0, "x1")?.cdist(&a.tensor(1, "x2")?, p)?)
        },
        "nn.functional.pdist" | "pdist" => |a| {
            let p = a.float_or(1, "p", 2.0)?;
            one(a.tensor(0, "input")?.pdist(p)?)
        },
        _ => return factor(op, a),
    };
    Some(f(a))
}

fn factor(op: &str, a: &A<'_>) -> Answer {
    let f: fn(&A<'_>) -> Outs = match op {
        "linalg.det" | "det" => |a| one(matrix(a)?.det()?),
        "linalg.slogdet" | "slogdet" => |a| two(matrix(a)?.slogdet()?),
        "logdet" => |a| one(matrix(a)?.logdet()?),
        "linalg.inv" | "inverse" => |a| one(matrix(a)?.inv()?),
        "linalg.inv_ex" => |a| match a.bool_or(KW, "check_errors", false)? {
            true => Ok(vec![matrix(a)?.inv()?, matrix(a)?.inv_ex()?.1]),
            false => two(matrix(a)?.inv_ex()?),
        },
        "linalg.solve" => solve,
        "linalg.solve_ex" => solve_ex,
        "linalg.solve_triangular" => |a| {
            let (x, b) = (matrix(a)?, a.tensor(1, "B")?);
            let (upper, unit) = (a.bool(KW, "upper")?, a.bool_or(KW, "unitriangular", false)?);
            one(match a.bool_or(KW, "left", true)? {
                true => x.solve_triangular(&b, upper, unit)?,
                false => x.solve_triangular_right(&b, upper, unit)?,
            })
        },
        "triangular_solve" => |a| {
            let flags = [a.bool_or(2, "upper", true)?, a.bool_or(3, "transpose", false)?];
            let unit = a.bool_or(4, "unitriangular", false)?;
            two(a.tensor(0, "b")?.triangular_solve(&a.tensor(1, "A")?, flags[0], flags[1], unit)?)
        },
        "linalg.cholesky" => |a| one(matrix(a)?.cholesky(a.bool_or(KW, "upper", false)?)?),
        "cholesky" => |a| one(a.tensor(0, "input")?.cholesky(a.bool_or(1, "upper", false)?)?),
        "cholesky_inverse" => |a| one(a.tensor(0, "L")?.cholesky_inverse(a.bool_or(1, "upper", false)?)?),
        "cholesky_solve" => |a| {
            let upper = a.bool_or(2, "upper", false)?;
            one(a.tensor(0, "B")?.cholesky_solve(&a.tensor(1, "L")?, upper)?)
        },
        "linalg.qr" => |a| {
            let mode = match a.str_or(1, "mode", "reduced")? {
                "reduced" => QrMode::Reduced,
                "complete" => QrMode::Complete,
                "r" => QrMode::R,
                other => return Err(format!("no qr mode {other}").into()),
            };
            two(matrix(a)?.qr(mode)?)
        },
        "qr" => |a| {
            let mode = if a.bool_or(1, "some", true)? { QrMode::Reduced } else { QrMode::Complete };
            two(a.tensor(0, "input")?.qr(mode)?)
        },
        "linalg.svdvals" => |a| one(matrix(a)?.svdvals()?),
        "linalg.eigvalsh" => |a| one(matrix(a)?.eigvalsh(a.str_or(1, "UPLO", "L")? == "U")?),
        "linalg.lu" => |a| {
            let (p, l, u) = matrix(a)?.lu()?;
            Ok(vec![p, l, u])
        },
        "linalg.pinv" => |a| {
            a.ignore("hermitian");
            let (atol, rtol) = (a.opt_float(KW, "atol")?, a.opt_float(KW, "rtol")?);
            one(matrix(a)?.pinv(atol, rtol)?)
        },
        "linalg.matrix_rank" => |a| {
            a.ignore("hermitian");
            let (atol, rtol) = (a.opt_float(KW, "atol")?, a.opt_float(KW, "rtol")?);
            one(matrix(a)?.matrix_rank(atol, rtol)?)
        },
        "linalg.lstsq" => |a| {
            a.ignore("driver");
            let rcond = a.opt_float(2, "rcond")?;
            one(matrix(a)?.lstsq(&a.tensor(1, "B")?, rcond)?.solution)
        },
        "pca_lowrank" => pca_lowrank,
        _ => return norm(op, a),
    };
    Some(f(a))
}

fn norm(op: &str, a: &A<'_>) -> Answer {
    let f: fn(&A<'_>) -> Outs = match op {
        "norm" | "norm__fro" | "norm__inf" | "norm__nuc" => |a| {
            let x = a.tensor(0, "input")?;
            let ord = order(a, 1, "p")?.unwrap_or(NormOrd::Fro);
            let (dim, keepdim) = (dims(a, 2)?, a.bool_or(3, "keepdim", false)?);
            let x = typed(a, 5, x)?;
            one(match ord {
                NormOrd::P(p) => x.vector_norm(p, dim, keepdim)?,
                NormOrd::Fro => x.vector_norm(2.0, dim, keepdim)?,
                NormOrd::Nuc => x.linalg_norm(Some(NormOrd::Nuc), dim, keepdim)?,
            })
        },
        "linalg.norm" | "linalg.norm__subgradients_at_zero" => |a| {
            let ord = order(a, 1, "ord")?;
            let (dim, keepdim) = (dims(a, 2)?, a.bool_or(3, "keepdim", false)?);
            one(typed(a, KW, matrix(a)?)?.linalg_norm(ord, dim, keepdim)?)
        },
        "linalg.vector_norm" => |a| {
            let (x, p) = (a.tensor(0, "x")?, a.float_or(1, "ord", 2.0)?);
            let (dim, keepdim) = (dims(a, 2)?, a.bool_or(3, "keepdim", false)?);
            one(typed(a, KW, x)?.vector_norm(p, dim, keepdim)?)
        },
        "linalg.matrix_norm" => |a| {
            let ord = order(a, 1, "ord")?.unwrap_or(NormOrd::Fro);
            let dim = a.ints_or(2, "dim", &[-2, -1])?;
            let dim = dim.try_into().map_err(|d| format!("dim is {d:?}"))?;
            one(typed(a, KW, matrix(a)?)?.matrix_norm(ord, dim, a.bool_or(3, "keepdim", false)?)?)
        },
        "linalg.cond" => |a| one(matrix(a)?.cond(order(a, 1, "p")?)?),
        _ => return None,
    };
    Some(f(a))
}

fn one(t: Tensor) -> Outs {
    Ok(vec![t])
}

fn two((x, y): (Tensor, Tensor)) -> Outs {
    Ok(vec![x, y])
}

/// The first argument, whichever of its names it goes by.
fn matrix(a: &A<'_>) -> Result<Tensor, OpError> {
    Ok(a.tensor(0, if a.has(0, "A") { "A" } else { "input" })?)
}

fn binary(a: &A<'_>, f: impl Fn(&Tensor, &Tensor) -> gradus_core::Result<Tensor>) -> Outs {
    let second = if a.has(1, "mat2") { "mat2" } else { "other" };
    one(f(&a.tensor(0, "input")?, &a.tensor(1, second)?)?)
}

fn number(n: Number) -> Scalar {
    match n {
        Number::Int(i) => Scalar::I(i),
        Number::Float(f) => Scalar::F(f),
        Number::Bool(b) => Scalar::B(b),
    }
}

type AddProduct = fn(&Tensor, &Tensor, &Tensor, Scalar, Scalar) -> gradus_core::Result<Tensor>;

fn add(a: &A<'_>, names: [&str; 2], f: AddProduct) -> Outs {
    let scale = |name| Ok::<_, OpError>(a.opt_scalar(KW, name)?.map_or(Scalar::I(1), number));
    let (beta, alpha) = (scale("beta")?, scale("alpha")?);
    one(f(&a.tensor(0, "input")?, &a.tensor(1, names[0])?, &a.tensor(2, names[1])?, beta, alpha)?)
}

fn tensordot(a: &A<'_>) -> Outs {
    let (x, y) = (a.tensor(0, "a")?, a.tensor(1, "b")?);
    if !a.is_list(2, "dims") {
        return one(x.tensordot(&y, a.size_or(2, "dims", 2)?)?);
    }
    match a.int_lists(2, "dims")?.as_slice() {
        [p, q] => one(x.tensordot_dims(&y, p, q)?),
        _ => Err("dims must be two lists".to_string().into()),
    }
}

fn solve(a: &A<'_>) -> Outs {
    let (x, b) = (matrix(a)?, a.tensor(1, "B")?);
    one(if a.bool_or(KW, "left", true)? { x.solve(&b)? } else { x.solve_right(&b)? })
}

fn solve_ex(a: &A<'_>) -> Outs {
    let (x, b) = (matrix(a)?, a.tensor(1, "B")?);
    let (left, check) = (a.bool_or(KW, "left", true)?, a.bool_or(KW, "check_errors", false)?);
    let info = x.inv_ex()?.1;
    Ok(match (left, check) {
        (true, true) => vec![x.solve(&b)?, info],
        (true, false) => vec![x.solve_ex(&b)?.0, info],
        (false, _) => vec![x.solve_right(&b)?, info],
    })
}

/// The components are determined up to the sign of each; the recorded ones choose it.
fn pca_lowrank(a: &A<'_>) -> Outs {
    let x = a.tensor(0, "a")?.matmul(&a.tensor(1, "b")?.transpose(-2, -1)?)?;
    let (q, center) = (a.opt_size(KW, "q")?, a.bool_or(KW, "center", true)?);
    a.ignore("niter");
    let (u, s, v) = x.pca_lowrank(q, center)?;
    let Some(want) = a.expected(0).filter(|w| w.shape() == u.dims()) else { return Ok(vec![u, s, v]) };
    let want = Tensor::from_bytes(want.bytes(), want.shape(), u.dtype())?.to(&u.device());
    let sign = (&want * u.detach()).sum_dim(-2, true)?.sign();
    Ok(vec![u.mul(&sign)?, s, v.mul(&sign)?])
}

fn order(a: &A<'_>, position: usize, name: &str) -> Result<Option<NormOrd>, OpError> {
    if !a.is_str(position, name) {
        return Ok(a.opt_float(position, name)?.map(NormOrd::P));
    }
    match a.str(position, name)? {
        "fro" => Ok(Some(NormOrd::Fro)),
        "nuc" => Ok(Some(NormOrd::Nuc)),
        "inf" => Ok(Some(NormOrd::P(f64::INFINITY))),
        "-inf" => Ok(Some(NormOrd::P(f64::NEG_INFINITY))),
        other => Err(format!("no norm {other}").into()),
    }
}

fn dims(a: &A<'_>, position: usize) -> Result<Axes, OpError> {
    Ok(a.opt_ints(position, "dim")?.filter(|d| !d.is_empty()).map_or(Axes::All, Axes::from))
}

/// The input in the type asked for.
fn typed(a: &A<'_>, position: usize, x: Tensor) -> Result<Tensor, OpError> {
    match a.opt_dtype(position, "dtype")? {
        Some(d) => Ok(x.to_dtype(dtype(d).ok_or("an element type that gradus does not have")?)),
        None => Ok(x),
    }
}
