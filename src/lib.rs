#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub use gradus_core::*;
pub use gradus_cuda as cuda;
pub use gradus_data as data;
pub use gradus_io as io;
pub use gradus_optim as optim;
pub use gradus_scalar as scalar;
pub use gradus_train as train;

/// Modules, layers, initialisers and losses.
///
/// ```
/// use gradus::prelude::*;
///
/// #[derive(Module)]
/// struct Mlp {
///     hidden: nn::Linear,
///     out: nn::Linear,
/// }
///
/// impl Mlp {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.out.forward(&self.hidden.forward(x)?.relu())
///     }
/// }
///
/// let model = Mlp { hidden: nn::Linear::new(4, 8), out: nn::Linear::new(8, 2) };
/// let mut opt = Adam::new(&model.parameters(), 1e-2);
/// let (x, y) = (Tensor::randn([16, 4]), Tensor::randint(0, 2, [16], DType::I64)?);
/// let loss = model.forward(&x)?.cross_entropy(&y)?;
/// opt.step(&loss.backward()?)?;
/// # Ok::<(), gradus::Error>(())
/// ```
pub mod nn {
    // The derive that names this crate: users of the facade need no other.
    pub use gradus_derive::FacadeModule as Module;
    pub use gradus_nn::*;
}

/// What most programs want in scope.
pub mod prelude {
    pub use crate::nn::{self, Layer, Module};
    pub use gradus_core::{
        DType, Device, Element, NewAxis, Result, Scalar, Shape, Tensor, compile, manual_seed, no_grad, s,
    };
    pub use gradus_cuda::CudaDevice;
    pub use gradus_io::{StateDict, Stateful};
    pub use gradus_optim::{Adam, AdamW, LrScheduler, Optimizer, Schedule, Sgd};
    pub use gradus_scalar::{constant, var};
    pub use gradus_train::{Checkpoint, Checkpoints, Trainer};
}
