//! Instance normalisation.

use super::{ones_and_zeros, running::Running};
use crate::{Layer, Mode, Module, Param};
use gradus_core::{BatchNormOptions, Error, Result, Tensor};

macro_rules! instance_norms {
    ($($(#[$doc:meta])* $name:ident $d:literal, $takes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            /// The scale of each channel, if asked for.
            pub weight: Option<Param>,
            /// The shift of each channel, if asked for.
            pub bias: Option<Param>,
            #[module(flatten)]
            running: Option<Running>,
            num_features: usize,
            eps: f64,
            momentum: Option<f64>,
            mode: Mode,
        }

        impl $name {
            /// For so many channels: eps 1e-5, neither scale and shift nor running statistics.
            pub fn new(num_features: usize) -> $name {
                let mode = Mode::default();
                $name { weight: None, bias: None, running: None, num_features, eps: 1e-5, momentum: Some(0.1), mode }
            }

            /// With this added to the variance.
            pub fn eps(self, eps: f64) -> $name {
                $name { eps, ..self }
            }

            /// With this much of each batch in the running statistics.
            pub fn momentum(self, momentum: impl Into<Option<f64>>) -> $name {
                $name { momentum: momentum.into(), ..self }
            }

            /// With or without scale and shift.
            #[track_caller]
            pub fn affine(self, affine: bool) -> $name {
                let (weight, bias) = affine.then(|| ones_and_zeros(self.num_features)).unzip();
                $name { weight, bias, ..self }
            }

            /// With or without running statistics, for evaluation.
            #[track_caller]
            pub fn track_running_stats(self, track: bool) -> $name {
                $name { running: track.then(|| Running::new(self.num_features)), ..self }
            }

            fn settings(&self) -> String {
                self.num_features.to_string()
            }

            #[track_caller]
            fn batched(&self, x: &Tensor) -> Result<Tensor> {
                let channels = x.dims()[1];
                if channels != self.num_features {
                    let why = format!("{} has {channels} channels, not {}", x.shape(), self.num_features);
                    return Err(Error::shape(stringify!($name), &[x.shape()], why).operand(x));
                }
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let options = BatchNormOptions { training: true, eps: self.eps, ..Default::default() };
                match &self.running {
                    None => Ok(x.instance_norm(None, weight, bias, &options)?.0),
                    Some(running) if self.mode.is_training() => {
                        // PyTorch counts no batches here, and without a momentum nothing is learned.
                        let options = BatchNormOptions { momentum: self.momentum.unwrap_or(0.0), ..options };
                        running.learn(&options, |old, o| x.instance_norm(Some(old), weight, bias, o))
                    }
                    Some(running) => {
                        let options = BatchNormOptions { training: false, ..options };
                        Ok(x.instance_norm(Some(&running.stats()), weight, bias, &options)?.0)
                    }
                }
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                match x.rank() {
                    r if r == $d + 2 => self.batched(x),
                    r if r == $d + 1 => self.batched(&x.unsqueeze(0)?)?.squeeze(0),
                    _ => {
                        let why = format!(concat!("takes ", $takes, ", not {}"), x.shape());
                        Err(Error::shape(stringify!($name), &[x.shape()], why).operand(x))
                    }
                }
            }
        }
    )*};
}
instance_norms! {
    /// Mean 0 and variance 1 of each sample and channel of `[n, c, l]`.
    InstanceNorm1d 1, "[n, c, l] or [c, l]";
    /// Mean 0 and variance 1 of each image and channel of `[n, c, h, w]`.
    InstanceNorm2d 2, "[n, c, h, w] or [c, h, w]";
    /// Mean 0 and variance 1 of each volume and channel of `[n, c, d, h, w]`.
    InstanceNorm3d 3, "[n, c, d, h, w] or [c, d, h, w]";
}
