//! Gradients of matrix routines. A rule is a formula over tensors, so the second derivative is the derivative of the rule.
//!
//! Packed results (and their gradients) are cut apart first; a part that nobody used has a gradient of zeros. Divisions
//! by gaps between eigenvalues or singular values are 0 where there is nothing to divide, so that a loss of the values
//! alone is differentiable where they coincide.

use super::no_gradient;
use crate::{DType, Result, Tensor, api::factor::unpack, op::Linalg};
use smallvec::SmallVec;

type Parts = SmallVec<[Option<Tensor>; 3]>;

/// Gradients for the inputs of the routine `op` that made `y`.
pub fn apply(op: Linalg, g: &Tensor, y: &Tensor, x: &[Tensor], needs: &[bool]) -> Result<Parts> {
    let a = &x[0];
    let one = |t: Tensor| Ok(Parts::from_iter([Some(t)]));
    match op {
        // d det A = <cofactors of A, dA>
        Linalg::Det => one(a.cofactor() * column(g)?.unsqueeze(-1)?),
        Linalg::Cofactor => one(cofactor(g, a)?),
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
        Linalg::Cholesky => one(cholesky(g, y)?),
        Linalg::Qr { .. } => one(qr(op, g, y, a)?),
        Linalg::Svd { .. } => one(svd(op, g, y, a)?),
        Linalg::Eigh => one(eigh(g, y, a)?),
        // The values' gradient needs the vectors: A = V W V^T, dA = V gW V^T
        Linalg::Eigvalsh => {
            let (_, v) = a.eigh(false)?;
            one((&v * row(g)?).matmul(&v.mt())?)
        }
        // A = U S V^T: dA = U gS V^T
        Linalg::Svdvals => {
            let (u, _, vh) = a.svd(false)?;
            one((u * row(g)?).matmul(&vh)?)
        }
        Linalg::Lu => one(lu(g, y, a)?),
        Linalg::Pinv => Ok(Parts::from_iter([Some(pinv(g, y, a)?), None])),
        Linalg::Exp => one(exp(g, a)?),
    }
}

/// Rows and columns of a batch of matrices.
fn size(a: &Tensor) -> (usize, usize) {
    let r = a.rank();
    (a.dims()[r - 2], a.dims()[r - 1])
}

/// `[.., n] -> [.., n, 1]`, and `[..] -> [.., 1]`.
fn column(x: &Tensor) -> Result<Tensor> {
    x.unsqueeze(-1)
}

/// `[.., n] -> [.., 1, n]`.
fn row(x: &Tensor) -> Result<Tensor> {
    x.unsqueeze(-2)
}

/// Where row and column are equal.
fn on_diagonal(n: usize, like: &Tensor) -> Result<Tensor> {
    let i = Tensor::arange_on(n, like.device());
    i.unsqueeze(1)?.eq(&i.unsqueeze(0)?)
}

/// The difference from the transpose.
fn skew(x: &Tensor) -> Tensor {
    x - x.mt()
}

/// `x / d`, and 0 where both are 0.
fn over(x: &Tensor, d: &Tensor) -> Result<Tensor> {
    let nothing = x.eq(0.0)?.logical_and(&d.eq(0.0)?)?;
    x.div(&nothing.where_(d.scalar_like(1.0), d)?)
}

/// `X` with `X A = B`, `A` triangular.
fn right_solve(a: &Tensor, b: &Tensor, upper: bool) -> Result<Tensor> {
    Ok(a.mt().solve_triangular(&b.mt(), !upper, false)?.mt())
}

/// Murray (2016): with `P = tril(L^T g)`, `dA = L^-T (P + strict(P)^T)/2 L^-1`.
fn cholesky(g: &Tensor, l: &Tensor) -> Result<Tensor> {
    let p = l.mt().matmul(g)?.tril(0)?;
    let s = (&p + p.tril(-1)?.mt()) * 0.5;
    right_solve(l, &l.mt().solve_triangular(&s, true, false)?, false)
}

