//! Convolution and transposed convolution over one to three spatial axes.

use super::layout;
use crate::api::{same_device, sizes::Sizes};
use crate::{
    DType, Error, Result, Shape, Tensor,
    op::{Conv, ConvKind, ConvParams},
};
use smallvec::SmallVec;

type Extents = SmallVec<[usize; 3]>;

/// Zeros around the spatial axes of a convolution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// So many on each side.
    Zeros(Sizes),
    /// As many as keep the spatial extents (the stride must be 1); an odd one goes to the end.
    Same,
    /// None.
    Valid,
}

impl<S: Into<Sizes>> From<S> for Padding {
    fn from(n: S) -> Padding {
        Padding::Zeros(n.into())
    }
}

/// Options of a convolution.
///
/// ```
/// use gradus_core::{ConvOptions, Padding};
/// let o = ConvOptions { stride: 2.into(), padding: 1.into(), ..Default::default() };
/// assert_eq!(o.padding, Padding::Zeros(1.into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvOptions {
    /// Step between windows.
    pub stride: Sizes,
    /// Zeros around the input.
    pub padding: Padding,
    /// Distance between the elements of a window.
    pub dilation: Sizes,
    /// Channels are split into this many independent convolutions.
    pub groups: usize,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: 1.into(), padding: 0.into(), dilation: 1.into(), groups: 1 }
    }
}

/// Options of a transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvTransposeOptions {
    /// Distance between the windows that are added up.
    pub stride: Sizes,
    /// Elements cut off each side of the result.
    pub padding: Sizes,
    /// Elements added to the end of the result, where the stride leaves its extent open.
    pub output_padding: Sizes,
    /// Channels are split into this many independent convolutions.
    pub groups: usize,
    /// Distance between the elements of a window.
    pub dilation: Sizes,
}

impl Default for ConvTransposeOptions {
    fn default() -> ConvTransposeOptions {
        let (zero, one) = (Sizes::from(0), Sizes::from(1));
        ConvTransposeOptions {
            stride: one.clone(),
            padding: zero.clone(),
            output_padding: zero,
            groups: 1,
            dilation: one,
        }
    }
}

macro_rules! conv_methods {
    ($($d:literal $conv:ident $transpose:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("Convolution of `[n, c, ..]` (or `[c, ..]`) over ", $d, " spatial axes with a weight `[o, c / groups, ..]`.")]
            #[track_caller]
            pub fn $conv(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Result<Tensor> {
                convolve(stringify!($conv), $d, self, weight, bias, &options)
            }

            #[doc = concat!("Transposed convolution of `[n, c, ..]` (or `[c, ..]`) over ", $d, " spatial axes with a weight `[c, o / groups, ..]`.")]
            #[track_caller]
            pub fn $transpose(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                options: ConvTransposeOptions,
            ) -> Result<Tensor> {
                transpose(stringify!($transpose), $d, self, weight, bias, &options)
            }
        )*}
    };
}
conv_methods! {
    1 conv1d conv_transpose1d;
    2 conv2d conv_transpose2d;
    3 conv3d conv_transpose3d;
}

/// Operands that were checked, in the type the work is done in, with a batch axis.
struct Operands {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    batched: bool,
    dtype: DType,
}

