//! Products of vectors and matrices under PyTorch's other names, most of them [`Tensor::matmul`] at heart.

use crate::api::{axes, axis, broadcast_all, same_device};
use crate::{DType, Error, Result, Scalar, Shape, Tensor};
use std::panic::Location;

/// `scale * x`, and `x` itself for 1.
#[track_caller]
fn scaled(name: &str, scale: Scalar, x: Tensor) -> Result<Tensor> {
    if !x.dtype().is_float() && matches!(scale, Scalar::F(_)) {
        let why = format!("{} cannot be scaled by the float {scale}", x.dtype());
        return Err(Error::dtype(name, &[x.dtype()], why).operand(&x));
    }
    if scale.f64() == 1.0 { Ok(x) } else { x.mul(scale) }
}

impl Tensor {
    /// An error unless the tensors have these ranks.
    #[track_caller]
    fn check_ranks(name: &str, all: &[(&Tensor, usize)]) -> Result<()> {
        let Some((t, want)) = all.iter().find(|(t, want)| t.rank() != *want) else { return Ok(()) };
        let shapes: Vec<&Shape> = all.iter().map(|(t, _)| t.shape()).collect();
        let e = Error::shape(name, &shapes, format!("needs {want} axes, not {}", t.shape()));
        Err(all.iter().fold(e, |e, (t, _)| e.operand(t)).hint("matmul takes all ranks"))
    }

