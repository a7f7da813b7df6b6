//! Operations on two or three tensors, with broadcasting and promotion.

use crate::api::{broadcast_all, promote, same_device};
use crate::{
    DType, Error, Result, Scalar, Tensor,
    graph::shared,
    op::ewise::{self, Ewise, Kind},
};

/// A row over two tensors: promoted, broadcast, checked.
#[track_caller]
pub(crate) fn binary(row: &'static Ewise, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let both = promote(a, b);
    let work = match row.kind {
        Kind::Float => both.to_float(),
        Kind::Logic => DType::Bool,
        Kind::Arith | Kind::Compare | Kind::Bits | Kind::Select => both,
    };
    if row.block(work).is_none() {
        let why = format!("{} does not take {} and {}", row.name, a.dtype(), b.dtype());
        return Err(Error::dtype(row.name, &[a.dtype(), b.dtype()], why).operand(a).operand(b));
    }
    same_device(row.name, &[a, b])?;
    if a.shape() == b.shape() && a.dtype() == work && b.dtype() == work {
        return Ok(Tensor::ewise(row, &[a, b], if row.kind == Kind::Compare { DType::Bool } else { work }));
    }
    let shape = broadcast_all(row.name, &[a, b])?;
    let out = if row.kind == Kind::Compare { DType::Bool } else { work };
    let (a, b) = (a.to_dtype(work).expand_to(&shape), b.to_dtype(work).expand_to(&shape));
    Ok(Tensor::ewise(row, &[&a, &b], out))
}

/// A row over a tensor and a number: the number promotes across categories only.
#[track_caller]
pub(crate) fn binary_scalar(row: &'static Ewise, a: &Tensor, b: Scalar, swapped: bool) -> Result<Tensor> {
    let work = match row.kind {
        Kind::Float => b.promote_with(a.dtype()).to_float(),
        Kind::Logic => DType::Bool,
        Kind::Arith | Kind::Compare | Kind::Bits | Kind::Select => b.promote_with(a.dtype()),
    };
    let b = shared(b, work, a.device(), a.shape());
    let a = a.to_dtype(work);
    if swapped { binary(row, &b, &a) } else { binary(row, &a, &b) }
}

/// A number or a tensor, as the second operand of an operation.
pub trait Operand {
    /// Applies a row to `a` and this, in this order (or the other way round).
    #[doc(hidden)]
    fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor>;
    /// This as a tensor of type `like` would meet it.
    #[doc(hidden)]
    fn tensor(&self, like: &Tensor) -> Tensor;
    /// The number that this is, if it is one.
    #[doc(hidden)]
    fn number(&self) -> Option<Scalar> {
        None
    }
}

impl Operand for Tensor {
    #[track_caller]
    fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor> {
        if swapped { binary(row, self, a) } else { binary(row, a, self) }
    }
    fn tensor(&self, _: &Tensor) -> Tensor {
        self.clone()
    }
}

impl Operand for &Tensor {
    #[track_caller]
    fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor> {
        (**self).apply(row, a, swapped)
    }
    fn tensor(&self, _: &Tensor) -> Tensor {
        (*self).clone()
    }
}

macro_rules! scalar_operand {
    ($($t:ty),*) => {$(impl Operand for $t {
        #[track_caller]
        fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor> {
            binary_scalar(row, a, Scalar::from(*self), swapped)
        }
        #[track_caller]
        fn tensor(&self, like: &Tensor) -> Tensor {
            let s = Scalar::from(*self);
            Tensor::constant(s, s.promote_with(like.dtype()), like.device())
        }
        fn number(&self) -> Option<Scalar> {
            Some(Scalar::from(*self))
        }
    })*};
}
scalar_operand!(f64, f32, i64, i32, bool);

