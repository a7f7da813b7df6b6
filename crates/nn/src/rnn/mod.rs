//! Recurrent layers: plain, LSTM and GRU, stacked and in both directions.
//!
//! The inputs of all steps are projected by one matrix product before the loop; a step is then one matrix product for all
//! gates and elementwise work, which fuses. The loop is unrolled in the graph: a step costs nodes, and no more.

mod cell;
mod layers;
mod run;
mod step;
mod weights;

pub use cell::{GruCell, LstmCell, RnnCell};
pub use layers::{Gru, Lstm, Rnn};
pub use step::Nonlinearity;

/// Settings of a recurrent layer, with PyTorch's defaults.
///
/// ```
/// use gradus_nn::RnnOptions;
/// let options = RnnOptions { num_layers: 2, batch_first: true, ..Default::default() };
/// assert!(options.bias && !options.bidirectional);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RnnOptions {
    /// Layers on top of each other.
    pub num_layers: usize,
    /// Whether gates have biases.
    pub bias: bool,
    /// Inputs and outputs are `[n, t, ..]` rather than `[t, n, ..]`; states are `[layers, n, ..]` in both cases.
    pub batch_first: bool,
    /// The probability of dropping an output of a layer (but the last) while training.
    pub dropout: f64,
    /// A second pass from the end to the start, whose outputs stand beside those of the first.
    pub bidirectional: bool,
    /// Outputs and hidden states are projected to this size (LSTM alone); 0 means not at all.
    pub proj_size: usize,
}

impl Default for RnnOptions {
    fn default() -> RnnOptions {
        RnnOptions { num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false, proj_size: 0 }
    }
}
