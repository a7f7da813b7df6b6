//! Linear maps.

use crate::{Layer, Module, Param, init::within_one_over_sqrt};
use gradus_core::{Result, Tensor};

/// `x W^T + b` along the last axis.
///
/// The weight is `[out, in]` and starts as PyTorch's: uniform within `1 / sqrt(in)` of 0, and so does the bias.
#[derive(Module)]
#[module(describe = Self::settings)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

impl Linear {
    /// From `in_features` numbers to `out_features`.
    #[track_caller]
    pub fn new(in_features: usize, out_features: usize) -> Linear {
        Linear {
            weight: Param::new(within_one_over_sqrt([out_features, in_features], in_features)),
            bias: Some(Param::new(within_one_over_sqrt([out_features], in_features))),
        }
    }

    /// With or without a bias.
    #[track_caller]
    pub fn bias(self, bias: bool) -> Linear {
        let Linear { weight, bias: had } = self;
        let (out, fan_in) = (weight.dims()[0], weight.dims()[1]);
        let bias = bias.then(|| had.unwrap_or_else(|| Param::new(within_one_over_sqrt([out], fan_in))));
        Linear { weight, bias }
    }

    fn settings(&self) -> String {
        let bias = if self.bias.is_some() { "" } else { ", no bias" };
        format!("{} -> {}{bias}", self.weight.dims()[1], self.weight.dims()[0])
    }
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight, self.bias.as_deref())
    }
}

/// `x1^T W_k x2 + b_k` for each output `k`.
#[derive(Module)]
pub struct Bilinear {
    /// `[out, in1, in2]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

impl Bilinear {
    /// From `in1` and `in2` numbers to `out`.
    #[track_caller]
    pub fn new(in1: usize, in2: usize, out: usize) -> Bilinear {
        Bilinear {
            weight: Param::new(within_one_over_sqrt([out, in1, in2], in1)),
            bias: Some(Param::new(within_one_over_sqrt([out], in1))),
        }
    }

    /// With or without a bias.
    #[track_caller]
    pub fn bias(self, bias: bool) -> Bilinear {
        let Bilinear { weight, bias: had } = self;
        let (out, fan_in) = (weight.dims()[0], weight.dims()[1]);
        let bias = bias.then(|| had.unwrap_or_else(|| Param::new(within_one_over_sqrt([out], fan_in))));
        Bilinear { weight, bias }
    }

    /// What it makes of `x1` and `x2`, which have the same shape but for the last axis.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        x1.bilinear(x2, &self.weight, self.bias.as_deref())
    }
}

/// What comes in goes out.
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Identity;

impl Layer for Identity {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.resolve())
    }
}
