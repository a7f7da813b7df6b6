//! Padding, and the shuffles between channels and pixels.

use crate::{
    Error, Result, Scalar, Shape, Tensor,
    api::layout,
    op::{HostOp, Op},
};
use gradus_numerics::border::{Axis, Border, Edge};
use smallvec::SmallVec;
use std::{panic::Location, sync::Arc};

/// What [`Tensor::pad`] puts around a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This number.
    Constant(f64),
    /// The elements mirrored at the edge, which is not repeated.
    Reflect,
    /// The edge.
    Replicate,
    /// The elements from the other end.
    Circular,
}

impl Tensor {
    /// Padding as PyTorch counts it: (before, after) pairs from the *last* axis on; negative amounts crop.
    ///
    /// ```
    /// use gradus_core::{PadMode, Tensor};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.pad(&[1, -1], PadMode::Constant(7.0)).unwrap().to_vec::<i32>().unwrap(), [7, 1, 2]);
    /// assert_eq!(x.pad(&[2, 1], PadMode::Reflect).unwrap().to_vec::<i32>().unwrap(), [3, 2, 1, 2, 3, 2]);
    /// ```
    #[track_caller]
    pub fn pad(&self, amounts: &[i64], mode: PadMode) -> Result<Tensor> {
        if !amounts.len().is_multiple_of(2) || amounts.len() / 2 > self.rank() {
            let why =
                format!("{} amounts are not pairs for the {} axes of {}", amounts.len(), self.rank(), self.shape());
            return Err(Error::value("pad", why).operand(self));
        }
        let mut pairs: SmallVec<[(i64, i64); 6]> = SmallVec::from_elem((0, 0), self.rank());
        for (k, p) in amounts.chunks_exact(2).enumerate() {
            let a = self.rank() - 1 - k;
            pairs[a] = (p[0], p[1]);
            let n = self.dims()[a] as i128 + p[0] as i128 + p[1] as i128;
            let far = |x: i64| x.unsigned_abs() > isize::MAX as u64 / 16;
            if n < 0 || n > isize::MAX as i128 / 16 || far(p[0]) || far(p[1]) {
                let why = format!("{} and {} around axis {a} of {} leave an extent of {n}", p[0], p[1], self.shape());
                return Err(Error::value("pad", why).operand(self));
            }
        }
        let beneath = layout::beneath(&[self.resolve()], Location::caller(), |under, order| {
            let mut there = pairs.clone();
            order.iter().zip(&pairs).for_each(|(&to, &p)| there[to] = p);
            under[0].padded(&there, mode)
        });
        beneath.unwrap_or_else(|| self.padded(&pairs, mode))
    }

    /// So many before and after each axis.
    #[track_caller]
    fn padded(&self, pairs: &[(i64, i64)], mode: PadMode) -> Result<Tensor> {
        match mode {
            PadMode::Constant(value) => self.pad_constant(pairs, Scalar::F(value)),
            PadMode::Reflect | PadMode::Replicate | PadMode::Circular => {
                if let Some(out) = self.bordered(pairs, mode)? {
                    return Ok(out);
                }
                let mut out = self.resolve();
                for (a, &(before, after)) in pairs.iter().enumerate() {
                    out = out.pad_from_itself(a, before, after, mode)?;
                }
                Ok(out)
            }
        }
    }

