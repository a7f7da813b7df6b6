//! Transposed convolutions.

use crate::{
    Layer, Module, Param,
    conv::{check_groups, draw, window_text},
    init::within_one_over_sqrt,
};
use gradus_core::{ConvTransposeOptions, Error, Result, Sizes, Tensor};

/// The output padding that leads to these spatial extents.
#[track_caller]
fn output_padding(
    op: &str,
    x: &Tensor,
    window: &[usize],
    options: &ConvTransposeOptions,
    wanted: &[usize],
) -> Result<Vec<usize>> {
    let d = window.len();
    let spatial = x.dims().get(x.rank().saturating_sub(d)..).unwrap_or_default();
    if wanted.len() != d || spatial.len() != d {
        let why = format!("an output size {wanted:?} does not fit {d} spatial axes of {}", x.shape());
        return Err(Error::value(op, why).operand(x));
    }
    let stride = options.stride.spread_positive(op, "stride", d)?;
    let padding = options.padding.spread(op, "padding", d)?;
    let dilation = options.dilation.spread_positive(op, "dilation", d)?;
    (0..d)
        .map(|a| {
            let least = (spatial[a].saturating_sub(1)) * stride[a] + dilation[a] * (window[a] - 1) + 1;
            let least = least.saturating_sub(2 * padding[a]);
            let extra = wanted[a].checked_sub(least).filter(|e| *e < stride[a].max(dilation[a]));
            extra.ok_or_else(|| {
                let most = least + stride[a] - 1;
                let why = format!("axis {a} can come out as {least} to {most}, not {}", wanted[a]);
                Error::value(op, why).operand(x)
            })
        })
        .collect()
}

macro_rules! transpose_layers {
    ($($(#[$doc:meta])* $name:ident $d:literal $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            /// `[in, out / groups, window..]`.
            pub weight: Param,
            /// `[out]`.
            pub bias: Option<Param>,
            options: ConvTransposeOptions,
        }

        impl $name {
            /// From `in_channels` to `out_channels` with windows of this size: stride 1, no padding, one group, a bias.
            #[track_caller]
            pub fn new(in_channels: usize, out_channels: usize, kernel: impl Into<Sizes>) -> Result<$name> {
                let window = kernel.into().spread_positive(stringify!($method), "kernel", $d)?;
                let (weight, fan_in) = draw(in_channels, out_channels, &window);
                Ok($name {
                    weight: Param::new(weight),
                    bias: Some(Param::new(within_one_over_sqrt([out_channels], fan_in))),
                    options: ConvTransposeOptions::default(),
                })
            }

            /// With this distance between the windows that are added up.
            pub fn stride(mut self, stride: impl Into<Sizes>) -> $name {
                self.options.stride = stride.into();
                self
            }

            /// With so much cut off each side of the result.
            pub fn padding(mut self, padding: impl Into<Sizes>) -> $name {
                self.options.padding = padding.into();
                self
            }

            /// With so much added to the end of the result.
            pub fn output_padding(mut self, padding: impl Into<Sizes>) -> $name {
                self.options.output_padding = padding.into();
                self
            }

            /// With this distance between the elements of a window.
            pub fn dilation(mut self, dilation: impl Into<Sizes>) -> $name {
                self.options.dilation = dilation.into();
                self
            }

            /// As so many independent convolutions of part of the channels each; the weights are drawn anew.
            #[track_caller]
            pub fn groups(self, groups: usize) -> Result<$name> {
                let dims = self.weight.dims().to_vec();
                let outputs = dims[1] * self.options.groups;
                check_groups(stringify!($method), dims[0], outputs, groups)?;
                let (weight, fan_in) = draw(dims[0], outputs / groups, &dims[2..]);
                Ok($name {
                    weight: Param::new(weight),
                    bias: self.bias.map(|_| Param::new(within_one_over_sqrt([outputs], fan_in))),
                    options: ConvTransposeOptions { groups, ..self.options },
                })
            }

            /// With or without a bias.
            #[track_caller]
            pub fn bias(mut self, bias: bool) -> $name {
                let out = self.weight.dims()[1] * self.options.groups;
                let fan_in = self.weight.dims()[1..].iter().product();
                let had = self.bias.take();
                self.bias = bias.then(|| had.unwrap_or_else(|| Param::new(within_one_over_sqrt([out], fan_in))));
                self
            }

            /// As `forward`, to these spatial extents (where the stride leaves them open).
            #[track_caller]
            pub fn forward_to(&self, x: &Tensor, output_size: &[usize]) -> Result<Tensor> {
                let window = &self.weight.dims()[2..];
                let extra = output_padding(stringify!($method), x, window, &self.options, output_size)?;
                let options = ConvTransposeOptions { output_padding: extra.into(), ..self.options.clone() };
                x.$method(&self.weight, self.bias.as_deref(), options)
            }

            fn settings(&self) -> String {
                let dims = self.weight.dims();
                let groups = self.options.groups;
                format!("{} -> {}, {}", dims[0], dims[1] * groups, window_text(&dims[2..]))
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$method(&self.weight, self.bias.as_deref(), self.options.clone())
            }
        }
    )*};
}
transpose_layers! {
    /// Transposed convolution over `[n, c, l]`.
    ConvTranspose1d 1 conv_transpose1d;
    /// Transposed convolution over images `[n, c, h, w]`.
    ConvTranspose2d 2 conv_transpose2d;
    /// Transposed convolution over volumes `[n, c, d, h, w]`.
    ConvTranspose3d 3 conv_transpose3d;
}
