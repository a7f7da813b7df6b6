//! Activations as layers.

use crate::{Layer, Mode, Module, Param};
use gradus_core::{DType, Result, Tensor};

macro_rules! plain_activations {
    ($($(#[$doc:meta])* $name:ident |$x:ident| $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Layer for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                $forward
            }
        }
    )*};
}
plain_activations! {
    /// `max(x, 0)`.
    #[doc(alias = "ReLU")]
    Relu |x| Ok(x.relu());
    /// Between 0 and 6.
    #[doc(alias = "ReLU6")]
    Relu6 |x| Ok(x.relu6());
    /// `x sigmoid(x)`, also called swish.
    #[doc(alias = "SiLU")]
    Silu |x| Ok(x.silu());
    /// `x tanh(softplus(x))`.
    Mish |x| Ok(x.mish());
    /// The self-normalising elu.
    #[doc(alias = "SELU")]
    Selu |x| Ok(x.selu());
    /// The hyperbolic tangent.
    Tanh |x| Ok(x.tanh());
    /// `1 / (1 + e^-x)`.
    Sigmoid |x| Ok(x.sigmoid());
    /// The logarithm of the sigmoid.
    LogSigmoid |x| Ok(x.logsigmoid());
    /// `relu6(x + 3) / 6`.
    Hardsigmoid |x| Ok(x.hardsigmoid());
    /// `x hardsigmoid(x)`.
    Hardswish |x| Ok(x.hardswish());
    /// `x / (1 + |x|)`.
    Softsign |x| Ok(x.softsign());
    /// `x - tanh(x)`.
    Tanhshrink |x| Ok(x.tanhshrink());
}

macro_rules! activations_with {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $t:ty = $default:expr),+ }
       |$x:ident| $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $t,)+
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default),+ }
            }
        }

        impl $name {
            /// With these settings; [`Default`] has PyTorch's.
            pub fn new($($field: $t),+) -> $name {
                $name { $($field),+ }
            }
        }

        impl Layer for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let $name { $($field),+ } = *self;
                $forward
            }
        }
    )*};
}
activations_with! {
    /// `x` times the normal distribution function of `x`.
    #[doc(alias = "GELU")]
    Gelu {
        /// Whether to approximate with tanh, as GPT-2 does.
        tanh: bool = false
    } |x| Ok(if tanh { x.gelu_tanh() } else { x.gelu() });
    /// `x` above zero, `slope x` below.
    #[doc(alias = "LeakyReLU")]
    LeakyRelu {
        /// The slope below zero.
        slope: f64 = 0.01
    } |x| Ok(x.leaky_relu(slope));
    /// `x` above zero, `alpha (e^x - 1)` below.
    #[doc(alias = "ELU")]
    Elu {
        /// The limit below zero.
        alpha: f64 = 1.0
    } |x| Ok(x.elu(alpha));
    /// `x` above zero, `alpha (e^(x/alpha) - 1)` below.
    #[doc(alias = "CELU")]
    Celu {
        /// The limit below zero.
        alpha: f64 = 1.0
    } |x| x.celu(alpha);
    /// `ln(1 + e^(beta x)) / beta`.
    Softplus {
        /// How sharp the bend is.
        beta: f64 = 1.0,
        /// Where `beta x` is above this, `x` itself.
        threshold: f64 = 20.0
    } |x| x.softplus(beta, threshold);
    /// Between `min` and `max`.
    Hardtanh {
        /// The lower end.
        min: f64 = -1.0,
        /// The upper end.
        max: f64 = 1.0
    } |x| x.hardtanh(min, max);
    /// 0 within `lambda` of zero, `x` elsewhere.
    Hardshrink {
        /// How near.
        lambda: f64 = 0.5
    } |x| Ok(x.hardshrink(lambda));
    /// `x` moved towards zero by `lambda`.
    Softshrink {
        /// How far.
        lambda: f64 = 0.5
    } |x| x.softshrink(lambda);
    /// `x` above `threshold`, `value` elsewhere.
    Threshold {
        /// The border.
        threshold: f64 = 0.0,
        /// What stands below it.
        value: f64 = 0.0
    } |x| Ok(x.threshold(threshold, value));
    /// `e^x / sum(e^x)` along an axis.
    Softmax {
        /// The axis.
        dim: i64 = -1
    } |x| x.softmax(dim);
    /// Softmax of `-x` along an axis.
    Softmin {
        /// The axis.
        dim: i64 = -1
    } |x| x.softmin(dim);
    /// The logarithm of the softmax along an axis.
    LogSoftmax {
        /// The axis.
        dim: i64 = -1
    } |x| x.log_softmax(dim);
    /// The first half of an axis times the sigmoid of the second.
    #[doc(alias = "GLU")]
    Glu {
        /// The axis.
        dim: i64 = -1
    } |x| x.glu(dim);
}

/// `x` above zero, a learned slope times `x` below.
#[derive(Module)]
pub struct PRelu {
    /// One slope, or one for each channel (axis 1).
    pub weight: Param,
}

impl PRelu {
    /// So many slopes, 0.25 at first.
    #[track_caller]
    pub fn new(num_parameters: usize) -> PRelu {
        PRelu { weight: Param::new(Tensor::full([num_parameters], 0.25, DType::F32)) }
    }
}

impl Default for PRelu {
    /// One slope for all.
    #[track_caller]
    fn default() -> PRelu {
        PRelu::new(1)
    }
}

impl Layer for PRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.prelu(&self.weight)
    }
}

/// `x` above zero, `slope x` below, with a random slope for each element while training and the mean one in evaluation.
#[derive(Module)]
pub struct RRelu {
    lower: f64,
    upper: f64,
    mode: Mode,
}

impl RRelu {
    /// Slopes between these.
    pub fn new(lower: f64, upper: f64) -> RRelu {
        RRelu { lower, upper, mode: Mode::default() }
    }
}

impl Default for RRelu {
    /// Between 1/8 and 1/3.
    fn default() -> RRelu {
        RRelu::new(1.0 / 8.0, 1.0 / 3.0)
    }
}

impl Layer for RRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rrelu(self.lower, self.upper, self.mode.is_training())
    }
}
