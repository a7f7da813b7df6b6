//! Library routines on host memory: from typed bytes to the numerics crate.

use super::{
    attention16,
    fused::{self, add_rows, border_grad, max_pool, mean_pool, mean_pool_grad, take_rows},
    measure::{distance, distance_grad, grid_sample},
};
use crate::{
    DType, Element, Error, ErrorKind, Result, Shape, Tensor,
    op::{Array, Attention, HostOp, Linalg, Rank, ScanOp, ScatterMode},
};
use gradus_numerics::{
    Lanes, Num, Real,
    border::{self, Border},
    linalg::{self as la, LinalgError},
    recurrent, scan,
    scatter::{self, IndexError, Mode, Negative, Source},
    sort,
};
use half::{bf16, f16};
use std::sync::Arc;

/// Calls `$f::<T>` with the Rust type of a number.
macro_rules! numeric {
    ($d:expr, $f:ident($($a:expr),*)) => {
        match $d {
            DType::F64 => $f::<f64>($($a),*),
            DType::F32 => $f::<f32>($($a),*),
            DType::F16 => $f::<f16>($($a),*),
            DType::BF16 => $f::<bf16>($($a),*),
            DType::I64 => $f::<i64>($($a),*),
            DType::I32 => $f::<i32>($($a),*),
            DType::I16 => $f::<i16>($($a),*),
            DType::I8 => $f::<i8>($($a),*),
            DType::U8 | DType::Bool => $f::<u8>($($a),*),
        }
    };
}

/// The same for the types that a routine computes in.
macro_rules! real {
    ($op:expr, $d:expr, $f:ident($($a:expr),*)) => {
        match $d {
            DType::F64 => $f::<f64>($($a),*),
            DType::F32 => $f::<f32>($($a),*),
            d => Err(Error::dtype($op.name(), &[d], format!("needs f32 or f64, not {d}"))),
        }
    };
}

/// Runs a routine on contiguous arrays into `out`, whose type and shape are `spec`.
pub fn run(op: &HostOp, inputs: &[Array<'_>], out: &mut [u8], spec: &(DType, Shape)) -> Result<()> {
    let d = inputs[0].dtype;
    let sorts = matches!(op, HostOp::Argsort { .. } | HostOp::Topk { .. } | HostOp::Select { .. } | HostOp::Mode);
    if sorts && inputs[0].shape.iter().any(|&n| n > u32::MAX as usize) {
        let why = format!("an axis of {} is too long to sort (2^32 - 1 at the most)", inputs[0].shape);
        return Err(Error::shape(op.name(), &[&inputs[0].shape], why));
    }
    match op {
        HostOp::Scan { op, axis } => numeric!(d, scan_op(*op, *axis, &inputs[0], out)),
        HostOp::Cascade { axis, back } => numeric!(d, cascade(*axis, *back, inputs, out)),
        HostOp::Argsort { axis, descending } => numeric!(d, argsort(*axis, *descending, &inputs[0], out)),
        HostOp::Topk { axis, k, largest } => numeric!(d, topk(*axis, *k, *largest, &inputs[0], out)),
        HostOp::Select { axis, rank } => numeric!(d, select(*axis, *rank, &inputs[0], out)),
        HostOp::Scatter { axis, mode } => numeric!(d, scatter_op(*axis, *mode, inputs, out)),
        HostOp::SearchSorted { right } => numeric!(d, searchsorted(*right, inputs, out)),
        HostOp::Mode => numeric!(d, mode(&inputs[0], out)),
        HostOp::Shuffle => {
            sort::shuffled(of(&inputs[0]), out_of(out));
            Ok(())
        }
        HostOp::Linalg(l) => real!(op, d, linalg(*l, inputs, out, spec)),
        HostOp::MaxPool(which, pool) => real!(op, d, max_pool(*which, pool, inputs, out)),
        HostOp::MeanPool(p) => real!(op, d, mean_pool(p, &inputs[0], out)),
        HostOp::MeanPoolGrad(p) => real!(op, d, mean_pool_grad(p, &inputs[0], out)),
        HostOp::Resample(r) => {
            r.run(of(&inputs[0]), out_of(out));
            Ok(())
        }
        HostOp::Border(b) => numeric!(d, with_border(b, &inputs[0], out)),
        HostOp::BorderGrad(b) => real!(op, d, border_grad(b, &inputs[0], out)),
        HostOp::GridSample(which, g) => real!(op, d, grid_sample(*which, g, inputs, out)),
        HostOp::Distance { order, pairs } => real!(op, d, distance(*order, *pairs, inputs, out)),
        HostOp::DistanceGrad { way, pairs } => real!(op, d, distance_grad(*way, *pairs, inputs, out)),
        HostOp::OneHot(classes) => fused::one_hot(*classes, &inputs[0], out),
        HostOp::TakeRows => numeric!(d, take_rows(inputs, out)),
        HostOp::AddRows => numeric!(d, add_rows(inputs, out, &spec.1)),
        HostOp::Lstm(s) => match inputs {
            [gates, w, h0, c0] => {
                recurrent::lstm(s, of(gates), of(w), of(h0), of(c0), out_of(out));
                Ok(())
            }
            _ => Err(Tensor::bug("an lstm takes gates, weights and two states")),
        },
        HostOp::LstmGrad(s) => match inputs {
            [w, c0, packed, grad] => {
                recurrent::lstm_grad(s, of(w), of(c0), of(packed), of(grad), out_of(out));
                Ok(())
            }
            _ => Err(Tensor::bug("an lstm's gradient takes weights, a state, what was kept and a gradient")),
        },
        HostOp::Attention(a) if attention16::foreign(inputs) => attention16::attention(a, inputs, out),
        HostOp::AttentionGrad(a) if a.joined => {
            let apart = HostOp::AttentionGrad(Arc::new(Attention { joined: false, ..(**a).clone() }));
            let mut parts = vec![0f32; out.len().div_ceil(size_of::<f32>())];
            let parts = &mut attention16::bytes_of_mut(&mut parts)[..out.len()];
            run(&apart, inputs, parts, spec)?;
            join(parts, out, a.heads() * a.sizes[2] * d.size());
            Ok(())
        }
        HostOp::AttentionGrad(a) if attention16::foreign(inputs) => attention16::attention_grad(a, inputs, out),
        HostOp::Attention(a) => fused::attention(a, inputs, out),
        HostOp::AttentionGrad(a) => fused::attention_grad(a, inputs, out),
    }
}

/// Rows of `row` bytes of three arrays, one behind the other: first rows, second rows, and so on.
fn join(parts: &[u8], out: &mut [u8], row: usize) {
    let third = parts.len() / 3;
    for (r, rows) in out.chunks_exact_mut(3 * row.max(1)).enumerate() {
        for (k, to) in rows.chunks_exact_mut(row).enumerate() {
            to.copy_from_slice(&parts[k * third + r * row..][..row]);
        }
    }
}

/// Elements of an array; the element type was matched by the caller (bools pass as u8).
pub(super) fn of<'a, T>(a: &Array<'a>) -> &'a [T] {
    // SAFETY: arrays are aligned, hold `numel` elements of the matched type, and any bits are a number.
    unsafe { std::slice::from_raw_parts(a.bytes.as_ptr().cast(), a.shape.numel()) }
}