fn qr(op: Linalg, g: &Tensor, y: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = size(a);
    if m > n && op == (Linalg::Qr { complete: true }) {
        return Err(no_gradient(y, " in complete mode for more rows than columns").hint("use the reduced mode"));
    }
    let [q, r] = unpack(op, y, m, n)?;
    let [gq, gr] = unpack(op, g, m, n)?;
    if m >= n {
        return tall_qr(&gq, &gr, &q, &r);
    }
    // A = [A1 A2], A1 = Q R1 and R2 = Q^T A2: the second part reaches A1 through Q.
    let (r1, r2) = (r.narrow(-1, 0, m)?, r.narrow(-1, m, n - m)?);
    let (gr1, gr2) = (gr.narrow(-1, 0, m)?, gr.narrow(-1, m, n - m)?);
    let gq = gq + q.matmul(&r2.matmul(&gr2.mt())?)?;
    Tensor::cat(&[&tall_qr(&gq, &gr1, &q, &r1)?, &q.matmul(&gr2)?], -1)
}

/// With `M = R gR^T - gQ^T Q`: `dA = (gQ + Q sym(M)) R^-T`, where `sym` mirrors the lower triangle.
fn tall_qr(gq: &Tensor, gr: &Tensor, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let m = (r.matmul(&gr.mt())? - gq.mt().matmul(q)?).tril(0)?;
    let inner = gq + q.matmul(&(&m + m.tril(-1)?.mt()))?;
    right_solve(&r.mt(), &inner, false)
}

/// `A = U S V^T`: `dA = U [(skew(U^T gU) / E) S + S (skew(V^T gV) / E) + gS] V^T` with `E_ij = s_j^2 - s_i^2`, and the
/// parts of `gU` and `gV` outside the spaces that `U` and `V` span. Columns beyond the smaller size carry no gradient.
fn svd(op: Linalg, g: &Tensor, y: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = size(a);
    let k = m.min(n);
    let thin = |[u, s, vh]: [Tensor; 3]| Ok::<_, crate::Error>([u.narrow(-1, 0, k)?, s, vh.narrow(-2, 0, k)?]);
    let [u, s, vh] = thin(unpack(op, y, m, n)?)?;
    let [gu, gs, gvh] = thin(unpack(op, g, m, n)?)?;
    let (si, sj) = (column(&s)?, row(&s)?);
    let e = (&sj - &si) * (&sj + &si);
    let (uu, vv) = (u.mt().matmul(&gu)?, vh.matmul(&gvh.mt())?);
    let turn = over(&skew(&uu), &e)? * &sj + over(&skew(&vv), &e)? * &si;
    let inner = on_diagonal(k, a)?.where_(&row(&gs)?, &turn)?;
    let mut left = u.matmul(&inner)?;
    if m > k {
        left = left + over(&(&gu - u.matmul(&uu)?), &sj)?;
    }
    let mut da = left.matmul(&vh)?;
    if n > k {
        da = da + u.matmul(&over(&(&gvh - vv.mt().matmul(&vh)?), &si)?)?;
    }
    Ok(da)
}

/// `A = V W V^T`: `dA = V (gW + V^T gV / E) V^T` with `E_ij = w_j - w_i`.
fn eigh(g: &Tensor, y: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = size(a);
    let [w, v] = unpack(Linalg::Eigh, y, m, n)?;
    let [gw, gv] = unpack(Linalg::Eigh, g, m, n)?;
    let same = on_diagonal(n, a)?;
    let e = same.where_(w.scalar_like(1.0), &(row(&w)? - column(&w)?))?;
    let inner = same.where_(&row(&gw)?, &over(&v.mt().matmul(&gv)?, &e)?)?;
    v.matmul(&inner)?.matmul(&v.mt())
}

/// `A = P L U`, square: `dA = P L^-T [tril(L^T gL, -1) + triu(gU U^T)] U^-T`. What is beyond the square part of a tall
/// `L` or a wide `U` is a solve with the square part of the other.
fn lu(g: &Tensor, y: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = size(a);
    let k = m.min(n);
    let [p, l, u] = unpack(Linalg::Lu, y, m, n)?;
    let [_, gl, gu] = unpack(Linalg::Lu, g, m, n)?;
    let (l1, gl1) = (l.narrow(-2, 0, k)?, gl.narrow(-2, 0, k)?);
    let (u1, gu1) = (u.narrow(-1, 0, k)?, gu.narrow(-1, 0, k)?);
    let (mut lower, mut upper) = (l1.mt().matmul(&gl1)?, gu1.matmul(&u1.mt())?);
    let (l2, gl2) = (l.narrow(-2, k, m - k)?, gl.narrow(-2, k, m - k)?);
    let (u2, gu2) = (u.narrow(-1, k, n - k)?, gu.narrow(-1, k, n - k)?);
    if m > k {
        upper = upper - l2.mt().matmul(&gl2)?;
    }
    if n > k {
        lower = lower - gu2.matmul(&u2.mt())?;
    }
    let inner = lower.tril(-1)? + upper.triu(0)?;
    let mut da = right_solve(&u1.mt(), &l1.mt().solve_triangular(&inner, true, true)?, false)?;
    if m > k {
        da = Tensor::cat(&[&da, &right_solve(&u1.mt(), &gl2, false)?], -2)?;
    }
    if n > k {
        da = Tensor::cat(&[&da, &l1.mt().solve_triangular(&gu2, true, true)?], -1)?;
    }
    p.detach().matmul(&da)
}

