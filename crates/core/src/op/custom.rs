//! Operations a user brings, with their own gradient.

use crate::{DType, Element, Result, Shape, Tensor};

/// A contiguous array in host memory, as custom operations and library routines see it.
pub struct Array<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// The elements' bytes, aligned for their type.
    pub bytes: &'a [u8],
}

impl Array<'_> {
    /// The elements, if `T` is their type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        (T::DTYPE == self.dtype).then(|| {
            // SAFETY: buffers are aligned to 64 bytes, hold `numel` initialised elements of this type, and bools are
            // 0 or 1; any bit pattern is a number.
            unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.shape.numel()) }
        })
    }
}

/// An operation with its own arithmetic and its own gradient.
///
/// Make it once and share the `Arc`: plans are cached by the operation's identity, so one made anew in every step is
/// planned anew in every step.
pub trait CustomOp: Send + Sync {
    /// The name graphs and errors show.
    fn name(&self) -> &str;

    /// Shape and type of the result, or why these inputs do not fit.
    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)>;

    /// Computes the result into `out`: `numel` elements of the output's type, as bytes.
    fn forward(&self, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()>;

    /// The gradient for each input, as tensors, so that it can be differentiated
    /// again. `None` is for inputs without a gradient (integers): where one is wanted, it is an error that names this
    /// operation, and zeros say that the result does not depend on that input. The default says that there is no gradient: asking for one is then an error that names this operation.
    fn vjp(&self, grad: &Tensor, output: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let _ = (grad, output, inputs);
        Err(crate::Error::new(
            self.name(),
            crate::ErrorKind::Gradient("this custom operation defines no gradient".into()),
        ))
    }
}

/// The backward pass of a composite function (see [`crate::grad::custom_vjp`]).
pub trait VjpRule: Send + Sync {
    /// The name graphs and errors show.
    fn name(&self) -> &str;

    /// The gradient for each input, as [`CustomOp::vjp`].
    fn vjp(&self, grad: &Tensor, output: &Tensor, inputs: &[Tensor]) -> Result<Vec<Option<Tensor>>>;
}
