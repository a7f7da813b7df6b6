//! Dropout: elements or whole channels set to zero at random while training.

use crate::{Layer, Mode, Module};
use gradus_core::{Result, Tensor};

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $p:ident, $training:ident| $forward:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        #[module(describe = Self::settings)]
        pub struct $name {
            p: f64,
            mode: Mode,
        }

        impl $name {
            /// With this probability, 0 to 1.
            pub fn new(p: f64) -> $name {
                $name { p, mode: Mode::default() }
            }

            fn settings(&self) -> String {
                self.p.to_string()
            }
        }

        impl Layer for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let ($p, $training) = (self.p, self.mode.is_training());
                $forward
            }
        }
    )*};
}
dropouts! {
    /// Each element 0 with a probability while training, the others scaled up; nothing in evaluation.
    Dropout |x, p, training| x.dropout(p, training);
    /// Whole channels of `[n, c, l]` (or `[c, l]`) 0 together while training.
    Dropout1d |x, p, training| channels(x, 1, p, training, Tensor::feature_dropout);
    /// Whole channels of `[n, c, h, w]` 0 together while training.
    Dropout2d |x, p, training| x.feature_dropout(p, training);
    /// Whole channels of `[n, c, d, h, w]` (or `[c, d, h, w]`) 0 together while training.
    Dropout3d |x, p, training| channels(x, 3, p, training, Tensor::feature_dropout);
    /// Dropout that keeps the mean and variance of selu's outputs.
    AlphaDropout |x, p, training| x.alpha_dropout(p, training);
    /// [`AlphaDropout`] of whole channels.
    FeatureAlphaDropout |x, p, training| x.feature_alpha_dropout(p, training);
}

type Drops = fn(&Tensor, f64, bool) -> Result<Tensor>;

/// Without a batch, a batch of one.
#[track_caller]
fn channels(x: &Tensor, d: usize, p: f64, training: bool, drops: Drops) -> Result<Tensor> {
    if x.rank() == d + 1 { drops(&x.unsqueeze(0)?, p, training)?.squeeze(0) } else { drops(x, p, training) }
}