    /// The product of two matrices.
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("mm", &[(self, 2), (other, 2)])?;
        self.matmul(other)
    }

    /// The products of two batches of matrices.
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("bmm", &[(self, 3), (other, 3)])?;
        if self.dims()[0] != other.dims()[0] {
            let why = format!("batch sizes differ: {} x {}", self.shape(), other.shape());
            return Err(Error::shape("bmm", &[self.shape(), other.shape()], why).operand(self).operand(other));
        }
        self.matmul(other)
    }

    /// The product of a matrix and a vector.
    #[track_caller]
    pub fn mv(&self, vec: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("mv", &[(self, 2), (vec, 1)])?;
        self.matmul(vec)
    }

    /// The sum of products of two vectors.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("dot", &[(self, 1), (other, 1)])?;
        self.of_two_vectors(other)
    }

    /// A sum of products: one kernel without views on the way, and its chunks go over threads. Lengths that differ, integers
    /// and 16 bits are left to [`Tensor::matmul`].
    #[track_caller]
    fn of_two_vectors(&self, other: &Tensor) -> Result<Tensor> {
        let alike = self.shape() == other.shape() && self.dtype() == other.dtype() && self.device() == other.device();
        if alike && matches!(self.dtype(), DType::F32 | DType::F64) {
            return Ok(self.mul(other)?.sum());
        }
        self.matmul(other)
    }

    /// [`Tensor::dot`] for real numbers.
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("vdot", &[(self, 1), (other, 1)])?;
        self.of_two_vectors(other)
    }

    /// Sums of products along an axis, with broadcasting.
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor, dim: i64) -> Result<Tensor> {
        let product = self.mul(other)?;
        let d = product.dtype();
        Ok(product.sum_dim(dim, false)?.to_dtype(d))
    }

    /// Sums of products along the last axes: `out[.., ..'] = sum over k of self[.., k] other[..', k]`.
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() == 0 || other.rank() == 0 {
            return self.mul(other);
        }
        self.tensordot_dims(other, &[-1], &[-1])
    }

    /// The product of every element of a vector with every element of another.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        Tensor::check_ranks("outer", &[(self, 1), (other, 1)])?;
        self.unsqueeze(1)?.mul(&other.unsqueeze(0)?)
    }

    /// [`Tensor::outer`] under its BLAS name.
    #[track_caller]
    pub fn ger(&self, other: &Tensor) -> Result<Tensor> {
        self.outer(other)
    }

    /// `beta * self + alpha * product`; with `beta` 0 this tensor counts as zeros, whatever it holds.
    #[track_caller]
    fn plus_product(&self, name: &str, product: Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
        same_device(name, &[self, &product])?;
        if !self.shape().expands_to(product.shape()) {
            let why = format!("{} does not broadcast to the product's {}", self.shape(), product.shape());
            return Err(Error::shape(name, &[self.shape(), product.shape()], why).operand(self));
        }
        let this = self.low();
        if this.dtype() != product.dtype() {
            let why = format!("element types differ: {} and {}", self.dtype(), product.dtype());
            return Err(Error::dtype(name, &[self.dtype(), product.dtype()], why).operand(self));
        }
        let product = scaled(name, alpha, product)?;
        if beta.f64() == 0.0 { Ok(product) } else { scaled(name, beta, this)?.add(&product) }
    }

    /// `beta * self + alpha * (a @ b)` with matrices.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (c, a) = (Tensor::from([[1.0f32]]), Tensor::from([[3.0f32]]));
    /// assert_eq!(c.addmm(&a, &a, 2.0, 10.0).unwrap().item::<f32>().unwrap(), 92.0);
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        self.plus_product("addmm", a.mm(b)?, beta.into(), alpha.into())
    }

    /// `beta * self + alpha * (mat @ vec)`.
    #[track_caller]
    pub fn addmv(
        &self,
        mat: &Tensor,
        vec: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        self.plus_product("addmv", mat.mv(vec)?, beta.into(), alpha.into())
    }

    /// `beta * self + alpha * outer(a, b)`.
    #[track_caller]
    pub fn addr(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        self.plus_product("addr", a.outer(b)?, beta.into(), alpha.into())
    }

    /// `beta * self + alpha * (a @ b)` with batches of matrices.
    #[track_caller]
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        self.plus_product("baddbmm", a.bmm(b)?, beta.into(), alpha.into())
    }

    /// `beta * self + alpha * (the sum of a @ b over the batch)`.
    #[track_caller]
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::check_ranks("addbmm", &[(a, 3), (b, 3)])?;
        a.bmm(b)?; // for its checks
        // The sum over the batch is one product with the batch beside the inner axis.
        let (n, m, k, p) = (a.dims()[0], a.dims()[1], a.dims()[2], b.dims()[2]);
        let rows = a.permuted([1, 0, 2].into_iter().collect()).reshape_to(&[m, n * k].into());
        let product = rows.matmul(&b.reshape_to(&[n * k, p].into()))?;
        self.plus_product("addbmm", product, beta.into(), alpha.into())
    }

    /// The product of several matrices in the cheapest order; the first and the last may be vectors.
    #[track_caller]
    pub fn multi_dot(tensors: &[&Tensor]) -> Result<Tensor> {
        let (Some((first, _)), Some((last, _))) = (tensors.split_first(), tensors.split_last()) else {
            return Err(Error::value("multi_dot", "there is nothing to multiply"));
        };
        if tensors.len() < 2 {
            return Err(Error::value("multi_dot", "needs at least two tensors").operand(first));
        }
        let mut all: Vec<Tensor> = tensors.iter().map(|t| t.resolve()).collect();
        let end = all.len() - 1;
        if first.rank() == 1 {
            all[0] = first.unsqueeze(0)?;
        }
        if last.rank() == 1 {
            all[end] = last.unsqueeze(1)?;
        }
        for (t, given) in all.iter().zip(tensors) {
            if t.rank() != 2 {
                let why = format!("needs matrices (vectors at the ends), not {}", given.shape());
                return Err(Error::shape("multi_dot", &[given.shape()], why).operand(given));
            }
        }
        let out = chain(&all)?;
        let mut shape = out.shape().clone();
        if last.rank() == 1 {
            shape = shape.without(1);
        }
        if first.rank() == 1 {
            shape = shape.without(0);
        }
        out.reshape(shape)
    }

    /// Square matrices times themselves `n` times; negative powers are those of the inverse.
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Result<Tensor> {
        let (size, _) = self.check_matrix("matrix_power", true)?;
        if n == 0 {
            return self.identity(size).expand(self.shape());
        }
        let mut square = if n < 0 { self.inv()? } else { self.resolve() };
        let (mut left, mut out) = (n.unsigned_abs(), None);
        loop {
            if left & 1 == 1 {
                out = Some(match out {
                    None => square.clone(),
                    Some(o) => square.matmul(&o)?,
                });
            }
            left >>= 1;
            match out {
                Some(o) if left == 0 => return Ok(o),
                _ => square = square.matmul(&square)?,
            }
        }
    }

    /// Sums of products over the last `n` axes of this and the first `n` of `other`.
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, n: usize) -> Result<Tensor> {
        if n > self.rank() || n > other.rank() {
            let why = format!("{n} axes of {} and {} cannot be contracted", self.shape(), other.shape());
            return Err(Error::shape("tensordot", &[self.shape(), other.shape()], why).operand(self).operand(other));
        }
        let a: Vec<i64> = (self.rank() - n..self.rank()).map(|d| d as i64).collect();
        let b: Vec<i64> = (0..n as i64).collect();
        self.tensordot_dims(other, &a, &b)
    }

    /// Sums of products over pairs of axes, `a` of this with `b` of `other`; an extent of 1 broadcasts.
    #[track_caller]
    pub fn tensordot_dims(&self, other: &Tensor, a: &[i64], b: &[i64]) -> Result<Tensor> {
        let shapes = [self.shape(), other.shape()];
        let at = Location::caller();
        let fail = |why: String| Error::shape("tensordot", &shapes, why).operand(self).operand(other).at(at);
        if a.len() != b.len() {
            return Err(fail(format!("{} axes against {}", a.len(), b.len())));
        }
        let (pa, pb) = (positions(self, a)?, positions(other, b)?);
        if (self.rank() == 0 || other.rank() == 0) && !pa.is_empty() {
            return Err(fail(format!("a scalar has no axes to contract: {} and {}", self.shape(), other.shape())));
        }
        let (mut x, mut y) = (self.resolve(), other.resolve());
        for (&i, &j) in pa.iter().zip(&pb) {
            let (n, m) = (self.dims()[i], other.dims()[j]);
            match (n, m) {
                _ if n == m => {}
                (1, _) => y = y.sum_dim(j, true)?.to_dtype(other.dtype()),
                (_, 1) => x = x.sum_dim(i, true)?.to_dtype(self.dtype()),
                _ => {
                    let why = format!("extents differ: axis {i} of {} and axis {j} of {}", self.shape(), other.shape());
                    return Err(fail(format!("{why} ({n} vs {m})")));
                }
            }
        }
        let free = |t: &Tensor, p: &[usize]| (0..t.rank()).filter(|d| !p.contains(d)).collect::<Vec<usize>>();
        let (fa, fb) = (free(&x, &pa), free(&y, &pb));
        let size = |t: &Tensor, p: &[usize]| p.iter().map(|&d| t.dims()[d]).product::<usize>();
        let (m, k, n) = (size(&x, &fa), size(&x, &pa), size(&y, &fb));
        let shape: Shape = fa.iter().map(|&d| x.dims()[d]).chain(fb.iter().map(|&d| y.dims()[d])).collect();
        let left = x.permuted(fa.iter().chain(&pa).copied().collect()).reshape_to(&[m, k].into());
        let right = y.permuted(pb.iter().chain(&fb).copied().collect()).reshape_to(&[k, n].into());
        Ok(left.matmul(&right)?.reshape_to(&shape))
    }

    /// The Kronecker product: every element of this times the whole of `other`, as blocks.
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let rank = self.rank().max(other.rank());
        let extent = |t: &Tensor, d: usize| if d + t.rank() >= rank { t.dims()[d + t.rank() - rank] } else { 1 };
        let blocks: Shape = (0..rank).flat_map(|d| [extent(self, d), 1]).collect();
        let inside: Shape = (0..rank).flat_map(|d| [1, extent(other, d)]).collect();
        let shape: Shape = (0..rank).map(|d| extent(self, d).saturating_mul(extent(other, d))).collect();
        self.reshape(blocks)?.mul(&other.reshape(inside)?)?.reshape(shape)
    }

    /// The cross product of vectors of 3 along `dim`; without it, along the first axis of extent 3.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (x, y) = (Tensor::from([1.0f32, 0.0, 0.0]), Tensor::from([0.0f32, 1.0, 0.0]));
    /// assert_eq!(x.cross(&y, None).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn cross(&self, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
        let shape = broadcast_all("cross", &[self, other])?;
        let d = match dim {
            Some(d) => Some(axis("cross", d, shape.rank())?),
            None => shape.iter().position(|&n| n == 3),
        };
        // Broadcasting does not make an axis of 3 out of one of 1.
        let three = |t: &Tensor, d: usize| {
            let lead = shape.rank() - t.rank();
            d >= lead && t.dims()[d - lead] == 3
        };
        let Some(d) = d.filter(|&d| d < shape.rank() && three(self, d) && three(other, d)) else {
            let why = format!("needs an axis of extent 3: {} and {}", self.shape(), other.shape());
            return Err(Error::shape("cross", &[self.shape(), other.shape()], why).operand(self).operand(other));
        };
        let (a, b) = (self.expand_to(&shape), other.expand_to(&shape));
        let part = |i: usize| -> Result<Tensor> {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            let at = |t: &Tensor, i: usize| t.sliced(d, i, 1, 1);
            at(&a, j).mul(at(&b, k))?.sub(&at(&a, k).mul(at(&b, j))?)
        };
        Tensor::cat(&[&part(0)?, &part(1)?, &part(2)?], d as i64)
    }
}

