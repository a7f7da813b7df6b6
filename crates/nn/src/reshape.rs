//! Layers that only move elements, or resample them.

use crate::{Layer, Module};
use gradus_core::{InterpolateMode, InterpolateOptions, PadMode, Result, Shape, Sizes, Tensor};

/// Axes joined into one: all after the batch, unless told otherwise.
#[derive(Module, Clone, Copy, Debug)]
pub struct Flatten {
    start: i64,
    end: i64,
}

impl Flatten {
    /// From axis `start` to axis `end`, both included; negative ones count from the end.
    pub fn new(start: i64, end: i64) -> Flatten {
        Flatten { start, end }
    }
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new(1, -1)
    }
}

impl Layer for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start, self.end)
    }
}

/// One axis split into several.
#[derive(Module, Clone, Debug)]
pub struct Unflatten {
    dim: i64,
    sizes: Shape,
}

impl Unflatten {
    /// Axis `dim` as axes of these sizes.
    pub fn new(dim: i64, sizes: impl Into<Shape>) -> Unflatten {
        Unflatten { dim, sizes: sizes.into() }
    }
}

impl Layer for Unflatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.unflatten(self.dim, &self.sizes)
    }
}

/// Elements around the last axes: zeros, another constant, the edge, or the tensor mirrored or repeated.
///
/// ```
/// use gradus_core::{PadMode, Tensor};
/// use gradus_nn::{Layer, Pad};
/// let pad = Pad::new([1, 2], PadMode::Reflect);
/// assert_eq!(pad.forward(&Tensor::from([[1i64, 2, 3]]))?.to_vec::<i64>()?, [2, 1, 2, 3, 2, 1]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct Pad {
    amounts: Vec<i64>,
    mode: PadMode,
}

impl Pad {
    /// Amounts before and after each axis, from the last axis on; negative ones crop.
    pub fn new(amounts: impl Into<Vec<i64>>, mode: PadMode) -> Pad {
        Pad { amounts: amounts.into(), mode }
    }
}

impl Layer for Pad {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.pad(&self.amounts, self.mode)
    }
}

/// The spatial axes at another size.
///
/// ```
/// use gradus_core::{InterpolateMode, Tensor};
/// use gradus_nn::{Layer, Upsample};
/// let up = Upsample::scale(2.0).mode(InterpolateMode::Bilinear);
/// assert_eq!(up.forward(&Tensor::randn([1, 3, 4, 4]))?.dims(), [1, 3, 8, 8]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct Upsample {
    options: InterpolateOptions,
}

impl Upsample {
    /// To this size, nearest elements.
    pub fn size(size: impl Into<Sizes>) -> Upsample {
        Upsample { options: InterpolateOptions { size: Some(size.into()), ..Default::default() } }
    }

    /// So many times larger along every spatial axis, nearest elements.
    pub fn scale(factor: f64) -> Upsample {
        Upsample { options: InterpolateOptions { scale_factor: Some(vec![factor]), ..Default::default() } }
    }

    /// With another way to find values between elements.
    pub fn mode(mut self, mode: InterpolateMode) -> Upsample {
        self.options.mode = mode;
        self
    }

    /// Whether the centres of the corner elements stay in place (linear and cubic modes).
    pub fn align_corners(mut self, align: bool) -> Upsample {
        self.options.align_corners = Some(align);
        self
    }
}

impl Layer for Upsample {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.interpolate(self.options.clone())
    }
}

macro_rules! by_number {
    ($($(#[$doc:meta])* $name:ident $method:ident $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug)]
        pub struct $name(usize);

        impl $name {
            #[doc = concat!("With this ", $what, ".")]
            pub fn new(n: usize) -> $name {
                $name(n)
            }
        }

        impl Layer for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$method(self.0)
            }
        }
    )*};
}
by_number! {
    /// Channels `c r^2` become images `r` times larger.
    PixelShuffle pixel_shuffle "factor";
    /// Images become `r^2` times as many channels of images `r` times smaller.
    PixelUnshuffle pixel_unshuffle "factor";
    /// Channels of different groups side by side.
    ChannelShuffle channel_shuffle "number of groups";
}
