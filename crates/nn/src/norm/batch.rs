//! Batch normalisation.

use super::{ones_and_zeros, running::Running};
use crate::{Layer, Mode, Module, Param};
use gradus_core::{BatchNormOptions, Error, Result, Tensor};

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident $ranks:pat, $takes:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Training uses the batch's mean and variance and keeps running ones; evaluation uses those.
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            /// The scale of each channel, 1 at first.
            pub weight: Option<Param>,
            /// The shift of each channel, 0 at first.
            pub bias: Option<Param>,
            #[module(flatten)]
            running: Option<Running>,
            num_features: usize,
            eps: f64,
            momentum: Option<f64>,
            mode: Mode,
        }

        impl $name {
            /// For so many channels: eps 1e-5, momentum 0.1, scale and shift, running statistics.
            #[track_caller]
            pub fn new(num_features: usize) -> $name {
                let (weight, bias) = ones_and_zeros(num_features);
                $name {
                    weight: Some(weight),
                    bias: Some(bias),
                    running: Some(Running::new(num_features)),
                    num_features,
                    eps: 1e-5,
                    momentum: Some(0.1),
                    mode: Mode::default(),
                }
            }

            /// With this added to the variance.
            pub fn eps(self, eps: f64) -> $name {
                $name { eps, ..self }
            }

            /// With this much of each batch in the running statistics; `None` is the mean over all batches.
            pub fn momentum(self, momentum: impl Into<Option<f64>>) -> $name {
                $name { momentum: momentum.into(), ..self }
            }

            /// With or without scale and shift.
            #[track_caller]
            pub fn affine(self, affine: bool) -> $name {
                let (weight, bias) = affine.then(|| ones_and_zeros(self.num_features)).unzip();
                $name { weight, bias, ..self }
            }

            /// With or without running statistics; without, evaluation uses the batch's own too.
            #[track_caller]
            pub fn track_running_stats(self, track: bool) -> $name {
                $name { running: track.then(|| Running::new(self.num_features)), ..self }
            }

            /// The running mean and variance.
            pub fn running_stats(&self) -> Option<(Tensor, Tensor)> {
                self.running.as_ref().map(Running::stats)
            }

            fn settings(&self) -> String {
                self.num_features.to_string()
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                if !matches!(x.rank(), $ranks) {
                    let why = format!(concat!("takes ", $takes, ", not {}"), x.shape());
                    return Err(Error::shape(stringify!($name), &[x.shape()], why).operand(x));
                }
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let options = BatchNormOptions { training: true, eps: self.eps, ..Default::default() };
                match &self.running {
                    None => Ok(x.batch_norm(None, weight, bias, &options)?.0),
                    Some(running) if self.mode.is_training() => {
                        running.learn_counted(&options, self.momentum, |old, o| x.batch_norm(Some(old), weight, bias, o))
                    }
                    Some(running) => {
                        let options = BatchNormOptions { training: false, ..options };
                        Ok(x.batch_norm(Some(&running.stats()), weight, bias, &options)?.0)
                    }
                }
            }
        }
    )*};
}
batch_norms! {
    /// Mean 0 and variance 1 of each channel over a batch `[n, c]` or `[n, c, l]`.
    BatchNorm1d 2 | 3, "[n, c] or [n, c, l]";
    /// Mean 0 and variance 1 of each channel over a batch of images `[n, c, h, w]`.
    BatchNorm2d 4, "[n, c, h, w]";
    /// Mean 0 and variance 1 of each channel over a batch of volumes `[n, c, d, h, w]`.
    BatchNorm3d 5, "[n, c, d, h, w]";
}