pub(super) fn out_of<T>(out: &mut [u8]) -> &mut [T] {
    // SAFETY: as above; the slice is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), out.len() / size_of::<T>()) }
}

/// What scans need beyond [`Num`]: floats have a log-sum-exp, integers have none.
trait LibraryElement: Num + Element {
    fn logcumsumexp(_: Lanes, _: &[Self], _: &mut [Self]) -> bool {
        false
    }
}
macro_rules! library_float {
    ($($t:ty),*) => {$(impl LibraryElement for $t {
        fn logcumsumexp(l: Lanes, x: &[Self], out: &mut [Self]) -> bool {
            scan::logcumsumexp(l, x, out);
            true
        }
    })*};
}
library_float!(f64, f32, f16, bf16);
impl LibraryElement for i64 {}
impl LibraryElement for i32 {}
impl LibraryElement for i16 {}
impl LibraryElement for i8 {}
impl LibraryElement for u8 {}

fn with_border<T: LibraryElement>(b: &Border, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    let fill = f64::from_bits(b.fill);
    // Bools pass as bytes.
    let fill = if x.dtype == DType::Bool { T::from_i64(i64::from(fill != 0.0)) } else { T::from_f64(fill) };
    border::border(b, of::<T>(x), fill, out_of(out));
    Ok(())
}

fn cascade<T: LibraryElement>(axis: usize, back: bool, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [x, factor] = inputs else { return Err(Tensor::bug("a cascade takes elements and factors")) };
    scan::cascade(Lanes::of(&x.shape, axis), of::<T>(x), of(factor), back, out_of(out));
    Ok(())
}

