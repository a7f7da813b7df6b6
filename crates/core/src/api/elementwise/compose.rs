//! Elementwise functions that are short formulas over others: they fuse into one kernel, and their gradients follow.

use crate::api::{
    arith::{Operand, binary_scalar},
    broadcast_all, same_device,
};
use crate::{
    DType, Error, Result, Scalar, Tensor, is_grad_enabled,
    op::{Composite, Op, ewise},
};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// How [`Tensor::div_rounding`] rounds a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Towards zero.
    Trunc,
    /// Towards minus infinity.
    Floor,
}

/// What [`Tensor::isclose`] lets pass: `|a - b| <= atol + rtol * |b|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closeness {
    /// The relative part.
    pub rtol: f64,
    /// The absolute part.
    pub atol: f64,
    /// Whether NaN is close to NaN.
    pub equal_nan: bool,
}

impl Default for Closeness {
    fn default() -> Self {
        Closeness { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// What [`Tensor::nan_to_num`] puts in place; `None` is the largest (or smallest) finite number of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NanToNum {
    /// For NaN.
    pub nan: f64,
    /// For infinity.
    pub posinf: Option<f64>,
    /// For minus infinity.
    pub neginf: Option<f64>,
}

/// The largest finite number of a float type.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX as f64,
        DType::F64 => f64::MAX,
        DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => f64::INFINITY,
    }
}

/// Whether a bound is one number for all elements, and not NaN. Any other may hold a NaN, which makes a NaN.
fn is_number(bound: &Tensor) -> bool {
    matches!(bound.node().op, Op::Scalar(x) if !x.f64().is_nan())
}

impl Tensor {
    /// This in a float type.
    #[track_caller]
    pub(crate) fn floated(&self) -> Tensor {
        self.to_dtype(self.dtype().to_float())
    }

    /// Where `mask` (of this shape, or one that broadcasts to it) is true, a constant; this elsewhere.
    #[track_caller]
    pub(crate) fn with_constant(&self, mask: &Tensor, value: f64) -> Tensor {
        mask.raw_where(&self.scalar_like(value), self)
    }

    /// The part after the point, with the sign of the number.
    #[track_caller]
    pub fn frac(&self) -> Tensor {
        self - &self.trunc()
    }

    /// -1, 0 or 1, as [`Tensor::sign`].
    #[track_caller]
    pub fn sgn(&self) -> Tensor {
        self.sign()
    }

