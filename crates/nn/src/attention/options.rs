//! Settings of attention.

use crate::parts::parts_plain;

/// Settings of [`crate::MultiheadAttention`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiheadAttentionOptions {
    /// The probability of dropping a weight while training.
    pub dropout: f64,
    /// Whether projections have biases.
    pub bias: bool,
    /// One more key and value, learned, at the end.
    pub add_bias_kv: bool,
    /// One more key and value of zeros at the end.
    pub add_zero_attn: bool,
    /// The size of keys, if not that of queries.
    pub kdim: Option<usize>,
    /// The size of values, if not that of queries.
    pub vdim: Option<usize>,
    /// Inputs and outputs are `[n, l, e]` rather than `[l, n, e]`.
    pub batch_first: bool,
}
parts_plain!(MultiheadAttentionOptions);

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        MultiheadAttentionOptions {
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: None,
            vdim: None,
            batch_first: false,
        }
    }
}
