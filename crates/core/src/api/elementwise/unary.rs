//! Functions of one tensor.

use crate::{
    DType, Tensor,
    api::layout,
    op::{
        Op,
        ewise::{self, Ewise, Kind},
    },
};
use std::panic::Location;

impl Tensor {
    /// A row over this tensor; types it does not take are widened first.
    #[track_caller]
    pub(crate) fn unary(&self, row: &'static Ewise) -> Tensor {
        let d = self.dtype();
        let work = match row.kind {
            Kind::Float => d.to_float(),
            Kind::Logic => DType::Bool,
            Kind::Arith | Kind::Compare | Kind::Bits | Kind::Select => d,
        };
        let work = [work, DType::I64, DType::F32].into_iter().find(|&w| row.block(w).is_some()).unwrap_or(work);
        Tensor::ewise(row, &[&self.to_dtype(work)], work)
    }

    /// The same numbers in another element type. Floats become integers by truncation.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype {
            return self.resolve();
        }
        if let Op::Scalar(s) = &self.node().op
            && !(self.dtype().is_int() && dtype.is_int())
        {
            return Tensor::full_on(self.shape().clone(), *s, dtype, self.device());
        }
        if let Some(kept) = layout::pointwise(&Op::Cast, &[self], dtype, Location::caller()) {
            return kept;
        }
        self.make(Op::Cast, &[self], self.shape().clone(), dtype)
    }

    /// Where NaN.
    #[track_caller]
    pub fn isnan(&self) -> Tensor {
        Tensor::ewise(&ewise::NE, &[self, self], DType::Bool)
    }

    /// Where infinite.
    #[track_caller]
    pub fn isinf(&self) -> Tensor {
        if !self.dtype().is_float() {
            return self.isnan();
        }
        self.abs().raw_eq(&self.scalar_like(f64::INFINITY))
    }

    /// Where neither NaN nor infinite.
    #[track_caller]
    pub fn isfinite(&self) -> Tensor {
        self.isnan().raw_or(&self.isinf()).logical_not()
    }

    /// `x * x`.
    #[track_caller]
    pub fn square(&self) -> Tensor {
        self * self
    }

    /// The `n`-th derivative of [`Tensor::digamma`].
    #[track_caller]
    pub fn polygamma(&self, n: u32) -> Tensor {
        if n == 1 {
            return self.unary(&ewise::TRIGAMMA);
        }
        let x = self.to_dtype(self.dtype().to_float());
        x.scalar_like(n as f64).raw_polygamma(&x)
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $row:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.unary(&ewise::$row)
            }
        )*}
    };
}

unary_methods! {
    /// `-x`.
    neg = NEG;
    /// `|x|`.
    abs = ABS;
    /// -1, 0 or 1.
    sign = SIGN;
    /// `1 / x`.
    reciprocal = RECIPROCAL;
    /// Square root.
    sqrt = SQRT;
    /// `1 / sqrt(x)`.
    rsqrt = RSQRT;
    /// `e ^ x`.
    exp = EXP;
    /// `2 ^ x`.
    exp2 = EXP2;
    /// `e ^ x - 1`, right near 0.
    expm1 = EXPM1;
    /// Natural logarithm.
    log = LOG;
    /// Logarithm to base 2.
    log2 = LOG2;
    /// Logarithm to base 10.
    log10 = LOG10;
    /// `ln(1 + x)`, right near 0.
    log1p = LOG1P;
    /// Sine.
    sin = SIN;
    /// Cosine.
    cos = COS;
    /// Tangent.
    tan = TAN;
    /// Inverse sine.
    asin = ASIN;
    /// Inverse cosine.
    acos = ACOS;
    /// Inverse tangent.
    atan = ATAN;
    /// Hyperbolic sine.
    sinh = SINH;
    /// Hyperbolic cosine.
    cosh = COSH;
    /// Hyperbolic tangent.
    tanh = TANH;
    /// Inverse hyperbolic sine.
    asinh = ASINH;
    /// Inverse hyperbolic cosine.
    acosh = ACOSH;
    /// Inverse hyperbolic tangent.
    atanh = ATANH;
    /// `1 / (1 + e ^ -x)`.
    sigmoid = SIGMOID;
    /// `max(x, 0)`.
    relu = RELU;
    /// Towards minus infinity.
    floor = FLOOR;
    /// Towards infinity.
    ceil = CEIL;
    /// To the nearest, halves to even.
    round = ROUND;
    /// Towards zero.
    trunc = TRUNC;
    /// Error function.
    erf = ERF;
    /// `1 - erf(x)`.
    erfc = ERFC;
    /// Inverse of erf.
    erfinv = ERFINV;
    /// `e^(x^2) erfc(x)`.
    erfcx = ERFCX;
    /// Log of the normal distribution function.
    log_ndtr = LOG_NDTR;
    /// Inverse of the normal distribution function.
    ndtri = NDTRI;
    /// Log of the absolute gamma function.
    lgamma = LGAMMA;
    /// Logarithmic derivative of the gamma function.
    digamma = DIGAMMA;
    /// Modified Bessel function of order 0.
    i0 = I0;
    /// `e^-|x| i0(x)`.
    i0e = I0E;
    /// Modified Bessel function of order 1.
    i1 = I1;
    /// `e^-|x| i1(x)`.
    i1e = I1E;
    /// `sin(pi x) / (pi x)`, 1 at 0.
    sinc = SINC;
    /// `-x ln x`, 0 at 0.
    entr = ENTR;
    /// Not (numbers: zero).
    logical_not = NOT;
    /// Bitwise not.
    bitwise_not = BITNOT;
}