    /// Where the sign bit is set: below zero, and -0.0.
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        let zero = Tensor::constant(Scalar::I(0), self.dtype(), self.device());
        if !self.dtype().is_float() {
            return zero.raw_gt(self);
        }
        let one = self.ones_like();
        zero.raw_gt(&Tensor::ewise(&ewise::COPYSIGN, &[&one, self], self.dtype()))
    }

    /// `+x`: the tensor itself.
    #[track_caller]
    pub fn positive(&self) -> Tensor {
        self.resolve()
    }

    /// Where minus infinity.
    #[track_caller]
    pub fn isneginf(&self) -> Tensor {
        self.is_value(f64::NEG_INFINITY)
    }

    /// Where infinity.
    #[track_caller]
    pub fn isposinf(&self) -> Tensor {
        self.is_value(f64::INFINITY)
    }

    #[track_caller]
    fn is_value(&self, x: f64) -> Tensor {
        // Integers are never infinite; as no number differs from itself, that is what isnan says of them.
        if self.dtype().is_float() { self.raw_eq(&self.scalar_like(x)) } else { self.isnan() }
    }

    /// Where real, which is everywhere.
    #[track_caller]
    pub fn isreal(&self) -> Tensor {
        Tensor::full_on(self.shape().clone(), Scalar::B(true), DType::Bool, self.device())
    }

    /// Degrees as radians.
    #[track_caller]
    pub fn deg2rad(&self) -> Tensor {
        self * (PI / 180.0)
    }

    /// Radians as degrees.
    #[track_caller]
    pub fn rad2deg(&self) -> Tensor {
        self * (180.0 / PI)
    }

    /// `ln(x / (1 - x))`, NaN outside [0, 1]; with `eps`, `x` is first brought into `eps ..= 1 - eps`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([0.5f64, 1.0]).logit(Some(0.25)).to_vec::<f64>().unwrap();
    /// assert!(y[0] == 0.0 && (y[1] - 3f64.ln()).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn logit(&self, eps: Option<f64>) -> Tensor {
        let x = self.floated();
        let odds = |x: &Tensor| x.log() - (-x).log1p();
        if let Some(eps) = eps {
            return odds(&x.limited(&x.scalar_like(eps), &x.scalar_like(1.0 - eps)));
        }
        // A factor of NaN, so that the gradient is NaN there too, as in PyTorch.
        let outside = x.scalar_like(0.0).raw_gt(&x).raw_or(&x.raw_gt(&x.scalar_like(1.0)));
        odds(&(&x * x.ones_like().with_constant(&outside, f64::NAN)))
    }

    /// NaN and infinities replaced by numbers; their gradient is 0.
    ///
    /// ```
    /// use gradus_core::{NanToNum, Tensor};
    /// let x = Tensor::from([f64::NAN, f64::INFINITY, 1.0]);
    /// let y = x.nan_to_num(NanToNum { posinf: Some(9.0), ..Default::default() });
    /// assert_eq!(y.to_vec::<f64>().unwrap(), [0.0, 9.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn nan_to_num(&self, to: NanToNum) -> Tensor {
        if !self.dtype().is_float() {
            return self.resolve();
        }
        static TO_NUM: Composite = Composite {
            name: "nan_to_num",
            build: |x, to| {
                let (x, [nan, low, high]) = (&x[0], [0, 1, 2].map(|i| f64::from_bits(to[i])));
                let y = x.with_constant(&x.isneginf(), low).with_constant(&x.isposinf(), high);
                y.with_constant(&x.isnan(), nan)
            },
        };
        let max = largest(self.dtype());
        let to = [to.nan, to.neginf.unwrap_or(-max), to.posinf.unwrap_or(max)].map(f64::to_bits);
        Tensor::composed(&TO_NUM, &[self], &to, self.shape().clone(), self.dtype())
    }

    /// The normal distribution function.
    #[track_caller]
    pub fn ndtr(&self) -> Tensor {
        (self * -FRAC_1_SQRT_2).erfc() * 0.5
    }

    /// Log of the multivariate gamma function of dimension `p`.
    #[track_caller]
    pub fn mvlgamma(&self, p: usize) -> Result<Tensor> {
        if p == 0 {
            return Err(Error::value("mvlgamma", "the dimension must be at least 1, not 0").operand(self));
        }
        let x = self.floated();
        let n = p as f64;
        let mut sum = x.lgamma() + n * (n - 1.0) / 4.0 * PI.ln();
        for j in 1..p {
            sum = sum + (&x - j as f64 / 2.0).lgamma();
        }
        Ok(sum)
    }

    /// [`Tensor::mvlgamma`] under SciPy's name.
    #[track_caller]
    pub fn multigammaln(&self, p: usize) -> Result<Tensor> {
        self.mvlgamma(p)
    }

    /// To the nearest with this many decimals (negative: tens, hundreds...), halves to even; the gradient is 0.
    #[track_caller]
    pub fn round_decimals(&self, decimals: i32) -> Tensor {
        if decimals == 0 || !self.dtype().is_float() {
            return self.round();
        }
        let scale = 10f64.powi(decimals.saturating_abs());
        if decimals < 0 { (self / scale).round() * scale } else { (self * scale).round() / scale }
    }

    /// Mantissa in `0.5 <= |m| < 1` and exponent (i32) of each number: `x = m * 2^e`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let (m, e) = Tensor::from([12.0f64]).frexp();
    /// assert_eq!((m.item::<f64>().unwrap(), e.item::<i32>().unwrap()), (0.75, 4));
    /// ```
    #[track_caller]
    pub fn frexp(&self) -> (Tensor, Tensor) {
        (self.unary(&ewise::FREXP_MANTISSA), self.detach().unary(&ewise::FREXP_EXPONENT).to_dtype(DType::I32))
    }

    /// `self * 2^other`, in floats.
    #[track_caller]
    pub fn ldexp(&self, other: impl Operand) -> Result<Tensor> {
        let (x, e) = (self.floated(), other.tensor(self));
        let e = if e.dtype().is_float() { e } else { e.to_dtype(x.dtype()) };
        x.mul(&e.scalar_like(2.0).pow(&e)?)
    }

    /// `self^other` in f64, whatever the types.
    #[track_caller]
    pub fn float_power(&self, other: impl Operand) -> Result<Tensor> {
        let x = self.to_dtype(DType::F64);
        x.pow(other.tensor(&x).to_dtype(DType::F64))
    }

    /// `self / other` in floats, as [`Tensor::div`].
    #[track_caller]
    pub fn true_divide(&self, other: impl Operand) -> Result<Tensor> {
        self.div(other)
    }

    /// The rounded quotient; its gradient is 0.
    ///
    /// ```
    /// use gradus_core::{Rounding, Tensor};
    /// let x = Tensor::from([-7.0f64, 7.0]);
    /// assert_eq!(x.div_rounding(2.0, Rounding::Floor).unwrap().to_vec::<f64>().unwrap(), [-4.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn div_rounding(&self, other: impl Operand, mode: Rounding) -> Result<Tensor> {
        match mode {
            Rounding::Trunc => self.trunc_divide(other),
            Rounding::Floor => self.floor_divide(other),
        }
    }

    /// `other - self`.
    #[track_caller]
    pub fn rsub(&self, other: impl Operand) -> Result<Tensor> {
        other.apply(&ewise::SUB, self, true)
    }

    /// `other / self`, in floats.
    #[track_caller]
    pub fn rdiv(&self, other: impl Operand) -> Result<Tensor> {
        other.apply(&ewise::DIV, self, true)
    }

    /// `other ^ self`.
    #[track_caller]
    pub fn rpow(&self, other: impl Operand) -> Result<Tensor> {
        other.apply(&ewise::POW, self, true)
    }

    /// The remainder of `other / self`, with the sign of `self`.
    #[track_caller]
    pub fn rremainder(&self, other: impl Operand) -> Result<Tensor> {
        other.apply(&ewise::REMAINDER, self, true)
    }

    /// `self + value * a * b`.
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        self.add(&a.mul(b)?.mul(value.into())?)
    }

    /// `self + value * a / b`.
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        self.add(&a.div(b)?.mul(value.into())?)
    }

    /// `self` at weight 0, `end` at weight 1, on a straight line between and beyond; exact at both ends.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([0.0f64, 10.0]).lerp(&Tensor::from([1.0f64, 20.0]), 0.25).unwrap();
    /// assert_eq!(y.to_vec::<f64>().unwrap(), [0.25, 12.5]);
    /// ```
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, weight: impl Operand) -> Result<Tensor> {
        let w = weight.tensor(self);
        same_device("lerp", &[self, end, &w])?;
        let shape = broadcast_all("lerp", &[self, end, &w])?;
        fn between(x: &Tensor, end: &Tensor, w: &Tensor) -> Result<Tensor> {
            let gap = end.sub(x)?;
            let (near, far) = (x.add(&gap.mul(w)?)?, end.sub(&gap.mul(&w.rsub(1.0)?)?)?);
            w.abs().lt(0.5)?.where_(&near, &far)
        }
        static LERP: Composite = Composite {
            name: "lerp",
            // What was checked does not fail.
            build: |x, _| between(&x[0], &x[1], &x[2]).unwrap_or_else(|_| x[0].clone()),
        };
        let dtype = self.dtype();
        if end.dtype() != dtype || w.dtype() != dtype || !dtype.is_float() {
            return between(self, end, &w);
        }
        Ok(Tensor::composed(&LERP, &[self, end, &w], &[], shape, dtype))
    }

    /// Between `lo` and `hi` (NaN stays); the bounds themselves pass the gradient on.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::var("x", Tensor::from([-2.0f64, 1.0, 5.0]));
    /// let y = x.clamp(-1.0, 1.0).unwrap();
    /// assert_eq!(y.to_vec::<f64>().unwrap(), [-1.0, 1.0, 1.0]);
    /// assert_eq!(y.sum().backward().unwrap().wrt(&x).unwrap().to_vec::<f64>().unwrap(), [0.0, 1.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn clamp(&self, lo: impl Operand, hi: impl Operand) -> Result<Tensor> {
        self.clamp_min(lo)?.clamp_max(hi)
    }

    /// A bound that is a number, in a type that this keeps, where nobody will ask for a gradient: those of a maximum share
    /// it between equals.
    fn plain_bound(&self, bound: &impl Operand) -> Option<Scalar> {
        let x = bound.number().filter(|x| !x.f64().is_nan() && x.promote_with(self.dtype()) == self.dtype())?;
        let number = self.dtype() != DType::Bool && !(is_grad_enabled() && self.requires_grad());
        number.then_some(x)
    }

    /// At least `lo` (NaN stays).
    #[track_caller]
    pub fn clamp_min(&self, lo: impl Operand) -> Result<Tensor> {
        if let Some(lo) = self.plain_bound(&lo) {
            return binary_scalar(&ewise::MAXIMUM, self, lo, false);
        }
        let lo = lo.tensor(self);
        let beyond = self.lt(&lo)?;
        if is_number(&lo) { beyond.where_(&lo, self) } else { beyond.logical_or(lo.isnan())?.where_(&lo, self) }
    }

    /// At most `hi` (NaN stays).
    #[track_caller]
    pub fn clamp_max(&self, hi: impl Operand) -> Result<Tensor> {
        if let Some(hi) = self.plain_bound(&hi) {
            return binary_scalar(&ewise::MINIMUM, self, hi, false);
        }
        let hi = hi.tensor(self);
        let beyond = self.gt(&hi)?;
        if is_number(&hi) { beyond.where_(&hi, self) } else { beyond.logical_or(hi.isnan())?.where_(&hi, self) }
    }

    /// [`Tensor::clamp`] to constants of this type.
    #[track_caller]
    fn limited(&self, lo: &Tensor, hi: &Tensor) -> Tensor {
        let x = lo.raw_gt(self).raw_where(lo, self);
        x.raw_gt(hi).raw_where(hi, &x)
    }

    /// Where two tensors are nearly equal; infinities are close to themselves.
    #[track_caller]
    pub fn isclose(&self, other: &Tensor, near: Closeness) -> Result<Tensor> {
        if !(near.rtol >= 0.0 && near.atol >= 0.0) {
            let why = format!("tolerances must not be negative: rtol {}, atol {}", near.rtol, near.atol);
            return Err(Error::value("isclose", why).operand(self).operand(other));
        }
        let mut close = self.eq(other)?;
        if near.equal_nan {
            close = close.logical_or(&self.isnan().logical_and(other.isnan())?)?;
        }
        // Integers are compared as f64, so that a difference neither wraps nor rounds early.
        let wide = |t: &Tensor| if t.dtype().is_float() { t.resolve() } else { t.to_dtype(DType::F64) };
        let (a, b) = (wide(self), wide(other));
        let off = a.sub(&b)?.abs();
        let within = off.isfinite().logical_and(&off.le(&(b.abs() * near.rtol + near.atol))?)?;
        close.logical_or(&within)
    }

    /// Whether all elements are nearly equal. Reads the result.
    #[track_caller]
    pub fn allclose(&self, other: &Tensor, near: Closeness) -> Result<bool> {
        self.isclose(other, near)?.all().item::<bool>()
    }

    /// Whether shapes and all elements are equal. Reads the result.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        if self.shape() != other.shape() {
            return Ok(false);
        }
        self.eq(other)?.all().item::<bool>()
    }

    /// `value` everywhere, in this shape and type; a tensor `value` has no axes and gets the whole gradient.
    #[track_caller]
    pub fn fill(&self, value: impl Operand) -> Result<Tensor> {
        let v = value.tensor(self);
        if v.rank() != 0 {
            let why = format!("the value must have no axes, not shape {}", v.shape());
            return Err(Error::shape("fill", &[v.shape()], why).operand(self).operand(&v));
        }
        same_device("fill", &[self, &v])?;
        Ok(v.to_dtype(self.dtype()).expand_to(self.shape()))
    }
}