    /// A constant around it; where the constant is not 0, a mask of the same padding says which is which.
    #[track_caller]
    fn pad_constant(&self, pairs: &[(i64, i64)], value: Scalar) -> Result<Tensor> {
        let zero = value.f64() == 0.0 && value.f64().is_sign_positive();
        if !zero && let Some(out) = self.bordered(pairs, PadMode::Constant(value.f64()))? {
            return Ok(out);
        }
        let mut x = self.resolve();
        for (a, &(before, after)) in pairs.iter().enumerate() {
            let n = x.dims()[a] as i64;
            // What is cropped away may be more than there is, when the other side grows.
            let from = (-before).clamp(0, n);
            let to = (n + after.min(0)).clamp(from, n);
            x = x.sliced(a, from as usize, 1, (to - from) as usize);
        }
        let mut grow: SmallVec<[(usize, usize); 6]> = SmallVec::new();
        for (a, &(before, after)) in pairs.iter().enumerate() {
            let total = (self.dims()[a] as i64 + before + after) as usize;
            let lead = (before.max(0) as usize).min(total - x.dims()[a]);
            grow.push((lead, total - x.dims()[a] - lead));
        }
        let padded = x.pad_zeros(grow.clone())?;
        if zero {
            return Ok(padded);
        }
        let inside = Tensor::full_on(x.shape().clone(), Scalar::B(true), crate::DType::Bool, x.device());
        let value = Tensor::constant(value, x.dtype(), x.device());
        Ok(inside.pad_zeros(grow)?.raw_where(&padded, &value.expand_to(padded.shape())))
    }

    /// All axes at once, where the device has a routine for it and nothing is cropped.
    #[track_caller]
    fn bordered(&self, pairs: &[(i64, i64)], mode: PadMode) -> Result<Option<Tensor>> {
        let Some(first) = pairs.iter().position(|&p| p != (0, 0)) else { return Ok(None) };
        if pairs.iter().any(|p| p.0 < 0 || p.1 < 0) || !self.device().backend().limits().layouts {
            return Ok(None);
        }
        let mut axes = Vec::with_capacity(pairs.len() - first);
        for (a, &(before, after)) in pairs.iter().enumerate().skip(first) {
            let (before, after) = (before as usize, after as usize);
            self.check_border(a, self, before, after, mode)?;
            axes.push(Axis { n: self.dims()[a], before, after });
        }
        let (edge, fill) = match mode {
            PadMode::Constant(value) => (Edge::Fill, value.to_bits()),
            PadMode::Reflect => (Edge::Reflect, 0),
            PadMode::Replicate => (Edge::Replicate, 0),
            PadMode::Circular => (Edge::Circular, 0),
        };
        let shape = self.dims()[..first].iter().copied().chain(axes.iter().map(Axis::out)).collect();
        let op = Op::Host(HostOp::Border(Arc::new(Border { edge, axes, fill })));
        let x = self.resolve();
        Ok(Some(x.make(op, &[&x], shape, x.dtype())))
    }

    /// An error if axis `a` of `x` has fewer elements than its border is made of.
    #[track_caller]
    fn check_border(&self, a: usize, x: &Tensor, l: usize, r: usize, mode: PadMode) -> Result<()> {
        let n = x.dims()[a];
        let most = match mode {
            PadMode::Reflect => n.saturating_sub(1),
            PadMode::Circular => n,
            PadMode::Replicate if n == 0 => 0,
            PadMode::Replicate | PadMode::Constant(_) => usize::MAX,
        };
        if l.max(r) > most {
            let why = format!("{l} and {r} around axis {a} of {} are more than its {n} elements give", x.shape());
            return Err(Error::value("pad", why).operand(self));
        }
        Ok(())
    }

    #[track_caller]
    fn pad_from_itself(&self, a: usize, before: i64, after: i64, mode: PadMode) -> Result<Tensor> {
        if (before, after) == (0, 0) {
            return Ok(self.resolve());
        }
        let circular = mode == PadMode::Circular;
        // A crop comes first where elements come from the other end (they must still be there), last elsewhere.
        let x = if circular { self.cropped(a, before, after) } else { self.resolve() };
        let n = x.dims()[a];
        let (l, r) = (before.max(0) as usize, after.max(0) as usize);
        self.check_border(a, &x, l, r, mode)?;
        let edge = |at: usize, k: usize| x.sliced(a, at, 1, 1).expand_to(&x.shape().with(a, k));
        let (left, right) = match mode {
            PadMode::Reflect => ((l > 0).then(|| x.sliced(a, l, -1, l)), (r > 0).then(|| x.sliced(a, n - 2, -1, r))),
            PadMode::Circular => ((l > 0).then(|| x.sliced(a, n - l, 1, l)), (r > 0).then(|| x.sliced(a, 0, 1, r))),
            PadMode::Replicate | PadMode::Constant(_) => ((l > 0).then(|| edge(0, l)), (r > 0).then(|| edge(n - 1, r))),
        };
        let parts: Vec<&Tensor> = left.iter().chain([&x]).chain(right.iter()).collect();
        let out = Tensor::cat(&parts, a as i64)?;
        Ok(if circular { out } else { out.cropped(a, before, after) })
    }

