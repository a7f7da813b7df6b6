//! Normalisations of one sample: over its last axes, over groups of channels, over neighbouring channels.

use super::ones_and_zeros;
use crate::{Layer, Module, Param};
use gradus_core::{DType, Error, Result, Shape, Tensor};

/// Mean 0 and variance 1 over the last axes, then a scale and a shift.
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct LayerNorm {
    /// The scale of each element, 1 at first.
    pub weight: Option<Param>,
    /// The shift of each element, 0 at first.
    pub bias: Option<Param>,
    normalized_shape: Shape,
    eps: f64,
}

impl LayerNorm {
    /// Over the axes of this shape (a number for the last axis alone): eps 1e-5, scale and shift.
    #[track_caller]
    pub fn new(normalized_shape: impl Into<Shape>) -> LayerNorm {
        let normalized_shape = normalized_shape.into();
        let (weight, bias) = ones_and_zeros(&normalized_shape);
        LayerNorm { weight: Some(weight), bias: Some(bias), normalized_shape, eps: 1e-5 }
    }

    /// With this added to the variance.
    pub fn eps(self, eps: f64) -> LayerNorm {
        LayerNorm { eps, ..self }
    }

    /// With or without the shift.
    pub fn bias(self, bias: bool) -> LayerNorm {
        let shift = || ones_and_zeros(&self.normalized_shape).1;
        LayerNorm { bias: bias.then(shift), ..self }
    }

    /// With or without scale and shift.
    #[track_caller]
    pub fn elementwise_affine(self, affine: bool) -> LayerNorm {
        let (weight, bias) = affine.then(|| ones_and_zeros(&self.normalized_shape)).unzip();
        LayerNorm { weight, bias, ..self }
    }

    fn settings(&self) -> String {
        self.normalized_shape.to_string()
    }
}

impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(&self.normalized_shape, self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}

/// Divided by the root of the mean square over the last axes, then a scale.
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct RmsNorm {
    /// The scale of each element, 1 at first.
    pub weight: Option<Param>,
    normalized_shape: Shape,
    eps: Option<f64>,
}

impl RmsNorm {
    /// Over the axes of this shape: eps the element type's machine epsilon, a scale.
    #[track_caller]
    pub fn new(normalized_shape: impl Into<Shape>) -> RmsNorm {
        let normalized_shape = normalized_shape.into();
        let weight = Some(Param::new(Tensor::ones(&normalized_shape, DType::F32)));
        RmsNorm { weight, normalized_shape, eps: None }
    }

    /// With this added to the mean square.
    pub fn eps(self, eps: f64) -> RmsNorm {
        RmsNorm { eps: Some(eps), ..self }
    }

    /// With or without the scale.
    #[track_caller]
    pub fn elementwise_affine(self, affine: bool) -> RmsNorm {
        let weight = affine.then(|| Param::new(Tensor::ones(&self.normalized_shape, DType::F32)));
        RmsNorm { weight, ..self }
    }

    fn settings(&self) -> String {
        self.normalized_shape.to_string()
    }
}

impl Layer for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rms_norm(&self.normalized_shape, self.weight.as_deref(), self.eps)
    }
}

/// Mean 0 and variance 1 over groups of channels (axis 1), then a scale and a shift of each channel.
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct GroupNorm {
    /// The scale of each channel, 1 at first.
    pub weight: Option<Param>,
    /// The shift of each channel, 0 at first.
    pub bias: Option<Param>,
    num_groups: usize,
    num_channels: usize,
    eps: f64,
}

impl GroupNorm {
    /// So many groups of so many channels in all: eps 1e-5, scale and shift.
    #[track_caller]
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        if num_groups == 0 || !num_channels.is_multiple_of(num_groups) {
            return Err(Error::value(
                "GroupNorm",
                format!("{num_groups} groups do not divide {num_channels} channels"),
            ));
        }
        let (weight, bias) = ones_and_zeros(num_channels);
        Ok(GroupNorm { weight: Some(weight), bias: Some(bias), num_groups, num_channels, eps: 1e-5 })
    }

    /// With this added to the variance.
    pub fn eps(self, eps: f64) -> GroupNorm {
        GroupNorm { eps, ..self }
    }

    /// With or without scale and shift.
    #[track_caller]
    pub fn affine(self, affine: bool) -> GroupNorm {
        let (weight, bias) = affine.then(|| ones_and_zeros(self.num_channels)).unzip();
        GroupNorm { weight, bias, ..self }
    }

    fn settings(&self) -> String {
        format!("{} groups of {} channels", self.num_groups, self.num_channels)
    }
}

impl Layer for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.shape().get(1) != Some(&self.num_channels) {
            let why = format!("takes {} channels (axis 1), not {}", self.num_channels, x.shape());
            return Err(Error::shape("GroupNorm", &[x.shape()], why).operand(x));
        }
        x.group_norm(self.num_groups, self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}

/// Divided by a power of the mean square over neighbouring channels.
#[derive(Module, Clone, Copy, Debug)]
pub struct LocalResponseNorm {
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}

impl LocalResponseNorm {
    /// Over so many channels: alpha 1e-4, beta 0.75, k 1.
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }

    /// `(k + alpha mean)^beta` with these numbers.
    pub fn with(self, alpha: f64, beta: f64, k: f64) -> LocalResponseNorm {
        LocalResponseNorm { alpha, beta, k, ..self }
    }
}

impl Layer for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.local_response_norm(self.size, self.alpha, self.beta, self.k)
    }
}
