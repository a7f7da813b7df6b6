//! Starting values of weights.

use crate::api::random::float_only;
use crate::{DType, Error, Result, Shape, Tensor};

/// Which side of a weight keeps its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// The inputs: activations keep their scale.
    #[default]
    In,
    /// The outputs: gradients keep theirs.
    Out,
}

/// By how much the function after a weight shrinks its input: PyTorch's `calculate_gain`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Gain {
    /// No function, or a convolution, or a sigmoid: 1.
    Linear,
    /// 5/3.
    Tanh,
    /// The square root of 2.
    #[default]
    Relu,
    /// With this slope below zero.
    LeakyRelu(f64),
    /// 3/4.
    Selu,
}

impl Gain {
    /// The factor.
    pub fn factor(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::Relu => 2f64.sqrt(),
            Gain::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::Selu => 0.75,
        }
    }
}

/// Inputs and outputs of one element, for a weight laid out `[out, in, window..]`.
#[track_caller]
fn fans(op: &str, shape: &Shape) -> Result<(f64, f64)> {
    let &[out, inputs, ref window @ ..] = &shape[..] else {
        let why = format!("a weight has two axes or more, not {shape}");
        return Err(Error::shape(op, &[shape], why));
    };
    let window = window.iter().map(|&n| n as f64).product::<f64>();
    Ok((inputs as f64 * window, out as f64 * window))
}

impl Tensor {
    /// A starting weight for `x.matmul(&w)` or a convolution before a relu: normal, variance `2 / inputs`, f32.
    ///
    /// A matrix is `[inputs, outputs]`, as `matmul` reads it; with more axes it is a convolution's
    /// `[outputs, inputs, window..]`. [`Tensor::kaiming_normal`] and the others follow PyTorch's layout
    /// `[outputs, inputs]` for matrices too.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let w = Tensor::var("w", Tensor::kaiming([784, 10]).unwrap());
    /// assert_eq!(w.dims(), [784, 10]);
    /// ```
    #[track_caller]
    pub fn kaiming(shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let fan = if shape.rank() == 2 { Fan::Out } else { Fan::In };
        Tensor::kaiming_normal(shape, fan, Gain::Relu, DType::F32)
    }

    /// Normal numbers of deviation `gain / sqrt(fan)`; the layout is `[outputs, inputs, window..]`.
    #[track_caller]
    pub fn kaiming_normal(shape: impl Into<Shape>, fan: Fan, gain: Gain, dtype: DType) -> Result<Tensor> {
        float_only("kaiming_normal", dtype)?;
        let shape = shape.into();
        let (inputs, outputs) = fans("kaiming_normal", &shape)?;
        let std = gain.factor() / if fan == Fan::In { inputs } else { outputs }.max(1.0).sqrt();
        Ok(Tensor::randn_of(shape, dtype)? * std)
    }

    /// Uniform numbers within `gain sqrt(3 / fan)` of 0; the layout is `[outputs, inputs, window..]`.
    #[track_caller]
    pub fn kaiming_uniform(shape: impl Into<Shape>, fan: Fan, gain: Gain, dtype: DType) -> Result<Tensor> {
        float_only("kaiming_uniform", dtype)?;
        let shape = shape.into();
        let (inputs, outputs) = fans("kaiming_uniform", &shape)?;
        let bound = gain.factor() * (3.0 / if fan == Fan::In { inputs } else { outputs }.max(1.0)).sqrt();
        Ok((Tensor::rand_of(shape, dtype)? * 2.0 - 1.0) * bound)
    }

    /// Normal numbers of deviation `gain sqrt(2 / (inputs + outputs))`; the layout is `[outputs, inputs, window..]`.
    #[track_caller]
    pub fn xavier_normal(shape: impl Into<Shape>, gain: f64, dtype: DType) -> Result<Tensor> {
        float_only("xavier_normal", dtype)?;
        let shape = shape.into();
        let (inputs, outputs) = fans("xavier_normal", &shape)?;
        Ok(Tensor::randn_of(shape, dtype)? * (gain * (2.0 / (inputs + outputs).max(1.0)).sqrt()))
    }

    /// Uniform numbers within `gain sqrt(6 / (inputs + outputs))` of 0; the layout is `[outputs, inputs, window..]`.
    #[track_caller]
    pub fn xavier_uniform(shape: impl Into<Shape>, gain: f64, dtype: DType) -> Result<Tensor> {
        float_only("xavier_uniform", dtype)?;
        let shape = shape.into();
        let (inputs, outputs) = fans("xavier_uniform", &shape)?;
        Ok((Tensor::rand_of(shape, dtype)? * 2.0 - 1.0) * (gain * (6.0 / (inputs + outputs).max(1.0)).sqrt()))
    }
}