impl Operand for Scalar {
    #[track_caller]
    fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor> {
        binary_scalar(row, a, *self, swapped)
    }
    #[track_caller]
    fn tensor(&self, like: &Tensor) -> Tensor {
        Tensor::constant(*self, self.promote_with(like.dtype()), like.device())
    }
    fn number(&self) -> Option<Scalar> {
        Some(*self)
    }
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident = $row:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Result<Tensor> {
                other.apply(&ewise::$row, self, false)
            }
        )*}
    };
}

impl Tensor {
    /// `self ^ other`. Exponents that are a few multiplications or a root are just that.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// assert_eq!(Tensor::from([2.0f32, -3.0]).pow(3.0).unwrap().to_vec::<f32>().unwrap(), [8.0, -27.0]);
    /// ```
    #[track_caller]
    pub fn pow(&self, other: impl Operand) -> Result<Tensor> {
        if let Some(exponent) = other.number()
            && self.dtype().is_float()
            && let Some(simple) = self.simple_power(exponent.f64())
        {
            return Ok(simple);
        }
        match other.number() {
            // Products wrap as the power does.
            Some(Scalar::I(2)) if self.dtype().is_int() => Ok(self * self),
            Some(Scalar::I(3)) if self.dtype().is_int() => Ok(self * self * self),
            _ => other.apply(&ewise::POW, self, false),
        }
    }

    #[track_caller]
    fn simple_power(&self, exponent: f64) -> Option<Tensor> {
        let exact = matches!(self.dtype(), DType::F32 | DType::F64);
        if !exact && [3.0, -0.5, -2.0].contains(&exponent) {
            // Types of 16 bits would round in between.
            return Some(self.to_dtype(DType::F32).simple_power(exponent)?.to_dtype(self.dtype()));
        }
        Some(match exponent {
            0.5 => self.sqrt(),
            2.0 => self * self,
            3.0 => self * self * self,
            -0.5 => self.rsqrt(),
            -1.0 => self.reciprocal(),
            -2.0 => (self * self).reciprocal(),
            _ => return None,
        })
    }
}

binary_methods! {
    /// `self + other`; the operator `+` does the same and panics where this is an error.
    add = ADD;
    /// `self - other`.
    sub = SUB;
    /// `self * other`.
    mul = MUL;
    /// `self / other`, in floats.
    div = DIV;
    /// `floor(self / other)`, as Python's `//`.
    floor_divide = FLOOR_DIVIDE;
    /// `trunc(self / other)`.
    trunc_divide = TRUNC_DIVIDE;
    /// The remainder with the sign of `other`, as Python's `%`.
    remainder = REMAINDER;
    /// The remainder with the sign of `self`.
    fmod = FMOD;
    /// The larger of the two; NaN if either is.
    maximum = MAXIMUM;
    /// The smaller of the two; NaN if either is.
    minimum = MINIMUM;
    /// The larger of the two; a number beats NaN.
    fmax = FMAX;
    /// The smaller of the two; a number beats NaN.
    fmin = FMIN;
    /// The angle of the point (x = `other`, y = `self`).
    atan2 = ATAN2;
    /// `sqrt(self^2 + other^2)` without overflow.
    hypot = HYPOT;
    /// `|self|` with the sign of `other`.
    copysign = COPYSIGN;
    /// 0 below zero, 1 above, `other` at zero.
    heaviside = HEAVISIDE;
    /// The next float after `self` towards `other`.
    nextafter = NEXTAFTER;
    /// `ln(e^self + e^other)` without overflow.
    logaddexp = LOGADDEXP;
    /// `log2(2^self + 2^other)` without overflow.
    logaddexp2 = LOGADDEXP2;
    /// `self * ln(other)`, 0 where `self` is 0.
    xlogy = XLOGY;
    /// `self * ln(1 + other)`, 0 where `self` is 0.
    xlog1py = XLOG1PY;
    /// Regularised lower incomplete gamma function.
    igamma = IGAMMA;
    /// Regularised upper incomplete gamma function.
    igammac = IGAMMAC;
    /// Hurwitz zeta function.
    zeta = ZETA;
    /// Where equal.
    eq = EQ;
    /// Where different.
    ne = NE;
    /// Where less.
    lt = LT;
    /// Where less or equal.
    le = LE;
    /// Where greater.
    gt = GT;
    /// Where greater or equal.
    ge = GE;
    /// Both true (numbers: not zero).
    logical_and = AND;
    /// Either true.
    logical_or = OR;
    /// Exactly one true.
    logical_xor = XOR;
    /// Bitwise and.
    bitwise_and = BITAND;
    /// Bitwise or.
    bitwise_or = BITOR;
    /// Bitwise exclusive or.
    bitwise_xor = BITXOR;
    /// Bits moved to the left.
    bitwise_left_shift = SHL;
    /// Bits moved to the right.
    bitwise_right_shift = SHR;
    /// Greatest common divisor.
    gcd = GCD;
    /// Least common multiple.
    lcm = LCM;
}

