//! Moving elements without arithmetic: shapes, axes, slices, padding, joining.

use crate::api::{axes, axis, broadcast_all, layout, same_device};
use crate::{Axes, DType, Error, ErrorKind, Result, Shape, Tensor, op::Composite, op::Op, view::ViewOp};
use smallvec::SmallVec;
use std::panic::Location;

impl Tensor {
    /// A reshape whose element count was checked.
    #[track_caller]
    pub(crate) fn reshape_to(&self, shape: &Shape) -> Tensor {
        if self.shape() == shape { self.resolve() } else { self.view_op(ViewOp::Reshape(shape.clone())) }
    }

    /// An expansion that was checked.
    #[track_caller]
    pub(crate) fn expand_to(&self, shape: &Shape) -> Tensor {
        if self.shape() == shape {
            return self.resolve();
        }
        if let Op::Scalar(x) = self.node().op {
            return Tensor::full_on(shape.clone(), x, self.dtype(), self.device());
        }
        self.view_op(ViewOp::Expand(shape.clone()))
    }

    /// The same elements in row-major order under another shape; one extent may be -1.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([1, 2, 3, 4, 5, 6]);
    /// assert_eq!(x.view([2, -1]).unwrap().dims(), [2, 3]);
    /// assert!(x.view([4, -1]).is_err());
    /// ```
    #[track_caller]
    pub fn view(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        let Axes::List(dims) = dims.into() else { return Ok(self.reshape_to(&Shape::from(self.numel()))) };
        let fail = |why: String| Error::shape("reshape", &[self.shape()], why).operand(self);
        let known = dims.iter().filter(|&&d| d != -1).try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
        let Some(known) = known else {
            return Err(fail(format!("{} elements do not fit shape {:?}", self.numel(), &dims[..])));
        };
        let wild = dims.iter().filter(|&&d| d == -1).count();
        let rest = match wild {
            0 => 1,
            1 if known > 0 && self.numel().is_multiple_of(known) => self.numel() / known,
            1 => return Err(fail(format!("{} elements do not fit shape {:?}", self.numel(), &dims[..]))),
            _ => return Err(fail(format!("only one extent can be -1: {:?}", &dims[..]))),
        };
        self.reshape(dims.iter().map(|&d| if d == -1 { rest } else { d as usize }).collect::<Shape>())
    }

