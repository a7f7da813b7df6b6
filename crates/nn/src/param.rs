//! Parameters, buffers, and the switch between training and evaluation.

use crate::part::{Found, Part, Variable, Visitor};
use gradus_core::{Operand, Result, Tensor, op::ewise::Ewise};
use std::{
    fmt,
    ops::{Add, Deref, Div, Mul, Neg, Sub},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// A new variable, computed now where that is possible: random weights are drawn when a model is made.
#[track_caller]
pub(crate) fn variable(init: Tensor) -> Tensor {
    let init = init.resolve().detach();
    // What cannot be computed says so again when it is read.
    let _ = init.eval();
    init.requires_grad_()
}

/// Whether gradients are kept for a variable; they never are for integers.
pub(crate) fn track(variable: &Tensor, on: bool) {
    // It is a variable, and of floats: neither of the two reasons to refuse.
    let _ = variable.set_requires_grad(on && variable.dtype().is_float());
}

/// A tensor that is trained: a variable of its own. It reads as the tensor it holds.
///
/// A clone is the same parameter (weights that two layers share), not a copy.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::Param;
/// let scale = Param::new(Tensor::from([2.0f32, 3.0]));
/// let y = (Tensor::from([1.0f32, 1.0]) * &scale).sum();
/// assert_eq!(y.backward()?.wrt(&scale)?.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Param(Tensor);

impl Param {
    /// A parameter that starts as `init`.
    #[track_caller]
    pub fn new(init: impl Into<Tensor>) -> Param {
        Param(variable(init.into()))
    }

    /// The variable itself, as optimizers want it.
    pub fn variable(&self) -> Tensor {
        self.0.clone()
    }

    /// Whether gradients are kept for it.
    pub fn set_trainable(&self, on: bool) {
        track(&self.0, on);
    }

    /// Whether gradients are kept for it.
    pub fn is_trainable(&self) -> bool {
        self.0.requires_grad()
    }
}

impl Deref for Param {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl From<Tensor> for Param {
    #[track_caller]
    fn from(init: Tensor) -> Param {
        Param::new(init)
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Param({} {})", self.dtype(), self.shape())
    }
}

impl Part for Param {
    fn visit(&self, v: &mut Visitor<'_>) {
        v.found(Found::Param(self));
    }
    fn update(&mut self, f: &mut dyn FnMut(&mut Variable<'_>)) {
        f(&mut Variable { tensor: &mut self.0 });
    }
}

/// A tensor that belongs to the model and is not trained: running statistics, tables. It reads as the tensor it holds,
/// and `set` gives it a new content.
pub struct Buffer {
    tensor: Tensor,
    persistent: bool,
}

impl Buffer {
    /// A buffer that is saved with the model.
    #[track_caller]
    pub fn new(init: impl Into<Tensor>) -> Buffer {
        let tensor = variable(init.into());
        track(&tensor, false);
        Buffer { tensor, persistent: true }
    }

    /// A buffer that can be made again, and is not saved.
    #[track_caller]
    pub fn temporary(init: impl Into<Tensor>) -> Buffer {
        Buffer { persistent: false, ..Buffer::new(init) }
    }

    /// The variable itself.
    pub fn variable(&self) -> Tensor {
        self.tensor.clone()
    }

    /// Whether it is saved with the model.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }
}

impl Deref for Buffer {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl From<Tensor> for Buffer {
    #[track_caller]
    fn from(init: Tensor) -> Buffer {
        Buffer::new(init)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} {})", self.tensor.dtype(), self.tensor.shape())
    }
}

impl Part for Buffer {
    fn visit(&self, v: &mut Visitor<'_>) {
        v.found(Found::Buffer(self));
    }
    fn update(&mut self, f: &mut dyn FnMut(&mut Variable<'_>)) {
        f(&mut Variable { tensor: &mut self.tensor });
    }
}

/// Whether a layer is being trained. A field of this type is switched by `train()` and `eval()` of the model around it.
///
/// ```
/// use gradus_core::{Result, Tensor};
/// use gradus_nn::{Mode, Module};
///
/// #[derive(Module)]
/// struct Noise {
///     mode: Mode,
/// }
///
/// let noise = Noise { mode: Mode::default() };
/// assert!(noise.mode.is_training());
/// noise.eval();
/// assert!(!noise.mode.is_training());
/// ```
pub struct Mode(AtomicBool);

impl Mode {
    /// Whether it is being trained.
    pub fn is_training(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Switches it.
    pub fn set(&self, training: bool) {
        if self.0.swap(training, Relaxed) != training {
            // Compiled functions that use the layer do something else from here on.
            gradus_core::replay::outdate();
        }
    }
}

impl Default for Mode {
    /// Training.
    fn default() -> Mode {
        Mode(AtomicBool::new(true))
    }
}

impl Part for Mode {
    fn visit(&self, v: &mut Visitor<'_>) {
        v.found(Found::Mode(self));
    }
    fn update(&mut self, _: &mut dyn FnMut(&mut Variable<'_>)) {}
}

// Operators do not look through `Deref`: both types stand wherever a tensor does.
macro_rules! operators {
    ($($t:ty: $($trait:ident $method:ident),*;)*) => {$(
        impl Operand for $t {
            #[track_caller]
            fn apply(&self, row: &'static Ewise, a: &Tensor, swapped: bool) -> Result<Tensor> {
                Operand::apply(&***self, row, a, swapped)
            }
            fn tensor(&self, _: &Tensor) -> Tensor {
                (**self).variable()
            }
        }
        impl Neg for $t {
            type Output = Tensor;
            #[track_caller]
            fn neg(self) -> Tensor { Neg::neg(&**self) }
        }
        $(impl<O: Operand> $trait<O> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor { $trait::$method(&**self, other) }
        })*
    )*};
}
operators! {
    &Param: Add add, Sub sub, Mul mul, Div div;
    &Buffer: Add add, Sub sub, Mul mul, Div div;
}