/// `P = A^+` of constant rank: `dA = -P^T g P^T + (I - A P) g^T P P^T + P^T P g^T (I - P A)` (Golub and Pereyra 1973).
fn pinv(g: &Tensor, p: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (pt, gt) = (p.mt(), g.mt());
    let first = pt.matmul(g)?.matmul(&pt)?;
    let left = gt.matmul(p)?.matmul(&pt)?; // g^T P P^T
    let right = pt.matmul(p)?.matmul(&gt)?; // P^T P g^T
    let left = &left - a.matmul(&p.matmul(&left)?)?;
    let right = &right - right.matmul(p)?.matmul(a)?;
    Ok(left + right - first)
}

/// The derivative of `exp` at `A^T` in direction `g`: the corner of `exp [[A^T, g], [0, A^T]]` (Mathias 1996).
fn exp(g: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (n, at) = (size(a).0, a.mt());
    let top = Tensor::cat(&[&at, g], -1)?;
    let bottom = Tensor::cat(&[&at.zeros_like(), &at], -1)?;
    Tensor::cat(&[&top, &bottom], -2)?.matrix_exp()?.narrow(-2, 0, n)?.narrow(-1, n, n)
}

/// The second derivative of the determinant.
///
/// For regular `A` with `B = A^-T`: `det(A) (<g, B> B - B g^T B)`. For singular `A = U S V^T`, with `H = U^T g V` and
/// `M_ij` the product of all singular values but `i` and `j` (0 on the diagonal): `det(U) det(V) U K V^T`, where
/// `K = diag(M diag(H)) - H^T M` elementwise. Each matrix takes its own way; the other way sees a harmless matrix.
fn cofactor(g: &Tensor, a: &Tensor) -> Result<Tensor> {
    let n = size(a).0;
    let eps = if a.dtype() == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let singular = a.detach().det()?.abs().lt(100.0 * eps)?.unsqueeze(-1)?.unsqueeze(-1)?;
    let same = on_diagonal(n, a)?;
    let identity = same.to_dtype(a.dtype());

    let regular = singular.where_(&identity, a)?;
    let b = regular.inv()?.mt();
    let det = column(&column(&regular.det()?)?)?;
    let inner = (g * &b).sum_dim([-2, -1], true)?;
    let smooth = (&b * inner - b.matmul(&g.mt())?.matmul(&b)?) * det;

    let spread = &identity * (Tensor::arange_on(n, a.device()) + 1).to_dtype(a.dtype());
    let (u, s, vh) = singular.where_(a, &spread)?.svd(false)?;
    let sign = column(&column(&(u.detach().det()? * vh.detach().det()?).sign())?)?;
    let h = u.mt().matmul(g)?.matmul(&vh.mt())?;
    // [.., i, j, l]: the singular value l, or 1 where l is i or j
    let skipped = same.unsqueeze(1)?.logical_or(&same.unsqueeze(0)?)?;
    let others = skipped.where_(s.scalar_like(1.0), &row(&row(&s)?)?)?.prod_dim(-1, false)?;
    let others = same.where_(s.scalar_like(0.0), &others)?;
    let diagonal = same.where_(&h, h.scalar_like(0.0))?.sum_dim(-1, false)?;
    let along = others.matmul(&column(&diagonal)?)?; // [.., n, 1]
    let k = same.where_(&along, &(-(h.mt() * others)))?;
    singular.where_(&(u.matmul(&k)?.matmul(&vh)? * sign), &smooth)
}