impl Operands {
    #[track_caller]
    fn check(op: &str, d: usize, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Operands> {
        let (x, weight, bias) = (&x.low(), &weight.low(), bias.map(Tensor::low));
        let bias = bias.as_ref();
        let all: Vec<&Tensor> = [x, weight].into_iter().chain(bias).collect();
        let blame = |e: Error| all.iter().fold(e, |e, t| e.operand(t));
        same_device(op, &all)?;
        let batched = x.rank() == d + 2;
        if !(batched || x.rank() == d + 1) || weight.rank() != d + 2 {
            let why = format!(
                "takes an input of {} or {} axes and a weight of {}, not {} and {}",
                d + 1,
                d + 2,
                d + 2,
                x.shape(),
                weight.shape()
            );
            return Err(blame(Error::shape(op, &[x.shape(), weight.shape()], why)));
        }
        let dtype = x.dtype();
        if let Some(t) = all.iter().find(|t| t.dtype() != dtype) {
            let why = format!("element types differ: {dtype} and {}", t.dtype());
            return Err(blame(Error::dtype(op, &[dtype, t.dtype()], why)).hint("convert one of them with to_dtype"));
        }
        if weight.dims()[2..].contains(&0) {
            let why = format!("the weight {} has an empty window", weight.shape());
            return Err(blame(Error::shape(op, &[x.shape(), weight.shape()], why)));
        }
        let work = match dtype {
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 => dtype,
            // Exact as long as sums stay below 2^53.
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => DType::F64,
            DType::Bool => return Err(blame(Error::dtype(op, &[dtype], "takes numbers, not bool"))),
        };
        let x = if batched { x.resolve() } else { x.reshape_to(&x.shape().inserted(0, 1)) };
        let bias = bias.map(|b| b.to_dtype(work));
        Ok(Operands { x: x.to_dtype(work), weight: weight.to_dtype(work), bias, batched, dtype })
    }

    #[track_caller]
    fn fail(&self, op: &str, why: String) -> Error {
        Error::shape(op, &[self.x.shape(), self.weight.shape()], why).operand(&self.x).operand(&self.weight)
    }

    /// The result with its bias, in the type and rank of the input.
    #[track_caller]
    fn finish(&self, op: &str, y: Tensor) -> Result<Tensor> {
        let o = y.dims()[1];
        let y = match &self.bias {
            Some(b) => {
                if b.rank() != 1 || b.dims()[0] != o {
                    let why = format!("a bias of shape {} does not fit {o} output channels", b.shape());
                    return Err(self.fail(op, why).operand(b));
                }
                match layout::with_bias(&y, b) {
                    Some(y) => y?,
                    None => {
                        let mut shape = Shape::from(vec![1; y.rank()]);
                        shape.0[1] = o;
                        y.add(b.reshape_to(&shape))?
                    }
                }
            }
            None => y,
        };
        let y = if self.batched { y } else { y.reshape_to(&y.shape().without(0)) };
        Ok(y.to_dtype(self.dtype))
    }
}

/// Groups that divide the channels of the weight's first axis.
#[track_caller]
fn check_groups(op: &str, o: &Operands, groups: usize, channels: usize, what: &str) -> Result<()> {
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(o.fail(op, format!("{groups} groups do not divide {channels} {what} channels")));
    }
    Ok(())
}

/// Elements from the first to the last of a window, saturating.
fn reach(window: usize, dilation: usize) -> usize {
    dilation.saturating_mul(window.saturating_sub(1)).saturating_add(1)
}

#[track_caller]
fn convolve(
    op: &str,
    d: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
) -> Result<Tensor> {
    let t = Operands::check(op, d, x, weight, bias)?;
    let stride = options.stride.spread_positive(op, "stride", d)?;
    let dilation = options.dilation.spread_positive(op, "dilation", d)?;
    let (c, o, per_group) = (t.x.dims()[1], t.weight.dims()[0], t.weight.dims()[1]);
    let groups = options.groups;
    check_groups(op, &t, groups, o, "output")?;
    if per_group.checked_mul(groups) != Some(c) {
        let need = per_group.saturating_mul(groups);
        let why = format!(
            "the input {} has {c} channels, a weight {} in {groups} groups takes {need} ({c} vs {need})",
            t.x.shape(),
            t.weight.shape()
        );
        return Err(t.fail(op, why));
    }
    let (spatial, window) = (&t.x.dims()[2..], &t.weight.dims()[2..]);
    let padding: SmallVec<[(usize, usize); 3]> = match &options.padding {
        Padding::Zeros(p) => p.spread(op, "padding", d)?.iter().map(|&p| (p, p)).collect(),
        Padding::Valid => SmallVec::from_elem((0, 0), d),
        Padding::Same if stride.iter().any(|&s| s != 1) => {
            let why = format!("padding \"same\" needs a stride of 1, not {:?}", &stride[..]);
            return Err(Error::value(op, why).operand(&t.x));
        }
        Padding::Same => (0..d).map(|a| reach(window[a], dilation[a]) - 1).map(|p| (p / 2, p - p / 2)).collect(),
    };
    let mut shape = Shape::from([t.x.dims()[0], o]);
    for a in 0..d {
        let padded = spatial[a].saturating_add(padding[a].0).saturating_add(padding[a].1);
        let reach = reach(window[a], dilation[a]);
        if reach > padded || padded > isize::MAX as usize / 16 {
            let why = format!(
                "a window of {} (dilation {}) reaches over {reach} elements of axis {a}, \
                 and the input has {} with padding {:?}: {padded}",
                window[a], dilation[a], spatial[a], padding[a]
            );
            return Err(t.fail(op, why));
        }
        shape.0.push((padded - reach) / stride[a] + 1);
    }
    let conv = Conv {
        kind: ConvKind::Forward,
        params: ConvParams { stride, padding, dilation, groups },
        input: t.x.shape().clone(),
        weight: t.weight.shape().clone(),
        output: shape,
        channels_last: false,
    };
    t.finish(op, layout::node(conv, &t.x, &t.weight)?)
}