impl Tensor {
    /// `a` where this (a bool tensor) is true, `b` elsewhere.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let x = Tensor::from([-1.0f32, 2.0]);
    /// let y = x.gt(0.0).unwrap().where_(&x, 0.0).unwrap();
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn where_(&self, a: impl Operand, b: impl Operand) -> Result<Tensor> {
        if self.dtype() != crate::DType::Bool {
            let why = format!("the condition must be bool, not {}", self.dtype());
            return Err(Error::dtype("where", &[self.dtype()], why)
                .operand(self)
                .hint("compare it with something first"));
        }
        // Numbers take the type of the tensor beside them.
        let (ta, tb) = (a.tensor(self), b.tensor(self));
        let (ta, tb) = (a.tensor(&tb), b.tensor(&ta));
        same_device("where", &[self, &ta, &tb])?;
        let shape = broadcast_all("where", &[self, &ta, &tb])?;
        let dtype = promote(&ta, &tb);
        let (ta, tb) = (ta.to_dtype(dtype).expand_to(&shape), tb.to_dtype(dtype).expand_to(&shape));
        Ok(Tensor::ewise(&ewise::WHERE, &[&self.expand_to(&shape), &ta, &tb], dtype))
    }

    // ---- for gradient rules: operands fit by construction -------------------------------------------------------

    #[track_caller]
    fn raw(row: &'static Ewise, xs: &[&Tensor], dtype: DType) -> Tensor {
        let shape = xs.iter().fold(crate::Shape::default(), |s, x| s.broadcast(x.shape()).unwrap_or(s));
        let xs: Vec<Tensor> = xs.iter().map(|x| x.expand_to(&shape)).collect();
        Tensor::ewise(row, &xs.iter().collect::<Vec<_>>(), dtype)
    }

    #[track_caller]
    pub(crate) fn raw_eq(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::EQ, &[self, o], DType::Bool)
    }

    #[track_caller]
    pub(crate) fn raw_gt(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::GT, &[self, o], DType::Bool)
    }

    #[track_caller]
    pub(crate) fn raw_ge(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::GE, &[self, o], DType::Bool)
    }

    #[track_caller]
    pub(crate) fn raw_and(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::AND, &[self, o], DType::Bool)
    }

    #[track_caller]
    pub(crate) fn raw_or(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::OR, &[self, o], DType::Bool)
    }

    #[track_caller]
    pub(crate) fn raw_where(&self, a: &Tensor, b: &Tensor) -> Tensor {
        Tensor::raw(&ewise::WHERE, &[self, a, b], a.dtype())
    }

    #[track_caller]
    pub(crate) fn raw_pow(&self, o: &Tensor) -> Tensor {
        Tensor::raw(&ewise::POW, &[self, o], self.dtype())
    }

    #[track_caller]
    pub(crate) fn raw_polygamma(&self, x: &Tensor) -> Tensor {
        Tensor::raw(&ewise::POLYGAMMA, &[self, x], x.dtype())
    }

    /// A constant of this tensor's type and device.
    #[track_caller]
    pub(crate) fn scalar_like(&self, x: f64) -> Tensor {
        Tensor::constant(Scalar::F(x), self.dtype(), self.device())
    }
}
