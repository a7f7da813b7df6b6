//! Multi-head attention, the cache that makes decoding cheap, and positions.

mod cache;
mod mask;
mod multihead;
mod options;
mod position;

pub use cache::KvCache;
pub use mask::{AttentionMasks, causal_mask};
pub use multihead::MultiheadAttention;
pub use options::MultiheadAttentionOptions;
pub use position::{RotaryEmbedding, RotaryLayout, SinusoidalPosition};