    /// The same elements in row-major order under another shape.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if shape.checked_numel() != Some(self.numel()) {
            let why = format!("{} has {} elements, {shape} has {}", self.shape(), self.numel(), shape.numel());
            return Err(Error::shape("reshape", &[self.shape(), &shape], why).operand(self));
        }
        Ok(self.reshape_to(&shape))
    }

    /// Axes `start..=end` as one.
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> Result<Tensor> {
        let (s, e) = (axis("flatten", start, self.rank())?, axis("flatten", end, self.rank())?);
        if self.rank() == 0 {
            return Ok(self.reshape_to(&Shape::from(1)));
        }
        if s > e {
            let why = format!("comes after the last one, {end}");
            return Err(Error::new("flatten", ErrorKind::Axis { axis: start, rank: self.rank(), why }));
        }
        let d = self.dims();
        let Some(merged) = Shape::from(&d[s..=e]).checked_numel() else {
            let why = format!("axes {s} to {e} of {} have more elements than can be counted", self.shape());
            return Err(Error::shape("flatten", &[self.shape()], why).operand(self));
        };
        let shape: Shape = d[..s].iter().copied().chain([merged]).chain(d[e + 1..].iter().copied()).collect();
        Ok(self.reshape_to(&shape))
    }

    /// Axes in a new order.
    #[track_caller]
    pub fn permute(&self, order: impl Into<Axes>) -> Result<Tensor> {
        let Axes::List(order) = order.into() else { return Ok(self.resolve()) };
        let mut p: SmallVec<[usize; 6]> = SmallVec::new();
        for &a in &order {
            let i = axis("permute", a, self.rank())?;
            if p.contains(&i) {
                return Err(Error::new(
                    "permute",
                    ErrorKind::Axis { axis: a, rank: self.rank(), why: "is named twice".into() },
                ));
            }
            p.push(i);
        }
        if p.len() != self.rank() {
            let why = format!("{} axes were named for shape {}", p.len(), self.shape());
            return Err(Error::shape("permute", &[self.shape()], why).operand(self));
        }
        Ok(self.permuted(p))
    }

    #[track_caller]
    pub(crate) fn permuted(&self, p: SmallVec<[usize; 6]>) -> Tensor {
        if p.iter().enumerate().all(|(i, &a)| i == a) { self.resolve() } else { self.view_op(ViewOp::Permute(p)) }
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        let (a, b) = (axis("transpose", a, self.rank())?, axis("transpose", b, self.rank())?);
        let mut p: SmallVec<[usize; 6]> = (0..self.rank()).collect();
        if self.rank() > 0 {
            p.swap(a, b);
        }
        Ok(self.permuted(p))
    }

    /// A matrix transposed (a vector stays).
    #[track_caller]
    pub fn t(&self) -> Result<Tensor> {
        match self.rank() {
            0 | 1 => Ok(self.resolve()),
            2 => Ok(self.mt()),
            _ => Err(Error::shape("t", &[self.shape()], format!("t is for matrices, not {}", self.shape()))
                .operand(self)
                .hint("use transpose(-2, -1) or permute")),
        }
    }

    /// The last two axes exchanged; the caller knows there are two.
    #[track_caller]
    pub(crate) fn mt(&self) -> Tensor {
        let mut p: SmallVec<[usize; 6]> = (0..self.rank()).collect();
        if p.len() >= 2 {
            let n = p.len();
            p.swap(n - 2, n - 1);
        }
        self.permuted(p)
    }

    /// Broadcasting to a shape; -1 keeps the extent of an axis.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2, 1], DType::F32).expand([3, -1, 4]).unwrap().dims(), [3, 2, 4]);
    /// ```
    #[track_caller]
    pub fn expand(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        let dims = dims.into();
        let list: &[i64] = match &dims {
            Axes::All => &[],
            Axes::List(l) => l,
        };
        let lead = list.len().checked_sub(self.rank());
        let own = |k: usize| k.checked_sub(lead?).and_then(|k| self.dims().get(k).copied());
        let extent = |(k, &d): (usize, &i64)| if d == -1 { own(k) } else { usize::try_from(d).ok() };
        let Some(shape) = list.iter().enumerate().map(extent).collect::<Option<Shape>>() else {
            let why = format!("{} does not broadcast to {list:?}", self.shape());
            return Err(Error::shape("expand", &[self.shape()], why).operand(self));
        };
        if !self.shape().expands_to(&shape) {
            let why = format!("{} does not broadcast to {shape}", self.shape());
            return Err(Error::shape("expand", &[self.shape(), &shape], why).operand(self));
        }
        Ok(self.expand_to(&shape))
    }

    /// Broadcasting to a shape, under NumPy's name.
    #[track_caller]
    pub fn broadcast_to(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        self.expand(dims)
    }

    /// A new axis of extent 1 before `dim`.
    #[track_caller]
    pub fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let a = axis("unsqueeze", dim, self.rank() + 1)?;
        Ok(self.reshape_to(&self.shape().inserted(a, 1)))
    }

    /// The named axes gone where their extent is 1; `..` for all such axes.
    #[track_caller]
    pub fn squeeze(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        let a = axes("squeeze", &dims.into(), self.rank())?;
        let shape: Shape =
            (0..self.rank()).filter(|d| !(a.contains(d) && self.dims()[*d] == 1)).map(|d| self.dims()[d]).collect();
        Ok(self.reshape_to(&shape))
    }

    /// Elements in reverse along axes.
    #[track_caller]
    pub fn flip(&self, dims: impl Into<Axes>) -> Result<Tensor> {
        let mut out = self.resolve();
        for a in axes("flip", &dims.into(), self.rank())? {
            let n = self.dims()[a];
            if n > 1 {
                out = out.view_op(ViewOp::Slice { axis: a, start: n - 1, step: -1, len: n });
            }
        }
        Ok(out)
    }

    /// `len` elements of an axis from `start`.
    #[track_caller]
    pub fn narrow(&self, dim: i64, start: usize, len: usize) -> Result<Tensor> {
        let a = axis("narrow", dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if start.checked_add(len).is_none_or(|end| end > n) || self.rank() == 0 {
            let why = format!("{start}..{start}+{len} of axis {a} goes beyond its extent {n} in {}", self.shape());
            return Err(Error::shape("narrow", &[self.shape()], why).operand(self));
        }
        Ok(self.sliced(a, start, 1, len))
    }

    /// A slice that was checked.
    #[track_caller]
    pub(crate) fn sliced(&self, axis: usize, start: usize, step: isize, len: usize) -> Tensor {
        if start == 0 && step == 1 && len == self.dims()[axis] {
            return self.resolve();
        }
        // An empty slice starts anywhere: at 0 it is inside whatever it is taken from.
        let start = if len == 0 { 0 } else { start };
        self.view_op(ViewOp::Slice { axis, start, step, len })
    }

    /// One element of an axis; the axis goes.
    #[track_caller]
    pub fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        let a = axis("select", dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(0);
        let i = if index < 0 { index + n as i64 } else { index };
        if i < 0 || i >= n as i64 {
            let why = format!(" (axis {a} of {})", self.shape());
            return Err(Error::new("select", ErrorKind::Index { index, size: n, why }).operand(self));
        }
        Ok(self.sliced(a, i as usize, 1, 1).reshape_to(&self.shape().without(a)))
    }

    /// Zeros around one axis; amounts are known to be small.
    #[track_caller]
    pub(crate) fn pad_axis(&self, axis: usize, before: usize, after: usize) -> Result<Tensor> {
        let mut amounts: SmallVec<[(usize, usize); 6]> = SmallVec::from_elem((0, 0), self.rank());
        amounts[axis] = (before, after);
        self.pad_zeros(amounts)
    }

    /// Zeros before and after each axis.
    #[track_caller]
    pub(crate) fn pad_zeros(&self, amounts: SmallVec<[(usize, usize); 6]>) -> Result<Tensor> {
        if amounts.iter().all(|&a| a == (0, 0)) {
            return Ok(self.resolve());
        }
        let fits = self.dims().iter().zip(&amounts).all(|(&n, &(a, b))| {
            a.checked_add(b).and_then(|p| p.checked_add(n)).is_some_and(|n| n < isize::MAX as usize / 16)
        });
        if !fits {
            return Err(
                Error::value("pad", format!("padding {amounts:?} of {} is too large", self.shape())).operand(self)
            );
        }
        Ok(self.view_op(ViewOp::Pad(amounts)))
    }

    /// Windows of `size` along `dim`, `step` apart; the window becomes the last axis.
    #[track_caller]
    pub fn unfold(&self, dim: i64, size: usize, step: usize) -> Result<Tensor> {
        let a = axis("unfold", dim, self.rank())?;
        if self.rank() == 0 {
            if size > 1 || step == 0 {
                return Err(Error::value("unfold", format!("a scalar has no window of {size} by {step}")).operand(self));
            }
            return Ok(self.reshape_to(&Shape::from(size)));
        }
        let n = self.dims()[a];
        if step == 0 || size > n {
            let why = format!("windows of {size}, {step} apart, do not fit axis {a} of {}", self.shape());
            return Err(Error::value("unfold", why).operand(self));
        }
        Ok(self.view_op(ViewOp::Unfold { axis: a, size, step }))
    }

    /// The same elements in row-major order in memory of their own.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let t = self.resolve();
        if t.node().value().is_some_and(|v| v.view.is_contiguous()) {
            return t;
        }
        t.make(Op::Contiguous, &[&t], t.shape().clone(), t.dtype())
    }

    /// Tensors one after the other along an axis.
    #[track_caller]
    pub fn cat(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::value("cat", "there is nothing to join"));
        };
        same_device("cat", tensors)?;
        // An empty vector fits everything, as in PyTorch.
        let solid: Vec<&Tensor> = tensors.iter().copied().filter(|t| t.dims() != [0]).collect();
        let lead = solid.first().unwrap_or(first);
        let a = axis("cat", dim, lead.rank())?;
        if lead.rank() == 0 {
            return Err(Error::shape("cat", &[lead.shape()], "scalars cannot be joined")
                .operand(lead)
                .hint("use stack"));
        }
        let mut dtype: Option<DType> = None;
        for t in tensors {
            dtype = Some(dtype.map_or(t.dtype(), |d| d.promote(t.dtype())));
        }
        let dtype = dtype.unwrap_or(first.dtype());
        let mut total = 0usize;
        for t in &solid {
            if t.rank() != lead.rank() || (0..t.rank()).any(|d| d != a && t.dims()[d] != lead.dims()[d]) {
                let why = format!("{} and {} differ in an axis other than {a}", lead.shape(), t.shape());
                return Err(Error::shape("cat", &[lead.shape(), t.shape()], why).operand(lead).operand(t));
            }
            total = match total.checked_add(t.dims()[a]) {
                Some(n) => n,
                None => {
                    let why = format!("more elements along axis {a} than can be counted");
                    return Err(Error::shape("cat", &[lead.shape(), t.shape()], why).operand(lead).operand(t));
                }
            };
        }
        let parts: Vec<Tensor> = solid.iter().map(|t| t.to_dtype(dtype)).collect();
        let joined = |parts: &[Tensor], a: usize| {
            let shape = parts[0].shape().with(a, total);
            lead.make(Op::Cat { axis: a }, &parts.iter().collect::<Vec<_>>(), shape, dtype)
        };
        match &parts[..] {
            [] => Ok(first.to_dtype(dtype)),
            [one] => Ok(one.clone()),
            parts => layout::beneath(parts, Location::caller(), |under, order| Ok(joined(under, order[a])))
                .unwrap_or_else(|| Ok(joined(parts, a))),
        }
    }

    /// Tensors of one shape along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::value("stack", "there is nothing to stack"));
        };
        if let Some(t) = tensors.iter().find(|t| t.shape() != first.shape()) {
            let why = format!("shapes differ: {} and {}", first.shape(), t.shape());
            return Err(Error::shape("stack", &[first.shape(), t.shape()], why).operand(first).operand(t));
        }
        same_device("stack", tensors)?;
        let a = axis("stack", dim, first.rank() + 1)?;
        static STACK: Composite = Composite {
            name: "stack",
            build: |x, at| {
                let a = at[0] as usize;
                let parts: SmallVec<[Tensor; 8]> = x.iter().map(|t| t.reshape_to(&t.shape().inserted(a, 1))).collect();
                let shape = x[0].shape().inserted(a, parts.len());
                match &parts[..] {
                    [one] => one.clone(),
                    all => all[0].make(Op::Cat { axis: a }, &all.iter().collect::<Vec<_>>(), shape, all[0].dtype()),
                }
            },
        };
        let dtype = tensors.iter().fold(first.dtype(), |d, t| d.promote(t.dtype()));
        let shape = first.shape().inserted(a, tensors.len());
        if tensors.iter().all(|t| t.dtype() == dtype) {
            return Ok(Tensor::composed(&STACK, tensors, &[a as u64], shape, dtype));
        }
        let parts: Vec<Tensor> = tensors.iter().map(|t| t.to_dtype(dtype)).collect();
        Ok(Tensor::composed(&STACK, &parts.iter().collect::<Vec<_>>(), &[a as u64], shape, dtype))
    }

    /// All tensors expanded to their common shape.
    #[track_caller]
    pub fn broadcast_tensors(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let shape = broadcast_all("broadcast_tensors", tensors)?;
        Ok(tensors.iter().map(|t| t.expand_to(&shape)).collect())
    }
}