fn scan_op<T: LibraryElement>(op: ScanOp, axis: usize, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    let (l, xs) = (Lanes::of(&x.shape, axis), of::<T>(x));
    match op {
        ScanOp::Sum => scan::cumsum(l, xs, out_of(out)),
        ScanOp::Prod => scan::cumprod(l, xs, out_of(out)),
        ScanOp::Max => scan::running_max(l, xs, out_of(out)),
        ScanOp::Min => scan::running_min(l, xs, out_of(out)),
        ScanOp::ArgMax => scan::cummax(l, xs, out_of(out)),
        ScanOp::ArgMin => scan::cummin(l, xs, out_of(out)),
        ScanOp::LogSumExp => {
            if !T::logcumsumexp(l, xs, out_of(out)) {
                return Err(Error::dtype("logcumsumexp", &[x.dtype], format!("needs floats, not {}", x.dtype)));
            }
        }
    }
    Ok(())
}

fn argsort<T: LibraryElement>(axis: usize, descending: bool, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    sort::argsort(Lanes::of(&x.shape, axis), of::<T>(x), descending, out_of(out));
    Ok(())
}

fn topk<T: LibraryElement>(axis: usize, k: usize, largest: bool, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    sort::topk(Lanes::of(&x.shape, axis), of::<T>(x), k, largest, out_of(out));
    Ok(())
}

fn select<T: LibraryElement>(axis: usize, rank: Rank, x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    let (lanes, x, out) = (Lanes::of(&x.shape, axis), of::<T>(x), out_of(out));
    match rank {
        Rank::At(before) => sort::kthvalue(lanes, x, before + 1, out),
        Rank::Median | Rank::NanMedian => sort::median(lanes, x, rank == Rank::NanMedian, out),
    }
    Ok(())
}

fn mode<T: LibraryElement>(x: &Array<'_>, out: &mut [u8]) -> Result<()> {
    sort::mode(Lanes::of(&x.shape, x.shape.rank().saturating_sub(1)), of::<T>(x), out_of(out));
    Ok(())
}

fn scatter_op<T: LibraryElement>(axis: usize, how: ScatterMode, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [base, index, src] = inputs else { return Err(Tensor::bug("scatter takes three inputs")) };
    // Bools pass as bytes: their sum is "or", their product "and".
    let bools = base.dtype == DType::Bool;
    let mode = match how {
        ScatterMode::Assign => Mode::Assign,
        ScatterMode::Add if bools => Mode::Max,
        ScatterMode::Mul if bools => Mode::Min,
        ScatterMode::Add => Mode::Add,
        ScatterMode::Mul => Mode::Mul,
        ScatterMode::Min => Mode::Min,
        ScatterMode::Max => Mode::Max,
    };
    let (start, to, at) = (Some(of::<T>(base)), out_of::<T>(out), of::<i64>(index));
    let done = if index.shape != src.shape {
        // Whole rows, or one number for all of them.
        scatter::index_rows(start, Lanes::of(&base.shape, axis), to, at, of(src), mode, Negative::Reject)
    } else {
        let strides = src.shape.strides();
        let source = Source { data: of::<T>(src), offset: 0, strides: &strides };
        scatter::scatter(start, to, &base.shape, axis, at, &index.shape, source, mode, Negative::Reject)
    };
    done.map_err(|IndexError { position, index, size }| {
        let why = format!(" (axis {axis}, at position {position} of the index)");
        Error::new("scatter", ErrorKind::Index { index, size, why })
    })
}

fn searchsorted<T: LibraryElement>(right: bool, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    let [sorted, values] = inputs else { return Err(Tensor::bug("searchsorted takes two inputs")) };
    let lanes = |s: &Shape| Lanes::of(s, s.rank().saturating_sub(1));
    let (rows, mut l) = (lanes(&sorted.shape), lanes(&values.shape));
    if rows.outer == 1 {
        l = Lanes::rows(1, values.shape.numel());
    }
    sort::searchsorted(rows, of::<T>(sorted), l, of::<T>(values), right, out_of(out));
    Ok(())
}

