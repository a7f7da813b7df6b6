//! What is done to an output while it is still in the cache: scale, bias, residual, activation.

use crate::simd::Simd;

/// The function at the end of an [`Epilogue`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// `x`
    #[default]
    None,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `x` where it is positive, `slope * x` elsewhere.
    LeakyRelu(f32),
}

/// `y = activation(scale * x + bias + residual)`, fused into the kernel that makes `x`.
///
/// For a convolution, `scale` and `bias` have one number a channel (a batch norm at inference is a
/// scale and a bias). `residual` has the output's shape, and
/// all of it is contiguous.
///
/// ```
/// use gradus_numerics::{Activation, Epilogue};
/// let bias = [0.5, -0.5];
/// let e = Epilogue { bias: Some(&bias), activation: Activation::Relu, ..Epilogue::default() };
/// assert!(!e.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// Factors.
    pub scale: Option<&'a [f32]>,
    /// Terms.
    pub bias: Option<&'a [f32]>,
    /// Added elementwise.
    pub residual: Option<&'a [f32]>,
    /// Applied last.
    pub activation: Activation,
}

impl Epilogue<'_> {
    /// Whether there is nothing to do.
    pub fn is_none(&self) -> bool {
        self.scale.is_none()
            && self.bias.is_none()
            && self.residual.is_none()
            && matches!(self.activation, Activation::None)
    }

    /// Asserts that all parts have the sizes of an output of `len` elements with `channels`.
    pub(crate) fn check(&self, channels: usize, len: usize) {
        // Raw pointers are made of these: kept in release builds.
        assert!(self.scale.is_none_or(|s| s.len() == channels), "one scale a channel");
        assert!(self.bias.is_none_or(|b| b.len() == channels), "one bias a channel");
        assert!(self.residual.is_none_or(|r| r.len() == len), "the residual has the output's size");
    }

    /// Finishes a vector of `n` outputs of one channel, the first being element `at` of the output.
    ///
    /// # Safety
    ///
    /// The sizes were checked, and `S`'s instructions are there.
    #[inline(always)]
    pub(crate) unsafe fn channel<S: Simd>(&self, x: S::V, channel: usize, at: usize, n: usize) -> S::V {
        // SAFETY: the channel and `at..at + n` are inside the checked sizes.
        unsafe {
            let mut x = x;
            if let Some(s) = self.scale {
                x = S::mul(x, S::splat(*s.get_unchecked(channel)));
            }
            if let Some(b) = self.bias {
                x = S::add(x, S::splat(*b.get_unchecked(channel)));
            }
            self.finish::<S>(x, at, n)
        }
    }

    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, mut x: S::V, at: usize, n: usize) -> S::V {
        // SAFETY: as above.
        unsafe {
            if let Some(r) = self.residual {
                x = S::add(x, S::load_first(r.as_ptr().add(at), n));
            }
            match self.activation {
                Activation::None => x,
                // `max` gives its second argument where one is NaN.
                Activation::Relu => S::max(S::zero(), x),
                Activation::LeakyRelu(slope) => {
                    let (up, down) = (S::max(S::zero(), x), S::max(S::zero(), S::sub(S::zero(), x)));
                    S::fnma(S::splat(slope), down, up)
                }
            }
        }
    }
}
