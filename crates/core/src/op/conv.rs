//! Convolution and its two gradients: three bilinear maps, each the adjoint of another.

use crate::Shape;
use smallvec::SmallVec;

/// Stride, padding, dilation and groups of a convolution over 1 to 3 spatial axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvParams {
    /// Step between windows, one a spatial axis.
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros before and after each spatial axis.
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// Distance between the elements of a window.
    pub dilation: SmallVec<[usize; 3]>,
    /// Channels are split into this many independent convolutions.
    pub groups: usize,
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvKind {
    /// `(input, weight) -> output`.
    Forward,
    /// `(output gradient, weight) -> input gradient`: a transposed convolution.
    InputGrad,
    /// `(output gradient, input) -> weight gradient`.
    WeightGrad,
}

/// A convolution node: the three tensors' shapes are known to each of the three kinds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Which of the three maps.
    pub kind: ConvKind,
    /// Its geometry.
    pub params: ConvParams,
    /// `[n, c, spatial..]`.
    pub input: Shape,
    /// `[o, c / groups, window..]`.
    pub weight: Shape,
    /// `[n, o, spatial..]`.
    pub output: Shape,
}

impl Conv {
    /// The name graphs show.
    pub fn name(&self) -> &'static str {
        match self.kind {
            ConvKind::Forward => "conv",
            ConvKind::InputGrad => "conv_input_grad",
            ConvKind::WeightGrad => "conv_weight_grad",
        }
    }

    /// The shape this node makes.
    pub fn shape(&self) -> &Shape {
        match self.kind {
            ConvKind::Forward => &self.output,
            ConvKind::InputGrad => &self.input,
            ConvKind::WeightGrad => &self.weight,
        }
    }

    /// The same geometry under another kind.
    pub fn with_kind(&self, kind: ConvKind) -> Conv {
        Conv { kind, ..self.clone() }
    }

    /// Multiply-adds times two.
    pub fn flops(&self) -> u64 {
        2 * self.output.numel() as u64 * self.weight[1..].iter().product::<usize>() as u64
    }
}