fn linalg<T: Real>(op: Linalg, inputs: &[Array<'_>], out: &mut [u8], spec: &(DType, Shape)) -> Result<()> {
    let shape = &inputs[0].shape;
    let r = shape.rank();
    let (m, n) = (shape[r - 2], shape[r - 1]);
    let batch: usize = shape[..r - 2].iter().product();
    let a = of::<T>(&inputs[0]);
    let out = out_of::<T>(out);
    let k = m.min(n);
    let cols = || spec.1[spec.1.rank() - 1];
    let failed = |name: &'static str| move |e: LinalgError| Error::new(name, ErrorKind::Numerical(e.to_string()));
    match op {
        Linalg::Slogdet => {
            let (mut sign, mut log) = (vec![T::ZERO; batch], vec![T::ZERO; batch]);
            la::slogdet(a, batch, n, &mut sign, &mut log);
            out.chunks_exact_mut(2).zip(sign.iter().zip(&log)).for_each(|(o, (s, l))| (o[0], o[1]) = (*s, *l));
        }
        Linalg::Inv => la::inv(a, batch, n, out).map_err(failed("inv"))?,
        Linalg::Solve => la::solve(a, batch, n, of(&inputs[1]), cols(), out).map_err(failed("solve"))?,
        Linalg::SolveTriangular { upper, unit } => {
            let which = la::Triangular { upper, unit, ..Default::default() };
            la::solve_triangular(a, batch, n, of(&inputs[1]), cols(), which, out);
        }
        Linalg::Cholesky => la::cholesky(a, batch, n, false, out).map_err(failed("cholesky"))?,
        Linalg::Qr { complete } => {
            let q_cols = if complete { m } else { k };
            let mode = if complete { la::QrMode::Complete } else { la::QrMode::Reduced };
            if batch == 1 {
                let (q, r) = out.split_at_mut(m * q_cols);
                la::qr(a, 1, m, n, mode, q, r);
            } else {
                let (mut q, mut r) = (vec![T::ZERO; batch * m * q_cols], vec![T::ZERO; batch * q_cols * n]);
                la::qr(a, batch, m, n, mode, &mut q, &mut r);
                pack(out, batch, &[(&q, m * q_cols), (&r, q_cols * n)]);
            }
        }
        Linalg::Svd { full } => {
            let (uc, vr) = if full { (m, n) } else { (k, k) };
            let (mut u, mut s, mut v) =
                (vec![T::ZERO; batch * m * uc], vec![T::ZERO; batch * k], vec![T::ZERO; batch * vr * n]);
            la::svd(a, batch, m, n, full, &mut u, &mut s, &mut v).map_err(failed("svd"))?;
            pack(out, batch, &[(&u, m * uc), (&s, k), (&v, vr * n)]);
        }
        Linalg::Eigh => {
            let (mut w, mut v) = (vec![T::ZERO; batch * n], vec![T::ZERO; batch * n * n]);
            la::eigh(a, batch, n, false, &mut w, &mut v).map_err(failed("eigh"))?;
            pack(out, batch, &[(&w, n), (&v, n * n)]);
        }
        Linalg::Eigvalsh => la::eigvalsh(a, batch, n, false, out).map_err(failed("eigvalsh"))?,
        Linalg::Svdvals => la::svdvals(a, batch, m, n, out).map_err(failed("svdvals"))?,
        Linalg::Lu => {
            let mut perm = vec![0i64; batch * m];
            // Row i of L U is row perm[i] of A, so P has a one at (perm[i], i).
            let permutations = |perm: &[i64], p: &mut [T]| {
                p.fill(T::ZERO);
                for (b, perm) in perm.chunks(m.max(1)).enumerate() {
                    perm.iter().enumerate().for_each(|(i, &r)| p[b * m * m + r as usize * m + i] = T::ONE);
                }
            };
            if batch == 1 {
                let (p, rest) = out.split_at_mut(m * m);
                let (l, u) = rest.split_at_mut(m * k);
                la::lu(a, 1, m, n, &mut perm, l, u);
                permutations(&perm, p);
            } else {
                let (mut p, mut l, mut u) =
                    (vec![T::ZERO; batch * m * m], vec![T::ZERO; batch * m * k], vec![T::ZERO; batch * k * n]);
                la::lu(a, batch, m, n, &mut perm, &mut l, &mut u);
                permutations(&perm, &mut p);
                pack(out, batch, &[(&p, m * m), (&l, m * k), (&u, k * n)]);
            }
        }
        Linalg::Det => la::det(a, batch, n, out),
        Linalg::Cofactor => la::cofactor(a, batch, n, out).map_err(failed("det"))?,
        Linalg::Pinv => {
            let [atol, rtol] = of::<T>(&inputs[1]) else { return Err(Tensor::bug("pinv takes two tolerances")) };
            la::pinv(a, batch, m, n, atol.to_f64(), rtol.to_f64(), out).map_err(failed("pinv"))?;
        }
        Linalg::Exp => la::matrix_exp(a, batch, n, out),
    }
    Ok(())
}

/// Results of one matrix side by side in a flat row.
fn pack<T: Copy>(out: &mut [T], batch: usize, parts: &[(&[T], usize)]) {
    let row: usize = parts.iter().map(|p| p.1).sum();
    for b in 0..batch {
        let mut at = b * row;
        for (data, len) in parts {
            out[at..at + len].copy_from_slice(&data[b * len..(b + 1) * len]);
            at += len;
        }
    }
}
