//! The function between the two linear layers.

use gradus_core::Tensor;

/// The function between the two linear layers of a transformer layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedForwardActivation {
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// `x` times the normal distribution function of `x`.
    Gelu,
    /// Gelu approximated with tanh, as GPT-2 has it.
    GeluTanh,
    /// `x sigmoid(x)`.
    Silu,
}
crate::parts::parts_plain!(FeedForwardActivation);

impl FeedForwardActivation {
    #[track_caller]
    pub(crate) fn apply(self, x: &Tensor) -> Tensor {
        match self {
            FeedForwardActivation::Relu => x.relu(),
            FeedForwardActivation::Gelu => x.gelu(),
            FeedForwardActivation::GeluTanh => x.gelu_tanh(),
            FeedForwardActivation::Silu => x.silu(),
        }
    }
}