/// The places of axes, in the order given, none twice.
#[track_caller]
fn positions(t: &Tensor, dims: &[i64]) -> Result<Vec<usize>> {
    axes("tensordot", &dims.into(), t.rank())?;
    let mut out = vec![];
    for &d in dims {
        out.push(axis("tensordot", d, t.rank())?);
    }
    Ok(out)
}

/// The product of matrices in the order with the fewest multiplications (the classical table over all splits).
#[track_caller]
fn chain(all: &[Tensor]) -> Result<Tensor> {
    let n = all.len();
    let extent = |i: usize| if i < n { all[i].dims()[0] } else { all[n - 1].dims()[1] } as f64;
    let mut cost = vec![vec![0.0f64; n]; n];
    let mut split = vec![vec![0usize; n]; n];
    for len in 1..n {
        for i in 0..n - len {
            let j = i + len;
            let of = |s: usize| cost[i][s] + cost[s + 1][j] + extent(i) * extent(s + 1) * extent(j + 1);
            let best = (i..j).min_by(|&a, &b| of(a).total_cmp(&of(b))).unwrap_or(i);
            (cost[i][j], split[i][j]) = (of(best), best);
        }
    }
    // Spans to multiply, on a stack: a span is opened once and joined once its two parts are done.
    let (mut todo, mut done) = (vec![(0, n - 1, false)], Vec::<Tensor>::new());
    while let Some((i, j, open)) = todo.pop() {
        if i == j {
            done.push(all[i].clone());
        } else if open {
            let (b, a) = (done.pop(), done.pop());
            let (Some(a), Some(b)) = (a, b) else { return Err(Tensor::bug("a chain lost an operand")) };
            done.push(a.matmul(&b)?);
        } else {
            let s = split[i][j];
            todo.extend([(i, j, true), (s + 1, j, false), (i, s, false)]);
        }
    }
    done.pop().ok_or_else(|| Tensor::bug("an empty chain"))
}
