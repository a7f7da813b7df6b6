//! Activations: functions of one element, and gates.

use crate::api::{axis, layout};
use crate::{
    Error, Result, Shape, Tensor,
    op::{Composite, ewise},
};
use smallvec::SmallVec;
use std::panic::Location;

/// selu's two numbers (Klambauer et al., 2017).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Tensor {
    /// Integers as floats.
    #[track_caller]
    pub(crate) fn as_float(&self) -> Tensor {
        self.to_dtype(self.dtype().to_float())
    }

    #[track_caller]
    fn above(&self, x: f64) -> Tensor {
        self.raw_gt(&self.scalar_like(x))
    }

    #[track_caller]
    fn below(&self, x: f64) -> Tensor {
        self.scalar_like(x).raw_gt(self)
    }

    /// Not below `lo`; the gradient passes at `lo` itself, as in PyTorch's clamp.
    #[track_caller]
    pub(crate) fn at_least(&self, lo: f64) -> Tensor {
        self.below(lo).raw_where(&self.scalar_like(lo), self)
    }

    /// Gaussian error linear unit: `x` times the normal distribution function of `x`.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let y = Tensor::from([0.0f32, 1.0]).gelu().to_vec::<f32>().unwrap();
    /// assert!(y[0] == 0.0 && (y[1] - 0.841_344_8).abs() < 1e-6);
    /// ```
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        static GELU: Composite = Composite {
            name: "gelu",
            build: |x, _| {
                let x = x[0].as_float();
                &x * 0.5 * ((&x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0)
            },
        };
        Tensor::composed(&GELU, &[self], &[], self.shape().clone(), self.dtype().to_float())
    }

    /// [`Tensor::gelu`] approximated with tanh, as GPT-2 has it.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        static GELU_TANH: Composite = Composite {
            name: "gelu_tanh",
            build: |x, _| {
                let x = x[0].as_float();
                let twice = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
                let inner = (&x * &x * &x * 0.044_715 + &x) * twice;
                // (1 + tanh u) / 2 = sigmoid 2u, which is less work and exact where the sum would cancel.
                &x * inner.sigmoid()
            },
        };
        Tensor::composed(&GELU_TANH, &[self], &[], self.shape().clone(), self.dtype().to_float())
    }

    /// `x sigmoid(x)`, also called swish.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        static SILU: Composite = Composite {
            name: "silu",
            build: |x, _| {
                let x = x[0].as_float();
                &x * x.sigmoid()
            },
        };
        self.activated(&SILU, &[])
    }

    /// A function of single elements with these numbers, as one node.
    #[track_caller]
    fn activated(&self, of: &'static Composite, numbers: &[f64]) -> Tensor {
        let bits: SmallVec<[u64; 4]> = numbers.iter().map(|x| x.to_bits()).collect();
        let under = layout::under_across(self, Location::caller());
        let x = under.as_ref().map_or(self, |(base, _)| base);
        let y = Tensor::composed(of, &[x], &bits, x.shape().clone(), x.dtype().to_float());
        match under {
            Some((_, order)) => layout::ordered_by(&y, &order, Location::caller()),
            None => y,
        }
    }

    /// `x tanh(softplus(x))`.
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        static MISH: Composite = Composite {
            name: "mish",
            build: |x, _| {
                let x = x[0].as_float();
                &x * x.unary(&ewise::SOFTPLUS).tanh()
            },
        };
        self.activated(&MISH, &[])
    }

    /// `scale x` above zero, `scale alpha (e^(x/width) - 1)` below.
    #[track_caller]
    fn elu_of(&self, alpha: f64, scale: f64, width: f64) -> Tensor {
        static ELU: Composite = Composite {
            name: "elu",
            build: |x, numbers| {
                let (x, [alpha, scale, width]) = (x[0].as_float(), [0, 1, 2].map(|i| f64::from_bits(numbers[i])));
                let positive = x.above(0.0);
                // The exponential sees no positive number, so that an overflow there cannot spoil the gradient.
                let below = positive.raw_where(&x.zeros_like(), &x);
                positive.raw_where(&(&x * scale), &((below / width).expm1() * (alpha * scale)))
            },
        };
        self.activated(&ELU, &[alpha, scale, width])
    }

    /// `x` above zero, `alpha (e^x - 1)` below.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        self.elu_of(alpha, 1.0, 1.0)
    }

    /// The self-normalising elu.
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        self.elu_of(SELU_ALPHA, SELU_SCALE, 1.0)
    }

    /// `x` above zero, `alpha (e^(x/alpha) - 1)` below; `alpha` is not 0.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Result<Tensor> {
        if alpha == 0.0 {
            return Err(Error::value("celu", "alpha cannot be 0").operand(self));
        }
        Ok(self.elu_of(alpha, 1.0, alpha))
    }

    /// `x` above zero, `slope x` below.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        static LEAKY: Composite = Composite {
            name: "leaky_relu",
            build: |x, slope| {
                let x = x[0].as_float();
                x.above(0.0).raw_where(&x, &(&x * f64::from_bits(slope[0])))
            },
        };
        self.activated(&LEAKY, &[slope])
    }

    /// `x` above zero, `weight x` below, with one weight or one for each channel (axis 1).
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        let channels = self.shape().get(1).copied().unwrap_or(1);
        if weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels) {
            let why = format!("{} weights for {channels} channels of {}", weight.shape(), self.shape());
            return Err(Error::shape("prelu", &[self.shape(), weight.shape()], why).operand(self).operand(weight));
        }
        let w = if weight.numel() == 1 {
            weight.reshape_to(&Shape::default())
        } else {
            weight.reshape_to(&channel_shape(channels, self.rank()))
        };
        let x = self.as_float();
        let positive = x.above(0.0);
        let below = positive.raw_where(&x.zeros_like(), &x).mul(&w)?;
        positive.where_(&x, &below)
    }

    /// `x` above zero, `slope x` below, with a slope drawn for each element in [lower, upper) when training, and their
    /// mean otherwise.
    #[track_caller]
    pub fn rrelu(&self, lower: f64, upper: f64, training: bool) -> Result<Tensor> {
        if lower > upper || lower.is_nan() || upper.is_nan() {
            return Err(Error::value("rrelu", format!("the slopes {lower}..{upper} are no range")).operand(self));
        }
        if !training {
            return Ok(self.leaky_relu((lower + upper) / 2.0));
        }
        let x = self.as_float();
        let slope = Tensor::uniform_on(x.shape().clone(), x.dtype(), x.device()) * (upper - lower) + lower;
        Ok(x.above(0.0).raw_where(&x, &(&x * slope)))
    }

    /// Cut off at `lo` and `hi`; no gradient from there on.
    #[track_caller]
    fn cut(&self, lo: f64, hi: f64) -> Tensor {
        static CUT: Composite = Composite {
            name: "hardtanh",
            build: |x, ends| {
                let x = &x[0];
                let (low, high) = (x.scalar_like(f64::from_bits(ends[0])), x.scalar_like(f64::from_bits(ends[1])));
                low.raw_ge(x).raw_where(&low, &x.raw_ge(&high).raw_where(&high, x))
            },
        };
        Tensor::composed(&CUT, &[self], &[lo.to_bits(), hi.to_bits()], self.shape().clone(), self.dtype())
    }

    /// Between `lo` and `hi`, with gradient 0 at both.
    #[track_caller]
    pub fn hardtanh(&self, lo: f64, hi: f64) -> Result<Tensor> {
        if lo > hi {
            return Err(Error::value("hardtanh", format!("the lower bound {lo} is above the upper {hi}")).operand(self));
        }
        Ok(self.cut(lo, hi))
    }

    /// Between 0 and 6.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        self.cut(0.0, 6.0)
    }

    /// `relu6(x + 3) / 6`.
    #[track_caller]
    pub fn hardsigmoid(&self) -> Tensor {
        static HARD: Composite =
            Composite { name: "hardsigmoid", build: |x, _| (x[0].as_float() + 3.0).cut(0.0, 6.0) / 6.0 };
        self.activated(&HARD, &[])
    }

    /// `x hardsigmoid(x)`.
    #[track_caller]
    pub fn hardswish(&self) -> Tensor {
        static HARD: Composite = Composite {
            name: "hardswish",
            build: |x, _| {
                let x = x[0].as_float();
                let middle = &x * (&x + 3.0) / 6.0;
                let three = x.scalar_like(3.0);
                let upper = x.raw_ge(&three).raw_where(&x, &middle);
                x.scalar_like(-3.0).raw_ge(&x).raw_where(&x.zeros_like(), &upper)
            },
        };
        self.activated(&HARD, &[])
    }

    /// 0 within `lambda` of zero, `x` elsewhere.
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        static SHRINK: Composite = Composite {
            name: "hardshrink",
            build: |x, numbers| {
                let (x, lambda) = (x[0].as_float(), f64::from_bits(numbers[0]));
                let inside = x.raw_ge(&x.scalar_like(-lambda)).raw_and(&x.scalar_like(lambda).raw_ge(&x));
                inside.raw_where(&x.zeros_like(), &x)
            },
        };
        self.activated(&SHRINK, &[lambda])
    }

    /// `x` moved towards zero by `lambda`, which is not negative.
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Result<Tensor> {
        if lambda < 0.0 || lambda.is_nan() {
            return Err(
                Error::value("softshrink", format!("lambda cannot be {lambda}: it must not be negative")).operand(self)
            );
        }
        static SHRINK: Composite = Composite {
            name: "softshrink",
            build: |x, numbers| {
                let (x, lambda) = (x[0].as_float(), f64::from_bits(numbers[0]));
                // x * 0 rather than 0: a NaN stays one.
                let lower = x.below(-lambda).raw_where(&(&x + lambda), &(&x * 0.0));
                x.above(lambda).raw_where(&(&x - lambda), &lower)
            },
        };
        Ok(self.activated(&SHRINK, &[lambda]))
    }

    /// `x - tanh(x)`.
    #[track_caller]
    pub fn tanhshrink(&self) -> Tensor {
        let x = self.as_float();
        &x - x.tanh()
    }

    /// `ln(1 + e^(beta x)) / beta`, and `x` itself where `beta x` is above `threshold`.
    #[track_caller]
    pub fn softplus(&self, beta: f64, threshold: f64) -> Result<Tensor> {
        if beta == 0.0 {
            return Err(Error::value("softplus", "beta cannot be 0").operand(self));
        }
        static SOFTPLUS: Composite = Composite {
            name: "softplus",
            build: |x, numbers| {
                let (x, beta, threshold) = (x[0].as_float(), f64::from_bits(numbers[0]), f64::from_bits(numbers[1]));
                let z = &x * beta;
                z.above(threshold).raw_where(&x, &(z.unary(&ewise::SOFTPLUS) / beta))
            },
        };
        Ok(self.activated(&SOFTPLUS, &[beta, threshold]))
    }

    /// `x / (1 + |x|)`.
    #[track_caller]
    pub fn softsign(&self) -> Tensor {
        let x = self.as_float();
        &x / (x.abs() + 1.0)
    }

    /// `ln(sigmoid(x))`, right where the sigmoid underflows.
    #[track_caller]
    pub fn logsigmoid(&self) -> Tensor {
        -(-self.as_float()).unary(&ewise::SOFTPLUS)
    }

    /// `x` above `threshold`, `value` elsewhere.
    #[track_caller]
    pub fn threshold(&self, threshold: f64, value: f64) -> Tensor {
        self.scalar_like(threshold).raw_ge(self).raw_where(&self.scalar_like(value), self)
    }

    /// The first half of an axis times the sigmoid of the second.
    #[track_caller]
    pub fn glu(&self, dim: i64) -> Result<Tensor> {
        let a = axis("glu", dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if self.rank() == 0 || !n.is_multiple_of(2) {
            let why = format!("the axis to halve must have an even extent: axis {a} of {} has {n}", self.shape());
            return Err(Error::shape("glu", &[self.shape()], why).operand(self));
        }
        let x = self.as_float();
        Ok(x.sliced(a, 0, 1, n / 2) * x.sliced(a, n / 2, 1, n / 2).sigmoid())
    }
}

/// `[1, n, 1, ...]` of this rank: numbers for each channel beside a batch (`[n]` beside less than two axes).
pub(crate) fn channel_shape(n: usize, rank: usize) -> Shape {
    (0..rank.max(1)).map(|d| if d == 1 || rank < 2 { n } else { 1 }).collect()
}
