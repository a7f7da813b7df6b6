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

/// A convolution node: the three tensors' shapes are known to each of the three kinds. They are stated with the channels
/// first, however the elements lie.
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
    /// Whether operands and result lie with their channels (the weight's second axis) last.
    pub channels_last: bool,
}

/// A shape with its second axis last.
fn last(s: &Shape) -> Shape {
    s[..1].iter().chain(&s[2..]).chain(&s[1..2]).copied().collect()
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
    pub fn shape(&self) -> Shape {
        let s = match self.kind {
            ConvKind::Forward => &self.output,
            ConvKind::InputGrad => &self.input,
            ConvKind::WeightGrad => &self.weight,
        };
        if self.channels_last { last(s) } else { s.clone() }
    }

    /// The shapes of its first operand, its second and its result, channels first.
    pub fn operands(&self) -> [&Shape; 3] {
        match self.kind {
            ConvKind::Forward => [&self.input, &self.weight, &self.output],
            ConvKind::InputGrad => [&self.output, &self.weight, &self.input],
            ConvKind::WeightGrad => [&self.output, &self.input, &self.weight],
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
