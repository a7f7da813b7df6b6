//! What is done to an output while it is still in the cache: scale, bias, residual, activation.

use crate::simd::Simd;
use std::fmt;
use std::ops::Range;

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
/// scale and a bias); for a matrix product one a column. `residual` has the output's shape, and
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
    /// Applied to that.
    pub activation: Activation,
    /// Called with what is finished so far.
    pub then: Option<Then<'a>>,
}

/// A function that gets every stretch of a finished output once, in the cache, on any thread: the
/// row it lies in (a channel's plane of a convolution, the row of a product), its columns there
/// (positions of the plane), and the numbers, which it may change.
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity)]
pub struct Then<'a>(pub &'a (dyn Fn(usize, Range<usize>, &mut [f32]) + Sync));

impl fmt::Debug for Then<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then(..)")
    }
}

impl Epilogue<'_> {
    /// Whether there is nothing to do.
    pub fn is_none(&self) -> bool {
        self.scale.is_none()
            && self.bias.is_none()
            && self.residual.is_none()
            && matches!(self.activation, Activation::None)
            && self.then.is_none()
    }

    /// Whether all there is to do is to call [`Epilogue::then`].
    pub(crate) fn is_only_then(&self) -> bool {
        Epilogue { then: None, ..*self }.is_none()
    }

    /// Calls `then` with columns of a row.
    ///
    /// # Safety
    ///
    /// `at` points to them, and nobody else uses them.
    pub(crate) unsafe fn call(&self, row: usize, columns: Range<usize>, at: *mut f32) {
        if let Some(Then(f)) = self.then {
            // SAFETY: by the caller's promise.
            let part = unsafe { std::slice::from_raw_parts_mut(at, columns.len()) };
            f(row, columns, part);
        }
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

    /// Finishes a vector of `n` outputs of one row, the first being of column `column` and
    /// element `at` of the output.
    ///
    /// # Safety
    ///
    /// As [`Epilogue::channel`].
    #[inline(always)]
    pub(crate) unsafe fn columns<S: Simd>(&self, x: S::V, column: usize, at: usize, n: usize) -> S::V {
        // SAFETY: as above.
        unsafe {
            let mut x = x;
            if let Some(s) = self.scale {
                x = S::mul(x, S::load_first(s.as_ptr().add(column), n));
            }
            if let Some(b) = self.bias {
                x = S::add(x, S::load_first(b.as_ptr().add(column), n));
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
                // `max` gives its second argument where one is NaN; adding zero makes one of a negative zero.
                Activation::Relu => S::add(S::max(S::zero(), x), S::zero()),
                Activation::LeakyRelu(slope) => {
                    let (up, down) = (S::max(S::zero(), x), S::max(S::zero(), S::sub(S::zero(), x)));
                    S::fnma(S::splat(slope), down, up)
                }
            }
        }
    }
}
