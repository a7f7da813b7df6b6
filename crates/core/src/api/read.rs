//! Getting numbers out: reading runs the plan.

use crate::{
    DType, Element, Error, Result, Scalar, Tensor,
    graph::Value,
    op::Op,
    plan::{self, Explanation},
    replay, with_dtype,
};
use std::panic::Location;

/// A number in another type.
fn convert<S: Element, T: Element>(x: S) -> T {
    if T::DTYPE.is_float() || (S::DTYPE.is_float() && T::DTYPE == DType::Bool) {
        T::from_f64(x.to_f64())
    } else {
        T::from_i64(x.to_i64())
    }
}

impl Tensor {
    /// Computes this tensor now (reading does it too). Useful before timing, or to share work between threads.
    #[track_caller]
    pub fn eval(&self) -> Result<&Tensor> {
        plan::realize(&[self])?;
        Ok(self)
    }

    /// Computes several tensors in one run.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (a, b) = (x.exp(), x.sum());
    /// Tensor::eval_all(&[&a, &b]).unwrap();
    /// assert!(a.is_realized() && b.is_realized());
    /// ```
    pub fn eval_all(tensors: &[&Tensor]) -> Result<()> {
        plan::realize(tensors)
    }

    /// What would run if this tensor were read now: kernels, what each fuses, bytes, arithmetic and memory.
    pub fn explain(&self) -> Result<Explanation> {
        plan::explain(&[self])
    }

    /// As [`Tensor::explain`], for several tensors in one run.
    pub fn explain_all(tensors: &[&Tensor]) -> Result<Explanation> {
        plan::explain(tensors)
    }

    /// The value, computed if need be, in row-major order.
    #[track_caller]
    pub(crate) fn contiguous_value(&self) -> Result<Value> {
        replay::spoil("it reads a tensor", Location::caller());
        let t = self.resolve();
        plan::realize(&[&t])?;
        let v = t.node().value().ok_or_else(|| Tensor::bug("a run left no value"))?;
        if v.view.is_contiguous() {
            return Ok(v);
        }
        let c = t.detach().make(Op::Contiguous, &[&t.detach()], t.shape().clone(), t.dtype());
        plan::realize(&[&c])?;
        c.node().value().ok_or_else(|| Tensor::bug("a run left no value"))
    }

    /// All elements as bytes, row-major.
    #[track_caller]
    pub(crate) fn read_bytes(&self) -> Result<Vec<u8>> {
        let v = self.contiguous_value()?;
        let size = self.dtype().size();
        let mut out = vec![0u8; self.numel() * size];
        if !out.is_empty() {
            v.buffer.device().backend().download(&v.buffer, v.view.offset as usize * size, &mut out)?;
        }
        Ok(out)
    }

    /// All elements as little-endian bytes, row-major, as files hold them.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.read_bytes()
    }

    /// All elements in row-major order, converted to `T` where the type differs.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([[1i32, 2], [3, 4]]).to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let bytes = self.read_bytes()?;
        let n = self.numel();
        Ok(with_dtype!(self.dtype(), S => {
            let size = size_of::<S>();
            let read = |i: usize| -> S {
                // SAFETY: the bytes hold `n` elements of S, and i < n; unaligned reads are asked for.
                unsafe { bytes.as_ptr().add(i * size).cast::<S>().read_unaligned() }
            };
            (0..n).map(|i| convert::<S, T>(read(i))).collect()
        }))
    }

    /// Calls `f` with all elements in row-major order, where they lie if that is memory of the host. `T` is the type of
    /// the tensor.
    #[track_caller]
    pub(crate) fn with_elements<T: Element, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        if self.dtype() != T::DTYPE {
            return Err(Tensor::bug(format!("{} read as {}", self.dtype(), T::DTYPE)));
        }
        if self.numel() == 0 {
            return Ok(f(&[]));
        }
        let v = self.contiguous_value()?;
        match v.buffer.device().backend().host_ptr(&v.buffer) {
            None => Ok(f(&self.to_vec::<T>()?)),
            Some(p) => {
                let first = p.cast::<T>().wrapping_offset(v.view.offset);
                // SAFETY: the value, held here, has so many elements of this type, and its content is final.
                Ok(f(unsafe { std::slice::from_raw_parts(first, self.numel()) }))
            }
        }
    }

    /// The only element.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.numel() != 1 {
            let why = format!("item needs exactly one element, and {} has {}", self.shape(), self.numel());
            return Err(Error::shape("item", &[self.shape()], why).operand(self).hint("use to_vec for several"));
        }
        let v = self.contiguous_value()?;
        Ok(with_dtype!(self.dtype(), S => {
            let size = size_of::<S>();
            // No type of ours is larger.
            let mut bytes = [0u8; 8];
            v.buffer.device().backend().download(&v.buffer, v.view.offset as usize * size, &mut bytes[..size])?;
            // SAFETY: the first bytes hold one element of S; an unaligned read is asked for.
            convert::<S, T>(unsafe { bytes.as_ptr().cast::<S>().read_unaligned() })
        }))
    }

    /// The only element, with its category.
    #[track_caller]
    pub fn to_scalar(&self) -> Result<Scalar> {
        Ok(match self.dtype().compute() {
            DType::Bool => Scalar::B(self.item::<bool>()?),
            DType::I64 => Scalar::I(self.item::<i64>()?),
            _ => Scalar::F(self.item::<f64>()?),
        })
    }
}