    /// Without what negative amounts take away.
    #[track_caller]
    fn cropped(&self, a: usize, before: i64, after: i64) -> Tensor {
        let n = self.dims()[a] as i64;
        let from = (-before).clamp(0, n);
        let to = (n + after.min(0)).clamp(from, n);
        self.sliced(a, from as usize, 1, (to - from) as usize)
    }

    /// The three axes (or more) that images have, or an error.
    #[track_caller]
    fn image(&self, op: &str) -> Result<(Shape, usize, usize, usize)> {
        let &[ref batch @ .., c, h, w] = self.dims() else {
            let why = format!("needs [.., channels, height, width], not {}", self.shape());
            return Err(Error::shape(op, &[self.shape()], why).operand(self));
        };
        Ok((Shape::from(batch), c, h, w))
    }

    /// `[.., c r^2, h, w]` as `[.., c, h r, w r]`: channels become pixels.
    #[track_caller]
    pub fn pixel_shuffle(&self, r: usize) -> Result<Tensor> {
        let (batch, c, h, w) = self.image("pixel_shuffle")?;
        let Some(rr) = r.checked_mul(r).filter(|&rr| rr > 0 && c.is_multiple_of(rr)) else {
            let why = format!("{c} channels of {} do not split into squares of {r}", self.shape());
            return Err(Error::shape("pixel_shuffle", &[self.shape()], why).operand(self));
        };
        let x = self.reshape_to(&Shape::from([batch.numel(), c / rr, r, r, h, w]));
        let x = x.permute([0, 1, 4, 2, 5, 3])?;
        Ok(x.reshape_to(&batch.iter().copied().chain([c / rr, h * r, w * r]).collect()))
    }

    /// `[.., c, h r, w r]` as `[.., c r^2, h, w]`: pixels become channels.
    #[track_caller]
    pub fn pixel_unshuffle(&self, r: usize) -> Result<Tensor> {
        let (batch, c, h, w) = self.image("pixel_unshuffle")?;
        if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            let why = format!("{h} by {w} pixels of {} do not split into squares of {r}", self.shape());
            return Err(Error::shape("pixel_unshuffle", &[self.shape()], why).operand(self));
        }
        let x = self.reshape_to(&Shape::from([batch.numel(), c, h / r, r, w / r, r]));
        let x = x.permute([0, 1, 3, 5, 2, 4])?;
        Ok(x.reshape_to(&batch.iter().copied().chain([c * r * r, h / r, w / r]).collect()))
    }

    /// Channels (axis 1) dealt out again: `groups` by `c / groups` transposed.
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Result<Tensor> {
        let &[n, c, ref rest @ ..] = self.dims() else {
            let why = format!("needs [batch, channels, ..], not {}", self.shape());
            return Err(Error::shape("channel_shuffle", &[self.shape()], why).operand(self));
        };
        if groups == 0 || !c.is_multiple_of(groups) {
            let why = format!("{c} channels of {} do not split into {groups} groups", self.shape());
            return Err(Error::shape("channel_shuffle", &[self.shape()], why).operand(self));
        }
        let x = self.reshape_to(&Shape::from([n, groups, c / groups, rest.iter().product()]));
        Ok(x.transpose(1, 2)?.reshape_to(self.shape()))
    }
}
