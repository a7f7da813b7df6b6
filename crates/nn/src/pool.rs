//! Pooling.

use crate::{Layer, Module};
use gradus_core::{AvgPoolOptions, MaxPoolOptions, Result, Sizes, Tensor};

macro_rules! pools {
    ($($d:literal $max:ident $max_fn:ident $max_indices:ident, $avg:ident $avg_fn:ident, $lp:ident $lp_fn:ident,
       $amax:ident $amax_fn:ident, $aavg:ident $aavg_fn:ident, $unpool:ident $unpool_fn:ident;)*) => {$(
        #[doc = concat!("The maxima of windows over the last ", $d, " axes.")]
        #[derive(Module, Clone, Debug)]
        pub struct $max {
            kernel: Sizes,
            options: MaxPoolOptions,
        }

        impl $max {
            /// Windows of this size, side by side.
            pub fn new(kernel: impl Into<Sizes>) -> $max {
                $max { kernel: kernel.into(), options: MaxPoolOptions::default() }
            }

            /// With this step between windows.
            pub fn stride(mut self, stride: impl Into<Sizes>) -> $max {
                self.options.stride = Some(stride.into());
                self
            }

            /// With so many elements around the input, which never win.
            pub fn padding(mut self, padding: impl Into<Sizes>) -> $max {
                self.options.padding = padding.into();
                self
            }

            /// With this distance between the elements of a window.
            pub fn dilation(mut self, dilation: impl Into<Sizes>) -> $max {
                self.options.dilation = dilation.into();
                self
            }

            /// Whether a last window may hang over the end.
            pub fn ceil_mode(mut self, ceil: bool) -> $max {
                self.options.ceil_mode = ceil;
                self
            }

            /// The maxima with their places in the flattened axes, for unpooling.
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
                x.$max_indices(&self.kernel, self.options.clone())
            }
        }

        impl Layer for $max {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$max_fn(&self.kernel, self.options.clone())
            }
        }

        #[doc = concat!("The means of windows over the last ", $d, " axes.")]
        #[derive(Module, Clone, Debug)]
        pub struct $avg {
            kernel: Sizes,
            options: AvgPoolOptions,
        }

        impl $avg {
            /// Windows of this size, side by side.
            pub fn new(kernel: impl Into<Sizes>) -> $avg {
                $avg { kernel: kernel.into(), options: AvgPoolOptions::default() }
            }

            /// With this step between windows.
            pub fn stride(mut self, stride: impl Into<Sizes>) -> $avg {
                self.options.stride = Some(stride.into());
                self
            }

            /// With so many zeros around the input.
            pub fn padding(mut self, padding: impl Into<Sizes>) -> $avg {
                self.options.padding = padding.into();
                self
            }

            /// Whether a last window may hang over the end.
            pub fn ceil_mode(mut self, ceil: bool) -> $avg {
                self.options.ceil_mode = ceil;
                self
            }

            /// Whether padding counts in the divisor.
            pub fn count_include_pad(mut self, include: bool) -> $avg {
                self.options.count_include_pad = include;
                self
            }

            /// Divides by this instead of the window's size.
            pub fn divisor_override(mut self, divisor: i64) -> $avg {
                self.options.divisor_override = Some(divisor);
                self
            }
        }

        impl Layer for $avg {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$avg_fn(&self.kernel, self.options.clone())
            }
        }

        #[doc = concat!("The p-norms of windows over the last ", $d, " axes.")]
        #[derive(Module, Clone, Debug)]
        pub struct $lp {
            norm_type: f64,
            kernel: Sizes,
            stride: Option<Sizes>,
            ceil_mode: bool,
        }

        impl $lp {
            /// This norm of windows of this size, side by side.
            pub fn new(norm_type: f64, kernel: impl Into<Sizes>) -> $lp {
                $lp { norm_type, kernel: kernel.into(), stride: None, ceil_mode: false }
            }

            /// With this step between windows.
            pub fn stride(self, stride: impl Into<Sizes>) -> $lp {
                $lp { stride: Some(stride.into()), ..self }
            }

            /// Whether a last window may hang over the end.
            pub fn ceil_mode(self, ceil: bool) -> $lp {
                $lp { ceil_mode: ceil, ..self }
            }
        }

        impl Layer for $lp {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$lp_fn(self.norm_type, &self.kernel, self.stride.clone(), self.ceil_mode)
            }
        }

        adaptive!($d $amax $amax_fn "maxima");
        adaptive!($d $aavg $aavg_fn "means");

        #[doc = concat!("Maxima over ", $d, " axes back where they came from, among zeros.")]
        #[derive(Module, Clone, Debug)]
        pub struct $unpool {
            kernel: Sizes,
            stride: Option<Sizes>,
            padding: Sizes,
        }

        impl $unpool {
            /// For pooling with windows of this size, side by side.
            pub fn new(kernel: impl Into<Sizes>) -> $unpool {
                $unpool { kernel: kernel.into(), stride: None, padding: 0.into() }
            }

            /// For pooling with this step between windows.
            pub fn stride(self, stride: impl Into<Sizes>) -> $unpool {
                $unpool { stride: Some(stride.into()), ..self }
            }

            /// For pooling with so much padding.
            pub fn padding(self, padding: impl Into<Sizes>) -> $unpool {
                $unpool { padding: padding.into(), ..self }
            }

            /// The maxima at the places `forward_with_indices` gave; to these extents, where the window leaves them open.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, indices: &Tensor, output_size: Option<Sizes>) -> Result<Tensor> {
                x.$unpool_fn(indices, &self.kernel, self.stride.clone(), &self.padding, output_size)
            }
        }
    )*};
}

macro_rules! adaptive {
    ($d:literal $name:ident $method:ident $what:literal) => {
        #[doc = concat!("The ", $what, " of bins that divide the last ", $d, " axes evenly.")]
        #[derive(Module, Clone, Debug)]
        pub struct $name {
            size: Sizes,
        }

        impl $name {
            /// So many bins: one number, or one an axis.
            pub fn new(size: impl Into<Sizes>) -> $name {
                $name { size: size.into() }
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$method(&self.size)
            }
        }
    };
}

pools! {
    1 MaxPool1d max_pool1d max_pool1d_with_indices, AvgPool1d avg_pool1d, LpPool1d lp_pool1d,
        AdaptiveMaxPool1d adaptive_max_pool1d, AdaptiveAvgPool1d adaptive_avg_pool1d, MaxUnpool1d max_unpool1d;
    2 MaxPool2d max_pool2d max_pool2d_with_indices, AvgPool2d avg_pool2d, LpPool2d lp_pool2d,
        AdaptiveMaxPool2d adaptive_max_pool2d, AdaptiveAvgPool2d adaptive_avg_pool2d, MaxUnpool2d max_unpool2d;
    3 MaxPool3d max_pool3d max_pool3d_with_indices, AvgPool3d avg_pool3d, LpPool3d lp_pool3d,
        AdaptiveMaxPool3d adaptive_max_pool3d, AdaptiveAvgPool3d adaptive_avg_pool3d, MaxUnpool3d max_unpool3d;
}
