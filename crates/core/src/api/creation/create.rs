//! Making tensors from numbers.

use crate::{
    DType, Device, Element, Error, ErrorKind, Result, Scalar, Shape, Tensor,
    graph::{Buffer, Value},
    op::Op,
    replay,
    view::{View, ViewOp},
};
use half::{bf16, f16};
use std::panic::Location;

/// Numbers in a known shape: scalars, arrays and nested arrays, slices and vectors.
pub trait IntoData {
    /// Element type.
    type Elem: Element;
    /// Extents and elements in row-major order.
    fn into_data(self) -> (Shape, Vec<Self::Elem>);
}

macro_rules! data_scalar {
    ($($t:ty),*) => {$(
        impl IntoData for $t {
            type Elem = $t;
            fn into_data(self) -> (Shape, Vec<$t>) { (Shape::default(), vec![self]) }
        }
        impl IntoData for &[$t] {
            type Elem = $t;
            fn into_data(self) -> (Shape, Vec<$t>) { (Shape::from(self.len()), self.to_vec()) }
        }
        impl IntoData for Vec<$t> {
            type Elem = $t;
            fn into_data(self) -> (Shape, Vec<$t>) { (Shape::from(self.len()), self) }
        }
        impl IntoData for &Vec<$t> {
            type Elem = $t;
            fn into_data(self) -> (Shape, Vec<$t>) { (Shape::from(self.len()), self.clone()) }
        }
    )*};
}
data_scalar!(f64, f32, f16, bf16, i64, i32, i16, i8, u8, bool);

impl<A: IntoData, const N: usize> IntoData for [A; N] {
    type Elem = A::Elem;
    fn into_data(self) -> (Shape, Vec<A::Elem>) {
        let mut shape = Shape::default();
        let mut all = vec![];
        for a in self {
            let (s, mut v) = a.into_data();
            shape = s;
            all.append(&mut v);
        }
        (shape.inserted(0, N), all)
    }
}

impl<D: IntoData> From<D> for Tensor {
    #[track_caller]
    fn from(data: D) -> Tensor {
        let (shape, elems) = data.into_data();
        match Tensor::from_elems(&elems, shape, Device::cpu(), Location::caller()) {
            Ok(t) => t,
            // The data is in memory already; a second copy that does not fit is the same end as any failed Vec.
            Err(e) => panic!("{e}"),
        }
    }
}

impl From<&Tensor> for Tensor {
    fn from(t: &Tensor) -> Tensor {
        t.clone()
    }
}

impl Tensor {
    pub(crate) fn from_elems<T: Element>(
        elems: &[T],
        shape: Shape,
        device: Device,
        at: &'static Location<'static>,
    ) -> Result<Tensor> {
        // SAFETY: elements are plain numbers without padding; a slice of them is a slice of bytes.
        let bytes = unsafe { std::slice::from_raw_parts(elems.as_ptr().cast::<u8>(), size_of_val(elems)) };
        Tensor::from_raw_bytes(bytes, shape, T::DTYPE, device, at)
    }

    pub(crate) fn from_raw_bytes(
        bytes: &[u8],
        shape: Shape,
        dtype: DType,
        device: Device,
        at: &'static Location<'static>,
    ) -> Result<Tensor> {
        replay::spoil("it takes numbers from the host", at);
        let buffer = Buffer::alloc(device, bytes.len()).map_err(|e| e.at(at))?;
        device.backend().upload(&buffer, 0, bytes)?;
        let view = View::contiguous(&shape);
        Ok(Tensor::from_value(Value { buffer, view }, dtype, at))
    }

    /// Numbers that `fill` writes, on the host; it has to write all of them.
    #[track_caller]
    pub(crate) fn filled<T: Element>(shape: Shape, fill: impl FnOnce(&mut [T])) -> Result<Tensor> {
        let at = Location::caller();
        replay::spoil("it takes numbers from the host", at);
        let n = shape.numel();
        let buffer = Buffer::alloc(Device::cpu(), n * size_of::<T>()).map_err(|e| e.at(at))?;
        let Some(p) = Device::cpu().backend().host_ptr(&buffer) else {
            return Err(Tensor::bug("the host's memory is not the host's"));
        };
        // SAFETY: the buffer is new, that large, and aligned to a line; elements are plain numbers.
        fill(unsafe { std::slice::from_raw_parts_mut(p.cast::<T>(), n) });
        let view = View::contiguous(&shape);
        Ok(Tensor::from_value(Value { buffer, view }, T::DTYPE, at))
    }

    /// Elements of a slice in a shape.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let t = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3]).unwrap();
    /// assert_eq!(t.dims(), [2, 3]);
    /// assert!(Tensor::from_slice(&[1, 2, 3], [2, 2]).is_err());
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(elems: &[T], shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if shape.checked_numel() != Some(elems.len()) {
            let why = format!("{} elements do not fill shape {shape} ({} elements)", elems.len(), shape.numel());
            return Err(Error::shape("from_slice", &[&shape], why));
        }
        Tensor::from_elems(elems, shape, Device::cpu(), Location::caller())
    }

    /// Elements of a vector in a shape.
    #[track_caller]
    pub fn from_vec<T: Element>(elems: Vec<T>, shape: impl Into<Shape>) -> Result<Tensor> {
        Tensor::from_slice(&elems, shape)
    }

