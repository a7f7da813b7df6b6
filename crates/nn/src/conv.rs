//! Convolutions.

use crate::{Layer, Module, Param, init::within_one_over_sqrt, parts::parts_plain};
use gradus_core::{ConvOptions, Error, PadMode, Padding, Result, Shape, Sizes, Tensor};

/// What lies around the input of a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The input mirrored at its edge.
    Reflect,
    /// The elements at the edge.
    Replicate,
    /// The input from the other end.
    Circular,
}
parts_plain!(PaddingMode);

impl PaddingMode {
    fn pad_mode(self) -> PadMode {
        match self {
            PaddingMode::Zeros => PadMode::Constant(0.0),
            PaddingMode::Reflect => PadMode::Reflect,
            PaddingMode::Replicate => PadMode::Replicate,
            PaddingMode::Circular => PadMode::Circular,
        }
    }
}

/// A weight `[a, b, window..]` and the number of inputs of one output, which sets its scale.
pub(crate) fn draw(a: usize, b: usize, window: &[usize]) -> (Tensor, usize) {
    let fan_in = window.iter().fold(b, |n, k| n.saturating_mul(*k));
    let shape: Shape = [a, b].into_iter().chain(window.iter().copied()).collect();
    (within_one_over_sqrt(shape, fan_in), fan_in)
}

/// An error unless `groups` divides both.
#[track_caller]
pub(crate) fn check_groups(op: &str, inputs: usize, outputs: usize, groups: usize) -> Result<()> {
    if groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        return Ok(());
    }
    Err(Error::value(op, format!("{groups} groups do not divide {inputs} input and {outputs} output channels")))
}

/// `3x3`, for `summary()`.
pub(crate) fn window_text(window: &[usize]) -> String {
    window.iter().map(|k| k.to_string()).collect::<Vec<_>>().join("x")
}

/// Padding by other things than zeros happens before the convolution.
#[track_caller]
fn padded(op: &str, x: &Tensor, window: &[usize], options: &ConvOptions, mode: PaddingMode) -> Result<Tensor> {
    let d = window.len();
    let sides: Vec<(usize, usize)> = match &options.padding {
        Padding::Valid => return Ok(x.resolve()),
        Padding::Zeros(n) => n.spread(op, "padding", d)?.iter().map(|&n| (n, n)).collect(),
        Padding::Same => {
            let dilation = options.dilation.spread(op, "dilation", d)?;
            let total = window.iter().zip(dilation.iter()).map(|(k, dil)| dil * k.saturating_sub(1));
            total.map(|t| (t / 2, t - t / 2)).collect()
        }
    };
    // The last axis first, as `pad` wants it.
    let amounts: Vec<i64> = sides.iter().rev().flat_map(|&(a, b)| [a as i64, b as i64]).collect();
    x.pad(&amounts, mode.pad_mode())
}

macro_rules! conv_layers {
    ($($(#[$doc:meta])* $name:ident $d:literal $method:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// The weight is `[out, in / groups, window..]` and starts as PyTorch's: uniform within `1 / sqrt(fan_in)` of 0.
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            /// `[out, in / groups, window..]`.
            pub weight: Param,
            /// `[out]`.
            pub bias: Option<Param>,
            options: ConvOptions,
            padding_mode: PaddingMode,
        }

        impl $name {
            /// From `in_channels` to `out_channels` with windows of this size: stride 1, no padding, one group, a bias.
            #[track_caller]
            pub fn new(in_channels: usize, out_channels: usize, kernel: impl Into<Sizes>) -> Result<$name> {
                let window = kernel.into().spread_positive(stringify!($method), "kernel", $d)?;
                let (weight, fan_in) = draw(out_channels, in_channels, &window);
                Ok($name {
                    weight: Param::new(weight),
                    bias: Some(Param::new(within_one_over_sqrt([out_channels], fan_in))),
                    options: ConvOptions::default(),
                    padding_mode: PaddingMode::Zeros,
                })
            }

            /// With this step between windows.
            pub fn stride(mut self, stride: impl Into<Sizes>) -> $name {
                self.options.stride = stride.into();
                self
            }

            /// With so much around the input: a number, one an axis, or [`Padding::Same`].
            pub fn padding(mut self, padding: impl Into<Padding>) -> $name {
                self.options.padding = padding.into();
                self
            }

            /// With this distance between the elements of a window.
            pub fn dilation(mut self, dilation: impl Into<Sizes>) -> $name {
                self.options.dilation = dilation.into();
                self
            }

            /// With this around the input, where padding is asked for.
            pub fn padding_mode(mut self, mode: PaddingMode) -> $name {
                self.padding_mode = mode;
                self
            }

            /// As so many independent convolutions of part of the channels each; the weights are drawn anew.
            #[track_caller]
            pub fn groups(self, groups: usize) -> Result<$name> {
                let dims = self.weight.dims().to_vec();
                let inputs = dims[1] * self.options.groups;
                check_groups(stringify!($method), inputs, dims[0], groups)?;
                let (weight, fan_in) = draw(dims[0], inputs / groups, &dims[2..]);
                Ok($name {
                    weight: Param::new(weight),
                    bias: self.bias.map(|_| Param::new(within_one_over_sqrt([dims[0]], fan_in))),
                    options: ConvOptions { groups, ..self.options },
                    padding_mode: self.padding_mode,
                })
            }

            /// With or without a bias.
            #[track_caller]
            pub fn bias(mut self, bias: bool) -> $name {
                let (out, fan_in) = (self.weight.dims()[0], self.weight.dims()[1..].iter().product());
                let had = self.bias.take();
                self.bias = bias.then(|| had.unwrap_or_else(|| Param::new(within_one_over_sqrt([out], fan_in))));
                self
            }

            fn settings(&self) -> String {
                let dims = self.weight.dims();
                let groups = self.options.groups;
                let mut text = format!("{} -> {}, {}", dims[1] * groups, dims[0], window_text(&dims[2..]));
                if groups > 1 {
                    text += &format!(", groups {groups}");
                }
                text
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let (weight, bias) = (&self.weight, self.bias.as_deref());
                if self.padding_mode == PaddingMode::Zeros {
                    return x.$method(weight, bias, self.options.clone());
                }
                let x = padded(stringify!($method), x, &weight.dims()[2..], &self.options, self.padding_mode)?;
                x.$method(weight, bias, ConvOptions { padding: Padding::Valid, ..self.options.clone() })
            }
        }
    )*};
}
conv_layers! {
    /// Convolution over `[n, c, l]`.
    Conv1d 1 conv1d;
    /// Convolution over images `[n, c, h, w]`.
    Conv2d 2 conv2d;
    /// Convolution over volumes `[n, c, d, h, w]`.
    Conv3d 3 conv3d;
}
