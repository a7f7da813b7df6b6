//! What networks are made of: activations, normalisation, convolution, attention, losses.

pub(crate) mod activation;
pub(crate) mod adaptive;
pub(crate) mod attention;
mod bins;
pub(crate) mod conv;
mod conv_product;
pub(crate) mod ctc;
pub(crate) mod distance;
pub(crate) mod dropout;
pub(crate) mod embedding;
mod flash;
pub(crate) mod grid;
pub(crate) mod layout;
pub(crate) mod loss;
pub(crate) mod loss_class;
pub(crate) mod loss_metric;
pub(crate) mod multihead;
pub(crate) mod norm;
mod norm_grad;
pub(crate) mod patches;
pub(crate) mod pool;
mod recurrent;
pub(crate) mod resize;
mod resize_taps;
pub(crate) mod sizes;
pub(crate) mod softmax;
pub(crate) mod window;