    /// Elements from little-endian bytes, as files hold them; bools must be 0 or 1.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        let shape = shape.into();
        let need = shape.checked_numel().and_then(|n| n.checked_mul(dtype.size()));
        if need != Some(bytes.len()) {
            let why = format!("{} bytes do not fill shape {shape} of {dtype}", bytes.len());
            return Err(Error::shape("from_bytes", &[&shape], why));
        }
        if dtype == DType::Bool
            && let Some(bad) = bytes.iter().find(|&&b| b > 1)
        {
            return Err(Error::value("from_bytes", format!("a bool must be 0 or 1, not {bad}")));
        }
        Tensor::from_raw_bytes(bytes, shape, dtype, Device::cpu(), Location::caller())
    }

    /// One number everywhere. Nothing is stored until something needs it.
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType) -> Tensor {
        Tensor::full_on(shape.into(), value.into(), dtype, Device::cpu())
    }

    #[track_caller]
    pub(crate) fn zeros_on(shape: Shape, dtype: DType, device: Device) -> Tensor {
        Tensor::full_on(shape, Scalar::I(0), dtype, device)
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::full(shape, 0, dtype)
    }

    /// Ones.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::full(shape, 1, dtype)
    }

    /// A single number.
    #[track_caller]
    pub fn scalar(value: impl Into<Scalar>, dtype: DType) -> Tensor {
        Tensor::constant(value.into(), dtype, Device::cpu())
    }

    /// One number everywhere, in the shape, type and device of this tensor.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        Tensor::full_on(self.shape().clone(), value.into(), self.dtype(), self.device())
    }

    /// Zeros in the shape, type and device of this tensor.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Ones in the shape, type and device of this tensor.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }

    /// One number everywhere, in a shape of its own, with the type and device of this tensor.
    #[track_caller]
    pub fn new_full(&self, shape: impl Into<Shape>, value: impl Into<Scalar>) -> Tensor {
        Tensor::full_on(shape.into(), value.into(), self.dtype(), self.device())
    }

    /// Zeros in a shape of their own, with the type and device of this tensor.
    #[track_caller]
    pub fn new_zeros(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 0)
    }

    /// Ones in a shape of their own, with the type and device of this tensor.
    #[track_caller]
    pub fn new_ones(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 1)
    }

    /// `0, 1, ..., n - 1` as i64.
    #[track_caller]
    pub(crate) fn arange_on(n: usize, device: Device) -> Tensor {
        Tensor::build(Op::Iota, &[], Shape::from(n), DType::I64, device, Location::caller())
    }

    /// `start, start + step, ...` up to, not including, `end`.
    ///
    /// ```
    /// use gradus_core::{DType, Tensor};
    /// assert_eq!(Tensor::arange(0, 10, 3, DType::I64).unwrap().to_vec::<i64>().unwrap(), [0, 3, 6, 9]);
    /// ```
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let (a, b, s) = (start.f64(), end.f64(), step.f64());
        if s == 0.0 || !(a.is_finite() && b.is_finite() && s.is_finite()) || (b - a) * s < 0.0 {
            let why = format!("cannot step from {start} to {end} by {step}");
            return Err(Error::value("arange", why));
        }
        let n = match (start, end, step) {
            // Integers count exactly, also beyond what an f64 holds.
            (Scalar::I(a), Scalar::I(b), Scalar::I(s)) => {
                let (gap, s) = (b as i128 - a as i128, s as i128);
                ((gap + s - s.signum()) / s).max(0) as f64
            }
            _ => ((b - a) / s).ceil(),
        };
        if n > isize::MAX as f64 / 16.0 {
            return Err(Error::new("arange", ErrorKind::Alloc { bytes: n as u128 * dtype.size() as u128 }));
        }
        let i = Tensor::arange_on(n as usize, Device::cpu());
        let work = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let mut all = i.to_dtype(work);
        // Counting by ones from zero is what positions are already.
        if s != 1.0 {
            all = &all * &Tensor::constant(step, work, i.device());
        }
        if a != 0.0 {
            all = &all + &Tensor::constant(start, work, i.device());
        }
        Ok(all.to_dtype(dtype))
    }

    /// `n` numbers from `start` to `end`, both included, evenly spaced.
    #[track_caller]
    pub fn linspace(start: f64, end: f64, n: usize, dtype: DType) -> Tensor {
        let i = Tensor::arange_on(n, Device::cpu()).to_dtype(DType::F64);
        let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
        // From both ends, so that the last element is exactly `end`.
        let (up, down) = (&i * step + start, (&i - (n.max(1) - 1) as f64) * step + end);
        let half = Tensor::constant(Scalar::F(n as f64 / 2.0), DType::F64, i.device());
        let all = if n > 1 { half.raw_gt(&i).raw_where(&up, &down) } else { up };
        all.to_dtype(dtype)
    }

    /// `base` to the powers of [`Tensor::linspace`].
    #[track_caller]
    pub fn logspace(start: f64, end: f64, n: usize, base: f64, dtype: DType) -> Tensor {
        let e = Tensor::linspace(start, end, n, DType::F64);
        e.scalar_like(base).raw_pow(&e).to_dtype(dtype)
    }

    /// Ones on the diagonal of an `n` by `m` matrix.
    #[track_caller]
    pub fn eye(n: usize, m: usize, dtype: DType) -> Tensor {
        let row = Tensor::arange_on(n, Device::cpu()).view_op(ViewOp::Reshape(Shape::from([n, 1])));
        let col = Tensor::arange_on(m, Device::cpu());
        row.raw_eq(&col).to_dtype(dtype)
    }

    /// A copy on another device (or this tensor, if it is there).
    #[track_caller]
    pub fn to(&self, device: &Device) -> Tensor {
        if self.device() == *device {
            return self.resolve();
        }
        Tensor::build(Op::Transfer, &[self], self.shape().clone(), self.dtype(), *device, Location::caller())
    }
}