/// The adjoint of a convolution. The part of its padding that the extra output elements do not take back is given to
/// the adjoint; what they need beyond that is zeros.
#[track_caller]
fn transpose(
    op: &str,
    d: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions,
) -> Result<Tensor> {
    let t = Operands::check(op, d, x, weight, bias)?;
    let stride = options.stride.spread_positive(op, "stride", d)?;
    let dilation = options.dilation.spread_positive(op, "dilation", d)?;
    let padding = options.padding.spread(op, "padding", d)?;
    let extra = options.output_padding.spread(op, "output_padding", d)?;
    let (c, taken, per_group) = (t.x.dims()[1], t.weight.dims()[0], t.weight.dims()[1]);
    let groups = options.groups;
    check_groups(op, &t, groups, c, "input")?;
    if taken != c {
        let why = format!(
            "the input {} has {c} channels, the weight {} takes {taken} ({c} vs {taken})",
            t.x.shape(),
            t.weight.shape()
        );
        return Err(t.fail(op, why));
    }
    let (spatial, window) = (&t.x.dims()[2..], &t.weight.dims()[2..]);
    let mut shape = Shape::from([t.x.dims()[0], per_group.saturating_mul(groups)]);
    let mut pads: SmallVec<[(usize, usize); 3]> = SmallVec::new();
    let mut lengths = Extents::new();
    for a in 0..d {
        let (s, p, e) = (stride[a], padding[a], extra[a]);
        if e >= s.max(dilation[a]) {
            let why = format!(
                "output_padding {e} of axis {a} must be smaller than its stride {s} or its dilation {}",
                dilation[a]
            );
            return Err(Error::value(op, why).operand(&t.x));
        }
        let full = spatial[a].saturating_sub(1).saturating_mul(s).saturating_add(reach(window[a], dilation[a]));
        let length = full.saturating_add(e).checked_sub(p.saturating_mul(2)).filter(|&n| n > 0 && spatial[a] > 0);
        let Some(length) = length.filter(|&n| n < isize::MAX as usize / 16) else {
            let why = format!(
                "axis {a} would have {full} + {e} - 2 * {p} elements (extent {}, stride {s}, window {})",
                spatial[a], window[a]
            );
            return Err(t.fail(op, why));
        };
        pads.push(if e <= p { (p, p - e) } else { (0, 0) });
        shape.0.push(if e <= p { length } else { full });
        lengths.push(length);
    }
    let conv = Conv {
        kind: ConvKind::InputGrad,
        params: ConvParams { stride, padding: pads, dilation, groups },
        input: shape,
        weight: t.weight.shape().clone(),
        output: t.x.shape().clone(),
        channels_last: false,
    };
    let mut y = layout::node(conv, &t.x, &t.weight)?;
    for a in (0..d).filter(|&a| extra[a] > padding[a]) {
        y = y.pad_axis(a + 2, 0, extra[a])?.sliced(a + 2, padding[a], 1, lengths[a]);
    }
    t.finish(op, y)
}
